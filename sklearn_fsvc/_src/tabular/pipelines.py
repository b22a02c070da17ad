"""make_tabular_pipeline: preprocessing of mixed tabular data before an estimator."""

from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from ..data.columns import described, explain_refused_column
from ..stacking.estimators import StackedClassifier, StackedRegressor
from ..utils.parameters import check_choice
from .encoders import MAX_CATEGORIES, CategoryEncoder, InteractionEncoder
from .scalers import MidrankTransformer, ValueScaler, combine_scores, median, soft_clip

# The most accurate estimator of each type.
_BEST = {"classifier": StackedClassifier, "regressor": StackedRegressor}
_TASKS = {"classifier": "classification", "regressor": "regression"}


def make_tabular_pipeline(
    estimator: Any = "classifier", *, categorical_features: Any = "from_dtype"
) -> Pipeline:
    """Preprocess tabular data of numerical and categorical features for an estimator.

    Numerical features: missing values are replaced by the median, with a missing-value indicator
    as a further feature; then a feature is transformed to the mean of its Gaussian quantile and
    scaled rank. Regressors also get its standardised and softly clipped value. Categorical
    features are one-hot encoded, scaled by 0.5; of more than 100 categories the 99 most frequent
    ones, and one for all others. If pairs of categorical features interact, their cross-fitted
    target encoding is added. The result is dense, and does not depend on the units of the
    features.

    Parameters
    ----------
    estimator : {"classifier", "regressor"} or estimator, default="classifier"
        The strings stand for the most accurate estimators, ``StackedClassifier()`` and
        ``StackedRegressor()``. Or a classifier, regressor or transformer, of this package or any
        other.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Which columns are categorical. All others must be numerical.

        - "from_dtype": columns of a DataFrame (pandas, polars) or a pyarrow Table that hold
          strings, categories, objects or bools, and all columns of an array of bools. Other
          arrays are numerical, also an array or list of objects if each can be converted to a
          number.
        - None: no column.
        - array-like: their names or positions, or a boolean mask. They may be of any dtype.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Its steps are "preprocessing", and the estimator under the name of its class in lower
        case, as in `make_pipeline`. "preprocessing" is a `ColumnTransformer` of "numerical" (steps
        "impute", "ranks" and "scores"), "categorical" (steps "missing" and "one_hot"), "missing", a
        `MissingIndicator`, "interactions" (steps "missing" and "encode") and "values" (steps
        "impute", "scale" and "clip").

    Raises
    ------
    TypeError, ValueError
        For an invalid `categorical_features`, an unknown string, or an estimator without `fit`.
        And by `fit`, for columns that do not exist, or that are neither numerical nor
        categorical, such as dates; for categories of mixed types, or that are lists, tuples and
        the like; for sparse X and lists of dictionaries; and for infinite values.

    Warns
    -----
    UserWarning
        By `fit`, of doubtful categorical features, with the remedy: more than 100 categories,
        unique values in most rows, such as IDs and text, and dates and numbers that are
        stored as text. And of columns of integers beyond :math:`2^{53}` that are distinct, but
        equal in float64.

    See Also
    --------
    sklearn.compose.make_column_transformer : Other preprocessing.

    Notes
    -----
    **Numerical features** are compared by the Manhattan distance, to which each feature should
    contribute equally. Ranks make it robust: a long tail or an outlier has no more influence than
    other samples. Ranks lie between 0 and 1, and equal values have midranks [1]_: if half of the
    samples have the smallest value, its rank is 0.25. Gaussian quantiles of these ranks, also
    called normal scores, resolve the tails of a distribution; ranks, scaled by
    :math:`\\sqrt{12}` to unit variance, resolve its centre. The Manhattan distance of both
    features together is that of their sum, hence one feature is enough. Values beyond the range
    of the training samples are clipped to it. Ranks are computed from at most 10,000 samples,
    drawn with a fixed seed. Constant and empty columns become constants.

    **Categorical features**: at a scale of 0.5 two categories are at Manhattan distance 1, about
    the mean distance of two values of a numerical feature (1.14). An unknown category is encoded
    as zeros, at distance 0.5 from every other, or as an infrequent one if there are such. A
    missing value is a category.
    ``set_params(preprocessing__categorical__one_hot__max_categories=None)`` encodes every category
    separately.

    **Values**: regression targets tend to depend on the values of features, which ranks discard.
    Regressors therefore also get z, the standardised value, as :math:`z / \\sqrt{1 + z^2 / 9}`,
    softly clipped at -3 and 3. Over 8 datasets that raises :math:`R^2` of tanh networks by 1.3
    points on average, of stacked ensembles by 0.25 and of RBF networks by 0.15 (at most by 4.2,
    1.1 and 1.2, on ``pol``); the largest loss is 0.6. Classifiers do not get it: RBF networks lost
    0.2 points over 8 datasets. ``set_params(preprocessing__values="drop")`` removes it.

    **Missing-value indicators** are added for columns with missing values in `fit`. If values
    are missing at random they do not change the score (24 datasets, median 0.04 points); if
    missingness is informative, they raise it on average by 1.2 points for RBF units and by 4.0
    for tanh units (``benchmarks/missing.py``).
    ``set_params(preprocessing__missing="drop")`` removes them.

    **Interaction features** are for targets that depend on combinations of categories. A pair of
    categorical features is encoded if its cells, the combinations of two categories, explain more
    of the target than an additive model of the categories, and than noise would. If the best pair
    explains 5 % of the residual variance, all such pairs are encoded, and each single feature,
    too. An encoding is one feature for regression and binary classification, else one per
    output or class, up to 100 in total. Its value is the mean target of the cell (standardised in
    regression), smoothed with the overall mean as ten samples; unknown categories get the overall
    mean. It is cross-fitted: a training sample gets the mean of the other four of five folds, so
    that its own target is not used, and ``fit_transform`` differs from ``fit`` and
    ``transform``. Sample weights are ignored. On ``nursery``, a rule-like dataset, RBF networks
    reach an accuracy of 99.7 % instead of 97.5, tanh networks 99.6 instead of 95.8, and stacked
    ensembles 99.9 instead of 99.1. Of 10 more datasets with categorical features one gets
    interactions, with the same score. There are none without y, for transformers, and with more
    than 12 categorical features: on one dataset with 60 of them, feature weights concentrated
    on a few interactions. ``set_params(preprocessing__interactions="drop")`` removes them.

    All features are float32. Do not use the pipeline for images of uint8: networks compare
    their pixels exactly, and faster, without it.

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
    ['numerical__x0', 'categorical__x1_0.0', 'categorical__x1_1.0', 'categorical__x1_2.0',
     'missing__missingindicator_x0']

    In a DataFrame categorical features are recognised by their dtypes:

    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": size, "color": np.array(["red", "green", "blue"])[color]})
    >>> pipeline = make_tabular_pipeline(classifier).fit(table, y)
    >>> pipeline[:-1].transform(table).shape
    (500, 4)

    Dates, text and features with very many categories are encoded before it:

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
    ...     "comment": [" ".join(pair) for pair in words],
    ... })
    >>> y = (day < 180) + zip_code / 75 + (words == "good").sum(axis=1)
    >>> def encode_dates(orders):
    ...     when = orders["when"].dt
    ...     features = {"day": when.day_of_year, "weekday": when.day_of_week}
    ...     return orders.drop(columns="when").assign(**features)
    >>> encoder = make_column_transformer(
    ...     (TargetEncoder(), ["zip"]),
    ...     (make_pipeline(TfidfVectorizer(), TruncatedSVD(2)), "comment"),
    ...     remainder="passthrough",
    ... )
    >>> model = make_pipeline(
    ...     FunctionTransformer(encode_dates),
    ...     encoder,
    ...     make_tabular_pipeline(RBFRegressor(random_state=0)),
    ... )
    >>> bool(model.fit(orders[:300], y[:300]).score(orders[300:], y[300:]) > 0.7)
    True
    """
    # Imported here: they take half as long as the rest of this package.
    from sklearn.impute import MissingIndicator, SimpleImputer

    from .table_transformer import TableTransformer

    if isinstance(estimator, str):
        estimator = _BEST[check_choice("estimator", estimator, _BEST, "an estimator")]()
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(
            f"estimator={estimator!r} has no method fit, or is a class; give an instance, such as "
            "RBFClassifier()."
        )
    columns = partial(select_columns, features=_check_features(categorical_features))
    is_numerical, is_categorical = (partial(columns, categorical=which) for which in (False, True))
    imputer = SimpleImputer(strategy=median, keep_empty_features=True)
    numerical = [
        ("impute", imputer),
        ("ranks", MidrankTransformer(random_state=0)),
        ("scores", FunctionTransformer(combine_scores, feature_names_out="one-to-one")),
    ]
    one_hot = CategoryEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=MAX_CATEGORIES,
        sparse_output=False,
        dtype=np.float32,
    )
    unified = FunctionTransformer(unify_missing, feature_names_out="one-to-one")
    categorical = [("missing", unified), ("one_hot", one_hot)]
    task = _TASKS.get(_estimator_type(estimator))
    interactions = [("missing", clone(unified)), ("encode", InteractionEncoder(task))]
    values = [
        ("impute", clone(imputer)),
        ("scale", ValueScaler()),
        ("clip", FunctionTransformer(soft_clip, feature_names_out="one-to-one")),
    ]
    # A part of its own, since the ranks would scale the indicators.
    missing = MissingIndicator(error_on_new=False, sparse=False)
    preprocessing = TableTransformer(
        [
            ("numerical", Pipeline(numerical), is_numerical),
            ("categorical", Pipeline(categorical), is_categorical),
            ("missing", missing, is_numerical),
            ("interactions", Pipeline(interactions) if task else "drop", is_categorical),
            ("values", Pipeline(values) if task == "regression" else "drop", is_numerical),
        ],
        transformer_weights={"categorical": 0.5},
    )
    name = type(estimator).__name__.lower()
    return Pipeline([("preprocessing", preprocessing), (name, estimator)])


def select_columns(X: Any, features: Any, categorical: bool) -> list[int]:
    """Return the positions of the categorical columns of X, or of the numerical ones.

    Raises for sparse X, and for columns that are neither.
    """
    if issparse(X):
        raise TypeError("X is sparse, and its preprocessing would be dense; give X.toarray().")
    if len(X.shape) != 2:
        raise ValueError(f"X has shape {X.shape}, and must have two dimensions; reshape it.")
    names, dtypes, kinds = described(X)
    if features == "from_dtype":
        is_categorical = np.array([kind == "category" for kind in kinds], dtype=bool)
    else:
        is_categorical = _mask(features or [], names)
    for column in np.flatnonzero(~is_categorical):
        if kinds[column] != "number":
            raise ValueError(explain_refused_column(names[column], dtypes[column], features))
    return np.flatnonzero(is_categorical == categorical).tolist()


def unify_missing(X: Any) -> Any:
    """Return X with NaN for all values that pandas counts as missing.

    OneHotEncoder does not support pandas.NA, and None and NaN would be two categories.
    """
    return X.astype(object).where(X.notna(), np.nan) if hasattr(X, "notna") else X


def _estimator_type(estimator):
    """Return "classifier", "regressor" or another type of scikit-learn, None if it has no tags."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    return tags and tags().estimator_type


def _check_features(features):
    """Return `categorical_features` as a list, None or "from_dtype"; TypeError for others."""
    if features is None or (isinstance(features, str) and features == "from_dtype"):
        return features
    if np.ndim(features) != 1:
        raise TypeError(
            f'categorical_features={features!r} must be "from_dtype", None, or a list of names, '
            "of positions, or of True and False."
        )
    return list(features)


def _mask(features, names):
    """Return a boolean mask of the columns in `features`: names, positions, or a mask."""
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
            f"categorical_features={features!r} contains {unknown!r}; the columns of X are "
            f"{names!r}."
        )
    mask = np.zeros(n_columns, dtype=bool)
    mask[features if by_position else [names.index(f) for f in features]] = True
    return mask
