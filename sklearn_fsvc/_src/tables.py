"""TableTransformer: what a table needs before a network, and what is said of infinite numbers.

A file of its own, since scikit-learn's part takes half as long to import as this package.
"""

from contextlib import contextmanager

from sklearn.compose import ColumnTransformer

from .columns import why_infinite


class TableTransformer(ColumnTransformer):
    """ColumnTransformer that names the column which holds an infinite number."""

    def fit_transform(self, X, y=None, **params):
        with _naming(X):
            return super().fit_transform(X, y, **params)

    def transform(self, X, **params):
        with _naming(X):
            return super().transform(X, **params)


@contextmanager
def _naming(X):
    try:
        yield
    except ValueError as error:
        why = why_infinite(X) if "infinity" in str(error) else None
        if why is None:
            raise
        raise ValueError(why) from error
