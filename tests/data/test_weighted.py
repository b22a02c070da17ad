"""Rows are multiplied by the weights of their features once, on their way to the units."""

from dataclasses import replace

import numpy as np
import pytest

import naive
from allocated import MIB, peak
from contract import TOLERANCE
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.streaming import Consumer, stream, stream_all, stream_into, weigh
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc.engines import get_engine


@pytest.fixture(params=["uint8", "float32", "float64"])
def weighted(request, rng):
    """(rows that nobody may write to, a layer with weights)."""
    X = rng.integers(0, 256, (90, 7)) if request.param == "uint8" else rng.normal(size=(90, 7))
    X, weights = X.astype(request.param), rng.random(7)
    weights[2] = 0
    X.flags.writeable = False
    dtype = np.result_type(X, np.float32)
    units = X[:13].astype(dtype) * weights.astype(dtype)
    typical = float(np.median(naive.distances(X * weights, units, "manhattan")))
    return X, RBFLayer(units, typical, "manhattan", "laplacian", weights.astype(dtype))


def streamed(engine, layer, X, rows=None, tile_rows=None, max_memory=None):
    """H on the host, and how many rows each tile had."""
    tiles = []
    consumer = Consumer(lambda part, H: tiles.append(engine.to_host(H).copy()), tile_rows=tile_rows)
    stream(Job(engine, max_memory), layer, X, consumer, rows)
    return np.concatenate(tiles), [len(tile) for tile in tiles]


@pytest.mark.parametrize("metric", ["manhattan", "euclidean"])
@pytest.mark.parametrize("some", [False, True])
def test_the_layer_is_that_of_weighted_rows(engine, rng, weighted, metric, some):
    X, layer = weighted
    layer, before = replace(layer, metric=metric), X.copy()
    rows = rng.permutation(90)[:40] if some else None
    chosen = X if rows is None else X[rows]
    expected = naive.of_rows(layer, chosen.astype(layer.units.dtype))
    for where in (X, engine.to_device(X)):
        for tile_rows in (1, 7, 1000):
            H, _ = streamed(engine, layer, where, rows, tile_rows)
            np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[H.dtype])
        np.testing.assert_array_equal(engine.to_host(where), before)


def test_a_row_that_became_a_centre_is_at_distance_0(engine, weighted):
    X, layer = weighted
    H, _ = streamed(engine, layer.distances, X)
    np.testing.assert_array_equal(H[np.arange(13), np.arange(13)], 0)


def test_the_tile_changes_no_bit(weighted):
    X, layer = weighted
    whole, sizes = streamed(get_engine("jit"), layer, X)
    assert sizes == [90]
    for tile_rows in (1, 7):
        tiles, _ = streamed(get_engine("jit"), layer, X, tile_rows=tile_rows)
        np.testing.assert_array_equal(tiles, whole)
    out = np.full(whole.shape, np.nan, whole.dtype)
    stream_into(Job(get_engine("jit")), layer, X, out)
    np.testing.assert_array_equal(out, whole)


def test_rows_are_multiplied_once_for_all_layers_on_the_units(weighted, monkeypatch):
    X, layer = weighted
    layers, blocks = [layer, replace(layer, radius=2 * layer.radius, kernel="gaussian")], []

    def counted(engine, block, weights, dtype):
        blocks.append(len(block))
        return weigh(engine, block, weights, dtype)

    monkeypatch.setattr("sklearn_fsvc._src.data.streaming.weigh", counted)
    tiles = [[], []]
    consumer = Consumer(lambda i, part, H: tiles[i].append(H.copy()), tile_rows=40)
    stream_all(Job(get_engine("jit")), layers, X, consumer)
    assert blocks == [40, 40, 10]
    for layer, H in zip(layers, map(np.concatenate, tiles), strict=True):
        expected = naive.of_rows(layer, X.astype(H.dtype))
        np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[H.dtype])


def test_small_memory_makes_small_tiles(weighted):
    """A row has its outputs, and its features twice: as they came, and weighted."""
    X, layer = weighted
    engine, item = get_engine("jit"), layer.units.itemsize
    row = 13 * item + 7 * (X.itemsize + item)
    _, sizes = streamed(engine, layer, X, max_memory=engine.prepared_bytes(layer) + 3 * row)
    assert max(sizes) == 3


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(784,), (784, 300)], ids=["weights", "map"])
def test_the_budget_is_kept(rng, dtype, shape):
    X = rng.integers(0, 100, (4000, 784)).astype(dtype)
    weights = rng.random(shape).astype(np.result_type(dtype, np.float32))
    units = X[:8] * weights if weights.ndim == 1 else X[:8] @ weights
    layer = RBFLayer(units, 1e4, weights=weights)
    consumer = Consumer(lambda part, H: None)
    job = Job(get_engine("jit"))
    stream(job, layer, X, consumer)  # compiled before it is measured
    assert peak(stream, job, layer, X, consumer)[1] > 5 * MIB
    assert peak(stream, replace(job, max_memory=5 * MIB), layer, X, consumer)[1] <= 5 * MIB


def test_weights_follow_the_layer(weighted):
    _, layer = weighted
    for other in (layer.distances, layer.part(slice(2, 5)), replace(layer, radius=3.0)):
        assert other.weights is layer.weights
    wide = layer.astype(np.float64)
    assert wide.weights.dtype == wide.units.dtype == np.float64
    np.testing.assert_array_equal(wide.weights, layer.weights)
