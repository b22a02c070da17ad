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

# Powers of two scale without rounding: about 1e-30 to 1e30, and 1e-120 to 1e100.
EXPONENTS = {np.float32: (-100, -66, -20, 20, 66, 100), np.float64: (-400, -100, 100, 332)}
WEIGHTS = ("gaussian", "orthogonal", "class_informed", "constrained")
# Errors name the feature and the remedy.
SCALE_ERROR = re.compile(
    r"([Ff]eature|column) \d.*(Scale the features|set feature_weights)", re.DOTALL
)


def make_samples(dtype):
    return np.random.default_rng(0).normal(size=(80, 6)).astype(dtype)


def make_labels(X):
    return (X[:, 0] > X[:, 1]).astype(int)


def fit(model, X):
    reference = make_samples(np.float64)[: len(X)]
    return model.fit(
        X, make_labels(reference) if "Regressor" not in type(model).__name__ else reference[:, 0]
    )


def outputs_of(model, X):
    if hasattr(model, "transform"):
        return model.transform(X)
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict(X)


def uses_blas_code(model):
    """Return whether the engine `mkl` runs the code of `blas`, as for Manhattan distances."""
    return model.device == "mkl" and getattr(model, "metric", None) == "manhattan"


def squares_are_finite(dtype, exponent):
    """Return whether sums of squared differences neither overflow nor underflow."""
    limits = np.finfo(dtype)
    return limits.minexp + 8 < 2 * exponent < limits.maxexp - 8


def check_scales(make, dtype, uses_squares=False, exponents=None):
    """Outputs do not depend on the scale of X; if squares overflow, the fit raises."""
    if uses_blas_code(make()):
        pytest.skip("mkl runs the code of blas")
    X = make_samples(dtype)
    expected = outputs_of(fit(make(), X), X)
    for exponent in exponents or EXPONENTS[dtype]:
        scaled = np.ldexp(X, exponent)
        if uses_squares and not squares_are_finite(dtype, exponent):
            with pytest.raises(ValueError, match=SCALE_ERROR):
                fit(make(), scaled)
            continue
        found = outputs_of(fit(make(), scaled), scaled)
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

    check_scales(make, dtype, uses_squares=metric != "manhattan")


@pytest.mark.parametrize("dtype", EXPONENTS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_tanh_activations_do_not_depend_on_the_scale_of_X(weights, dtype, device):
    check_scales(lambda: TanhProjector(10, weights=weights, device=device, random_state=0), dtype)


PREDICTORS = [
    lambda **shared: RBFClassifier(10, kernel="gaussian", feature_weights=None, **shared),
    lambda **shared: RBFRegressor(
        10, kernel="gaussian", feature_weights=None, uncertainty=True, **shared
    ),
    lambda **shared: RBFClassifier(10, feature_weights="learned", alpha="loo", **shared),
    lambda **shared: RBFRegressor(10, kernel="laplacian", feature_weights="map", **shared),
    lambda **shared: TanhClassifier(10, feature_weights=None, **shared),
    lambda **shared: TanhRegressor(10, feature_weights="learned", **shared),
]


# Whole fits on very large and very small values; the layers are tested above.
DTYPES = [np.float32, pytest.param(np.float64, marks=pytest.mark.exhaustive)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", PREDICTORS)
def test_predictions_do_not_depend_on_the_scale_of_X(make, dtype, device):
    exponents = (-100, -66, 100) if dtype is np.float32 else EXPONENTS[dtype]
    check_scales(lambda: make(device=device, random_state=0), dtype, exponents=exponents)


def extreme_samples(dtype):
    """Yield samples for which some formula would overflow or underflow."""
    X, largest = make_samples(dtype)[:40], np.finfo(dtype).max
    smallest = np.finfo(dtype).smallest_subnormal
    changes = {
        "one number": [(np.s_[7, 3], 0.9 * largest)],
        "both ends": [
            (np.s_[7, 3], largest),
            (np.s_[8, 3], -largest),
            (np.s_[9, :2], (largest, -largest)),
        ],
        "1e30": [(np.s_[7, 3], 1e30)],
        "a feature": [(np.s_[:, 2], 1e30 * X[:, 2])],
        "a small feature": [(np.s_[:, 2], 1e-30 * X[:, 2])],
        "both": [(np.s_[:, 2], 1e30 * X[:, 2]), (np.s_[:, 4], 1e-30 * X[:, 4])],
        "largest": [(np.s_[:], X * (largest / 10))],
        "constant": [(np.s_[:], largest)],
        "smallest": [(np.s_[:], np.sign(X) * smallest)],
    }
    for name, places in changes.items():
        found = X.copy()
        for place, value in places:
            found[place] = value
        yield name, found


def models(device):
    shared = {"device": device, "random_state": 0}
    # Searches and readouts on these engines are the code of jit: one predictor of each layer.
    yield from (
        make(**shared) for make in (PREDICTORS[::2] if device in ("blas", "mkl") else PREDICTORS)
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


def call_or_none(call, model, X):
    """Return the result, or None if the error names the feature and the remedy."""
    try:
        return call(model, X)
    except ValueError as error:
        if SCALE_ERROR.search(str(error)):
            return None
        raise
    except UserWarning as warning:
        if "differ enough" in str(warning):  # fewer centres than requested
            return None
        raise


@pytest.mark.parametrize("dtype", DTYPES)
def test_neither_fit_nor_predict_returns_nan(dtype, device):
    cases = {"plain": make_samples(dtype)[:40], **dict(extreme_samples(dtype))}
    queries = {names: np.concatenate([cases[name] for name in names])
            for names in (("plain", "smallest"), ("1e30", "both"))}  # fmt: skip
    for model in models(device):
        if uses_blas_code(model):
            continue
        for name, X in cases.items():
            if call_or_none(fit, model, X) is None:
                continue
            for query, X_new in queries.items():
                found = call_or_none(outputs_of, model, X_new)
                is_right = found is None or np.isfinite(found).all()
                assert is_right, f"{model} fitted to {name}, predicts {query}"


OVERFLOW_ERROR = r"holds 3e\+38 in row 5, column 2: .*float32\. Scale the features"


@pytest.mark.parametrize("n_copies", [1, 10])  # the check inspects few features, or H
def test_predict_names_the_sample_that_overflows(n_copies, device):
    """The bias is NaN, because the order of summation decides whether a sum becomes NaN.

    CPU engines repair the sums of samples, so `transform` does not check them again.
    """
    X = np.tile(make_samples(np.float32), (1, n_copies))
    X[5, 2] = -3e38
    projector = TanhProjector(30, scale=1.0, device=device, random_state=0).fit(X)
    classifier = TanhClassifier(
        30, scale=1.0, feature_weights=None, device=device, random_state=0
    ).fit(X, X[:, 0] > 0)
    projector.hidden_intercept_[3] = classifier.hidden_intercept_[3] = np.nan
    out = np.zeros((len(X), 31), np.float32)[:, :-1]
    methods = [classifier.predict, classifier.decision_function]
    if device == "cuda":
        methods += [projector.transform, partial(projector.transform, out=out)]
    for method in methods:
        with pytest.raises(ValueError, match=OVERFLOW_ERROR):
            method(X)


def test_fit_names_the_sample_that_overflows(device):
    X = make_samples(np.float32)
    X[5, 2] = -3e38
    projector = TanhProjector(30, scale=1.0, device=device, random_state=0).fit(X)
    projector.hidden_intercept_[3] = np.nan
    with pytest.raises(ValueError, match=OVERFLOW_ERROR):
        TanhRegressor(layer=projector, device=device).fit(X, X[:, 0])
