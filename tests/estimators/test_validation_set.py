"""Validation samples, X_val and y_val, that are passed to fit."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss

import naive
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchClassifier,
    RBFClassifier,
    RBFRegressor,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)

TANH = {"feature_weights": None, "scale": 0.5, "random_state": 0}
RBF = {
    "feature_weights": None, "metric": "manhattan", "kernel": "laplacian", "random_state": 0
}  # fmt: skip


def make_data(n=600, n_groups=40, seed=0):
    """Return X and y: each group has its own centre and an unpredictable offset."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, n)
    X = 3 * rng.normal(size=(n_groups, 3))[groups] + 0.3 * rng.normal(size=(n, 3))
    y = rng.normal(size=n_groups)[groups] + X[:, 0] / 6 + 0.1 * rng.normal(size=n)
    return X, y


X, Y = make_data()
# Samples of other groups.
X_VAL, Y_VAL = make_data(300, 100, seed=1)
X_NEW, Y_NEW = make_data(3000, 900, seed=2)
VALIDATION = {"X_val": X_VAL, "y_val": Y_VAL}
CLASS_VALIDATION = {"X_val": X_VAL, "y_val": Y_VAL > 0}


@pytest.mark.parametrize(
    "network",
    [
        TanhRegressor(200, **TANH),
        TanhRegressor(900, **TANH),  # solved in the dual
        TanhRegressor(200, feature_weights="map", random_state=0),
        RBFRegressor(200, **RBF),
        RBFRegressor(200, uncertainty=True, **RBF),
        pytest.param(StackedRegressor(random_state=0), marks=pytest.mark.exhaustive),
    ],
)
def test_validation_samples_improve_the_choices(network):
    plain, validated = clone(network).fit(X, Y), clone(network).fit(X, Y, **VALIDATION)
    assert validated.score(X_NEW, Y_NEW) > plain.score(X_NEW, Y_NEW)
    if not isinstance(network, StackedRegressor):
        assert validated.alpha_ > 3 * plain.alpha_


@pytest.mark.parametrize("readout", ["ridge", "softmax"])
def test_penalties_of_classifiers(readout):
    model = TanhClassifier(200, readout=readout, **TANH)
    plain, validated = clone(model).fit(X, Y > 0), clone(model).fit(X, Y > 0, **CLASS_VALIDATION)
    assert validated.alpha_ > plain.alpha_


@pytest.mark.parametrize(
    ("n_hidden", "is_weighted"),
    [
        (80, True), (400, False),  # the larger one is solved in the dual
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in ((80, False), (400, True))),
    ],
)  # fmt: skip
def test_errors_of_penalties_are_those_on_the_validation_samples(n_hidden, is_weighted):
    """The search uses half of the units; scikit-learn's ridge gives the same errors."""
    weight = np.random.default_rng(0).random(len(X_VAL)) if is_weighted else None
    rows, y = X[:150], Y[:150]
    model = TanhRegressor(n_hidden, **TANH).fit(rows, y, **VALIDATION, sample_weight_val=weight)
    H, H_val = (naive.of_model(model, each)[:, : n_hidden // 2] for each in (rows, X_VAL))
    results = model.search_results_
    assert len(results["alpha"]) > 2
    assert model.alpha_ == results["alpha"][results["error"].argmin()]
    for alpha, error in zip(results["alpha"], results["error"], strict=True):
        residuals = Ridge(alpha).fit(H, y).predict(H_val) - Y_VAL
        expected = np.average(np.square(residuals), weights=weight) / y.var()
        assert error == pytest.approx(expected, rel=1e-3)


def test_nothing_is_fitted_to_validation_samples():
    model = RBFRegressor(100, **RBF).fit(X, Y, **VALIDATION)
    assert np.isin(model.center_targets_.round(9), Y.round(9)).all()
    assert model.target_mean_ == pytest.approx(Y.mean())
    H, H_new = naive.of_model(model, X), naive.of_model(model, X_NEW)
    expected = Ridge(model.alpha_).fit(H, Y).predict(H_new)
    np.testing.assert_allclose(model.predict(X_NEW), expected, rtol=1e-6)


def test_feature_weights_are_validated():
    """The last feature is the offset in the training samples, and noise in the others."""
    rng = np.random.default_rng(0)
    leaking = np.column_stack([X, 3 * Y])
    X_val, X_new = (np.column_stack([x, rng.normal(size=len(x))]) for x in (X_VAL, X_NEW))
    network = RBFRegressor(200, kernel="laplacian", random_state=0)
    plain = clone(network).fit(leaking, Y)
    validated = clone(network).fit(leaking, Y, X_val=X_val, y_val=Y_VAL)
    assert validated.score(X_new, Y_NEW) > plain.score(X_new, Y_NEW)
    assert plain.search_results_["error"].min() < 0.2
    assert validated.search_results_["error"].min() > 0.5


@pytest.mark.parametrize(
    "model",
    [
        TanhClassifier(100, **TANH), TanhClassifier(900, **TANH),
        RBFClassifier(100, **RBF | {"kernel": "triangular"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("distance", [0, 1e6])
def test_temperatures_minimise_the_log_loss_of_validation_samples(model, distance):
    """RBF units do not cover distant samples, which are scored by their nearest unit."""
    y, y_val = (np.digitize(each, [-0.5, 0.5]) for each in (Y, Y_VAL))
    X_val = X_VAL.copy()
    X_val[::2] += distance
    model = clone(model).fit(X, y, X_val=X_val, y_val=y_val)
    logits = naive.logits(model.decision_function(X_val), model.score_scale_) / model.temperature_
    losses = []
    for factor in (0.95, 1, 1.05):
        P = np.exp(factor * logits)
        losses.append(log_loss(y_val, P / P.sum(axis=1, keepdims=True)))
    assert losses[1] < min(losses[0], losses[2])
    assert log_loss(y_val, model.predict_proba(X_val)) == pytest.approx(losses[1])


@pytest.mark.parametrize("model", [RBFClassifier(50, **RBF), TanhRegressor(50, **TANH)])
def test_weights_of_zero_remove_validation_samples(model):
    y, y_val = (Y, Y_VAL) if isinstance(model, TanhRegressor) else (Y > 0, Y_VAL > 0)
    weight = np.repeat([2.0, 0.0], 150)
    some = clone(model).fit(X, y, X_val=X_VAL[:150], y_val=y_val[:150])
    zeros = clone(model).fit(X, y, X_val=X_VAL, y_val=y_val, sample_weight_val=weight)
    assert zeros.alpha_ == some.alpha_
    np.testing.assert_allclose(zeros.predict(X_NEW), some.predict(X_NEW), rtol=1e-9)
    with pytest.raises(ValueError, match="sample_weight_val is zero for all"):
        clone(model).fit(X, y, X_val=X_VAL, y_val=y_val, sample_weight_val=0 * weight)


def test_transformed_targets():
    """y_val may be below all y, where the logarithm has no value."""
    y, y_val = np.exp(2 * Y), np.maximum(np.exp(2 * Y_VAL) - 0.5, 0)
    model = RBFRegressor(100, target_transform="log", **RBF)
    plain, validated = clone(model).fit(X, y), clone(model).fit(X, y, X_val=X_VAL, y_val=y_val)
    spread = [np.ptp(fitted.smearing_) for fitted in (plain, validated)]
    assert spread[1] > 1.5 * spread[0]
    assert y_val.min() < y.min()


def test_negative_y_val_has_no_logarithm():
    y, y_val, weight = np.exp(Y), np.exp(Y_VAL), np.arange(300) != 7
    y_val[7] = -1.5
    model = RBFRegressor(20, target_transform="log", **RBF)
    with pytest.raises(ValueError, match=r'y_val: target_transform="log" needs .* contains -1\.5'):
        clone(model).fit(X, y, X_val=X_VAL, y_val=y_val)
    model.fit(X, y, X_val=X_VAL, y_val=y_val, sample_weight_val=weight)  # not of weight 0


def test_several_outputs_and_labels():
    y, y_val = np.column_stack([Y, X[:, 1]]), np.column_stack([Y_VAL, X_VAL[:, 1]])
    assert TanhRegressor(80, **TANH).fit(X, y, X_val=X_VAL, y_val=y_val).predict(X).shape == y.shape
    labels, labels_val = (y > 0).astype(int), (y_val > 0).astype(int)
    model = TanhClassifier(80, readout="softmax", **TANH)
    assert model.fit(X, labels, X_val=X_VAL, y_val=labels_val).multilabel_
    mixed = np.column_stack([Y > 0, np.digitize(X[:, 1], [-1, 1])])
    mixed_val = np.column_stack([Y_VAL > 0, np.digitize(X_VAL[:, 1], [-1, 1])])
    model = RBFClassifier(80, **RBF).fit(X, mixed, X_val=X_VAL, y_val=mixed_val)
    assert len(model.temperature_) == len(model.score_scale_) == 2


def test_validation_samples_of_other_types():
    """X_val may be float32, sparse, a function or a DataFrame."""
    model = TanhRegressor(80, **TANH)
    expected = clone(model).fit(X, Y, **VALIDATION).alpha_

    def chunks():
        yield X_VAL[:100], Y_VAL[:100]
        yield X_VAL[100:], Y_VAL[100:]

    others = {
        "float32": {"X_val": X_VAL.astype(np.float32), "y_val": Y_VAL.tolist()},
        "sparse": {"X_val": csr_array(X_VAL), "y_val": Y_VAL},
        "function": {"X_val": chunks},
    }
    for name, given in others.items():
        assert clone(model).fit(X, Y, **given).alpha_ == expected, name
    dense = clone(model).fit(X.astype(np.float32), Y, **VALIDATION)
    assert dense.alpha_ == expected
    tables = [pd.DataFrame(each, columns=["a", "b", "c"]) for each in (X, X_VAL)]
    fitted = clone(model).fit(tables[0], Y, X_val=tables[1], y_val=pd.Series(Y_VAL))
    assert fitted.alpha_ == expected
    with pytest.raises(ValueError, match="X_val and y_val: The feature names"):
        clone(model).fit(tables[0], Y, X_val=tables[1][["b", "a", "c"]], y_val=Y_VAL)


def test_temperatures_of_patch_classifiers_use_validation_samples():
    images = np.random.default_rng(0).integers(0, 255, (400, 64), dtype=np.uint8)
    y = images[:, :32].sum(axis=1) > images[:, 32:].sum(axis=1)
    model = PatchClassifier(20, image_shape=(8, 8), patch_size=5, random_state=0)
    plain = clone(model).fit(images[:300], y[:300])
    for X_val in (images[300:], images[300:].astype(float)):
        fitted = clone(model).fit(images[:300], y[:300], X_val=X_val, y_val=y[300:])
        assert fitted.temperature_ != plain.temperature_
        assert fitted.score(images[300:], y[300:]) > 0.7


def test_groups_and_validation_samples():
    groups = np.arange(len(X)) % 10
    model = TanhRegressor(80, **TANH)
    both = clone(model).fit(X, Y, groups=groups, **VALIDATION)
    assert both.alpha_ == clone(model).fit(X, Y, **VALIDATION).alpha_


def test_searches_fit_candidates_one_by_one():
    search = HiddenSizeSearchCV(TanhRegressor(**TANH), {"n_hidden": [20, 60]}, cv=2)
    with pytest.warns(UserWarning, match="fitted one by one"):
        search.fit(X, Y, **VALIDATION)
    expected = TanhRegressor(**TANH).set_params(**search.best_params_).fit(X, Y, **VALIDATION)
    assert search.best_estimator_.alpha_ == expected.alpha_


ERRORS = [
    ({"X_val": X_VAL}, "X_val was given without y_val"),
    ({"y_val": Y_VAL}, "y_val was given without X_val"),
    ({"sample_weight_val": np.ones(3)}, "sample_weight_val was given without X_val"),
    ({"X_val": X_VAL[:, :2], "y_val": Y_VAL}, "X_val and y_val: X has 2 features.* expecting 3"),
    ({"X_val": X_VAL, "y_val": Y_VAL[1:]}, "X_val and y_val: .*inconsistent numbers of samples"),
    ({"X_val": X_VAL * np.nan, "y_val": Y_VAL}, "X_val and y_val: Input X contains NaN"),
    ({"X_val": X_VAL, "y_val": Y_VAL * np.nan}, "X_val and y_val: Input y contains NaN"),
    (
        {"X_val": X_VAL, "y_val": np.c_[Y_VAL, Y_VAL]},
        r"y_val has shape \(300, 2\), and y \(n_samples,\); pass y_val with",
    ),
    (
        {"X_val": X_VAL, "y_val": Y_VAL[:, None]},
        r"y_val has shape \(300, 1\), and y \(n_samples,\); .*reshaped as y",
    ),
    (VALIDATION | {"sample_weight_val": -np.ones(300)}, "Negative .* to `sample_weight_val`"),
    (VALIDATION | {"sample_weight_val": np.ones(5)}, r"^sample_weight_val.shape == \(5,\)"),
    (VALIDATION | {"sample_weight_val": np.ones((300, 2))}, "^sample_weight_val: .*must be 1D"),
    (VALIDATION | {"sample_weight_val": ["a"] * 300}, "^sample_weight_val: could not convert"),
    (
        VALIDATION | {"sample_weight_val": np.ma.masked_less(np.arange(300.0), 1)},
        r"^sample_weight_val is a masked array, .*sample_weight_val.filled",
    ),
]


@pytest.mark.parametrize(("given", "message"), ERRORS)
@pytest.mark.parametrize("model", [TanhRegressor(20, **TANH), StackedRegressor(random_state=0)])
def test_invalid_validation_samples(model, given, message):
    model = clone(model)
    if isinstance(model, StackedRegressor):
        model.set_params(estimators=[("tanh", TanhRegressor(20, **TANH))], final_estimator=None)
    before = model.fit(X, Y).predict(X_VAL)
    with pytest.raises(ValueError, match=message):
        model.fit(X[:300], Y[:300], **given)
    np.testing.assert_array_equal(model.predict(X_VAL), before)


def test_classes_that_only_y_val_contains():
    y_val = np.digitize(Y_VAL, [-0.5, 0.5])
    with pytest.raises(ValueError, match=r"y_val contains \[2\], and y does not; leave out"):
        TanhClassifier(20, **TANH).fit(X, np.digitize(Y, [-0.5]), X_val=X_VAL, y_val=y_val)


@pytest.mark.parametrize("alpha", ["loo", [0.1, 1.0]])
def test_leave_one_out_and_validation_samples(alpha):
    with pytest.raises(ValueError, match=r'not by validation samples.*or "auto"'):
        TanhRegressor(20, alpha=alpha, **TANH).fit(X, Y, **VALIDATION)
