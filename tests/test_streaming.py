import numpy as np
import pytest

import naive
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.engines.jit import JitEngine
from sklearn_fsvc.layers import RBFLayer, TanhLayer
from sklearn_fsvc.streaming import basic_layer, compute_dtype, stream, take_rows


@pytest.fixture
def job(rng):
    X = rng.random((50, 6))
    return get_engine("jit"), RBFLayer(X[:9], 1.0), X


def collect(engine, layer, X, **options):
    parts, tiles = [], []

    def consume(part, H):
        parts.append(part)
        tiles.append(H.copy())

    stream(engine, layer, X, consume, **options)
    return parts, np.concatenate(tiles)


@pytest.mark.parametrize("tile_rows", [1, 7, 50, 1000])
def test_every_row_comes_once_and_in_order(job, tile_rows):
    engine, layer, X = job
    parts, H = collect(engine, layer, X, tile_rows=tile_rows)
    assert [i for p in parts for i in range(p.start, p.stop)] == list(range(50))
    np.testing.assert_array_equal(H, engine.hidden(engine.load(layer), X))


def test_chosen_rows(job, rng):
    engine, layer, X = job
    rows = rng.permutation(50)[:20]
    _, H = collect(engine, layer, X, rows=rows, tile_rows=6)
    np.testing.assert_allclose(H, naive.hidden(layer, X[rows]), atol=1e-12)


def test_small_memory_makes_small_tiles(job):
    engine, layer, X = job
    fixed = engine.loaded_bytes(layer)
    parts, _ = collect(engine, layer, X, max_memory=fixed + 3 * (9 * 8 + 2 * 6 * 8))
    assert max(p.stop - p.start for p in parts) == 3


def test_out_of_memory_halves_the_tile_and_goes_on(job):
    engine, layer, X = job
    done, sizes = np.zeros((50, 9)), []

    def consume(part, H):
        sizes.append(len(H))
        if len(H) > 6:
            raise MemoryError
        done[part] = H

    stream(engine, layer, X, consume)
    assert sizes[:4] == [50, 25, 12, 6]
    np.testing.assert_allclose(done, naive.hidden(layer, X), atol=1e-12)


def test_out_of_memory_for_one_row_is_raised(job):
    engine, layer, X = job

    def consume(part, H):
        raise MemoryError

    with pytest.raises(MemoryError):
        stream(engine, layer, X, consume)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_rows_are_taken_c_ordered(rng, order, dtype):
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
    stream(engine, layer, X, lambda part, H: None, what="Test fit", verbose=1)
    assert "[Test fit] 50 of 50 rows" in capsys.readouterr().out
    stream(engine, layer, X, lambda part, H: None, what="Test fit")
    assert capsys.readouterr().out == ""


class SmallBasicLayers(JitEngine):
    """Basic layers of 256 x 256 outputs; `parts` are those that were evaluated."""

    def __init__(self):
        self.parts = []

    def settings(self, layer):
        return {**super().settings(layer), "M": 256, "asymmetry": 1}

    def hidden(self, loaded, X, out=None, units=None):
        self.parts.append((len(X), units.start, units.stop))
        return super().hidden(loaded, X, out, units)


@pytest.fixture(params=["triangular", "gaussian", "tanh"])
def large(request, rng):
    """A layer of more units, and more rows, than a basic layer has."""
    X, units = rng.random((1000, 7)), rng.random((600, 7))
    if request.param == "tanh":
        return TanhLayer(units, rng.random(600)), X
    return RBFLayer(units, 1.0, kernel=request.param), X


def whole(layer, X):
    engine = get_engine("jit")
    return engine.hidden(engine.load(layer), X)


def test_a_large_layer_is_cut_into_basic_layers(large):
    engine, (layer, X) = SmallBasicLayers(), large
    _, H = collect(engine, layer, X)
    assert basic_layer(engine, layer).grid(len(X), layer.n_units) == (3, 4)
    columns = [(0, 256), (256, 512), (512, 600)]
    assert engine.parts == [(n, *c) for n in (256, 256, 256, 232) for c in columns]
    np.testing.assert_array_equal(H, whole(layer, X))


def test_a_tile_is_cut_into_basic_layers(large):
    """A consumer's tile of all rows is no larger piece of work for the engine."""
    engine, (layer, X) = SmallBasicLayers(), large
    parts, H = collect(engine, layer, X, tile_rows=1000)
    assert parts == [slice(0, 1000)]
    assert len(engine.parts) == 12
    assert max(n for n, *_ in engine.parts) == 256
    np.testing.assert_array_equal(H, whole(layer, X))


def test_basic_layers_are_written_where_H_stays(large):
    engine, (layer, X) = SmallBasicLayers(), large
    H = np.full((1000, 600), np.nan)
    stream(engine, layer, X, out=H)
    assert len(engine.parts) == 12
    np.testing.assert_array_equal(H, whole(layer, X))
