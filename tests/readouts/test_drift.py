"""The validation error on the newest samples."""

import numpy as np
import pytest

from sklearn_fsvc._src.readouts.drift import WINDOW, ErrorMonitor


def monitored(errors, n_rows):
    monitor = ErrorMonitor()
    for error in errors:
        monitor = monitor.add(error, n_rows)
    return monitor


def test_the_first_errors_are_averaged():
    monitor = monitored([1.0, 2.0, 6.0], WINDOW // 4)
    assert monitor.newest == pytest.approx(3.0)
    assert monitor.ratio is None


def test_later_errors_replace_earlier_ones():
    errors = np.repeat([1.0, 4.0], 2 * WINDOW)
    assert monitored(errors[: 2 * WINDOW], 1).ratio == pytest.approx(1.0)
    after = [monitored(errors[: 2 * WINDOW + n], 1).newest for n in (100, WINDOW, 2 * WINDOW)]
    expected = 4 - 3 * np.exp(-np.array([0.2, 1, 2]))
    np.testing.assert_allclose(after, expected, rtol=0.01)
    assert monitored(errors, 1).ratio == pytest.approx(expected[-1], rel=0.01)


def test_the_lowest_error_is_kept():
    monitor = monitored([4.0, 1.0, 2.0], 100 * WINDOW)
    assert monitor.lowest == pytest.approx(1.0, rel=0.05)
    assert monitor.ratio == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(("last", "ratio"), [(0.0, 1.0), (1.0, 2.0)])
def test_an_error_of_zero(last, ratio):
    assert monitored([0.0, last], WINDOW).ratio == ratio
