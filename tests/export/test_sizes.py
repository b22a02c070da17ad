"""Exported models on numbers of any size: they answer as the model does, and never NaN."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from export.compiled import in_c
from export.converted import answers
from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor
from sklearn_fsvc._src.kernels import KERNELS, METRICS

# Powers of two by which the training rows are multiplied: about 1e-30 to 1e30 of float32.
EXPONENTS = {np.float32: (-100, 0, 100), np.float64: (-400, 0, 332)}
Y = np.digitize(np.random.default_rng(0).normal(size=(120, 6))[:, :2].sum(axis=1), [-0.5, 0.5])


def rows(dtype, exponent=0):
    return np.ldexp(np.random.default_rng(0).normal(size=(120, 6)).astype(dtype), exponent)


def asked(X):
    """Some of the rows, and rows of sizes that no fit has seen."""
    found, dtype = X[:12].copy(), X.dtype
    found[0, 0], found[1], found[2], found[3, 2] = 1e30, -1e30, 1e-30, 1e-30
    found[4, 1] = 3e38 if dtype == np.float32 else 1e300
    found[5] = np.ldexp(found[5], -20)
    found[6] = np.ldexp(found[6], 20)
    return found


def models():
    for kernel in KERNELS:
        for metric in METRICS:
            yield RBFClassifier(10, kernel=kernel, metric=metric, random_state=0)
    yield TanhClassifier(10, random_state=0)
    yield RBFRegressor(10, kernel="gaussian", random_state=0)
    yield TanhRegressor(10, random_state=0)


def are_squares(model, dtype, exponent):
    """Whether a model makes no squares of distances between rows, or these are numbers."""
    is_plain = getattr(model, "metric", "manhattan") == "manhattan"
    return is_plain or dtype == np.float64 or exponent == 0


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def of_header(model, X, folder):
    found = in_c(model, X, folder)
    return found[0] if isinstance(found, tuple) else found


def of_onnx(model, X, folder):
    is_classifier = hasattr(model, "classes_")
    found = answers(model, X, options={"raw_scores": True} if is_classifier else None)
    return found["scores"] if "scores" in found else found["variable"][:, 0]


@cache
def fitted(model, dtype, exponent):
    """A copy that is fitted, once for both exports."""
    return clone(model).fit(rows(dtype, exponent), Y)


@pytest.mark.parametrize("exported", [of_header, of_onnx])
@pytest.mark.parametrize("dtype", EXPONENTS)
@pytest.mark.parametrize("model", list(models()), ids=str)
def test_the_answers_are_those_of_the_model(model, dtype, exported, tmp_path):
    for exponent in EXPONENTS[dtype]:
        if not are_squares(model, dtype, exponent):
            with pytest.raises(ValueError, match="Scale the features"):
                fitted(model, dtype, exponent)
            continue
        fit = fitted(model, dtype, exponent)
        X = asked(rows(dtype, exponent))
        (folder := tmp_path / str(exponent)).mkdir()
        found, expected = exported(fit, X, folder), scores(fit, X)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=f"2^{exponent}")
