"""Data sources for tests: fakes that reject unexpected access, and files of h5py and zarr."""

import numpy as np
import pytest

from sklearn_fsvc._src.data.sources import ArraySource

CHUNK = 37


class TiledArray(ArraySource):
    """An array as a source with tiles of `n` rows."""

    def __init__(self, X, n):
        super().__init__(X)
        self.tile_rows = n

    def part(self, rows):
        return TiledArray(self.take(rows), self.tile_rows)


class SliceableFile:
    """A file that returns slices of at most `max_rows` rows, and rejects any other access."""

    def __init__(self, X, max_rows=np.inf, chunks=None):
        self._X, self._max_rows = X, max_rows
        self.shape, self.dtype, self.chunks = X.shape, X.dtype, chunks
        self.slices = []

    def __getitem__(self, key):
        assert isinstance(key, slice), f"indexed by {key!r}"
        start, stop, step = key.indices(len(self._X))
        assert 0 < stop - start <= self._max_rows, f"reads {stop - start} rows at once"
        assert step == 1
        self.slices.append((start, stop))
        return self._X[start:stop].copy()

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("converted to an array as a whole")

    def __iter__(self):
        raise AssertionError("iterated row by row")


class ChunkFunction:
    """A function that returns a generator of chunks.

    Attributes
    ----------
    calls, closed, n_chunks : int
        Numbers of calls, of closed generators, and of all generated chunks.
    """

    def __init__(self, *arrays, chunk=CHUNK):
        self._arrays, self._chunk = arrays, chunk
        self.calls = self.closed = self.n_chunks = 0

    def __call__(self):
        self.calls += 1
        try:
            for start in range(0, len(self._arrays[0]), self._chunk):
                parts = tuple(a[start : start + self._chunk] for a in self._arrays)
                self.n_chunks += 1
                yield parts if len(parts) > 1 else parts[0]
        finally:
            self.closed += 1


def batches(X, **columns):
    """Return a function that yields Arrow record batches with x0, x1, ... and other columns."""
    import pyarrow

    table = {f"x{j}": column for j, column in enumerate(X.T)} | columns

    def read():
        for start in range(0, len(X), CHUNK):
            part = {name: column[start : start + CHUNK] for name, column in table.items()}
            yield pyarrow.RecordBatch.from_pydict(part)

    return read


def write_dataset(library, path, X):
    """Write X to a file of a library, in chunks of `CHUNK` rows, and return the dataset."""
    if library == "zarr":
        zarr = pytest.importorskip("zarr")

        file = zarr.create_array(path / "X.zarr", shape=X.shape, dtype=X.dtype, chunks=(CHUNK, 3))
        file[:] = X
        return file
    h5py = pytest.importorskip("h5py")

    chunks = (CHUNK, 3) if library == "h5py chunked" else None
    return h5py.File(path / "X.h5", "w").create_dataset("X", data=X, chunks=chunks)


LIBRARIES = ["h5py", "h5py chunked", "zarr"]
