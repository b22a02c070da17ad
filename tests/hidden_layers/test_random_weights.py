"""Weights that are combinations of samples, and receptive fields."""

import numpy as np
import pytest

import naive
from conftest import open_engine
from hidden_layers.tanh_layers import SAMPLED_WEIGHTS, draw_layer
from sklearn_fsvc import TanhClassifier, TanhProjector
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.hidden_layers import tanh
from sklearn_fsvc._src.hidden_layers.random_weights import (
    LabelledSamples,
    ReceptiveFields,
    field_sides,
    sample_differences,
    signed_class_sums,
)
from sklearn_fsvc._src.hidden_layers.tanh import WEIGHTS
from sklearn_fsvc._src.layers import TanhLayer
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
    clf = TanhClassifier(50, weights=weights, random_state=0, device="jit", **images).fit(X, y)
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


# Receptive fields.


@pytest.mark.parametrize("kind", [list, np.array, lambda t: np.array(t, np.uint8)])
def test_shapes_and_sizes_are_sequences_of_integers(rng, kind):
    X = rng.random((20, 28 * 28))
    W, _ = draw_layer(X, None, 5, image_shape=kind((28, 28)), patch_size=kind((2, 9)))
    np.testing.assert_array_equal(
        W, draw_layer(X, None, 5, image_shape=(28, 28), patch_size=(2, 9))[0]
    )


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("shape", [(6, 7), (3, 7, 2), (42, 1), (1, 42), (7, 6, 1)])
def test_fields_are_rectangles_with_all_channels(data, weights, shape):
    low, high = field_sides(shape, None)
    W, _ = draw_layer(*data, 50, weights=weights, image_shape=shape)
    for image in W.reshape(50, shape[0], shape[1], -1):
        inside = image != 0
        np.testing.assert_array_equal(inside.all(axis=2), inside.any(axis=2))
        down, across = (np.flatnonzero(inside.any(axis=axes)) for axes in ((1, 2), (0, 2)))
        assert inside[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
        for pixels, side in ((down, shape[0]), (across, shape[1])):
            assert min(low, side) <= len(pixels) <= min(high, side)


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3), (1, 9)])
def test_first_features_are_those_that_masks_keep(shape):
    fields = ReceptiveFields.draw(1, shape, None, 0)
    W = np.ones((8, np.prod(shape)))
    fields.mask(W, np)
    for w, features in zip(W, fields.first_features(), strict=True):
        np.testing.assert_array_equal(np.flatnonzero(w), features)
    np.testing.assert_array_equal(fields.n_inputs(8), W.sum(axis=1))


@pytest.mark.parametrize("patch_size", [(1, 1), (2, 4), (6, 6), (3, 9)])
def test_sizes_and_positions_are_uniform(patch_size):
    low, high = patch_size
    fields = ReceptiveFields.draw(20_000, (6, 9), patch_size, 0)
    starts, lengths = fields.starts, fields.lengths
    for axis, side in enumerate((6, 9)):
        sizes = np.arange(low, min(high, side) + 1)
        counts = np.bincount(lengths[:, axis])[low:]
        np.testing.assert_allclose(counts, 20_000 / len(sizes), rtol=0.08)
        for size in sizes:
            places = np.bincount(starts[lengths[:, axis] == size, axis])
            assert len(places) == side - size + 1
            np.testing.assert_allclose(places, places.mean(), rtol=0.2)
    if high > low:
        assert abs(np.corrcoef(lengths.T)[0, 1]) < 0.03
    np.testing.assert_array_equal(fields.n_inputs(20_000), lengths.prod(axis=1))


def test_default_sides():
    assert field_sides((28, 28), None) == (6, 17)
    assert field_sides((100, 20, 3), None) == (4, 12)
    assert field_sides((1, 5), None) == (1, 1)
    assert field_sides((28, 28), (2, 3)) == (2, 3)


def test_a_field_of_the_whole_image_changes_nothing(data):
    params = {"image_shape": (6, 7), "patch_size": (6, 7), "weights": "class_informed"}
    W, _ = draw_layer(*data, 30, scale=1.0, **params)
    whole = np.count_nonzero(W, axis=1) == 42
    assert whole.any()
    without, _ = draw_layer(*data, 30, scale=1.0, weights="class_informed")
    np.testing.assert_allclose(W[whole], without[whole])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("scale", [0.01, "auto"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_unit_with_a_constant_field_is_constant(weights, scale, dtype, rng):
    X = np.zeros((3000, 8, 8), dtype)
    X[:, :3] = rng.integers(0, 200, (3000, 3, 8))
    X, y = X.reshape(3000, 64), rng.integers(0, 3, 3000)
    images = {"image_shape": (8, 8), "patch_size": (2, 3)}
    clf = TanhClassifier(
        100, weights=weights, scale=scale, alpha=1e-3, random_state=0, device="jit", **images
    ).fit(X, y)  # and no warning
    H = naive.hidden(TanhLayer(clf.components_, clf.hidden_intercept_), X[:20].astype(float))
    empty = ReceptiveFields.draw(100, (8, 8), (2, 3), position_seed()).starts[:100, 0] >= 3
    assert 30 < empty.sum() < 90
    np.testing.assert_allclose(np.ptp(H[:, empty], axis=0), 0, atol=1e-6)
    assert np.ptp(H[:, ~empty], axis=0).min() > 1e-3
    if weights in SAMPLED_WEIGHTS:
        assert not clf.components_[empty].any()
    assert np.isfinite(clf.decision_function(X[:5])).all()


def position_seed():
    return np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=3)[2]
