"""Groups of equal rows."""

import numpy as np
import pytest

from fake_sources import TiledArray
from readouts.brute_force import (
    some_weights,
)
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.readouts.duplicates import find_duplicates
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine


@pytest.mark.parametrize("block_size", [1, 7, 2**16])
@pytest.mark.parametrize("rows", [None, np.arange(0, 60, 3)])
def test_groups_of_equal_rows(block_size, rows, rng):
    """Those of equal rows have their total weight and mean target, in blocks of any size."""
    group = rng.permutation(np.arange(60) % 25)
    X, y, weight = rng.normal(size=(25, 4))[group], np.arange(60) % 3, some_weights()
    X[X < -1] = 0.0
    X[::2][X[::2] == 0] = -0.0
    samples = Samples(TiledArray(X, 7), OneHotTargets(y, 3), weight)
    duplicates = find_duplicates(Job(get_engine("jit")), samples, rows, block_size)
    for i in range(60) if rows is None else rows:
        equal = (X[i] == X).all(axis=1)
        np.testing.assert_array_equal(equal, duplicates.group == duplicates.group[i])
        total = weight[equal].sum()
        expected = weight[equal] @ np.eye(3)[y[equal]] / total if total else np.zeros(3)
        (found_weight,), (mean,) = duplicates.of([i], np)
        np.testing.assert_allclose(found_weight, total)
        np.testing.assert_allclose(mean, expected)


def test_distinct_rows_have_no_groups(rng):
    samples = Samples(rng.normal(size=(60, 4)), OneHotTargets(np.arange(60) % 3, 3))
    assert find_duplicates(Job(get_engine("jit")), samples) is None
