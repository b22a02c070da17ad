"""Estimators whose units are patches of images."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import naive
from sklearn_fsvc import PatchClassifier, PatchProjector, PatchRegressor
from sklearn_fsvc._src.data.streaming import cast_layer
from sklearn_fsvc._src.parts.composition import layer_of

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (60, 6 * 5 * 3), np.uint8)
KERNELS = ["soft_threshold", "below_mean", "triangular", "gaussian", "laplacian"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:700]
    return X[rows].astype(np.uint8), y[rows]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_transform_is_the_formula(device, digits, kernel, dtype):
    X = digits[0].astype(dtype)
    p = PatchProjector(9, kernel=kernel, random_state=0, device=device).fit(X)
    H = p.transform(X[:20])
    assert H.dtype == (np.float64 if dtype == np.float64 else np.float32)
    expected = naive.patches(cast_layer(layer_of(p), X), X[:20])
    np.testing.assert_allclose(H, expected, atol=3e-4 if H.dtype == np.float32 else 1e-10)


def test_colours_strides_and_rectangles(device):
    params = {"image_shape": (6, 5, 3), "patch_size": (2, 3), "stride": 2, "pool": (3, 1)}
    p = PatchProjector(7, metric="manhattan", kernel="laplacian", **params, device=device).fit(
        COLOURS
    )
    assert p.patches_.shape == (7, 2, 3, 3)
    assert p.pool_ == (3, 1)
    expected = naive.patches(cast_layer(layer_of(p), COLOURS), COLOURS)
    np.testing.assert_allclose(p.transform(COLOURS), expected, atol=1e-4)


def test_units_are_patches_of_the_images():
    p = PatchProjector(30, image_shape=(6, 5, 3), patch_size=3, random_state=0).fit(COLOURS)
    images = COLOURS.reshape(60, 6, 5, 3)
    patches = [images[:, y : y + 3, x : x + 3].reshape(60, -1) for y in range(4) for x in range(3)]
    expected = {patch.tobytes() for patch in np.concatenate(patches)}
    assert {patch.tobytes() for patch in p.patches_} <= expected
    assert len({patch.tobytes() for patch in p.patches_}) == 30
    inputs = naive.patch(layer_of(p), p.patches_.reshape(-1, 3, 3, 3), 0, 0)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    np.testing.assert_allclose(p.components_, inputs, atol=1e-4)


def test_whitened_patches_are_uncorrelated(digits):
    X = digits[0].astype(float)
    layer = layer_of(PatchProjector(5, whitening=1e-6, random_state=0).fit(X))
    images = X[:300].reshape(-1, 8, 8)
    P = np.concatenate([naive.patch(layer, images, y, x) for y in range(6) for x in range(6)])
    values = np.linalg.eigvalsh(np.cov(P.T))
    # The mean is subtracted from each patch, which removes one dimension.
    np.testing.assert_allclose(values[1:], 1, atol=0.25)
    assert values[0] < 1e-3


@pytest.mark.parametrize("kernel", ["soft_threshold", "laplacian"])
def test_parameters_that_are_set_after_fit_do_not_change_the_layer(digits, kernel):
    p = PatchProjector(9, kernel=kernel, random_state=0).fit(digits[0])
    before = p.transform(digits[0][:20])
    p.set_params(
        n_components=3, image_shape=(4, 16), patch_size=2, stride=2, pool=2, kernel="gaussian",
        metric="manhattan", radius=1.0, threshold=0.1, contrast=False, whitening=None,
    )  # fmt: skip
    np.testing.assert_array_equal(p.transform(digits[0][:20]), before)


@pytest.mark.parametrize("kernel", ["soft_threshold", "laplacian"])
def test_fewer_units_are_a_prefix(digits, kernel):
    X, _ = digits
    many, few = (
        PatchProjector(n, kernel=kernel, random_state=3, device="jit").fit(X) for n in (5000, 7)
    )
    np.testing.assert_array_equal(many.patches_[:7], few.patches_)
    # BLAS may round products with few columns in another way.
    np.testing.assert_allclose(
        many.transform(X[:9])[:, : few.transform(X[:1]).shape[1]], few.transform(X[:9]), atol=1e-6
    )


@pytest.mark.parametrize("selection", ["random", "global"])
def test_constant_patches_do_not_become_units(selection):
    X = np.full((50, 100), 9, np.uint8)
    X.reshape(50, 10, 10)[:, 4:6, 4:6] += RNG.integers(1, 9, (50, 2, 2)).astype(np.uint8)
    p = PatchProjector(40, selection=selection, patch_size=2, random_state=0).fit(X)
    assert (np.ptp(p.patches_, axis=(1, 2, 3)) > 0).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("kernel", ["soft_threshold", "below_mean"])
@pytest.mark.parametrize("selection", ["random", "global"])
def test_constant_images(dtype, kernel, selection):
    p = PatchProjector(1, kernel=kernel, selection=selection, random_state=0)
    p.fit(np.ones((9, 64), dtype))
    assert np.isfinite(p.transform(np.arange(128).reshape(2, 64).astype(dtype))).all()


def test_an_outlying_pixel_does_not_make_other_patches_constant():
    rng = np.random.default_rng(0)
    y, X = rng.integers(0, 2, 300), rng.random((300, 8, 8))
    X[y == 1, 2:5, 2:5] += 1
    X = X.reshape(300, 64)
    X[0, 27] = 1e4
    clf = PatchClassifier(30, random_state=0).fit(X[:200], y[:200])
    assert clf.score(X[200:], y[200:]) > 0.95


def test_more_units_than_patches():
    with pytest.warns(UserWarning, match=r"n_components=500 is more than the \d+ patches"):
        p = PatchProjector(500, image_shape=(6, 5, 3), stride=3, patch_size=3).fit(COLOURS)
    assert len(p.patches_) == 120


SHAPES = [  # features, image, patch, cells
    (784, (28, 28, 1), (7, 7), (4, 4)),
    (64, (8, 8, 1), (3, 3), (4, 4)),
    (16, (4, 4, 1), (3, 3), (2, 2)),
    (9, (1, 9, 1), (1, 9), (1, 1)),  # too few features for an image
    (50, (1, 50, 1), (1, 50), (1, 1)),
    (1, (1, 1, 1), (1, 1), (1, 1)),
]


@pytest.mark.parametrize(("n", "image", "patch", "cells"), SHAPES)
def test_default_shapes(n, image, patch, cells):
    p = PatchProjector(3, random_state=0).fit(RNG.random((20, n)))
    assert p.image_shape_ == image
    assert p.patches_.shape[1:3] == patch
    assert p.pool_ == cells
    assert (p.floor_ is None) == (image[0] == 1)


def test_an_image_with_a_single_row_has_several_patches():
    p = PatchProjector(3, image_shape=(1, 30), random_state=0).fit(RNG.random((20, 30)))
    assert p.patches_.shape[1:3] == (1, 8)


BAD = [
    ({"n_hidden": 0}, ValueError, "n_hidden=0 must be at least 1"),
    ({"image_shape": (9, 9)}, ValueError, "means 81 features, and X has 64"),
    ({"image_shape": 8}, TypeError, r"image_shape=8 must be \(rows, columns\)"),
    ({"image_shape": (8, 8, 1, 1)}, ValueError, "must be .rows, columns. or .rows, columns, ch"),
    ({"patch_size": 9}, ValueError, "patch_size=9 does not fit in images of 8 x 8"),
    ({"patch_size": 1}, ValueError, "patch_size=1 means patches of a single .* contrast=False"),
    ({"patch_size": (2, 3, 4)}, ValueError, r"patch_size=\(2, 3, 4\) must be the side of squares"),
    ({"patch_size": 2.5}, TypeError, "patch_size=2.5 must be an integer"),
    ({"patch_size": "big"}, TypeError, "patch_size='big' must be the side of squares, or"),
    ({"threshold": 9}, ValueError, "threshold=9 exceeds the inputs of all .* such as 0.5"),
    ({"stride": 0}, ValueError, "stride=0 must be at least 1"),
    ({"pool": None}, TypeError, "pool=None must be an integer"),
    ({"pool": (0, 2)}, ValueError, r"pool=\(0, 2\) must be the cells on a side, or \(down, acr"),
    ({"kernel": "cosine"}, ValueError, "'cosine' is not known; choose one of 'soft_threshold', 'b"),
    ({"kernel": None}, ValueError, "kernel=None is not known"),
    ({"metric": "cosine"}, ValueError, "metric='cosine' is not known"),
    ({"radius": 0}, ValueError, "radius=0 must be finite and greater than 0"),
    ({"threshold": -1}, ValueError, "threshold=-1 must be finite and 0 or more"),
    ({"contrast": "yes"}, TypeError, "contrast='yes' must be True or False"),
    ({"whitening": 0}, ValueError, "whitening=0 must be finite and greater than 0"),
    ({"selection": "per_class"}, ValueError, "selection='per_class' is not known; choose one of"),
    ({"max_memory": "1MB"}, ValueError, "KiB are available within max_memory"),
]


@pytest.mark.parametrize(("params", "error", "message"), BAD, ids=lambda v: str(v)[:30])
def test_bad_input(digits, params, error, message):
    clf = PatchClassifier(**{"n_hidden": 20, "random_state": 0, **params})
    with pytest.raises(error, match=message):
        clf.fit(*digits)
    assert "patches_" not in vars(clf)


def test_non_square_images_require_a_shape():
    with pytest.raises(ValueError, match="image_shape=None, but 3071 features are not a square"):
        PatchProjector(3).fit(RNG.random((5, 3071)))


def test_accuracy_on_digits(digits):
    X, y = digits
    clf = PatchClassifier(60, random_state=0).fit(X[:500], y[:500])
    assert clf.score(X[500:], y[500:]) > 0.95
    assert PatchRegressor(60, random_state=0).fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.7


def test_partial_fit_and_forget(digits):
    X, y = digits
    whole = PatchClassifier(20, alpha=1.0, random_state=0).fit(X, y)
    model = clone(whole).partial_fit(X[:300], y[:300], classes=range(10)).solve(fix_layer=True)
    layer = model.patches_
    for rows in np.split(np.arange(300, 700), 4):
        model.partial_fit(X[rows], y[rows])
    model.forget(X[:300], y[:300])
    np.testing.assert_array_equal(model.patches_, layer)
    H = naive.patches(layer_of(model), X)
    W, b = naive.ridge(H[300:], np.eye(10)[y[300:]], 1.0)
    np.testing.assert_allclose(model.decision_function(X), H @ W.T + b, atol=2e-3)
    # A prediction does not change the layer, so that the models can be merged.
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[:9], y[:9])
    assert again.merge([model]).score(X, y) > 0.9


def test_probabilities_and_several_outputs(digits):
    X, y = digits
    clf = PatchClassifier(20, random_state=0).fit(X, y)
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    assert (p.argmax(axis=1) == y).mean() > 0.95
    both = PatchClassifier(20, random_state=0).fit(X, np.column_stack([y % 2, y // 5]))
    assert both.score(X, np.column_stack([y % 2, y // 5])) > 0.9


def test_the_work_that_selects_a_device_includes_all_columns(digits, monkeypatch):
    work_estimates = []  # `append` returns None: no accelerator
    monkeypatch.setattr("sklearn_fsvc._src.engines.registry.accelerator", work_estimates.append)
    clf = PatchClassifier(20, pool=(2, 3), random_state=0).fit(*digits)
    clf.predict(digits[0])
    assert work_estimates == [700 * 64 * 20 * 2 * 6] * 2


def test_pixels_whose_squares_overflow_are_an_error():
    X = RNG.random((9, 64)).astype(np.float32)
    with pytest.raises(
        ValueError, match=r"X contains 9.*e.19, and the squared lengths of patches overflow"
    ):
        PatchProjector(3).fit(X * np.float32(1e20))
    PatchProjector(3).fit(X.astype(float) * 1e20)


@pytest.mark.parametrize(("dtype", "factor"), [(np.float32, 1e-18), (np.float64, 1e-170)])
def test_pixels_whose_squares_underflow_are_an_error(dtype, factor):
    X = (np.random.default_rng(0).random((9, 64)) * factor).astype(dtype)
    with pytest.raises(ValueError, match=r"at most .*e-1\d+, whose squares underflow float"):
        PatchProjector(3).fit(X)
    PatchProjector(3).fit(0 * X)
