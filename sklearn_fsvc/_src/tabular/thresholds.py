"""ThresholdEncoder: indicators of numerical columns above thresholds at which the target jumps."""

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import resample

from ..data.columns import input_names, unique_names
from ..data.validation import to_dense
from ..engines.threads import n_threads, parallel_for
from .numerical_interactions import RankedFeatureEncoder
from .scalers import RankScaler

# Thresholds are learned from this many samples at most, and from no fewer than the second number.
_SAMPLES, _MIN_SAMPLES = 4096, 200
# With more classes or outputs there are no thresholds, since the fit of a tree would be slow.
_MAX_OUTPUTS = 30
# A column of fewer distinct values needs no threshold: they are far apart.
_MIN_VALUES = 32
# (number of trees, factor): the splits of the trees are candidates, and the thresholds must lower
# the leave-one-out error of a kernel ridge regression by the factor, which is about 1 without
# jumps. A few trees show whether there are thresholds, and more find all of them.
_STAGES = (12, 0.92), (48, 0.87)
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
# Samples and units of the ridge regression, and its penalties.
_RIDGE_SAMPLES, _RIDGE_UNITS, _PENALTIES = 1500, 300, np.logspace(-4, 1, 6)


class Threshold(NamedTuple):
    """A threshold of the values of a column."""

    column: int
    value: float


class _Splits(NamedTuple):
    """Splits of trees, of shape (n_splits,) each.

    `local` and `total` are inner products of differences of the mean target, times a number of
    samples: of the difference next to the split and that of both sides, and of the latter with
    itself.
    """

    column: npt.NDArray
    rank: npt.NDArray  # of the threshold, among the distinct values of the column
    decrease: npt.NDArray  # of the squared error
    local: npt.NDArray
    total: npt.NDArray

    def taken(self, indices: Any) -> "_Splits":
        """Return some of the splits."""
        return _Splits(*(each[indices] for each in self))


class ThresholdEncoder(RankedFeatureEncoder):
    """Indicators of numerical columns above thresholds, if the target jumps there.

    Examples are rules such as "four of seven columns are positive". A network needs many units for
    a jump, and a decision tree needs one split.

    Candidates are the splits of trees that are fitted to random subsets of the samples. A column
    has a threshold where its splits concentrate, and where the means of the target immediately
    below and above, of samples that did not fit the tree, differ nearly as much as those of all
    samples on both sides, as in a regression discontinuity design (D. L. Thistlethwaite and D. T.
    Campbell, Journal of Educational Psychology 51, 1960). Up to 10 thresholds are used, if the
    indicators lower the leave-one-out error of a kernel ridge regression by 13 %, compared with
    the columns instead of the indicators. They are scaled by ranks.

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

    def fit(self, X: Any, y: Any = None) -> "ThresholdEncoder":
        self.thresholds_: list[Threshold] = self._select_features(X, y, _select, _MIN_SAMPLES)
        return self

    @property
    def _features(self):
        return self.thresholds_

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return names such as "a>2.5"."""
        names = input_names(self, input_features)
        return unique_names(f"{names[each.column]}>{each.value:.6g}" for each in self.thresholds_)

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each feature the column that it is computed from."""
        return [(each.column,) for each in self.thresholds_]

    @staticmethod
    def _compute(X, thresholds):
        columns, values = [each.column for each in thresholds], [each.value for each in thresholds]
        return (X[:, columns] > values).astype(float)


def _select(X, Y):
    """Return the thresholds, those of the largest decrease of the squared error first."""
    if Y.shape[1] > _MAX_OUTPUTS:
        return []
    if len(X) > _SAMPLES:
        X, Y = resample(X, Y, replace=False, n_samples=_SAMPLES, random_state=0)
    Y = to_dense(Y)
    # Trees convert values to float32; ranks of distinct values are exact, whatever the values.
    pairs = [np.unique(column, return_inverse=True) for column in X.T]
    values, ranks = [v for v, _ in pairs], np.column_stack([r for _, r in pairs])
    columns = [j for j, v in enumerate(values) if len(v) >= _MIN_VALUES]
    thresholds: list[Threshold] = []
    for n_trees, factor in _STAGES:
        candidates = _candidates(ranks, Y, columns, n_trees)
        thresholds = [Threshold(j, _between(values[j], rank)) for j, rank, _ in candidates]
        is_enough = sum(decrease for *_, decrease in candidates) > _MIN_TOTAL
        if not is_enough or not _error_factor(X, Y, thresholds) < factor:
            return []
    return thresholds


def _candidates(ranks, Y, columns, n_trees):
    """Return (column, rank, relative decrease of the squared error) of up to 10 thresholds."""
    splits = _grow_trees(ranks, Y, n_trees)
    decrease, found = splits.decrease.sum(), []
    for j in columns:
        own = splits.taken(splits.column == j)
        if own.decrease.sum() > _MIN_COLUMN * decrease:
            for rank, explained in _jumps(own, np.sort(ranks[:, j])):
                found.append((j, rank, explained / decrease))
    return sorted(found, key=lambda each: -each[2])[:_MAX_THRESHOLDS]


def _jumps(splits, ranks):
    """Return (rank, decrease of the squared error) where splits of a column show a jump.

    `ranks` are those of the samples, sorted.
    """
    least, found = _MIN_CONCENTRATION * splits.decrease.sum(), []
    splits = splits.taken(np.argsort(splits.rank, kind="stable"))
    positions = np.searchsorted(ranks, splits.rank, side="right") / len(ranks)
    for _ in range(_MAX_PER_COLUMN):
        near = _densest(positions, splits.decrease)
        densest = splits.taken(near)
        if not densest.decrease.sum() > least:
            break
        if densest.local.sum() > _MIN_JUMP * densest.total.sum():
            sums = np.cumsum(densest.decrease)
            median = min(np.searchsorted(sums, sums[-1] / 2), len(sums) - 1)
            found.append((int(densest.rank[median]), sums[-1]))
        centre = (positions[near][0] + positions[near][-1]) / 2
        is_far = abs(positions - centre) > _DISTANCE
        splits, positions = splits.taken(is_far), positions[is_far]
        if not len(positions):
            break
    return found


def _densest(positions, decrease):
    """Return the slice of sorted positions within `_WIDTH` that have the largest decrease."""
    stops = np.searchsorted(positions, positions + _WIDTH, side="right")
    sums = np.append(0, np.cumsum(decrease))
    start = int(np.argmax(sums[stops] - sums[:-1]))
    return slice(start, stops[start])


def _grow_trees(ranks, Y, n_trees):
    """Return the `_Splits` of trees, with differences for samples that did not fit the tree."""
    random = np.random.default_rng(0)
    orders = [random.permutation(len(ranks)) for _ in range(n_trees)]
    splits: list[Any] = [None] * n_trees

    def grow(seed):
        splits[seed] = _grow_tree(ranks, Y, orders[seed], seed)

    parallel_for(grow, range(n_trees), n_threads())
    fields = np.array(list(chain.from_iterable(splits)))
    return _Splits(*fields.reshape(-1, len(_Splits._fields)).T)


def _grow_tree(ranks, Y, order, seed):
    """Return the fields of `_Splits` for each split of a tree; the last rows do not fit it."""
    # Imported here: it takes long, and transformers do not need it.
    from sklearn.tree import DecisionTreeRegressor

    n_bag = int(_BAG * len(ranks))
    tree = DecisionTreeRegressor(
        max_depth=_MAX_DEPTH, min_samples_leaf=_MIN_LEAF, random_state=seed
    )
    nodes = tree.fit(ranks[order[:n_bag]], Y[order[:n_bag]]).tree_
    errors = nodes.weighted_n_node_samples * nodes.impurity
    remaining, splits = [(0, order[n_bag:])], []
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
        splits.append((column, threshold, decrease, *_differences(Y[below], Y[above])))
    return splits


def _differences(below, above):
    """Return `local` and `total` of `_Splits`, for the targets in the order of the column."""
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
    indicators = RankScaler(random_state=0).fit_transform(ThresholdEncoder._compute(X, thresholds))
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
