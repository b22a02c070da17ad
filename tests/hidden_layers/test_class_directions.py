"""Weights that are combinations of samples."""

import numpy as np
import pytest

from conftest import open_engine
from hidden_layers.tanh_layers import SAMPLED_WEIGHTS, draw_layer
from sklearn_fsvc import TanhClassifier, TanhProjector
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.hidden_layers import tanh
from sklearn_fsvc._src.hidden_layers.class_directions import (
    LabelledSamples,
    sample_differences,
    signed_class_sums,
)
from sklearn_fsvc.engines import get_engine


@pytest.mark.parametrize("weights", SAMPLED_WEIGHTS)
def test_the_scale_is_the_length_of_weights(data, weights):
    W, _ = draw_layer(*data, weights=weights, scale=2.5)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 2.5)


def sums(X, y, m, dtype=np.float64, engine=None, max_memory=None, draw=signed_class_sums):
    codes = np.unique(y, return_inverse=True)[1]
    mean = X.mean(axis=0, dtype=float)
    with engine or get_engine("jit") as engine:
        X, every = engine.to_device(X), np.arange(len(X))
        data = LabelledSamples(Job(engine, max_memory), X, every, codes, mean, np.dtype(dtype))
        return engine.to_host(draw(data, m, 1))


def test_class_informed_weights_are_signed_sums_of_one_class(data):
    X, y = data
    Z = X - X.mean(axis=0)
    W = sums(X, y, 100)
    for j, w in enumerate(W):
        rows = Z[y == np.unique(y)[j % 3]]
        if len(rows) <= 42:  # no more samples than features: the signs are unique
            signs = np.linalg.lstsq(rows.T, w, rcond=None)[0]
            np.testing.assert_allclose(np.abs(signs), 1, atol=1e-9)
            np.testing.assert_allclose(signs @ rows, w, atol=1e-9)


def test_signs_are_fair_and_independent(rng):
    """Both signs are as frequent, for each unit and sample, and units are uncorrelated."""
    n = 400
    W = sums(np.eye(n), np.zeros(n), 600)
    signs = np.sign(W)  # weight i is the sign of sample i, minus the mean of all signs
    np.testing.assert_allclose(W, signs - signs.mean(axis=1, keepdims=True), atol=1e-12)
    assert np.abs(signs.mean(axis=1)).max() < 0.3
    assert np.abs(signs.mean(axis=0)).max() < 0.4
    correlation = np.corrcoef(signs)
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 0.3
    assert correlation.std() == pytest.approx(1 / np.sqrt(n), rel=0.1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_the_tile_size_does_not_change_sums(rng, dtype):
    X, y = (rng.random((300, 12)) * 255).astype(dtype), rng.integers(0, 3, 300)
    wide = np.result_type(dtype, np.float32)
    whole = sums(X, y, 200, wide)
    # The sums; in addition, each row of a tile needs about 1000 bytes.
    fixed_bytes = 2 * 201 * 12 * wide.itemsize
    for available in (2000, 20_000, 50_000):
        parts = sums(X, y, 200, wide, max_memory=fixed_bytes + available)
        if dtype == np.uint8:
            np.testing.assert_array_equal(parts, whole)
        np.testing.assert_allclose(parts, whole, atol=2e-3 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("weights", SAMPLED_WEIGHTS)
@pytest.mark.parametrize("offset", [0, 1e5])
def test_an_offset_costs_few_digits_of_float32(rng, weights, offset):
    X, y = (rng.normal(size=(6000, 4)) + offset).astype(np.float32), rng.integers(0, 3, 6000)
    result, exact = (draw_layer(Z, y, weights=weights, scale=1.0)[0] for Z in (X, X.astype(float)))
    np.testing.assert_allclose(result, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("weights", SAMPLED_WEIGHTS)
def test_the_memory_limit_applies_to_the_layer(data, weights, monkeypatch):
    limits, fit_tanh_layer = [], tanh.fit_tanh_layer

    def recorded(units, job, *arguments):
        limits.append(job.memory_limit)
        return fit_tanh_layer(units, job, *arguments)

    monkeypatch.setattr(tanh, "fit_tanh_layer", recorded)
    params = {"weights": weights, "device": "jit", "max_memory": "64MiB"}
    TanhClassifier(5, **params).fit(*data)
    TanhProjector(5, **params).fit(*data)
    assert limits == [64 * 2**20, 64 * 2**20]


def test_sums_include_all_samples():
    X = np.vstack([np.zeros((1000, 500)), np.eye(500)])
    W, _ = draw_layer(X, np.arange(1500) % 2, 2, weights="class_informed", scale=1.0)
    assert W.any(axis=0).all()


def test_uint8_and_float64_yield_the_same_weights(rng):
    X, y = rng.integers(0, 256, (300, 12)), rng.integers(0, 3, 300)
    of_bytes, of_floats = sums(X.astype(np.uint8), y, 50), sums(X.astype(float), y, 50)
    np.testing.assert_allclose(of_bytes, of_floats, atol=1e-9)
    of_bytes, of_floats = (
        draw_layer(X.astype(dtype), y, weights="constrained", scale=1.0)[0]
        for dtype in (np.uint8, float)
    )
    np.testing.assert_allclose(of_bytes, of_floats, atol=1e-6)


def test_constrained_weights_are_differences_of_samples_of_two_classes(data):
    X, y = data
    codes = np.unique(y, return_inverse=True)[1]
    with get_engine("jit") as engine:
        data = LabelledSamples(Job(engine), X, np.arange(90), codes, None, X.dtype)
        W = sample_differences(data, 1500, 1)
    # One feature identifies the two samples.
    pairs = [np.argwhere(np.abs(X[:, None, 0] - X[:, 0] - w[0]) < 1e-12) for w in W]
    assert all(len(pair) == 1 for pair in pairs)
    pairs = np.concatenate(pairs)
    np.testing.assert_allclose(X[pairs[:, 0]] - X[pairs[:, 1]], W, atol=1e-12)
    first, second = codes[pairs].T
    np.testing.assert_array_equal(first, np.arange(1500) % 3)
    # The other classes, and their samples, are uniformly distributed.
    for k in range(3):
        counts = np.bincount(second[first == k], minlength=3)
        assert counts[k] == 0
        assert np.delete(counts, k).min() > 200
    assert len(np.unique(pairs[:, 0])) == 90
    assert len(np.unique(pairs[:, 1])) == 90


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_the_tile_size_does_not_change_differences(rng, dtype):
    X, y = (rng.random((300, 12)) * 255).astype(dtype), rng.integers(0, 3, 300)
    wide = np.result_type(dtype, np.float32)
    whole = sums(X, y, 200, wide, draw=sample_differences)
    fixed_bytes = 200 * 12 * wide.itemsize
    for available in (400, 2000, 7000):
        parts = sums(X, y, 200, wide, max_memory=fixed_bytes + available, draw=sample_differences)
        np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("weights", SAMPLED_WEIGHTS)
def test_samples_of_weight_0_are_ignored(data, rng, weights):
    X, y = data
    keep = rng.random(90) < 0.7
    params = {"weights": weights, "random_state": 0, "device": "jit", "n_hidden": 20}
    zeroed = TanhClassifier(**params).fit(X, y, sample_weight=keep.astype(float))
    absent = TanhClassifier(**params).fit(X[keep], y[keep])
    np.testing.assert_allclose(zeroed.components_, absent.components_, atol=1e-12)
    np.testing.assert_allclose(zeroed.readout_coef_, absent.readout_coef_, atol=1e-9)


@pytest.mark.parametrize("weights", SAMPLED_WEIGHTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_weights_are_the_same_on_every_device(device, rng, weights, dtype):
    X, y = rng.integers(0, 256, (500, 30)).astype(dtype), rng.integers(0, 4, 500)
    for images in ({}, {"image_shape": (5, 3, 2), "patch_size": (2, 3)}):
        params = {"n_hidden": 60, "weights": weights, "random_state": 0, **images}
        actual, expected = (
            TanhClassifier(device=d, **params).fit(X, y).components_ for d in (device, "jit")
        )
        scale = np.abs(expected).max()
        tolerance = 1e-12 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def test_sums_of_uint8_are_identical_on_a_gpu(request, rng):
    X, y = rng.integers(0, 256, (5000, 30)).astype(np.uint8), rng.integers(0, 4, 5000)
    there = sums(X, y, 100, np.float32, open_engine("cuda", request.config))
    np.testing.assert_array_equal(there, sums(X, y, 100, np.float32))


@pytest.mark.parametrize("weights", SAMPLED_WEIGHTS)
@pytest.mark.parametrize("images", [{}, {"image_shape": (2, 3)}], ids=["features", "images"])
def test_one_sample_per_class_and_more_units_than_samples(weights, images, rng):
    X, y = rng.normal(size=(3, 6)), ["a", "b", "c"]
    clf = TanhClassifier(50, weights=weights, random_state=0, device="jit", **images)
    with pytest.warns(UserWarning, match="Each class has one sample"):  # about probabilities
        clf.fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), y)
    W = clf.components_
    if weights == "class_informed" and not images:
        Z = X - X.mean(axis=0)
        for j, w in enumerate(W):
            cosine = w @ Z[j % 3] / np.linalg.norm(w) / np.linalg.norm(Z[j % 3])
            assert abs(cosine) == pytest.approx(1)


@pytest.mark.parametrize("weights", SAMPLED_WEIGHTS)
def test_memory_mapped_data(tmp_path, rng, weights):
    X, y = rng.integers(0, 256, (4000, 50)).astype(np.uint8), rng.integers(0, 3, 4000)
    np.save(tmp_path / "X.npy", X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        draw_layer(on_disk, y, 30, weights=weights)[0], draw_layer(X, y, 30, weights=weights)[0]
    )


@pytest.mark.parametrize("weights", SAMPLED_WEIGHTS)
def test_too_little_memory_is_an_error(data, weights):
    with pytest.raises(ValueError, match=r"1000.0 B are available within max_memory"):
        draw_layer(*data, 30, weights=weights, max_memory=1000)
