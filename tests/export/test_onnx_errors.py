"""Errors of the ONNX export."""

import importlib
import re
import sys

import numpy as np
import pandas as pd
import pytest
import skl2onnx
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from export.converted import X, Y
from sklearn_fsvc import (
    PatchClassifier,
    PatchProjector,
    PatchRegressor,
    RBFClassifier,
    RBFProjector,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.utils.availability import install_command
from sklearn_fsvc.export.onnx import register, to_onnx


@pytest.mark.parametrize(
    ("rows", "options", "error", "message"),
    [
        (X[:, :5], {}, ValueError, "X has 5 features, and .* with 64"),
        (X.astype(str), {}, TypeError, "must be numeric"),
        (X.astype(np.float16), {}, TypeError, "X has the dtype float16.*convert it .*float32"),
        (
            pd.DataFrame(X.astype("uint16")),
            {},
            TypeError,
            "Column 0 .* uint16.* convert it .*int32",
        ),
        (pd.DataFrame(X).add_prefix("f"), {}, ValueError, "64 inputs.*to_numpy"),
        (X, {"target_opset": 13}, ValueError, "target_opset=13.*14 or more"),
        (X, {"options": {"zipmap": "columns"}}, ValueError, "zipmap"),
        (X, {"options": {"nocl": True}}, NameError, "nocl.*raw_scores"),
    ],
)
def test_invalid_input(rows, options, error, message):
    network = TanhClassifier(5, feature_weights=None, scale=0.02, alpha=1.0, random_state=0)
    model = network.fit(X, Y)
    with pytest.raises(error, match=message):
        to_onnx(model, rows, **options)


@pytest.mark.parametrize(
    "model", [RBFClassifier(), make_pipeline(StandardScaler(), TanhRegressor())]
)
def test_unfitted_models(model):
    with pytest.raises(NotFittedError, match=type(model).__name__):
        to_onnx(model, X)


def test_unfitted_models_by_skl2onnx():
    register()
    for model in (RBFClassifier(), TanhRegressor(), RBFProjector()):
        with pytest.raises(NotFittedError):
            skl2onnx.to_onnx(model, X)


@pytest.mark.parametrize("kind", [PatchClassifier, PatchRegressor, PatchProjector])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_patch_estimators(kind, in_pipeline):
    """Also by skl2onnx itself, whose own error would request a converter."""
    model = kind(5, image_shape=(8, 8), patch_size=3, random_state=0)
    model = make_pipeline(StandardScaler(), model) if in_pipeline else model
    model.fit(X, Y)
    register()
    for convert in (to_onnx, skl2onnx.to_onnx):
        with pytest.raises(TypeError, match=f"{kind.__name__} cannot be exported.*RBF or tanh"):
            convert(model, X)


def test_classes_beyond_int64():
    model = TanhClassifier(5, alpha=1.0, feature_weights=None).fit(X, Y.astype(np.uint64) + 2**63)
    with pytest.raises(ValueError, match="LabelEncoder"):
        to_onnx(model, X)


def test_missing_optional_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    for module in ("sklearn_fsvc.export.onnx", "sklearn_fsvc._src.export.onnx"):
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=re.escape(install_command("onnx"))):
        importlib.import_module("sklearn_fsvc.export.onnx")
