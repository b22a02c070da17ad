"""scale="auto": the length of weights, estimated from a subset of the samples."""

import numpy as np
import pytest
from sklearn.base import clone

from hidden_layers.tanh_layers import IMAGES, draw_layer
from sklearn_fsvc import TanhProjector, TanhRegressor
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.hidden_layers import scale
from sklearn_fsvc._src.hidden_layers.random_weights import ReceptiveFields
from sklearn_fsvc._src.hidden_layers.scale import ScaleSample
from sklearn_fsvc._src.hidden_layers.tanh import WEIGHTS


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("images", [{}, IMAGES], ids=["features", "images"])
@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (1000, 0), (1e-3, 0), (1, 1e4)])
def test_auto_scale_is_invariant_to_units_and_offsets(data, weights, images, factor, offset):
    X, y = data
    p = TanhProjector(50, random_state=0, weights=weights, device="jit", **images)
    plain, other = p.fit(X, y).transform(X), clone(p).fit(factor * X + offset, y)
    np.testing.assert_allclose(other.transform(factor * X + offset), plain, atol=1e-8)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("images", [{}, IMAGES], ids=["features", "images"])
def test_auto_scale_is_the_deviation_of_scotts_rule(data, weights, images):
    X, y = data
    W, b = draw_layer(X, y, weights=weights, **images)
    if not images:
        variances = np.linalg.eigvalsh(np.cov(X, rowvar=False, ddof=0))
        d = variances.sum() ** 2 / (variances**2).sum()
        expected = 0.39 * 90 ** (1 / (d + 4))
    else:
        expected = (X @ W.T).std(axis=0)[0]
        assert 0.39 * 90 ** (1 / 46) < expected < 0.39 * 90 ** (1 / 5)
    np.testing.assert_allclose((X @ W.T).std(axis=0), expected)
    # They are centred at the biases, which are uniform.
    biases = max(1, 2.5 * expected) * draw_layer(X, y, scale=1.0)[1]
    np.testing.assert_allclose(W @ X.mean(axis=0) + b, biases, atol=1e-9)


@pytest.mark.parametrize("n_features", [1, 2])
def test_inflection_points_cover_the_samples(n_features, rng):
    """A wave that extends to the outermost samples; biases near the mean would miss these."""
    X = rng.uniform(-2, 2, size=(3000, n_features))
    y = np.sin(5 * X[:, 0])
    model = TanhRegressor(600, random_state=0, device="blas").fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > 0.999


def test_receptive_fields_have_fewer_dimensions(rng):
    """Half of the image has equal pixels, so that fields there have one dimension."""
    X = rng.normal(size=(800, 8, 8))
    X[:, :, :4] = X[:, :1, :1]
    sample = ScaleSample.draw(
        HOST, X.reshape(800, 64), np.arange(800), None, np.random.RandomState(0)
    )
    pixels = np.arange(64).reshape(8, 8)
    assert sample.dimension(pixels[2:5, 1:3].ravel()) == pytest.approx(1)
    assert sample.dimension(pixels[1:6, 4:8].ravel()) == pytest.approx(20, rel=0.05)
    fields = ReceptiveFields.draw(3, (8, 8), (2, 3), 0)
    dimension = np.mean([sample.dimension(f) for f in fields.first_features()])
    assert sample.deviation(fields) == pytest.approx(0.39 * 800 ** (1 / (4 + dimension)))
    assert sample.deviation(fields) > sample.deviation()


def test_the_dimension_of_fewer_samples_than_features(rng):
    X = rng.normal(size=(20, 50))
    sample = ScaleSample.draw(HOST, X, np.arange(20), None, np.random.RandomState(0))
    variances = np.linalg.eigvalsh(np.cov(X, rowvar=False, ddof=0))
    assert sample.dimension() == pytest.approx(variances.sum() ** 2 / (variances**2).sum())


def test_sample_weights_are_repetitions(data, rng):
    X, _ = data
    times = rng.integers(0, 4, 90)
    weighted = ScaleSample.draw(HOST, X, np.flatnonzero(times), times.astype(float), None)
    again = ScaleSample.draw(HOST, np.repeat(X, times, axis=0), np.arange(times.sum()), None, None)
    np.testing.assert_allclose(weighted.mean, again.mean)
    assert weighted.total == again.total
    assert weighted.spread == pytest.approx(again.spread)
    assert weighted.dimension() == pytest.approx(again.dimension())
    ours, reference = rng.normal(size=(2, 5, 42))
    ours[:] = reference
    weighted.scale_weights(ours, 1.0)
    again.scale_weights(reference, 1.0)
    np.testing.assert_allclose(ours, reference)


@pytest.mark.parametrize("block_elements", [1, 180, 10_000])
def test_the_block_size_does_not_change_the_scaled_weights(data, rng, monkeypatch, block_elements):
    sample = ScaleSample.draw(HOST, data[0], np.arange(90), None, None)
    W = rng.normal(size=(30, 42))
    blockwise, expected = W.copy(), W.copy()
    expected_centre = sample.scale_weights(expected, 1.3)
    monkeypatch.setattr(scale, "_BLOCK_ELEMENTS", block_elements)
    np.testing.assert_allclose(sample.scale_weights(blockwise, 1.3), expected_centre)
    np.testing.assert_allclose(blockwise, expected)


def test_a_sample_has_at_most_a_thousand_rows_and_fewer_of_many_features():
    random_state = np.random.RandomState(0)
    tall = np.zeros((1500, 2))
    assert len(ScaleSample.draw(HOST, tall, np.arange(1500), None, random_state).block) == 1000
    wide = np.broadcast_to(np.float32(1), (500, 2**17))
    assert len(ScaleSample.draw(HOST, wide, np.arange(500), None, random_state).block) == 32
    least = ScaleSample.draw(HOST, tall, np.arange(1500), None, random_state, max_elements=1)
    assert len(least.block) == 2


def test_samples_with_weight_are_drawn_uniformly():
    weight = np.arange(4000.0) % 3
    number = np.arange(4000.0)[:, None]
    sample = ScaleSample.draw(
        HOST, number, np.flatnonzero(weight), weight, np.random.RandomState(0)
    )
    actual = np.rint(sample.block + sample.mean)[:, 0].astype(int)
    assert len(np.unique(actual)) == 1000
    assert np.ptp(actual) > 3500
    np.testing.assert_allclose(sample.weight, weight[actual] / weight[actual].sum())
    assert sample.weight.all()
    assert sample.total == weight.sum()


@pytest.mark.parametrize("total", [1e-300, 0.5, 1.0])
def test_the_total_weight_counts_as_one_sample_at_least(data, total):
    weight = np.full(90, total / 90)
    sample = ScaleSample.draw(HOST, data[0], np.arange(90), weight, None)
    assert sample.deviation() == pytest.approx(0.39)


def test_a_unit_with_almost_constant_features_is_not_amplified(rng):
    """The pixel is 0 in all samples that are drawn, but not in another one."""
    X, y = rng.normal(size=(20_000, 4)), np.arange(20_000) % 2
    X[:, 3] = 0
    X[7, 3] = 1
    W, _ = draw_layer(X, y, 40, weights="class_informed", image_shape=(4, 1), patch_size=(1, 1))
    deviation = 0.39 * 20_000 ** (1 / 5)  # for one dimension
    seen, unseen = np.abs(W[:, :3]).max(axis=1), np.abs(W[:, 3])
    np.testing.assert_allclose(seen[seen > 0], deviation, rtol=0.1)
    # Its deviation is taken as a tenth of the common one, the square root of 3 / 4.
    np.testing.assert_allclose(unseen[unseen > 0], deviation / np.sqrt(0.75) * 10, rtol=0.05)
    assert unseen.any()


@pytest.mark.parametrize("far", [1e4, 1e9, 1e30])
@pytest.mark.parametrize("row", [0, 100])
def test_an_outlier_does_not_change_the_others(rng, far, row):
    X = rng.normal(size=(500, 6))
    plain = TanhProjector(50, random_state=0, device="jit").fit(X)
    X[row] = far
    other = clone(plain).fit(X)
    rows = np.delete(X, row, axis=0)
    np.testing.assert_allclose(other.transform(rows), plain.transform(rows), atol=0.01)


def test_most_samples_may_be_the_same(rng):
    """Then there are no outliers."""
    X = np.zeros((300, 4))
    X[:100] = rng.normal(size=(100, 4))
    sample = ScaleSample.draw(HOST, X, np.arange(300), None, np.random.RandomState(0))
    assert sample.spread == pytest.approx(np.sqrt(X.var(axis=0).mean()))
