"""What the columns of a table hold, by their dtypes, and what to do where that is no use."""

from collections.abc import Iterable
from numbers import Number

import numpy as np

# Integers up to this size are all float64, too.
_EXACT = 2**53


def why_refused(name, dtype, features):
    """What to do with a column that holds neither numbers nor categories."""
    return _why_time(name, dtype) or (
        f"Column {name!r} of X ({dtype}) does not hold numbers, and "
        f"categorical_features={features!r} does not make it a category. Name it there, turn it "
        "into numbers, or leave it out."
    )


def _why_time(name, dtype):
    """What to do with a column of dates or times; None for others."""
    column = f"Column {name!r} of X ({dtype})"
    kind = getattr(dtype, "kind", str(dtype).partition("(")[0])  # of polars a word
    if kind in ("M", "Date", "Datetime"):
        return (
            f"{column} holds dates. Put numbers in its place that matter to y, such as the year, "
            "the day of the year, the weekday and the hour: in pandas "
            f"X[{name!r}].dt.year, .dt.day_of_year, .dt.day_of_week, .dt.hour."
        )
    if kind in ("m", "Duration"):
        return f"{column} holds times; put their seconds in its place: .dt.total_seconds()."
    return None


def explain_dates(X):
    """What to do with the first column of dates or times of a table; None where there is none."""
    pairs = zip(X.columns, X.dtypes, strict=True) if _is_frame(X) else ()
    return next(filter(None, (_why_time(name, dtype) for name, dtype in pairs)), None)


def why_missing(y):
    """What to do with a y of which some is missing; None where nothing is."""
    rows = np.asarray(y, dtype=object)
    if not rows.ndim:  # a sparse matrix, or no array at all
        return None
    found = [row for row, own in enumerate(rows) if any(map(_is_missing, np.ravel(own)))]
    if not found:
        return None
    return (
        f"Input y contains NaN or None in {len(found)} of {len(rows)} rows, row {found[0]} first. "
        "What a row without y is cannot be learned: leave such rows out of X and y."
    )


def why_infinite(X):
    """What to do with the infinite numbers of a table; None where there are none."""
    cells, infinities = getattr(X, "iloc", X), (float("inf"), -float("inf"))
    for j, name in enumerate(described(X)[0]):
        column = list(cells[:, j])
        rows = [i for i, v in enumerate(column) if isinstance(v, Number) and v in infinities]
        if rows:
            return (
                f"Column {name!r} of X holds infinity in {len(rows)} of {len(column)} rows, row "
                f"{rows[0]} first; make it missing (numpy.nan), or put a number in its place."
            )
    return None


def why_no_table(X):
    """What to do with rows in a container that is neither a table nor an array; else None."""
    library, first = type(X).__module__.partition(".")[0], next(iter(X), None) if _is_list(X) else X
    if isinstance(first, dict) or getattr(getattr(X, "dtype", None), "names", None):
        remedy = "pandas.DataFrame(X)"
    elif library == "polars" and hasattr(X, "collect"):
        remedy = "X.collect()"
    elif library == "pyarrow" and hasattr(X, "to_pandas"):
        remedy = "X.to_pandas()"
    elif library == "pyarrow" and hasattr(X, "read_pandas"):
        remedy = "X.read_pandas()"
    else:
        return None
    of_what = " of dictionaries" if first is not X else ""
    return (
        f"X is a {type(X).__name__}{of_what}, and not a table with rows and columns of numbers "
        f"and categories; give {remedy}."
    )


def _is_list(X):
    return isinstance(X, (list, tuple))


def _is_frame(X):
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def why_no_levels(X, columns):
    """What is wrong with the first of these columns whose values are no levels, None if none is.

    Levels are of one type, which has an order, and hold nothing themselves.
    """
    cells, names = getattr(X, "iloc", X), described(X)[0] if columns else []
    for j in columns:
        values = [value for value in cells[:, j] if not _is_missing(value)]
        kinds = sorted({_kind_of(value) for value in values})
        if len(kinds) > 1:
            return (
                f"Column {names[j]!r} of X holds values of several types, {' and '.join(kinds)}, "
                "and has to hold one: make text of all with astype(str), or numbers with "
                "pandas.to_numeric(..., errors='coerce'), where text becomes missing."
            )
        if any(map(is_nested, values)) or not _have_order(values):
            return (
                f"Column {names[j]!r} of X holds objects of type {kinds[0]}, which are no "
                "categories; make text or numbers of them, or leave the column out."
            )
    return None


def is_nested(value):
    """Whether a value holds others: a list, an array or a table in a cell."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def _have_order(values):
    try:
        sorted(values)
    except (TypeError, ValueError, ArithmeticError):
        return False
    return True


def _kind_of(value):
    is_real = isinstance(value, Number) and not isinstance(value, (complex, np.complexfloating))
    return "number" if is_real else type(value).__name__


def rounded(X, columns):
    """Names of columns of integers so large that some which differ are the same float64."""
    names, dtypes, _ = described(X)
    return [names[j] for j in columns if "int64" in str(dtypes[j]).lower() and _are_rounded(X, j)]


def _are_rounded(X, j):
    if hasattr(X, "columns"):
        column = X.iloc[:, j].dropna() if hasattr(X, "iloc") else X[:, j].drop_nulls()
        values = column.to_numpy()
    else:
        values = X[:, j]
    if not len(values) or max(int(values.max()), -int(values.min())) <= _EXACT:
        return False
    return len(np.unique(values)) > len(np.unique(values.astype(np.float64)))


def _is_missing(value):
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA says neither yes nor no
        return True
    except ValueError:  # arrays say it of each of their values
        return False


def described(X):
    """Name, dtype and kind of each column of a DataFrame or an array."""
    if hasattr(X, "columns"):
        dtypes = list(X.dtypes)
        return list(X.columns), dtypes, [_kind(dtype) for dtype in dtypes]
    n_columns = X.shape[1]
    if X.dtype.kind in "OU":  # one string makes strings or objects of all columns
        kinds = ["number" if _are_numbers(column) else "other" for column in X.T]
    else:
        kinds = [_kind(X.dtype)] * n_columns
    return list(range(n_columns)), [X.dtype] * n_columns, kinds


def _kind(dtype):
    """Whether a dtype of NumPy, pandas or polars is a "number", a "category" or "other"."""
    if hasattr(dtype, "is_numeric"):  # of polars
        other = dtype.is_temporal() or dtype.is_nested()
        return "number" if dtype.is_numeric() else "other" if other else "category"
    if dtype.kind in "iuf":
        return "number"
    return "category" if dtype.kind in "ObU" else "other"


def _are_numbers(values):
    try:
        np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
