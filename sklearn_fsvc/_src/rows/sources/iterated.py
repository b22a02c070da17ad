"""Functions that give all rows, chunk by chunk, each time they are called."""

from bisect import bisect_left
from contextlib import closing

import numpy as np

from ..tiling import check_fits
from .base import ENOUGH, Source
from .chunks import BELONGINGS, Chunk


class Iterated(Source):
    """Rows that a function without arguments gives, again in each pass.

    It returns an iterable of what `Chunk.of` knows; `named` says which columns "y" and
    "sample_weight" are.
    """

    def __init__(self, function, named):
        self._function, self._named = function, named
        self.shape = self.dtype = self._columns = None
        self.read_bytes = 0

    @classmethod
    def open(cls, function, limit, y, sample_weight):
        """The source, y and the weights, after the first pass: see `open_rows`."""
        given = dict(zip(BELONGINGS, (y, sample_weight), strict=True))
        named = {name: value for name, value in given.items() if isinstance(value, str)}
        source = cls(function, named)
        found = source._first_pass(limit)
        for name, value in given.items():
            if value is not None and name not in named and found[name] is not None:
                raise ValueError(
                    f"{name} is given, and the chunks of X hold one too; pass {name}=None, or "
                    "leave it out of the chunks."
                )
        return source, *(
            value if found[name] is None else found[name] for name, value in given.items()
        )

    def _first_pass(self, limit):
        """Look at all chunks: how many rows, of what, and what belongs to them."""
        own, n_rows = {name: [] for name in BELONGINGS}, 0
        for chunk in self._chunks():
            rows = chunk.rows()
            if self.shape is None:
                self.shape, self.dtype, self.names = rows.shape, rows.dtype, chunk.names
                self._columns = chunk.columns
            self._check_like_others(chunk, rows)
            # What was given, its rows in one array, and those of the chunk before.
            self.read_bytes = max(self.read_bytes, 3 * rows.nbytes)
            check_fits(f"a chunk of {len(rows)} rows of X", self.read_bytes, limit)
            for name, parts in own.items():
                _collect(chunk, name, parts)
            n_rows += len(rows)
        if self.shape is None:
            raise ValueError("X() gave no rows.")
        self.shape = n_rows, self.shape[1]
        self.tile_rows = max(1, ENOUGH // max(1, rows[0].nbytes))
        return {name: np.concatenate(parts) if parts else None for name, parts in own.items()}

    def _chunks(self):
        """All chunks that have rows."""
        given, first = self._function(), 0
        if not np.iterable(given):
            raise TypeError(
                f"X() returned a {type(given).__name__}; it must return an iterable of chunks."
            )
        iterator = iter(given)
        try:
            for each in iterator:
                chunk = Chunk.of(each, first, self._named)
                if len(chunk):
                    yield chunk
                first += len(chunk)
        finally:
            if hasattr(iterator, "close"):  # files of generators
                iterator.close()

    def pieces(self, rows):
        done, n_rows = 0, len(self)
        is_to_the_end, end = rows[-1] == n_rows - 1, 0
        with closing(self._chunks()) as chunks:
            for chunk in chunks:
                end = chunk.first + len(chunk)
                stop = bisect_left(rows, end, lo=done)
                if stop > done:
                    piece = chunk.rows()
                    self._check_like_others(chunk, piece)
                    yield chunk.first, piece
                    done = stop
                if done == len(rows) and not is_to_the_end:
                    return
        if end != n_rows:
            raise ValueError(
                f"X() gave {end} rows in this pass, and {n_rows} in the first; it must return a "
                "fresh iterator over the same rows each time it is called."
            )

    def _check_like_others(self, chunk, rows):
        """Raise for a chunk with other features than the first one had."""
        first = chunk.first
        if chunk.columns != self._columns:
            raise ValueError(
                f"The chunk of X that begins at row {first} has the columns {chunk.columns}, and "
                f"the first one {self._columns}; give the same ones in the same order."
            )
        if rows.shape[1] != self.shape[1]:
            raise ValueError(
                f"The chunk of X that begins at row {first} has {rows.shape[1]} features, and the "
                f"first one {self.shape[1]}."
            )
        if rows.dtype != self.dtype:
            raise ValueError(
                f"The chunk of X that begins at row {first} is taken as {rows.dtype}, and the "
                f"first one as {self.dtype}; convert all to one dtype."
            )


def _collect(chunk, name, parts):
    """Add y or the weights of a chunk to those of the chunks before, if they have some."""
    value = chunk.own(name)
    if chunk.first and (value is None) != (not parts):
        raise ValueError(
            f"Some chunks of X have {name}, and others have none: see the one that begins at row "
            f"{chunk.first}."
        )
    if value is not None:
        parts.append(value)
