"""Scores of some rows without themselves, against readouts that are trained without them."""

import numpy as np
import pytest

import naive
from readouts.left_out import without_each_row
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.estimators.targets import ClassTargets
from sklearn_fsvc._src.layers import TanhLayer
from sklearn_fsvc._src.readouts.ridge import gather
from sklearn_fsvc._src.readouts.sample_left_out import sample_left_out
from sklearn_fsvc._src.rows.job import Job
from sklearn_fsvc._src.rows.samples import Samples


@pytest.mark.parametrize("weighted", [False, True])
def test_some_rows_are_scored_without_themselves(weighted, rng):
    X, y, rows = rng.normal(size=(60, 4)), np.arange(60) % 3, np.array([3, 17, 18, 59])
    weight = rng.uniform(0.2, 3, 60) if weighted else None
    layer = TanhLayer(rng.normal(size=(9, 4)), rng.normal(size=9))
    samples = Samples(X, ClassTargets(y, 3), weight)
    with get_engine("jit") as engine:
        job = Job(engine)
        (statistics,) = gather(job, [layer], samples)
        found = sample_left_out(job, layer, samples, statistics, 0.5, rows)
    expected = without_each_row(naive.hidden(layer, X), np.eye(3)[y], 0.5, weight)
    np.testing.assert_allclose(found, expected[rows], atol=1e-10)


def test_equal_rows_are_left_out_together(rng):
    X, y = np.repeat(rng.normal(size=(30, 4)), 2, axis=0), rng.integers(0, 2, 60)
    layer = TanhLayer(rng.normal(size=(9, 4)), rng.normal(size=9))
    samples = Samples(X, ClassTargets(y, 2))
    with get_engine("jit") as engine:
        job = Job(engine)
        (statistics,) = gather(job, [layer], samples)
        found = sample_left_out(job, layer, samples, statistics, 0.5, np.array([10]))
    others = np.setdiff1d(np.arange(60), [10, 11])
    H = naive.hidden(layer, X)
    W, b = naive.ridge(H[others], np.eye(2)[y[others]], 0.5)
    np.testing.assert_allclose(found, (H @ W.T + b)[[10]], atol=1e-10)
