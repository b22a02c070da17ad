"""Sparse matrices in memory."""

from bisect import bisect_left
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from .base import ENOUGH, Source, as_taken, check_finite

# Rows of an array in memory: some of them, or of numbers that no layer takes as they are.

# Bytes that are gathered or converted at a time.
_PIECE = 2**17


class InMemory(Source):
    """Rows of an array, which are copied and converted a few at a time, as they are asked for.

    The array, or memmap, is of real numbers; `rows` are numbers of rows in any order, None for all.
    """

    is_in_memory = True

    def __init__(self, array, rows=None, names=None):
        self._array, self._rows, self.names = array, rows, names
        self.shape = len(array) if rows is None else len(rows), array.shape[1]
        self.dtype = as_taken(array.dtype, "X")
        self.tile_rows = max(1, len(self))
        row_bytes = max(1, self.shape[1] * self.dtype.itemsize)
        self._step = min(self.tile_rows, max(1, _PIECE // row_bytes))
        self.read_bytes = self._step * row_bytes

    @property
    def nbytes(self):
        """Return the bytes of all rows, were they converted."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __getitem__(self, part):
        """Return a slice of the rows, converted."""
        return self.take(np.arange(len(self))[part])

    def copy(self):
        """All rows, converted."""
        return self[:]

    def part(self, rows):
        """Return some of the rows, in any order, not copied before they are asked for."""
        rows = rows if self._rows is None else self._rows[rows]
        some = _slice_of(rows)
        if some is rows:
            return InMemory(self._array, rows, self.names)
        return InMemory(self._array[some], names=self.names)

    def take(self, rows, dtype=None):
        rows = np.asarray(rows) if self._rows is None else self._rows[rows]
        block = np.empty((len(rows), self.shape[1]), dtype or self.dtype)
        for start in range(0, len(rows), self._step):
            some = rows[start : start + self._step]
            piece = self._array[_slice_of(some)]
            check_finite(piece, some)
            block[start : start + self._step] = piece
        return block

    def blocks(self, rows, n):
        for start in range(0, len(rows), n):
            yield self.take(rows[start : start + n])

    def pieces(self, rows):
        first, end = int(rows[0]), int(rows[-1]) + 1
        for start in range(first, end, self._step):
            yield start, self[start : min(start + self._step, end)]


def _slice_of(rows):
    """A slice if they are neighbours in ascending order, which copies nothing."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


# Files that can be sliced, such as data sets of h5py and arrays of zarr.


def is_sliceable(X):
    """Whether X has a shape, a dtype and slices, and lies neither in memory nor on a device."""
    if isinstance(X, (np.ndarray, np.generic)) or hasattr(X, "__dlpack__") or issparse(X):
        return False
    has_all = all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
    is_column = hasattr(X, "iloc")  # of a table in memory
    return has_all and not is_column and isinstance(X.dtype, np.dtype)


class Sliceable(Source):
    """Rows of something that gives ``X[a:b]``.

    Slices take a small part of the memory limit, and end where chunks of the file end if one
    fits.
    """

    def __init__(self, X, limit):
        self._X, self.shape = X, tuple(map(int, X.shape))
        self.dtype = as_taken(X.dtype, "X")
        row_bytes = max(1, int(np.prod(self.shape[1:])) * X.dtype.itemsize)

        def whole_chunks(n_bytes):
            chunk, most = _chunk_rows(X), max(1, n_bytes // row_bytes)
            return most // chunk * chunk or most

        self._step = whole_chunks(min(ENOUGH, limit // 16))
        self.tile_rows = whole_chunks(ENOUGH)
        # One slice is cut into tiles while the next one is read.
        self.read_bytes = 2 * self._step * row_bytes

    def pieces(self, rows):
        done = 0
        while done < len(rows):
            first = int(rows[done])
            stop = bisect_left(rows, (first // self._step + 1) * self._step, lo=done)
            last = int(rows[stop - 1]) + 1
            piece = np.asarray(self._X[first:last])
            if piece.shape != (last - first, self.shape[1]):
                raise ValueError(
                    f"X[{first}:{last}] has shape {piece.shape}, and X has {self.shape}; was the "
                    "file changed?"
                )
            check_finite(piece, first)
            yield first, piece
            done = stop


def _chunk_rows(X):
    """Rows of a chunk of the file, 1 if it has none."""
    chunks = getattr(X, "chunks", None)
    is_regular = isinstance(chunks, tuple) and chunks and isinstance(chunks[0], int)
    return max(1, chunks[0]) if is_regular else 1


# The part of the numbers beyond which rows are quicker as dense ones: benchmarks/sparse_rows.py.
_DENSE = 0.07


class SparseRows(Source):
    """The rows of a sparse matrix.

    As a source it gives dense rows, a few at a time; to what multiplies sparse rows it gives
    those. The numbers of a row may be in any order. CSR of float32, float64 or uint8 is not copied.
    """

    is_in_memory, read_bytes = True, 0

    def __init__(self, X):
        self.shape, self.dtype = X.shape, as_taken(X.dtype, "X")
        self._X = csr_array(X, dtype=self.dtype)
        self.tile_rows = max(1, ENOUGH // max(1, X.shape[1] * self.dtype.itemsize))

    @property
    def nbytes(self):
        return sum(a.nbytes for a in (self._X.data, self._X.indices, self._X.indptr))

    @property
    def is_sparse(self):
        """Whether it pays not to multiply zeros."""
        n_rows, n_features = self.shape
        return self._X.nnz <= _DENSE * n_rows * n_features

    def narrowed(self, layer):
        """A layer and its rows without the features that no row has, if these are most.

        A few rows of many features meet a small part of the layer.
        """
        X, n_features = self._X, self.shape[1]
        is_used = np.zeros(n_features, bool)
        is_used[X.indices] = True
        is_used[0] = True  # for there is a layer where all numbers are 0
        used = np.flatnonzero(is_used)
        if 2 * len(used) > n_features:
            return layer, self
        places = (np.cumsum(is_used) - 1).astype(X.indices.dtype)[X.indices]
        X = csr_array((X.data, places, X.indptr), (self.shape[0], len(used)))
        return replace(layer, units=np.take(layer.units, used, axis=1)), SparseRows(X)

    def row_bytes(self, dtype):
        """Return the bytes of the longest row, in a tile of a dtype."""
        index = self._X.indices.itemsize
        longest = int(np.diff(self._X.indptr).max(initial=0))
        return longest * (index + max(self.dtype.itemsize, dtype.itemsize)) + index

    def check_finite(self):
        """Raise for a NaN or an infinity, and name the first row that has one."""
        X = self._X
        is_bad = ~np.isfinite(X.data)
        if is_bad.any():
            row = int(np.searchsorted(X.indptr, np.argmax(is_bad), side="right")) - 1
            check_finite(self.take([row]), row)

    def sparse(self, rows, dtype):
        """Return some rows as a ``csr_array`` of a dtype, a copy."""
        return self._X[rows].astype(dtype, copy=False)

    def tiles(self, rows, parts, dtype):
        """Parts of the row numbers `rows`, None for all rows, each as of `sparse`."""
        for part in parts:
            yield self.sparse(part if rows is None else rows[part], dtype)

    def summed(self, function):
        """The sum of ``function(values, columns)`` over the numbers of each row."""
        sums = function(self._X.data, self._X.indices)
        ends = np.concatenate([np.zeros(1, sums.dtype), sums.cumsum()])[self._X.indptr]
        return np.diff(ends)

    def take(self, rows, dtype=None):
        return self.sparse(rows, dtype or self.dtype).toarray()

    def pieces(self, rows):
        done = 0
        while done < len(rows):
            first = int(rows[done])
            stop = bisect_left(rows, first + self.tile_rows, lo=done)
            yield first, self.take(slice(first, int(rows[stop - 1]) + 1))
            done = stop

    def part(self, rows):
        """Return some rows, in any order, as sparse rows."""
        is_whole = len(rows) == len(self) and (np.diff(rows) == 1).all()
        return self if is_whole else SparseRows(self._X[rows])

    def copy(self):
        return SparseRows(self._X.copy())


def are_sparse(X):
    """Whether the rows of X are met as sparse ones."""
    return isinstance(X, SparseRows) and X.is_sparse


def joined(blocks):
    """Blocks of rows of one kind and dtype, one after the other, as one."""
    if isinstance(blocks[0], SparseRows):
        return SparseRows(vstack([block._X for block in blocks], format="csr"))
    return np.concatenate(blocks)
