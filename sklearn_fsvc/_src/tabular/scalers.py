"""Numerical features: imputation, scaling by ranks, and robust standardisation."""

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.utils import check_random_state, resample
from sklearn.utils.validation import check_is_fitted, validate_data

# float16 is converted: differences of its values overflow, and ranks near 1 would be rounded to 1.
_DTYPES = [np.float64, np.float32]
# Fewer samples have no ranks in regression: R2 was higher without them, on average over datasets
# (benchmarks/few_samples.py).
MIN_RANKED = 40


class MedianImputer(SimpleImputer):
    """SimpleImputer with the median, in a sixth of the time; a column without values becomes 0."""

    def __init__(self):
        super().__init__(strategy=median, keep_empty_features=True)


class RankScaler(QuantileTransformer):
    """QuantileTransformer to the mean of the normal score and of the rank, both of unit variance.

    scikit-learn's transformer maps the smallest value to 0 and the largest to 1, even if most
    samples have that value: it is then as far as possible from all others. Here equal samples have
    the middle of their ranks (Conover, 1999), also if some are rounded to float32, where 0.1 is
    another number than in float64. `n_quantiles` is limited to the number of samples without a
    warning.

    Attributes
    ----------
    ends_ : ndarray of shape (2, n_features)
        Midranks of the smallest and of the largest value of each feature.
    """

    n_quantiles: int

    def fit(self, X: Any, y: Any = None) -> "RankScaler":
        self._validate_params()
        table, n_quantiles = X, self.n_quantiles
        X = validate_data(self, table, dtype=_DTYPES, ensure_all_finite="allow-nan")
        # Keep differences of values finite. Clipped values have the same rank.
        bound = np.finfo(X.dtype).max / 4
        X = np.clip(X, -bound, bound)
        self.n_quantiles = min(n_quantiles, len(X))
        try:
            quantiles = self._quantiles(X)
            # The quantiles of the quantiles are the same up to rounding, in a tenth of the time.
            super().fit(X if quantiles is None else quantiles, y)
        finally:
            self.n_quantiles = n_quantiles
        validate_data(self, table, skip_check_array=True)  # sets feature_names_in_
        if quantiles is not None:
            self.quantiles_ = quantiles
        quantiles = self.quantiles_
        is_lowest, is_highest = np.less_equal(X, quantiles[0]), np.greater_equal(X, quantiles[-1])
        self.ends_ = np.stack([is_lowest.mean(axis=0) / 2, 1 - is_highest.mean(axis=0) / 2])
        return self

    def _quantiles(self, X):
        """Return ``quantiles_`` from sorted columns, or None if there are missing values."""
        if self.subsample is not None and len(X) > self.subsample >= self.n_quantiles:
            random = check_random_state(self.random_state)
            X = resample(X, replace=False, n_samples=self.subsample, random_state=random)
        X = np.sort(X, axis=0)  # NaN is last
        if np.isnan(X[-1]).any():
            return None
        # Linear interpolation between order statistics, as in numpy.quantile.
        position = np.linspace(0, len(X) - 1, self.n_quantiles)
        low = position.astype(np.intp)
        high = np.minimum(low + 1, len(X) - 1)
        quantiles = X[low] + (position - low)[:, None] * (X[high] - X[low])
        return np.maximum.accumulate(quantiles)  # rounding may break the order

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the scores, of shape (n_samples, n_features)."""
        ranks = np.asarray(super().transform(X))
        ranks = np.clip(ranks, *self.ends_.astype(ranks.dtype)).astype(np.float32, copy=False)
        return combine_scores(ranks)

    def _check_inputs(self, X, *args, **kwargs):
        X = super()._check_inputs(X, *args, **kwargs)
        return X.astype(np.result_type(X, np.float32), copy=False)

    def _transform_col(self, X_col, quantiles, inverse):
        # numpy.interp starts its search at the interval of the previous value: sorted values take a
        # fifth of the time (20,000 samples), sorting included, and have the same ranks.
        order, ranks = np.argsort(X_col), np.empty_like(X_col)
        values = match_rounded(X_col[order], quantiles)
        # The slope between quantiles, a difference of ranks by one of values, must not overflow.
        exponent = max(0, 1000 - np.frexp(np.abs(quantiles).max())[1])
        with np.errstate(over="ignore"):
            values, quantiles = np.ldexp(values, exponent), np.ldexp(quantiles, exponent)
        ranks[order] = super()._transform_col(values, quantiles, inverse)
        return ranks


class ValueScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Standardisation, and clipping at one standard deviation beyond the range of the samples.

    Attributes
    ----------
    exponents_ : ndarray of shape (n_features,)
        Features are divided by 2 to this power first, which is exact: squares of large or small
        values would overflow or underflow.
    limits_ : ndarray of shape (2, n_features)
        Between which features are, after that.
    scaler_ : StandardScaler
    """

    def fit(self, X: Any, y: Any = None) -> "ValueScaler":
        X = validate_data(self, X, dtype=_DTYPES)
        self.exponents_ = np.frexp(np.abs(X).max(axis=0))[1]
        X = np.ldexp(X, -self.exponents_)
        self.scaler_ = StandardScaler().fit(X)
        # Not `scale_`, which is 1 for constant features.
        margin = np.sqrt(self.scaler_.var_)
        self.limits_ = np.stack([X.min(axis=0) - margin, X.max(axis=0) + margin])
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=_DTYPES)
        with np.errstate(over="ignore"):  # new values may be infinite after the division
            X = np.clip(np.ldexp(X, -self.exponents_), *self.limits_)
        return self.scaler_.transform(X).astype(np.float32, copy=False)


class RankOrValueScaler(RankScaler):
    """RankScaler of 40 samples or more; `ValueScaler` of fewer.

    Attributes
    ----------
    value_scaler_ : ValueScaler or None
        None if features are ranks.
    """

    def fit(self, X: Any, y: Any = None) -> "RankOrValueScaler":
        super().fit(X, y)
        is_small = len(X) < MIN_RANKED
        self.value_scaler_ = ValueScaler().fit(X) if is_small else None
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        check_is_fitted(self)
        scaler = self.value_scaler_
        return super().transform(X) if scaler is None else scaler.transform(X)


def match_rounded(values: npt.NDArray, known: npt.NDArray) -> npt.NDArray[np.float64]:
    """Return values in float64; those that differ from a known one by rounding are equal to it.

    The one is the other in float32. The dtypes of the columns do not tell which are rounded: a
    column of float32 is converted to float64 beside one of int64. `known` are sorted.
    """
    values = values.astype(np.float64)
    with np.errstate(over="ignore"):
        in_float32, (exact, rounded) = values.astype(np.float32), nonzero_and_rounded(known)
    above = np.searchsorted(known, values)
    above, below = np.minimum(above, len(known) - 1), np.maximum(above - 1, 0)

    def is_rounded(k):
        return (in_float32 == exact[k]) | (values == rounded[k])

    is_above = (values == known[above]) | is_rounded(above)
    values = np.where(is_rounded(below) & ~is_above, known[below], values)
    return np.where(is_above, known[above], values)


def nonzero_and_rounded(values: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
    """Return values as they are and in float32, both in float64, with NaN for 0.

    Very small numbers are 0 in float32, and not equal.
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    exact = values.astype(np.float64)
    return np.where(exact == 0, np.nan, exact), np.where(rounded == 0, np.nan, rounded)


def combine_scores(ranks: npt.ArrayLike) -> npt.NDArray:
    """Return the mean of the normal score and of the centred rank, both of unit variance."""
    ranks = np.asarray(ranks)
    return (ndtri(ranks) + sqrt(12) * (ranks - 0.5)) / 2


def median(values: npt.NDArray) -> Any:
    """Return the median of non-missing values, 0 if there are none.

    SimpleImputer's strategy "median" takes six times as long.
    """
    if not len(values):
        return 0.0
    result = np.median(values)
    # The sum of the two middle values may overflow.
    return result if np.isfinite(result) else 2 * np.median(values / 2)
