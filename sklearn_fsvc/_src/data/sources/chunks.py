"""Sources that are functions: each call returns an iterable over all samples, in chunks."""

from bisect import bisect_left
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from ..columns import check_unique, check_unmasked
from ..memory_plan import check_fits, count_fitting
from .base import ENOUGH, Source, check_finite, supported_dtype

# What a chunk may have in addition to X, in the order of its tuple.
_ALIGNED = ("y", "sample_weight")


class Iterated(Source):
    """Samples from a function without arguments, which is called in each pass.

    Parameters
    ----------
    function : callable
        Returns an iterable of chunks, see `Chunk.of`.
    column_names : dict of str to str
        The columns of the chunks that are "y" and "sample_weight", if these are columns.
    """

    def __init__(self, function: Callable[[], Any], column_names: dict[str, str]) -> None:
        self._function, self._column_names = function, column_names
        self.shape = self.dtype = self._columns = None  # type: ignore[assignment]
        self._y: npt.NDArray | None = None  # of the first pass
        self.read_bytes = 0

    @classmethod
    def open(
        cls, function: Callable[[], Any], limit: int, y: Any, sample_weight: Any
    ) -> tuple["Iterated", Any, Any]:
        """Return the source, y and the weights, after the first pass: see `open_source`."""
        given = dict(zip(_ALIGNED, (y, sample_weight), strict=True))
        column_names = {name: value for name, value in given.items() if isinstance(value, str)}
        source = cls(function, column_names)
        read = source._first_pass(limit)
        source._y = read["y"]
        for name, value in given.items():
            if value is not None and name not in column_names and read[name] is not None:
                raise ValueError(
                    f"{name} is given, and the chunks of X contain one, too; pass {name}=None, or "
                    "leave it out of the chunks."
                )
        y, sample_weight = (
            value if read[name] is None else read[name] for name, value in given.items()
        )
        return source, y, sample_weight

    def _first_pass(self, limit: int) -> dict[str, Any]:
        """Read all chunks: set the shape and the dtype, and return y and the weights."""
        aligned: dict[str, list[Any]] = {name: [] for name in _ALIGNED}
        n_rows = 0
        for chunk in self._chunks():
            rows = chunk.rows()
            if self.shape is None:
                self.shape, self.dtype, self.names = rows.shape, rows.dtype, chunk.names
                self._columns = chunk.columns
            self._check_same_features(chunk, rows)
            # The chunk as the function returned it, its rows as an array, and those of the
            # chunk before, which are processed meanwhile.
            self.read_bytes = max(self.read_bytes, 3 * rows.nbytes)
            check_fits(f"a chunk of {len(rows)} rows of X", self.read_bytes, limit)
            for name, parts in aligned.items():
                _append_aligned(chunk, name, parts)
            n_rows += len(rows)
        if self.shape is None:
            raise ValueError("X() gave no rows.")
        self.shape = n_rows, self.shape[1]
        self.tile_rows = max(1, count_fitting(ENOUGH, max(1, rows[0].nbytes)))
        return {name: np.concatenate(parts) if parts else None for name, parts in aligned.items()}

    def _chunks(self) -> Generator["Chunk", None, None]:
        """Yield all chunks that are not empty."""
        iterable, first = self._function(), 0
        if not np.iterable(iterable):
            raise TypeError(
                f"X() returned a {type(iterable).__name__}; it must return an iterable of chunks."
            )
        iterator = iter(iterable)
        try:
            for value in iterator:
                chunk = Chunk.of(value, first, self._column_names)
                if len(chunk):
                    yield chunk
                first += len(chunk)
        finally:
            if hasattr(iterator, "close"):  # a generator, which may hold a file open
                iterator.close()

    def pieces(self, rows: Any) -> Generator[tuple[int, npt.NDArray[Any]], None, None]:
        done, n_rows = 0, len(self)
        # A pass over all rows goes on to the end, so that added rows are detected.
        needs_last_row, end = rows[-1] == n_rows - 1, 0
        with closing(self._chunks()) as chunks:
            for chunk in chunks:
                end = chunk.first + len(chunk)
                stop = bisect_left(rows, end, lo=done)
                if stop > done:
                    piece = chunk.rows()
                    self._check_same_features(chunk, piece)
                    self._check_same_targets(chunk)
                    yield chunk.first, piece
                    done = stop
                if done == len(rows) and not needs_last_row:
                    return
        if end != n_rows:
            raise ValueError(
                f"X() gave {end} rows in this pass, and {n_rows} in the first; it must return a "
                "fresh iterator over the same rows each time it is called."
            )

    def _check_same_targets(self, chunk: "Chunk") -> None:
        """Raise ValueError for a chunk whose y differs from that of the first pass.

        Those targets would be of other samples, as with a function that shuffles in each pass.
        """
        if self._y is None:
            return
        y, end = chunk.aligned("y"), chunk.first + len(chunk)
        if y is None or not np.array_equal(y, self._y[chunk.first : end]):
            raise ValueError(
                f"{_describe(chunk.first)} has another y than in the first pass; X() must return "
                "the same rows in the same order each time it is called: shuffle with a fixed seed."
            )

    def _check_same_features(self, chunk: "Chunk", rows: npt.NDArray[Any]) -> None:
        """Raise ValueError for a chunk with other features than the first one."""
        if chunk.columns != self._columns:
            raise ValueError(
                f"{_describe(chunk.first)} has the columns {chunk.columns}, and the first one "
                f"{self._columns}; pass the same ones in the same order."
            )
        if rows.shape[1] != self.shape[1]:
            raise ValueError(
                f"{_describe(chunk.first)} has {rows.shape[1]} features, and the first one "
                f"{self.shape[1]}."
            )
        if rows.dtype != self.dtype:
            raise ValueError(
                f"{_describe(chunk.first)} is converted to {rows.dtype}, and the first one to "
                f"{self.dtype}; convert all to one dtype."
            )


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive samples, as a function returned them."""

    X: Any  # ndarray, or a table of Arrow, pandas or polars
    first: int  # number of its first row
    columns: list[Any] | None  # the columns of a table that are features; None for an array
    aligned_arrays: dict[str, Any]  # "y" and "sample_weight" of these samples, if it has them

    @classmethod
    def of(cls, value: Any, first: int, column_names: dict[str, str]) -> "Chunk":
        """Return the chunk of ``X``, ``(X, y)``, ``(X, y, sample_weight)`` or a table.

        `column_names` are the columns that are "y" and "sample_weight", if these are columns.
        """
        parts = value if isinstance(value, tuple) else (value,)
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                f"{_describe(first)} is a tuple of {len(parts)}; pass X, (X, y) or (X, y, weight)."
            )
        X, *others = parts
        _check_container(X, first)
        columns = _column_names(X)
        check_unique(_describe(first), columns or ())
        aligned_arrays = dict(zip(_ALIGNED, others, strict=False))
        check_unmasked(X=X, **aligned_arrays)
        if column_names:
            _check_columns(column_names, None if others else columns, first)
            aligned_arrays = {name: X[column] for name, column in column_names.items()}
            columns = [column for column in columns or () if column not in column_names.values()]
        elif columns is None:
            X = np.asarray(X)
            if X.ndim != 2:
                raise ValueError(
                    f"{_describe(first)} has shape {X.shape}, and must have two dimensions; pass "
                    "X, (X, y), (X, y, weight), or a table."
                )
        return cls(X, first, columns, aligned_arrays)

    def __len__(self) -> int:
        return len(self.X)

    def aligned(self, name: str) -> npt.NDArray[Any] | None:
        """Return a copy of y or of the weights, None if the chunk has none."""
        if self.aligned_arrays.get(name) is None:
            return None
        value = np.array(self.aligned_arrays[name])
        if value.shape[:1] != (len(self),):
            raise ValueError(
                f"{_describe(self.first)} has {len(self)} rows, and its {name} has shape "
                f"{value.shape}."
            )
        return value

    @property
    def names(self) -> Any:
        """Return an empty table with the names of the features, None for an array."""
        if self.columns is None:
            return None
        if hasattr(self.X, "schema") and hasattr(self.X.schema, "empty_table"):  # Arrow
            return self.X.schema.empty_table().select(self.columns)
        return self.X[self.columns][:0]

    def rows(self) -> npt.NDArray[Any]:
        """Return the features as one finite array of float32, float64 or uint8."""
        if self.columns is None:
            # A copy: a generator may reuse the memory for the next chunk, which is prefetched.
            rows = self.X.astype(supported_dtype(self.X.dtype, _describe(self.first)))
        else:
            columns = [np.asarray(self.X[name]) for name in self.columns]
            for name, column in zip(self.columns, columns, strict=True):
                supported_dtype(column.dtype, f"{_describe(self.first)}: column {name!r}")
            common = np.result_type(*columns) if columns else np.dtype(np.float64)
            dtype = supported_dtype(common, "X", is_table=True)
            rows = np.empty((len(self), len(columns)), dtype)
            for j, column in enumerate(columns):
                rows[:, j] = column
        check_finite(rows, self.first)
        return rows


def _check_container(X: Any, first: int) -> None:
    """Raise for the X of a chunk that is a list of arrays, or sparse."""
    if isinstance(X, list) and X and getattr(X[0], "ndim", 1) > 1:
        raise ValueError(
            f"{_describe(first)} is a list of arrays; pass a tuple, (X, y) or (X, y, weight)."
        )
    if issparse(X):
        raise TypeError(
            f"{_describe(first)} is sparse; pass chunk.toarray(), or all rows as one sparse matrix."
        )


def _describe(first: int) -> str:
    return f"The chunk of X that begins at row {first}"


def _column_names(X: Any) -> list[Any] | None:
    """Return the names of the columns of a table, None for anything else."""
    if not hasattr(X, "columns"):
        return None
    return list(X.schema.names if hasattr(X, "num_columns") else X.columns)


def _check_columns(column_names: dict[str, str], columns: list[Any] | None, first: int) -> None:
    """Raise if y or weights are no columns of a chunk; `columns` is None if it is no table."""
    for name, column in column_names.items():
        if columns is None:
            raise ValueError(
                f"{_describe(first)} is not a table, but {name}={column!r} names a column; "
                f"pass chunks (X, y, weight), or {name} of all rows."
            )
        if column not in columns:
            raise ValueError(
                f"{_describe(first)} has no column {name}={column!r}; its columns are {columns!r}."
            )


def _append_aligned(chunk: Chunk, name: str, parts: list[Any]) -> None:
    """Append y or the weights of a chunk to those of the chunks before, if they have some."""
    value = chunk.aligned(name)
    if chunk.first and (value is None) != (not parts):
        raise ValueError(
            f"Some chunks of X have {name}, and others have none: see the one that begins at row "
            f"{chunk.first}."
        )
    if value is None:
        return
    first = parts[0] if parts else value
    # NumPy would turn numbers into text.
    kinds = {value.dtype.kind, first.dtype.kind}
    is_mixed = bool(kinds & set("STU") and kinds & set("biuf"))
    if is_mixed or value.shape[1:] != first.shape[1:]:
        raise ValueError(
            f"{_describe(chunk.first)} has a {name} of shape {value.shape} and dtype "
            f"{value.dtype}, and the first one of {first.shape} and {first.dtype}; pass the same "
            "number of columns in all chunks, and either text or numbers."
        )
    parts.append(value)
