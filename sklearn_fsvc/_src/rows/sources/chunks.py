"""One chunk of rows, as a function gives it: arrays or a table, and what belongs to the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .base import as_taken, check_finite

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
