"""The datasets of packages: targets that are drawn from data frames."""

import numpy as np
import pandas as pd
import pytest

from benchmark import benchmark

N = 600


@pytest.fixture
def frame(rng):
    """Text, numbers with a missing value, counts, and columns that are no target."""
    return pd.DataFrame({
        "rownames": np.arange(N),
        "group": np.repeat(["a", "b", "c"], [300, 291, 9]),
        "price": np.where(np.arange(N) == 5, np.nan, rng.normal(size=N)),
        "count": rng.integers(0, 4, N),
        "id": [f"row {i}" for i in range(N)],
        "constant": 1,
        "empty": np.nan,
    })  # fmt: skip


def test_targets_of_classification(frame):
    """Classes of fewer than ten rows are left out, and numbers are classes only if they are two."""
    table = benchmark("packaged")._read_frame("data", frame, "classification")
    assert table.name == "data: group"
    assert np.bincount(table.y).tolist() == [300, 291]
    assert [str(dtype) for dtype in table.X.dtypes] == ["float64"] * 4  # without identifiers
    assert len(table.X) == len(table.y)


def test_targets_of_regression(frame):
    table = benchmark("packaged")._read_frame("data", frame, "regression")
    assert table.name == "data: price"
    np.testing.assert_array_equal(table.y, frame["price"].drop(5))
    assert table.X.columns.tolist() == ["c0", "x1", "x2", "x3"]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_frames_without_a_dataset(frame, task):
    read = benchmark("packaged")._read_frame
    assert read("few rows", frame[:499], task) is None
    assert read("few columns", frame[["rownames", "group", "price"]], task) is None
    assert read("no target", frame.assign(group="a", price=1), task) is None


def test_large_frames_are_sampled(frame):
    large = pd.concat([frame] * 3, ignore_index=True)
    table = benchmark("packaged")._read_frame("data", large, "regression")
    assert 900 < len(table.y) <= 1000
