"""Encoders of categorical features: one-hot with advice, and target-encoded interactions."""

import re
from datetime import date
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import check_array, check_random_state, resample
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import is_nested
from ..utils.user_warnings import warn

# One-hot features per categorical feature; infrequent categories share the last one.
MAX_CATEGORIES = 100
# Up to this many distinct values may all be different without a warning.
_MIN_UNIQUE = 20
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b")
# Kind of a doubtful column -> its description in the warning, with the remedy.
_ADVICE = {
    "dates": (
        "dates as text or objects; parse them with pandas.to_datetime, and derive numerical "
        "features, such as the year, the day of the year and the weekday"
    ),
    "numbers": "numbers as text or objects; convert them with pandas.to_numeric",
    "unique": (
        "unique values in most rows, as of IDs and free text; drop IDs, and vectorise text with "
        "sklearn's TfidfVectorizer and TruncatedSVD"
    ),
    "many": (
        "more than max_categories={max_categories} categories, of which the infrequent ones share "
        "a feature; encode them with sklearn's TargetEncoder, or raise the limit with "
        "set_params(preprocessing__categorical__one_hot__max_categories=...)"
    ),
}

# With more categorical features no interactions are added: a few of very many possible ones
# displace the features themselves.
MAX_CATEGORICAL_FEATURES = 12
# Samples that pairs are selected by, and the limit of the number of encoded features.
_SELECTION_SAMPLES, _MAX_ENCODED = 10_000, 100
# Share of the residual sum of squares that the best pair has to explain.
_MIN_EXPLAINED = 0.05
# Standard deviations above what a pair explains of noise.
_SIGMAS = 3
# Weight of the overall mean in the mean of a cell, in samples.
_SMOOTHING = 10
_N_FOLDS = 5


class CategoryEncoder(OneHotEncoder):
    """OneHotEncoder that warns of columns which are hardly categorical, with the remedy."""

    max_categories: int | None

    def fit(self, X: Any, y: Any = None) -> "CategoryEncoder":
        max_categories = self.max_categories
        try:
            # With max_categories OneHotEncoder counts the samples of each category, which takes
            # most of the time, and is needed for few tables: it is left out in a first fit.
            self.max_categories = None
            super().fit(X, y)
            if max_categories is not None and any(
                len(categories) > max_categories for categories in self.categories_
            ):
                self.max_categories = max_categories
                super().fit(X, y)
            for categories in self.categories_:
                if any(map(is_nested, categories)):
                    # Objects such as tuples can be sorted, and pass as categories if all are alike.
                    raise TypeError("A category holds lists or the like.")
        finally:
            self.max_categories = max_categories
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        self._warn_doubtful(list(names), len(X))
        return self

    def _warn_doubtful(self, names: list[Any], n_samples: int) -> None:
        """Warn once, of all columns that should be encoded in another way."""
        doubtful: dict[str | None, list[str]] = {}
        for name, categories in zip(names, self.categories_, strict=True):
            kind = _classify(categories, n_samples, self.max_categories)
            doubtful.setdefault(kind, []).append(repr(name))
        lines = [
            f"\n  {', '.join(doubtful[kind])}: {text.format(max_categories=self.max_categories)}."
            for kind, text in _ADVICE.items()
            if kind in doubtful
        ]
        if lines:
            warn(f"Some columns of X are treated as categorical, but contain:{''.join(lines)}")


def _classify(categories, n_samples, max_categories):
    """Return the key in `_ADVICE` for a column with these categories, or None."""
    present = [c for c in categories if c is not None and c == c]  # NaN differs from itself
    if len(present) > 2 and all(map(_is_date, present)):
        return "dates"
    is_unique = len(present) > max(_MIN_UNIQUE, n_samples / 2)
    is_many = max_categories is not None and len(categories) > max_categories
    if (is_unique or is_many) and categories.dtype.kind in "OUT" and all(map(_is_number, present)):
        return "numbers"
    return "unique" if is_unique else "many" if is_many else None


def _is_date(category):
    return isinstance(category, date) or (isinstance(category, str) and bool(_DATE.match(category)))


def _is_number(category):
    try:
        float(category)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


class InteractionEncoder(TransformerMixin, BaseEstimator):
    """Target encoding of pairs of categorical features, for pairs that interact.

    A pair is encoded as one feature, or as one per output, or per class if there are more than
    two. If there is such a pair, each single feature is encoded, too: networks that learn feature
    weights then prefer the encoded features to the one-hot ones, and should not lose those that
    are in no pair.

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
    means_ : list of ndarray of shape (n_cells, n_outputs)
        The smoothed mean target of each cell, for each of `pairs_`.
    outputs_ : list
        Names of the outputs.
    """

    def __init__(self, task="classification"):
        self.task = task

    def fit(self, X: Any, y: Any = None) -> "InteractionEncoder":
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> npt.NDArray:  # type: ignore[override]
        """Fit, and return the cross-fitted encoding, of shape (n_samples, n_encoded)."""
        validate_data(self, X, skip_check_array=True)  # sets feature_names_in_
        self.pairs_: list[tuple[int, int]] = []
        self.means_: list[npt.NDArray] = []
        self.outputs_: list[Any] = []
        if y is None or not 2 <= self.n_features_in_ <= MAX_CATEGORICAL_FEATURES:
            return np.empty((len(X), 0))
        Y, self.outputs_ = _encode_target(y, self.task)
        max_pairs = _MAX_ENCODED // Y.shape[1] - self.n_features_in_
        if max_pairs < 1:
            return np.empty((len(X), 0))
        Y = Y.toarray() if issparse(Y) else Y
        self.encoder_ = OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
        ).fit(X)
        if any(len(categories) > MAX_CATEGORIES for categories in self.encoder_.categories_):
            # Slower, since it counts the samples of each category.
            self.encoder_.set_params(max_categories=MAX_CATEGORIES).fit(X)
        codes = self._codes(X)
        self.n_categories_ = np.maximum(codes.max(axis=0), 1) + 1
        self.pairs_ = _select_pairs(codes, Y, max_pairs)
        fold = check_random_state(0).permutation(len(Y)) % _N_FOLDS
        encoded = [_cross_fit(fold, cell, n_cells, Y) for cell, n_cells in self._cells(codes)]
        self.means_ = [means for means, _ in encoded]
        return _stack([H for _, H in encoded], len(X))

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the encoding of new samples, by the means of all training samples."""
        check_is_fitted(self, "pairs_")
        validate_data(self, X, reset=False, skip_check_array=True)
        cells = self._cells(self._codes(X)) if self.pairs_ else []
        pairs = zip(self.means_, cells, strict=True)
        return _stack([means[cell] for means, (cell, _) in pairs], len(X))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return the names, such as "a" and "a*b", with the output if there are several."""
        names = getattr(self, "feature_names_in_", input_features)
        names = [f"x{i}" for i in range(self.n_features_in_)] if names is None else names
        pairs = [f"{names[i]}*{names[j]}" if i < j else names[i] for i, j in self.pairs_]
        suffixes = [f"_{name}" for name in self.outputs_] if len(self.outputs_) > 1 else [""]
        return np.array([pair + suffix for pair in pairs for suffix in suffixes], dtype=object)

    def _codes(self, X):
        """Return category codes: 0 for missing values, 1 for unknown categories, then the known."""
        return self.encoder_.transform(X).astype(np.intp) + 2

    def _cells(self, codes):
        """Return, for each pair, the cell of each sample and the number of cells."""
        n = self.n_categories_
        return [
            (codes[:, i] * n[j] + codes[:, j], n[i] * n[j]) if i < j else (codes[:, i], n[i])
            for i, j in self.pairs_
        ]


def _encode_target(y, task):
    """Return Y of shape (n_samples, n_outputs), sparse for classes, and names of its columns."""
    y = y.toarray() if issparse(y) else y
    dtype = np.float64 if task == "regression" else None
    y = check_array(y, ensure_2d=False, dtype=dtype, input_name="y")
    y = y.reshape(len(y), -1)
    if task == "regression":
        scale = y.std(axis=0)
        return (y - y.mean(axis=0)) / np.where(scale > 0, scale, 1), list(range(y.shape[1]))
    indicators = OneHotEncoder(drop="if_binary").fit(y)
    prefix = "x0_" if y.shape[1] == 1 else ""
    names = [name.removeprefix(prefix) for name in indicators.get_feature_names_out()]
    return indicators.transform(y), names


def _select_pairs(codes, Y, max_pairs):
    """Return single features and interacting pairs as (i, j); nothing if the best is too weak.

    The criterion is what cells of a pair explain of the residuals of the additive model, which is
    a ridge regression on the one-hot features.
    """
    from sklearn.linear_model import Ridge  # here, since it takes long to import

    if len(codes) > _SELECTION_SAMPLES:
        codes, Y = resample(codes, Y, replace=False, n_samples=_SELECTION_SAMPLES, random_state=0)
    one_hot = OneHotEncoder().fit_transform(codes)
    residuals = Y - Ridge().fit(one_hot, Y).predict(one_hot).reshape(Y.shape)
    pairs = list(combinations(range(codes.shape[1]), 2))
    # Where the additive model is exact, the residuals are only the shrinkage of Ridge. So 1 % of
    # the total sum of squares is a lower bound.
    total = np.square(Y - Y.mean(axis=0)).sum()
    residual_squares = max(np.square(residuals).sum(), 0.01 * total)
    if residual_squares == 0:
        return []
    scores = np.array([_explained(codes[:, pair], residuals, residual_squares) for pair in pairs])
    if scores.max() < _MIN_EXPLAINED:
        return []
    best = np.argsort(-scores, kind="stable")[:max_pairs]
    singles = [(i, i) for i in range(codes.shape[1])]
    return singles + [pairs[k] for k in best if scores[k] > 0]


def _explained(codes, residuals, residual_squares):
    """Return the share of the residual squares between cells, in excess of noise.

    As in the analysis of variance: between cells, noise has a sum of squares that is distributed
    as chi-squared, with the degrees of freedom of the interaction. Its mean is that number, and its
    variance twice that number.
    """
    first, second = codes.T
    counts, sums = _count_and_sum(first * (second.max() + 1) + second, 0, residuals)
    is_filled = counts > 0
    freedom = is_filled.sum() - len(np.unique(first)) - len(np.unique(second)) + 1
    if freedom < 1:
        return 0
    between = (np.square(sums[is_filled]) / counts[is_filled, None]).sum() / residual_squares
    return between - (freedom + _SIGMAS * np.sqrt(2 * freedom)) / len(residuals)


def _count_and_sum(cell, min_cells, Y):
    """Return the number of samples of each cell, and the sums of their targets."""
    sums = [np.bincount(cell, column, min_cells) for column in Y.T]
    return np.bincount(cell, minlength=min_cells), np.stack(sums, axis=1)


def _cross_fit(fold, cell, n_cells, Y):
    """Return the mean target of each cell, and per sample that of its cell in other folds."""
    counts, sums = _count_and_sum(fold * n_cells + cell, _N_FOLDS * n_cells, Y)
    counts, sums = counts.reshape(_N_FOLDS, n_cells), sums.reshape(_N_FOLDS, n_cells, -1)
    n, total = counts.sum(axis=0), sums.sum(axis=0)
    return _smooth(n, total), _smooth(n - counts, total - sums)[fold, cell]


def _smooth(counts, sums):
    """Return the means of cells, shrunk towards the overall mean (Micci-Barreca, 2001)."""
    mean = sums.sum(axis=-2, keepdims=True) / counts.sum(axis=-1)[..., None, None]
    return (sums + _SMOOTHING * mean) / (counts + _SMOOTHING)[..., None]


def _stack(columns, n_samples):
    return np.hstack(columns, dtype=np.float32) if columns else np.empty((n_samples, 0), np.float32)
