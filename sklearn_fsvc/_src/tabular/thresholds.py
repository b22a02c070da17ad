"""ThresholdEncoder: indicators of numerical columns above thresholds at which the target jumps."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import resample
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import input_names, unique_names
from ..data.validation import to_dense
from .numerical_interactions import MAX_FEATURES
from .scalers import RankScaler
from .target_means import encode_target

# Thresholds are learned from this many samples at most, and from no fewer than the second number.
_SAMPLES, _MIN_SAMPLES = 4096, 200
# With more classes or outputs there are no thresholds: the trees would take long.
_MAX_OUTPUTS = 30
# A column of fewer distinct values needs no threshold: they are far apart.
_MIN_VALUES = 32
# Trees whose splits are candidates: first a few, and more if they find thresholds. These have to
# lower the leave-one-out error of a kernel ridge regression by a factor, which is 0.93 to 1.02 on
# datasets without jumps. Few trees find a part of the thresholds, which lowers the error by less.
_FIRST_TREES, _FIRST_FACTOR, _N_TREES, _MAX_FACTOR = 12, 0.92, 48, 0.87
# Their depth, the samples of a leaf, and the fraction of the samples that fit each.
_MAX_DEPTH, _MIN_LEAF, _BAG = 7, 10, 0.6
# The samples next to a split: this fraction of those on each side, but at least so many.
_LOCAL, _MIN_LOCAL = 0.1, 3
# Splits within this fraction of the samples are the same threshold; the next one is farther away.
_WIDTH, _DISTANCE = 0.02, 0.04
# Minimum decrease of the squared error by the splits of a column, as a fraction of that by all
# splits; by those of one threshold, as a fraction of that of its column; and by all thresholds.
_MIN_COLUMN, _MIN_CONCENTRATION, _MIN_TOTAL = 0.02, 0.25, 0.05
# Minimum difference of the target next to a split, as a fraction of that between both sides.
_MIN_JUMP = 0.65
# Maximum numbers of thresholds.
_MAX_PER_COLUMN, _MAX_THRESHOLDS = 3, 10
# Samples and units of that regression, and its penalties.
_RIDGE_SAMPLES, _RIDGE_UNITS, _PENALTIES = 1500, 300, np.logspace(-4, 1, 6)


class Threshold(NamedTuple):
    """A threshold of the values of a column."""

    column: int
    value: float


class _Split(NamedTuple):
    """A split of a node of a tree, by ranks of distinct values."""

    column: int
    threshold: float
    decrease: float  # of the squared error
    # Inner products of the differences of the mean targets, times a number of samples: of the local
    # difference and that of both sides, and of the latter with itself.
    local: float
    total: float


class ThresholdEncoder(TransformerMixin, BaseEstimator):
    """Indicators of numerical columns above thresholds, if the target jumps there.

    Examples are rules such as "four of seven columns are positive". A network needs many units for
    a jump, and a decision tree needs one split.

    Candidates are the splits of trees that are fitted to random subsets of the samples. A column
    has a threshold where its splits concentrate, and where the means of the target immediately
    below and above, of samples that did not fit the tree, differ nearly as much as those of all
    samples on both sides. Up to 10 thresholds are used, if the indicators lower the leave-one-out
    error of a kernel ridge regression by 13 %, compared with the columns instead of the indicators.
    They are scaled by ranks.

    Parameters
    ----------
    task : {"classification", "regression"} or None, default="classification"
        How y is encoded: as indicators of the classes, or standardised. None ignores it.

    Attributes
    ----------
    thresholds_ : list of Threshold
        Empty without y.
    scaler_ : RankScaler or None
        None without thresholds.
    """

    def __init__(self, task: str | None = "classification"):
        self.task = task

    def fit(self, X: Any, y: Any = None) -> "ThresholdEncoder":
        X = validate_data(self, X, dtype=np.float64)
        self.thresholds_: list[Threshold] = []
        self.scaler_ = None
        is_suitable = len(X) >= _MIN_SAMPLES and X.shape[1] <= MAX_FEATURES
        if y is not None and self.task is not None and is_suitable:
            Y, _ = encode_target(y, self.task)
            self.thresholds_ = _select(X, Y)
        if self.thresholds_:
            self.scaler_ = RankScaler(random_state=0).fit(_indicators(X, self.thresholds_))
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features, of shape (n_samples, n_thresholds)."""
        check_is_fitted(self, "thresholds_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        if self.scaler_ is None:
            return np.empty((len(X), 0), np.float32)
        return self.scaler_.transform(_indicators(X, self.thresholds_))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return names such as "a>2.5"."""
        names = input_names(self, input_features)
        return unique_names(f"{names[each.column]}>{each.value:.6g}" for each in self.thresholds_)

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each feature the column that it is computed from."""
        return [(each.column,) for each in self.thresholds_]


def _indicators(X, thresholds):
    """Return whether the values are above each threshold, (n_samples, n_thresholds), float64."""
    columns, values = [each.column for each in thresholds], [each.value for each in thresholds]
    return (X[:, columns] > values).astype(float)


def _select(X, Y):
    """Return the thresholds, those of the largest decrease of the squared error first."""
    if len(X) > _SAMPLES:
        X, Y = resample(X, Y, replace=False, n_samples=_SAMPLES, random_state=0)
    if Y.shape[1] > _MAX_OUTPUTS:
        return []
    Y = to_dense(Y)
    # Trees convert values to float32; ranks of distinct values are exact, whatever the values.
    values = [np.unique(column) for column in X.T]
    ranks = np.column_stack([np.searchsorted(v, x) for v, x in zip(values, X.T, strict=True)])
    columns = [j for j, v in enumerate(values) if len(v) >= _MIN_VALUES]
    thresholds: list[Threshold] = []
    for n_trees, factor in (_FIRST_TREES, _FIRST_FACTOR), (_N_TREES, _MAX_FACTOR):
        candidates = _candidates(ranks, Y, columns, n_trees)
        thresholds = [Threshold(j, _between(values[j], rank)) for j, rank, _ in candidates]
        is_enough = sum(decrease for *_, decrease in candidates) > _MIN_TOTAL
        if not is_enough or not _error_factor(X, Y, thresholds) < factor:
            return []
    return thresholds


def _candidates(ranks, Y, columns, n_trees):
    """Return (column, rank, relative decrease of the squared error) of up to 10 thresholds."""
    splits = np.array(_splits(ranks, Y, n_trees)).reshape(-1, len(_Split._fields))
    decrease, found = splits[:, 2].sum(), []
    for j in columns:
        own = splits[splits[:, 0] == j]
        least = _MIN_CONCENTRATION * own[:, 2].sum()
        if not own[:, 2].sum() > _MIN_COLUMN * decrease:
            continue
        positions = np.searchsorted(np.sort(ranks[:, j]), own[:, 1], side="right") / len(ranks)
        order = np.argsort(positions, kind="stable")
        own, positions = own[order], positions[order]
        for _ in range(_MAX_PER_COLUMN):
            inside = _densest(positions, own[:, 2])
            part = own[inside]
            if not part[:, 2].sum() > least:
                break
            if part[:, 3].sum() > _MIN_JUMP * part[:, 4].sum():
                median = np.searchsorted(np.cumsum(part[:, 2]), part[:, 2].sum() / 2)
                rank = part[min(median, len(part) - 1), 1]
                found.append((j, int(rank), part[:, 2].sum() / decrease))
            centre = (positions[inside][0] + positions[inside][-1]) / 2
            is_far = abs(positions - centre) > _DISTANCE
            own, positions = own[is_far], positions[is_far]
            if not len(own):
                break
    return sorted(found, key=lambda each: -each[2])[:_MAX_THRESHOLDS]


def _densest(positions, decrease):
    """Return the slice of sorted positions within `_WIDTH` that have the largest decrease."""
    stops = np.searchsorted(positions, positions + _WIDTH, side="right")
    sums = np.append(0, np.cumsum(decrease))
    start = int(np.argmax(sums[stops] - sums[:-1]))
    return slice(start, stops[start])


def _splits(ranks, Y, n_trees):
    """Return the splits of trees, with jumps of the target for samples that did not fit them."""
    # Imported here: it takes long, and transformers do not need it.
    from sklearn.tree import DecisionTreeRegressor

    random, n_bag, splits = np.random.default_rng(0), int(_BAG * len(ranks)), []
    for seed in range(n_trees):
        order = random.permutation(len(ranks))
        tree = DecisionTreeRegressor(
            max_depth=_MAX_DEPTH, min_samples_leaf=_MIN_LEAF, random_state=seed
        )
        nodes = tree.fit(ranks[order[:n_bag]], Y[order[:n_bag]]).tree_
        errors = nodes.weighted_n_node_samples * nodes.impurity
        remaining = [(0, order[n_bag:])]
        while remaining:
            node, rows = remaining.pop()
            left, right = nodes.children_left[node], nodes.children_right[node]
            if left == -1:
                continue
            column, threshold = nodes.feature[node], nodes.threshold[node]
            rows = rows[np.argsort(ranks[rows, column], kind="stable")]
            n_below = np.searchsorted(ranks[rows, column], threshold, side="right")
            below, above = rows[:n_below], rows[n_below:]
            remaining += [(left, below), (right, above)]
            decrease = errors[node] - errors[left] - errors[right]
            splits.append(_Split(column, threshold, decrease, *_jump(Y[below], Y[above])))
    return splits


def _jump(below, above):
    """Return `local` and `total` of `_Split`, for the targets in the order of the column."""
    if min(len(below), len(above)) < 2 * _MIN_LOCAL:
        return 0.0, 0.0
    n, m = (max(_MIN_LOCAL, int(_LOCAL * len(side))) for side in (below, above))
    total = above.mean(axis=0) - below.mean(axis=0)
    local = above[:m].mean(axis=0) - below[-n:].mean(axis=0)
    # The inverse variance of the local difference.
    weight = n * m / (n + m)
    return weight * (local @ total), weight * (total @ total)


def _between(values, rank):
    """Return a number between two successive values, or the lower one if there is none."""
    middle = values[rank] / 2 + values[rank + 1] / 2
    return float(middle if values[rank] <= middle < values[rank + 1] else values[rank])


def _error_factor(X, Y, thresholds):
    """Return the factor by which the indicators multiply the leave-one-out error.

    The other regression has the columns twice, since a larger weight would help it, too.
    """
    if len(X) > _RIDGE_SAMPLES:
        X, Y = resample(X, Y, replace=False, n_samples=_RIDGE_SAMPLES, random_state=0)
    scores = RankScaler(random_state=0).fit_transform(X)
    indicators = RankScaler(random_state=0).fit_transform(_indicators(X, thresholds))
    columns = [each.column for each in thresholds]
    with_columns, with_indicators = (
        _error(np.hstack([scores, further]), Y) for further in (scores[:, columns], indicators)
    )
    return with_indicators / (with_columns or 1)


def _error(X, Y):
    """Return the leave-one-out error of a ridge regression of approximate Laplacian kernels."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.metrics import pairwise_distances

    distances = pairwise_distances(X[:_RIDGE_UNITS], metric="manhattan")
    gamma = 1 / np.median(distances[distances > 0])
    units = min(_RIDGE_UNITS, len(X) // 3)
    H = Nystroem(kernel="laplacian", gamma=gamma, n_components=units, random_state=0)
    return -RidgeCV(_PENALTIES).fit(H.fit_transform(X), Y).best_score_
