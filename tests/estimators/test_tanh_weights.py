"""Feature weights of tanh networks: part of the layer, learned where that helps."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

from sklearn_fsvc import TanhClassifier, TanhProjector, TanhRegressor

WEIGHTS = np.array([0.5, 2, 0, 1, 1])


@pytest.fixture
def X(rng):
    return rng.normal(size=(800, 5))


@pytest.fixture
def y(X):
    """Classes that depend on two features together."""
    return (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("scale", ["auto", 0.7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_layer_is_that_of_weighted_rows(X, kind, scale, dtype):
    projector = TanhProjector(30, weights=kind, scale=scale, random_state=0)
    X = X.astype(dtype)
    weighted = clone(projector).fit(X * WEIGHTS.astype(dtype))
    ours = projector.set_params(feature_weights=WEIGHTS).fit(X)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    expected = weighted.transform(X * WEIGHTS.astype(dtype))
    np.testing.assert_allclose(ours.transform(X), expected, atol=tolerance)
    np.testing.assert_array_equal(ours.feature_weights_, WEIGHTS)


@pytest.mark.parametrize("cls", [TanhClassifier, TanhRegressor])
def test_they_are_learned_where_they_help(cls, X, y, rng):
    """Among loud features that mean nothing."""
    X = np.hstack([X, 100 * rng.normal(size=(800, 10))])
    auto, none = (
        cls(300, feature_weights=way, random_state=0).fit(X[:600], y[:600])
        for way in ("auto", None)
    )
    assert none.feature_weights_ is None
    assert auto.feature_weights_[:2].min() > 50 * auto.feature_weights_[5:].max()
    assert auto.score(X[600:], y[600:]) > none.score(X[600:], y[600:]) + 0.2


def test_what_is_left_as_it_is():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    wide = np.hstack([X] * 8)
    for rows, params in (
        (X.astype(np.uint8), {}),
        (X, {"image_shape": (8, 8)}),
        (X, {"weights": "class_informed"}),
        (wide, {}),
    ):
        model = TanhClassifier(20, alpha=1.0, random_state=0, **params).fit(rows, y)
        assert model.feature_weights_ is None


def test_sparse_rows_have_those_of_dense_ones(X, y):
    X = np.where(np.abs(X) < 0.5, 0, X)
    model = TanhClassifier(50, feature_weights="learned", alpha=1.0, random_state=0)
    dense, ours = clone(model).fit(X, y), model.fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(ours.feature_weights_, dense.feature_weights_, rtol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), dense.decision_function(X), atol=1e-5)


def test_a_lent_layer_comes_with_its_weights(X, y):
    lender = TanhProjector(20, feature_weights="learned", random_state=0).fit(X, y)
    model = TanhClassifier(layer=lender, alpha=1.0).fit(X, y)
    np.testing.assert_array_equal(model.feature_weights_, lender.feature_weights_)
    np.testing.assert_array_equal(model.components_, lender.components_)


@pytest.mark.parametrize("cls", [TanhClassifier, TanhProjector])
def test_what_cannot_be_used(cls, X, y):
    for params, match in (
        ({"feature_weights": [1.0, 2.0]}, "feature_weights has 2 numbers, and X has 5 features"),
        ({"feature_weights": "best"}, "feature_weights='best'"),
        ({"feature_weights": -WEIGHTS}, "0 or more"),
        ({"feature_weights": WEIGHTS, "weights": "constrained"}, "does not go with"),
        ({"feature_weights": "learned", "weights": "class_informed"}, "does not go with"),
    ):
        with pytest.raises(ValueError, match=match):
            cls(10, **params).fit(X, y)
    with pytest.raises(ValueError, match='feature_weights="learned" requires y'):
        TanhProjector(10, feature_weights="learned").fit(X)
    with pytest.raises(ValueError, match=r"learning feature weights needs .* feature_weights=None"):
        TanhClassifier(10, max_memory="1MiB").fit(X, y)
