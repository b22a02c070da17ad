"""Columns of DataFrames and arrays: their kinds, and error messages with a remedy.

The functions `explain_...` return the message for invalid input, None for valid input. They are
called after scikit-learn has raised an error, so that valid input costs nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from itertools import chain, count
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import is_classifier

# float64 represents every integer up to this magnitude.
_MAX_EXACT = 2**53
# Parameters with a value for each sample.
_OF_SAMPLES = {"y", "sample_weight", "groups", "y_val", "sample_weight_val"}


class InvalidColumn(ValueError):
    """Error of the transformer of columns of a kind: the position among them, and what is wrong.

    The kind is "datetime" or "text".
    """

    def __init__(self, position: int, problem: str, kind: str = "datetime"):
        super().__init__(position, problem, kind)

    def __str__(self) -> str:
        return "Column {} of X {}".format(*self.args)


def check_unmasked(**arrays: Any) -> None:
    """Raise ValueError for a masked array with masked values, which NumPy would pass on as valid.

    The keywords are the names of the parameters.
    """
    for name, array in arrays.items():
        if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
            raise ValueError(
                f"{name} is a masked array, of which {np.ma.count_masked(array)} of {array.size} "
                f"values are masked; {_remedy_for_masked(name)}."
            )


def _remedy_for_masked(name):
    if name.startswith("X"):
        return (
            "leave out these rows, or pass X.filled(numpy.nan) to make_tabular_pipeline, which "
            "supports missing values"
        )
    if name in _OF_SAMPLES:
        return f"leave out these samples, or replace the values with {name}.filled(...)"
    return f"replace these values with {name}.filled(...)"


def check_dimensions(X: Any) -> None:
    """Raise ValueError for a table without two dimensions."""
    if len(X.shape) != 2:
        raise ValueError(f"X has shape {X.shape}, and must have two dimensions; reshape it.")


def check_no_name(X: Any, **arrays: Any) -> None:
    """Raise ValueError if the name of a column is given in place of an array."""
    for name, value in arrays.items():
        if not isinstance(value, str):
            continue
        if hasattr(X, "columns"):
            raise ValueError(
                f"{name}={value!r} names a column, which is for functions that return chunks; pass "
                f"X[{value!r}] as {name}, and X without that column."
            )
        raise ValueError(
            f"{name}={value!r} would be the name of a column, and {type(X).__name__} has none; "
            f"pass {name} of all rows."
        )


def check_unique_names(X: Any) -> None:
    """Raise ValueError for a DataFrame with several columns of the same name."""
    # A LazyFrame of polars has no shape, and is refused later; its names would take a computation.
    if hasattr(X, "shape"):
        check_unique("X", getattr(X, "columns", ()))


def check_unique(table: str, names: Iterable[Any]) -> None:
    """Raise ValueError if several columns of a table have the same name."""
    if repeated := [name for name, number in Counter(names).items() if number > 1]:
        raise ValueError(
            f"{table} has several columns of the same name: {repeated!r}. Rename them, or keep the "
            "first of each: X.loc[:, ~X.columns.duplicated()]."
        )


def different_names(estimator: Any, other: Any) -> tuple[int, str, str] | None:
    """Return the first feature with another name in `other`: its index and both names.

    None if there is none, or if an estimator was fitted without names.
    """
    both = [getattr(each, "feature_names_in_", ()) for each in (estimator, other)]
    pairs = enumerate(zip(*both, strict=False))
    return next(((j, one, two) for j, (one, two) in pairs if one != two), None)


def describe_columns(X: Any) -> tuple[list[Any], list[Any], list[str]]:
    """Return the name, dtype and kind of each column of a DataFrame or an array.

    Kinds are "number", "category", "datetime" (dates, times and durations) and "other".
    """
    if hasattr(X, "columns"):
        dtypes = list(X.dtypes)
        return list(X.columns), dtypes, [_kind_of_dtype(dtype) for dtype in dtypes]
    n_columns = X.shape[1]
    if X.dtype.kind in "OU":  # one string in a list makes all columns strings or objects
        kinds = ["number" if are_numbers(column) else "other" for column in X.T]
    else:
        kinds = [_kind_of_dtype(X.dtype)] * n_columns
    return list(range(n_columns)), [X.dtype] * n_columns, kinds


def temporal_columns(X: Any) -> list[int]:
    """Return the positions of columns whose dtype is of dates, times or durations."""
    if not hasattr(X, "columns"):
        return list(range(X.shape[1])) if X.dtype.kind in "mM" else []
    return [j for j, dtype in enumerate(X.dtypes) if _kind_of_dtype(dtype) == "datetime"]


def iterate_columns(X: Any) -> Iterator[Any]:
    """Yield the columns of a DataFrame or an array."""
    cells = getattr(X, "iloc", X)
    return (cells[:, j] for j in range(X.shape[1]))


def input_names(transformer: Any, input_features: Any) -> Sequence[Any]:
    """Return the names of the features that a fitted transformer takes.

    They are those of `fit`, else `input_features`, else x0, x1, ...
    """
    names = getattr(transformer, "feature_names_in_", input_features)
    return [f"x{j}" for j in range(transformer.n_features_in_)] if names is None else names


def unique_names(names: Iterable[str]) -> npt.NDArray[np.object_]:
    """Return names of features, of which repeated ones get a suffix: "a_nan", then "a_nan_2"."""
    result: dict[str, None] = {}  # in order
    for name in names:
        candidates = chain([name], (f"{name}_{k}" for k in count(2)))
        result[next(each for each in candidates if each not in result)] = None
    return np.array(list(result), dtype=object)


def _kind_of_dtype(dtype: Any) -> str:
    """Return the kind of a dtype of NumPy, pandas or polars."""
    if hasattr(dtype, "is_numeric"):  # polars
        if dtype.is_numeric():
            return "number"
        if dtype.is_temporal():
            return "datetime"
        return "other" if dtype.is_nested() else "category"
    if dtype.kind in "iuf" or str(dtype).startswith("decimal"):  # decimals of pyarrow
        return "number"
    if hasattr(dtype, "freq"):  # periods of pandas
        return "datetime"
    return "datetime" if dtype.kind in "mM" else "category" if dtype.kind in "ObU" else "other"


def as_numbers(column: Any) -> npt.NDArray[np.float64]:
    """Return the values of a column as floats, of which missing ones are NaN.

    TypeError, ValueError or OverflowError for others than numbers and texts of numbers.
    """
    values: Any = np.asarray(column, dtype=object)
    # By the types, which are few: a column may have many values.
    if not all(map(_is_type_of_numbers, set(map(type, values)))):
        values = [np.nan if is_missing(value) else value for value in values]
        if not all(_is_type_of_numbers(type(value)) for value in values):
            raise TypeError("A column holds values that are not numbers.")
    return np.array(values, dtype=np.float64)


def _is_type_of_numbers(kind):
    """Return whether values of a type may be numbers; those of pandas.NA and nested ones are not.

    NumPy would convert dates and durations to numbers in their unit.
    """
    has_floats = hasattr(kind, "__float__") or hasattr(kind, "__index__")
    if issubclass(kind, (np.datetime64, np.timedelta64)) or issubclass(kind, Iterable):
        return issubclass(kind, (str, bytes))
    return has_floats or kind is type(None)


def are_numbers(values: Any) -> bool:
    """Return whether `as_numbers` converts the values of a column."""
    try:
        as_numbers(values)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def rounded(X: Any, columns: Iterable[int]) -> list[Any]:
    """Return the names of integer columns whose distinct values collide in float64."""
    names, dtypes, _ = describe_columns(X)
    dtypes = [str(dtype).lower() for dtype in dtypes]
    # Columns of dtype object may contain integers of Python.
    may_be_rounded = ["int64" in dtype or dtype == "object" for dtype in dtypes]
    return [names[j] for j in columns if may_be_rounded[j] and _is_rounded(X, j)]


def check_labels_are_exact(model: Any, y: Any) -> None:
    """Raise ValueError if labels in columns of a pandas DataFrame would be equal as floats.

    Those of integers and floats, or of int64 and uint64, become one array of float64.
    """
    if not (is_classifier(model) and hasattr(y, "iloc") and hasattr(y, "columns")):
        return
    dtypes = list(y.dtypes)
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "iufb" for dtype in dtypes):
        return
    if dtypes and np.result_type(*dtypes).kind == "f" and (names := rounded(y, range(len(dtypes)))):
        raise ValueError(
            f"The columns of y have the dtypes {sorted(map(str, set(dtypes)))}, which NumPy "
            f"converts to float64, where different labels of {names} are equal; convert all "
            "columns to the same dtype, or to str."
        )


def _is_rounded(X: Any, j: int) -> bool:
    if hasattr(X, "columns"):
        column = X.iloc[:, j].dropna() if hasattr(X, "iloc") else X[:, j].drop_nulls()
        values = column.to_numpy()
    else:
        values = X[:, j]
    if values.dtype == object:
        integers = [int(value) for value in values if isinstance(value, Integral)]
        return len(set(integers)) > len(set(map(float, integers)))
    if not len(values) or max(int(values.max()), -int(values.min())) <= _MAX_EXACT:
        return False
    return len(np.unique(values)) > len(np.unique(values.astype(np.float64)))


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # the truth value of pandas.NA is undefined
        return True
    except ValueError:  # an array, which is compared elementwise
        return False


def as_python(value: Any) -> Any:
    """Return a scalar of NumPy as one of Python, which is shorter in messages."""
    return value.item() if isinstance(value, np.generic) else value


def is_nested(value: Any) -> bool:
    """Return whether a value contains others: a list, an array or a table in a cell."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def explain_refused_column(name: Any, dtype: Any, features: Any) -> str:
    """Return the message for a column that is neither numerical nor categorical."""
    return (
        f"Column {name!r} of X ({dtype}) does not hold numbers, and "
        f"categorical_features={features!r} does not make it a category. Name it there, convert "
        "it to numbers, or leave it out."
    )


def explain_dates(X: Any) -> str | None:
    """Return the message for the first column of dates or durations of a DataFrame."""
    is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
    columns = zip(X.columns, X.dtypes, strict=True) if is_frame else ()
    return next(filter(None, (_explain_temporal(name, dtype) for name, dtype in columns)), None)


def _explain_temporal(name: Any, dtype: Any) -> str | None:
    column = f"Column {name!r} of X ({dtype})"
    kind = getattr(dtype, "kind", str(dtype).partition("(")[0])  # polars has a name, no kind
    if kind in ("M", "Date", "Datetime", "Time") or hasattr(dtype, "freq"):
        return (
            f"{column} holds dates, and a network takes numbers; put it behind "
            "make_tabular_pipeline, which derives numbers from dates."
        )
    if kind in ("m", "Duration"):
        return f"{column} holds durations; replace it by seconds: .dt.total_seconds()."
    return None


def explain_missing_targets(y: Any) -> str | None:
    """Return the message for a y with missing values."""
    targets = np.asarray(y, dtype=object)
    if not targets.ndim:  # a sparse matrix, or not an array at all
        return None
    rows = [row for row, value in enumerate(targets) if any(map(is_missing, np.ravel(value)))]
    if not rows:
        return None
    return (
        f"Input y contains NaN or None in {len(rows)} of {len(targets)} rows, row {rows[0]} first. "
        "The model cannot learn from them: leave such rows out of X and y."
    )


def explain_object_labels(y: Any, name: str = "y") -> str | None:
    """Return the message for labels of dtype object that are not all text, None for others.

    Sequences as labels are not explained here: scikit-learn has a message for them.
    """
    labels = np.asarray(y)
    if labels.dtype != object or not labels.ndim:
        return None
    types = {type(label) for label in labels.flat}
    if all(issubclass(each, str) for each in types):
        return None
    if any(issubclass(each, (Sequence, Set, np.ndarray)) for each in types - {str, bytes}):
        return None
    names = ", ".join(sorted(each.__name__ for each in types))
    or_numbers = ", or to numbers with astype(int)"
    try:
        labels.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        or_numbers = ""
    return (  # the first words are those of scikit-learn
        f"Unknown label type: {name} has dtype object and contains labels of type {names}; convert "
        f"all of them to text with astype(str){or_numbers}."
    )


def check_object_labels(y: Any, name: str = "y") -> None:
    """Raise ValueError for labels of dtype object that are not all text."""
    if (why := explain_object_labels(y, name)) is not None:
        raise ValueError((name == "y" and explain_missing_targets(y)) or why)


def as_data_frame(X: Any) -> Any:
    """Return a table of pyarrow as a pandas DataFrame, any other X as it is.

    scikit-learn would read it as a matrix of one dtype, in which text and dates are lost. Without
    pandas it is returned as it is. Decimals, which pandas would keep as objects, become floats.
    Integers with missing values become nullable ones: floats would be rounded beyond 2**53.
    """
    if type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "column_names"):
        with suppress(ImportError):
            from pandas import Int64Dtype, UInt64Dtype

            nullable = {"int64": Int64Dtype(), "uint64": UInt64Dtype()}
            incomplete = {str(column.type) for column in X.columns if column.null_count}
            as_nullable = {kind: dtype for kind, dtype in nullable.items() if kind in incomplete}
            frame = X.to_pandas(types_mapper=lambda kind: as_nullable.get(str(kind)))
            decimals = {x.name for x in X.schema if str(x.type).startswith("decimal")}
            dtypes = dict.fromkeys(decimals.intersection(frame.columns), np.float64)
            return frame.astype(dtypes) if dtypes else frame
    return X


# Methods that return a table, by the library of a container.
_TABLE_METHODS = {"polars": ("collect",), "pyarrow": ("to_pandas", "read_pandas", "to_table")}


def explain_unsupported_container(X: Any, name: str = "X") -> str | None:
    """Return the message for a container of samples that is neither a DataFrame nor an array."""
    if issparse(X):  # one of its formats is a dictionary
        return None
    is_list = isinstance(X, (list, tuple))
    library, first = type(X).__module__.partition(".")[0], next(iter(X), None) if is_list else X
    method = next((m for m in _TABLE_METHODS.get(library, ()) if hasattr(X, m)), None)
    if isinstance(first, dict) or getattr(getattr(X, "dtype", None), "names", None):
        remedy = f"pandas.DataFrame({name})"
    elif method is not None:
        remedy = f"{name}.{method}()"
    else:
        return None
    items = " of dictionaries" if first is not X else ""
    return (
        f"{name} is a {type(X).__name__}{items}, and not a table with rows and columns of numbers "
        f"and categories; pass {remedy}."
    )
