"""Tiles of samples: their sizes, and their activations of one layer and of several."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import naive
from contract import TOLERANCE
from peak_memory import MIB, peak
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.rows import take_rows
from sklearn_fsvc._src.data.sources import SparseSource
from sklearn_fsvc._src.data.streaming import (
    Consumer,
    compute_dtype,
    stream,
    stream_into,
    stream_layers,
)
from sklearn_fsvc._src.engines.jit import JitEngine
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc.engines import get_engine


@pytest.fixture
def job(rng):
    X = rng.random((50, 6))
    return get_engine("jit"), RBFLayer(X[:9], 1.0), X


def collect(engine, layer, X, rows=None, tile_rows=None, max_memory=None):
    parts, tiles = [], []

    def consume(part, H):
        parts.append(part)
        tiles.append(H.copy())

    consumer = Consumer(consume, tile_rows=tile_rows)
    stream(Job(engine, max_memory), layer, X, consumer, rows)
    return parts, np.concatenate(tiles)


def test_layers_that_are_not_linear_need_dense_samples(job):
    engine, layer, _ = job
    with pytest.raises(TypeError, match="X is sparse, and a RBFLayer is evaluated on dense"):
        collect(engine, layer, SparseSource(csr_array(np.eye(50, 6))))


@pytest.mark.parametrize("tile_rows", [1, 7, 50, 1000])
def test_each_sample_is_evaluated_once_in_order(job, tile_rows):
    engine, layer, X = job
    parts, H = collect(engine, layer, X, tile_rows=tile_rows)
    assert [i for p in parts for i in range(p.start, p.stop)] == list(range(50))
    np.testing.assert_array_equal(H, engine.hidden(engine.prepare(layer), X))


def test_selected_rows_are_evaluated_in_their_order(job, rng):
    engine, layer, X = job
    rows = rng.permutation(50)[:20]
    _, H = collect(engine, layer, X, rows=rows, tile_rows=6)
    np.testing.assert_allclose(H, naive.hidden(layer, X[rows]), atol=1e-12)


def test_a_small_limit_makes_small_tiles(job):
    engine, layer, X = job
    fixed = engine.prepared_bytes(layer)
    parts, _ = collect(engine, layer, X, max_memory=fixed + 3 * (9 * 8 + 2 * 6 * 8))
    assert max(p.stop - p.start for p in parts) == 3


def test_a_memory_error_halves_the_tile(job):
    engine, layer, X = job
    done, sizes = np.zeros((50, 9)), []

    def consume(part, H):
        sizes.append(len(H))
        if len(H) > 6:
            raise MemoryError
        done[part] = H

    stream(Job(engine), layer, X, Consumer(consume))
    assert sizes[:4] == [50, 25, 12, 6]
    np.testing.assert_allclose(done, naive.hidden(layer, X), atol=1e-12)


def test_a_later_memory_error_repeats_no_sample(job):
    engine, layer, X = job
    counts = np.zeros(50, int)

    def consume(part, H):
        if part.start and len(H) > 5:
            raise MemoryError
        counts[part] += 1

    stream(Job(engine), layer, X, Consumer(consume, tile_rows=20))
    np.testing.assert_array_equal(counts, 1)


def test_a_memory_error_for_one_row_is_raised(job):
    engine, layer, X = job

    def consume(part, H):
        raise MemoryError

    with pytest.raises(MemoryError):
        stream(Job(engine), layer, X, Consumer(consume))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_selected_rows_are_c_ordered(rng, order, dtype):
    X = np.asarray(rng.integers(0, 9, (10, 4)), dtype=dtype, order=order)
    for rows in (slice(2, 7), np.array([3, 1])):
        block = take_rows(X, rows, np.float32)
        assert block.flags.c_contiguous
        assert block.dtype == np.float32
        np.testing.assert_array_equal(block, X[rows])


def test_contiguous_rows_are_not_copied(rng):
    X = rng.random((10, 4))
    assert np.shares_memory(take_rows(X, slice(2, 5), X.dtype), X)


@pytest.mark.parametrize(
    ("units", "rows", "expected"),
    [("u1", "u1", "u1"), ("u1", "f4", "f4"), ("f4", "u1", "f4"), ("f4", "f8", "f8")],
)
def test_compute_dtype(units, rows, expected):
    assert compute_dtype(np.dtype(units), np.dtype(rows)) == expected


def test_progress_is_printed(job, capsys):
    engine, layer, X = job
    nothing, job = Consumer(lambda part, H: None), Job(engine, description="Test fit")
    stream(replace(job, verbose=2), layer, X, nothing)
    assert "[Test fit] 50 of 50 rows" in capsys.readouterr().out
    stream(job, layer, X, nothing)
    assert capsys.readouterr().out == ""


@pytest.fixture
def several_layers(job):
    """Layers on the same units, with different radii and kernels."""
    engine, layer, X = job
    wide, round_ = RBFLayer(layer.units, 2.5), RBFLayer(layer.units, 0.4, kernel="gaussian")
    return engine, [layer, wide, round_], X


@pytest.mark.parametrize("tile_rows", [1, 7, 50, None])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("some", [False, True])
def test_several_layers_have_the_activations_of_each_alone(
    several_layers, rng, tile_rows, n_layers, some
):
    engine, layers, X = several_layers
    layers = layers[:n_layers]
    rows = rng.permutation(50)[:20] if some else None
    parts, H = [[] for _ in layers], np.full((n_layers, 20 if some else 50, 9), np.nan)

    def consume(i, part, tile):
        parts[i].append(part)
        H[i, part] = tile
        tile[:] = np.nan  # consumers may overwrite H without effect on the next layer

    stream_layers(Job(engine), layers, X, Consumer(consume, tile_rows=tile_rows), rows)
    for i, layer in enumerate(layers):
        parts_alone, alone = collect(engine, layer, X, rows=rows, tile_rows=tile_rows)
        assert parts[i] == parts_alone
        np.testing.assert_allclose(H[i], alone, rtol=0, atol=1e-14)


def test_distances_are_computed_once(several_layers):
    engine, layers, X = several_layers
    evaluated, hidden = [], engine.hidden

    def recorded(prepared, X, out=None, units=None):
        evaluated.append(len(X))
        return hidden(prepared, X, out, units)

    engine.hidden = recorded
    stream_layers(Job(engine), layers, X, Consumer(lambda i, part, H: None, tile_rows=20))
    assert evaluated == [20, 20, 10]


def test_a_small_limit_makes_small_tiles_of_several_layers(several_layers):
    """A row has its distances, the activations of one layer, and the memory of the consumer."""
    engine, layers, X = several_layers
    row = 9 * 8 + 9 * 8 + 2 * 6 * 8 + 100
    memory = engine.prepared_bytes(layers[0].distances) + 1000 + 3 * row
    sizes = []
    consumer = Consumer(lambda i, part, H: sizes.append(len(H)), fixed_bytes=1000, row_bytes=100)
    stream_layers(Job(engine, memory), layers, X, consumer)
    assert max(sizes) == 3


@pytest.mark.parametrize("failing_layer", [0, 1, 2])
@pytest.mark.parametrize("max_rows", [1, 3, 7, 24])
def test_a_memory_error_of_a_later_layer_repeats_no_sample(several_layers, failing_layer, max_rows):
    """One layer may need smaller tiles than the layers before it, which have consumed the tile."""
    engine, layers, X = several_layers
    counts, H = np.zeros((3, 50), int), np.full((3, 50, 9), np.nan)

    def consume(i, part, tile):
        if i == failing_layer and len(tile) > max_rows:
            tile[:] = np.nan
            raise MemoryError
        counts[i, part] += 1
        H[i, part] = tile
        tile[:] = np.nan

    stream_layers(Job(engine), layers, X, Consumer(consume))
    np.testing.assert_array_equal(counts, 1)
    for i, layer in enumerate(layers):
        np.testing.assert_allclose(H[i], naive.hidden(layer, X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_failures", range(1, 12))
def test_transient_memory_errors_repeat_no_sample(several_layers, n_failures):
    """After the first layer has consumed a tile, the pass either completes or raises."""
    engine, layers, X = several_layers
    counts, n_left = np.zeros((3, 50), int), n_failures

    def consume(i, part, tile):
        nonlocal n_left
        if i == 1 and n_left:
            n_left -= 1
            raise MemoryError
        counts[i, part] += 1

    try:
        stream_layers(Job(engine), layers, X, Consumer(consume))
    except MemoryError:
        assert n_failures > 5  # even for a tile of one row
    else:
        np.testing.assert_array_equal(counts, 1)


@pytest.mark.parametrize("failing_layer", [0, 1, 2])
def test_a_memory_error_for_one_row_of_one_layer_is_raised(several_layers, failing_layer):
    engine, layers, X = several_layers

    def consume(i, part, tile):
        if i == failing_layer:
            raise MemoryError

    with pytest.raises(MemoryError):
        stream_layers(Job(engine), layers, X, Consumer(consume))


class SmallShapeEngine(JitEngine):
    """Parts of 256 x 256 activations; `parts` are those that were evaluated."""

    def __init__(self):
        self.parts = []

    def settings(self, layer):
        return {**super().settings(layer), "M": 256, "asymmetry": 1}

    def hidden(self, prepared, X, out=None, units=None):
        self.parts.append((len(X), units.start, units.stop))
        return super().hidden(prepared, X, out, units)


@pytest.fixture(params=["triangular", "gaussian", "tanh"])
def large_layer(request, rng):
    """A layer with more units, and more samples, than one part of H."""
    X, units = rng.random((1000, 7)), rng.random((600, 7))
    if request.param == "tanh":
        return TanhLayer(units, rng.random(600)), X
    return RBFLayer(units, 1.0, kernel=request.param), X


def evaluate_at_once(layer, X):
    engine = get_engine("jit")
    return engine.hidden(engine.prepare(layer), X)


def test_a_large_layer_is_evaluated_in_parts(large_layer):
    engine, (layer, X) = SmallShapeEngine(), large_layer
    _, H = collect(engine, layer, X)
    columns = [(0, 256), (256, 512), (512, 600)]
    assert engine.parts == [(n, *c) for n in (256, 256, 256, 232) for c in columns]
    np.testing.assert_array_equal(H, evaluate_at_once(layer, X))


def test_a_large_tile_is_evaluated_in_parts(large_layer):
    """A consumer that prefers large tiles does not enlarge the parts."""
    engine, (layer, X) = SmallShapeEngine(), large_layer
    parts, H = collect(engine, layer, X, tile_rows=1000)
    assert parts == [slice(0, 1000)]
    assert len(engine.parts) == 12
    assert max(n for n, *_ in engine.parts) == 256
    np.testing.assert_array_equal(H, evaluate_at_once(layer, X))


def test_parts_are_written_into_the_output(large_layer):
    engine, (layer, X) = SmallShapeEngine(), large_layer
    H = np.full((1000, 600), np.nan)
    stream_into(Job(engine), layer, X, H)
    assert len(engine.parts) == 12
    np.testing.assert_array_equal(H, evaluate_at_once(layer, X))


@pytest.fixture(params=["uint8", "float32", "float64"])
def weighted(request, rng):
    """(read-only samples, a layer with feature weights)."""
    X = rng.integers(0, 256, (90, 7)) if request.param == "uint8" else rng.normal(size=(90, 7))
    X, weights = X.astype(request.param), rng.random(7)
    weights[2] = 0
    X.flags.writeable = False
    dtype = np.result_type(X, np.float32)
    units = X[:13].astype(dtype) * weights.astype(dtype)
    typical = float(np.median(naive.distances(X * weights, units, "manhattan")))
    return X, RBFLayer(units, typical, "manhattan", "laplacian", weights.astype(dtype))


def stream_to_host(engine, layer, X, rows=None, tile_rows=None, max_memory=None):
    """Return H on the host, and the rows of each tile."""
    tiles = []
    consumer = Consumer(lambda part, H: tiles.append(engine.to_host(H).copy()), tile_rows=tile_rows)
    stream(Job(engine, max_memory), layer, X, consumer, rows)
    return np.concatenate(tiles), [len(tile) for tile in tiles]


@pytest.mark.parametrize("metric", ["manhattan", "euclidean"])
@pytest.mark.parametrize("some", [False, True])
def test_activations_are_those_of_weighted_samples(engine, rng, weighted, metric, some):
    X, layer = weighted
    layer, before = replace(layer, metric=metric), X.copy()
    rows = rng.permutation(90)[:40] if some else None
    chosen = X if rows is None else X[rows]
    expected = naive.of_rows(layer, chosen.astype(layer.units.dtype))
    for where in (X, engine.to_device(X)):
        for tile_rows in (1, 7, 1000):
            H, _ = stream_to_host(engine, layer, where, rows, tile_rows)
            np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[H.dtype])
        np.testing.assert_array_equal(engine.to_host(where), before)


def test_a_sample_that_is_a_centre_has_distance_0(engine, weighted):
    X, layer = weighted
    H, _ = stream_to_host(engine, layer.distances, X)
    np.testing.assert_array_equal(H[np.arange(13), np.arange(13)], 0)


def test_the_tile_size_changes_no_bit(weighted):
    X, layer = weighted
    evaluate_at_once, sizes = stream_to_host(get_engine("jit"), layer, X)
    assert sizes == [90]
    for tile_rows in (1, 7):
        tiles, _ = stream_to_host(get_engine("jit"), layer, X, tile_rows=tile_rows)
        np.testing.assert_array_equal(tiles, evaluate_at_once)
    out = np.full(evaluate_at_once.shape, np.nan, evaluate_at_once.dtype)
    stream_into(Job(get_engine("jit")), layer, X, out)
    np.testing.assert_array_equal(out, evaluate_at_once)


class WeightCounter(JitEngine):
    """Counts how often feature weights are uploaded, which is once for each weighted tile."""

    n_weighted = 0

    def to_device(self, array):
        self.n_weighted += array.ndim == 1
        return super().to_device(array)


def test_samples_are_weighted_once_for_all_layers(weighted):
    X, layer = weighted
    layers = [layer, replace(layer, radius=2 * layer.radius, kernel="gaussian")]
    tiles, engine = [[], []], WeightCounter()
    consumer = Consumer(lambda i, part, H: tiles[i].append(H.copy()), tile_rows=40)
    stream_layers(Job(engine), layers, X, consumer)
    assert engine.n_weighted == len(tiles[0]) == 3
    for layer, H in zip(layers, map(np.concatenate, tiles), strict=True):
        expected = naive.of_rows(layer, X.astype(H.dtype))
        np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[H.dtype])


def test_a_small_limit_makes_small_tiles_of_weighted_samples(weighted):
    """A row has its activations, and its features twice: as they are, and weighted."""
    X, layer = weighted
    engine, item = get_engine("jit"), layer.units.itemsize
    row = 13 * item + 7 * (X.itemsize + item)
    _, sizes = stream_to_host(engine, layer, X, max_memory=engine.prepared_bytes(layer) + 3 * row)
    assert max(sizes) == 3


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(784,), (784, 300)], ids=["weights", "map"])
def test_the_memory_limit_holds(rng, dtype, shape):
    X = rng.integers(0, 100, (4000, 784)).astype(dtype)
    weights = rng.random(shape).astype(np.result_type(dtype, np.float32))
    units = X[:8] * weights if weights.ndim == 1 else X[:8] @ weights
    layer = RBFLayer(units, 1e4, weights=weights)
    consumer = Consumer(lambda part, H: None)
    job = Job(get_engine("jit"))
    stream(job, layer, X, consumer)  # compiles the kernels
    assert peak(stream, job, layer, X, consumer)[1] > 5 * MIB
    assert peak(stream, replace(job, max_memory=5 * MIB), layer, X, consumer)[1] <= 5 * MIB


def test_derived_layers_have_the_feature_weights(weighted):
    _, layer = weighted
    for other in (layer.distances, layer.part(slice(2, 5)), replace(layer, radius=3.0)):
        assert other.weights is layer.weights
    wide = layer.astype(np.float64)
    assert wide.weights.dtype == wide.units.dtype == np.float64
    np.testing.assert_array_equal(wide.weights, layer.weights)
