"""Layers of patches on every engine, compared with a loop over all positions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import naive
from patch_layers import GRIDS, WAYS, assert_is_formula, evaluated, made
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.streaming import stream_into
from sklearn_fsvc._src.engines.patches import PatchEvaluator, normalise, parts, tiles
from sklearn_fsvc._src.images import PatchGrid
from sklearn_fsvc._src.layers import RESPONSES, PatchLayer
from sklearn_fsvc.parts import LinearLayer


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(engine, grid, way, dtype):
    layer, X = made(grid, way, dtype)
    assert_is_formula(evaluated(engine, layer, X), layer, X)


@pytest.mark.parametrize(("is_whitened", "floor"), [(False, 0.3), (True, None), (False, None)])
@pytest.mark.parametrize("way", WAYS[::2], ids=" ".join)
def test_values_without_some_steps(engine, way, is_whitened, floor):
    layer, X = made(GRIDS[1], way, np.float64, is_whitened, floor)
    assert_is_formula(evaluated(engine, layer, X), layer, X)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("n", [1, 6, 11, 30])
def test_the_first_columns_do_not_depend_on_the_others(engine, way, n):
    layer, X = made(GRIDS[1], way, np.float64)
    first = layer.part(slice(n))
    n = min(n, layer.n_units)
    assert first.n_units == n
    H = evaluated(engine, first, X)
    np.testing.assert_allclose(H, evaluated(engine, layer, X)[:, :n], rtol=0, atol=1e-12)
    assert_is_formula(H, first, X)


@pytest.mark.parametrize("image_bytes", [1, 10_000, 10**9])
def test_the_batch_size_does_not_change_activations(engine, image_bytes):
    layer, X = made(GRIDS[2], WAYS[0], np.float32)
    expected = evaluated(engine, layer, X)
    calls, unfold = [], engine.unfold

    def counted(layer, X):
        calls.append(len(X))
        return unfold(layer, X)

    engine.patch_bytes, engine.unfold = image_bytes, counted
    H = evaluated(engine, layer, X)
    assert sum(calls) == 13
    if image_bytes == 1:
        assert max(calls) == 1
    elif image_bytes == 10**9 and engine.patch_threads < 6:
        assert max(calls) > 1
    np.testing.assert_allclose(H, expected, rtol=0, atol=1e-5)


def test_constant_patches_are_normalised_to_zero(engine):
    """Also with a floor of 0, which is added to their variance of 0."""
    grid = PatchGrid((5, 5, 1), (2, 2), 1, (2, 2))
    layer = PatchLayer(grid, LinearLayer(np.ones((1, 4)), np.ones(1)), floor=0.0)
    X = np.vstack([np.zeros(25), np.full(25, 7.0)])
    np.testing.assert_array_equal(evaluated(engine, layer, X), 1)
    P = np.zeros((2, 4))
    normalise(P, 0.0, np)
    assert not P.any()


def test_images_are_streamed_in_tiles(engine, rng):
    """Bytes are converted to floats tile by tile."""
    layer, _ = made(GRIDS[1], WAYS[0], np.float32)
    X = rng.integers(0, 256, (300, 81), np.uint8)
    H = np.full((300, layer.n_units), np.nan, np.float32)
    # The memory for the units depends on the number of cores.
    stream_into(Job(engine, engine.prepared_bytes(layer.inner) + 3 * 2**20), layer, X, H)
    assert_is_formula(H[::29], layer, X[::29])
    assert np.isfinite(H).all()


def test_the_memory_limit_reduces_the_batch(engine):
    layer, _ = made(GRIDS[2], WAYS[0], np.float32)
    engine.patch_bytes = 2**28
    much, little = (PatchEvaluator(engine, limit).prepared_bytes(layer) for limit in (2**30, 2**20))
    units = engine.prepared_bytes(layer.inner)
    assert 2**27 < much <= 2**28 * engine.patch_threads + units + 2**23
    assert little < much - 2**27


@pytest.mark.parametrize("way", WAYS[::2], ids=" ".join)
@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("limit", [1, 20_000])
def test_large_images_are_evaluated_in_tiles(engine, grid, way, limit):
    """Tiles of one position, or of a few lines, do not change activations or columns."""
    layer, X = made(grid, way, np.float64)
    X = X[:4]
    calls, unfold = [], engine.unfold

    def counted(layer, X):
        calls.append(len(X) * layer.grid.n_positions)
        return unfold(layer, X)

    engine.unfold = counted
    limit *= engine.patch_threads
    for some in (layer, layer.part(slice(layer.n_units - 1))):
        calls.clear()
        assert_is_formula(evaluated(engine, some, X, limit), some, X)
        assert sum(calls) == len(X) * grid.n_positions
        if limit == engine.patch_threads:
            assert max(calls) == 1


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 8), (5, 8)])
def test_tiles_cover_each_position_once(shape):
    grid = PatchGrid((18, 11, 1), (4, 4), 1, (4, 3))  # 15 x 8 positions
    n_covered, weights = np.zeros(grid.output_shape, int), np.zeros(grid.pool)
    for positions, cells, weight in tiles(grid, shape):
        n_covered[positions] += 1
        weights[cells] += weight
        assert all(run.stop - run.start <= n for run, n in zip(positions, shape, strict=True))
    assert (n_covered == 1).all()
    np.testing.assert_allclose(weights, 1)


def test_the_whitening_is_multiplied_into_linear_units():
    layer, _ = made(GRIDS[1], WAYS[0], np.float64)
    whitening, _ = parts(layer)
    assert whitening is None
    whitening, inner = parts(made(GRIDS[1], WAYS[2], np.float64)[0])
    assert whitening.units.shape == (9, 9)
    assert inner.reduction == "sqeuclidean"


def test_cached_properties_of_a_layer_are_not_pickled():
    layer, _ = made(GRIDS[0], WAYS[0], np.float64)
    inner = layer.inner
    before = pickle.dumps(inner)
    assert inner.affine is inner.affine  # cached from now on
    assert pickle.dumps(inner) == before
    again = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(again.inner.units, inner.units)


def test_astype_converts_all_arrays():
    layer, _ = made(GRIDS[1], WAYS[0], np.float64)
    layer = layer.astype(np.float32)
    arrays = layer.units, layer.inner.bias, layer.whitening, layer.shift
    assert all(a.dtype == np.float32 for a in arrays)
    assert replace(layer, whitening=None, shift=None).astype(np.float64).whitening is None


def test_responses_are_those_of_the_oracle():
    assert set(RESPONSES) == set(naive.RESPONSES)
