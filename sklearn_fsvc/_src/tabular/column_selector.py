"""ColumnSelector: which columns of a table are numerical, categorical, dates or text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Number
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..data.columns import (
    check_dimensions,
    describe_columns,
    explain_refused_column,
    iterate_columns,
)
from .dates import is_date, resembles_date

# Values by which columns of strings and objects are recognised.
_INSPECTED = 1000
# Dates as text or objects have more distinct values.
_MIN_DATES = 2
# Text has more distinct values, and more words in each on average.
_MIN_TEXTS, _MIN_WORDS = 100, 2.5


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
    """

    kind: str
    categorical_features: Any = "from_dtype"
    min_samples: int = 0

    def __call__(self, X: Any) -> list[int]:
        """Return the positions of the columns; ValueError if a column is of no kind."""
        kinds = column_kinds(X, self.categorical_features)
        if X.shape[0] < self.min_samples:
            return []
        return [j for j, kinds_of_column in enumerate(kinds) if self.kind in kinds_of_column]


def column_kinds(X: Any, features: Any) -> list[set[str]]:
    """Return the kinds of each column of X: text that repeats is categorical, too.

    Raises TypeError for sparse X, and ValueError for columns of no kind.
    """
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
    result: list[set[str]] = []
    columns = zip(iterate_columns(X), names, dtypes, kinds, strict=True)
    for j, (column, name, dtype, kind) in enumerate(columns):
        values = _first_values(column) if kind in ("category", "other") else []
        if named[j]:
            result.append({"categorical"})
        elif kind in ("number", "datetime"):
            result.append({"numerical" if kind == "number" else kind})
        elif _are_dates(values):
            result.append({"datetime"})
        elif from_dtype and kind == "category":
            result.append(_kinds_of_strings(values))
        else:
            raise ValueError(explain_refused_column(name, dtype, features))
    return result


def _are_dates(values):
    return all(map(is_date, values)) and len(set(values)) > _MIN_DATES


def _kinds_of_strings(values):
    n_distinct = len(set(values)) if all(isinstance(value, str) for value in values) else 0
    if n_distinct <= _MIN_TEXTS:
        return {"categorical"}
    if sum(len(value.split()) for value in values) < _MIN_WORDS * len(values):
        return {"categorical"}
    if all(map(resembles_date, values)):  # "31 January 2024": there will be a warning
        return {"categorical"}
    return {"text"} if n_distinct > len(values) / 2 else {"text", "categorical"}


def _first_values(column: Any) -> list[Any]:
    """Return the first values of a column of strings or objects that are not missing."""
    return list(islice(_present(column), _INSPECTED))


def _present(column: Any) -> Iterator[Any]:
    for value in column[: 2 * _INSPECTED]:
        try:
            if value is not None and bool(value == value):
                yield value
        except (TypeError, ValueError):  # pandas.NA is missing; an array is no date and no text
            continue


def check_features(features: Any) -> Any:
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
