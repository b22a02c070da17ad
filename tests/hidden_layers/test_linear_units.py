"""Almost linear units for data with few samples per feature."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import RidgeCV

from sklearn_fsvc import TanhClassifier, TanhProjector, TanhRegressor
from sklearn_fsvc._src.hidden_layers.linear_units import linear_units

N = 100


def wide_data(rng, n_features=400):
    """Return X, a linear target and one that is not; both depend on few directions."""
    Z = rng.normal(size=(N + 500, 4))
    X = Z @ rng.normal(size=(4, n_features)) + rng.normal(size=(len(Z), n_features)) + 5
    return X, Z @ [1, -1, 2, 0], np.square(Z[:, 0])


def model(**params):
    return TanhRegressor(**{"n_hidden": 400, "feature_weights": None, "random_state": 0} | params)


def is_random(fitted, X):
    """Return whether the units are those of a projector, which are never linear."""
    params = {name: fitted.get_params()[name] for name in ("scale", "feature_weights")}
    params["random_state"] = 0
    random = TanhProjector(fitted.n_hidden, **params).fit(X)
    return np.array_equal(fitted.components_, random.components_)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("unit", [1.0, 1e180])
def test_inner_products_are_those_of_the_samples(is_weighted, unit, rng):
    X = wide_data(rng)[0][:N] * unit
    present, weights = rng.uniform(size=N) > 0.2, rng.uniform(0.1, 1, X.shape[1])
    weights = weights if is_weighted else None
    layer = linear_units(X[present], 250, weights, 0)
    Z = X[present] @ layer.units.T + layer.bias
    assert np.sqrt(np.mean(Z**2)) == pytest.approx(0.1, rel=0.05)
    assert np.linalg.norm(np.tanh(Z) - Z) < 0.03 * np.linalg.norm(Z)
    X = (X[present] if weights is None else X[present] * weights) / unit
    X, Z = X - X.mean(axis=0), Z[:, : 3 * (present.sum() - 1)]  # whole orthogonal groups
    expected, actual = X @ X.T, Z @ Z.T
    actual *= np.trace(expected) / np.trace(actual)
    np.testing.assert_allclose(actual, expected, atol=1e-8 * np.abs(expected).max())


def test_equal_samples_have_no_linear_units():
    assert linear_units(np.ones((40, 50)), 60, None, 0) is None


def test_a_linear_target_is_fitted_as_by_ridge_regression(rng):
    X, y, _ = wide_data(rng)
    fitted = model().fit(X[:N], y[:N])
    assert not is_random(fitted, X[:N])
    ridge = RidgeCV(np.logspace(-3, 3, 10)).fit(X[:N], y[:N])
    assert fitted.score(X[N:], y[N:]) > ridge.score(X[N:], y[N:]) - 0.005


def test_random_units_stay_where_they_are_better(rng):
    X, _, y = wide_data(rng)
    assert is_random(model().fit(X[:N], y[:N]), X[:N])


def linear_data(rng, n_samples, n_features=60):
    X = rng.normal(size=(n_samples + 500, n_features))
    return X, X[:, :20] @ rng.normal(size=20)


@pytest.mark.usefixtures("two_splits")
@pytest.mark.parametrize("feature_weights", ["auto", None])
def test_a_linear_target_of_more_samples_than_features(feature_weights, rng):
    """Learned weights hide some of its features."""
    X, y = linear_data(rng, N)
    fitted = model(feature_weights=feature_weights).fit(X[:N], y[:N])
    ridge = RidgeCV(np.logspace(-5, 3, 17)).fit(X[:N], y[:N])
    assert fitted.score(X[N:], y[N:]) > ridge.score(X[N:], y[N:]) - 0.02


def test_other_targets_of_more_samples_than_features_have_random_units(rng):
    X, y = linear_data(rng, N, 30)
    y = np.abs(X[:, 0] + X[:, 1])
    assert is_random(model().fit(X[:N], y[:N]), X[:N])


def test_the_span_of_more_samples_than_features_has_all_directions(rng):
    X = rng.normal(size=(N, 7)) * np.arange(1, 8)
    layer = linear_units(X, 50, None, 0)
    Z = X @ layer.units.T + layer.bias
    X = X - X.mean(axis=0)
    np.testing.assert_allclose(Z @ np.linalg.lstsq(Z, X, rcond=None)[0], X, rtol=0, atol=1e-9)
    assert np.linalg.matrix_rank(Z) == 7


@pytest.mark.parametrize(
    "kind",
    ["long", "long, few samples", "long, classes", "few samples", "few units", "sparse", "scale",
     "stream", "weights"],
)  # fmt: skip
def test_other_units_are_never_linear(kind, rng):
    n_features = {"long": 25, "long, few samples": 90, "long, classes": 90}.get(kind, 400)
    X, y, _ = wide_data(rng, n_features)
    X, y, params = X[:N], y[:N], {}
    if kind == "long, few samples":
        X, y = X[: N - 1], y[: N - 1]
    elif kind == "long, classes":
        fitted = TanhClassifier(400, feature_weights=None, random_state=0).fit(X, y > 0)
        assert is_random(fitted, X)
        return
    if kind == "few samples":
        X, y = X[:29], y[:29]
    elif kind == "few units":
        params["n_hidden"] = N - 1
    elif kind == "sparse":
        X = csr_array(X)
    elif kind == "scale":
        params["scale"] = 0.5
    fitted = model(**params)
    if kind == "weights":
        fitted.set_params(weights="orthogonal").fit(X, y)
        random = TanhProjector(400, weights="orthogonal", random_state=0).fit(X)
        np.testing.assert_array_equal(fitted.components_, random.components_)
        return
    if kind == "stream":
        fitted.partial_fit(X, y).solve(fix_layer=True)
    else:
        fitted.fit(X, y)
    assert is_random(fitted, X)
