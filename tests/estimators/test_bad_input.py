"""Invalid data and parameters: each message has the parameter, the value and the remedy."""

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning

from sklearn_fsvc import (
    PatchClassifier,
    PatchProjector,
    PatchRegressor,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    StackedClassifier,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
    make_tabular_pipeline,
)
from sklearn_fsvc._src.readouts import loo_penalty
from sklearn_fsvc._src.targets import labels
from sklearn_fsvc.images import augmented

X = np.random.default_rng(0).random((30, 4))
Y = np.arange(30) % 3

RBF, TANH = (
    [RBFClassifier, RBFRegressor, RBFProjector],
    [TanhClassifier, TanhRegressor, TanhProjector],
)
ALL = [*RBF, *TANH]
CLASSIFIERS, REGRESSORS = [RBFClassifier, TanhClassifier], [RBFRegressor, TanhRegressor]


def size_of(cls):
    return "n_components" if cls.__name__.endswith("Projector") else "n_hidden"


def given_layer(cls):
    """Return parameters with which nothing of the layer is searched."""
    if cls in RBF:
        return {"kernel": "laplacian", "radius": 1.0, "feature_weights": None}
    return {"feature_weights": None} if cls in TANH else {}


@cache
def fitted_to_valid(cls):
    alpha = {"alpha": 1.0} if hasattr(cls, "predict") else {}
    return cls(**{size_of(cls): 5}, **given_layer(cls), **alpha).fit(X, Y)


def cases():
    for cls in ALL:
        size = size_of(cls)
        yield cls, {size: 0}, ValueError, f"{size}=0 must be at least 1"
        yield cls, {size: -3}, ValueError, f"{size}=-3 must be at least 1"
        yield cls, {size: 2.5}, TypeError, f"{size}=2.5 must be an integer"
        yield cls, {size: "many"}, TypeError, f"{size}='many' must be an integer"
        yield cls, {"device": "gpu"}, ValueError, "device='gpu' is not known; choose one of"
        yield cls, {"max_memory": "lots"}, ValueError, "max_memory='lots' is not a size"
        yield cls, {"verbose": "x"}, TypeError, "verbose='x' must be a non-negative integer"
        yield cls, {"verbose": -1}, ValueError, "verbose=-1 must be a non-negative integer"
        yield cls, {"max_memory": 10}, ValueError, "10.0 B are available within max_memory"
    for cls in TANH:
        yield cls, {"bias": "no"}, TypeError, "bias='no' must be True or False"
    for cls in RBF:
        yield cls, {"shuffle": "no"}, TypeError, "shuffle='no' must be True or False"
        yield cls, {"radius": 0}, ValueError, "radius=0 must be finite and greater than 0"
        yield cls, {"radius": np.nan}, ValueError, "radius=nan must be finite"
        yield cls, {"radius": "big"}, TypeError, "radius='big' must be a number"
        yield cls, {"selection_radius": -1}, ValueError, "selection_radius=-1 must be"
        yield cls, {"overlap": 0}, ValueError, "overlap=0 must be finite and greater than 0"
        yield cls, {"overlap": np.inf}, ValueError, "overlap=inf must be finite"
        yield cls, {"metric": "cosine"}, ValueError, "metric='cosine' is not known; choose one"
        yield cls, {"kernel": "distance"}, ValueError, "kernel='distance' is not known"
        yield cls, {"selection": "best"}, ValueError, "selection='best' is not known"
        for bad, error, why in (
            ("equal", ValueError, "feature_weights='equal' is not known; choose one of 'learned'"),
            ({"x": 1}, TypeError, "must be None, one of ('learned'"),
            ([1.0, 2.0], ValueError, "feature_weights has 2 values, but X has 4 features"),
            ([1.0, -1, 1, 1], ValueError, "must have a finite weight of 0 or more"),
            ([1.0, np.nan, 1, 1], ValueError, "must have a finite weight of 0 or more"),
            ([[1.0] * 4], ValueError, "feature_weights has 1 rows, but X has 4 features"),
            ([0.0] * 4, ValueError, "is 0 for all features"),
        ):
            yield cls, {"feature_weights": bad}, error, why
        unsized = {"selection": "random", size_of(cls): None, "radius": 1.0}
        yield cls, unsized, ValueError, f"{size_of(cls)}=None requires novelty selection"
    for cls in TANH:
        yield cls, {"scale": 0}, ValueError, "scale=0 must be finite and greater than 0"
        yield cls, {"scale": "wide"}, TypeError, "scale='wide' must be a number"
        yield cls, {"weights": "uniform"}, ValueError, "weights='uniform' is not known"
        for bad, error in (((2, 3), ValueError), ((4, 0), ValueError), ((4,), ValueError)):
            yield cls, {"image_shape": bad}, error, f"image_shape={bad!r} m"
        for bad in (4, "2x2", (2.0, 2), (True, 4), {2, 3}, b"ab"):
            yield cls, {"image_shape": bad}, TypeError, f"image_shape={bad!r} must be (rows, col"
        yield cls, {"patch_size": (1, 2)}, ValueError, "patch_size=(1, 2) requires the shape"
        for bad, error, why in (
            ((2, 1), ValueError, "must be (low, high) with low <= high"),
            ((1, 3), ValueError, "does not fit in images of 2 x 2"),
            ((3, 3), ValueError, "low may be 2 at most, and high 2"),
            ((0, 1), ValueError, "must be (low, high), the smallest and largest side"),
            ((1, 2, 3), ValueError, "must be (low, high), the smallest and largest side"),
            (2, TypeError, "must be (low, high), the smallest and largest side"),
            ((1, 1.5), TypeError, "must be (low, high), the smallest and largest side"),
        ):
            message = f"patch_size={bad!r} {why}" if "at most" not in why else why
            yield cls, {"image_shape": (2, 2), "patch_size": bad}, error, message
        for bad in ((2, 4), (1, 5)):
            oblong = {"image_shape": (1, 4), "patch_size": bad}
            yield cls, oblong, ValueError, "low may be 1 at most, and high 4"
    for cls in (*RBF, *TANH):
        for bad in (-1, 1.5, "seed", [0]):
            message = f"random_state={bad!r} must be an integer from 0 to 2**32 - 1"
            yield cls, {"random_state": bad}, ValueError, message
    for cls in (*CLASSIFIERS, *REGRESSORS):
        yield cls, {"alpha": -1}, ValueError, "alpha=-1 must be finite and 0 or more"
        yield cls, {"alpha": None}, TypeError, "alpha=None must be a number"
        yield cls, {"alpha": np.nan}, ValueError, "alpha=nan must be finite and 0 or more"
        yield cls, {"alpha": np.inf}, ValueError, "alpha=inf must be finite and 0 or more"
        yield cls, {"alpha": True}, TypeError, "alpha=True must be a number"
        yield cls, {"alpha": [1, -1]}, ValueError, "alpha=-1 must be finite and 0 or more"
        yield cls, {"alpha": [1, np.nan]}, ValueError, "alpha=nan must be finite and 0 or more"
        yield cls, {"alpha": ["loo"]}, TypeError, "alpha='loo' must be a number, not str"
        yield cls, {"alpha": [[1.0]]}, TypeError, "alpha=[1.0] must be a number, not list"
        yield cls, {"alpha": []}, ValueError, 'alpha=[] is empty; use a number, several, "auto"'
        yield cls, {"alpha": "press"}, ValueError, "alpha='press' is not known; use a number"
        yield cls, {"alpha": np.array([])}, ValueError, "is empty; use a number, several, "
    for cls in REGRESSORS:
        for bad in ("sigmoid", 1, None):
            message = f"uncertainty={bad!r} must be True or False"
            yield cls, {"uncertainty": bad}, TypeError, message
    for word, known in (("per_class", "'global', 'random'"), ("best", "'global', 'random'")):
        message = f"selection={word!r} is not known; choose one of {known}"
        yield RBFRegressor, {"selection": word}, ValueError, message
    for word in ("class_informed", "constrained"):
        message = f"weights={word!r} is not known; choose one of 'gaussian', 'orthogonal'"
        yield TanhRegressor, {"weights": word}, ValueError, message
    yield RBFClassifier, {"readout": "svm"}, ValueError, "readout='svm' is not known"
    yield RBFProjector, {"feature_weights": "auto"}, ValueError, "feature_weights='auto' is not"
    yield RBFProjector, {"kernel": "auto"}, ValueError, "kernel='auto' is not known"
    for readout in ("lms", "none"):
        for weights in ("learned", "map"):
            bad = {"feature_weights": weights, "readout": readout}
            match = f'feature_weights="{weights}" is validated by the ridge'
            yield RBFClassifier, bad, ValueError, match
    yield RBFClassifier, {"learning_rate": 0}, ValueError, "learning_rate=0 must be"
    yield RBFClassifier, {"max_iter": 0}, ValueError, "max_iter=0 must be at least 1"


@pytest.mark.parametrize(
    ("cls", "params", "error", "message"),
    list(cases()),
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_invalid_parameters(cls, params, error, message):
    estimator = cls(**{size_of(cls): 5} | params)
    with pytest.raises(error) as caught:
        estimator.fit(X, Y).predict(X) if hasattr(cls, "predict") else estimator.fit_transform(X)
    assert message in str(caught.value)


@pytest.mark.parametrize("cls", [*CLASSIFIERS, *REGRESSORS])
@pytest.mark.parametrize("alpha", ["best", "LOO", [[1.0], [1.0, 2.0]]])
def test_valid_types_of_alpha(cls, alpha):
    with pytest.raises((TypeError, ValueError)) as caught:
        cls(5, alpha=alpha).fit(X, Y)
    assert "alpha=" in str(caught.value)
    if isinstance(alpha, str):
        assert f"alpha={alpha!r}" in str(caught.value)
        assert '"loo"' in str(caught.value)


@pytest.mark.parametrize("cls", [RBFClassifier, TanhClassifier])
@pytest.mark.parametrize(
    "bad", [{"alpha": [1, -1]}, {"alpha": "best"}, {"class_weight": {0: -1}}], ids=str
)
def test_an_invalid_readout_parameter_keeps_the_previous_fit(cls, bad):
    clf = cls(5, alpha="loo", **given_layer(cls)).fit(X, Y).set_params(**bad)
    before = dict(vars(clf))
    with pytest.raises((TypeError, ValueError)):
        clf.fit(X[:, :2], Y)
    assert vars(clf) == before
    assert clf.set_params(alpha=1.0).predict_proba(X).shape == (30, 3)


@pytest.mark.parametrize("cls", [RBFClassifier, TanhClassifier])
@pytest.mark.parametrize(
    ("module", "name"),
    [(loo_penalty, "gather"), (loo_penalty, "compute_press"), (labels, "fit_calibration")],
)
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_in_the_readout_keeps_the_previous_fit(cls, module, name, error, monkeypatch):
    clf = cls(5, alpha=[0.1, 1.0], **given_layer(cls)).fit(X, Y)
    before = dict(vars(clf))

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(module, name, fail)
    with pytest.raises(error):
        clf.fit(X[:20, :2], Y[:20])
    assert vars(clf) == before


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.full((30, 4), np.nan), "NaN"),
        (np.full((30, 4), np.inf), "infinity"),
        (np.zeros((0, 4)), "0 sample"),
        (np.zeros((30, 0)), "0 feature"),
        (np.zeros(30), "Expected 2D array"),
        (np.full((30, 4), "a"), "could not convert|dtype"),
        (np.zeros((30, 4), complex), "[Cc]omplex"),
    ],
)
def test_invalid_X(cls, bad, message):
    with pytest.raises(ValueError, match=message):
        cls(**{size_of(cls): 5}).fit(bad, Y[: len(bad)])
    fitted = fitted_to_valid(cls)
    method = fitted.predict if hasattr(cls, "predict") else fitted.transform
    with pytest.raises(ValueError, match=message):
        method(bad)


@pytest.mark.parametrize("cls", [RBFClassifier, TanhClassifier])
def test_invalid_labels(cls):
    with pytest.raises(ValueError, match="y has one class, 1"):
        cls(5).fit(X, np.ones(30))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        cls(5).fit(X, Y[:-1])
    with pytest.raises(ValueError, match="one class, 0, among samples of positive sample_weight"):
        cls(5).fit(X, Y, sample_weight=(Y == 0).astype(float))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        cls(5).fit(X, Y, sample_weight=-np.ones(30))


class OwnClassifier(TanhClassifier):
    """A subclass of a user, for which the package has no regression version."""


@pytest.mark.parametrize(
    ("classifier", "regressor"),
    [
        (RBFClassifier(5), r"use RBFRegressor\(\), or"),
        (TanhClassifier(5), r"use TanhRegressor\(\), or"),
        (PatchClassifier(5, image_shape=(2, 2)), r"use PatchRegressor\(\), or"),
        (
            StackedClassifier(),
            r'use StackedRegressor\(\) or make_tabular_pipeline\("regressor"\), or',
        ),
        (OwnClassifier(5), r"use RBFRegressor\(\), or"),
    ],
    ids=str,
)
def test_continuous_labels_raise_with_the_remedy(classifier, regressor):
    """The error names the regressor, also after valid batches of `partial_fit`."""
    message = f"Unknown label type: continuous.*{regressor}"
    for y in (X[:, 0], X[:, :2]):
        with pytest.raises(ValueError, match=message):
            classifier.fit(X, y)
    if hasattr(classifier, "partial_fit"):
        learner = clone(classifier).partial_fit(X, Y, classes=[0, 1, 2])
        with pytest.raises(ValueError, match=message):
            learner.partial_fit(X, X[:, 0])
        with pytest.raises(ValueError, match=r"y contains \[9\], which are not among classes"):
            learner.partial_fit(X, np.full(30, 9))


@pytest.mark.parametrize("cls", [*ALL, PatchClassifier, PatchProjector, PatchRegressor])
@pytest.mark.parametrize("n_channels", [None, 3])
def test_images_that_are_not_flattened_raise(cls, n_channels):
    shape = (2, 2) if n_channels is None else (2, 2, n_channels)
    images = np.random.default_rng(0).normal(size=(30, *shape))
    remedy = rf"X has shape {re.escape(str(images.shape))}.* pass X\.reshape\(len\(X\), -1\)"
    if hasattr(cls(), "pool"):
        remedy += re.escape(f", with image_shape={shape}")
    elif cls in (TanhClassifier, TanhRegressor, TanhProjector):
        with pytest.raises(ValueError, match=re.escape(f"with image_shape={shape}")):
            cls(image_shape=(2, 2)).fit(images, Y)
    remedy += r"\.$|, where the channels are the last axis"
    with pytest.raises(ValueError, match=remedy):
        cls().fit(images, Y)
    model = cls(**{size_of(cls): 5})
    given = {"image_shape": shape} if hasattr(cls(), "pool") else given_layer(cls)
    model.set_params(**given, **({} if hasattr(cls, "transform") else {"alpha": 1.0}))
    model.fit(images.reshape(30, -1), Y)  # the remedy of the message
    with pytest.raises(ValueError, match=remedy):
        (model.transform if hasattr(cls, "transform") else model.predict)(images)


@pytest.mark.parametrize("classifier", [TanhClassifier(5), StackedClassifier()], ids=str)
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=str)
def test_missing_labels(classifier, missing):
    y = np.array(["yes", "no", "yes"] * 10, dtype=object)
    y[[4, 7]] = missing
    message = r"Input y .* in 2 of 30 rows, row 4 .*leave such rows"
    for bad in (y, pd.Series(y, dtype="str"), np.column_stack([y, y])):
        with pytest.raises(ValueError, match=message):
            classifier.fit(X, bad)


LABELS = [
    ([2**70 + y for y in Y.tolist()], r"of type int; .*astype\(str\)\.$"),
    (pd.period_range("2024", periods=30, freq="D"), r"of type Period; .*astype\(str\)\.$"),
    ((Y > 0).astype(object), r"of type bool; .*astype\(str\), or to numbers with astype\(int\)"),
]


@pytest.mark.parametrize(("bad", "message"), LABELS)
def test_labels_of_other_types(bad, message):
    """The message recommends only conversions that are possible."""
    with pytest.raises(ValueError, match=message):
        TanhClassifier(5).fit(X, bad)


@pytest.mark.parametrize("cls", REGRESSORS)
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.where(Y == 0, np.nan, Y), ValueError, "Input y contains NaN"),
        (np.where(Y == 0, np.inf, Y), ValueError, "Input y contains infinity"),
        (np.where(Y == 0, None, Y), ValueError, "Input y contains NaN"),
        (np.where(Y == 0, np.inf, Y).astype(object), ValueError, "Input y contains infinity"),
        (np.where(Y == 0, 10**400, Y.astype(object)), ValueError, "y has dtype obj.*divide y by"),
        (Y.astype(str), ValueError, "y has dtype <U.* not numeric"),
        (np.array(["a", "b", 3] * 10, object), ValueError, "y has dtype object.* not numeric"),
        (Y.astype("M8[s]"), ValueError, "y has dtype datetime64.* dates. Pass numbers, .* days"),
        (pd.period_range("2024", periods=30, freq="D"), ValueError, "y has dtype .*holds dates"),
        (Y.astype("m8[s]"), ValueError, "y has dtype timedelta64.* durations. Pass seconds"),
        (Y.astype("m8[s]").tolist(), ValueError, "y has dtype object.* durations. Pass seconds"),
        (Y + 1j, ValueError, "Complex data not supported"),
        (Y[:-1], ValueError, "inconsistent numbers of samples"),
        (Y[:0], ValueError, "0 sample"),
        (np.zeros((30, 0)), ValueError, "0 feature"),
        (np.zeros((30, 2, 2)), ValueError, "array with dim 3"),
        (None, ValueError, "requires y to be passed"),
        (3.0, TypeError, "at least 1 dimension"),
    ],
    ids=str,
)
def test_invalid_numeric_targets(cls, bad, error, message):
    model = cls(5, random_state=0)
    with pytest.raises(error, match=message):
        model.fit(X, bad)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("cls", REGRESSORS)
def test_targets_whose_predictions_overflow(cls):
    y = np.where(Y == 0, 9e307, Y)
    message = r"y has a standard deviation of 4.*e\+307.* divide y by"
    with pytest.raises(ValueError, match=message):
        cls(5, random_state=0).fit(X, y)
    streamed = cls(5, random_state=0).partial_fit(X, y)
    with pytest.raises(ValueError, match=message):
        streamed.predict(X)


def test_overflow_of_predictions_is_not_blamed_on_X():
    """Activations of RBF units are bounded."""
    rows = np.random.default_rng(0).normal(size=(200, 3))
    model = RBFRegressor(20, kernel="laplacian", feature_weights=None, random_state=0)
    model.fit(rows, rows[:, 0])
    model.readout_coef_ = np.resize([1e308, -1e308], model.readout_coef_.shape)
    model.readout_coef_[:, 10:] *= -1
    with pytest.raises(ValueError, match=r"^Predictions of so large a y overflow.* divide y"):
        model.predict(rows[:, [0, 0, 0]] * 0)


@pytest.mark.parametrize("cls", REGRESSORS)
def test_invalid_sample_weight(cls):
    for bad, message in (
        (-np.ones(30), r"[Nn]egative"),
        (np.zeros(30), "sample_weight is zero for all samples"),
        (np.ones(29), r"sample_weight.shape == \(29,\)"),
        (np.full(30, np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            cls(5).fit(X, Y, sample_weight=bad)


@pytest.mark.parametrize("cls", REGRESSORS)
def test_one_sample_cannot_be_held_out(cls):
    with pytest.raises(ValueError, match=r"validation, and n_samples=1. Pass more samples"):
        cls(1).fit(X[:1], Y[:1])
    given = cls(1, alpha=1.0)
    if cls is RBFRegressor:
        given.set_params(radius=1.0, kernel="triangular", feature_weights=None)
    assert (given.fit(X[:1], Y[:1] + 7).predict(X) == 7).all()


def test_per_class_needs_labels():
    with pytest.raises(ValueError, match='selection="per_class" requires y'):
        RBFProjector(5, selection="per_class").fit(X)


@pytest.mark.parametrize("weights", ["class_informed", "constrained"])
def test_weights_that_require_class_labels(weights):
    projector = TanhProjector(5, weights=weights)
    with pytest.raises(ValueError, match=rf"weights={weights!r} requires y .*or use .gauss"):
        projector.fit(X)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        projector.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        projector.fit(X, Y[:7])
    with pytest.raises(ValueError, match="1d array"):
        projector.fit(X, np.eye(3)[Y])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        projector.fit(X, np.where(Y == 0, np.nan, Y))
    assert not hasattr(projector, "components_")


def test_constrained_weights_of_one_class():
    with pytest.raises(ValueError, match=r'"constrained" are differences.*one class'):
        TanhProjector(5, weights="constrained").fit(X, np.zeros(30))
    TanhProjector(5, weights="class_informed").fit(X, np.zeros(30))  # sums of one class are defined


def test_class_weights_of_0_for_all_classes():
    with pytest.raises(ValueError, match="class_weight is zero for all samples"):
        RBFClassifier(5, class_weight={0: 0, 1: 0, 2: 0}).fit(X, Y)


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_class_weight_of_an_unknown_class(cls):
    message = r"has weights of \[7, 'a'\].*the classes \[0, 1, 2\] of y"
    with pytest.raises(ValueError, match=message):
        cls(5, class_weight={0: 2, 7: 1, "a": 1}).fit(X, Y)
    # As in scikit-learn, further classes are ignored if all of y have a weight.
    cls(5, class_weight={0: 2, 1: 1, 2: 1, 7: 1}, alpha=1.0, **given_layer(cls)).fit(X, Y)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_invalid_class_weights(cls, bad):
    with pytest.raises(ValueError, match=f"class_weight=.*contains {bad}; the weight of each"):
        cls(5, class_weight={0: bad, 1: 1, 2: 1}).fit(X, Y)


@pytest.mark.parametrize(
    ("bad", "error"), [("bal", ValueError), ([1, 2], TypeError), (2.0, TypeError), ([], TypeError)]
)
@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_class_weights_of_other_types(cls, bad, error):
    message = re.escape(f'class_weight={bad!r} must be None, "balanced" or a dict (a list of dicts')
    for method in ("fit", "partial_fit"):
        with pytest.raises(error, match=message):
            getattr(cls(5, class_weight=bad), method)(X, Y)


def test_class_weights_of_another_number_of_outputs():
    model = TanhClassifier(5, class_weight=[{0: 2.0}, {1: 3.0}])
    with pytest.raises(ValueError, match=r"for 2 output\(s\), and y has 1; pass a dict for one"):
        model.fit(X, Y)
    model.set_params(class_weight={0: 2.0})
    with pytest.raises(ValueError, match=r"for 1 output\(s\), and y has 2; .* list with a dict"):
        model.fit(X, np.column_stack([Y, Y]))


@pytest.mark.parametrize("weight", [1e300, 1e36, 1e-60])
@pytest.mark.parametrize("cls", CLASSIFIERS + REGRESSORS)
def test_sample_weights_whose_sum_overflows(cls, weight):
    with pytest.raises(ValueError, match=r"from sample_weight, have the sum .*divide them by"):
        cls(5).fit(X, Y, np.full(30, weight))


def test_class_weights_whose_sum_overflows():
    with pytest.raises(ValueError, match=r"from class_weight, have the sum .*divide them by"):
        TanhClassifier(5, class_weight={0: 1e300, 1: 1, 2: 1}).fit(X, Y)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("factor", [1e-30, 1e-20, 1e25])
@pytest.mark.parametrize("selection", ["global", "random"])
def test_samples_whose_squares_overflow(metric, factor, selection):
    rows = (X * factor).astype(np.float32)
    model = RBFProjector(5, metric=metric, selection=selection, random_state=0)
    with pytest.raises(ValueError, match=f"metric='{metric}'.*feature .*Scale the features of X"):
        model.fit(rows)
    assert RBFProjector(5, random_state=0).fit(rows).transform(rows).any()
    transformed = model.fit(rows.astype(np.float64)).transform(rows.astype(np.float64))
    np.testing.assert_allclose(
        transformed, model.fit(X.astype("f")).transform(X.astype("f")), atol=1e-5
    )


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    ("table", "what"),
    [
        (np.where(X > 0.9, np.nan, X), "Input X contains NaN. "),
        (
            np.where(X > 0.9, "red", "1.0").astype(object),
            "could not convert string to float: 'red'",
        ),
    ],
    ids=["missing", "category"],
)
def test_non_numeric_features_have_a_remedy(cls, table, what):
    """Errors of all methods that take X recommend the pipeline for tabular data."""
    remedy = f"make_tabular_pipeline({cls.__name__}(...))"
    fitted = fitted_to_valid(cls)
    method = getattr(fitted, "predict", None) or fitted.transform
    calls = [lambda: cls().fit(table, Y), lambda: method(table)]
    if hasattr(cls, "partial_fit"):
        classes = {} if cls in REGRESSORS else {"classes": range(3)}
        calls.append(lambda: cls(**{size_of(cls): 5}).partial_fit(table, Y, **classes))
    for call in calls:
        with pytest.raises(ValueError, match=re.escape(what)) as error:
            call()
        assert remedy in str(error.value)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pd.date_range("2026-01-01", periods=len(X)), r"Column 'b' of X \(datetime64.* dates"),
        (pd.timedelta_range("1h", periods=len(X)), r"Column 'b' of X \(timedelta64.* seconds"),
        (pd.Categorical(["red"] * len(X)), r"make_tabular_pipeline\(RBFClassifier"),
    ],
    ids=["dates", "times", "text"],
)
def test_non_numeric_columns_of_a_dataframe(column, what):
    table = pd.DataFrame({"a": X[:, 0] > 0.5, "b": column})
    with pytest.raises(ValueError, match=what):
        RBFClassifier().fit(table, Y)


def test_the_recommended_pipeline_accepts_missing_values():
    table = np.where(X > 0.9, np.nan, X)
    model = RBFClassifier(10, alpha=1.0, **given_layer(RBFClassifier))
    make_tabular_pipeline(model).fit(table, Y).predict(table)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(0, 0), (-1, -1)])
def test_large_arrays_are_validated_by_all_threads(bad, place):
    """The first and the last thread find invalid values in their parts of the array."""
    rows = np.full((300_001, 4), 1e33, np.float32)  # finite, but their sums overflow
    assert TanhProjector(2).fit(rows).n_features_in_ == 4
    rows[place] = bad
    with pytest.raises(ValueError, match="Input X contains"):
        TanhProjector(2).fit(rows)
    rows[:] = 1.0
    rows[place] = bad
    with pytest.raises(ValueError, match="Input X contains"):
        TanhProjector(2).fit(rows)


@pytest.mark.parametrize("estimator", [TanhClassifier(20), StackedClassifier()], ids=repr)
def test_groups_of_several_types(estimator, rng):
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    groups = np.array([None, *map(str, range(39))], dtype=object)
    with pytest.raises(TypeError, match=r"groups contains labels of .*NoneType, str.* to text"):
        estimator.fit(X, y, groups=groups)


@pytest.mark.parametrize(
    ("labels", "types"),
    [(["a", 1], "int, str"), ([1, "a"], "int, str"), ([0, 1], "int"), ([True, False], "bool")],
    ids=str,
)
def test_labels_of_dtype_object_that_are_not_text(labels, types, rng):
    X, codes = rng.normal(size=(60, 2)), np.arange(60) % 2
    y, text = np.array(labels, dtype=object)[codes], codes.astype(str)
    model, message = TanhClassifier(20), f"of type .*{types}.*; convert .*astype"
    for fit in (
        lambda: model.fit(X, y),
        lambda: model.fit(X, np.column_stack([y, text.astype(object)])),
        lambda: model.fit(lambda: [(X, y)]),
        lambda: model.fit(X, text, X_val=X, y_val=y),
        lambda: model.fit(X, codes, X_val=X, y_val=y),
        lambda: model.partial_fit(X, y),
        lambda: model.partial_fit(X, y, classes=["a", "b"]),
        lambda: model.partial_fit(X, text, classes=np.array(["0", "1", *labels], dtype=object)),
        lambda: StackedClassifier().fit(X, y),
        lambda: make_tabular_pipeline(model).fit(pd.DataFrame({"a": X[:, 0], "text": text}), y),
        lambda: RBFProjector(5, selection="per_class").fit(X, y),
    ):
        with pytest.raises(ValueError, match=message):
            fit()
        assert not hasattr(model, "readout_coef_")


def test_missing_labels_in_later_samples(rng):
    X, y = rng.normal(size=(60, 2)), np.array(["a", "b"] * 30, dtype=object)
    missing = np.where(np.arange(60) == 7, None, y)
    model, message = TanhClassifier(20), "1 of 60 rows, row 7"
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, X_val=X, y_val=missing)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y, classes=["a", "b"]).partial_fit(X, missing)


def test_an_ensemble_warns_once_of_a_column_vector(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60)[:, None] % 2
    network = TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0)
    networks = [("one", network), ("two", network)]
    with pytest.warns(DataConversionWarning) as caught:
        StackedClassifier(networks, random_state=0).fit(X, y)
    assert len(caught) == 1


MASKED = {"X": np.ma.array(X, mask=X > 0.9), "y": np.ma.array(Y, mask=Y == 2)}
MASKED["sample_weight"] = np.ma.array(np.ones(30), mask=Y == 2)


@pytest.mark.parametrize("name", MASKED)
def test_masked_values_raise(name):
    """NumPy would pass them on as valid."""
    masked = {"X": X, "y": Y, "sample_weight": np.ones(30), name: MASKED[name]}
    n_masked, size = np.ma.count_masked(MASKED[name]), MASKED[name].size
    message = f"{name} is a masked array, of which {n_masked} of {size} values are masked; leave"
    fitted = TanhClassifier(20, random_state=0).partial_fit(X, Y, sample_weight=np.ones(30))
    calls = [fitted.fit, fitted.partial_fit, fitted.forget, fitted.score]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call(**masked)
    with pytest.raises(ValueError, match=message.replace(name, f"{name}_val", 1)):
        fitted.fit(X, Y, **{f"{key}_val": value for key, value in masked.items()})
    with pytest.raises(ValueError, match=message):
        fitted.fit(lambda: [tuple(masked.values())])
    with pytest.raises(ValueError, match="groups is a masked array"):
        fitted.fit(X, Y, groups=MASKED["y"])
    assert fitted.score(**{key: np.ma.array(value.data) for key, value in MASKED.items()}) > 0.3


def test_masked_parameters_raise():
    half = np.ma.array([0.0, 1.0, 2.0, 3.0], mask=[0, 1, 0, 0])
    masked = {
        "classes": lambda: TanhClassifier(5).partial_fit(X, Y, classes=half),
        "layer": lambda: RBFClassifier(layer=MASKED["X"]).fit(X, Y),
        "feature_weights": lambda: RBFClassifier(5, feature_weights=half).fit(X, Y),
    }
    for name, call in masked.items():
        with pytest.raises(ValueError, match=rf"{name} is a masked.*replace these.*{name}.filled"):
            call()
    fitted = TanhClassifier(5).partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="classes is a masked array"):
        fitted.partial_fit(X, Y, classes=half[:3])


@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
@pytest.mark.parametrize("cls", [TanhClassifier, RBFRegressor, StackedClassifier])
def test_the_name_of_a_column_of_a_table(cls, method):
    table = pd.DataFrame(X, columns=list("abcd")).assign(label=Y)
    model = cls()
    if method == "score":
        model = TanhClassifier(5, alpha=1.0).fit(table, Y)
    message = r"^y='label' names a column, .* pass X\['label'\] as y, and X without that column"
    if hasattr(model, method):
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(table, "label")


def test_columns_of_the_same_name_raise():
    twice = pd.DataFrame(X, columns=["a", "b", "a", "c"])
    message = r"several columns of the same name: \['a'\]\. Rename them, or keep the first"
    for call in (
        TanhRegressor(5).fit, TanhRegressor(5).partial_fit, RBFClassifier(5).fit,
        TanhRegressor(5).fit(X, Y).score,
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^X has {message}"):
            call(twice, Y)
    with pytest.raises(ValueError, match=f"0.* has {message}"):
        TanhRegressor(5).fit(lambda: [(twice, Y)])


def test_masked_values_of_tables_and_images_raise():
    for call in [
        make_tabular_pipeline(TanhClassifier(20)).fit,
        StackedClassifier([("tanh", TanhClassifier(5))]).fit,
        TanhProjector(5).fit,
        lambda X, y: TanhProjector(5).fit(augmented(X, y, (2, 2), shift=1)),
    ]:
        with pytest.raises(ValueError, match="X is a masked array"):
            call(MASKED["X"], Y)
    with pytest.raises(ValueError, match="X is a masked array"):
        TanhProjector(5).fit(X).transform(MASKED["X"])


@pytest.mark.parametrize(
    "model", [RBFRegressor(10, random_state=0), TanhRegressor(10, random_state=0)], ids=type
)
def test_nan_is_named_with_assume_finite(model):
    X = np.random.default_rng(0).normal(size=(60, 3))
    bad = X.copy()
    bad[[4, 5], 2] = np.nan  # not both are held out
    fitted = clone(model).fit(X, X[:, 0])
    with config_context(assume_finite=True):
        with pytest.raises(ValueError, match="X contains NaN in row 4, column 2; remove or impute"):
            fitted.predict(bad)
        with pytest.raises(ValueError, match="Feature 2 of X contains NaN or infinity; remove"):
            clone(model).fit(bad, X[:, 0])
