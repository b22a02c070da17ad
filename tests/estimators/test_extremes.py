"""Features of any scale: predictions are right, or the error names the sample and feature."""

import re
from functools import partial

import numpy as np
import pytest

from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.kernels import KERNELS, METRICS

# Powers of two, which change no digit: about 1e-30 to 1e30, and 1e-120 to 1e100.
EXPONENTS = {np.float32: (-100, -66, -20, 20, 66, 100), np.float64: (-400, -100, 100, 332)}
WEIGHTS = ("gaussian", "orthogonal", "class_informed", "constrained")
# What a refusal says.
SENTENCE = re.compile(
    r"([Ff]eature|column) \d.*(Scale the features|set feature_weights)", re.DOTALL
)


def rows(dtype):
    return np.random.default_rng(0).normal(size=(120, 6)).astype(dtype)


def classes(X):
    return (X[:, 0] > X[:, 1]).astype(int)


def fitted(model, X):
    like = rows(np.float64)
    return model.fit(X, classes(like) if "Regressor" not in type(model).__name__ else like[:, 0])


def answers(model, X):
    if hasattr(model, "transform"):
        return model.transform(X)
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict(X)


def is_of_blas(model):
    """Of MKL are products and tanh alone: sums of Manhattan there are those of `blas`."""
    return model.device == "mkl" and getattr(model, "metric", None) == "manhattan"


def are_squares(dtype, exponent):
    """Whether squares of differences of numbers of that size are numbers, and their sums."""
    numbers = np.finfo(dtype)
    return numbers.minexp + 8 < 2 * exponent < numbers.maxexp - 8


def check_sizes(make, dtype, takes_squares=False, exponents=None):
    """The answers do not depend on the unit of X; where squares overflow, the fit refuses."""
    if is_of_blas(make()):
        pytest.skip("the code of blas")
    X = rows(dtype)
    expected = answers(fitted(make(), X), X)
    for exponent in exponents or EXPONENTS[dtype]:
        large = np.ldexp(X, exponent)
        if takes_squares and not are_squares(dtype, exponent):
            with pytest.raises(ValueError, match=SENTENCE):
                fitted(make(), large)
            continue
        found = answers(fitted(make(), large), large)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=f"2^{exponent}")


@pytest.mark.parametrize("dtype", EXPONENTS)
@pytest.mark.parametrize("selection", ["global", "random"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_rbf_activations_do_not_depend_on_the_scale_of_X(kernel, metric, selection, dtype, device):
    def make():
        return RBFProjector(
            10, kernel=kernel, metric=metric, selection=selection, device=device, random_state=0
        )

    check_sizes(make, dtype, takes_squares=metric != "manhattan")


@pytest.mark.parametrize("dtype", EXPONENTS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_tanh_activations_do_not_depend_on_the_scale_of_X(weights, dtype, device):
    check_sizes(lambda: TanhProjector(10, weights=weights, device=device, random_state=0), dtype)


PREDICTORS = [
    lambda **shared: RBFClassifier(10, kernel="gaussian", **shared),
    lambda **shared: RBFRegressor(10, kernel="gaussian", **shared),
    lambda **shared: RBFClassifier(10, feature_weights="learned", alpha="loo", **shared),
    lambda **shared: RBFRegressor(10, feature_weights="learned", uncertainty=True, **shared),
    lambda **shared: RBFRegressor(10, feature_weights="map", **shared),
    lambda **shared: TanhClassifier(10, **shared),
    lambda **shared: TanhRegressor(10, feature_weights="learned", **shared),
]


# Very large and small values in a whole fit; layers are compared above.
DTYPES = [np.float32, pytest.param(np.float64, marks=pytest.mark.exhaustive)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", PREDICTORS)
def test_predictions_do_not_depend_on_the_scale_of_X(make, dtype, device):
    exponents = (-100, -66, 100) if dtype is np.float32 else EXPONENTS[dtype]
    check_sizes(lambda: make(device=device, random_state=0), dtype, exponents=exponents)


def extremes(dtype):
    """Rows that some formula would overflow of, or would lose."""
    X, most = rows(dtype), np.finfo(dtype).max
    least = np.finfo(dtype).smallest_subnormal
    changes = {
        "one number": [(np.s_[7, 3], 0.9 * most)],
        "both ends": [(np.s_[7, 3], most), (np.s_[8, 3], -most), (np.s_[9, :2], (most, -most))],
        "1e30": [(np.s_[7, 3], 1e30)],
        "a feature": [(np.s_[:, 2], 1e30 * X[:, 2])],
        "a small feature": [(np.s_[:, 2], 1e-30 * X[:, 2])],
        "both": [(np.s_[:, 2], 1e30 * X[:, 2]), (np.s_[:, 4], 1e-30 * X[:, 4])],
        "most": [(np.s_[:], X * (most / 10))],
        "all alike": [(np.s_[:], most)],
        "least": [(np.s_[:], np.sign(X) * least)],
    }
    for name, places in changes.items():
        found = X.copy()
        for place, value in places:
            found[place] = value
        yield name, found


def models(device):
    shared = {"device": device, "random_state": 0}
    # Searches and readouts on these engines are the code of jit.
    yield from (
        make(**shared) for make in (PREDICTORS[::3] if device in ("blas", "mkl") else PREDICTORS)
    )
    for kernel in KERNELS:
        for metric in METRICS:
            yield RBFProjector(10, kernel=kernel, metric=metric, **shared)
    for radius in (1e-30, 1e30):
        yield RBFProjector(10, kernel="gaussian", radius=radius, selection_radius=1.0, **shared)
    for weights in WEIGHTS:
        yield TanhProjector(10, weights=weights, **shared)
    for weights in ("gaussian", "class_informed"):
        yield TanhProjector(10, weights=weights, scale=1e20, **shared)


def or_refused(call, model, X):
    """What is called, or None where a sentence refuses it."""
    try:
        return call(model, X)
    except ValueError as error:
        if SENTENCE.search(str(error)):
            return None
        raise
    except UserWarning as warning:
        if "differ enough" in str(warning):  # fewer centres than asked for
            return None
        raise


@pytest.mark.parametrize("dtype", DTYPES)
def test_neither_fit_nor_predict_returns_nan(dtype, device):
    cases = {"plain": rows(dtype), **dict(extremes(dtype))}
    asks = {both: np.concatenate([cases[name] for name in both])
            for both in (("plain", "least"), ("1e30", "both"))}  # fmt: skip
    for model in models(device):
        if is_of_blas(model):
            continue
        for name, X in cases.items():
            if or_refused(fitted, model, X) is None:
                continue
            for asked, more in asks.items():
                found = or_refused(answers, model, more)
                is_right = found is None or np.isfinite(found).all()
                assert is_right, f"{model} fitted to {name}, asked {asked}"


NAMED = r"holds 3e\+38 in row 5, column 2: .*float32\. Scale the features"


@pytest.mark.parametrize("n_copies", [1, 10])  # few features are looked at, or H
def test_predict_names_the_sample_that_overflows(n_copies, device):
    """Whether a sum comes to NaN depends on its order: a bias of NaN does not.

    Engines of the host mend sums of rows, and `transform` does not look at them again.
    """
    X = np.tile(rows(np.float32), (1, n_copies))
    X[5, 2] = -3e38
    projector = TanhProjector(30, scale=1.0, device=device, random_state=0).fit(X)
    classifier = TanhClassifier(30, scale=1.0, device=device, random_state=0).fit(X, X[:, 0] > 0)
    projector.hidden_intercept_[3] = classifier.hidden_intercept_[3] = np.nan
    out = np.zeros((len(X), 31), np.float32)[:, :-1]
    asked = [classifier.predict, classifier.decision_function]
    if device == "cuda":
        asked += [projector.transform, partial(projector.transform, out=out)]
    for ask in asked:
        with pytest.raises(ValueError, match=NAMED):
            ask(X)


def test_fit_names_the_sample_that_overflows(device):
    X = rows(np.float32)
    X[5, 2] = -3e38
    projector = TanhProjector(30, scale=1.0, device=device, random_state=0).fit(X)
    projector.hidden_intercept_[3] = np.nan
    with pytest.raises(ValueError, match=NAMED):
        TanhRegressor(layer=projector, device=device).fit(X, X[:, 0])
