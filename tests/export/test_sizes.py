"""Exported models on values of any magnitude: their outputs are those of the model, never NaN."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from export.compiled import predict_in_c
from export.converted import onnx_outputs
from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor
from sklearn_fsvc._src.kernels import KERNELS, METRICS

# Exponents of the factor of the training samples: 2^-100 is about 1e-30, and 2^100 about 1e30.
EXPONENTS = {np.float32: (-100, 0, 100), np.float64: (-400, 0, 332)}
# Of the features: learning them takes longer than both exports.
GIVEN = {"feature_weights": np.linspace(0.5, 1, 6), "alpha": 1.0, "random_state": 0}
Y = np.digitize(np.random.default_rng(0).normal(size=(120, 6))[:, :2].sum(axis=1), [-0.5, 0.5])


def rows(dtype, exponent=0):
    return np.ldexp(np.random.default_rng(0).normal(size=(120, 6)).astype(dtype), exponent)


def with_extremes(X):
    """Return some of the samples, with values of magnitudes that are not in the training data."""
    actual, dtype = X[:12].copy(), X.dtype
    actual[0, 0], actual[1], actual[2], actual[3, 2] = 1e30, -1e30, 1e-30, 1e-30
    actual[4, 1] = 3e38 if dtype == np.float32 else 1e300
    actual[5] = np.ldexp(actual[5], -20)
    actual[6] = np.ldexp(actual[6], 20)
    return actual


def models():
    """Each kernel, and each metric; other pairs of them are exhaustive."""
    for kernel in KERNELS:
        for metric in METRICS:
            model = RBFClassifier(10, kernel=kernel, metric=metric, **GIVEN)
            is_other = kernel != "gaussian" and metric != "manhattan"
            yield pytest.param(model, marks=[pytest.mark.exhaustive] if is_other else [])
    yield TanhClassifier(10, **GIVEN)
    yield RBFRegressor(10, kernel="gaussian", **GIVEN)
    yield TanhRegressor(10, **GIVEN)


def has_finite_squares(model, dtype, exponent):
    """Return whether squared distances are finite, or the model does not use them."""
    is_manhattan = getattr(model, "metric", "manhattan") in ("manhattan", "auto")
    return is_manhattan or dtype == np.float64 or exponent == 0


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def run_c(model, X, folder):
    actual = predict_in_c(model, X, folder)
    return actual[0] if isinstance(actual, tuple) else actual


def run_onnx(model, X, folder):
    is_classifier = hasattr(model, "classes_")
    actual = onnx_outputs(model, X, options={"raw_scores": True} if is_classifier else None)
    return actual["scores"] if "scores" in actual else actual["variable"][:, 0]


@cache
def fitted(model, dtype, exponent):
    """Return a fitted clone; both exports share it."""
    return clone(model).fit(rows(dtype, exponent), Y)


@pytest.mark.parametrize("exported", [run_c, run_onnx])
@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("model", list(models()), ids=str)
def test_exported_models_have_the_same_outputs(model, dtype, exported, tmp_path):
    for exponent in EXPONENTS[dtype]:
        if not has_finite_squares(model, dtype, exponent):
            with pytest.raises(ValueError, match="Scale the features"):
                fitted(model, dtype, exponent)
            continue
        fit = fitted(model, dtype, exponent)
        X = with_extremes(rows(dtype, exponent))
        (folder := tmp_path / str(exponent)).mkdir()
        actual, expected = exported(fit, X, folder), scores(fit, X)
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4, err_msg=f"2^{exponent}")
