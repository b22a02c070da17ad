"""NumericalInteractionEncoder: differences, ratios, products and equality of pairs of columns."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import resample
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import input_names, unique_names
from ..data.validation import to_dense
from .scalers import RankScaler
from .target_means import Residuals, additive_residuals, encode_target, to_intervals

# With more features no interactions are added: there are too many pairs.
MAX_FEATURES = 64
# Samples by which interactions are selected; fewer for the first look at many pairs.
_SAMPLES, _FIRST_SAMPLES = 4096, 1024
# Candidates after the first look, and interactions at the end: all pairs of six columns.
_MAX_CANDIDATES, _MAX_INTERACTIONS = 200, 15
# Share of the residual sum of squares that the best interaction has to explain, or all that are
# selected together; and the share of what the best explains that others have to.
_MIN_EXPLAINED, _MIN_TOGETHER, _MIN_RELATIVE = 0.03, 0.2, 0.25
# Intervals, of equally many samples, in which a feature has a mean.
_N_INTERVALS = 16
# Two columns share a set of values if each has at most as many distinct values, and half of them
# in common.
_MAX_SHARED_VALUES = 200
# Two columns share a unit if the ratio of their spreads is smaller.
_MAX_SPREAD_RATIO = 4


class Interaction(NamedTuple):
    """A feature of the columns i and j: their difference, for example.

    `first` and `second` are subtracted from the factors of a product.
    """

    operator: str
    i: int
    j: int
    first: float = 0.0
    second: float = 0.0

    def compute(self, X: npt.NDArray) -> npt.NDArray[np.float64]:
        """Return the feature of samples, of shape (n_samples,); 0 where a ratio is undefined."""
        a, b = X[:, self.i], X[:, self.j]
        if self.operator == "==":
            return (a == b).astype(float)
        if self.operator == "-":
            return a - b
        if self.operator == "/":
            return np.divide(a, b, out=np.zeros(len(X)), where=b != 0)
        return (a - self.first) * (b - self.second)


class RankedFeatureEncoder(TransformerMixin, BaseEstimator):
    """Base class: features that are computed from numerical columns, and scaled by ranks.

    Subclasses select them in `fit` and have a property `_features`.
    """

    def __init__(self, task: str | None = "classification"):
        self.task = task

    def _select_features(self, X: Any, y: Any, select: Any, min_samples: int = 0) -> list[Any]:
        """Return ``select(X, Y)``, and fit `scaler_` to the features; empty without a target."""
        X = validate_data(self, X, dtype=np.float64)
        self.scaler_ = None
        is_suitable = len(X) >= min_samples and X.shape[1] <= MAX_FEATURES
        if y is None or self.task is None or not is_suitable:
            return []
        Y, _ = encode_target(y, self.task)
        features = select(X, Y)
        if features:
            self.scaler_ = RankScaler(random_state=0).fit(self._compute(X, features))
        return features

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features, of shape (n_samples, n_features)."""
        check_is_fitted(self, "scaler_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        if self.scaler_ is None:
            return np.empty((len(X), 0), np.float32)
        return self.scaler_.transform(self._compute(X, self._features))


class NumericalInteractionEncoder(RankedFeatureEncoder):
    """Features of pairs of numerical columns, for pairs that interact.

    Candidates are the equality of two columns that share a set of values, the difference of two
    that share a unit, else the ratio if all values are positive, and the product; values are
    centred at the median for it, unless they are positive. A network needs many units for such a
    rule, and boosted trees need many splits.

    A candidate is selected if the means of the target in 16 intervals of its values explain more
    of the residuals of an additive model of the columns than they would of noise; up to 15 are, if
    the best explains 3 % or all together explain 20 %. They are scaled by ranks.

    Parameters
    ----------
    task : {"classification", "regression"} or None, default="classification"
        How y is encoded: as indicators of the classes, or standardised. None ignores it.

    Attributes
    ----------
    interactions_ : list of Interaction
        Empty without y.
    scaler_ : RankScaler or None
        None without interactions.
    """

    def fit(self, X: Any, y: Any = None) -> "NumericalInteractionEncoder":
        self.interactions_: list[Interaction] = self._select_features(X, y, _select)
        return self

    @property
    def _features(self):
        return self.interactions_

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return names such as "a-b" and "a==b"."""
        names = input_names(self, input_features)
        return unique_names(
            f"{names[each.i]}{each.operator}{names[each.j]}" for each in self.interactions_
        )

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each feature the two columns that it is computed from."""
        return [(each.i, each.j) for each in self.interactions_]

    @staticmethod
    def _compute(X, interactions):
        with np.errstate(over="ignore", invalid="ignore"):
            H = np.stack([each.compute(X) for each in interactions], axis=1)
        # Differences and products of huge values.
        return np.nan_to_num(H)


def _select(X, Y):
    """Return the interactions, the strongest first."""
    if len(X) > _SAMPLES:
        X, Y = resample(X, Y, replace=False, n_samples=_SAMPLES, random_state=0)
    Y = to_dense(Y)
    intervals = np.stack([to_intervals(column, _N_INTERVALS) for column in X.T], axis=1)
    residuals = additive_residuals(intervals, Y)
    candidates = list(_candidates(X))
    if len(candidates) > _MAX_CANDIDATES and len(X) > _FIRST_SAMPLES:
        # At random, since rows may be sorted by class.
        first = resample(X, residuals, Y, replace=False, n_samples=_FIRST_SAMPLES, random_state=0)
        ranked, _ = _ranked(candidates, *first)
        candidates = ranked[:_MAX_CANDIDATES]
    candidates, scores = _ranked(candidates, X, residuals, Y)
    # One feature per pair of columns, of which candidates are alike.
    best: dict[tuple[int, int], tuple[Interaction, float]] = {}
    for candidate, score in zip(candidates, scores, strict=True):
        if score > max(0, _MIN_RELATIVE * scores[0]):
            best.setdefault((candidate.i, candidate.j), (candidate, score))
    selected = list(best.values())[:_MAX_INTERACTIONS]
    explained = [score for _, score in selected]
    # A rule such as "the largest of five columns" is spread over many pairs.
    if max(explained, default=0) < _MIN_EXPLAINED and sum(explained) < _MIN_TOGETHER:
        return []
    return [candidate for candidate, _ in selected]


def _ranked(candidates, X, residuals, Y):
    """Return the candidates and their scores, the highest first.

    The score is the share of the residual squares that a candidate explains, beyond noise.
    """
    # An additive model of intervals is inexact for a step of one column within an interval.
    residuals, scores = Residuals.of(residuals, Y, 0.2), np.zeros(len(candidates))
    if residuals.squares:
        with np.errstate(over="ignore", invalid="ignore"):
            features = (np.nan_to_num(candidate.compute(X)) for candidate in candidates)
            scores[:] = [
                residuals.explained_share(to_intervals(x, _N_INTERVALS), 1) for x in features
            ]
    order = np.argsort(-scores, kind="stable")
    return [candidates[k] for k in order], scores[order]


def _candidates(X: npt.NDArray) -> Iterator[Interaction]:
    low, median, high = np.quantile(X, [0.1, 0.5, 0.9], axis=0)
    spread = high - low
    is_positive = np.all(X > 0, axis=0)
    values = [np.unique(column) for column in X.T]
    centre = np.where(is_positive, 0, median)
    for i, j in combinations(range(X.shape[1]), 2):
        if len(values[i]) < 2 or len(values[j]) < 2:
            continue
        if _share_values(values[i], values[j]):
            yield Interaction("==", i, j)
        smaller, larger = sorted([spread[i], spread[j]])
        distance = abs(median[i] - median[j])
        if larger <= _MAX_SPREAD_RATIO * smaller and distance <= smaller + larger:
            yield Interaction("-", i, j)
        elif is_positive[i] and is_positive[j]:
            yield Interaction("/", i, j)
        yield Interaction("*", i, j, centre[i], centre[j])


def _share_values(first, second):
    fewer, more = sorted([len(first), len(second)])
    if fewer < 3 or more > _MAX_SHARED_VALUES:
        return False
    return len(np.intersect1d(first, second, assume_unique=True)) >= more / 2
