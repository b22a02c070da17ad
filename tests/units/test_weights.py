import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import naive
from conftest import usable
from sklearn_fsvc import TanhClassifier, TanhProjector
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.engines.algebra import HOST
from sklearn_fsvc.estimators import tanh
from sklearn_fsvc.layers import TanhLayer
from sklearn_fsvc.rows.job import Job
from sklearn_fsvc.units.tanh import WEIGHTS
from sklearn_fsvc.units.weights import rows, scale
from sklearn_fsvc.units.weights.fields import Fields, sides_of
from sklearn_fsvc.units.weights.rows import LabelledRows, differences, signed_sums
from sklearn_fsvc.units.weights.scale import Sample

FROM_ROWS = ["class_informed", "constrained"]
IMAGES = {"image_shape": (6, 7)}


@pytest.fixture
def data(rng):
    """42 features that vary, differently in each of 3 classes, and are no whole numbers."""
    X = rng.normal(size=(90, 42)) * rng.uniform(0.5, 2, 42) + 5
    y = np.repeat([3, 1, 7], [50, 10, 30])[rng.permutation(90)]
    X[y == 1] += 1
    return X, y


def layer(X, y, m=40, **params):
    p = TanhProjector(m, random_state=0, device="jit").set_params(**params).fit(X, y)
    return p.components_, p.hidden_intercept_


# What units are.


@pytest.mark.parametrize("images", [{}, IMAGES], ids=["features", "images"])
@pytest.mark.parametrize("scale", [0.7, "auto"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("m", [1, 5, 42, 200, 300])
def test_a_smaller_layer_is_a_prefix(data, weights, scale, images, m):
    params = {"weights": weights, "scale": scale, **images}
    (W, b), (most, biases) = layer(*data, m, **params), layer(*data, 500, **params)
    np.testing.assert_allclose(W, most[:m], rtol=0, atol=1e-13)
    np.testing.assert_allclose(b, biases[:m], rtol=0, atol=1e-11)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    "images", [{}, IMAGES, {"image_shape": (3, 7, 2)}], ids=["features", "images", "channels"]
)
def test_moments_of_chance(data, weights, images):
    W, b = layer(*data, 6000, weights=weights, scale=3.0, **images)
    lengths = np.linalg.norm(W, axis=1)
    assert W.mean() == pytest.approx(0, abs=0.01)
    assert np.sqrt(np.mean(lengths**2)) == pytest.approx(3, rel=0.01)
    assert lengths.std() > 0.1  # of normal weights, not all the same
    assert b.min() >= -1
    assert b.max() <= 1
    assert b.std() == pytest.approx(1 / np.sqrt(3), rel=0.03)


def test_orthogonal_groups(data):
    W, _ = layer(*data, 100, weights="orthogonal", scale=1.0)
    for group in (W[:42], W[42:84], W[84:]):
        gram = group @ group.T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    gaussian, _ = layer(*data, 100, scale=1.0)
    lengths = (np.linalg.norm(w, axis=1) for w in (W, gaussian))
    np.testing.assert_allclose(*lengths)


def test_an_orthogonal_unit_is_on_the_side_of_its_gaussian_one(data):
    W, _ = layer(*data, 100, weights="orthogonal", scale=1.0)
    gaussian, _ = layer(*data, 100, scale=1.0)
    assert ((W * gaussian).sum(axis=1) > 0).all()
    np.testing.assert_allclose(W[[0, 42, 84]], gaussian[[0, 42, 84]])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_no_bias(data, weights):
    assert not layer(*data, scale=1.0, weights=weights, bias=False)[1].any()
    W, b = layer(*data, weights=weights, bias=False)
    np.testing.assert_allclose(W @ data[0].mean(axis=0) + b, 0, atol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("scale", [0.7, "auto"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_the_layer_is_as_wide_as_its_rows(data, weights, scale, dtype):
    X, y = data
    parts = layer((10 * X).clip(0).astype(dtype), y, weights=weights, scale=scale, **IMAGES)
    expected = np.float64 if dtype == np.float64 else np.float32
    assert [part.dtype for part in parts] == [expected, expected]


@pytest.mark.parametrize("weights", FROM_ROWS)
def test_lengths_of_rows_are_the_scale(data, weights):
    W, _ = layer(*data, weights=weights, scale=2.5)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 2.5)


def sums(X, y, m, dtype=np.float64, engine=None):
    codes = np.unique(y, return_inverse=True)[1]
    mean = X.mean(axis=0, dtype=float)
    with engine or get_engine("jit") as engine:
        X, every = engine.to_device(X), np.arange(len(X))
        data = LabelledRows(Job(engine), X, every, codes, mean, np.dtype(dtype))
        return engine.to_host(signed_sums(data, m, 1))


def test_class_informed_units_are_signed_sums_of_one_class(data):
    X, y = data
    Z = X - X.mean(axis=0)
    W = sums(X, y, 100)
    for j, w in enumerate(W):
        ours = Z[y == np.unique(y)[j % 3]]
        if len(ours) <= 42:  # as many features as rows: the signs can be told
            signs = np.linalg.lstsq(ours.T, w, rcond=None)[0]
            np.testing.assert_allclose(np.abs(signs), 1, atol=1e-9)
            np.testing.assert_allclose(signs @ ours, w, atol=1e-9)


def test_signs_are_fair_and_independent(rng):
    """As many + as -, for each unit and row, and no two units alike."""
    n = 400
    W = sums(np.eye(n), np.zeros(n), 600)
    signs = np.sign(W)  # of row i that of weight i, less the mean of all
    np.testing.assert_allclose(W, signs - signs.mean(axis=1, keepdims=True), atol=1e-12)
    assert np.abs(signs.mean(axis=1)).max() < 0.3
    assert np.abs(signs.mean(axis=0)).max() < 0.4
    correlation = np.corrcoef(signs)
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 0.3
    assert correlation.std() == pytest.approx(1 / np.sqrt(n), rel=0.1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_the_tile_does_not_matter(rng, monkeypatch, dtype):
    X, y = (rng.random((300, 12)) * 255).astype(dtype), rng.integers(0, 3, 300)
    whole = sums(X, y, 200, np.result_type(dtype, np.float32))
    for tile_bytes in (1, 20_000, 50_000):
        monkeypatch.setattr(rows, "_TILE_BYTES", tile_bytes)
        parts = sums(X, y, 200, np.result_type(dtype, np.float32))
        if dtype == np.uint8:
            np.testing.assert_array_equal(parts, whole)
        np.testing.assert_allclose(parts, whole, atol=2e-3 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("weights", FROM_ROWS)
@pytest.mark.parametrize("offset", [0, 1e5])
def test_an_offset_costs_float32_few_digits(rng, weights, offset):
    X, y = (rng.normal(size=(6000, 4)) + offset).astype(np.float32), rng.integers(0, 3, 6000)
    found, exact = (layer(Z, y, weights=weights, scale=1.0)[0] for Z in (X, X.astype(float)))
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-25, 1e-12, 1e8, 1e25])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_squares_of_large_float32_are_no_trouble(data, weights, factor):
    X, y = data[0].astype(np.float32), data[1]
    p = TanhProjector(30, weights=weights, random_state=0, device="jit")
    H, other = (clone(p).fit_transform(np.float32(f) * X, y) for f in (1, factor))
    np.testing.assert_allclose(other, H, atol=1e-4)
    if weights in FROM_ROWS:
        W, _ = layer(np.float32(factor) * X, y, weights=weights, scale=0.5)
        np.testing.assert_allclose(np.linalg.norm(W, axis=1), 0.5, rtol=1e-5)


@pytest.mark.parametrize("kind", [list, np.array, lambda t: np.array(t, np.uint8)])
def test_shapes_and_sizes_are_any_sequence_of_whole_numbers(rng, kind):
    X = rng.random((20, 28 * 28))
    W, _ = layer(X, None, 5, image_shape=kind((28, 28)), patch_size=kind((2, 9)))
    np.testing.assert_array_equal(W, layer(X, None, 5, image_shape=(28, 28), patch_size=(2, 9))[0])


@pytest.mark.parametrize("weights", FROM_ROWS)
def test_the_layer_is_drawn_within_the_memory_that_fit_has(data, weights, monkeypatch):
    limits, fit_layer = [], tanh.fit_layer

    def spy(request, job, *arguments):
        limits.append(job.memory_limit)
        return fit_layer(request, job, *arguments)

    monkeypatch.setattr(tanh, "fit_layer", spy)
    params = {"weights": weights, "device": "jit", "max_memory": "64MiB"}
    TanhClassifier(5, **params).fit(*data)
    TanhProjector(5, **params).fit(*data)
    assert limits == [64 * 2**20, 64 * 2**20]


def test_all_rows_are_in_the_sums_however_many():
    X = np.vstack([np.zeros((1000, 500)), np.eye(500)])
    W, _ = layer(X, np.arange(1500) % 2, 2, weights="class_informed", scale=1.0)
    assert W.any(axis=0).all()


@pytest.mark.parametrize("weights", WEIGHTS)
def test_another_seed_is_another_layer(data, weights):
    for one, other in zip(
        *(layer(*data, weights=weights, random_state=seed) for seed in (0, 1)), strict=True
    ):
        assert not np.isclose(one, other).all(axis=-1).any()


def test_bytes_are_what_floats_are(rng):
    X, y = rng.integers(0, 256, (300, 12)), rng.integers(0, 3, 300)
    of_bytes, of_floats = sums(X.astype(np.uint8), y, 50), sums(X.astype(float), y, 50)
    np.testing.assert_allclose(of_bytes, of_floats, atol=1e-9)
    of_bytes, of_floats = (
        layer(X.astype(dtype), y, weights="constrained", scale=1.0)[0]
        for dtype in (np.uint8, float)
    )
    np.testing.assert_allclose(of_bytes, of_floats, atol=1e-6)


def test_constrained_units_are_differences_of_rows_of_two_classes(data):
    X, y = data
    codes = np.unique(y, return_inverse=True)[1]
    with get_engine("jit") as engine:
        data = LabelledRows(Job(engine), X, np.arange(90), codes, None, X.dtype)
        W = differences(data, 1500, 1)
    pairs = [np.argwhere(np.abs(X[:, None] - X - w).max(axis=2) < 1e-12) for w in W]
    assert all(len(pair) == 1 for pair in pairs)
    pairs = np.concatenate(pairs)
    first, second = codes[pairs].T
    np.testing.assert_array_equal(first, np.arange(1500) % 3)
    # Of the other classes, and of their rows, each as often as any other.
    for k in range(3):
        counts = np.bincount(second[first == k], minlength=3)
        assert counts[k] == 0
        assert np.delete(counts, k).min() > 200
    assert len(np.unique(pairs[:, 0])) == 90
    assert len(np.unique(pairs[:, 1])) == 90


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_the_tile_of_differences_does_not_matter(rng, monkeypatch, dtype):
    X, y = (rng.random((300, 12)) * 255).astype(dtype), rng.integers(0, 3, 300)
    whole, _ = layer(X, y, 200, weights="constrained")
    for tile_bytes in (1, 2000, 7000):
        monkeypatch.setattr(rows, "_TILE_BYTES", tile_bytes)
        np.testing.assert_array_equal(layer(X, y, 200, weights="constrained")[0], whole)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("images", [{}, IMAGES], ids=["features", "images"])
def test_weights_of_rows_are_repetitions(data, rng, weights, images):
    X, y = data
    times = rng.integers(0, 4, 90)
    params = {"weights": weights, "random_state": 0, "device": "jit", "n_hidden": 20}
    weighted = TanhClassifier(**params, **images).fit(X, y, sample_weight=times)
    again = TanhClassifier(**params, **images).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.components_, again.components_)
    np.testing.assert_allclose(weighted.hidden_intercept_, again.hidden_intercept_)


@pytest.mark.parametrize("weights", FROM_ROWS)
def test_a_row_of_weight_0_is_as_good_as_absent(data, rng, weights):
    X, y = data
    keep = rng.random(90) < 0.7
    params = {"weights": weights, "random_state": 0, "device": "jit", "n_hidden": 20}
    zeroed = TanhClassifier(**params).fit(X, y, sample_weight=keep.astype(float))
    absent = TanhClassifier(**params).fit(X[keep], y[keep])
    np.testing.assert_allclose(zeroed.components_, absent.components_, atol=1e-12)
    np.testing.assert_allclose(zeroed.readout_coef_, absent.readout_coef_, atol=1e-9)


@pytest.mark.parametrize("weights", FROM_ROWS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_the_same_on_every_device(device, rng, weights, dtype):
    X, y = rng.integers(0, 256, (500, 30)).astype(dtype), rng.integers(0, 4, 500)
    for images in ({}, {"image_shape": (5, 3, 2), "patch_size": (2, 3)}):
        params = {"n_hidden": 60, "weights": weights, "random_state": 0, **images}
        ours, theirs = (
            TanhClassifier(device=d, **params).fit(X, y).components_ for d in (device, "jit")
        )
        scale = np.abs(theirs).max()
        tolerance = 1e-12 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)


def test_sums_of_bytes_are_the_same_to_the_bit_on_a_gpu(request, rng):
    X, y = rng.integers(0, 256, (5000, 30)).astype(np.uint8), rng.integers(0, 4, 5000)
    there = sums(X, y, 100, np.float32, usable("cuda", request.config))
    np.testing.assert_array_equal(there, sums(X, y, 100, np.float32))


# Receptive fields.


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("shape", [(6, 7), (3, 7, 2), (42, 1), (1, 42), (7, 6, 1)])
def test_fields_are_rectangles_with_all_channels(data, weights, shape):
    low, high = sides_of(shape, None)
    W, _ = layer(*data, 50, weights=weights, image_shape=shape)
    for image in W.reshape(50, shape[0], shape[1], -1):
        seen = image != 0
        np.testing.assert_array_equal(seen.all(axis=2), seen.any(axis=2))
        down, across = (np.flatnonzero(seen.any(axis=axes)) for axes in ((1, 2), (0, 2)))
        assert seen[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
        for pixels, side in ((down, shape[0]), (across, shape[1])):
            assert min(low, side) <= len(pixels) <= min(high, side)


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3), (1, 9)])
def test_the_first_fields_are_those_of_the_first_units(shape):
    fields = Fields.draw(1, shape, None, 0)
    W = np.ones((8, np.prod(shape)))
    fields.mask(W, np)
    for w, features in zip(W, fields.first(), strict=True):
        np.testing.assert_array_equal(np.flatnonzero(w), features)
    np.testing.assert_array_equal(fields.n_inputs(8), W.sum(axis=1))


@pytest.mark.parametrize("patch_size", [(1, 1), (2, 4), (6, 6), (3, 9)])
def test_sizes_and_places_are_uniform(patch_size):
    low, high = patch_size
    fields = Fields.draw(20_000, (6, 9), patch_size, 0)
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


def test_the_default_size():
    assert sides_of((28, 28), None) == (6, 17)
    assert sides_of((100, 20, 3), None) == (4, 12)
    assert sides_of((1, 5), None) == (1, 1)
    assert sides_of((28, 28), (2, 3)) == (2, 3)


def test_a_field_of_the_whole_image_is_none(data):
    params = {"image_shape": (6, 7), "patch_size": (6, 7), "weights": "class_informed"}
    W, _ = layer(*data, 30, scale=1.0, **params)
    whole = np.count_nonzero(W, axis=1) == 42
    assert whole.any()
    without, _ = layer(*data, 30, scale=1.0, weights="class_informed")
    np.testing.assert_allclose(W[whole], without[whole])


# The scale.


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("images", [{}, IMAGES], ids=["features", "images"])
@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (1000, 0), (1e-3, 0), (1, 1e4)])
def test_auto_scale_knows_neither_unit_nor_offset(data, weights, images, factor, offset):
    X, y = data
    p = TanhProjector(50, random_state=0, weights=weights, device="jit", **images)
    plain, other = p.fit(X, y).transform(X), clone(p).fit(factor * X + offset, y)
    np.testing.assert_allclose(other.transform(factor * X + offset), plain, atol=1e-8)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("images", [{}, IMAGES], ids=["features", "images"])
def test_auto_gives_every_unit_the_deviation_of_scotts_rule(data, weights, images):
    X, y = data
    W, b = layer(X, y, weights=weights, **images)
    if not images:
        variances = np.linalg.eigvalsh(np.cov(X, rowvar=False, ddof=0))
        d = variances.sum() ** 2 / (variances**2).sum()
        expected = 0.39 * 90 ** (1 / (d + 4))
    else:
        expected = (X @ W.T).std(axis=0)[0]
        assert 0.39 * 90 ** (1 / 46) < expected < 0.39 * 90 ** (1 / 5)
    np.testing.assert_allclose((X @ W.T).std(axis=0), expected)
    # Around the biases, which are uniform.
    np.testing.assert_allclose(W @ X.mean(axis=0) + b, layer(X, y, scale=1.0)[1], atol=1e-9)


def test_fields_see_fewer_directions(rng):
    """Half of the image is of one pixel's values: fields there see one direction."""
    X = rng.normal(size=(800, 8, 8))
    X[:, :, :4] = X[:, :1, :1]
    sample = Sample.draw(HOST, X.reshape(800, 64), np.arange(800), None, np.random.RandomState(0))
    pixels = np.arange(64).reshape(8, 8)
    assert sample.dimension(pixels[2:5, 1:3].ravel()) == pytest.approx(1)
    assert sample.dimension(pixels[1:6, 4:8].ravel()) == pytest.approx(20, rel=0.05)
    fields = Fields.draw(3, (8, 8), (2, 3), 0)
    dimension = np.mean([sample.dimension(f) for f in fields.first()])
    assert sample.deviation(fields) == pytest.approx(0.39 * 800 ** (1 / (4 + dimension)))
    assert sample.deviation(fields) > sample.deviation()


def test_the_dimension_of_few_rows_is_that_of_many_features(rng):
    X = rng.normal(size=(20, 50))
    sample = Sample.draw(HOST, X, np.arange(20), None, np.random.RandomState(0))
    variances = np.linalg.eigvalsh(np.cov(X, rowvar=False, ddof=0))
    assert sample.dimension() == pytest.approx(variances.sum() ** 2 / (variances**2).sum())


def test_the_sample_has_weights(data, rng):
    X, _ = data
    times = rng.integers(0, 4, 90)
    weighted = Sample.draw(HOST, X, np.flatnonzero(times), times.astype(float), None)
    again = Sample.draw(HOST, np.repeat(X, times, axis=0), np.arange(times.sum()), None, None)
    np.testing.assert_allclose(weighted.mean, again.mean)
    assert weighted.total == again.total
    assert weighted.spread == pytest.approx(again.spread)
    assert weighted.dimension() == pytest.approx(again.dimension())
    ours, theirs = rng.normal(size=(2, 5, 42))
    ours[:] = theirs
    weighted.scale(ours)
    again.scale(theirs)
    np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("received", [1, 180, 10_000])
def test_units_are_scaled_some_at_a_time(data, monkeypatch, received):
    expected = layer(*data)[0]
    monkeypatch.setattr(scale, "_RECEIVED", received)
    np.testing.assert_allclose(layer(*data)[0], expected)


def test_a_sample_is_at_most_a_thousand_rows_and_less_of_wide_ones(monkeypatch):
    random_state = np.random.RandomState(0)
    tall = np.zeros((1500, 2))
    assert len(Sample.draw(HOST, tall, np.arange(1500), None, random_state).block) == 1000
    wide = np.broadcast_to(np.float32(1), (500, 2**17))
    assert len(Sample.draw(HOST, wide, np.arange(500), None, random_state).block) == 32
    monkeypatch.setattr(scale, "_NUMBERS", 1)
    assert len(Sample.draw(HOST, tall, np.arange(1500), None, random_state).block) == 2


def test_a_sample_is_of_random_rows_that_have_a_weight():
    weight = np.arange(4000.0) % 3
    number = np.arange(4000.0)[:, None]
    sample = Sample.draw(HOST, number, np.flatnonzero(weight), weight, np.random.RandomState(0))
    found = np.rint(sample.block + sample.mean)[:, 0].astype(int)
    assert len(np.unique(found)) == 1000
    assert np.ptp(found) > 3500
    np.testing.assert_allclose(sample.weight, weight[found] / weight[found].sum())
    assert sample.weight.all()
    assert sample.total == weight.sum()


@pytest.mark.parametrize("total", [1e-300, 0.5, 1.0])
def test_weights_of_rows_count_as_one_row_at_least(data, total):
    weight = np.full(90, total / 90)
    sample = Sample.draw(HOST, data[0], np.arange(90), weight, None)
    assert sample.deviation() == pytest.approx(0.39)


# Where little is given.


@pytest.mark.parametrize("scale", [1.0, "auto"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_constant_features(weights, scale, rng):
    X, y = np.full((40, 30), 0.1), np.arange(40) % 2
    p = TanhProjector(25, weights=weights, scale=scale, random_state=0, device="jit")
    H = p.fit_transform(X, y)
    assert np.isfinite(H).all()
    if weights in FROM_ROWS:
        assert not p.components_.any()
        np.testing.assert_allclose(H, np.broadcast_to(np.tanh(p.hidden_intercept_), H.shape))
    X[:, ::3] = rng.random((40, 10))  # some are not
    p.fit(X, y)
    if weights in FROM_ROWS:
        assert not np.delete(p.components_, np.s_[::3], axis=1).any()
        assert p.components_.any(axis=1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("scale", [0.01, "auto"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_an_empty_patch_is_a_constant_unit(weights, scale, dtype, rng):
    X = np.zeros((3000, 8, 8), dtype)
    X[:, :3] = rng.integers(0, 200, (3000, 3, 8))
    X, y = X.reshape(3000, 64), rng.integers(0, 3, 3000)
    images = {"image_shape": (8, 8), "patch_size": (2, 3)}
    clf = TanhClassifier(
        100, weights=weights, scale=scale, alpha=1e-3, random_state=0, device="jit", **images
    ).fit(X, y)  # and no warning
    H = naive.hidden(TanhLayer(clf.components_, clf.hidden_intercept_), X[:20].astype(float))
    empty = Fields.draw(100, (8, 8), (2, 3), places_of_seed_0()).starts[:100, 0] >= 3
    assert 30 < empty.sum() < 90
    np.testing.assert_allclose(np.ptp(H[:, empty], axis=0), 0, atol=1e-6)
    assert np.ptp(H[:, ~empty], axis=0).min() > 1e-3
    if weights in FROM_ROWS:
        assert not clf.components_[empty].any()
    assert np.isfinite(clf.decision_function(X[:5])).all()


def places_of_seed_0():
    return np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=3)[2]


@pytest.mark.parametrize("weights", FROM_ROWS)
@pytest.mark.parametrize("images", [{}, {"image_shape": (2, 3)}], ids=["features", "images"])
def test_one_row_a_class_and_more_units_than_rows(weights, images, rng):
    X, y = rng.normal(size=(3, 6)), ["a", "b", "c"]
    clf = TanhClassifier(50, weights=weights, random_state=0, device="jit", **images).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), y)
    W = clf.components_
    if weights == "class_informed" and not images:
        Z = X - X.mean(axis=0)
        for j, w in enumerate(W):
            cosine = w @ Z[j % 3] / np.linalg.norm(w) / np.linalg.norm(Z[j % 3])
            assert abs(cosine) == pytest.approx(1)


def test_a_unit_that_sees_next_to_nothing_is_not_blown_up(rng):
    """The pixel is 0 in all rows of the sample, and not in another one."""
    X, y = rng.normal(size=(20_000, 4)), np.arange(20_000) % 2
    X[:, 3] = 0
    X[7, 3] = 1
    W, _ = layer(X, y, 40, weights="class_informed", image_shape=(4, 1), patch_size=(1, 1))
    deviation = 0.39 * 20_000 ** (1 / 5)  # of one direction
    seen, unseen = np.abs(W[:, :3]).max(axis=1), np.abs(W[:, 3])
    np.testing.assert_allclose(seen[seen > 0], deviation, rtol=0.1)
    # A tenth of the common spread, the root of 3 / 4, is what it counts for.
    np.testing.assert_allclose(unseen[unseen > 0], deviation / np.sqrt(0.75) * 10, rtol=0.05)
    assert unseen.any()


# What scikit-learn's users do.


def test_digits_are_read_better_with_structure():
    X, y = load_digits(return_X_y=True)
    params = {"n_hidden": 300, "random_state": 0, "device": "jit"}

    def score(**more):
        return TanhClassifier(**params, **more).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])

    plain = score()
    assert score(weights="class_informed") > plain
    assert score(weights="constrained") > plain
    assert score(weights="class_informed", image_shape=(8, 8)) > plain - 0.01


def test_weights_that_need_no_classes_look_at_no_labels(data):
    X, _ = data
    TanhProjector(5, device="jit").fit(X, np.full(90, np.nan))
    TanhProjector(5, device="jit").fit(X, np.zeros(3))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_tags_say_whether_labels_are_needed(weights):
    tags = TanhProjector(weights=weights).__sklearn_tags__()
    assert tags.target_tags.required == (weights in FROM_ROWS)


@pytest.mark.parametrize("weights", FROM_ROWS)
def test_rows_on_disk(tmp_path, rng, weights):
    X, y = rng.integers(0, 256, (4000, 50)).astype(np.uint8), rng.integers(0, 3, 4000)
    np.save(tmp_path / "X.npy", X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        layer(on_disk, y, 30, weights=weights)[0], layer(X, y, 30, weights=weights)[0]
    )


@pytest.mark.parametrize("weights", FROM_ROWS)
def test_memory_that_is_too_small_says_so(data, weights):
    with pytest.raises(ValueError, match="max_memory=1000 bytes is too small"):
        layer(*data, 30, weights=weights, max_memory=1000)
