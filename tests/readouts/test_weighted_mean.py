"""The weighted mean and its standard error."""

import numpy as np
import pytest

from sklearn_fsvc._src.readouts.weighted_mean import mean_and_error


def test_equal_weights_have_the_standard_error_of_the_mean():
    values = np.random.default_rng(0).normal(size=50)
    mean, error = mean_and_error(values, np.full(50, 3.0))
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(values.std() / np.sqrt(50))


def test_weights_multiply_the_values_and_their_errors():
    values, weight = np.array([1.0, 3.0, 5.0]), np.array([2.0, 1.0, 1.0])
    mean, error = mean_and_error(values, weight)
    assert mean == pytest.approx(2.5)
    assert error == pytest.approx(np.sqrt(0.25 * 1.5**2 + 0.0625 * (0.5**2 + 2.5**2)))
