"""Rows of an array in memory: some of them, or of numbers that no layer takes as they are."""

import numpy as np

from .base import Source, as_taken, check_finite

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
