"""Almost linear units for data with more features than samples."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import RidgeCV

from sklearn_fsvc import TanhProjector, TanhRegressor
from sklearn_fsvc._src.hidden_layers.linear_units import linear_units

N = 100


def wide_data(rng, n_features=400):
    """Return X, a linear target and one that is not; both depend on few directions."""
    Z = rng.normal(size=(N + 500, 4))
    X = Z @ rng.normal(size=(4, n_features)) + rng.normal(size=(len(Z), n_features)) + 5
    return X, Z @ [1, -1, 2, 0], np.square(Z[:, 0])


def model(**params):
    return TanhRegressor(**{"feature_weights": None, "random_state": 0} | params)


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


@pytest.mark.parametrize(
    "kind", ["long", "few samples", "few units", "sparse", "scale", "stream", "weights"]
)
def test_other_units_are_never_linear(kind, rng):
    X, y, _ = wide_data(rng, 90 if kind == "long" else 400)
    X, y, params = X[:N], y[:N], {}
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
        random = TanhProjector(2000, weights="orthogonal", random_state=0).fit(X)
        np.testing.assert_array_equal(fitted.components_, random.components_)
        return
    if kind == "stream":
        fitted.partial_fit(X, y).solve(fix_layer=True)
    else:
        fitted.fit(X, y)
    assert is_random(fitted, X)
