"""Some rows of a source, as a source of their own."""

from bisect import bisect_left

import numpy as np
from sklearn.utils import _safe_indexing

from .base import Source


class Part(Source):
    """Rows of another source, in ascending order, not read before they are asked for."""

    def __init__(self, source, rows):
        self._source, self._rows = source, rows
        self.shape = len(rows), *source.shape[1:]
        self.dtype, self.names = source.dtype, source.names
        self.read_bytes, self.tile_rows = source.read_bytes, source.tile_rows

    def pieces(self, rows):
        wanted = self._rows[slice(rows.start, rows.stop) if isinstance(rows, range) else rows]
        start = 0
        for first, piece in self._source.pieces(wanted):
            start = bisect_left(self._rows, first, lo=start)
            stop = bisect_left(self._rows, first + len(piece), lo=start)
            yield start, piece[self._rows[start:stop] - first]
            start = stop


def some_rows(X, rows):
    """Return some rows of an array, a table or a source."""
    if not isinstance(X, Source):
        return _safe_indexing(X, rows)
    if not (X.is_in_memory or (np.diff(rows) > 0).all()):
        raise ValueError(
            "X is read in its own order, and cv gives rows in another one; use a splitter that "
            "keeps the order, such as KFold or StratifiedKFold, also with shuffle=True."
        )
    return X.part(rows) if X.is_remote or X.is_in_memory else Part(X, rows)
