"""RepeatedValueEncoder: target encoding of numerical columns by their exact values."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import resample
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import input_names, unique_names
from ..data.validation import to_dense
from .numerical_interactions import MAX_FEATURES
from .scalers import match_rounded
from .target_means import (
    CrossFittedEncoder,
    count_and_sum_by_fold,
    cross_fit,
    draw_folds,
    encode_target,
    estimate_smoothing,
    stack_encoded,
)

# Samples by which columns are selected.
_SELECTION_SAMPLES = 50_000
# Samples next to a value, on each side, at least; and fewer at the ends of the range.
_N_NEIGHBORS, _MIN_NEIGHBORS = 20, 10
# Samples of a value in the other folds, at least, to count in the selection: values of fewer may be
# those of copies of a sample.
_MIN_COUNT = 5
# Weight of the neighbours in the mean of a value, in samples.
_SMOOTHING = 10
# Minimum decrease of the squared error, as a fraction of the sum of squares, and in standard
# deviations of the decrease.
_MIN_DECREASE, _MIN_SIGMAS = 0.01, 4
# Maximum number of features, each of one column and one output.
_MAX_ENCODED = 12


class RepeatedValueEncoder(CrossFittedEncoder):
    """Target encoding of numerical columns whose exact values matter.

    Examples are codes, such as those of products or regions, and amounts that the law defines. The
    target is then no smooth function of the value, so that a network would need a unit for each.

    A column is encoded if the mean target of the samples with the same value predicts samples of
    other folds better than the next smaller and the next larger values do. Up to 12 features are
    added, those that predict best.

    `fit_transform` is cross-fitted, as in scikit-learn's TargetEncoder: a training sample is
    encoded by the mean of its value in the other folds. Means are shrunk to the overall mean by
    empirical Bayes, which also encodes unknown values. A missing value is a value.

    Parameters
    ----------
    task : {"classification", "regression"} or None, default="classification"
        How y is encoded: as indicators of the classes, or standardised. None ignores it.

    Attributes
    ----------
    columns_ : list of int
        The encoded columns. Empty without y.
    values_ : list of ndarray of shape (n_values,)
        The distinct values of each of `columns_`, sorted.
    means_ : list of ndarray of shape (n_values + 2, n_outputs)
        The shrunk mean target of each value, of missing values and of unknown values.
    outputs_ : list
        Names of the outputs.
    """

    def __init__(self, task: str | None = "classification"):
        self.task = task

    def fit_transform(  # type: ignore[override]
        self, X: Any, y: Any = None, groups: Any = None
    ) -> npt.NDArray[np.float32]:
        """Fit, and return the cross-fitted encoding, of shape (n_samples, n_encoded).

        Samples of one of the `groups`, of shape (n_samples,), are in one fold.
        """
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        self.columns_: list[int] = []
        self.values_: list[npt.NDArray] = []
        self.means_: list[npt.NDArray] = []
        self.outputs_: list[Any] = []
        encoded: list[npt.NDArray] = []
        if y is not None and self.task is not None and X.shape[1] <= MAX_FEATURES:
            Y, self.outputs_ = encode_target(y, self.task)
            if Y.shape[1] <= _MAX_ENCODED:
                encoded = self._fit(X, to_dense(Y), draw_folds(len(X), groups))
        return stack_encoded(encoded, len(X))

    def _fit(self, X, Y, fold):
        """Select columns, and return their cross-fitted encodings."""
        self.columns_ = _select(X, Y, fold, _MAX_ENCODED // Y.shape[1])
        self.values_ = [_distinct(X[:, j]) for j in self.columns_]
        encoded = []
        for cell, values in zip(self._cells(X), self.values_, strict=True):
            smoothing, _ = estimate_smoothing(cell, Y)
            means, of_samples = cross_fit(fold, cell, len(values) + 2, Y, smoothing)
            self.means_.append(means)
            encoded.append(of_samples)
        return encoded

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the encoding of new samples, by the means of all training samples."""
        check_is_fitted(self, "columns_")
        X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        pairs = zip(self.means_, self._cells(X), strict=True)
        return stack_encoded([means[cell] for means, cell in pairs], len(X))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return names such as "mean(a)", with the output if there are several."""
        names = input_names(self, input_features)
        return unique_names(
            f"mean({names[j]}){suffix}" for j in self.columns_ for suffix in self._output_suffixes
        )

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each feature the column that it is computed from."""
        return [(j,) for j in self.columns_ for _ in self._output_suffixes]

    def _cells(self, X):
        """Return, for each encoded column, the row of `means_` of each sample."""
        return [
            _to_cells(X[:, j], values)
            for j, values in zip(self.columns_, self.values_, strict=True)
        ]


def _distinct(column):
    return np.unique(column[~np.isnan(column)])


def _to_cells(column, values):
    """Return the position of each value in sorted `values`, after them if missing or unknown."""
    column = match_rounded(column, values)  # 0.1 in float32 is another number than in float64
    cell = np.minimum(np.searchsorted(values, column), len(values) - 1)
    is_unknown = values[cell] != column
    return np.where(is_unknown, len(values) + ~np.isnan(column), cell)


def _select(X, Y, fold, max_columns):
    """Return the columns to encode, in ascending order."""
    if len(X) > _SELECTION_SAMPLES:
        X, Y, fold = resample(
            X, Y, fold, replace=False, n_samples=_SELECTION_SAMPLES, random_state=0
        )
    squares = np.square(Y - Y.mean(axis=0)).sum()
    decreases = np.array([_error_decrease(column, Y, fold) for column in X.T])
    best = np.argsort(-decreases, kind="stable")[:max_columns]
    return sorted(int(j) for j in best if decreases[j] > _MIN_DECREASE * squares)


def _error_decrease(column, Y, fold):
    """Return by how much the mean of equal values in other folds lowers the squared error.

    The other prediction is the mean target of the next smaller and the next larger values. 0 if the
    decrease may be due to chance.
    """
    is_present = ~np.isnan(column)
    column, Y, fold = column[is_present], Y[is_present], fold[is_present]
    values, cell = np.unique(column, return_inverse=True)
    if not 3 < len(values) < len(column):
        return 0.0
    neighbors, is_inside = _neighbor_means(cell, Y)
    counts, sums = count_and_sum_by_fold(fold, cell, len(values), Y)
    counts, sums = ((each.sum(axis=0) - each)[fold, cell] for each in (counts, sums))
    rows = is_inside[cell] & (counts >= _MIN_COUNT)
    with_neighbors = neighbors[cell[rows]]
    with_values = (sums + _SMOOTHING * neighbors[cell])[rows] / (counts[rows, None] + _SMOOTHING)
    error, value_error = (
        np.square(Y[rows] - predicted).sum(axis=1) for predicted in (with_neighbors, with_values)
    )
    decreases = error - value_error
    decrease = decreases.sum()
    is_significant = decrease > _MIN_SIGMAS * np.sqrt(np.square(decreases).sum())
    return float(decrease) if is_significant else 0.0


def _neighbor_means(cell, Y):
    """Return the mean target next to each cell, and whether it has enough samples on both sides.

    Neighbours are at least as many as the samples of the cell, so that their mean is not less exact
    than that of the cell.
    """
    counts = np.bincount(cell)
    sums = np.zeros((len(Y) + 1, Y.shape[1]))
    np.cumsum(Y[np.argsort(cell, kind="stable")], axis=0, out=sums[1:])
    stops = np.cumsum(counts)
    starts = stops - counts
    widths = np.maximum(counts, _N_NEIGHBORS)
    lower, upper = np.maximum(starts - widths, 0), np.minimum(stops + widths, len(Y))
    n_below, n_above = starts - lower, upper - stops
    below = (sums[starts] - sums[lower]) / np.maximum(n_below, 1)[:, None]
    above = (sums[upper] - sums[stops]) / np.maximum(n_above, 1)[:, None]
    return (below + above) / 2, np.minimum(n_below, n_above) >= _MIN_NEIGHBORS
