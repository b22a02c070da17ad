"""Weights of an ensemble where members have little to say."""

import numpy as np
import pytest

from sklearn_fsvc._src.stacking.weight_solvers import weigh_by_log_loss, weigh_by_squared_error


@pytest.fixture
def three(rng):
    """Targets, and scores of which the third adds a hundredth."""
    scores = rng.normal(size=(3, 200, 2))
    return scores, np.tensordot([0.6, 0.4, 0.01], scores, 1), rng.uniform(0.5, 2, 200)


def test_small_weights_are_dropped(three):
    """And the others are those of the others alone."""
    scores, Y, weight = three
    found = weigh_by_squared_error(scores, Y, weight)
    assert found[2] == 0
    np.testing.assert_allclose(found[:2], weigh_by_squared_error(scores[:2], Y, weight))
    assert (weigh_by_squared_error(scores, Y + 0.3 * scores[2], weight) > 0.2).all()


def test_equal_members(three):
    """The equations have no single solution; the sum is as good as one of them."""
    scores, Y, weight = three
    found = weigh_by_squared_error(scores[[0, 0, 1]], Y, weight)
    expected = weigh_by_squared_error(scores[:2], Y, weight)
    np.testing.assert_allclose([found[:2].sum(), found[2]], expected, rtol=1e-6)


def test_best_member_if_no_combination_helps(three):
    _, Y, weight = three
    opposite = np.stack([-Y, -0.5 * Y])
    np.testing.assert_array_equal(weigh_by_squared_error(opposite, Y, weight), [0, 1])
    labels = (Y > 0).astype(float)
    labels[:, 1] = 1 - labels[:, 0]
    found = weigh_by_log_loss(np.stack([-labels, -labels]), labels, [2], weight)
    np.testing.assert_array_equal(found, [0.5, 0.5])


@pytest.mark.parametrize("size", [0.0, 1e-200])
def test_zero_scores_select_the_first_member(rng, size):
    """As of a constant y, whose mean is taken off, or of numbers whose squares are 0."""
    weights = weigh_by_squared_error(
        np.full((2, 30, 1), size), np.full((30, 1), size), rng.uniform(size=30)
    )
    np.testing.assert_array_equal(weights, [1, 0])


def test_members_that_are_always_right(rng):
    """No weights are the best, and those that are found add up to 1."""
    labels = np.eye(3)[rng.integers(0, 3, 50)]
    found = weigh_by_log_loss(np.stack([labels, labels]), labels, [3], np.ones(50))
    assert found.sum() == pytest.approx(1)
