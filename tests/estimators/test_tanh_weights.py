"""Feature weights and linear maps of tanh networks: given, or learned if they help."""

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
    """Return classes that depend on the product of two features."""
    return (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("scale", ["auto", 0.7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_layer_is_that_of_weighted_samples(X, kind, scale, dtype):
    projector = TanhProjector(30, weights=kind, scale=scale, random_state=0)
    X = X.astype(dtype)
    weighted = clone(projector).fit(X * WEIGHTS.astype(dtype))
    ours = projector.set_params(feature_weights=WEIGHTS).fit(X)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    expected = weighted.transform(X * WEIGHTS.astype(dtype))
    np.testing.assert_allclose(ours.transform(X), expected, atol=tolerance)
    np.testing.assert_array_equal(ours.feature_weights_, WEIGHTS)


@pytest.mark.parametrize("cls", [TanhClassifier, TanhRegressor])
def test_learned_weights_are_used_if_they_help(cls, X, y, rng):
    """Irrelevant features have a larger variance."""
    X = np.hstack([X, 100 * rng.normal(size=(800, 10))])
    auto, none = (
        cls(300, feature_weights=weights, random_state=0).fit(X[:600], y[:600])
        for weights in ("auto", None)
    )
    assert none.feature_weights_ is None
    assert auto.feature_weights_[:2].min() > 50 * auto.feature_weights_[5:].max()
    assert auto.score(X[600:], y[600:]) > none.score(X[600:], y[600:]) + 0.2


def test_auto_leaves_some_features_unweighted():
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


def test_sparse_and_dense_data_have_the_same_weights(X, y):
    X, y = np.where(np.abs(X[:200]) < 0.5, 0, X[:200]), y[:200]
    model = TanhClassifier(50, feature_weights="learned", alpha=1.0, random_state=0)
    dense, ours = clone(model).fit(X, y), model.fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(ours.feature_weights_, dense.feature_weights_, rtol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), dense.decision_function(X), atol=1e-5)


MAPS = [np.arange(25).reshape(5, 5) / 12 - 1, np.array([[1.0, 0, 0, 2, -1], [0, 1, 3, 0, 0]]).T]


@pytest.mark.parametrize("A", MAPS, ids=["square", "low rank"])
@pytest.mark.parametrize("kind", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("scale", ["auto", 0.7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_layer_is_that_of_mapped_samples(X, A, kind, scale, dtype):
    projector = TanhProjector(30, weights=kind, scale=scale, random_state=0)
    X = X.astype(dtype)
    mapped = (X @ A).astype(dtype)
    expected = clone(projector).fit(mapped).transform(mapped)
    ours = projector.set_params(feature_weights=A).fit(X)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(ours.transform(X), expected, atol=tolerance)
    np.testing.assert_array_equal(ours.feature_map_, A)
    assert ours.feature_weights_ is None
    assert ours.components_.shape == (30, 5)
    assert ours.components_.dtype == dtype


@pytest.fixture(scope="module")
def mapped_model():
    """Return a regressor, data with one relevant direction of ten, and the direction."""
    X = np.random.default_rng(0).normal(size=(900, 10))
    direction = np.r_[1, 2, -2, np.zeros(7)] / 3
    return TanhRegressor(200, feature_weights="map", random_state=0), X, X @ direction, direction


def test_a_learned_map_is_used_if_it_helps(mapped_model):
    model, X, projection, direction = mapped_model
    y = np.sin(3 * projection)
    ours, weighted = (
        clone(model).set_params(feature_weights=weights).fit(X[:500], y[:500])
        for weights in ("map", "learned")
    )
    assert ours.score(X[500:], y[500:]) > weighted.score(X[500:], y[500:]) + 0.1
    found = np.linalg.eigh(ours.feature_map_ @ ours.feature_map_.T)[1][:, -1]
    assert abs(found @ direction) > 0.99


def test_a_fit_without_a_map_has_none(mapped_model):
    """If none is found, the attribute is None, also after a fit with a map."""
    model, X, projection, _ = mapped_model
    X, projection = X[:150, :4], projection[:150]
    model = clone(model).set_params(n_hidden=20, alpha=0.1).fit(X, np.sin(2 * projection))
    assert model.feature_map_ is not None
    model.fit(X, np.zeros(150))
    assert model.feature_map_ is None
    weighted = TanhClassifier(20, alpha=1.0, feature_weights="learned")
    assert weighted.fit(X, projection > 0).feature_map_ is None


def test_a_map_of_sparse_multilabel_and_uint8_data(X, y):
    X, y = np.where(np.abs(X[:100]) < 0.5, 0, X[:100]), y[:100]
    Y = np.column_stack([y, X @ [1, 2, -2, 0, 0] > 0]).astype(int)
    model = TanhClassifier(20, feature_weights="map", alpha=1.0, random_state=0)
    dense, ours = clone(model).fit(X, Y), clone(model).fit(sparse.csr_array(X), Y)
    assert dense.feature_map_.shape == (5, 5)
    np.testing.assert_allclose(ours.feature_map_, dense.feature_map_, atol=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), dense.decision_function(X), atol=1e-4)
    X = (40 * X + 128).clip(0, 255).astype(np.uint8)
    maps = [clone(model).fit(rows, Y).feature_map_ for rows in (X, X.astype(np.float32))]
    np.testing.assert_array_equal(*maps)
    assert maps[0].shape == (5, 5)


def test_a_pretrained_layer_has_its_map(X, y):
    pretrained = TanhProjector(20, feature_weights=MAPS[1]).fit(X, y)
    model = TanhClassifier(layer=pretrained, alpha=1.0).fit(X, y)
    np.testing.assert_array_equal(model.feature_map_, MAPS[1])


def test_a_pretrained_layer_has_its_weights(X, y):
    X, y = X[:100], y[:100]
    pretrained = TanhProjector(20, feature_weights="learned", random_state=0).fit(X, y)
    model = TanhClassifier(layer=pretrained, alpha=1.0).fit(X, y)
    np.testing.assert_array_equal(model.feature_weights_, pretrained.feature_weights_)
    np.testing.assert_array_equal(model.components_, pretrained.components_)


@pytest.mark.parametrize("cls", [TanhClassifier, TanhProjector])
def test_invalid_weights_are_errors(cls, X, y):
    for params, match in (
        ({"feature_weights": [1.0, 2.0]}, "feature_weights has 2 values, but X has 5 features"),
        ({"feature_weights": "best"}, "feature_weights='best'"),
        ({"feature_weights": -WEIGHTS}, "0 or more"),
        ({"feature_weights": WEIGHTS, "weights": "constrained"}, "cannot be combined with"),
        ({"feature_weights": "learned", "weights": "class_informed"}, "cannot be combined with"),
        ({"feature_weights": "map", "weights": "class_informed"}, "cannot be combined with"),
        ({"feature_weights": "map", "image_shape": (1, 5)}, "image_shape=.* have no pos"),
        ({"feature_weights": np.eye(5), "image_shape": (1, 5)}, "image_shape=.* no pos"),
        ({"feature_weights": np.eye(4)}, "feature_weights has 4 rows, but X has 5 features"),
        ({"feature_weights": np.full((5, 2), np.nan)}, "a row of finite values"),
        ({"feature_weights": np.zeros((5, 2))}, "is 0 for all features"),
        ({"feature_weights": np.zeros((5, 2, 2))}, "must have a finite weight"),
    ):
        with pytest.raises(ValueError, match=match):
            cls(10, **params).fit(X, y)
    with pytest.raises(ValueError, match='feature_weights="learned" requires y'):
        TanhProjector(10, feature_weights="learned").fit(X)
    with pytest.raises(ValueError, match='feature_weights="map" requires y'):
        TanhProjector(10, feature_weights="map").fit(X)
    with pytest.raises(ValueError, match=r"learning feature weights needs .* feature_weights=None"):
        TanhClassifier(10, max_memory="1MiB").fit(X, y)
