"""TableTransformer: a ColumnTransformer with errors and warnings that name the column.

In a module of its own, since scikit-learn's part takes half as long to import as this package.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import config_context, get_config  # type: ignore[attr-defined]
from sklearn.compose import ColumnTransformer
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import (
    InvalidColumn,
    are_numbers,
    as_data_frame,
    as_numbers,
    check_dimensions,
    check_unique,
    check_unique_names,
    check_unmasked,
    describe_columns,
    explain_unsupported_container,
    is_missing,
    is_nested,
    rounded,
    temporal_columns,
)
from ..data.dask_blocks import compute_if_dask, is_dask_collection
from ..engines.threads import limit_blas_threads
from ..utils.user_warnings import warn
from .categories import CategoryEncoder
from .column_selector import kinds_computed_once


class TableTransformer(ColumnTransformer):
    """ColumnTransformer that names the invalid column in errors, and accepts pyarrow Tables."""

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        X = _as_table(X)
        check_unique_names(X)
        check_consistent_length(X, y)
        with (
            kinds_computed_once(),
            limit_blas_threads(1),  # products are small: other threads would only be waited for
            self._explain_errors(X, self.transformers),
            _arrays_between_steps(),
        ):
            numerical = _columns_of("numerical", self.transformers, X)
            numbers = _with_numbers(X, numerical)
            with self._route_covariates(numbers, numerical, y, params) as routed:
                H = super().fit_transform(numbers, y, **routed)
        if X.shape[1] and not H.shape[1]:
            raise ValueError(
                f"No features result from the columns {describe_columns(X)[0]!r} of X: each has "
                "many categories, and the target depends on none of them. Add other columns, or "
                "keep the categories as one-hot features with "
                "set_params(preprocessing__categorical__max_categories=None)."
            )
        self._temporal = temporal_columns(X)
        # scikit-learn keeps names only if they are strings.
        has_other_names = hasattr(X, "columns") and not hasattr(self, "feature_names_in_")
        self._other_names = _texts(X.columns) if has_other_names else None
        if names := rounded(X, _columns_of("numerical", self.transformers_, X)):
            warn(
                f"Columns {names!r} of X contain integers beyond 2**53, of which some are distinct "
                "and equal in float64. Subtract the smallest value of the column first; if it is "
                "an ID, drop it."
            )
        return H

    def transform(self, X: Any, **params: Any) -> Any:
        check_is_fitted(self)
        X = self._fitted_columns(_as_table(X))
        self._check_temporal(X)
        with self._explain_errors(X, self.transformers_), _arrays_between_steps():
            numbers = _with_numbers(X, _columns_of("numerical", self.transformers_, X))
            return super().transform(numbers, **params)

    def _fitted_columns(self, X: Any) -> Any:
        """Return X with the columns of `fit` at their positions, where explanations look for them.

        ValueError if some are missing.
        """
        check_dimensions(X)
        has_strings = hasattr(self, "feature_names_in_")
        # Models that were saved by earlier versions have no other names.
        names = self.feature_names_in_ if has_strings else getattr(self, "_other_names", None)
        if names is None or not hasattr(X, "columns"):
            if X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, and had {self.n_features_in_} in fit."
                )
            return self._with_names(X) if has_strings else X
        return _select(X, list(X.columns) if has_strings else _texts(X.columns), list(names))

    def _with_names(self, X: Any) -> Any:
        """Return an array with the names of `fit`, and warn, so that each step does not warn."""
        if not isinstance(X, np.ndarray):
            return X
        with suppress(ImportError):
            from pandas import DataFrame

            validate_data(self, X, reset=False, skip_check_array=True)  # warns
            return DataFrame(X, columns=self.feature_names_in_, copy=False)
        return X

    def _check_temporal(self, X: Any) -> None:
        """Raise ValueError for dates and durations in a column that contained others in `fit`."""
        as_in_fit = {*self._temporal, *_columns_of("datetime", self.transformers_, X)}
        for j in temporal_columns(X):
            if j not in as_in_fit:
                names, dtypes, _ = describe_columns(X)
                raise ValueError(
                    f"Column {names[j]!r} of X ({dtypes[j]}) holds dates or durations, and did not "
                    "in fit; convert it to the type that it had in fit."
                )

    @contextmanager
    def _route_covariates(self, X: Any, numerical: Any, y: Any, params: Any) -> Iterator[dict]:
        """Yield parameters with the numerical columns, if mean targets of categories need them."""
        encoder = {name: each for name, each, _ in self.transformers}.get("categorical")
        is_needed = (
            y is not None
            and isinstance(encoder, CategoryEncoder)
            and len(numerical) > 0
            and len(_columns_of("categorical", self.transformers, X)) > 0
        )
        # Without routing, scikit-learn raises an error for parameters of the user.
        if not is_needed or (params and not get_config()["enable_metadata_routing"]):
            yield params
            return
        columns = getattr(X, "iloc", X)[:, numerical]
        covariates = check_array(columns, dtype=np.float64, ensure_all_finite=False)
        with config_context(enable_metadata_routing=True):
            yield {**params, "covariates": covariates}

    @contextmanager
    def _explain_errors(self, X: Any, transformers: list[tuple]) -> Iterator[None]:
        """Replace errors of the steps, which lack the name of the column, by an explanation."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # sums of huge values
                yield
        except InvalidColumn as error:
            position, problem, kind = error.args
            name = describe_columns(X)[0][_columns_of(kind, transformers, X)[position]]
            raise ValueError(f"Column {name!r} of X {problem}") from error
        except (TypeError, ValueError, ArithmeticError) as error:
            numerical = _columns_of("numerical", transformers, X)
            why = _explain_infinity(X, numerical) if "infinity" in str(error) else None
            if why := why or _explain_text(X, numerical):
                raise ValueError(why) from error
            if why := _explain_invalid_categories(X, _columns_of("categorical", transformers, X)):
                raise TypeError(why) from error
            raise


def _arrays_between_steps() -> Any:
    """Return a context without the global `transform_output`, which is for the result only.

    The steps compute with arrays, and some use sparse ones. The result is converted afterwards.
    """
    return config_context(transform_output="default")


def _texts(names):
    """Return names of columns as text, which is equal for NaN, and needs no types of pandas."""
    return [str(name) for name in names]


def _select(X, columns, names):
    """Return the columns of X with some `names`, in this order; `columns` are those of X.

    ValueError if some are missing.
    """
    if columns == names:
        return X
    positions = {name: j for j, name in enumerate(columns)}
    if missing := [name for name in names if name not in positions]:
        raise ValueError(
            f"X has no columns {missing!r}, which it had in fit; its columns are {columns!r}."
        )
    known = set(names)
    check_unique("X", [name for name in columns if name in known])
    return getattr(X, "iloc", X)[:, [positions[name] for name in names]]


def _columns_of(name, transformers, X):
    """Return the columns of a transformer, or nothing if they cannot be determined."""
    columns = {name: columns for name, _, columns in transformers}.get(name, [])
    # Selection fails on an invalid X, whose error is the one to report.
    with suppress(AttributeError, TypeError, ValueError):
        return columns(X) if callable(columns) else columns
    return []


def _as_table(X):
    """Return X, with lists as arrays, pyarrow as pandas, and dense columns.

    TypeError for other containers.
    """
    if is_dask_collection(X) and hasattr(X, "columns"):
        raise TypeError(
            "X is a DataFrame of Dask, and the preprocessing of tables needs one in memory; pass "
            "X.compute(). A fitted model predicts by X.map_partitions(model.predict)."
        )
    X = compute_if_dask(X)
    check_unmasked(X=X)
    X = as_data_frame(X)
    if (why := explain_unsupported_container(X)) is not None:
        raise TypeError(why)
    if not hasattr(X, "shape") and not isinstance(X, (list, tuple)):
        raise TypeError(
            f"X is a {type(X).__name__}, and must be a table with rows and columns; pass a "
            "DataFrame, a two-dimensional array, or a list of rows."
        )
    # scikit-learn converts lists to the same array, after the columns have been selected.
    if isinstance(X, (list, tuple)):
        return check_array(X, dtype=object, ensure_all_finite="allow-nan")
    return _densify_columns(X)


# Values of a table that its transformers do not support, and messages that name the column.


def _with_numbers(X: Any, columns: Sequence[int]) -> Any:
    """Return a table with float64 in those of some columns that contain text, objects or bools.

    `MissingIndicator` raises an error for bools, also if these were numbers in `fit`.
    None and pandas.NA become NaN, the only missing value that transformers of numbers recognise.
    A column that is missing in all rows, as in a request of one row, consists of objects.
    """
    if not columns:
        return X
    if not hasattr(X, "columns"):
        if X.dtype.kind not in "OUb":
            return X
        X = X.astype(object)
        for j in columns:
            X[:, j] = as_numbers(X[:, j])
        return X
    dtypes = list(X.dtypes)
    for j in columns:
        if not _is_numeric(dtypes[j]):
            X = _with_column(X, j, as_numbers(X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]))
    return X


def _is_numeric(dtype: Any) -> bool:
    """Return whether a dtype of pandas or polars is of numbers that NumPy has."""
    if hasattr(dtype, "is_numeric"):
        return dtype.is_numeric() and not dtype.is_decimal()
    return dtype.kind in "iufc"


def _with_column(X: Any, j: int, values: npt.NDArray) -> Any:
    """Return a DataFrame of pandas or polars with other values in a column."""
    if hasattr(X, "isetitem"):
        X = X.copy(deep=False)
        X.isetitem(j, values)
        return X
    column = X[:, j]
    return X.clone().replace_column(j, type(column)(column.name, values))


def _densify_columns(X: Any) -> Any:
    """Return a DataFrame of pandas with dense columns, any other X as it is.

    scikit-learn would warn of sparse ones in each transformer.
    """
    columns = zip(X.columns, X.dtypes, strict=True) if hasattr(X, "columns") else ()
    dense = {name: dtype.subtype for name, dtype in columns if str(dtype).startswith("Sparse")}
    return X.astype(dense) if dense else X


def _explain_infinity(X: Any, columns: Sequence[int]) -> str | None:
    """Return the message for the first of these columns with infinite values, also as text."""
    cells, names = getattr(X, "iloc", X), describe_columns(X)[0] if columns else []
    for j in columns:
        column = cells[:, j]
        rows = np.flatnonzero(are_numbers(column) and np.isinf(as_numbers(column)))
        if len(rows):
            return (
                f"Column {names[j]!r} of X holds infinity in {len(rows)} of {len(X)} rows, row "
                f"{rows[0]} first; make it missing (numpy.nan), or replace it by a finite number."
            )
    return None


def _explain_text(X: Any, columns: Sequence[int]) -> str | None:
    """Return the message for the first of these columns with a value that is not a number."""
    cells, names = getattr(X, "iloc", X), describe_columns(X)[0] if columns else []
    for j in columns:
        for row, value in enumerate(cells[:, j]):
            if not is_missing(value) and not are_numbers([value]):
                return (
                    f"Column {names[j]!r} of X holds {value!r} in row {row}, and numbers in fit; "
                    "convert it with pandas.to_numeric(..., errors='coerce'), where text becomes "
                    "missing, or name the column in categorical_features."
                )
    return None


def _explain_invalid_categories(X: Any, columns: Sequence[int]) -> str | None:
    """Return the message for the first of these columns whose values are not categories.

    Categories have one type, which is ordered, and are not containers.
    """
    cells, names = getattr(X, "iloc", X), describe_columns(X)[0] if columns else []
    for j in columns:
        values = [value for value in cells[:, j] if not is_missing(value)]
        types = sorted({_type_name(value) for value in values})
        if len(types) > 1:
            return (
                f"Column {names[j]!r} of X holds values of several types, {' and '.join(types)}, "
                "and must hold one: convert all to text with astype(str), or to numbers with "
                "pandas.to_numeric(..., errors='coerce'), where text becomes missing."
            )
        if any(map(is_nested, values)) or not _are_ordered(values):
            return (
                f"Column {names[j]!r} of X holds objects of type {types[0]}, which are not "
                "categories; convert them to text or numbers, or leave the column out."
            )
    return None


def _type_name(value: Any) -> str:
    """Return the type of a value in messages; real numbers of all types are one."""
    is_real = isinstance(value, Number) and not isinstance(value, (complex, np.complexfloating))
    return "number" if is_real else type(value).__name__


def _are_ordered(values: Sequence[Any]) -> bool:
    try:
        sorted(values)
    except (TypeError, ValueError, ArithmeticError):
        return False
    return True
