"""make_tabular_pipeline: preprocessing of mixed tabular data before an estimator."""

from functools import partial
from inspect import signature
from typing import Any, Self

from sklearn import get_config  # type: ignore[attr-defined]
from sklearn.pipeline import Pipeline

from ..estimators.rbf import RBFClassifier, RBFRegressor
from ..stacking.estimators import StackedClassifier, StackedRegressor
from ..utils.parameters import check_choice
from .categories import CategoryEncoder
from .column_selector import ColumnSelector, check_categorical_features
from .dates import DatetimeEncoder
from .interactions import InteractionEncoder
from .text import TextEncoder

# Preset -> type of the estimator -> its class.
_PRESETS: dict[str, dict[str, Any]] = {
    "best": {"classifier": StackedClassifier, "regressor": StackedRegressor},
    "fast": {
        "classifier": RBFClassifier,
        "regressor": partial(RBFRegressor, target_transform="auto"),
    },
}
_TASKS = {"classifier": "classification", "regressor": "regression"}


class TabularPipeline(Pipeline):
    """Pipeline that refuses validation samples which its first steps would not transform.

    scikit-learn passes ``rbfclassifier__X_val`` on to the last step as it is.
    """

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        is_transformed = _routes_metadata() and "X_val" in (self.transform_input or ())
        for name, value in params.items():
            if name.rpartition("__")[2] == "X_val" and value is not None and not is_transformed:
                raise ValueError(
                    f"{name} would not be preprocessed. Make and fit the pipeline with metadata "
                    "routing, sklearn.set_config(enable_metadata_routing=True): then "
                    "fit(X, y, X_val=X_val, y_val=y_val) preprocesses X_val; a given estimator "
                    "needs set_fit_request(X_val=True, y_val=True). Or fit both steps separately, "
                    "pipeline[0].fit_transform(X, y) and pipeline[-1].fit, with "
                    "X_val=pipeline[0].transform(X_val)."
                )
        return super().fit(X, y, **params)


def make_tabular_pipeline(
    estimator: Any = "classifier",
    *,
    categorical_features: Any = "from_dtype",
    preset: str = "best",
    random_state: Any = None,
    device: str = "auto",
    max_memory: Any = None,
    verbose: int = 0,
) -> Pipeline:
    """Preprocess tabular data for an estimator: numbers, categories, dates and text.

    Numerical features: missing values are replaced by the median, with a missing-value indicator as
    a further feature; then a feature is transformed to the mean of its Gaussian quantile and scaled
    rank. Classifiers and regressors also get its standardised value. Categorical features are
    one-hot encoded, with values 0 and 0.5. Those with more than 30 categories also get the
    cross-fitted mean target of the category; of more than 100 categories, only frequent ones are
    one-hot encoded. If pairs of categorical features interact, their cross-fitted target encoding
    is added, and if pairs of numerical features do, their difference, ratio, product or equality.
    Numerical features of which the exact values matter, such as codes, are also target-encoded.
    Dates become numerical features, such as the weekday, and text the components of a latent
    semantic analysis. The result is dense, and does not depend on the units of the features.

    Parameters
    ----------
    estimator : {"classifier", "regressor"} or estimator, default="classifier"
        A string stands for an estimator that `preset` selects. Otherwise, a classifier, regressor
        or transformer, of this package or any other.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Which columns are categorical. All others must contain numbers or dates.

        - "from_dtype": columns of a DataFrame (pandas, polars) or a pyarrow Table that contain
          strings, categories, objects or bools, and all columns of an array of bools. Strings may
          also be recognised as dates or text, see the notes. Other arrays are numerical, also an
          array or list of objects if each can be converted to a number.
        - None: no column.
        - array-like: their names (tuples for a MultiIndex) or positions, or a boolean mask. They
          may be of any dtype. Integers are positions, and refused if the names of the columns are
          numbers other than 0, 1, 2 and so on.
    preset : {"best", "fast"}, default="best"
        The estimator that the strings stand for. "best" is the most accurate one,
        ``StackedClassifier()`` or ``StackedRegressor()``; "fast" is a single network,
        ``RBFClassifier()`` or ``RBFRegressor(target_transform="auto")``.
    random_state, device, max_memory, verbose
        Parameters of the estimator that the strings stand for. The preprocessing is deterministic,
        runs on the CPU, and does not print.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        Its steps are "preprocessing", and the estimator under the name of its class in lower
        case, as in `make_pipeline`. "preprocessing" is a `ColumnTransformer` of "numerical" (steps
        "impute" and "ranks"), "categorical", "datetime" (steps "encode", "impute" and "ranks"),
        "text", "missing", a `MissingIndicator`, "interactions", "numerical_interactions" and
        "thresholds" (steps "impute" and "encode"), "repeated_values", and "values" (steps "impute"
        and "scale"). If metadata routing is enabled, `X_val` of `fit` is preprocessed
        (``transform_input=["X_val"]``); a given network has to request it:
        ``set_fit_request(X_val=True, y_val=True)``. Otherwise `fit` refuses validation samples.

    Raises
    ------
    TypeError, ValueError
        For an invalid `categorical_features`, an unknown string, an estimator without `fit`, and
        for parameters of a preset in addition to an estimator. By `fit`, for columns that do not
        exist, or that contain none of numbers, categories, dates and text; for categories of mixed
        types, or that are lists, tuples and the like; for sparse X and lists of dictionaries; and
        for infinite values. By `fit` and `predict`, for values in a column of dates that are not
        dates, and by `predict`, for dates in other columns, and for times with a time zone in only
        one of `fit` and `predict`.

    Warns
    -----
    UserWarning
        By `fit`, about doubtful categorical features, with the remedy: unique values in most
        samples, such as IDs and too few texts, more than 100 categories for a transformer, and
        numbers and dates that are stored as text, unless the columns are named in
        `categorical_features`. And about columns of integers beyond :math:`2^{53}` that are
        distinct, but equal in float64. By `predict`, about a categorical feature with two values or
        more of which none occurred in `fit`, for example because they have another type; unless
        `fit` has warned of its unique values.

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
    as the mean of the training samples, at distance 1 - p from a category with share p of them. A
    missing value is a category.

    **High-cardinality categories**: a feature with more than 30 categories also gets the mean
    target of the category (standardised in regression; for more than two classes or outputs, one
    for each), if categories explain more of the target than they would of noise; and the logarithm
    of the category's frequency, if mean targets are correlated with it. The mean is shrunk towards
    the overall mean by empirical Bayes, from the variances of the target within and between
    categories. If an additive model of all columns has an error at least 5 % lower that way, the
    effects of the other columns are subtracted from the target before: they are noise in the mean.
    It is cross-fitted as interaction features are, see below. Sample weights of the last step do
    not reach the preprocessing: remove samples of weight 0 before `fit`, since the means would
    include their targets. A feature with more than 100 categories has one-hot features of those
    with 20 samples or more, if these are half of the samples, and one that all others share: they
    contain how other features act on the target in each category. They are at most 500, and have at
    most 100 million values in all such columns. Beyond 100 encoded features in total, and for
    transformers, the 99 most frequent categories have one-hot features, and all others share one.
    With 800 categories among 12,000 samples the accuracy of an RBF network rises from 69 to 86 % in
    a synthetic example (LightGBM: 86 %; ``benchmarks/categories.py``).
    ``set_params(preprocessing__categorical__max_categories=None)`` keeps all one-hot features, and
    ``preprocessing__categorical__task=None`` removes the means.

    **Dates** become the days since 1970, the position in the year as sine and cosine, the weekday,
    and the day of the month; if there are times of day, the hour, and the position in the day as
    sine and cosine. A time of day becomes these three, a period the features of its first day, and
    a duration a number of days. Times with a time zone are local times in the zone of `fit`; with
    a UTC offset, such as +02:00, they are in their own. All are then scaled by ranks; columns with
    missing values get an indicator. Strings are dates if they begin with a year, a month and a day,
    as in 2026-01-31, or are months such as 2026-01, and times of day if they are such as 14:30 or
    14:30:15. Other formats are ambiguous, and cause a warning.

    **Text** is a column of strings of which more than 100 are distinct among up to 1000 that are
    inspected, with 2.5 words or more on average. These are from all parts of the column, as are
    those by which dates are recognised. Text becomes 30 components of a latent semantic analysis of
    character n-grams of 3 and 4 characters. If less than half of those strings are distinct, they
    are categories, too. ``set_params(preprocessing__text="drop")`` removes it;
    ``categorical_features=[...]`` decides otherwise. skrub's ``TableVectorizer`` has more options.

    **Values**: targets tend to depend on the values of features, which ranks discard. Classifiers
    and regressors therefore also get the standardised value, clipped at one standard deviation
    beyond the range of the training samples. It raises :math:`R^2` of tanh networks most.
    ``set_params(preprocessing__values="drop")`` removes it. With fewer than 40 samples, classifiers
    do not get it, and regressors get it in place of the rank (as "numerical"; "values" is empty):
    on average over eight datasets, networks were more accurate on 10 to 30 samples, and not on 50
    or more (``benchmarks/few_samples.py``).

    **Missing-value indicators** are added for columns with missing values in `fit`, unless all of
    their values are missing. If values are missing at random they do not change the score (24
    datasets, median 0.01 points for RBF units, and 0.1 for tanh units); if missingness is
    informative, they raise it on average by 0.8 points for RBF units and by 1.9 for tanh units
    (``benchmarks/missing.py``).
    ``set_params(preprocessing__missing="drop")`` removes them.

    **Interaction features** are for targets that depend on combinations of categories. A pair of
    categorical features is encoded if its cells, the combinations of two categories, explain more
    of the target than an additive model of the categories, and than noise would. If the best pair
    explains 5 % of the residual variance, or all equalities of two columns together, all such pairs
    are encoded, and each single feature, too.
    An encoding is one feature for regression and binary classification, else one per output or
    class, up to 100 in total. Its value is the mean target of the cell (standardised in
    regression), smoothed towards the overall mean, which counts as ten samples; unknown categories
    get the overall mean. It is cross-fitted: a training sample gets the mean of the other four of
    five folds, so that its own target is not used, and ``fit_transform`` differs from ``fit`` and
    ``transform``. Sample weights are ignored. A pair has two cells only, unequal and equal values,
    if these explain 2 %, and the combinations less than 5 % in addition: for rules such as "the
    cities of billing and shipping are equal", also for rare and unknown cities. At least three
    categories must occur as equal values; a missing value is equal to none. Interaction features
    help if the target follows rules, as in the dataset ``nursery``; most datasets get none. There
    are none without y, for transformers, and with more than 12 categorical features, where feature
    weights may concentrate on a few interactions.
    ``set_params(preprocessing__interactions="drop")`` removes them.

    **Interactions of numerical features** are for rules such as "a is larger than b" or "a and b
    are equal". Candidates for each pair of columns are their equality, if they share a set of
    values; their difference, if they share a unit, else their ratio, if all values are positive;
    and their product, of values that are centred at the median unless they are positive. Up to 15
    are added: those whose 16 intervals explain more of the residuals of an additive model than they
    would of noise, and at least a quarter of what the best explains. The best has to explain 3 % of
    the residual variance, or all together 20 %, as for the largest of five columns. There are none
    for more than 64 columns and for transformers.
    ``set_params(preprocessing__numerical_interactions="drop")`` removes them.

    **Thresholds of numerical features** are for rules such as "at least two of three values are too
    high". The features are indicators of values above a threshold, at which the target jumps: the
    splits of decision trees concentrate within 2 % of the samples, and the mean targets of the
    nearest tenths below and above it, of samples that did not fit the tree, differ by at least 65 %
    of the difference between both sides. Up to 10 are added, if they lower the leave-one-out error
    of a kernel ridge regression by 13 %. There are none of columns with fewer than 32 distinct
    values, for fewer than 200 samples, for more than 64 columns, for more than 30 classes or
    outputs, and for transformers.
    ``set_params(preprocessing__thresholds="drop")`` removes them.

    **Repeated values of numerical features** are encoded by their mean targets if the target is no
    smooth function of them, as with codes of regions, or amounts that are fixed by law. The mean of
    the samples with the same value, in the other folds, must have a squared error that is lower
    than that of the next smaller and next larger values: by 1 % of the variance of the target, and
    by 4 standard deviations of the difference. Only values of 5 samples or more count. Up to 12
    features are added, one per column, or per column and class or output. The means are
    cross-fitted, and shrunk to the overall mean by empirical Bayes, as those of high-cardinality
    categories are; missing values have a mean of their own, and unknown values the overall mean.
    There are none for more than 64 columns and for transformers. With 4,000 samples of ``adult``
    the accuracy of an RBF network rises from 85.7 to 86.9 %
    (``benchmarks/repeated_values.py``).
    ``set_params(preprocessing__repeated_values="drop")`` removes them.

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
    >>> size, color = rng.lognormal(sigma=3, size=300), rng.integers(3, size=300)
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
     'missing__missingindicator_x0', 'values__x0']

    In a DataFrame categorical features are recognised by their dtypes:

    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": size, "color": np.array(["red", "green", "blue"])[color]})
    >>> pipeline = make_tabular_pipeline(classifier)
    >>> pipeline[:-1].fit_transform(table, y).shape
    (300, 5)

    Dates, text and many categories:

    >>> day, zip_code = rng.integers(365, size=900), rng.integers(150, size=900)
    >>> words = rng.choice(["cheap", "good", "new", "used", "large", "small", "red"], (900, 5))
    >>> orders = pd.DataFrame({
    ...     "when": np.datetime64("2026-01-01") + day,
    ...     "zip": [f"Z{code}" for code in zip_code],
    ...     "comment": [" ".join(each) for each in words],
    ... })
    >>> y = (day < 180) + zip_code / 75 + (words == "good").sum(axis=1)
    >>> model = make_tabular_pipeline("regressor", preset="fast", random_state=0)
    >>> bool(model.fit(orders[:600], y[:600]).score(orders[600:], y[600:]) > 0.7)
    True
    >>> model[:-1].get_feature_names_out()[:5].tolist()  # doctest: +NORMALIZE_WHITESPACE
    ['categorical__mean(zip)', 'datetime__when_days', 'datetime__when_year_sin',
     'datetime__when_year_cos', 'datetime__when_weekday']
    """
    estimator = _make_estimator(
        estimator, preset, random_state=random_state, device=device, max_memory=max_memory,
        verbose=verbose,
    )  # fmt: skip
    task = _TASKS.get(_estimator_type(estimator))
    features = check_categorical_features(categorical_features)
    preprocessing = _make_preprocessing(task, features)
    name = type(estimator).__name__.lower()
    # Without metadata routing, pipelines raise an error for `transform_input`.
    transform_input = ["X_val"] if _routes_metadata() else None
    steps = [("preprocessing", preprocessing), (name, estimator)]
    return TabularPipeline(steps, transform_input=transform_input)


def _routes_metadata():
    return get_config()["enable_metadata_routing"]


def _make_preprocessing(task, features):
    """Return the `TableTransformer` for a task, or None, and validated categorical features."""
    # Imported here: they take half as long as the rest of this package.
    from sklearn.impute import MissingIndicator

    from .numerical_interactions import NumericalInteractionEncoder
    from .repeated_values import RepeatedValueEncoder
    from .scalers import MIN_RANKED, MedianImputer, RankOrValueScaler, RankScaler, ValueScaler
    from .table_transformer import TableTransformer
    from .thresholds import ThresholdEncoder

    numerical, categorical, datetime, text = (
        ColumnSelector(kind, features) for kind in ("numerical", "categorical", "datetime", "text")
    )

    def ranks(scaler=RankScaler):
        return [("impute", MedianImputer()), ("ranks", scaler(random_state=0))]

    numbers = ranks(RankOrValueScaler if task == "regression" else RankScaler)
    values = Pipeline([("impute", MedianImputer()), ("scale", ValueScaler())])
    # Of fewer samples, the numerical features of regressors are values already.
    with_values = ColumnSelector("numerical", features, MIN_RANKED)
    dates = [("encode", DatetimeEncoder()), *ranks()]

    def encoded(encoder):
        steps = [("impute", MedianImputer()), ("encode", encoder(task))]
        return Pipeline(steps) if task else "drop"

    # A part of its own, since the ranks would scale the indicators.
    missing = MissingIndicator(error_on_new=False, sparse=False)
    # The indicator of an empty column would be constant, and another constant in `predict`.
    not_empty = ColumnSelector("numerical", features, skip_empty=True)
    return TableTransformer(
        [
            ("numerical", Pipeline(numbers), numerical),
            ("categorical", CategoryEncoder(task, named=isinstance(features, list)), categorical),
            ("datetime", Pipeline(dates), datetime),
            ("text", TextEncoder(), text),
            ("missing", missing, not_empty),
            ("interactions", InteractionEncoder(task) if task else "drop", categorical),
            ("numerical_interactions", encoded(NumericalInteractionEncoder), numerical),
            ("thresholds", encoded(ThresholdEncoder), numerical),
            ("repeated_values", RepeatedValueEncoder(task) if task else "drop", numerical),
            ("values", values if task else "drop", with_values),
        ]
    )


def _make_estimator(estimator, preset, **options):
    """Return the estimator of the pipeline, which has the options if it is that of a preset."""
    check_choice("preset", preset, _PRESETS)
    if isinstance(estimator, str):
        classes = _PRESETS[preset]
        made = classes[check_choice("estimator", estimator, classes, "an estimator")](**options)
        if _routes_metadata():
            made.set_fit_request(X_val=True, y_val=True, sample_weight_val=True)
        return made
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(
            f"estimator={estimator!r} has no method fit, or is a class; pass an instance, such as "
            "RBFClassifier()."
        )
    defaults = signature(make_tabular_pipeline).parameters
    for name, value in {"preset": preset, **options}.items():
        if value is not defaults[name].default and value != defaults[name].default:
            raise ValueError(
                f'{name}={value!r} needs estimator="classifier" or "regressor"; set it on the '
                f"{type(estimator).__name__} instead."
            )
    return estimator


def _estimator_type(estimator):
    """Return "classifier", "regressor" or another type of scikit-learn, None if it has no tags."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    return tags and tags().estimator_type
