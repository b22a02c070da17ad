"""The parameter `layer`: pretrained estimators, and arrays of centres."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score

import naive
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.parts.composition import layer_of, parts_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
Z = np.sin(2 * X[:, 0]) + X[:, 1]
PAIRS = [
    (TanhProjector(20, random_state=0), TanhClassifier, Y),
    (TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0), TanhRegressor, Z),
    (RBFProjector(20, kernel="laplacian", radius=2.0, random_state=0), RBFClassifier, Y),
    (RBFClassifier(20, kernel="laplacian", feature_weights=None, random_state=0), RBFRegressor, Z),
    (RBFRegressor(20, kernel="gaussian", radius=2.0, random_state=0), RBFClassifier, Y),
]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    ("pretrained", "cls", "y"), PAIRS, ids=lambda value: getattr(value, "__name__", "")
)
def test_the_layer_equals_that_of_the_pretrained_estimator(pretrained, cls, y, frozen):
    pretrained.fit(X[:100], Z[:100] if is_regressor(pretrained) else Y[:100])
    layer = FrozenEstimator(pretrained) if frozen else pretrained
    model = cls(3, layer=layer, alpha=1.0, random_state=0)
    # Nothing is selected, so no job is needed.
    found = parts_of(model).units.fit(None, Samples(X), None)
    np.testing.assert_array_equal(found.layer.units, layer_of(pretrained).units)
    expected, layer = layer_of(pretrained), layer_of(model.fit(X, y))
    np.testing.assert_array_equal(expected.units, layer.units)
    assert expected.hyperparameters == layer.hyperparameters
    assert expected.profile_key == layer.profile_key
    assert model.readout_coef_.shape[1] == len(expected.units)


def test_a_fit_with_a_pretrained_layer_equals_the_pretrained_model():
    for pretrained in (RBFClassifier(20, kernel="laplacian", random_state=0), TanhClassifier(20)):
        pretrained.set_params(alpha=0.5).fit(X, Y)
        model = type(pretrained)(layer=pretrained, alpha=0.5).fit(X, Y)
        np.testing.assert_array_equal(pretrained.decision_function(X), model.decision_function(X))


def test_an_array_of_centres():
    centers = X[40:60].tolist()
    plain = {"kernel": "gaussian", "radius": 1.5, "metric": "euclidean", "alpha": 0.5}
    model = RBFRegressor(layer=centers, feature_weights=None, **plain).fit(X, Z)
    np.testing.assert_array_equal(model.centers_, X[40:60])
    D = np.linalg.norm(X[:, None] - X[None, 40:60], axis=2)
    H = np.exp(-(D**2) / (2 * 1.5**2))
    mean = H.mean(axis=0)
    A = (H - mean).T @ (H - mean) + 0.5 * np.eye(20)
    W = np.linalg.solve(A, (H - mean).T @ (Z - Z.mean()))
    np.testing.assert_allclose(model.readout_coef_[0], W, atol=1e-9)
    assert model.kernel_ == "gaussian"
    assert not hasattr(model, "support_")


def test_auto_parameters_are_searched_for_given_centres():
    model = RBFClassifier(layer=X[:30], feature_weights=None, random_state=0).fit(X, Y)
    assert model.centers_.shape == (30, 4)
    assert set(model.search_results_["kernel"]) == {"laplacian", "triangular", "gaussian"}
    assert len(set(model.search_results_["radius"])) > 2
    assert model.search_results_["n_units"].max() <= 30
    assert model.score(X, Y) > 0.85


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_dtypes_of_centres_and_readouts(dtype):
    rows = np.abs(50 * X).astype(dtype)
    model = RBFClassifier(layer=rows[:20].astype(float), radius=100.0, alpha=1.0).fit(rows, Y)
    assert model.centers_.dtype == (np.float64 if dtype == np.uint8 else dtype)
    pretrained = RBFProjector(20, radius=100.0).fit(np.abs(50 * X).astype(np.uint8))
    model = RBFClassifier(layer=pretrained, alpha=1.0).fit(rows, Y)
    in_float64 = RBFClassifier(layer=pretrained, alpha=1.0).fit(rows.astype(float), Y)
    assert model.readout_coef_.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert (model.predict(rows) == in_float64.predict(rows)).mean() > 0.95


@pytest.mark.parametrize("metric", ["manhattan", "euclidean", "sqeuclidean"])
def test_uint8_centres(metric, device):
    """Only Manhattan distances are computed in integers: squares would overflow."""
    rows = np.abs(50 * X).astype(np.uint8)
    options = {"metric": metric, "kernel": "laplacian", "feature_weights": None, "alpha": 1.0}
    radius = 5000.0 if metric == "sqeuclidean" else 100.0
    model = RBFClassifier(layer=rows[:20], radius=radius, device=device, **options).fit(rows, Y)
    H = naive.rbf(rows, rows[:20], radius, metric, "laplacian")
    W, b = naive.ridge(H, np.eye(3)[Y], 1.0)
    np.testing.assert_allclose(model.decision_function(rows), H @ W.T + b, atol=1e-3)
    assert model.centers_.dtype == (np.uint8 if metric == "manhattan" else np.float32)


def test_the_scores_of_an_uncovered_sample_are_the_intercepts():
    far = np.full((1, 4), 1e3)
    kernel = {"kernel": "triangular", "radius": 0.5, "feature_weights": None, "alpha": 1.0}
    model = RBFClassifier(layer=X[:20], **kernel).fit(X, Y)
    np.testing.assert_array_equal(model.decision_function(far)[0], model.readout_intercept_)
    calibrated = RBFClassifier(layer=X[:20], **kernel).fit(X, Y)
    assert np.isfinite(calibrated.predict_proba(np.vstack([far, X]))).all()
    own = RBFClassifier(20, random_state=0, **kernel).fit(X, Y)
    assert np.abs(own.decision_function(far)[0] - own.readout_intercept_).min() > 0.05
    own.set_params(layer=X[:20]).fit(X, Y)  # the targets of the previous centres are deleted
    np.testing.assert_array_equal(own.decision_function(far)[0], own.readout_intercept_)
    assert not hasattr(own, "n_support_")


TANH, RBF = TanhProjector(5).fit(X), RBFProjector(5).fit(X)
BAD = [
    (TanhClassifier(layer=TanhProjector()), ValueError, r"not fitted.*layer=FrozenEstimator\(Tanh"),
    (TanhClassifier(layer=FrozenEstimator(TanhProjector())), ValueError, "not fitted"),
    (TanhClassifier(layer=RBF), TypeError, "no units of this kind.*TanhClassifier.*TanhProjector"),
    (RBFClassifier(layer=FrozenEstimator(TANH)), TypeError, "no units of this kind.*RBFProjector"),
    (TanhRegressor(layer=X), TypeError, "layer is an array.*fitted estimator"),
    (RBFRegressor(layer=X[:, :2], radius=1.0), ValueError, "have 2 features, and X has 4"),
    (RBFRegressor(layer=X[0]), ValueError, "Expected 2D array"),
    (RBFRegressor(layer=X[:3] * np.nan), ValueError, "layer contains NaN"),
    (RBFClassifier(layer="centres"), TypeError, "layer='centres' must be a fitted"),
    (RBFClassifier(layer=RBFProjector(5).fit(X[:, :2])), ValueError, "have 2 features"),
    (RBFClassifier(layer=RBF, metric="euclidean"), ValueError, "metric='euclidean'.*'manhattan'"),
    (RBFClassifier(layer=RBF, readout="lms"), ValueError, "readout='lms' needs labels"),
]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(("model", "error", "match"), BAD)
def test_invalid_layers_are_errors(model, error, match, method):
    if method == "partial_fit" and getattr(model, "readout", "ridge") != "ridge":
        return
    y, options = (
        (Z, {}) if model.__class__.__name__.endswith("Regressor") else (Y, {"classes": [0, 1, 2]})
    )
    with pytest.raises(error, match=match):
        model.fit(X, y) if method == "fit" else model.partial_fit(X, y, **options)
    assert not hasattr(model, "n_features_in_")


def test_features_in_another_order_than_those_of_the_layer_raise():
    table = pd.DataFrame(X, columns=list("abcd"))
    layer = FrozenEstimator(RBFProjector(20, random_state=0).fit(table))
    match = "The estimator of layer has 'a' as feature 0, and X has 'd'.*X.layer.feature_names_in_"
    model = RBFClassifier(layer=layer, alpha=1.0)
    data = table[list("dcba")], Y
    search = HiddenSizeSearchCV(model, {"alpha": [0.1, 1.0]})
    buffered = clone(model).set_params(layer=None).partial_fit(*data).set_params(layer=layer)
    calls = [
        lambda: model.fit(*data),
        lambda: model.partial_fit(*data, classes=[0, 1, 2]),
        lambda: search.fit(*data),
        buffered.solve,  # the layer was given after samples were buffered
    ]
    for call in calls:
        with pytest.raises(ValueError, match=match):
            call()
    clone(model).fit(table, Y).predict(table)
    clone(model).fit(X[:, ::-1], Y)  # arrays have no names


def test_clones_keep_a_frozen_layer():
    model = TanhClassifier(layer=TANH, alpha=1.0)
    with pytest.raises(ValueError, match="FrozenEstimator"):
        clone(model).fit(X, Y)
    frozen = model.set_params(layer=FrozenEstimator(TANH))
    assert clone(frozen).fit(X, Y).components_ is TANH.components_
    assert np.isfinite(cross_val_score(frozen, X, Y, cv=3, error_score="raise")).all()


def test_a_search_with_a_given_layer_equals_grid_search():
    big = FrozenEstimator(TanhProjector(40, random_state=0).fit(X))
    model = TanhClassifier(10, layer=big, alpha=1.0)
    grid = {"alpha": [0.1, 10.0], "layer": [big, FrozenEstimator(TANH)]}
    found = [cls(model, grid, cv=3).fit(X, Y) for cls in (HiddenSizeSearchCV, GridSearchCV)]
    shared, single = (search.cv_results_["mean_test_score"] for search in found)
    np.testing.assert_allclose(shared, single)
