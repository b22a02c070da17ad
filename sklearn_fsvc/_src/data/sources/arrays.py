"""Sources of array-likes: arrays in memory, files that can be sliced, and sparse matrices."""

from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse, vstack

from ..memory_plan import count_fitting
from .base import ENOUGH, Source, check_finite, supported_dtype

# Bytes that are gathered or converted at a time, so that they stay in the cache.
_CONVERTED_BYTES = 2**17
# The share of non-zero values beyond which dense rows are faster: benchmarks/sparse_rows.py.
_MAX_DENSITY = 0.07


class ArraySource(Source):
    """Rows of an array in memory, which are gathered and converted a few at a time.

    It replaces copies of the whole array: of a subset of the rows, or of a dtype that no layer has.

    Parameters
    ----------
    array : ndarray or memmap of real numbers
    rows : ndarray of int, optional
        Row numbers in any order; by default all rows.
    names : object
        See `Source`.
    """

    is_in_memory = True

    def __init__(
        self, array: Any, rows: npt.NDArray[np.intp] | None = None, names: Any = None
    ) -> None:
        self._array, self._rows, self.names = array, rows, names
        self.shape = len(array) if rows is None else len(rows), array.shape[1]
        self.dtype = supported_dtype(array.dtype, "X")
        self.is_converted = self.dtype != array.dtype
        self.tile_rows = max(1, len(self))
        row_bytes = max(1, self.shape[1] * self.dtype.itemsize)
        self._step = max(1, count_fitting(_CONVERTED_BYTES, row_bytes, maximum=self.tile_rows))
        self.read_bytes = self._step * row_bytes

    @property
    def nbytes(self) -> int:
        """Return the bytes of all rows after conversion."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        """Return a slice of the rows, converted."""
        return self.take(np.arange(len(self))[part])

    def copy(self) -> npt.NDArray[Any]:
        """Return all rows, converted."""
        return self[:]

    def shares_memory(self, out: npt.NDArray[Any]) -> bool:
        return np.shares_memory(self._array, out)

    def columns(self) -> Generator[npt.NDArray[Any], None, None]:
        """Yield the values of each feature, in the dtype of the array."""
        rows = slice(None) if self._rows is None else self._rows
        for column in self._array.T:
            yield column[rows]

    def part(self, rows: npt.NDArray[np.intp]) -> "ArraySource":
        """Return a subset of the rows, in any order, without a copy."""
        rows = rows if self._rows is None else self._rows[rows]
        selection = _as_slice(rows)
        if selection is rows:
            return ArraySource(self._array, rows, self.names)
        return ArraySource(self._array[selection], names=self.names)

    def take(self, rows: Any, dtype: Any = None) -> npt.NDArray[Any]:
        rows = np.asarray(rows) if self._rows is None else self._rows[rows]
        block = np.empty((len(rows), self.shape[1]), dtype or self.dtype)
        for start in range(0, len(rows), self._step):
            numbers = rows[start : start + self._step]
            piece = self._array[_as_slice(numbers)]
            check_finite(piece, numbers)
            block[start : start + self._step] = piece
        return block

    def blocks(self, rows: Any, n: int) -> Generator[npt.NDArray[Any], None, None]:
        for start in range(0, len(rows), n):
            yield self.take(rows[start : start + n])

    def pieces(self, rows: Any) -> Generator[tuple[int, npt.NDArray[Any]], None, None]:
        first, end = int(rows[0]), int(rows[-1]) + 1
        for start in range(first, end, self._step):
            yield start, self[start : min(start + self._step, end)]


def _as_slice(rows: npt.NDArray[np.intp]) -> slice | npt.NDArray[np.intp]:
    """Return a slice if the rows are consecutive, whose selection is a view."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


class Sliceable(Source):
    """Rows of an object that returns ``X[a:b]``, such as a dataset of h5py or an array of zarr.

    A slice takes a small part of the memory limit. It ends where a chunk of the file ends, if
    one fits, so that no chunk is decompressed twice.
    """

    def __init__(self, X: Any, limit: int) -> None:
        self._X, self.shape = X, tuple(map(int, X.shape))
        self.dtype = supported_dtype(X.dtype, "X")
        row_bytes = max(1, int(np.prod(self.shape[1:])) * X.dtype.itemsize)
        chunk = _chunk_rows(X)

        def whole_chunks(n_bytes: int) -> int:
            rows = max(1, count_fitting(n_bytes, row_bytes))
            return rows // chunk * chunk or rows

        self._step = whole_chunks(min(ENOUGH, limit // 16))
        self.tile_rows = whole_chunks(ENOUGH)
        # One slice is cut into tiles while the next one is read.
        self.read_bytes = 2 * self._step * row_bytes

    def pieces(self, rows: Any) -> Generator[tuple[int, npt.NDArray[Any]], None, None]:
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


def is_sliceable(X: Any) -> bool:
    """Return whether X has a shape, a dtype and slices, and is neither in memory nor on a GPU."""
    if isinstance(X, (np.ndarray, np.generic)) or hasattr(X, "__dlpack__") or issparse(X):
        return False
    has_all = all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
    is_series = hasattr(X, "iloc")  # a column of a DataFrame
    return has_all and not is_series and isinstance(X.dtype, np.dtype)


def _chunk_rows(X: Any) -> int:
    """Return the rows of a chunk of the file, 1 if it has no chunks."""
    chunks: Any = getattr(X, "chunks", None)
    is_regular = isinstance(chunks, tuple) and chunks and isinstance(chunks[0], int)
    return max(1, chunks[0]) if is_regular else 1


class SparseSource(Source):
    """Rows of a sparse matrix in CSR format.

    As a source it returns dense rows, a few at a time; `sparse` and `tiles` return CSR rows for
    engines that multiply those. The indices of a row may be in any order. CSR of float32,
    float64 or uint8 is not copied.
    """

    is_in_memory, read_bytes = True, 0

    def __init__(self, X: Any) -> None:
        self.shape, self.dtype = X.shape, supported_dtype(X.dtype, "X")
        self._X = csr_array(X, dtype=self.dtype)
        row_bytes = max(1, X.shape[1] * self.dtype.itemsize)
        self.tile_rows = max(1, count_fitting(ENOUGH, row_bytes))

    @property
    def nbytes(self) -> int:
        """Return the bytes of the CSR arrays."""
        return sum(a.nbytes for a in (self._X.data, self._X.indices, self._X.indptr))

    @property
    def is_sparse(self) -> bool:
        """Return whether CSR rows are faster than dense ones."""
        n_rows, n_features = self.shape
        return self._X.nnz <= _MAX_DENSITY * n_rows * n_features

    def drop_empty_features(self, layer: Any) -> tuple[Any, "SparseSource"]:
        """Return the layer and the rows without the features that are 0 in all rows.

        Both unchanged if these are less than half of the features. A few rows of text have a few
        of a hundred thousand features: only that part of the weights is uploaded and multiplied.
        """
        X, n_features = self._X, self.shape[1]
        is_used = np.zeros(n_features, bool)
        is_used[X.indices] = True
        is_used[0] = True  # a layer has at least one feature
        used = np.flatnonzero(is_used)
        if 2 * len(used) > n_features:
            return layer, self
        positions = (np.cumsum(is_used) - 1).astype(X.indices.dtype)[X.indices]
        X = csr_array((X.data, positions, X.indptr), (self.shape[0], len(used)))
        return replace(layer, units=np.take(layer.units, used, axis=1)), SparseSource(X)

    @property
    def counts(self) -> npt.NDArray[np.intp]:
        """Return the number of stored values of each feature."""
        return np.bincount(self._X.indices, minlength=self.shape[1])

    def features(self, columns: Any) -> "SparseSource":
        """Return a subset of the features: a slice, or a boolean mask."""
        return SparseSource(self._X[:, columns])

    def columns(self) -> Generator[npt.NDArray[Any], None, None]:
        """Yield the values of each feature, zeros included."""
        columns = self._X.tocsc()
        for j in range(self.shape[1]):
            yield columns[:, [j]].toarray()[:, 0]

    def row_bytes(self, dtype: np.dtype) -> int:
        """Return the bytes of the longest row, with values in the wider of both dtypes."""
        index = self._X.indices.itemsize
        longest = int(np.diff(self._X.indptr).max(initial=0))
        return longest * (index + max(self.dtype.itemsize, dtype.itemsize)) + index

    def check_finite(self) -> None:
        """Raise ValueError for a NaN or an infinity, with the first row that has one."""
        X = self._X
        is_bad = ~np.isfinite(X.data)
        if is_bad.any():
            row = int(np.searchsorted(X.indptr, np.argmax(is_bad), side="right")) - 1
            check_finite(self.take([row]), row)

    def sparse(self, rows: Any, dtype: Any) -> csr_array:
        """Return a copy of some rows as a ``csr_array`` of a dtype."""
        return self._X[rows].astype(dtype, copy=False)

    def tiles(
        self, rows: npt.NDArray[np.intp] | None, parts: Sequence[slice], dtype: Any
    ) -> Generator[csr_array, None, None]:
        """Yield parts of the row numbers `rows`, None for all rows, each as from `sparse`."""
        for part in parts:
            yield self.sparse(part if rows is None else rows[part], dtype)

    def summed(self, function: Callable[..., npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the sum of ``function(values, columns)`` over the stored values of each row."""
        sums = function(self._X.data, self._X.indices)
        ends = np.concatenate([np.zeros(1, sums.dtype), sums.cumsum()])[self._X.indptr]
        return np.diff(ends)

    def take(self, rows: Any, dtype: Any = None) -> npt.NDArray[Any]:
        return self.sparse(rows, dtype or self.dtype).toarray()

    def pieces(self, rows: Any) -> Generator[tuple[int, npt.NDArray[Any]], None, None]:
        done = 0
        while done < len(rows):
            first = int(rows[done])
            stop = bisect_left(rows, first + self.tile_rows, lo=done)
            yield first, self.take(slice(first, int(rows[stop - 1]) + 1))
            done = stop

    def part(self, rows: npt.NDArray[np.intp]) -> "SparseSource":
        """Return a subset of the rows, in any order."""
        is_all = len(rows) == len(self) and (np.diff(rows) == 1).all()
        return self if is_all else SparseSource(self._X[rows])

    def copy(self) -> "SparseSource":
        """Return a copy of the matrix."""
        return SparseSource(self._X.copy())


def is_evaluated_sparse(X: Any) -> bool:
    """Return whether X is evaluated as CSR rows."""
    return isinstance(X, SparseSource) and X.is_sparse


def joined(blocks: Sequence[Any]) -> Any:
    """Return blocks of rows, concatenated: sparse if all are sparse, in a dtype for all."""
    if all(isinstance(block, SparseSource) for block in blocks):
        return SparseSource(vstack([block._X for block in blocks], format="csr"))
    return np.concatenate(
        [b.take(np.arange(len(b))) if isinstance(b, Source) else b for b in blocks]
    )
