"""The contract of all sources: the rows that are read, and how little is in memory."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fake_sources import LIBRARIES, ChunkFunction, SliceableFile, batches, write_dataset
from sklearn_fsvc._src.data.rows import row_blocks, take_rows
from sklearn_fsvc._src.data.sources import PrefetchedSource, SparseSource, open_source, select_rows

N = 200
X = np.random.default_rng(0).random((N, 6), np.float32)


def make_source(X, max_memory="1MB"):
    return open_source(X, max_memory)[0]


SOURCES = {
    "slices": lambda: make_source(SliceableFile(X), 16 * 24 * 11),
    "slices in chunks": lambda: make_source(SliceableFile(X, chunks=(7, 6)), 16 * 24 * 20),
    "arrays": lambda: make_source(ChunkFunction(X)),
    "arrays and y": lambda: make_source(ChunkFunction(X, np.arange(N))),
    "batches": lambda: make_source(batches(X)),
    "sparse": lambda: SparseSource(csr_array(X)),
    "part": lambda: select_rows(
        make_source(SliceableFile(np.repeat(X, 2, axis=0))), np.arange(0, 2 * N, 2)
    ),
}
all_sources = pytest.mark.parametrize("kind", SOURCES)


def slices_of(n_rows, tile):
    return [slice(start, min(start + tile, n_rows)) for start in range(0, n_rows, tile)]


@all_sources
@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, N - 1), min_size=1), st.integers(1, N), st.integers(0, N))
def test_blocks_of_selected_rows(kind, rows, tile, skipped):
    """For any tile size and start; without the first `skipped` rows."""
    rows = np.array(sorted(rows))
    parts = [part for part in slices_of(len(rows), tile) if part.start >= skipped]
    blocks = list(row_blocks(SOURCES[kind](), rows, parts))
    assert len(blocks) == len(parts)
    for part, block in zip(parts, blocks, strict=True):
        np.testing.assert_array_equal(block, X[rows[part]])


@all_sources
@pytest.mark.parametrize("tile", [1, 16, 37, 74, N, 1000])
def test_blocks_of_all_rows(kind, tile):
    blocks = list(row_blocks(SOURCES[kind](), None, slices_of(N, tile)))
    assert [len(block) for block in blocks[:-1]] == [min(tile, N)] * (len(blocks) - 1)
    np.testing.assert_array_equal(np.concatenate(blocks), X)
    assert all(block.flags.c_contiguous and block.dtype == X.dtype for block in blocks)


@all_sources
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, N - 1), max_size=50))
def test_rows_in_any_order(kind, rows):
    rows = np.array(rows, int)
    taken = take_rows(SOURCES[kind](), rows, np.float64)
    assert taken.dtype == np.float64
    assert taken.flags.c_contiguous
    np.testing.assert_array_equal(taken, X[rows])


@all_sources
def test_a_slice_of_the_rows(kind):
    np.testing.assert_array_equal(take_rows(SOURCES[kind](), slice(30, 90)), X[30:90])


def test_blocks_of_rows_in_any_order():
    rows = np.random.default_rng(0).permutation(N)[:50]
    blocks = list(row_blocks(make_source(SliceableFile(X)), rows, slices_of(50, 20)))
    np.testing.assert_array_equal(np.concatenate(blocks), X[rows])


@pytest.mark.parametrize(
    ("max_memory", "most"), [(16 * 24 * 11, 11), (16 * 24 * 11 + 383, 11), (100, 1)]
)
def test_slices_take_a_sixteenth_of_the_memory(max_memory, most):
    shelf = SliceableFile(X, most)
    source = make_source(shelf, max_memory)
    list(source.blocks(range(N), 64))
    assert max(stop - start for start, stop in shelf.slices) == most
    source.take(np.arange(N)[::-1])
    assert source.read_bytes == 2 * most * 24


def test_slices_have_a_maximum_size():
    wide = np.zeros((40, 2**18), np.float32)
    shelf = SliceableFile(wide, max_rows=8)
    list(make_source(shelf, "1GB").blocks(range(40), 40))
    assert shelf.slices == [(start, start + 8) for start in range(0, 40, 8)]


def test_slices_end_at_the_chunks_of_the_file():
    """Otherwise a compressed chunk would be read twice."""
    shelf = SliceableFile(X, chunks=(7, 6))
    list(make_source(shelf, 16 * 24 * 20).blocks(range(5, N), 64))
    assert shelf.slices == [(5, 14), *((k, min(k + 14, N)) for k in range(14, N, 14))]


def test_only_needed_slices_and_chunks_are_read():
    shelf = SliceableFile(X)
    make_source(shelf, 16 * 24 * 10).take(np.array([152, 23, 21]))
    assert shelf.slices == [(21, 24), (152, 153)]
    tap = ChunkFunction(X)
    source, n_chunks = make_source(tap), tap.n_chunks
    source.take(np.array([3, 40]))
    assert (tap.calls, tap.closed) == (2, 2)
    assert tap.n_chunks == n_chunks + 2


def test_chunks_may_reuse_one_buffer():
    """A reader may fill one buffer repeatedly."""
    buffer, labels = np.empty((20, 6), np.float32), np.empty(20)

    def read():
        for start in range(0, N, 20):
            buffer[:], labels[:] = X[start : start + 20], start
            yield buffer, labels

    source, y, _ = open_source(read, None)
    np.testing.assert_array_equal(y, np.arange(N) // 20 * 20)
    blocks = row_blocks(source, None, slices_of(N, 20))
    for part, block in zip(slices_of(N, 20), blocks, strict=True):
        time.sleep(0.01)  # meanwhile the next chunk is read
        np.testing.assert_array_equal(block, X[part])


class ClosableIterator:
    """An iterator with a `close` method."""

    def __init__(self):
        self._chunks, self.is_closed = iter([X[:90], X[90:]]), False

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._chunks)

    def close(self):
        self.is_closed = True


def test_iterators_are_closed():
    handles = []

    def read():
        handles.append(ClosableIterator())
        return handles[-1]

    make_source(read).take(np.array([3]))
    assert [handle.is_closed for handle in handles] == [True, True]


@pytest.mark.parametrize("library", LIBRARIES)
def test_files_of_real_libraries(library, tmp_path):
    file = write_dataset(library, tmp_path, X)
    rows = np.flatnonzero(np.random.default_rng(0).random(N) < 0.3)
    source = make_source(file, 16 * 24 * 40)
    np.testing.assert_array_equal(np.concatenate(list(source.blocks(rows, 9))), X[rows])
    np.testing.assert_array_equal(source.take(rows[::-1]), X[rows[::-1]])


@pytest.mark.parametrize(
    ("dtype", "taken"),
    [("f4", "f4"), ("f8", "f8"), ("u1", "u1"), ("i4", "f8"), ("?", "f8"), (">f4", "f8"),
     ("f2", "f8")],
)  # fmt: skip
@pytest.mark.parametrize("kind", [SliceableFile, ChunkFunction])
def test_dtypes_are_converted_as_those_of_arrays(dtype, taken, kind):
    numbers = np.arange(12).reshape(4, 3).astype(dtype)
    source = make_source(kind(numbers))
    assert source.dtype == np.dtype(taken)
    (block,) = source.blocks(range(4), 4)
    assert block.dtype == np.dtype(taken)
    np.testing.assert_array_equal(block, numbers)


@pytest.mark.parametrize("module", ["pyarrow", "pandas", "polars"])
def test_chunks_may_be_tables(module):
    """Columns of several dtypes are converted to their common dtype; names are kept."""
    pytest.importorskip(module)
    columns = {"a": np.arange(5, dtype=np.uint8), "y": list("pqpqp"), "b": X[:5, 0]}

    def read():
        if module == "pyarrow":
            import pyarrow

            return pyarrow.table({k: pyarrow.array(v) for k, v in columns.items()}).to_batches()
        return [__import__(module).DataFrame(columns)]

    source, y, weight = open_source(read, None, "y", "a")
    assert list(y) == list("pqpqp")
    np.testing.assert_array_equal(weight, np.arange(5))
    np.testing.assert_array_equal(source.take(np.arange(5)), X[:5, :1])
    source = open_source(read, None, "y")[0]
    assert source.dtype == np.float32
    np.testing.assert_array_equal(source.take(np.arange(5)), np.stack([np.arange(5), X[:5, 0]], 1))
    del columns["b"]  # columns of uint8 are numbers, not pixels
    assert open_source(read, None, "y")[0].dtype == np.float64


@pytest.mark.parametrize(("max_bytes", "n_passes"), [(N * 24, 2), (N * 24 - 1, 3), (60 * 24, 5)])
def test_prefetched_rows_share_passes(max_bytes, n_passes):
    """Each pass fills the buffer; the first one opened the source."""
    tap = ChunkFunction(X)
    order = np.random.default_rng(0).permutation(N)
    source = PrefetchedSource(make_source(tap), order, max_bytes)
    for start in range(0, N, 20):
        rows = order[start : start + 20]
        np.testing.assert_array_equal(take_rows(source, np.sort(rows)), X[np.sort(rows)])
        np.testing.assert_array_equal(take_rows(source, rows, float), X[rows])
    assert tap.calls == n_passes


def test_other_rows_than_the_prefetched_ones_are_read():
    source = PrefetchedSource(make_source(SliceableFile(X)), np.arange(50, 100), 20 * 24)
    for rows in ([60, 90], [3], [99, 98], [50, 199], [], [99]):
        rows = np.array(rows, int)
        np.testing.assert_array_equal(take_rows(source, rows), X[rows])
    (block,) = source.blocks(range(10), 10)
    np.testing.assert_array_equal(block, X[:10])


class DeviceArray(SliceableFile):
    """An array on another device."""

    def __dlpack__(self):
        raise NotImplementedError


def test_arrays_tables_and_lists_are_not_sources():
    """Arrays in memory are validated by scikit-learn, arrays on a device by its engine."""
    on_device = DeviceArray(X)
    assert make_source(on_device) is on_device
    import pandas
    from scipy import sparse

    frame = pandas.DataFrame(X)
    for array in (X, X.tolist(), frame, frame[0], sparse.csr_array(X), None, np.float32(1)):
        assert make_source(array) is array
    source = make_source(SliceableFile(X))
    assert make_source(source) is source
