"""TableTransformer: a ColumnTransformer with errors and warnings that name the column.

In a module of its own, since scikit-learn's part takes half as long to import as this package.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from sklearn import config_context, get_config  # type: ignore[attr-defined]
from sklearn.compose import ColumnTransformer
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import (
    InvalidColumn,
    as_data_frame,
    check_dimensions,
    check_unique,
    check_unique_names,
    check_unmasked,
    densify_columns,
    describe_columns,
    explain_infinity,
    explain_invalid_categories,
    explain_text,
    explain_unsupported_container,
    rounded,
    temporal_columns,
    with_numbers,
)
from ..data.dask_blocks import compute_if_dask, is_dask_collection
from ..utils.user_warnings import warn
from .categories import CategoryEncoder


class TableTransformer(ColumnTransformer):
    """ColumnTransformer that names the invalid column in errors, and accepts pyarrow Tables."""

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        X = _as_table(X)
        check_unique_names(X)
        check_consistent_length(X, y)
        with self._explain_errors(X, self.transformers), _arrays_between_steps():
            numerical = _columns_of("numerical", self.transformers, X)
            numbers = with_numbers(X, numerical)
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
            numbers = with_numbers(X, _columns_of("numerical", self.transformers_, X))
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
            position, problem = error.args
            name = describe_columns(X)[0][_columns_of("datetime", transformers, X)[position]]
            raise ValueError(f"Column {name!r} of X {problem}") from error
        except (TypeError, ValueError, ArithmeticError) as error:
            if "infinity" in str(error):
                if (why := explain_infinity(X)) is not None:
                    raise ValueError(why) from error
            elif why := explain_text(X, _columns_of("numerical", transformers, X)):
                raise ValueError(why) from error
            elif why := explain_invalid_categories(X, _columns_of("categorical", transformers, X)):
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
    # scikit-learn converts lists to the same array, after the columns have been selected.
    if isinstance(X, (list, tuple)):
        return check_array(X, dtype=object, ensure_all_finite="allow-nan")
    return densify_columns(X)
