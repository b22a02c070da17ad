"""InteractionEncoder: target encoding of pairs of categorical features that interact."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import resample
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import input_names, unique_names
from ..data.validation import to_dense
from .categories import MAX_CATEGORIES, category_codes, fit_ordinal, unify_missing
from .target_means import (
    MAX_ENCODED,
    CrossFittedEncoder,
    Residuals,
    additive_residuals,
    cross_fit,
    draw_folds,
    encode_target,
    stack_encoded,
)

# With more categorical features no interactions are added: a few of very many possible ones
# displace the features themselves.
MAX_CATEGORICAL_FEATURES = 12
# Samples that pairs are selected by.
_SELECTION_SAMPLES = 10_000
# Share of the residual sum of squares that the best pair has to explain, or all equalities
# together; that the cells of a pair have to explain in addition to its equality; and that each
# equality, which is a single number and so hardly ever noise, has to explain.
_MIN_EXPLAINED, _MIN_EQUALITY = 0.05, 0.02
# Two columns share a set of values if so many categories occur as equal values. The equality of
# fewer is a combination of single categories, as cells are.
_MIN_EQUAL_CATEGORIES = 3
# Weight of the overall mean in the mean of a cell, in samples.
_SMOOTHING = 10


class InteractionEncoder(CrossFittedEncoder):
    """Target encoding of pairs of categorical features, for pairs that interact.

    A pair is encoded as one feature, or as one per output, or per class if there are more than
    two. If there is such a pair, each single feature is encoded, too: networks that learn feature
    weights then prefer the encoded features to the one-hot ones, and should not lose those that
    are in no pair.

    The cells of a pair are the combinations of two categories, or only two: samples with unequal
    and with equal values, if these explain nearly as much. They also have enough samples if there
    are many categories. Values are compared, not codes of categories, so that infrequent and
    unknown values can be equal. A missing value is equal to none, as in pandas: two missing values
    are unequal.

    `fit_transform` is cross-fitted, as in scikit-learn's TargetEncoder: a training sample is
    encoded by the mean of its cell in the other folds, so that its own target is not used. Other
    samples of its cell do contain it in their encoding; hence a leave-one-out error of the
    network is optimistic where cells have few samples (``benchmarks/interactions.py``). Two
    alternatives are worse. A leave-one-out mean reveals the target: it is the difference of the
    sum of the cell and the mean. An ordered mean, over the preceding samples of a random
    permutation, as in CatBoost, is noise for the first samples; it costs RBF networks 0.4 points
    of accuracy on a rule-like dataset.

    Parameters
    ----------
    task : {"classification", "regression"}
        How y is encoded: as indicators of the classes, or standardised.

    Attributes
    ----------
    pairs_ : list of tuple of int
        The encoded features: (i, i) for each single feature, then the pairs. Empty without y,
        and if no pair explains much more than its features do separately.
    equalities_ : list of tuple of int
        Those of `pairs_` whose two cells are unequal and equal values, in this order.
    means_ : list of ndarray of shape (n_cells, n_outputs)
        The smoothed mean target of each cell, for each of `pairs_`.
    outputs_ : list
        Names of the outputs.
    """

    def __init__(self, task="classification"):
        self.task = task

    def fit_transform(  # type: ignore[override]
        self, X: Any, y: Any = None, groups: Any = None
    ) -> npt.NDArray:
        """Fit, and return the cross-fitted encoding, of shape (n_samples, n_encoded).

        Samples of one of the `groups`, of shape (n_samples,), are in one fold.
        """
        validate_data(self, X, skip_check_array=True)  # sets feature_names_in_
        self.pairs_: list[tuple[int, int]] = []
        self.equalities_: list[tuple[int, int]] = []
        self.means_: list[npt.NDArray] = []
        self.outputs_: list[Any] = []
        if y is None or not 2 <= self.n_features_in_ <= MAX_CATEGORICAL_FEATURES:
            return stack_encoded([], len(X))
        Y, self.outputs_ = encode_target(y, self.task)
        max_pairs = MAX_ENCODED // Y.shape[1] - self.n_features_in_
        if max_pairs < 1:
            return stack_encoded([], len(X))
        Y = to_dense(Y)
        X = unify_missing(X)
        self.encoder_ = fit_ordinal(X, MAX_CATEGORIES)
        codes = category_codes(self.encoder_, X)
        self.n_categories_ = np.maximum(codes.max(axis=0), 1) + 1
        self.pairs_, self.equalities_ = _select_pairs(X, codes, Y, max_pairs)
        fold = draw_folds(len(Y), groups)
        encoded = [
            cross_fit(fold, cell, n_cells, Y, _SMOOTHING) for cell, n_cells in self._cells(X, codes)
        ]
        self.means_ = [means for means, _ in encoded]
        return stack_encoded([H for _, H in encoded], len(X))

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the encoding of new samples, by the means of all training samples."""
        check_is_fitted(self, "pairs_")
        validate_data(self, X, reset=False, skip_check_array=True)
        if not self.pairs_:
            return stack_encoded([], len(X))
        X = unify_missing(X)
        cells = self._cells(X, category_codes(self.encoder_, X))
        pairs = zip(self.means_, cells, strict=True)
        return stack_encoded([means[cell] for means, (cell, _) in pairs], len(X))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return the names: "a", "a*b", and "a==b", with the output if there are several."""
        names = input_names(self, input_features)
        operators = ["==" if pair in self.equalities_ else "*" for pair in self.pairs_]
        pairs = [
            f"{names[i]}{operator}{names[j]}" if i < j else names[i]
            for (i, j), operator in zip(self.pairs_, operators, strict=True)
        ]
        return unique_names(pair + suffix for pair in pairs for suffix in self._output_suffixes)

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each encoded feature the columns that it is computed from: one or two."""
        return [(i, j) if i < j else (i,) for i, j in self.pairs_ for _ in self._output_suffixes]

    def _cells(self, X, codes):
        """Return, for each pair, the cell of each sample and the number of cells."""
        return [self._cell(X, codes, i, j) for i, j in self.pairs_]

    def _cell(self, X, codes, i, j):
        n = self.n_categories_
        if i == j:
            return codes[:, i], n[i]
        if (i, j) in self.equalities_:
            return _equal(X, i, j), 2
        return codes[:, i] * n[j] + codes[:, j], n[i] * n[j]


def _select_pairs(X, codes, Y, max_pairs):
    """Return single features and interacting pairs as (i, j), and which of them are equalities.

    The criterion is what cells of a pair explain of the residuals of the additive model. Nothing
    is returned if the best pair is too weak.
    """
    if len(codes) > _SELECTION_SAMPLES:
        X, codes, Y = resample(
            X, codes, Y, replace=False, n_samples=_SELECTION_SAMPLES, random_state=0
        )
    pairs = list(combinations(range(codes.shape[1]), 2))
    # Where the additive model is exact, the residuals are only the shrinkage of Ridge.
    residuals = Residuals.of(additive_residuals(codes, Y), Y, 0.01)
    if residuals.squares == 0:
        return [], []
    scores = np.array([_explained(codes[:, pair], residuals) for pair in pairs])
    equality_scores = np.array(
        [_explained_by_equality(X, codes, pair, Y, residuals) for pair in pairs]
    )
    is_equality = equality_scores > 0
    scores[is_equality] = equality_scores[is_equality]
    if max(scores.max(), equality_scores.sum()) < _MIN_EXPLAINED:
        return [], []
    best = [k for k in np.argsort(-scores, kind="stable")[:max_pairs] if scores[k] > 0]
    singles = [(i, i) for i in range(codes.shape[1])]
    return singles + [pairs[k] for k in best], [pairs[k] for k in best if is_equality[k]]


def _equal(X, i, j):
    """Return for each sample 1 if the values of two columns are equal, else 0."""
    with np.errstate(invalid="ignore"):  # comparisons of NaN, on some processors
        return (X[:, i] == X[:, j]).astype(np.intp)


def _explained_by_equality(X, codes, pair, Y, residuals):
    """Return the share that the equality of two columns explains, beyond noise.

    0 if it is small, or if the cells explain more in addition.
    """
    equal = _equal(X, *pair)
    if len(np.unique(codes[equal == 1, pair[0]])) < _MIN_EQUAL_CATEGORIES:
        return 0.0
    score = residuals.explained_share(equal, 1)
    if score < _MIN_EQUALITY:
        return 0.0
    rest = additive_residuals(np.column_stack([codes, equal]), Y)
    in_addition = _explained(codes[:, pair], replace(residuals, values=rest))
    return score if in_addition < _MIN_EXPLAINED else 0.0


def _explained(codes, residuals):
    """Return the share of the residual squares that the cells of a pair explain, beyond noise."""
    first, second = codes.T
    cell = first * (second.max() + 1) + second
    # The additive model has fitted the means of the categories of both features.
    n_constraints = len(np.unique(first)) + len(np.unique(second)) - 1
    return residuals.explained_share(cell, n_constraints)
