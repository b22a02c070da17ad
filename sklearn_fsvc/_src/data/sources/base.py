"""The contract of sources, and sources that are made from other sources."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import _safe_indexing

from ...engines.threads import DaemonThreadPool
from ...layers import DTYPES
from ..memory_plan import count_fitting

# Bytes of a read beyond which larger reads are not faster.
ENOUGH = 2**23


class Source(ABC):
    """Rows of X that are read a few at a time.

    Row numbers go in, ascending, and blocks of those rows are returned in one pass over the file.

    Attributes
    ----------
    shape : tuple of int
        (n_rows, n_features)
    dtype : dtype
        Of the rows that are returned: float32, float64 or uint8.
    names : object
        An empty table whose columns are the features, if they have names; else None.
    read_bytes : int
        Buffers of a read, in addition to the rows that are returned.
    tile_rows : int
        The largest tile that is read efficiently: beyond it, the computation is idle during a read.
    is_remote : bool
        Whether the computation runs where the rows are, by the source's `map_reduce`.
    is_in_memory : bool
        Whether rows can be read in any order, repeatedly and at no cost.
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
    def pieces(self, rows: Any) -> Generator[tuple[int, npt.NDArray[Any]], None, None]:
        """Yield the pieces of X, as they are read, that contain all of `rows`, in order.

        Parameters
        ----------
        rows : range or ndarray of int
            Ascending, at least one.

        Yields
        ------
        first : int
            The number of the first row of the piece.
        piece : ndarray of shape (n, n_features)
            Consecutive rows, finite, of any real dtype.
        """

    def take(self, rows: Any, dtype: Any = None) -> npt.NDArray[Any]:
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

    def blocks(self, rows: Any, n: int) -> Generator[npt.NDArray[Any], None, None]:
        """Yield `n` of the rows at a time, in one pass; fewer the last time.

        Pieces are cut into blocks, and a block that spans several pieces is assembled.

        Parameters
        ----------
        rows : range or ndarray of int
            Ascending, none twice.
        n : int

        Yields
        ------
        block : ndarray of shape (n, n_features)
            C-ordered, of the source's dtype, read-only: it may be a view of a piece.
        """
        done = start = 0
        block: npt.NDArray[Any] | None = None
        with closing(self.pieces(rows)) as pieces:
            for first, piece in pieces:
                stop = bisect_left(rows, first + len(piece), lo=done)
                while done < stop:
                    if block is None:
                        start, size = done, min(n, len(rows) - done)
                    end = min(stop, start + size)
                    selected = piece[_positions_in_piece(rows[done:end], first)]
                    if end - done == size:  # the piece contains the whole block
                        block = np.require(selected, self.dtype, ["C_CONTIGUOUS", "ALIGNED"])
                    else:
                        if block is None:
                            block = np.empty((size, self.shape[1]), self.dtype)
                        block[done - start : end - start] = selected
                    done = end
                    if done - start == size:
                        yield block
                        block = None
                        del selected  # freed before the next rows are read

    def shares_memory(self, out: npt.NDArray[Any]) -> bool:
        """Return whether the rows are in the memory of an array."""
        return False

    def part(self, rows: Any) -> "Source":
        """Return a subset of the rows, ascending (in any order if `is_in_memory`), as a source."""
        return SourceSubset(self, rows)

    def map_reduce(self, samples: Any, work: Any, rows: Any = None) -> Any:
        """Return the result of a `MapReduce` where the rows are; only if `is_remote`."""
        raise NotImplementedError


def _positions_in_piece(rows: Any, first: int) -> slice | npt.NDArray[np.intp]:
    """Return the positions of rows in a piece from row `first` on; a slice if consecutive."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return slice(rows[0] - first, rows[-1] + 1 - first)
    return np.asarray(rows) - first


class SourceSubset(Source):
    """A subset of the rows of another source, in ascending order, which is read lazily."""

    def __init__(self, source: Source, rows: npt.NDArray[np.intp]) -> None:
        self._source, self._rows = source, rows
        self.shape = len(rows), *source.shape[1:]
        self.dtype, self.names = source.dtype, source.names
        self.read_bytes, self.tile_rows = source.read_bytes, source.tile_rows

    def pieces(self, rows: Any) -> Generator[tuple[int, npt.NDArray[Any]], None, None]:
        selected = self._rows[slice(rows.start, rows.stop) if isinstance(rows, range) else rows]
        start = 0
        for first, piece in self._source.pieces(selected):
            start = bisect_left(self._rows, first, lo=start)
            stop = bisect_left(self._rows, first + len(piece), lo=start)
            yield start, piece[self._rows[start:stop] - first]
            start = stop


class PrefetchedSource(Source):
    """Reads rows in a known order, many at a time, into a buffer of `n_bytes`.

    Rows at random positions of a file cost a pass over it, whether they are few or many. A
    consumer reads the rows of `order`, a few at a time, possibly from the start again; other rows
    are read without the buffer.

    Attributes
    ----------
    buffer_bytes : int
        Bytes of the full buffer.
    """

    def __init__(self, source: Source, order: npt.NDArray[np.intp], n_bytes: int) -> None:
        self._source, self._order = source, order
        self.shape, self.dtype, self.names = source.shape, source.dtype, source.names
        self.read_bytes, self.tile_rows = source.read_bytes, source.tile_rows
        row_bytes = source.shape[1] * source.dtype.itemsize
        self._buffer_rows = min(len(order), max(1, count_fitting(n_bytes, row_bytes)))
        # The position of each row in the order; rows that are not in it come last.
        self._positions = np.full(len(source), len(order))
        self._positions[order] = np.arange(len(order))
        # The buffer holds the rows of the order from position `_first` on.
        self._first, self._buffer = 0, np.empty((0, source.shape[1]), source.dtype)
        self.buffer_bytes = self._buffer_rows * row_bytes

    def pieces(self, rows: Any) -> Generator[tuple[int, npt.NDArray[Any]], None, None]:
        return self._source.pieces(rows)

    def take(self, rows: Any, dtype: Any = None) -> npt.NDArray[Any]:
        positions = self._positions[rows]
        if not self._are_buffered(positions):
            self._fill(int(positions.min(initial=len(self._order))))
        if not self._are_buffered(positions):
            return self._source.take(rows, dtype)
        return self._buffer[positions - self._first].astype(dtype or self.dtype, copy=False)

    def _are_buffered(self, positions: npt.NDArray[np.intp]) -> bool:
        low, high = self._first, self._first + len(self._buffer)
        return bool(((positions >= low) & (positions < high)).all())

    def _fill(self, first: int) -> None:
        """Replace the buffer by the rows from a position of the order on."""
        self._first, self._buffer = first, self._buffer[:0]
        self._buffer = self._source.take(self._order[first : first + self._buffer_rows])


def is_in_memory(X: Any) -> bool:
    """Return whether rows of X can be read in any order, repeatedly and at no cost."""
    return not isinstance(X, Source) or X.is_in_memory


def select_rows(X: Any, rows: Any) -> Any:
    """Return a subset of the rows of an array, a table or a source."""
    if not isinstance(X, Source):
        return _safe_indexing(X, rows)
    if not (X.is_in_memory or (np.diff(rows) > 0).all()):
        raise ValueError(
            "X is read in its own order, and cv gives rows in another one; use a splitter that "
            "keeps the order, such as KFold or StratifiedKFold, also with shuffle=True."
        )
    return X.part(rows)


def read_ahead(
    blocks: Generator[npt.NDArray[Any], None, None],
) -> Iterator[npt.NDArray[Any]]:
    """Yield the blocks of a generator; a thread reads the next one while one is processed.

    Errors of the reader are raised here. The thread ends with this generator.
    """
    with closing(blocks), DaemonThreadPool(1, "sklearn_fsvc_reader") as reader:
        following = reader.submit(next, blocks, None)
        while True:
            block = following.result()
            if block is None:
                return
            following = reader.submit(next, blocks, None)
            yield block
            del block  # freed before the block after the next one is read


def supported_dtype(dtype: np.dtype, what: str, is_table: bool = False) -> np.dtype:
    """Return the dtype that values of a dtype are converted to: float64, unless a layer has it.

    So is uint8 in a table: each column has its own unit, unlike pixels, and needs a weight.
    """
    if dtype.kind not in "biuf":
        raise ValueError(f"{what} has dtype {dtype}; it must be of real numbers.")
    is_converted = dtype not in DTYPES or (is_table and dtype == np.uint8)
    return np.dtype(np.float64) if is_converted else dtype


def check_finite(rows: npt.NDArray[Any], numbers: Any) -> None:
    """Raise ValueError for a NaN or an infinity, with the first row that has one.

    Parameters
    ----------
    rows : ndarray
    numbers : int or ndarray of int
        The number of the first row, or of each.
    """
    if rows.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):
        if np.isfinite(rows.sum()):  # one pass, without a mask of the size of the rows
            return
    is_bad = ~np.isfinite(rows)  # or the sum of finite values overflowed
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        number = numbers + row if np.ndim(numbers) == 0 else numbers[row]
        what = "NaN" if np.isnan(rows[row, column]) else "infinity"
        raise ValueError(
            f"Input X contains {what} in row {number}, column {column}; remove or impute such "
            "values."
        )
