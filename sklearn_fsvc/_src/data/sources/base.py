"""What all sources of rows are."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from ...engines.threads import Daemons
from ...layers import DTYPES

# Bytes beyond which nothing is gained by reading more at a time.
ENOUGH = 2**23


class Source(ABC):
    """Rows that are read a few at a time.

    Attributes
    ----------
    shape : tuple of int
        (n_rows, n_features)
    dtype : dtype
        Of the rows that it gives: float32, float64 or uint8.
    names : object
        An empty table whose columns are the features, where they have names; else None.
    read_bytes : int
        That reading takes beside the rows that are asked for.
    tile_rows : int
        Rows in a tile beyond which it is better to begin with the work.
    is_remote : bool
        Whether work goes to where the rows are, by its own `map_reduce`.
    is_in_memory : bool
        Whether rows may be asked for in any order, and as often as one likes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    names: Any = None
    read_bytes: int
    tile_rows: int
    is_remote: bool = False
    is_in_memory: bool = False

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def pieces(self, rows: Any) -> Generator[tuple[int, np.ndarray], None, None]:
        """Yield (number of the first row, some rows) of pieces that hold all of `rows`, in order.

        Parameters
        ----------
        rows : range or ndarray of int
            Ascending, one at least.

        Yields
        ------
        first : int
        piece : ndarray of shape (n, n_features), checked, of any dtype of numbers
        """

    def take(self, rows: Any, dtype: Any = None) -> np.ndarray:
        """Return rows in any order, as one C-ordered array of `dtype`."""
        rows = np.asarray(rows)
        order = np.argsort(rows, kind="stable")
        ascending, done = rows[order], 0
        block = np.empty((len(rows), self.shape[1]), dtype or self.dtype)
        for first, piece in self.pieces(ascending) if len(rows) else ():
            stop = bisect_left(ascending, first + len(piece), lo=done)
            block[order[done:stop]] = piece[ascending[done:stop] - first]
            done = stop
        return block

    def blocks(self, rows: Any, n: int) -> Generator[np.ndarray, None, None]:
        """Yield `n` of the rows at a time, in one pass; fewer the last time.

        Parameters
        ----------
        rows : range or ndarray of int
            Ascending, none twice.
        n : int

        Yields
        ------
        block : ndarray of shape (n, n_features)
            C-ordered, of the source's dtype. Not to be written to.
        """
        done = start = 0
        block: np.ndarray | None = None
        with closing(self.pieces(rows)) as pieces:
            for first, piece in pieces:
                stop = bisect_left(rows, first + len(piece), lo=done)
                while done < stop:
                    if block is None:
                        start, size = done, min(n, len(rows) - done)
                    end = min(stop, start + size)
                    some = piece[_within(rows[done:end], first)]
                    if end - done == size:  # all at once
                        block = np.require(some, self.dtype, ["C_CONTIGUOUS", "ALIGNED"])
                    else:
                        if block is None:
                            block = np.empty((size, self.shape[1]), self.dtype)
                        block[done - start : end - start] = some
                    done = end
                    if done - start == size:
                        yield block
                        block = None
                        del some  # before the next rows are read

    def part(self, rows: Any) -> "Source":
        """Return some rows, ascending, as a source; in any order of one that is in memory."""
        return SourceRows(self, rows)


def _within(rows: Any, first: int) -> slice | np.ndarray:
    """Return where rows are in a piece from row `first` on; a slice if they are neighbours."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return slice(rows[0] - first, rows[-1] + 1 - first)
    return np.asarray(rows) - first


class SourceRows(Source):
    """Rows of another source, in ascending order, not read before they are asked for."""

    def __init__(self, source: Source, rows: np.ndarray) -> None:
        self._source, self._rows = source, rows
        self.shape = len(rows), *source.shape[1:]
        self.dtype, self.names = source.dtype, source.names
        self.read_bytes, self.tile_rows = source.read_bytes, source.tile_rows

    def pieces(self, rows: Any) -> Generator[tuple[int, np.ndarray], None, None]:
        wanted = self._rows[slice(rows.start, rows.stop) if isinstance(rows, range) else rows]
        start = 0
        for first, piece in self._source.pieces(wanted):
            start = bisect_left(self._rows, first, lo=start)
            stop = bisect_left(self._rows, first + len(piece), lo=start)
            yield start, piece[self._rows[start:stop] - first]
            start = stop


def some_rows(X: Any, rows: Any) -> Any:
    """Return some rows of an array, a table or a source."""
    if not isinstance(X, Source):
        return _safe_indexing(X, rows)
    if not (X.is_in_memory or (np.diff(rows) > 0).all()):
        raise ValueError(
            "X is read in its own order, and cv gives rows in another one; use a splitter that "
            "keeps the order, such as KFold or StratifiedKFold, also with shuffle=True."
        )
    return X.part(rows)


def read_ahead(blocks: Generator[np.ndarray, None, None]) -> Iterator[np.ndarray]:
    """Yield the blocks of a generator; the next one is read in a thread while one is used.

    Errors of the reader are raised here. The thread ends with this generator, whatever
    ends it.
    """
    with closing(blocks), Daemons(1, "sklearn_fsvc_reader") as reader:
        following = reader.submit(next, blocks, None)
        while True:
            block = following.result()
            if block is None:
                return
            following = reader.submit(next, blocks, None)
            yield block
            del block  # before the one after the next is read


def as_taken(dtype: np.dtype, what: str) -> np.dtype:
    """Return the dtype that rows of a dtype are given in, as for arrays."""
    if dtype.kind not in "biuf":
        raise ValueError(f"{what} has dtype {dtype}; it must be of real numbers.")
    return dtype if dtype in DTYPES else np.dtype(np.float64)


def check_finite(rows: np.ndarray, numbers: Any) -> None:
    """Raise for a NaN or an infinity, and name the first row that has one.

    Parameters
    ----------
    rows : ndarray
    numbers : int or ndarray of int
        The number of the first row, or of each.
    """
    if rows.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):
        if np.isfinite(rows.sum()):  # one pass, without an array of the same size
            return
    is_bad = ~np.isfinite(rows)
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        number = numbers + row if np.ndim(numbers) == 0 else numbers[row]
        what = "NaN" if np.isnan(rows[row, column]) else "infinity"
        raise ValueError(
            f"Input X contains {what} in row {number}, column {column}; remove or impute such "
            "values."
        )


# A source whose rows will be asked for in an order that is known.


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
