"""Target encoding: mean targets of categories and of cells, cross-fitted for training samples.

A *cell* is the set of the samples with the same category, or with the same two categories of a pair
of features. D. Micci-Barreca (2001), "A preprocessing scheme for high-cardinality categorical
attributes in classification and prediction problems".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve
from scipy.sparse import csr_array, issparse
from scipy.special import chdtri, ndtr
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import check_array, check_random_state, resample

from ..data.columns import check_object_labels, explain_missing_targets
from ..data.validation import to_host
from ..engines.threads import limit_blas_threads
from ..targets.encoding import as_float64, encode_groups

# Limit of the number of features that an encoder derives from targets.
MAX_ENCODED = 100
# Noise exceeds the limit of what cells explain of it as often as a normal variable exceeds its mean
# by so many standard deviations.
_SIGMAS = 3
# The same for the correlation of frequencies with mean targets, which is rare.
_COUNT_SIGMAS = 4
_N_FOLDS = 5
# Samples to which `additive_predictions` fits, at most.
_MAX_FITTED = 10_000


class CrossFittedEncoder(TransformerMixin, BaseEstimator):
    """Base of encoders whose `fit_transform` encodes a sample by the targets of other folds."""

    # Routed without a request of the user, as by the networks of this package.
    __metadata_request__fit: ClassVar = {"groups": True}

    outputs_: list[Any]

    def fit(self, X: Any, y: Any = None, groups: Any = None, **params: Any) -> Self:
        self.fit_transform(X, y, groups, **params)
        return self

    @property
    def _output_suffixes(self) -> list[str]:
        """Return what the names of the mean targets of one cell end with."""
        return [f"_{name}" for name in self.outputs_] if len(self.outputs_) > 1 else [""]


def encode_target(y: Any, task: str) -> tuple[Any, list[Any]]:
    """Return numeric targets, and the names of their columns.

    Parameters
    ----------
    y : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_outputs)
    task : {"classification", "regression"}

    Returns
    -------
    Y : ndarray or sparse array of shape (n_samples, n_columns)
        Indicators of the classes, sparse, with one column for two classes. For regression the
        standardised targets.
    names : list
        Class labels, or the indices of the outputs.

    Raises
    ------
    ValueError
        For missing values, and for regression if y is not numeric.
    """
    y = _validate_target(y, task)
    y = y.reshape(len(y), -1)
    if task == "regression":
        scale = y.std(axis=0)
        return (y - y.mean(axis=0)) / np.where(scale > 0, scale, 1), list(range(y.shape[1]))
    indicators = OneHotEncoder(drop="if_binary").fit(y)
    prefix = "x0_" if y.shape[1] == 1 else ""
    names = [name.removeprefix(prefix) for name in indicators.get_feature_names_out()]
    return indicators.transform(y), names


def _validate_target(y, task):
    y = to_host(y)
    try:
        if task == "regression":
            return as_float64(y)
        y = y.toarray() if issparse(y) else y
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    except (TypeError, ValueError) as error:  # TypeError for pandas.NA
        if why := explain_missing_targets(y):
            raise ValueError(why) from error
        raise
    check_object_labels(y)
    return y


def draw_folds(n_samples: int, groups: npt.ArrayLike | None = None) -> npt.NDArray[np.intp]:
    """Return the fold of each sample; they are the same for each fit.

    With `groups` (n_samples,), of two values or more, all samples of a group are in one fold.
    """
    random = check_random_state(0)
    codes = encode_groups(range(n_samples), groups)
    if codes is not None:
        return (random.permutation(codes.max() + 1) % _N_FOLDS)[codes]
    return random.permutation(n_samples) % _N_FOLDS


def additive_residuals(codes: npt.NDArray[np.intp], Y: npt.NDArray) -> npt.NDArray:
    """Return the residuals of an additive model: a ridge regression on one-hot features.

    Parameters
    ----------
    codes : ndarray of int of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_columns)
    """
    from sklearn.linear_model import Ridge  # here, since it takes long to import

    one_hot = OneHotEncoder().fit_transform(codes)
    return Y - Ridge().fit(one_hot, Y).predict(one_hot).reshape(Y.shape)


@limit_blas_threads(1)  # the number of threads would change the rounding
def additive_predictions(
    codes: npt.NDArray[np.intp], Y: npt.NDArray, fold: npt.NDArray[np.intp]
) -> npt.NDArray:
    """Return the cross-fitted predictions of an additive model, less the mean of Y.

    They are 0 for columns of Y that the model does not predict better than their mean.

    Parameters
    ----------
    codes : ndarray of int of shape (n_samples, n_features)
    Y : ndarray of shape (n_samples, n_columns)
    fold : ndarray of int of shape (n_samples,)
    """
    rows = np.arange(len(Y))
    if len(Y) > _MAX_FITTED:
        rows = resample(rows, replace=False, n_samples=_MAX_FITTED, random_state=0)
    *starts, n_features = np.append(0, np.cumsum(codes.max(axis=0) + 1))
    centred = Y - Y.mean(axis=0)
    grams, moments = [], []
    for k in range(fold.max() + 1):
        in_fold = rows[fold[rows] == k]
        indices = codes[in_fold] + np.array(starts)
        row_ends = np.arange(0, indices.size + 1, len(starts))
        shape = (len(in_fold), n_features)
        one_hot = csr_array((np.ones(indices.size), indices.ravel(), row_ends), shape=shape)
        moments.append(one_hot.T @ centred[in_fold])
        dense = one_hot.astype(np.float32).toarray()  # counts are exact, and the product is faster
        grams.append((dense.T @ dense).astype(np.float64))
    # A ridge regression with a penalty of 1, of the samples outside of each fold.
    gram, moment = sum(grams) + np.eye(n_features), sum(moments)
    coefs = np.stack(
        [
            solve(gram - of_fold, moment - with_y, assume_a="pos")
            for of_fold, with_y in zip(grams, moments, strict=True)
        ]
    )
    predicted = np.zeros_like(centred)
    for start, column in zip(starts, codes.T, strict=True):
        predicted += coefs[fold, start + column]
    is_better = np.square(centred - predicted).sum(axis=0) < np.square(centred).sum(axis=0)
    return np.where(is_better, predicted, 0)


def to_intervals(values: npt.NDArray, n_intervals: int) -> npt.NDArray[np.intp]:
    """Return in which of intervals with equally many samples each value lies.

    Missing values have an interval of their own.
    """
    is_missing = np.isnan(values)
    inner = np.linspace(0, 1, n_intervals + 1)[1:-1]
    present = values[~is_missing] if is_missing.any() else values
    if not len(present):
        return np.zeros(len(values), np.intp)
    # The quantiles of `np.quantile(..., method="lower")`, in a fraction of its time.
    limits = np.unique(np.sort(present)[((len(present) - 1) * inner).astype(np.intp)])
    return np.where(is_missing, len(limits) + 1, np.searchsorted(limits, values, side="left"))


@dataclass(frozen=True)
class Residuals:
    """Residuals of a model, which cells may explain."""

    values: npt.NDArray  # (n_samples, n_columns)
    squares: float  # the sum of their squares, or a minimum of it

    @classmethod
    def of(cls, values: npt.NDArray, Y: npt.NDArray, min_share: float) -> Self:
        """Return the residuals of a model of Y.

        `min_share` of the squared deviations of Y from the mean are the minimum of `squares`.
        """
        total = np.square(Y - Y.mean(axis=0)).sum()
        # Columns are contiguous, as `count_and_sum` needs them.
        return cls(np.asfortranarray(values), max(np.square(values).sum(), min_share * total))

    @cached_property
    def _excess_kurtosis(self) -> float:
        return float(_excess_kurtosis(np.square(self.values).sum(axis=1)))

    def explained_share(self, cell: npt.NDArray[np.intp], n_constraints: int) -> float:
        """Return the share of the squares between cells, in excess of noise.

        As in the analysis of variance: between cells, normal noise has a sum of squares that is
        distributed as chi-squared, with as many degrees of freedom as there are cells, less the
        constraints. Its mean is that number, and its variance twice that number. Residuals of
        several columns are the noise of one with the same squares, whose variance is at least as
        large.
        """
        counts, sums = count_and_sum(cell, 0, self.values)
        counts, sums = counts[counts > 0], sums[counts > 0]
        freedom = len(counts) - n_constraints
        if freedom < 1:
            return 0.0
        between = (np.square(sums) / counts[:, None]).sum() / self.squares
        variance = 2 * freedom + _variance_of_tails(counts, self._excess_kurtosis)
        return between - _noise_limit(freedom, variance) / len(cell)


def _variance_of_tails(counts, excess_kurtosis):
    """Return what heavy tails of noise add to the variance of its sum of squares between cells.

    The part of the sum that exceeds its mean is a quadratic form :math:`r^T A r` of residuals of
    variance 1 with an excess kurtosis of :math:`\\kappa`. Its variance is
    :math:`2 \\sum_{ij} a_{ij}^2 + \\kappa \\sum_i a_{ii}^2` (Seber and Lee, "Linear Regression
    Analysis", Wiley 2003, theorem 1.6). Since the residual squares are estimated, too,
    :math:`a_{ii} = 1/n_c - C/n` for one of the :math:`n_c` samples of a cell, with :math:`C` cells
    and :math:`n` samples. The last sum is hence :math:`\\sum_c 1/n_c - C^2/n`. Indicators of rare
    classes have heavy tails, too.

    `counts` are the numbers of samples of the cells.
    """
    return excess_kurtosis * ((1 / counts).sum() - len(counts) ** 2 / counts.sum())


def _excess_kurtosis(squares):
    """Return the excess kurtosis of residuals, along the first axis of their squares, or 0."""
    mean = squares.mean(axis=0)
    fourth = np.square(squares).mean(axis=0) / np.where(mean > 0, np.square(mean), 1)
    return np.maximum(fourth - 3, 0)


def _noise_limit(freedom, variance):
    """Return what the sum of squares between cells of noise of variance 1 seldom exceeds.

    With the distribution of Satterthwaite (1946), "An approximate distribution of estimates of
    variance components": a multiple of chi-squared with the mean `freedom` and this variance.
    """
    scale = variance / (2 * freedom)
    return scale * chdtri(freedom / scale, ndtr(-_SIGMAS))


def count_and_sum(
    cell: npt.NDArray[np.intp], min_cells: int, Y: npt.NDArray
) -> tuple[npt.NDArray, npt.NDArray]:
    """Return the number of samples of each cell, and the sums of their targets."""
    sums = [np.bincount(cell, column, min_cells) for column in Y.T]
    return np.bincount(cell, minlength=min_cells), np.stack(sums, axis=1)


def count_and_sum_by_fold(
    fold: npt.NDArray[np.intp], cell: npt.NDArray[np.intp], n_cells: int, Y: npt.NDArray
) -> tuple[npt.NDArray, npt.NDArray]:
    """Return numbers of samples (n_folds, n_cells) and sums of targets (n_folds, n_cells, -1)."""
    n_folds = fold.max() + 1
    counts, sums = count_and_sum(fold * n_cells + cell, n_folds * n_cells, Y)
    return counts.reshape(n_folds, n_cells), sums.reshape(n_folds, n_cells, -1)


def cross_fit(
    fold: npt.NDArray[np.intp],
    cell: npt.NDArray[np.intp],
    n_cells: int,
    Y: npt.NDArray,
    smoothing: npt.ArrayLike,
) -> tuple[npt.NDArray, npt.NDArray]:
    """Return the mean targets of each cell, and per sample those of its cell in other folds.

    Parameters
    ----------
    fold, cell : ndarray of int of shape (n_samples,)
    n_cells : int
    Y : ndarray of shape (n_samples, n_columns)
    smoothing : float or array-like of shape (n_columns,)
        The weight of the overall mean, in samples.

    Returns
    -------
    means : ndarray of shape (n_cells, n_columns)
    encoded : ndarray of shape (n_samples, n_columns)
    """
    counts, sums = count_and_sum_by_fold(fold, cell, n_cells, Y)
    n, total = counts.sum(axis=0), sums.sum(axis=0)
    others = _shrink(n - counts, total - sums, smoothing)
    return _shrink(n, total, smoothing), others[fold, cell]


def stack_encoded(encoded: list[npt.NDArray], n_samples: int) -> npt.NDArray[np.float32]:
    """Return encodings of shape (n_samples, n_columns) side by side; without columns if none."""
    return np.hstack([np.empty((n_samples, 0)), *encoded], dtype=np.float32)


def _shrink(counts, sums, smoothing):
    """Return the means of cells, shrunk towards the overall mean."""
    # Without other samples, as with a single one in all, the mean is 0 of 0.
    n_samples = np.maximum(counts.sum(axis=-1), 1)[..., None, None]
    mean = sums.sum(axis=-2, keepdims=True) / n_samples
    return (sums + smoothing * mean) / (counts[..., None] + smoothing)


def estimate_smoothing(
    cell: npt.NDArray[np.intp], Y: npt.NDArray
) -> tuple[npt.NDArray, npt.NDArray]:
    """Return the best smoothing of the means, and which columns of Y depend on the cell.

    In the random-effects model of the analysis of variance the mean of a cell has variance
    :math:`\\tau^2`, and a sample within its cell :math:`\\sigma^2`. The posterior mean of a cell
    is the mean of its samples and of :math:`\\sigma^2 / \\tau^2` samples at the overall mean.
    Both variances are estimated from the mean squares between and within cells (Searle, Casella
    and McCulloch, "Variance Components", Wiley 1992, section 3.6).

    Parameters
    ----------
    cell : ndarray of int of shape (n_samples,)
    Y : ndarray of shape (n_samples, n_columns)

    Returns
    -------
    smoothing : ndarray of shape (n_columns,)
        :math:`\\sigma^2 / \\tau^2`, between 0.1 and 1000 samples.
    depends : ndarray of bool of shape (n_columns,)
        Whether cells explain more than they would of noise. No, if no cell has several samples.
    """
    n_samples, n_columns = Y.shape
    counts, sums = count_and_sum(cell, 0, Y)
    counts, sums = counts[counts > 0], sums[counts > 0]
    freedom, residual_freedom = len(counts) - 1, n_samples - len(counts)
    if freedom < 1 or residual_freedom < 1:
        return np.full(n_columns, 1000.0), np.zeros(n_columns, dtype=bool)
    means, overall = sums / counts[:, None], Y.mean(axis=0)
    between = (counts[:, None] * np.square(means - overall)).sum(axis=0)
    squares = np.square(Y - overall)
    total = squares.sum(axis=0)
    within = np.maximum(total - between, 0) / residual_freedom
    # The variance of the sum of squares between cells of noise with a given total.
    variance = 2 * freedom * residual_freedom / (n_samples - 1)
    limit = _noise_limit(freedom, variance + _variance_of_tails(counts, _excess_kurtosis(squares)))
    depends = between > limit * total / (n_samples - 1)
    effective_count = (n_samples - np.square(counts).sum() / n_samples) / freedom
    tau2 = np.maximum(between / freedom - within, 0) / effective_count
    with np.errstate(divide="ignore", invalid="ignore"):
        smoothing = np.nan_to_num(within / tau2, nan=1000.0, posinf=1000.0)
    return np.clip(smoothing, 0.1, 1000.0), depends


def depends_on_count(cell: npt.NDArray[np.intp], Y: npt.NDArray) -> bool:
    """Return whether mean targets of cells are correlated with the logarithms of their counts.

    More than by chance, over cells: samples of a cell are not independent.
    """
    counts, sums = count_and_sum(cell, 0, Y)
    counts, sums = counts[counts > 0], sums[counts > 0]
    if len(counts) < 3:
        return False
    features = np.column_stack([np.log1p(counts), sums / counts[:, None]])
    features -= features.mean(axis=0)
    scales = np.sqrt(np.square(features).sum(axis=0))
    features /= np.where(scales > 0, scales, 1)
    correlation = features[:, 0] @ features[:, 1:]
    return bool((np.abs(correlation) > _COUNT_SIGMAS / np.sqrt(len(counts))).any())
