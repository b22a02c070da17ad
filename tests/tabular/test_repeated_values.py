"""RepeatedValueEncoder: columns whose exact values matter are found, and no others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sklearn_fsvc import TanhClassifier, TanhProjector, make_tabular_pipeline
from sklearn_fsvc._src.tabular import repeated_values
from sklearn_fsvc._src.tabular.repeated_values import RepeatedValueEncoder
from sklearn_fsvc._src.tabular.target_means import cross_fit, draw_folds, estimate_smoothing

N = 2000
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 60, size=(2 * N, 4)).astype(float)
EFFECTS = RNG.normal(size=60)
EFFECT = EFFECTS[CODES[:, 1].astype(int)]
# Half of the samples have no gain, and some amounts are those of the positive class.
GAIN = np.where(RNG.random(2 * N) < 0.5, 0, 100 * RNG.integers(1, 40, 2 * N))
NOISE = RNG.normal(size=2 * N)
# name -> column 1, target.
EXACT = {
    "codes": (CODES[:, 1], EFFECT + NOISE),
    "codes of classes": (CODES[:, 1], EFFECT + NOISE > 0.5),
    "three classes": (CODES[:, 1], np.digitize(EFFECT + NOISE, [-0.5, 0.5])),
    "amounts": (GAIN, (GAIN % 700 == 0) & (GAIN > 0) | (NOISE > 1)),
    "rare classes": (CODES[:, 1], np.where(EFFECT > 0.8, 1.2, 4) < NOISE),
}
SMOOTH = {
    "noise": (CODES[:, 1], NOISE),
    "heavy tails": (CODES[:, 1], np.exp(2 * NOISE)),
    "rare": (CODES[:, 1], NOISE > 2.3),
    "slope": (CODES[:, 1], CODES[:, 1] + NOISE),
    "small effects": (CODES[:, 1], CODES[:, 1] / 17 + 0.06 * EFFECT),
    "wave": (CODES[:, 1], np.sin(CODES[:, 1] / 8) + 0.3 * NOISE),
    "rounded": (NOISE.round(2), NOISE**2 + 0.1 * EFFECT),
    "zero or more": (np.where(GAIN > 0, abs(NOISE), 0), (GAIN > 0) + 0.1 * NOISE),
    "continuous": (NOISE, NOISE > 0),
    "copies": (np.tile(NOISE[:N], 2), np.tile(RNG.random(N), 2)),
    "one class": (CODES[:, 1], np.zeros(2 * N, bool)),
}


def table_of(column):
    return np.column_stack([CODES[:, 0], column, CODES[:, 2:]])


def fitted(X, y, **params):
    task = "classification" if y.dtype.kind in "bi" else "regression"
    return RepeatedValueEncoder(task).fit(X, y, **params)


@pytest.mark.parametrize(("column", "y"), EXACT.values(), ids=EXACT)
def test_exact_values(column, y):
    assert fitted(table_of(column), y).columns_ == [1]


@pytest.mark.parametrize(("column", "y"), SMOOTH.values(), ids=SMOOTH)
def test_smooth_functions(column, y):
    encoder = fitted(table_of(column), y)
    assert encoder.columns_ == []
    assert encoder.transform(table_of(column)[:3]).shape == (3, 0)


def test_the_order_of_samples_is_irrelevant():
    column, y = EXACT["amounts"]
    order = np.lexsort([column, y])
    assert fitted(table_of(column)[order], y[order]).columns_ == [1]


def test_pipeline():
    column, y = EXACT["amounts"]
    X = table_of(column)
    network = TanhClassifier(100, feature_weights=None, alpha=0.1, random_state=0)
    model = make_tabular_pipeline(network).fit(X[:N], y[:N])
    without = clone(model).set_params(preprocessing__repeated_values="drop").fit(X[:N], y[:N])
    assert model.score(X[N:], y[N:]) > without.score(X[N:], y[N:]) + 0.03


def test_means():
    """Of values, of missing values and of unknown ones; shrunk towards the overall mean."""
    X, y = CODES[:, 1:2].copy(), EFFECT + NOISE + 10
    X[::20] = np.nan
    encoder = fitted(X, y)
    Y = ((y - y.mean()) / y.std())[:, None]
    cell = np.where(np.isnan(X[:, 0]), 60, np.nan_to_num(X[:, 0])).astype(int)
    smoothing, _ = estimate_smoothing(cell, Y)
    sums, counts = np.bincount(cell, Y[:, 0]), np.bincount(cell)
    expected = sums / (counts + smoothing)  # the overall mean is 0
    new = np.array([*range(60), np.nan, 7.5, -1, 99])[:, None]
    encoded = encoder.transform(new)
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded[:, 0], [*expected, 0, 0, 0], atol=1e-6)


def test_training_samples_are_encoded_by_other_folds():
    X, y = CODES[:, 1:2], EFFECT + NOISE
    groups = np.arange(2 * N) // 4
    Y = ((y - y.mean()) / y.std())[:, None]
    cell = X[:, 0].astype(int)
    smoothing, _ = estimate_smoothing(cell, Y)
    for each in (None, groups):
        encoded = RepeatedValueEncoder("regression").fit_transform(X, y, each)
        _, expected = cross_fit(draw_folds(2 * N, each), cell, 60, Y, smoothing)
        np.testing.assert_allclose(encoded, expected, atol=1e-6)


def test_values_that_identify_a_group():
    """Other groups do not have the value, so that its mean target predicts nothing new."""
    groups = np.arange(2 * N) // 20
    X = RNG.permutation(2 * N // 20)[groups].astype(float)[:, None]
    y = RNG.normal(size=2 * N // 20)[groups] + 0.1 * NOISE
    assert fitted(X, y).columns_ == [0]
    assert fitted(X, y, groups=groups).columns_ == []


def test_float32_and_float64_are_equal():
    X, y = (CODES / 10)[:, 1:2], EFFECT + NOISE
    for fit_dtype, dtype in [(np.float32, np.float64), (np.float64, np.float32)]:
        encoder = fitted(X.astype(fit_dtype), y)
        np.testing.assert_array_equal(
            encoder.transform(X.astype(dtype)), encoder.transform(X.astype(fit_dtype))
        )


def test_names_and_origins():
    _, y = EXACT["three classes"]
    table = pd.DataFrame(CODES, columns=["a", "region", "b", "c"])
    encoder = RepeatedValueEncoder().fit(table, y)
    names = ["mean(region)_0", "mean(region)_1", "mean(region)_2"]
    assert encoder.get_feature_names_out().tolist() == names
    assert encoder.feature_origins() == [(1,)] * 3


def test_numbers_of_columns_and_outputs():
    y = EFFECT + NOISE
    for n_outputs, n_found in [(6, 2), (12, 1), (13, 0)]:
        X = np.column_stack([CODES[:, 1]] * 3)
        encoder = RepeatedValueEncoder("regression").fit(X, np.tile(y[:, None], n_outputs))
        assert len(encoder.columns_) == n_found
        assert encoder.transform(X).shape[1] == n_found * n_outputs
    wide = np.tile(CODES, 17)
    assert fitted(wide[:, :64], y).columns_ != []
    assert fitted(wide[:, :65], y).columns_ == []


def test_without_a_target():
    y = EFFECT + NOISE
    assert RepeatedValueEncoder().fit(CODES).columns_ == []
    assert RepeatedValueEncoder(None).fit(CODES, y).columns_ == []
    projector = make_tabular_pipeline(TanhProjector(2))["preprocessing"].fit(CODES, y)
    assert not any("repeated" in name for name in projector.get_feature_names_out())


def test_large_tables_are_sampled(monkeypatch):
    """The same samples each time, so that refits are equal; means are those of all samples."""
    monkeypatch.setattr(repeated_values, "_SELECTION_SAMPLES", N)
    column, y = EXACT["codes"]
    encoder = fitted(table_of(column), y)
    assert encoder.columns_ == [1]
    np.testing.assert_array_equal(clone(encoder).fit(table_of(column), y).means_, encoder.means_)
    assert encoder.values_[0].tolist() == list(range(60))
