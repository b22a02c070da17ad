"""ThresholdEncoder: jumps of the target at thresholds are found, and smooth changes are not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sklearn_fsvc import TanhClassifier, TanhProjector, make_tabular_pipeline
from sklearn_fsvc._src.tabular import thresholds
from sklearn_fsvc._src.tabular.thresholds import Threshold, ThresholdEncoder

N = 1000
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(2 * N, 8))
A, B, C = X[:, :3].T
# name -> target, and thresholds of columns.
JUMPS = {
    "3 of 5": ((X[:, :5] > 0).sum(axis=1) >= 3, [(j, 0) for j in range(5)]),
    "tree": (np.where(A > 0.2, B > -0.3, C > 0.3), [(0, 0.2), (1, -0.3), (2, 0.3)]),
    "interval": (abs(A) < 0.5, [(0, -0.5), (0, 0.5)]),
    "three classes": ((A > 0.2).astype(int) + (B > 0.2), [(0, 0.2), (1, 0.2)]),
    "step beside a slope": (3 * (A > 0.25) + B + 0.3 * RNG.normal(size=2 * N), [(0, 0.25)]),
}
SMOOTH = {
    "noise": RNG.permutation(2 * N) < N,
    "linear": X.sum(axis=1) > 0.5,
    "slope": A + 0.1 * RNG.normal(size=2 * N),
    "product": A * B,
    "one class": np.zeros(2 * N, bool),
    "distance": np.hypot(A, B) < 0.6,
    "logistic": RNG.random(2 * N) < 1 / (1 + np.exp(-4 * A)),
}


def fitted(X, y):
    return ThresholdEncoder("classification" if y.dtype.kind in "bi" else "regression").fit(X, y)


@pytest.mark.parametrize("name", JUMPS)
def test_thresholds_of_jumps(name):
    y, expected = JUMPS[name]
    found = sorted(fitted(X[:N], y[:N]).thresholds_)
    assert [each.column for each in found] == [column for column, _ in expected]
    np.testing.assert_allclose([each.value for each in found], [v for _, v in expected], atol=0.03)


@pytest.mark.parametrize("y", SMOOTH.values(), ids=SMOOTH)
def test_no_thresholds(y):
    encoder = fitted(X[:N], y[:N])
    assert encoder.thresholds_ == []
    assert encoder.transform(X[:3]).shape == (3, 0)


def test_columns_that_only_get_more_weight(monkeypatch):
    """A second copy of an informative column among irrelevant ones lowers the error, too."""
    wide = np.hstack([A[:, None], RNG.normal(size=(2 * N, 20))])[:N]
    y = A[:N] + 0.2 * RNG.normal(size=N)
    monkeypatch.setattr(thresholds, "_MIN_JUMP", -1.0)
    monkeypatch.setattr(thresholds, "_MIN_CONCENTRATION", 0.0)
    assert fitted(wide, y).thresholds_ == []


def test_pipeline():
    y, _ = JUMPS["3 of 5"]
    rows, n = X[:, :5], 3 * N // 2
    network = TanhClassifier(300, feature_weights=None, alpha=0.01, random_state=0)
    model = make_tabular_pipeline(network).fit(rows[:n], y[:n])
    assert model.score(rows[n:], y[n:]) > 0.98
    without = clone(model).set_params(preprocessing__thresholds="drop").fit(rows[:n], y[:n])
    assert without.score(rows[n:], y[n:]) < 0.95


def test_features():
    """By hand: a value at the threshold is not above it."""
    rows = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 4.0]])
    found = [Threshold(1, 5.0), Threshold(0, 1.5)]
    np.testing.assert_array_equal(ThresholdEncoder._compute(rows, found), [[0, 0], [1, 1], [0, 1]])


def test_names_and_origins():
    y, _ = JUMPS["interval"]
    table = pd.DataFrame(X[:N, :2], columns=["age", "size"]).round(2)
    encoder = ThresholdEncoder().fit(table, y[:N])
    assert set(encoder.get_feature_names_out()) == {"age>-0.505", "age>0.505"}
    assert encoder.feature_origins() == [(0,), (0,)]


@pytest.mark.parametrize(
    "change", [np.exp, lambda X: X * 1e300, lambda X: X * 1e-300, lambda X: 1e12 + 1e3 * X],
    ids=["exp", "huge", "tiny", "offset"],
)  # fmt: skip
def test_increasing_functions_of_the_values(change):
    """Only the order of the values matters, which float32 does not represent."""
    y, _ = JUMPS["3 of 5"]
    H = fitted(X[:N], y[:N]).transform(X[:N])
    np.testing.assert_array_equal(fitted(change(X[:N]), y[:N]).transform(change(X[:N])), H)


def test_a_threshold_between_adjacent_numbers():
    values = np.array([1.0, np.nextafter(1, 2), 1e308, 1.5e308])
    for rank in range(3):
        assert values[rank] <= thresholds._between(values, rank) < values[rank + 1]


def test_columns_of_few_values():
    """Their values are far apart, so a network needs no indicator."""
    y, _ = JUMPS["3 of 5"]
    assert fitted(np.floor(X[:N] * 10), y[:N]).thresholds_ == []
    assert fitted(np.floor(X[:N] * 50), y[:N]).thresholds_ != []


def test_numbers_of_samples_columns_and_outputs():
    y, _ = JUMPS["interval"]
    for n_outputs, n_found in [(30, 2), (31, 0)]:
        encoder = ThresholdEncoder("regression").fit(
            X[:300], np.tile(1.0 * y[:300, None], n_outputs)
        )
        assert len(encoder.thresholds_) == n_found
    assert fitted(X[:199], y[:199]).thresholds_ == []
    assert fitted(X[:300], y[:300]).thresholds_ != []
    wide = np.hstack([X[:300]] * 9)
    assert fitted(wide[:, :64], y[:300]).thresholds_ != []
    assert fitted(wide[:, :65], y[:300]).thresholds_ == []


def test_without_a_target():
    y, _ = JUMPS["interval"]
    assert ThresholdEncoder().fit(X).thresholds_ == []
    assert ThresholdEncoder(None).fit(X[:N], y[:N]).thresholds_ == []
    projector = make_tabular_pipeline(TanhProjector(2))["preprocessing"].fit(X[:N], y[:N])
    assert not any("threshold" in name for name in projector.get_feature_names_out())


def test_missing_values_are_the_median():
    y, _ = JUMPS["interval"]
    table = X[:N, :2].copy()
    table[::50, 0] = np.nan
    preprocessing = make_tabular_pipeline(TanhClassifier())["preprocessing"].fit(table, y[:N])
    encoder = preprocessing.named_transformers_["thresholds"]
    new = np.array([[np.nan, 0.0], [np.nanmedian(table[:, 0]), 0.0]])
    first, second = encoder.transform(new)
    assert len(first) == 2
    np.testing.assert_array_equal(first, second)


def test_large_tables_are_sampled(monkeypatch):
    """The same samples each time, so that refits are equal; and fewer for the regression."""
    monkeypatch.setattr(thresholds, "_SAMPLES", N)
    monkeypatch.setattr(thresholds, "_RIDGE_SAMPLES", 3 * N // 4)
    grown, grow_trees = [], thresholds._grow_trees

    def count_samples(ranks, *args):
        grown.append(len(ranks))
        return grow_trees(ranks, *args)

    monkeypatch.setattr(thresholds, "_grow_trees", count_samples)
    y, expected = JUMPS["tree"]
    encoder = fitted(X, y)
    assert [each.column for each in sorted(encoder.thresholds_)] == [j for j, _ in expected]
    assert clone(encoder).fit(X, y).thresholds_ == encoder.thresholds_
    assert set(grown) == {N}
