"""CategoryEncoder: one-hot features of categories, and mean targets where there are many."""

import re
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import (
    as_python,
    input_names,
    is_missing,
    is_nested,
    iterate_columns,
    unique_names,
)
from ..data.validation import to_dense
from ..utils.parameters import check_positive_integer
from ..utils.user_warnings import warn
from .dates import MAX_MARKERS, are_dates, are_markers, resembles_date
from .target_means import (
    MAX_ENCODED,
    CrossFittedEncoder,
    additive_predictions,
    cross_fit,
    depends_on_count,
    draw_folds,
    encode_target,
    estimate_smoothing,
    to_intervals,
)
from .text import has_several_words

# Beyond this limit infrequent categories share the last one-hot feature.
MAX_CATEGORIES = 100
# The limit is higher by this factor for a feature whose mean targets can be used: they do not
# contain how another feature acts on the target in each category.
_TARGETED_FACTOR = 5
# Samples of a category with a one-hot feature of its own, beside mean targets. Limits of 10 and 20
# are as accurate on average; with 10, a few datasets lose up to two points of accuracy or R^2.
_MIN_SAMPLES = 20
# Limit of the samples times the one-hot features beside mean targets, of all columns with more than
# `max_categories`: they are dense, and take 400 MB in float32.
_MAX_VALUES = 100_000_000
# A feature with more categories also gets its mean targets.
_MIN_CATEGORIES = 30
# Intervals of a numerical feature in the additive model, and of all of them; and the categories
# and columns of the model up to which it is fitted.
_N_INTERVALS, _MAX_INTERVALS = 16, 512
_MAX_ADDITIVE_CATEGORIES, _MAX_ADDITIVE_COLUMNS = 1024, 128
# Mean targets of residuals are used if the additive model has at most this share of the error that
# it has with means of the target itself.
_MAX_ADJUSTED_ERROR = 0.95
# Rounds in which the mean targets of several features are fitted to the residuals of each other.
_N_ROUNDS = 3
# The code of unknown categories, see `category_codes`.
UNKNOWN_CODE = 1
# The value of one-hot features: two categories are at Manhattan distance 1.
ONE_HOT_VALUE = 0.5
# Up to this many distinct values may all be different without a warning.
_MIN_UNIQUE = 20
# Up to this many distinct numbers may be categories without a warning.
_MIN_NUMBERS = 30
# A number with a currency, a percent sign, separators of thousands, or a decimal comma.
_NUMBER_WITH_SYMBOLS = re.compile(
    r"\s*[+-]?\s*[$€£¥]?\s*[+-]?(\d{1,3}(,\d{3})+|\d+)([.,]\d+)?\s*[%$€£¥]?\s*"
)
# Kind of a doubtful column -> its description in the warning, with the remedy.
_ADVICE = {
    "dates": (
        "dates as text; parse them with pandas.to_datetime, and they become numerical features"
    ),
    "marked dates": (
        'dates as text, and a text such as "?" in place of missing ones; parse them with '
        'pandas.to_datetime(..., errors="coerce"), and they become numerical features'
    ),
    "numbers": (
        "numbers as text or objects; convert them with pandas.to_numeric or, if they are codes, "
        'with astype("category")'
    ),
    "marked": (
        'numbers as text, and a text such as "?" in place of missing ones; convert them with '
        'pandas.to_numeric(..., errors="coerce") or, if they are codes, with astype("category")'
    ),
    "symbols": (
        'numbers as text with symbols such as "%", "$" or ","; remove or replace these with '
        ".str.replace, and convert the result with pandas.to_numeric"
    ),
    "unique": (
        "unique values in most samples, as of IDs, from which nothing can be learned; drop them"
    ),
    "texts": (
        "texts that differ in most samples, from which categories learn nothing; encode them with "
        "sklearn's TfidfVectorizer"
    ),
    "many": (
        "more than max_categories={max_categories} categories, of which the infrequent ones share "
        "a feature; encode them with sklearn's TargetEncoder, or raise the limit with "
        "set_params(preprocessing__categorical__max_categories=...)"
    ),
}


def unify_missing(X: Any) -> npt.NDArray:
    """Return X as an array, with NaN for all missing values, whatever the container.

    Encoders do not support pandas.NA, and None and NaN would be two categories.
    """
    if hasattr(X, "notna"):
        return X.astype(object).where(X.notna(), np.nan).to_numpy(dtype=object)
    if hasattr(X, "columns"):
        # Arrays of polars have floats in place of integers with missing values, which rounds those
        # beyond 2**53, and one dtype for all columns, which dates and numbers do not share.
        columns, X = iterate_columns(X), np.empty(X.shape, dtype=object)
        for j, column in enumerate(columns):
            X[:, j] = column.to_list()
    X = np.asarray(X)
    if X.dtype.kind != "O":
        return X
    with np.errstate(invalid="ignore"):  # comparisons of NaN, on some processors
        return np.where(np.vectorize(is_missing, otypes=[bool])(X), np.nan, X)


def fit_ordinal(X: Any, max_categories: int | None = None) -> OrdinalEncoder:
    """Return an encoder of the categories of each column, for `category_codes`.

    Beyond `max_categories` the infrequent ones share a code.
    """
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    ).fit(X)
    if max_categories is not None and any(len(c) > max_categories for c in encoder.categories_):
        # Slower, since it counts the samples of each category.
        encoder.set_params(max_categories=max_categories).fit(X)
    return encoder


def category_codes(encoder: OrdinalEncoder, X: Any) -> npt.NDArray[np.intp]:
    """Return category codes: 0 for missing values, 1 for unknown categories, then the known."""
    if any(known.dtype == object for known in encoder.categories_):
        X = X.astype(object, copy=False)  # an array of numbers, after a DataFrame in fit
    return encoder.transform(X).astype(np.intp) + 2


class CategoryEncoder(CrossFittedEncoder):
    """Encoding of categorical features by one-hot features and by mean targets.

    - Up to 100 categories: one-hot features with the values 0 and 0.5.
    - More than 100 categories, and a target: one-hot features of those with 20 samples or more, if
      these are half of the samples; up to 500 features and, in all such columns, 100 million
      values. All other categories share one. Mean targets do not contain how another feature acts
      on the target in each category.
    - More than 30 categories, and a target: the mean target of the category, one feature for
      regression and two classes, else one per output or class. Only if categories explain more of
      the target than they would of noise; with as much smoothing as the variances of the target
      within and between categories imply. If the mean targets of categories are correlated with
      the logarithm of their frequencies, that is a further feature.
    - Mean targets are those of residuals if these predict the target clearly better, in an additive
      model of all columns: the effects of the covariates and of features with fewer categories are
      subtracted first, and those of other features with mean targets in turn.
    - More than 100 categories without a target: one-hot features of the 99 most frequent
      categories, and one for all others.

    `fit_transform` is cross-fitted, as in scikit-learn's TargetEncoder: a training sample is
    encoded by the samples of other folds, so that its own target is not used. Unknown categories
    are encoded as the overall mean, also of one-hot features, or as an infrequent one: with
    features of zeros they would be closer to all categories than categories are to each other.
    Sample weights of the last step of a pipeline do not reach the means: remove samples of weight 0
    before `fit`.

    Parameters
    ----------
    task : {"classification", "regression"} or None, default=None
        How y is encoded; None ignores it.
    max_categories : int or None, default=100
        The limit for one-hot features of a column; five times as many beside mean targets. None
        for no limit.
    named : bool, default=False
        Whether the user has named the columns: then numbers and dates as text are categories, too.

    Attributes
    ----------
    encoder_ : OrdinalEncoder
        Its `categories_` are sorted, with NaN, for missing values, last.
    positions_ : list of ndarray of int of shape (n_codes,)
        For each feature the one-hot feature of each code (see `category_codes`), -1 for none.
    unknown_ : list of ndarray of float32 of shape (n_one_hot,)
        For each feature the one-hot features of unknown categories.
    means_ : dict of int to ndarray of shape (n_codes, n_outputs)
        Feature -> mean targets of each code.
    log_counts_ : dict of int to ndarray of shape (n_codes, 1)
        Feature -> standardised logarithm of one plus the number of samples of each code.
    outputs_ : list
        Names of the outputs.
    unique_ : list of int
        Features with unique values in most samples, of which `fit` has warned.

    Warns
    -----
    UserWarning
        By `fit`, of columns that are hardly categorical, with the remedy. By `transform`, of
        columns with two values or more, none of which is a category of `fit`, and of values that
        differ from a category of `fit` only in type, case or outer spaces; unless the values of
        the column were unique in `fit`, which has warned of them.
    """

    __metadata_request__fit: ClassVar = {"groups": True, "covariates": True}

    def __init__(
        self, task: str | None = None, max_categories: int | None = MAX_CATEGORIES,
        named: bool = False,
    ):  # fmt: skip
        self.task = task
        self.max_categories = max_categories
        self.named = named

    def fit_transform(  # type: ignore[override]
        self, X: Any, y: Any = None, groups: Any = None, covariates: Any = None
    ) -> npt.NDArray:
        """Fit, and return the encoding, of which mean targets are cross-fitted.

        Samples of one of the `groups`, of shape (n_samples,), are in one fold. `covariates` are
        numerical features, of shape (n_samples, n_covariates), with NaN for missing values.
        """
        if self.max_categories is not None:
            check_positive_integer("max_categories", self.max_categories)
        validate_data(self, X, skip_check_array=True)  # sets feature_names_in_
        is_category = _are_categorical_dtypes(X) | self.named
        X = unify_missing(X)
        self.encoder_ = fit_ordinal(X)
        categories = self.encoder_.categories_
        if any(is_nested(category) for known in categories for category in known):
            # Objects such as tuples can be sorted, and pass as categories if all are alike.
            raise TypeError("A category holds lists or the like.")
        codes = category_codes(self.encoder_, X)
        targeted, encoded = self._fit_means(codes, y, groups, covariates)
        large = [j for j in targeted if self._exceeds_limit(categories[j])]
        self.positions_ = [
            self._frequent_positions(codes[:, j], known, len(large))
            if j in large
            else self._one_hot_positions(codes[:, j], known)
            for j, known in enumerate(categories)
        ]
        self.unknown_ = [
            _mean_one_hot(positions[codes[:, j]]) for j, positions in enumerate(self.positions_)
        ]
        self._warn_doubtful(targeted, is_category, len(X))
        return self._stack(codes, encoded)

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the encoding of new samples, by the means of all training samples."""
        check_is_fitted(self, "positions_")
        validate_data(self, X, reset=False, skip_check_array=True)
        X = unify_missing(X)
        codes = category_codes(self.encoder_, X)
        self._warn_unknown(X, codes)
        return self._stack(codes, {j: means[codes[:, j]] for j, means in self.means_.items()})

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return names such as "color_red", "mean(shop)" and "log_count(shop)"."""
        result = []
        for j, name in enumerate(input_names(self, input_features)):
            result += [f"{name}_{category}" for category in self._one_hot_names(j)]
            result += [
                f"mean({name}){suffix}" for suffix in self._output_suffixes if j in self.means_
            ]
            result += [f"log_count({name})"] * (j in self.log_counts_)
        return unique_names(result)  # "nan" may be a text

    def feature_origins(self) -> list[tuple[int, ...]]:
        """Return for each encoded feature the columns that it is computed from: a single one."""
        return [
            (j,)
            for j, positions in enumerate(self.positions_)
            for _ in range(
                positions.max() + 1
                + len(self._output_suffixes) * (j in self.means_)
                + (j in self.log_counts_)
            )
        ]  # fmt: skip

    def _exceeds_limit(self, known):
        return self.max_categories is not None and len(known) > self.max_categories

    def _fit_means(self, codes, y, groups, covariates):
        """Set the attributes of mean targets; return encoded features and training encodings.

        Returns
        -------
        targeted : list of int
            Features whose mean targets have been considered.
        encoded : dict of int to ndarray of shape (n_samples, n_outputs)
            Feature -> cross-fitted mean targets.
        """
        self.means_: dict[int, npt.NDArray] = {}
        self.log_counts_: dict[int, npt.NDArray] = {}
        self.outputs_: list[Any] = []
        n_categories = [len(known) for known in self.encoder_.categories_]
        many = [j for j, count in enumerate(n_categories) if count > _MIN_CATEGORIES]
        if y is None or self.task is None or not many:
            return [], {}
        Y, names = encode_target(y, self.task)
        # Features with fewer categories have one-hot features if there are too many means.
        many.sort(key=n_categories.__getitem__, reverse=True)
        targeted = many[: MAX_ENCODED // Y.shape[1]]
        if not targeted:
            return [], {}
        self.outputs_ = names
        Y = to_dense(Y)
        for j in targeted:
            if depends_on_count(codes[:, j], Y):
                self.log_counts_[j] = _log_counts(codes[:, j], n_categories[j] + 2)
        fold = draw_folds(len(Y), groups)
        self.means_, encoded = _cross_fit_means(codes, targeted, Y, fold)
        others = np.delete(codes, targeted, axis=1).T
        if covariates is not None and covariates.shape[1] <= _MAX_ADDITIVE_COLUMNS:
            others = [*others, *_to_intervals(covariates.T)]
        is_adjustable = encoded and len(others) + len(encoded) > 1
        if is_adjustable and _suits_additive(others, len(encoded) * Y.shape[1]):
            effects = _predict_additive(others, {}, Y, fold)
            means, adjusted = _cross_fit_means(codes, targeted, Y - effects, fold, _N_ROUNDS)
            error = _additive_error(others, encoded, Y, fold)
            if _additive_error(others, adjusted, Y, fold) < _MAX_ADJUSTED_ERROR * error:
                self.means_, encoded = means, adjusted
        return targeted, encoded

    def _one_hot_positions(self, codes, known):
        """Return the one-hot feature of each code, -1 for none; infrequent ones share the last."""
        n_own = len(known)
        if self._exceeds_limit(known):
            assert self.max_categories is not None
            n_own = self.max_categories - 1
        return _share_infrequent(_count_known(codes, known), known, n_own)

    def _frequent_positions(self, codes, known, n_features):
        """Return positions for a feature with mean targets, one of `n_features` beyond the limit.

        No one-hot features if most samples have infrequent categories.
        """
        counts = _count_known(codes, known)
        is_frequent = counts >= _MIN_SAMPLES
        n_frequent = np.count_nonzero(is_frequent)
        assert self.max_categories is not None
        n_affordable = _MAX_VALUES // (len(codes) * n_features)
        limit = min(_TARGETED_FACTOR * self.max_categories, n_affordable)
        if counts[is_frequent].sum() < len(codes) / 2 or limit < 2:
            return np.full(len(known) + 2, -1)
        n_own = len(known) if n_frequent == len(known) <= limit else min(n_frequent, limit - 1)
        return _share_infrequent(counts, known, n_own)

    def _one_hot_names(self, j):
        """Return the categories of the one-hot features of a feature."""
        positions, known = self.positions_[j][2:], self.encoder_.categories_[j]
        names = [known[k] for k in np.unique(positions, return_index=True)[1] if positions[k] >= 0]
        if self.positions_[j][1] >= 0:
            names[-1] = "infrequent_sklearn"  # as OneHotEncoder has it
        return names

    def _stack(self, codes, encoded):
        """Return the features of samples, from their codes and their mean targets."""
        columns = []
        for j, positions in enumerate(self.positions_):
            one_hot = positions[codes[:, j]][:, None] == np.arange(positions.max() + 1)
            one_hot = np.multiply(one_hot, ONE_HOT_VALUE, dtype=np.float32)
            one_hot[positions[codes[:, j]] < 0] = self.unknown_[j]
            columns.append(one_hot)
            columns += [encoded[j]] if j in encoded else []
            columns += [self.log_counts_[j][codes[:, j]]] if j in self.log_counts_ else []
        return np.hstack(columns, dtype=np.float32, casting="same_kind")

    def _warn_doubtful(self, targeted, is_category, n_samples):
        """Warn once, of all columns that should be encoded in another way, or be dropped."""
        doubtful: dict[str | None, list[int]] = {}
        for j, known in enumerate(self.encoder_.categories_):
            is_many = self._exceeds_limit(known) and j not in targeted
            kind = _classify(known, is_category[j], n_samples, is_many)
            doubtful.setdefault(kind, []).append(j)
        self.unique_ = doubtful.get("unique", []) + doubtful.get("texts", [])
        lines = [
            f"\n  {', '.join(map(self._name, doubtful[kind]))}: "
            f"{text.format(max_categories=self.max_categories)}."
            for kind, text in _ADVICE.items()
            if kind in doubtful
        ]
        if lines:
            warn(f"Some columns of X are treated as categorical, but contain:{''.join(lines)}")

    def _warn_unknown(self, X, codes):
        """Warn of values that may be categories of `fit` in another type or spelling.

        New samples have new IDs: of columns of unique values, `fit` has warned.
        """
        for j, known in enumerate(self.encoder_.categories_):
            is_unknown = codes[:, j] == UNKNOWN_CODE
            if j in self.unique_ or not is_unknown.any():
                continue
            values, fitted = (
                [as_python(v) for v in each if not is_missing(v)]
                for each in (X[is_unknown, j], known)
            )
            if len(values) > 1 and fitted and not (codes[:, j] > UNKNOWN_CODE).any():
                warn(
                    f"Column {self._name(j)} of X: none of its values occurred in fit. It contains "
                    f"{values[0]!r}, and contained {fitted[0]!r} in fit; if only the types differ, "
                    f"convert the column to the type of fit, {type(fitted[0]).__name__}."
                )
            elif pair := _find_similar(values, fitted):
                warn(
                    f"Column {self._name(j)} of X: {pair[0]!r} did not occur in fit, and is "
                    f"encoded as unknown, but {pair[1]!r} occurred; if they are the same category, "
                    "convert the values to those of fit."
                )

    def _name(self, j):
        """Return the name of a column; in arrays, its position among the categorical ones."""
        names = getattr(self, "feature_names_in_", None)
        return f"{j} of the categorical columns" if names is None else repr(names[j])


def _cross_fit_means(codes, targeted, Y, fold, n_rounds=1):
    """Return the mean targets of features, of each code and, cross-fitted, of each sample.

    With several rounds, of the residuals of the means of the other features.
    """
    means: dict[int, npt.NDArray] = {}
    encoded: dict[int, npt.NDArray] = {}
    for _ in range(n_rounds if len(targeted) > 1 else 1):
        for j in targeted:
            means.pop(j, None), encoded.pop(j, None)
            rest = encoded.values() if n_rounds > 1 else ()
            residuals = Y - sum(each - each.mean(axis=0) for each in rest)
            smoothing, depends = estimate_smoothing(codes[:, j], residuals)
            if depends.any():
                n_codes = codes[:, j].max() + 1
                means[j], encoded[j] = cross_fit(fold, codes[:, j], n_codes, residuals, smoothing)
    return means, encoded


def _suits_additive(columns, n_means):
    """Return whether an additive model of codes of categories and mean targets is fast."""
    n_categories = sum(int(codes.max()) + 1 for codes in columns)
    return (
        n_categories <= _MAX_ADDITIVE_CATEGORIES and len(columns) + n_means <= _MAX_ADDITIVE_COLUMNS
    )


def _to_intervals(numbers):
    """Return the intervals of each number, as codes of categories; in 32 bits, for large tables."""
    n_intervals = int(np.clip(_MAX_INTERVALS // max(len(numbers), 1), 2, _N_INTERVALS))
    return [to_intervals(each, n_intervals).astype(np.int32) for each in numbers]


def _predict_additive(columns, encoded, Y, fold):
    """Return predictions of Y by an additive model of codes of categories, and of mean targets."""
    numbers = [column for means in encoded.values() for column in means.T]
    columns = [*columns, *_to_intervals(numbers)]
    return additive_predictions(np.column_stack(columns), Y, fold) if columns else np.zeros(Y.shape)


def _additive_error(columns, encoded, Y, fold):
    """Return the sum of squared errors of the predictions of `_predict_additive`."""
    return np.square(Y - Y.mean(axis=0) - _predict_additive(columns, encoded, Y, fold)).sum()


def _find_similar(values, fitted):
    """Return a value and a category that differ in type, case or outer spaces only, or None."""
    categories = {str(category).strip().casefold(): category for category in fitted}
    for value in dict.fromkeys(values):
        key = str(value).strip().casefold()
        if key in categories:
            return value, categories[key]
    return None


def _count_known(codes, known):
    """Return the number of samples of each known category; NaN, the last, has code 0."""
    counts = np.bincount(codes, minlength=len(known) + 2)
    return np.append(counts[2:-1], counts[0]) if _has_missing(known) else counts[2:]


def _has_missing(known):
    return len(known) > 0 and known[-1] != known[-1]


def _share_infrequent(counts, known, n_own):
    """Return the one-hot feature of each code: the `n_own` most frequent categories have their own.

    All others share a further one, as do unknown categories; without others, these have none.
    """
    infrequent = n_own if n_own < len(known) else -1
    position = np.full(len(known), infrequent)
    frequent = np.argsort(-counts, kind="stable")[:n_own]
    position[np.sort(frequent)] = np.arange(n_own)
    missing = position[-1] if _has_missing(known) else infrequent
    return np.concatenate([[missing, infrequent], position])


def _mean_one_hot(positions):
    """Return the mean of the one-hot features of samples, from the position of each."""
    counts = np.bincount(positions[positions >= 0])
    return (ONE_HOT_VALUE * counts / len(positions)).astype(np.float32)


def _log_counts(codes, n_codes):
    """Return the standardised logarithm of one plus the samples of each code, (n_codes, 1)."""
    counts = np.log1p(np.bincount(codes, minlength=n_codes))[:, None]
    of_samples = counts[codes]
    return (counts - of_samples.mean()) / of_samples.std()


def _are_categorical_dtypes(X):
    """Return for each column whether its dtype is categorical.

    Integers count as categorical, since the user has named the column. Strings and objects may be
    anything.
    """
    if not hasattr(X, "columns"):
        return np.ones(X.shape[1], dtype=bool)
    # "String" of polars, "string[pyarrow]" of pandas.
    names = [re.split(r"\W", str(dtype).lower())[0] for dtype in X.dtypes]
    return np.array([not name.startswith(("object", "str", "large_str")) for name in names])


def _classify(known, is_category, n_samples, is_many):
    """Return the key in `_ADVICE` for a column with these categories, or None."""
    present = [category for category in known if not is_missing(category)]
    if not is_category and len(present) > 2 and are_dates(present, resembles_date):
        return "dates" if all(map(resembles_date, present)) else "marked dates"
    if not is_category and len(present) > _MIN_NUMBERS and (kind := _classify_numbers(present)):
        return kind
    if len(present) > max(_MIN_UNIQUE, n_samples / 2):
        are_texts = all(isinstance(value, str) for value in present) and has_several_words(present)
        return "texts" if are_texts else "unique"
    return "many" if is_many else None


def _classify_numbers(present):
    """Return the key in `_ADVICE` for values that are numbers, most of them; None for others."""
    numbers = [value for value in present if _is_number(value)]
    n_others = len(present) - len(numbers)
    if are_markers(n_others, len(numbers)) and _are_quantities(numbers):
        return "marked" if n_others else "numbers"
    n_symbols = sum(map(_is_number_with_symbols, present))
    return "symbols" if n_symbols and n_others - n_symbols <= MAX_MARKERS else None


def _is_number(value):
    """Return whether a value is a number, or the text of one."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_number_with_symbols(value):
    """Return whether a value is a text such as "12.5%" or "$1,200"."""
    is_other_text = isinstance(value, str) and not _is_number(value)
    return is_other_text and _NUMBER_WITH_SYMBOLS.fullmatch(value) is not None


def _are_quantities(values):
    """Return whether numbers, some as texts, are not codes, as ZIP codes are."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or not all(text.isdigit() for text in texts):
        return True
    has_one_length = len(set(map(len, texts))) == 1
    has_leading_zero = any(text[0] == "0" and len(text) > 1 for text in texts)
    return not (has_one_length or has_leading_zero)
