"""A linear map of the features before RBF units: given, or learned if it helps."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, RBFProjector, RBFRegressor

SQUARE = np.arange(25).reshape(5, 5) / 12 - 1
MAPS = {
    "square": SQUARE,
    "low rank": SQUARE[:, [0, 3]],
    "wide": np.hstack([SQUARE, SQUARE.T, SQUARE**2]),
}
PARAMS = {"radius": 1.0, "kernel": "laplacian", "random_state": 0}


@pytest.fixture
def X(rng):
    return rng.normal(size=(300, 5))


@pytest.fixture
def y(X):
    return (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("A", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("metric", ["manhattan", "euclidean", "sqeuclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("device", ["jit", "blas"])
def test_the_layer_is_that_of_mapped_samples(X, A, metric, dtype, device):
    projector = RBFProjector(30, metric=metric, device=device, **PARAMS)
    X = X.astype(dtype)
    mapped = X @ A.astype(dtype)
    other = clone(projector).fit(mapped)
    mapping = projector.set_params(feature_weights=A).fit(X)
    np.testing.assert_array_equal(mapping.support_, other.support_)
    np.testing.assert_array_equal(mapping.centers_, X[mapping.support_])
    np.testing.assert_array_equal(mapping.feature_map_, A)
    assert mapping.feature_weights_ is None
    tolerance = 1e-4 if dtype == np.float32 else 1e-7
    np.testing.assert_allclose(mapping.transform(X), other.transform(mapped), atol=tolerance)


@pytest.mark.parametrize("cls", [RBFClassifier, RBFRegressor])
@pytest.mark.parametrize("A", MAPS.values(), ids=MAPS)
def test_predictions_are_those_for_mapped_samples(X, y, cls, A):
    """After fit, partial_fit and pickling, for all samples and for single ones."""
    model = cls(40, alpha=0.1, metric="euclidean", feature_weights=None, **PARAMS)
    other = clone(model).fit(X @ A, y)
    ours = clone(model).set_params(feature_weights=A).fit(X, y)
    classes = {"classes": [0, 1]} if cls is RBFClassifier else {}
    parts = clone(ours).partial_fit(X[:200], y[:200], **classes).partial_fit(X[200:], y[200:])
    whole = clone(model).partial_fit(X[:200] @ A, y[:200], **classes)
    whole.partial_fit(X[200:] @ A, y[200:])
    method = "decision_function" if cls is RBFClassifier else "predict"
    for found, expected in ((ours, other), (parts, whole)):
        for each in (found, pickle.loads(pickle.dumps(found))):
            scores = getattr(expected, method)(X @ A)
            np.testing.assert_allclose(getattr(each, method)(X), scores, atol=1e-6)
    for row in range(3):
        one = getattr(ours, method)(X[row : row + 1])
        np.testing.assert_allclose(one, getattr(other, method)(X[row : row + 1] @ A), atol=1e-6)


@pytest.fixture(scope="module")
def directed():
    """Samples of ten features, and their projections on the only relevant direction."""
    X = np.random.default_rng(0).normal(size=(900, 10))
    return X, X @ (np.r_[1, 2, -2, np.zeros(7)] / 3)


@pytest.mark.parametrize("metric", ["manhattan", "euclidean"])
def test_a_learned_map_is_used_if_it_helps(directed, metric):
    X, projection = directed
    ours, weighted = (
        RBFRegressor(
            200, kernel="gaussian", feature_weights=weights, metric=metric, random_state=0
        ).fit(X[:500], np.sin(2 * projection[:500]))
        for weights in ("map", "learned")
    )
    y = np.sin(2 * projection[500:])
    assert 1 - ours.score(X[500:], y) < (1 - weighted.score(X[500:], y)) / 2
    A = ours.feature_map_
    assert (A.shape, A.dtype, np.abs(A).max()) == ((10, 10), np.float64, 1)
    found = np.linalg.eigh(A @ A.T)[1][:, -1]
    assert abs(found[:3] @ [1, 2, -2]) / 3 > 0.99
    assert weighted.feature_map_ is None


def test_a_fit_without_a_map_has_none(directed):
    """If none is found, the attribute is None, also after a fit with a map."""
    X, projection = directed[0][:150, :4], directed[1][:150]
    model = RBFRegressor(20, kernel="laplacian", feature_weights="map", alpha=0.1, random_state=0)
    model.fit(X, np.sin(2 * projection))
    assert model.feature_map_ is not None
    assert model.fit(X, np.zeros(150)).feature_map_ is None
    assert model.set_params(feature_weights="learned").fit(X, projection).feature_map_ is None
    counts = np.clip(40 * X + 128, 0, 255).astype(np.uint8)
    assert (
        RBFClassifier(20, kernel="laplacian", alpha=1.0, random_state=0)
        .fit(counts, projection > 0)
        .feature_map_
        is None
    )


def test_uint8_and_float32_have_the_same_map(directed):
    X, projection = directed[0][:200, :4], directed[1][:200]
    model = RBFClassifier(
        20, feature_weights="map", metric="euclidean", kernel="gaussian", alpha=1.0, random_state=0
    )
    counts = (40 * X + 128).clip(0, 255).astype(np.uint8)
    maps = [
        clone(model).fit(rows, projection > 0).feature_map_
        for rows in (counts, counts.astype("f4"))
    ]
    np.testing.assert_array_equal(*maps)
    assert maps[0] is not None


def test_a_pretrained_layer_has_its_map(X, y):
    pretrained = RBFProjector(20, feature_weights=MAPS["low rank"], **PARAMS).fit(X)
    model = RBFClassifier(layer=pretrained, alpha=1.0).fit(X, y)
    np.testing.assert_array_equal(model.feature_map_, MAPS["low rank"])
    mapped = clone(pretrained).set_params(feature_weights=None).fit(X @ MAPS["low rank"])
    other = RBFClassifier(layer=mapped, alpha=1.0).fit(X @ MAPS["low rank"], y)
    expected = other.decision_function(X @ MAPS["low rank"])
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-7)


@pytest.mark.parametrize("weights", ["map", MAPS["wide"]], ids=["learned", "given"])
def test_a_search_has_the_scores_of_single_fits(X, y, weights):
    model = RBFClassifier(
        feature_weights=weights, metric="euclidean", kernel="gaussian", alpha=1.0, random_state=0,
        device="jit",
    )  # fmt: skip
    grid = {"n_hidden": [10, 30]}
    shared, single = (
        Search(model, grid, cv=2, refit=False).fit(X[:100], y[:100])
        for Search in (HiddenSizeSearchCV, GridSearchCV)
    )
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_allclose(shared.cv_results_[name], single.cv_results_[name], atol=1e-12)


@pytest.mark.parametrize("cls", [RBFClassifier, RBFRegressor, RBFProjector])
def test_invalid_weights_are_errors(cls, X, y):
    for params, match in (
        ({"feature_weights": SQUARE[:4]}, "feature_weights has 4 rows, but X has 5 features"),
        ({"feature_weights": np.full((5, 2), np.nan)}, "a row of finite values"),
        ({"feature_weights": np.zeros((5, 2))}, "is 0 for all features"),
        ({"feature_weights": np.zeros((5, 2, 2))}, "must have a finite weight"),
    ):
        with pytest.raises(ValueError, match=match):
            cls(10, **params).fit(X, y)
    with pytest.raises(ValueError, match='at most 500 features, and X has 501; use "learned"'):
        cls(10, feature_weights="map").fit(np.random.default_rng(0).normal(size=(300, 501)), y)
    with pytest.raises(ValueError, match='feature_weights="map" requires y'):
        RBFProjector(10, feature_weights="map").fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sample_that_overflows_in_the_map_is_far_from_all(X, dtype):
    """Infinity minus infinity is NaN, but such a sample is beyond every unit."""
    for device in ("jit", "blas"):
        model = RBFProjector(10, feature_weights=10 * SQUARE, device=device, **PARAMS).fit(
            X.astype(dtype)
        )
        far = np.full((1, 5), np.finfo(dtype).max, dtype)
        np.testing.assert_array_equal(model.transform(far), 0)
