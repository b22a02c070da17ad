"""Layers of tanh units with each kind of weights."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from hidden_layers.tanh_layers import IMAGES, SAMPLED_WEIGHTS, draw_layer
from sklearn_fsvc import TanhClassifier, TanhProjector
from sklearn_fsvc._src.hidden_layers.tanh import WEIGHTS


@pytest.mark.parametrize("images", [{}, IMAGES], ids=["features", "images"])
@pytest.mark.parametrize("scale", [0.7, "auto"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("m", [1, 5, 42, 200, 300])
def test_a_smaller_layer_is_a_prefix(data, weights, scale, images, m):
    params = {"weights": weights, "scale": scale, **images}
    (W, b), (most, biases) = draw_layer(*data, m, **params), draw_layer(*data, 500, **params)
    np.testing.assert_allclose(W, most[:m], rtol=0, atol=1e-13)
    np.testing.assert_allclose(b, biases[:m], rtol=0, atol=1e-11)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    "images", [{}, IMAGES, {"image_shape": (3, 7, 2)}], ids=["features", "images", "channels"]
)
def test_moments_of_random_weights(data, weights, images):
    W, b = draw_layer(*data, 6000, weights=weights, scale=3.0, **images)
    lengths = np.linalg.norm(W, axis=1)
    assert W.mean() == pytest.approx(0, abs=0.01)
    assert np.sqrt(np.mean(lengths**2)) == pytest.approx(3, rel=0.01)
    assert lengths.std() > 0.1  # lengths of normal vectors differ
    assert b.min() >= -1
    assert b.max() <= 1
    assert b.std() == pytest.approx(1 / np.sqrt(3), rel=0.03)


def test_orthogonal_groups(data):
    W, _ = draw_layer(*data, 100, weights="orthogonal", scale=1.0)
    for group in (W[:42], W[42:84], W[84:]):
        gram = group @ group.T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    gaussian, _ = draw_layer(*data, 100, scale=1.0)
    lengths = (np.linalg.norm(w, axis=1) for w in (W, gaussian))
    np.testing.assert_allclose(*lengths)


def test_an_orthogonal_unit_has_an_acute_angle_to_its_gaussian_one(data):
    W, _ = draw_layer(*data, 100, weights="orthogonal", scale=1.0)
    gaussian, _ = draw_layer(*data, 100, scale=1.0)
    assert ((W * gaussian).sum(axis=1) > 0).all()
    np.testing.assert_allclose(W[[0, 42, 84]], gaussian[[0, 42, 84]])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_no_bias(data, weights):
    assert not draw_layer(*data, scale=1.0, weights=weights, bias=False)[1].any()
    W, b = draw_layer(*data, weights=weights, bias=False)
    np.testing.assert_allclose(W @ data[0].mean(axis=0) + b, 0, atol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("scale", [0.7, "auto"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_the_dtype_of_the_layer_follows_that_of_X(data, weights, scale, dtype):
    X, y = data
    parts = draw_layer((10 * X).clip(0).astype(dtype), y, weights=weights, scale=scale, **IMAGES)
    expected = np.float64 if dtype == np.float64 else np.float32
    assert [part.dtype for part in parts] == [expected, expected]


@pytest.mark.parametrize("factor", [1e-25, 1e-12, 1e8, 1e25])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_huge_and_tiny_float32_values(data, weights, factor):
    X, y = data[0].astype(np.float32), data[1]
    p = TanhProjector(30, weights=weights, random_state=0, device="jit")
    H, other = (clone(p).fit_transform(np.float32(f) * X, y) for f in (1, factor))
    np.testing.assert_allclose(other, H, atol=1e-4)
    if weights in SAMPLED_WEIGHTS:
        W, _ = draw_layer(np.float32(factor) * X, y, weights=weights, scale=0.5)
        np.testing.assert_allclose(np.linalg.norm(W, axis=1), 0.5, rtol=1e-5)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_another_seed_is_another_layer(data, weights):
    for one, other in zip(
        *(draw_layer(*data, weights=weights, random_state=seed) for seed in (0, 1)), strict=True
    ):
        assert not np.isclose(one, other).all(axis=-1).any()


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("images", [{}, IMAGES], ids=["features", "images"])
def test_sample_weights_are_repetitions(data, rng, weights, images):
    X, y = data
    times = rng.integers(0, 4, 90)
    params = {
        "n_hidden": 20, "weights": weights, "feature_weights": None, "random_state": 0,
        "device": "jit",
    }  # fmt: skip
    weighted = TanhClassifier(**params, **images).fit(X, y, sample_weight=times)
    again = TanhClassifier(**params, **images).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.components_, again.components_)
    np.testing.assert_allclose(weighted.hidden_intercept_, again.hidden_intercept_)


@pytest.mark.parametrize("scale", [1.0, "auto"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_constant_features(weights, scale, rng):
    X, y = np.full((40, 30), 0.1), np.arange(40) % 2
    p = TanhProjector(25, weights=weights, scale=scale, random_state=0, device="jit")
    H = p.fit_transform(X, y)
    assert np.isfinite(H).all()
    if weights in SAMPLED_WEIGHTS:
        assert not p.components_.any()
        np.testing.assert_allclose(H, np.broadcast_to(np.tanh(p.hidden_intercept_), H.shape))
    X[:, ::3] = rng.random((40, 10))  # the others vary
    p.fit(X, y)
    if weights in SAMPLED_WEIGHTS:
        assert not np.delete(p.components_, np.s_[::3], axis=1).any()
        assert p.components_.any(axis=1).all()


def test_sampled_weights_classify_digits_better():
    X, y = load_digits(return_X_y=True)
    params = {"n_hidden": 300, "random_state": 0, "device": "jit"}
    params |= {"feature_weights": None, "alpha": 1.0}

    def score(**more):
        return TanhClassifier(**params, **more).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])

    plain = score()
    assert score(weights="class_informed") > plain
    assert score(weights="constrained") > plain
    assert score(weights="class_informed", image_shape=(8, 8)) > plain - 0.01


def test_random_weights_ignore_labels(data):
    X, _ = data
    TanhProjector(5, device="jit").fit(X, np.full(90, np.nan))
    TanhProjector(5, device="jit").fit(X, np.zeros(3))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_tags_state_whether_labels_are_required(weights):
    tags = TanhProjector(weights=weights).__sklearn_tags__()
    assert tags.target_tags.required == (weights in SAMPLED_WEIGHTS)
