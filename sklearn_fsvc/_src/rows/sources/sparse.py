"""Sparse matrices in memory."""

from bisect import bisect_left
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, vstack

from .base import ENOUGH, Source, as_taken, check_finite

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
