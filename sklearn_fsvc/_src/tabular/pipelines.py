"""make_tabular_pipeline: what a table needs before a network, out of scikit-learn's parts."""

from functools import partial
from math import sqrt

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler
from sklearn.utils import check_random_state, resample
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.columns import described, why_refused
from ..stacking.estimators import StackedClassifier, StackedRegressor
from ..utils.parameters import check_choice
from .encoders import MOST_LEVELS, CrossEncoder, LevelEncoder

# What is most accurate, by the word for it.
BEST = {"classifier": StackedClassifier, "regressor": StackedRegressor}
# Dtypes in which columns are measured; float16 is too narrow for their differences.
_DTYPES = [np.float64, np.float32]
# What y is, by the type of an estimator.
TARGETS = {"classifier": "classes", "regressor": "numbers"}


def make_tabular_pipeline(estimator="classifier", *, categorical_features="from_dtype"):
    """Put an estimator behind the preprocessing that a table of mixed columns needs.

    Numbers: missing values become the median of their column, and a column of 0 and 1 says where
    they were; then a number becomes the mean of its normal score and of its rank in the column,
    scaled alike. For regressors its value, in standard deviations and bounded, is one more column.
    Categories: each level is a column of 0 and 0.5, of more than 100 levels each
    of the commonest 99, and one of all others. Where pairs of categories matter to y, crosses of
    them are further columns: the mean of y over the rows with the same two levels. The result is
    dense, and does not depend on the units of the columns.

    Parameters
    ----------
    estimator : {"classifier", "regressor"} or estimator, default="classifier"
        The words stand for what is most accurate: ``StackedClassifier()``, and for numbers
        ``StackedRegressor()``. Or a classifier, regressor or transformer, of this package or any
        other.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Which columns are categories. All others must be numbers.

        - "from_dtype": columns of a DataFrame (pandas, polars) or a table of pyarrow that hold
          strings, categories, objects or bools, and all columns of an array of bools. Those of
          any other array are numbers, also of an array or list of objects where each can
          be converted to one.
        - None: no column.
        - array-like: their names or positions, or True or False for each column. They may
          be of any dtype.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Its steps are "preprocessing", a `ColumnTransformer` of "numbers" (steps "impute",
        "ranks" and "scores"), "categories" (steps "missing" and "one_hot"), "missing", a
        `MissingIndicator`, "crosses" (steps "missing" and "encode") and "values" (steps "impute",
        "scale" and "bound"); and the estimator under the name of its class in lower case, as in
        `make_pipeline`.

    Raises
    ------
    TypeError, ValueError
        For another `categorical_features`, an unknown word, or an estimator without `fit`. And
        by `fit`, for columns that are not there, or that are neither numbers nor categories, such
        as dates; for categories of mixed types or of lists, tuples and the like; for a sparse X
        and for rows in a list of dictionaries; and for infinite numbers.

    Warns
    -----
    UserWarning
        By `fit`, of columns of categories that may be none, with what to do: those of more than
        100 levels, those with a value of its own in most rows, such as IDs and text, and
        dates and numbers that are stored as text. And of columns of integers beyond
        :math:`2^{53}`, if some that differ become the same float64.

    See Also
    --------
    sklearn.compose.make_column_transformer : For other steps.

    Notes
    -----
    A distance adds up what rows differ by in each column, so that all columns must be
    measured alike. Of numbers the order matters here, and hardly anything else: a long tail or
    an outlier takes no more room than other rows do. Ranks lie between 0 and 1, and rows that are
    equal have the rank in their middle [1]_: where half of the rows are 0, and no row is less, that
    is 0.25. Normal scores, the quantiles of a standard normal distribution at these ranks, tell
    the ends of a column apart; ranks, times :math:`\\sqrt{12}` and so with the same standard
    deviation, tell its middle. The Manhattan distance of both is that of their sum: one column
    does for two. What lies beyond the least and the greatest number of `fit` becomes as these.

    At half scale, two levels lie 1 apart in the Manhattan distance, about as far as two numbers
    of a column (1.14 on average). A level that `fit` has not seen is all zeros, 0.5 from every
    other, or one of the rare ones that share a column. A missing category is a level like others.
    ``set_params(preprocessing__categories__one_hot__max_categories=None)`` gives each level a
    column, however many there are.

    A column of one number, or of none, becomes a constant.

    Regressors get values, too, for ranks do not tell by how much numbers differ: z, in standard
    deviations from the mean, becomes :math:`z / \\sqrt{1 + z^2 / 9}`, which is between -3 and 3.
    Over 8 tables that raises :math:`R^2` of tanh networks by 1.3 points on average, of ensembles
    by 0.25 and of RBF networks by 0.15; most by 4.2, 1.1 and 1.2 (``pol``), and the largest loss
    is 0.6. Classifiers have none: over 8 tables RBF networks lost 0.2 points by them.
    ``set_params(preprocessing__values="drop")`` leaves them out.

    Columns that say where a number was missing are there for those where `fit` has seen one.
    Where numbers are missing at random they make no difference to the score (24 tables, median
    0.04 points), and where that a number is missing says something they raise it, by 1.2 points
    for RBF units and 4.0 for tanh units on average (``benchmarks/missing.py``).
    ``set_params(preprocessing__missing="drop")`` leaves them out.

    Crosses are for rules over categories. A pair of columns counts where its cells, all rows with
    the same two levels, explain more of y than levels one by one and than chance. If the best
    pair explains 5 % of what they leave unexplained, all such pairs are crossed, and each column
    is there by itself, too. A cross is one column for numbers or two classes, else one for each
    class or output; all are 100 at most. Its value is the mean of y in the cell, of numbers in
    standard deviations, with the mean of all rows as ten rows more; that is also what levels get
    which `fit` has not seen. For the rows of `fit` it is the mean of rows in other fifths: no row
    knows its own y. So ``fit_transform`` of the preprocessing differs from ``fit`` and
    ``transform`` there. Weights of rows are not looked at. On ``nursery``, a table of rules, RBF
    networks have 99.7 % instead of 97.5, tanh networks 99.6 instead of 95.8, and ensembles 99.9
    instead of 99.1. Of 10 more tables with categories one has crosses, with the same score. There
    are none without y, for transformers, and for more than 12 columns of categories: on one table
    of 60 a few crosses made networks blind to the rest.
    ``set_params(preprocessing__crosses="drop")`` leaves them out.

    Ranks are those of 10,000 rows at most, drawn with a fixed seed. All columns are float32:
    ranks and levels need no more.

    It is for tables. The networks compare images of uint8 exactly, as they are; here they
    would become float32.

    References
    ----------
    .. [1] W. J. Conover, "Practical Nonparametric Statistics" (Wiley 1999), on midranks and normal
       scores.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fsvc import RBFClassifier, RBFRegressor, make_tabular_pipeline
    >>> rng = np.random.default_rng(0)
    >>> size, color = rng.lognormal(sigma=3, size=500), rng.integers(3, size=500)
    >>> y = (size > 1) == (color == 2)
    >>> X = np.column_stack([size, color])
    >>> X[::50, 0] = np.nan
    >>> classifier = RBFClassifier(100, random_state=0)
    >>> pipeline = make_tabular_pipeline(classifier, categorical_features=[1]).fit(X, y)
    >>> bool(pipeline.score(X, y) > 0.9)
    True
    >>> best = make_tabular_pipeline(categorical_features=[1]).fit(X, y)
    >>> bool(best.score(X, y) > 0.9)
    True
    >>> pipeline["preprocessing"].get_feature_names_out().tolist()  # doctest: +NORMALIZE_WHITESPACE
    ['numbers__x0', 'categories__x1_0.0', 'categories__x1_1.0', 'categories__x1_2.0',
     'missing__missingindicator_x0']

    The dtypes of a DataFrame tell which columns are categories:

    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": size, "color": np.array(["red", "green", "blue"])[color]})
    >>> pipeline = make_tabular_pipeline(classifier).fit(table, y)
    >>> pipeline[:-1].transform(table).shape
    (500, 4)

    Dates, text, and categories of very many levels become numbers before it:

    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.decomposition import TruncatedSVD
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer, TargetEncoder
    >>> day, zip_code = rng.integers(365, size=400), rng.integers(150, size=400)
    >>> words = np.array(["cheap", "good", "new"])[rng.integers(3, size=(400, 2))]
    >>> orders = pd.DataFrame({
    ...     "when": np.datetime64("2026-01-01") + day,
    ...     "zip": [f"Z{code}" for code in zip_code],
    ...     "comment": [" ".join(each) for each in words],
    ... })
    >>> y = (day < 180) + zip_code / 75 + (words == "good").sum(axis=1)
    >>> def with_numbers_of_dates(orders):
    ...     when = orders["when"].dt
    ...     numbers = {"day": when.day_of_year, "weekday": when.day_of_week}
    ...     return orders.drop(columns="when").assign(**numbers)
    >>> columns = make_column_transformer(
    ...     (TargetEncoder(), ["zip"]),
    ...     (make_pipeline(TfidfVectorizer(), TruncatedSVD(2)), "comment"),
    ...     remainder="passthrough",
    ... )
    >>> model = make_pipeline(
    ...     FunctionTransformer(with_numbers_of_dates),
    ...     columns,
    ...     make_tabular_pipeline(RBFRegressor(random_state=0)),
    ... )
    >>> bool(model.fit(orders[:300], y[:300]).score(orders[300:], y[300:]) > 0.7)
    True
    """
    # Here, since importing them takes half as long as the rest of this package.
    from sklearn.impute import MissingIndicator, SimpleImputer

    from .table_transformer import TableTransformer

    if isinstance(estimator, str):
        estimator = BEST[check_choice("estimator", estimator, BEST, "an estimator")]()
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(
            f"estimator={estimator!r} is no object with a method fit; give an instance, such as "
            "RBFClassifier()."
        )
    columns = partial(_columns, features=_check_categorical_features(categorical_features))
    numeric, categorical = (partial(columns, are_categories=which) for which in (False, True))
    numbers = [
        ("impute", SimpleImputer(strategy=_median, keep_empty_features=True)),
        ("ranks", MidrankTransformer(random_state=0)),
        ("scores", FunctionTransformer(_scores, feature_names_out="one-to-one")),
    ]
    one_hot = LevelEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=MOST_LEVELS,
        sparse_output=False,
        dtype=np.float32,
    )
    one_missing = FunctionTransformer(_with_one_missing, feature_names_out="one-to-one")
    categories = [("missing", one_missing), ("one_hot", one_hot)]
    target = TARGETS.get(_type_of(estimator))
    crosses = [("missing", clone(one_missing)), ("encode", CrossEncoder(target))]
    values = [
        ("impute", SimpleImputer(strategy=_median, keep_empty_features=True)),
        ("scale", ValueScaler()),
        ("bound", FunctionTransformer(_bounded, feature_names_out="one-to-one")),
    ]
    # Of the columns where fit has seen one; not for the ranks, which would scale them.
    missing = MissingIndicator(error_on_new=False, sparse=False)
    preprocessing = TableTransformer(
        [
            ("numbers", Pipeline(numbers), numeric),
            ("categories", Pipeline(categories), categorical),
            ("missing", missing, numeric),
            ("crosses", Pipeline(crosses) if target else "drop", categorical),
            ("values", Pipeline(values) if target == "numbers" else "drop", numeric),
        ],
        transformer_weights={"categories": 0.5},
    )
    name = type(estimator).__name__.lower()
    return Pipeline([("preprocessing", preprocessing), (name, estimator)])


class MidrankTransformer(QuantileTransformer):
    """QuantileTransformer to ranks between 0 and 1, also of many rows that are equal.

    scikit-learn's own has 0 for the least number of a column and 1 for the greatest, also where
    they are those of most rows: as far from the others as can be. Here they have the rank in the
    middle of the rows that have them. And it has no more quantiles than rows, without a warning.
    """

    def fit(self, X, y=None):
        self._validate_params()
        table, n_quantiles = X, self.n_quantiles
        X = validate_data(self, table, dtype=_DTYPES, ensure_all_finite="allow-nan")
        # So that differences are finite: what is beyond has the same rank.
        most = np.finfo(X.dtype).max / 4
        X = np.clip(X, -most, most)
        self.n_quantiles = min(n_quantiles, len(X))
        try:
            quantiles = self._quantiles(X)
            # Their own quantiles are the same, to rounding, and found in a tenth of the time.
            super().fit(X if quantiles is None else quantiles, y)
        finally:
            self.n_quantiles = n_quantiles
        validate_data(self, table, skip_check_array=True)  # for the names of its columns
        if quantiles is not None:
            self.quantiles_ = quantiles
        quantiles = self.quantiles_
        low, high = np.less_equal(X, quantiles[0]), np.greater_equal(X, quantiles[-1])
        self.ends_ = np.stack([low.mean(axis=0) / 2, 1 - high.mean(axis=0) / 2])
        return self

    def _quantiles(self, X):
        """``quantiles_`` of X, of sorted columns; None where numbers are missing."""
        if self.subsample is not None and len(X) > self.subsample >= self.n_quantiles:
            random = check_random_state(self.random_state)
            X = resample(X, replace=False, n_samples=self.subsample, random_state=random)
        X = np.sort(X, axis=0)  # NaN in the end
        if np.isnan(X[-1]).any():
            return None
        at = np.linspace(0, len(X) - 1, self.n_quantiles)
        low = at.astype(np.intp)
        high = np.minimum(low + 1, len(X) - 1)
        quantiles = X[low] + (at - low)[:, None] * (X[high] - X[low])
        return np.maximum.accumulate(quantiles)

    def transform(self, X):
        ranks = np.asarray(super().transform(X))
        return np.clip(ranks, *self.ends_.astype(ranks.dtype)).astype(np.float32, copy=False)


class ValueScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """StandardScaler for numbers of any size, whose squares need not be numbers of their dtype.

    Attributes
    ----------
    exponents_ : ndarray of shape (n_features,)
        Columns are divided by 2 to this power first, which rounds nothing.
    scaler_ : StandardScaler
    """

    def fit(self, X, y=None):
        X = validate_data(self, X, dtype=_DTYPES)
        self.exponents_ = np.frexp(np.abs(X).max(axis=0))[1]
        self.scaler_ = StandardScaler().fit(np.ldexp(X, -self.exponents_))
        return self

    def transform(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=_DTYPES)
        with np.errstate(over="ignore"):
            X = np.ldexp(X, -self.exponents_)
        # New numbers may be far beyond those of fit, which are 1 at most.
        return self.scaler_.transform(np.clip(X, -(2.0**60), 2.0**60))


def _type_of(estimator):
    """ "classifier", "regressor", or another word or None for what has no y to speak of."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    return tags and tags().estimator_type


def _scores(ranks):
    """The mean of normal scores and of ranks less their mean, scaled alike."""
    ranks = np.asarray(ranks)
    return (ndtri(ranks) + sqrt(12) * (ranks - 0.5)) / 2


def _median(numbers):
    """Of a column without missing values; SimpleImputer's own word takes six times as long."""
    if not len(numbers):
        return 0.0
    median = np.median(numbers)
    # The sum of the two in the middle may be beyond the range of their dtype.
    return median if np.isfinite(median) else 2 * np.median(numbers / 2)


def _bounded(X):
    """X of standard deviation 1 between -3 and 3: hardly changed about 0, and in order."""
    X = np.asarray(X)
    return (X / np.hypot(1, X / 3)).astype(np.float32, copy=False)


def _with_one_missing(X):
    """X with NaN for all that pandas calls missing: the encoder knows no pandas.NA."""
    return X.astype(object).where(X.notna(), np.nan) if hasattr(X, "notna") else X


def _check_categorical_features(features):
    """`features`, if it is one of the words for it or a list."""
    if features is None or (isinstance(features, str) and features == "from_dtype"):
        return features
    if np.ndim(features) != 1:
        raise TypeError(
            f'categorical_features={features!r} must be "from_dtype", None, or a list of names, '
            "of positions, or of True and False."
        )
    return list(features)


def _columns(X, features, are_categories):
    """Positions of the columns that are categories, or of those that are numbers."""
    if issparse(X):
        raise TypeError("X is sparse, and what becomes of it would be dense; give X.toarray().")
    if len(X.shape) != 2:
        raise ValueError(f"X has shape {X.shape}, and a table has rows and columns; reshape it.")
    names, dtypes, kinds = described(X)
    if features == "from_dtype":
        is_category = np.array([kind == "category" for kind in kinds], dtype=bool)
    else:
        is_category = _mask(features or [], names)
    for column in np.flatnonzero(~is_category):
        if kinds[column] != "number":
            raise ValueError(why_refused(names[column], dtypes[column], features))
    return np.flatnonzero(is_category == are_categories).tolist()


def _mask(features, names):
    """True for the columns that `features` names, by position, by name, or one by one."""
    n_columns, dtype = len(names), np.asarray(features).dtype
    if dtype.kind == "b":
        if len(features) != n_columns:
            raise ValueError(
                f"categorical_features has {len(features)} values True or False, and X has "
                f"{n_columns} columns; give one for each."
            )
        return np.array(features)
    by_position = dtype.kind in "iu"
    known = range(-n_columns, n_columns) if by_position else names
    unknown = [feature for feature in features if feature not in known]
    if unknown:
        raise ValueError(
            f"categorical_features={features!r} names {unknown!r}; the columns of X are {names!r}."
        )
    mask = np.zeros(n_columns, dtype=bool)
    mask[features if by_position else [names.index(f) for f in features]] = True
    return mask
