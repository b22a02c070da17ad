"""Files that can be sliced, such as data sets of h5py and arrays of zarr."""

from bisect import bisect_left

import numpy as np
from scipy.sparse import issparse

from .base import ENOUGH, Source, as_taken, check_finite


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
