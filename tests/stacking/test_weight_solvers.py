"""Weights of an ensemble in degenerate cases."""

import numpy as np
import pytest

from sklearn_fsvc._src.stacking.weight_solvers import weigh_by_log_loss, weigh_by_squared_error


@pytest.fixture
def problem(rng):
    """Return scores, their weighted sum with a small third weight, and sample weights."""
    scores = rng.normal(size=(3, 200, 2))
    return scores, np.tensordot([0.6, 0.4, 0.01], scores, 1), rng.uniform(0.5, 2, 200)


def test_small_weights_are_dropped(problem):
    """The other weights are those without the dropped member."""
    scores, Y, weight = problem
    actual = weigh_by_squared_error(scores, Y, weight)
    assert actual[2] == 0
    np.testing.assert_allclose(actual[:2], weigh_by_squared_error(scores[:2], Y, weight))
    assert (weigh_by_squared_error(scores, Y + 0.3 * scores[2], weight) > 0.2).all()


def test_equal_members(problem):
    """The solution is not unique; the sum of their weights is that of a single member."""
    scores, Y, weight = problem
    actual = weigh_by_squared_error(scores[[0, 0, 1]], Y, weight)
    expected = weigh_by_squared_error(scores[:2], Y, weight)
    np.testing.assert_allclose([actual[:2].sum(), actual[2]], expected, rtol=1e-6)


def test_best_member_if_no_combination_helps(problem):
    _, Y, weight = problem
    opposite = np.stack([-Y, -0.5 * Y])
    np.testing.assert_array_equal(weigh_by_squared_error(opposite, Y, weight), [0, 1])
    labels = (Y > 0).astype(float)
    labels[:, 1] = 1 - labels[:, 0]
    actual = weigh_by_log_loss(np.stack([-labels, -labels]), labels, [2], weight)
    np.testing.assert_array_equal(actual, [0.5, 0.5])


@pytest.mark.parametrize("size", [0.0, 1e-200])
def test_zero_scores_select_the_first_member(rng, size):
    """As for a constant, centred y, or for numbers whose squares underflow."""
    weights = weigh_by_squared_error(
        np.full((2, 30, 1), size), np.full((30, 1), size), rng.uniform(size=30)
    )
    np.testing.assert_array_equal(weights, [1, 0])


def test_members_without_errors(rng):
    """All weights have the same loss; the returned ones add up to 1."""
    labels = np.eye(3)[rng.integers(0, 3, 50)]
    actual = weigh_by_log_loss(np.stack([labels, labels]), labels, [3], np.ones(50))
    assert actual.sum() == pytest.approx(1)
