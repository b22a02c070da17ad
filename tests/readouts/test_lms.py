"""The blocked LMS rule equals the rule sample by sample."""

import numpy as np
import pytest

import naive
from sklearn_fsvc._src.readouts.lms import LMS_BLOCK, lms_update, untrained
from sklearn_fsvc._src.targets.encoding import OneHotTargets


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, LMS_BLOCK, LMS_BLOCK + 1, 3 * LMS_BLOCK + 7])
def test_lms_equals_the_sequential_rule(engine, rng, n, weighted):
    H, Y = rng.random((n, 12)), rng.random((n, 4))
    weight = rng.random(n) if weighted else None
    W = rng.random((4, 12))
    expected = naive.lms(W, H, Y, 0.06, weight)
    on_device = [a if a is None else engine.to_device(a) for a in (W, H, Y, weight)]
    lms_update(*on_device[:3], 0.06, on_device[3], engine.algebra)
    np.testing.assert_allclose(engine.to_host(on_device[0]), expected, rtol=0, atol=1e-12)


def test_lms_after_each_sample(rng):
    H, Y = rng.random((20, 5)), rng.random((20, 2))
    for n in range(1, 21):
        W = np.zeros((2, 5))
        lms_update(W, H[:n], Y[:n], 0.1)
        np.testing.assert_allclose(W, naive.lms(np.zeros((2, 5)), H[:n], Y[:n], 0.1), atol=1e-14)


def test_untrained_sums_the_activities_of_each_class():
    W = untrained(OneHotTargets.of_column(np.array([2, 0, 2, 1]), 3), np.array([1, 0, 2, 3]))
    np.testing.assert_array_equal(W @ [1, 10, 100, 1000], [1, 1000, 110])
