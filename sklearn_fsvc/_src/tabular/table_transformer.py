"""TableTransformer: what a table needs before a network, and what is said of columns of no use.

A file of its own, since scikit-learn's part takes half as long to import as this package.
"""

from contextlib import contextmanager, suppress

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.utils import check_array

from ..data.columns import rounded, why_infinite, why_no_levels, why_no_table
from ..utils.user_warnings import warn


class TableTransformer(ColumnTransformer):
    """ColumnTransformer that names the column which it cannot take, and takes tables of Arrow."""

    def fit_transform(self, X, y=None, **params):
        X = _as_table(X)
        with self._naming(X):
            H = super().fit_transform(X, y, **params)
        if names := rounded(X, self._columns_of("numbers", X)):
            warn(
                f"Columns {names!r} of X hold integers beyond 2**53, of which some that differ are "
                "the same in float64. Subtract the least of a column from it before; if it is an "
                "ID, leave it out."
            )
        return H

    def transform(self, X, **params):
        X = _as_table(X)
        with self._naming(X):
            return super().transform(X, **params)

    @contextmanager
    def _naming(self, X):
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # sums of what is huge
                yield
        except (TypeError, ValueError, ArithmeticError) as error:
            if "infinity" in str(error):
                kind, why = ValueError, why_infinite(X)
            else:
                kind, why = TypeError, why_no_levels(X, self._columns_of("categories", X))
            if why is None:
                raise
            raise kind(why) from error

    def _columns_of(self, name, X):
        """Positions of the columns that a part of the table goes by; none where it cannot tell."""
        columns = {name: columns for name, _, columns in self.transformers}.get(name)
        with suppress(AttributeError, TypeError, ValueError):
            return columns(X) if callable(columns) else []
        return []


def _as_table(X):
    """X, or a DataFrame of what pyarrow holds; TypeError for rows that are no table."""
    why = why_no_table(X)
    if why is None:
        is_list = isinstance(X, (list, tuple))  # of which scikit-learn makes the same array
        return check_array(X, dtype=object, ensure_all_finite="allow-nan") if is_list else X
    if hasattr(X, "to_pandas"):
        return X.to_pandas()
    raise TypeError(why)
