"""A source whose rows will be asked for in an order that is known."""

import numpy as np

from .base import Source


class PrefetchedSource(Source):
    """Reads many of the rows that will be asked for next, which wait in `n_bytes` of memory.

    Rows that lie anywhere in a file cost a pass over it, be they few or many. In `order` they are
    asked for, a few at a time and perhaps from the start again. Others are read when they are.
    """

    def __init__(self, source, order, n_bytes):
        self._source, self._order = source, order
        self.shape, self.dtype, self.names = source.shape, source.dtype, source.names
        self.read_bytes, self.tile_rows = source.read_bytes, source.tile_rows
        row_bytes = source.shape[1] * source.dtype.itemsize
        self._most = min(len(order), max(1, n_bytes // row_bytes))
        # The place of each row in the order; rows that are not in it come after all.
        self._places = np.full(len(source), len(order))
        self._places[order] = np.arange(len(order))
        self._first, self._waiting = 0, np.empty((0, source.shape[1]), source.dtype)
        self.waiting_bytes = self._most * row_bytes

    def pieces(self, rows):
        return self._source.pieces(rows)

    def take(self, rows, dtype=None):
        places = self._places[rows]
        if not self._are_waiting(places):
            self._read(int(places.min(initial=len(self._order))))
        if not self._are_waiting(places):
            return self._source.take(rows, dtype)
        return self._waiting[places - self._first].astype(dtype or self.dtype, copy=False)

    def _are_waiting(self, places):
        low, high = self._first, self._first + len(self._waiting)
        return bool(((places >= low) & (places < high)).all())

    def _read(self, first):
        """Let the rows from a place of the order on wait, instead of others."""
        self._first, self._waiting = first, self._waiting[:0]
        self._waiting = self._source.take(self._order[first : first + self._most])
