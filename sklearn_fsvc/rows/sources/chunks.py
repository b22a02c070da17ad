"""One chunk of rows, as a function gives it: arrays or a table, and what belongs to the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import as_taken, check_finite


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows.

    Parameters
    ----------
    X : ndarray, or a table of Arrow, pandas or polars
    first : int
        Number of its first row.
    columns : list or None
        Those of the table that are features; None of an array.
    y, weight : ndarray or None
        Of these rows.
    """

    X: Any
    first: int
    columns: list | None = None
    y: np.ndarray | None = None
    weight: np.ndarray | None = None

    @classmethod
    def of(cls, given, first, named):
        """What a function gave: ``X``, ``(X, y)``, ``(X, y, weight)`` or a table.

        Parameters
        ----------
        given : object
        first : int
        named : dict
            "y" and "sample_weight" -> their column, where they have one.
        """
        parts = given if isinstance(given, tuple) else (given,)
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                f"{_at(first)} is a tuple of {len(parts)}; give X, (X, y) or (X, y, weight)."
            )
        X, *more = parts
        y, weight = ([None if part is None else np.array(part) for part in more] + [None] * 2)[:2]
        columns = _columns(X)
        if named and (more or columns is None):
            name, column = next(iter(named.items()))
            raise ValueError(
                f"{_at(first)} is no table, and {name}={column!r} would be the name of a column; "
                f"give chunks (X, y, weight), or {name} of all rows."
            )
        for name, column in named.items():
            if column not in columns:
                raise ValueError(
                    f"{_at(first)} has no column {name}={column!r}; its columns are {columns!r}."
                )
        if named:
            y, weight = (
                np.array(X[named[name]]) if name in named else None
                for name in ("y", "sample_weight")
            )
            columns = [name for name in columns if name not in named.values()]
        chunk = cls(np.asarray(X) if columns is None else X, first, columns, y, weight)
        chunk._check()
        return chunk

    def __len__(self):
        return len(self.X)

    def _check(self):
        shape = self.X.shape if self.columns is None else (len(self.X), len(self.columns))
        if len(shape) != 2:
            raise ValueError(
                f"{_at(self.first)} has shape {shape}, and rows have two dimensions; give X, "
                "(X, y), (X, y, weight), or a table."
            )
        for name, value in (("y", self.y), ("sample_weight", self.weight)):
            if value is not None and value.shape[:1] != shape[:1]:
                raise ValueError(
                    f"{_at(self.first)} has {shape[0]} rows, and its {name} has shape "
                    f"{value.shape}."
                )

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
            dtype = as_taken(np.result_type(*columns), "X")
            rows = np.empty((len(self), len(columns)), dtype)
            for j, column in enumerate(columns):
                rows[:, j] = column
        check_finite(rows, self.first)
        return rows


def _at(first):
    return f"The chunk of X that begins at row {first}"


def _columns(X):
    """Names of the columns of a table, None of anything else."""
    if not hasattr(X, "columns"):
        return None
    return list(X.schema.names if hasattr(X, "num_columns") else X.columns)
