"""ColumnSelector: which columns of a table are numerical, categorical, dates or text."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from math import gcd
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from ..data.columns import (
    check_dimensions,
    describe_columns,
    explain_refused_column,
    is_missing,
    iterate_columns,
)
from .dates import are_dates, resembles_date
from .text import has_several_words

# Values by which columns of strings and objects are recognised.
_INSPECTED = 1000
# Dates as text have more distinct values.
_MIN_DATES = 2
# Text has more distinct values.
_MIN_TEXTS = 100
_GOLDEN_RATIO = (5**0.5 - 1) / 2
# (X, categorical features, kinds) that were computed within `kinds_computed_once`.
_known_kinds: ContextVar[list[tuple[Any, Any, list[set[str]]]] | None] = ContextVar(
    "_known_kinds", default=None
)


@dataclass(frozen=True)
class ColumnSelector:
    """Selects the columns of a table that are of one kind, for a ColumnTransformer.

    Parameters
    ----------
    kind : {"numerical", "categorical", "datetime", "text"}
    categorical_features : "from_dtype", None or list
        As for `make_tabular_pipeline`.
    min_samples : int, default=0
        No columns of a table with fewer rows are selected.
    skip_empty : bool, default=False
        No columns of which all values are missing are selected.
    """

    kind: str
    categorical_features: Any = "from_dtype"
    min_samples: int = 0
    skip_empty: bool = False

    def __call__(self, X: Any) -> list[int]:
        """Return the positions of the columns; ValueError if a column is of no kind."""
        kinds = column_kinds(X, self.categorical_features)
        if X.shape[0] < self.min_samples:
            return []
        selected = [j for j, kinds_of_column in enumerate(kinds) if self.kind in kinds_of_column]
        if self.skip_empty and selected:
            columns = list(iterate_columns(X))
            selected = [j for j in selected if _has_values(columns[j])]
        return selected


@contextmanager
def kinds_computed_once() -> Iterator[None]:
    """Compute the kinds of a table once, for all selectors; it must not be modified meanwhile."""
    token = _known_kinds.set([])
    try:
        yield
    finally:
        _known_kinds.reset(token)


def column_kinds(X: Any, features: Any) -> list[set[str]]:
    """Return the kinds of each column of X: text that repeats is categorical, too.

    Raises TypeError for sparse X, and ValueError for columns of no kind.
    """
    known = _known_kinds.get()
    if known is None:
        return _compute_kinds(X, features)
    for table, its_features, kinds in known:
        if table is X and its_features == features:
            return kinds
    known.append((X, features, _compute_kinds(X, features)))
    return known[-1][-1]


def _compute_kinds(X, features):
    if issparse(X):
        raise TypeError(
            "X is sparse, and its preprocessing would be dense. Use TanhClassifier or "
            "TanhRegressor without the pipeline, or TruncatedSVD(100) of scikit-learn before a "
            "network; or X.toarray() if it fits in memory."
        )
    check_dimensions(X)
    names, dtypes, kinds = describe_columns(X)
    from_dtype = isinstance(features, str) and features == "from_dtype"
    named = np.zeros(len(names), bool) if from_dtype else _mask(features or [], names)
    result = []
    columns = zip(iterate_columns(X), names, dtypes, kinds, named, strict=True)
    for column, name, dtype, kind, is_named in columns:
        kinds_of_column = {"categorical"} if is_named else _kinds_of(column, kind, from_dtype)
        if not kinds_of_column:
            raise ValueError(explain_refused_column(name, dtype, features))
        result.append(kinds_of_column)
    return result


def _kinds_of(column, kind, from_dtype):
    """Return the kinds of a column that is not named as categorical; empty if it is of none."""
    if kind in ("number", "datetime"):
        return {"numerical" if kind == "number" else kind}
    values = _some_values(column)
    if _are_dates(values):
        return {"datetime"}
    if _are_decimals(values):
        return {"numerical"}
    return _kinds_of_strings(values) if from_dtype and kind == "category" else set()


def _are_dates(values):
    if not (values and are_dates(values)):  # of texts that are not dates, there will be an error
        return False
    return len(set(values)) > _MIN_DATES or not any(isinstance(value, str) for value in values)


def _are_decimals(values):
    """Return whether values are decimals, perhaps with other numbers among them."""
    return any(isinstance(value, Decimal) for value in values) and all(
        isinstance(value, Number) and not isinstance(value, bool) for value in values
    )


def _kinds_of_strings(values):
    n_distinct = len(set(values)) if all(isinstance(value, str) for value in values) else 0
    if n_distinct <= _MIN_TEXTS or not has_several_words(values):
        return {"categorical"}
    if are_dates(values, resembles_date):  # "31 January 2024": there will be a warning
        return {"categorical"}
    return {"text"} if n_distinct > len(values) / 2 else {"text", "categorical"}


def _some_values(column: Any) -> list[Any]:
    """Return up to 1000 values of a column of strings or objects that are not missing.

    They are from all parts of it: its first values may be alike, or all be missing.
    """
    cells = getattr(column, "iloc", column)
    values = chain.from_iterable(_present(cells[rows]) for rows in _spread_rows(len(column)))
    return list(islice(values, _INSPECTED))


def _present(column: Any) -> Iterator[Any]:
    """Return the values that are not missing; pandas and polars drop most others, in C."""
    drop = getattr(column, "dropna", getattr(column, "drop_nulls", lambda: column))
    return (value for value in drop() if not is_missing(value))


def _has_values(column):
    return any(True for _ in _present(column))


def _spread_rows(n_rows: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield all rows in blocks of growing size, each spread evenly over the table.

    Multiples of the golden ratio, modulo 1, are: rows at equal distances could all be Mondays.
    """
    step = max(1, round(_GOLDEN_RATIO * n_rows))
    while gcd(step, n_rows) > 1:
        step += 1
    start, stop = 0, _INSPECTED
    while start < n_rows:
        yield np.arange(start, min(stop, n_rows), dtype=np.int64) * step % n_rows
        start, stop = stop, 2 * stop


def check_categorical_features(features: Any) -> Any:
    """Return `categorical_features` as a list, None or "from_dtype"; TypeError for others."""
    if features is None or (isinstance(features, str) and features == "from_dtype"):
        return features
    if np.ndim(_without_tuples(features)) != 1:
        raise TypeError(
            f'categorical_features={features!r} must be "from_dtype", None, or a list of names, '
            "of positions, or of True and False."
        )
    return list(features)


def _mask(features, names):
    """Return a boolean mask of the columns in `features`: names, positions, or a mask."""
    n_columns, kind = len(names), _kind(features)
    if kind == "b":
        if len(features) != n_columns:
            raise ValueError(
                f"categorical_features has {len(features)} values True or False, and X has "
                f"{n_columns} columns; pass one for each."
            )
        return np.array(features)
    by_position = kind in "iu"
    if by_position and _are_other_numbers(names):
        raise ValueError(
            f"categorical_features={features!r} contains integers, which are positions, and the "
            f"columns of X are named by other numbers, {names!r}; pass a mask of True and False, "
            "or rename the columns, X.rename(columns=str), and pass their names."
        )
    known = range(-n_columns, n_columns) if by_position else names
    unknown = [feature for feature in features if feature not in known]
    if unknown:
        raise ValueError(
            f"categorical_features={features!r} contains {unknown!r}; the columns of X are "
            f"{names!r}."
        )
    mask = np.zeros(n_columns, dtype=bool)
    mask[features if by_position else [names.index(f) for f in features]] = True
    return mask


def _kind(features):
    """Return the NumPy kind of the dtype of names, positions or a mask; tuples are names."""
    has_tuples = len(_without_tuples(features)) < len(features)
    return "O" if has_tuples else np.asarray(features).dtype.kind


def _without_tuples(features):
    """Return a list without its tuples, which are names of a MultiIndex, anything else as it is."""
    if not isinstance(features, Sequence) or isinstance(features, str):
        return features
    return [feature for feature in features if not isinstance(feature, tuple)]


def _are_other_numbers(names):
    """Return whether names of columns are numbers, and not their positions."""
    are_numbers = any(isinstance(name, Number) for name in names)
    return are_numbers and names != list(range(len(names)))
