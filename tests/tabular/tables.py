"""Preprocessing and tables of the tests."""

from statistics import NormalDist

import pandas as pd
import pytest

from sklearn_fsvc import TanhProjector, make_tabular_pipeline

normal = NormalDist().inv_cdf


def score(rank):
    """Return the score of a rank between 0 and 1."""
    return (normal(rank) + 12**0.5 * (rank - 0.5)) / 2


def preprocessing(missing=None, **options):
    """Return the preprocessing of a transformer, which has no target-dependent steps."""
    transformer = make_tabular_pipeline(TanhProjector(2), **options)["preprocessing"]
    return transformer if missing is None else transformer.set_params(missing=missing)


def make_frame(library, **columns):
    """Return a DataFrame of pandas or polars."""
    return pytest.importorskip(library).DataFrame(columns)


def convert(library, X):
    """Return an array as a DataFrame with columns x0, x1, ..., or as it is for "numpy"."""
    if library == "numpy":
        return X
    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    if library == "polars":
        pl = pytest.importorskip("polars")
        return pl.DataFrame(columns).fill_nan(None)
    return pd.DataFrame(columns)
