"""CrossEncoder: the mean of y where levels of two categories meet, for pairs that matter."""

import re
from datetime import date
from itertools import combinations

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import check_array, check_random_state, resample
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import is_nested
from ..utils.user_warnings import warn

# LevelEncoder: a column for each common level of a category, and a word on what is none.

# Levels of a category that get a column each, of those the rarest share the last.
MOST_LEVELS = 100
# Fewer different values than this may all be different and be levels yet.
_FEWEST_UNIQUE = 20
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b")
# Reason -> what is said of the columns that have it.
_CAUTIONS = {
    "dates": (
        "dates as text or objects; make dates of them with pandas.to_datetime, and of those "
        "numbers, such as the year, the day of the year and the weekday"
    ),
    "numbers": "numbers as text or objects; make numbers of them with pandas.to_numeric",
    "unique": (
        "a value of its own in most rows, as IDs and text have; drop IDs, and make numbers of "
        "text with sklearn's TfidfVectorizer and TruncatedSVD"
    ),
    "many": (
        "more than max_categories={most} levels, of which the rarest share a column; make numbers "
        "of them with sklearn's TargetEncoder, or raise the limit with "
        "set_params(preprocessing__categories__one_hot__max_categories=...)"
    ),
}


class LevelEncoder(OneHotEncoder):
    """OneHotEncoder that warns of columns which hardly hold categories, and says what to do."""

    def fit(self, X, y=None):
        most = self.max_categories
        try:
            # To count the rows of each level takes most of the time, and few columns need it.
            self.max_categories = None
            super().fit(X, y)
            if most is not None and any(len(levels) > most for levels in self.categories_):
                self.max_categories = most
                super().fit(X, y)
            for levels in self.categories_:
                if any(map(is_nested, levels)):  # such as tuples, where all are alike
                    raise TypeError("A category holds lists or the like.")
        finally:
            self.max_categories = most
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        self._caution(list(names), len(X))
        return self

    def _caution(self, names, n_rows):
        found = {}
        for name, levels in zip(names, self.categories_, strict=True):
            reason = _reason(levels, n_rows, self.max_categories)
            found.setdefault(reason, []).append(repr(name))
        said = [
            f"\n  {', '.join(found[reason])}: {what.format(most=self.max_categories)}."
            for reason, what in _CAUTIONS.items()
            if reason in found
        ]
        if said:
            warn(
                f"Some columns of X, taken for categories, may need something else:{''.join(said)}"
            )


def _reason(levels, n_rows, most):
    """Which of the cautions a column with these levels deserves, if any."""
    known = [level for level in levels if level is not None and level == level]  # NaN is not
    if len(known) > 2 and all(map(_is_date, known)):
        return "dates"
    is_unique = len(known) > max(_FEWEST_UNIQUE, n_rows / 2)
    is_many = most is not None and len(levels) > most
    if (is_unique or is_many) and levels.dtype.kind in "OUT" and all(map(_is_number, known)):
        return "numbers"
    return "unique" if is_unique else "many" if is_many else None


def _is_date(level):
    return isinstance(level, date) or (isinstance(level, str) and bool(_DATE.match(level)))


def _is_number(level):
    try:
        float(level)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


# Of more columns than this no pair is crossed: the few best of very many displace the rest.
MOST_CATEGORIES = 12
# Rows that pairs are chosen by, and columns that become of all.
_ROWS, _COLUMNS = 10_000, 100
# What the best pair has to explain of what the levels one by one do not.
_LEAST_SHARE = 0.05
# Standard deviations above what a pair explains by chance.
_SIGMAS = 3
# The mean of all rows counts as so many rows in each cell.
_PRIOR_ROWS = 10
_FOLDS = 5


class CrossEncoder(TransformerMixin, BaseEstimator):
    """The mean of y over the rows with the same levels of two columns, for pairs that matter.

    A pair becomes a column for each output, or for each class of more than two. So does each
    column by itself, where there is a pair: networks learn to look at means and hardly at levels
    then, and should not miss a column that is in no pair. `fit_transform` takes the mean of the
    rows of other folds, so that no row knows its own y. scikit-learn's TargetEncoder does so for
    single columns and one y, of which each class has a row in each fold.

    Rows of one cell in other folds do know it, so a leave-one-out error of the network behind is
    somewhat too good where cells have few rows (``benchmarks/crosses.py``). Means of one row less
    would tell y itself: it is what the mean of a row lacks to the sum of the cell. Means of the
    rows before, in a random order, give no y away, but those of the first rows are noise, which
    costs RBF networks 0.4 points on a table of rules.

    Parameters
    ----------
    target : {"classes", "numbers"}
        What y holds.

    Attributes
    ----------
    pairs_ : list of tuple of int
        The columns that are crossed, after (i, i) for each column. None without y, or where no
        pair explains much more than its levels.
    """

    def __init__(self, target="classes"):
        self.target = target

    def fit(self, X, y=None):
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X, y=None):
        validate_data(self, X, skip_check_array=True)  # for the names of its columns
        self.pairs_, self.means_, self.outputs_ = [], [], []
        if y is None or not 2 <= self.n_features_in_ <= MOST_CATEGORIES:
            return np.empty((len(X), 0))
        Y, self.outputs_ = _outputs(y, self.target)
        n_most = _COLUMNS // Y.shape[1] - self.n_features_in_
        if n_most < 1:
            return np.empty((len(X), 0))
        Y = Y.toarray() if issparse(Y) else Y
        self.encoder_ = OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
        ).fit(X)
        if any(len(levels) > MOST_LEVELS for levels in self.encoder_.categories_):
            # Which counts rows, and takes long.
            self.encoder_.set_params(max_categories=MOST_LEVELS).fit(X)
        codes = self._codes(X)
        self.n_levels_ = np.maximum(codes.max(axis=0), 1) + 1
        self.pairs_ = _chosen(codes, Y, n_most)
        fold = check_random_state(0).permutation(len(Y)) % _FOLDS
        means = [_means(fold, cell, n, Y) for cell, n in self._cells(codes)]
        self.means_ = [of_all for of_all, _ in means]
        return _stacked([of_others for _, of_others in means], len(X))

    def transform(self, X):
        check_is_fitted(self, "pairs_")
        validate_data(self, X, reset=False, skip_check_array=True)
        cells = self._cells(self._codes(X)) if self.pairs_ else []
        pairs = zip(self.means_, cells, strict=True)
        return _stacked([means[cell] for means, (cell, _) in pairs], len(X))

    def get_feature_names_out(self, input_features=None):
        names = getattr(self, "feature_names_in_", input_features)
        names = [f"x{i}" for i in range(self.n_features_in_)] if names is None else names
        crossed = [f"{names[i]}*{names[j]}" if i < j else names[i] for i, j in self.pairs_]
        ends = [f"_{name}" for name in self.outputs_] if len(self.outputs_) > 1 else [""]
        return np.array([name + end for name in crossed for end in ends], dtype=object)

    def _codes(self, X):
        """Of missing values 0, of levels that fit has not seen 1, then the levels."""
        return self.encoder_.transform(X).astype(np.intp) + 2

    def _cells(self, codes):
        """Of each pair the cells of the rows, and how many there are."""
        n = self.n_levels_
        return [
            (codes[:, i] * n[j] + codes[:, j], n[i] * n[j]) if i < j else (codes[:, i], n[i])
            for i, j in self.pairs_
        ]


def _outputs(y, target):
    """Columns of which means are taken, sparse for classes, and their names."""
    y = y.toarray() if issparse(y) else y
    dtype = np.float64 if target == "numbers" else None
    y = check_array(y, ensure_2d=False, dtype=dtype, input_name="y")
    y = y.reshape(len(y), -1)
    if target == "numbers":
        spread = y.std(axis=0)
        return (y - y.mean(axis=0)) / np.where(spread > 0, spread, 1), list(range(y.shape[1]))
    classes = OneHotEncoder(drop="if_binary").fit(y)
    prefix = "x0_" if y.shape[1] == 1 else ""
    names = [name.removeprefix(prefix) for name in classes.get_feature_names_out()]
    return classes.transform(y), names


def _chosen(codes, Y, n_most):
    """Columns and pairs that explain more than levels; none where the best explains little."""
    from sklearn.linear_model import Ridge  # here, since it takes long to import

    if len(codes) > _ROWS:
        codes, Y = resample(codes, Y, replace=False, n_samples=_ROWS, random_state=0)
    levels = OneHotEncoder().fit_transform(codes)
    rest = Y - Ridge().fit(levels, Y).predict(levels).reshape(Y.shape)
    pairs = list(combinations(range(codes.shape[1]), 2))
    # Of y that levels explain all but entirely, the rest is how little Ridge shrinks it.
    squares = max(np.square(rest).sum(), 0.01 * np.square(Y - Y.mean(axis=0)).sum())
    if squares == 0:
        return []
    shares = np.array([_share(codes[:, pair], rest, squares) for pair in pairs])
    if shares.max() < _LEAST_SHARE:
        return []
    best = np.argsort(-shares, kind="stable")[:n_most]
    return [(i, i) for i in range(codes.shape[1])] + [pairs[k] for k in best if shares[k] > 0]


def _share(codes, rest, squares):
    """The share of the squares of the rest that a pair explains, and not by chance."""
    first, second = codes.T
    counts, sums = _sums(first * (second.max() + 1) + second, 0, rest)
    is_there = counts > 0
    freedom = is_there.sum() - len(np.unique(first)) - len(np.unique(second)) + 1
    if freedom < 1:
        return 0
    explained = (np.square(sums[is_there]) / counts[is_there, None]).sum() / squares
    return explained - (freedom + _SIGMAS * np.sqrt(2 * freedom)) / len(rest)


def _sums(cell, n_cells, Y):
    """How many rows there are in each cell, and the sums of their outputs."""
    sums = [np.bincount(cell, column, n_cells) for column in Y.T]
    return np.bincount(cell, minlength=n_cells), np.stack(sums, axis=1)


def _means(fold, cell, n_cells, Y):
    """The means of each cell, and for each row that of its cell in the other folds."""
    counts, sums = _sums(fold * n_cells + cell, _FOLDS * n_cells, Y)
    counts, sums = counts.reshape(_FOLDS, n_cells), sums.reshape(_FOLDS, n_cells, -1)
    n, total = counts.sum(axis=0), sums.sum(axis=0)
    return _shrunk(n, total), _shrunk(n - counts, total - sums)[fold, cell]


def _shrunk(counts, sums):
    """The means of each cell, the closer to those of all rows the fewer rows it has."""
    mean = sums.sum(axis=-2, keepdims=True) / counts.sum(axis=-1)[..., None, None]
    return (sums + _PRIOR_ROWS * mean) / (counts + _PRIOR_ROWS)[..., None]


def _stacked(columns, n_rows):
    return np.hstack(columns, dtype=np.float32) if columns else np.empty((n_rows, 0), np.float32)
