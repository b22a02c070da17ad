"""Functions that give all rows, chunk by chunk, each time they are called."""

from bisect import bisect_left
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..tiling import check_fits
from .base import ENOUGH, Source, as_taken, check_finite

# One chunk of rows, as a function gives it: arrays or a table, and what belongs to the rows.

# What may come along with rows, in the order in which tuples hold it.
BELONGINGS = ("y", "sample_weight")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows."""

    X: Any  # ndarray, or a table of Arrow, pandas or polars
    first: int  # number of its first row
    columns: list | None  # those of the table that are features; None of an array
    aligned_arrays: dict  # "y" and "sample_weight" -> those of these rows, where they came along

    @classmethod
    def of(cls, given, first, named):
        """Take what a function gave: ``X``, ``(X, y)``, ``(X, y, weight)`` or a table.

        `named` says which columns "y" and "sample_weight" are, where they are columns.
        """
        parts = given if isinstance(given, tuple) else (given,)
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                f"{_at(first)} is a tuple of {len(parts)}; give X, (X, y) or (X, y, weight)."
            )
        X, *more = parts
        if issparse(X):
            raise TypeError(
                f"{_at(first)} is sparse; give chunk.toarray(), or all rows as one sparse matrix."
            )
        columns = _columns(X)
        aligned_arrays = dict(zip(BELONGINGS, more, strict=False))
        if named:
            _check_named(named, None if more else columns, first)
            aligned_arrays = {name: X[column] for name, column in named.items()}
            columns = [column for column in columns if column not in named.values()]
        elif columns is None:
            X = np.asarray(X)
            if X.ndim != 2:
                raise ValueError(
                    f"{_at(first)} has shape {X.shape}, and rows have two dimensions; give X, "
                    "(X, y), (X, y, weight), or a table."
                )
        return cls(X, first, columns, aligned_arrays)

    def __len__(self):
        return len(self.X)

    def own(self, name):
        """y or the weights of these rows, a new array; None where they did not come along."""
        if self.aligned_arrays.get(name) is None:
            return None
        value = np.array(self.aligned_arrays[name])
        if value.shape[:1] != (len(self),):
            raise ValueError(
                f"{_at(self.first)} has {len(self)} rows, and its {name} has shape {value.shape}."
            )
        return value

    @property
    def names(self):
        """An empty table with the names of the features, None of an array."""
        if self.columns is None:
            return None
        if hasattr(self.X, "schema") and hasattr(self.X.schema, "empty_table"):  # of Arrow
            return self.X.schema.empty_table().select(self.columns)
        return self.X[self.columns][:0]

    def rows(self):
        """The features as one finite array, float32, float64 or uint8 as of arrays."""
        if self.columns is None:
            # A copy: the next chunk may be in the same memory, and is read meanwhile.
            rows = self.X.astype(as_taken(self.X.dtype, _at(self.first)))
        else:
            columns = [np.asarray(self.X[name]) for name in self.columns]
            for name, column in zip(self.columns, columns, strict=True):
                as_taken(column.dtype, f"{_at(self.first)}: column {name!r}")
            dtype = as_taken(np.result_type(*columns or [float]), "X")
            rows = np.empty((len(self), len(columns)), dtype)
            for j, column in enumerate(columns):
                rows[:, j] = column
        check_finite(rows, self.first)
        return rows


def _at(first):
    return f"The chunk of X that begins at row {first}"


def _check_named(named, columns, first):
    """Raise if y or weights are no columns of a chunk; `columns` is None if it is no table."""
    for name, column in named.items():
        if columns is None:
            raise ValueError(
                f"{_at(first)} is no table, and {name}={column!r} would be the name of a column; "
                f"give chunks (X, y, weight), or {name} of all rows."
            )
        if column not in columns:
            raise ValueError(
                f"{_at(first)} has no column {name}={column!r}; its columns are {columns!r}."
            )


def _columns(X):
    """Names of the columns of a table, None of anything else."""
    if not hasattr(X, "columns"):
        return None
    return list(X.schema.names if hasattr(X, "num_columns") else X.columns)


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
