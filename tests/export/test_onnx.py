"""ONNX models in onnxruntime predict as the estimators do."""

import os
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
import skl2onnx
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_gaussian_quantiles
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import naive
from export.converted import (
    DIGITS,
    DTYPES,
    NARROW,
    TEXT_LABELS,
    TOLERANCE,
    X_NEW,
    X,
    Y,
    onnx_outputs,
    run,
)
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc.export.onnx import register, to_onnx

# Weights of the 64 features, as they would be learned.
WEIGHTS = np.linspace(0.1, 1, 64)
# A linear map of 64 features to 20.
MAP = np.random.default_rng(0).normal(size=(64, 20)) / 8


def find_uncovered(model, rows):
    """Return which samples have no activation, by the reference implementation."""
    H = naive.hidden(layer_of(model), rows).astype(np.float32)
    return H.sum(axis=1) == 0


@pytest.mark.parametrize("bits", [8, 15])
@pytest.mark.parametrize("make", [RBFClassifier, TanhClassifier])
def test_quantised_activations(make, bits):
    """Rounding ties may be resolved differently."""
    model = make(50, random_state=0, feature_weights=None, alpha=0.1, precision=bits).fit(
        X.astype(np.float32), Y
    )
    rows = X_NEW.astype(np.float32)
    step = 2.0 ** (1 - bits) * np.abs(model.readout_coef_).max()
    outputs = onnx_outputs(model, rows, options={"raw_scores": True})["scores"]
    expected = model.decision_function(rows)
    np.testing.assert_allclose(outputs, expected, atol=step + TOLERANCE[np.float32])
    assert np.median(np.abs(outputs - expected)) < TOLERANCE[np.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "model",
    [
        RBFClassifier(50, random_state=0),
        RBFClassifier(50, random_state=0, feature_weights=np.linspace(0, 1, 64), alpha=0.1),
        RBFClassifier(50, random_state=0, feature_weights=MAP, metric="euclidean", alpha=0.1),
        RBFClassifier(50, random_state=0, **NARROW),
        RBFClassifier(50, random_state=0, feature_weights=None, readout="lms"),
        TanhClassifier(80, random_state=0, readout="softmax", alpha=1.0, feature_weights=None),
        TanhClassifier(50, random_state=0),
    ],
    ids=["defaults", "weights", "map", "narrow", "lms", "softmax", "tanh"],
)
def test_classifiers(model, dtype):
    model.fit(X.astype(dtype), Y)
    rows = X_NEW.astype(dtype)
    outputs = onnx_outputs(model, rows)
    assert outputs["label"].dtype == np.int64
    np.testing.assert_array_equal(outputs["label"], model.predict(rows))
    has_probabilities = hasattr(model, "predict_proba")
    values = "probabilities" if has_probabilities else "scores"
    expected = model.predict_proba(rows) if has_probabilities else model.decision_function(rows)
    assert outputs[values].dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_allclose(outputs[values], expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("y", [Y, np.column_stack([Y > 4, Y % 3 == 0]).astype(int)])
@pytest.mark.parametrize(
    "final", [None, TanhClassifier(200, alpha=0.1, feature_weights=None, random_state=0)]
)
def test_stacked_classifiers(y, final):
    fixed = {"alpha": 0.1, "feature_weights": None, "random_state": 0}
    members = [("rbf", RBFClassifier(20, **fixed)), ("tanh", TanhClassifier(20, **fixed))]
    model = StackedClassifier(members, final_estimator=final).fit(X, y)
    assert len(model.weights_) == 2
    assert (model.final_weight_ > 0) == (final is not None)
    outputs = onnx_outputs(model, X_NEW)
    np.testing.assert_array_equal(outputs["label"], model.predict(X_NEW))
    np.testing.assert_allclose(
        outputs["probabilities"], model.predict_proba(X_NEW), atol=TOLERANCE[np.float64]
    )


@pytest.mark.parametrize("stacked", [True, False])
def test_masked_classes(stacked):
    """Their scores are mapped: see `matrix_scaling_`."""
    X_shells, shells = make_gaussian_quantiles(n_samples=400, n_features=4, random_state=0)
    network = TanhClassifier(40, scale=0.3, alpha=0.1, feature_weights=None, random_state=0)
    model = StackedClassifier([("a", network)], final_estimator=None) if stacked else network
    assert model.fit(X_shells, shells).matrix_scaling_.shape == (3, 4)
    outputs = onnx_outputs(model, X_shells)
    np.testing.assert_array_equal(outputs["label"], model.predict(X_shells))
    np.testing.assert_allclose(
        outputs["probabilities"], model.predict_proba(X_shells), atol=TOLERANCE[np.float64]
    )


def test_stacked_classifier_of_a_rare_class():
    fixed = {"alpha": 0.1, "feature_weights": None, "random_state": 0}
    members = [("rbf", RBFClassifier(20, **fixed)), ("tanh", TanhClassifier(20, **fixed))]
    y = (Y == 4) & (np.cumsum(Y == 4) < 20)
    model = StackedClassifier(members).fit(X, y)
    assert model.score_offset_ > 0
    outputs = onnx_outputs(model, X_NEW)
    np.testing.assert_array_equal(outputs["label"], model.predict(X_NEW))
    np.testing.assert_allclose(
        outputs["probabilities"], model.predict_proba(X_NEW), atol=TOLERANCE[np.float64]
    )


@pytest.mark.parametrize(
    "final", [None, TanhRegressor(200, alpha=0.1, feature_weights=None, random_state=0)]
)
def test_stacked_regressors(final):
    fixed = {"alpha": 0.1, "feature_weights": None, "random_state": 0}
    members = [("rbf", RBFRegressor(20, **fixed)), ("tanh", TanhRegressor(20, **fixed))]
    y = np.column_stack([Y, 100 + X[:, 20]])
    model = StackedRegressor(members, final_estimator=final).fit(X, y)
    assert (model.final_weight_ > 0) == (final is not None)
    np.testing.assert_allclose(
        onnx_outputs(model, X_NEW)["variable"], model.predict(X_NEW), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("readout", "kernel", "radius"),
    [("ridge", "triangular", 45.0), ("none", "triangular", 45.0), ("none", "gaussian", 10.0)],
)
def test_uncovered_samples_get_the_scores_of_the_nearest_centre(readout, kernel, radius):
    """In float32 a Gaussian underflows to 0, too."""
    narrow = NARROW | {"kernel": kernel, "radius": radius, "readout": readout}
    model = RBFClassifier(100, random_state=0, **narrow).fit(X.astype(np.float32), Y)
    rows = X_NEW.astype(np.float32)
    is_uncovered = find_uncovered(model, rows)
    nearest = naive.distances(rows, model.centers_, "manhattan").argmin(axis=1)
    assert 50 < is_uncovered.sum() < len(rows) - 50
    label = onnx_outputs(model, rows)["label"]
    np.testing.assert_array_equal(label[is_uncovered], model.center_labels_[nearest][is_uncovered])
    np.testing.assert_array_equal(label, model.predict(rows))


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_scores_of_unbounded_kernels_tend_to_the_intercept(kernel):
    """Also where an engine rounds activations to 0."""
    narrow = NARROW | {"kernel": kernel, "radius": 2.0}
    model = RBFClassifier(100, random_state=0, **narrow).fit(X.astype(np.float32), Y)
    far = X_NEW.astype(np.float32) + np.linspace(0, 50, len(X_NEW), dtype=np.float32)[:, None]
    scores = onnx_outputs(model, far, options={"raw_scores": True})["scores"]
    np.testing.assert_allclose(scores, model.decision_function(far), rtol=0, atol=1e-5)
    intercept = np.tile(model.readout_intercept_, (20, 1))
    np.testing.assert_allclose(scores[-20:], intercept, rtol=0, atol=1e-5)


def test_uncovered_samples_of_a_pretrained_layer_get_the_intercept():
    pretrained = RBFProjector(100, kernel="triangular", radius=45.0, random_state=0).fit(X)
    model = RBFClassifier(layer=pretrained, alpha=0.1).fit(X, Y)
    scores = onnx_outputs(model, X_NEW, options={"raw_scores": True})["scores"]
    is_uncovered = find_uncovered(model, X_NEW)
    assert is_uncovered.any()
    np.testing.assert_array_equal(
        scores[is_uncovered], np.tile(model.readout_intercept_, (is_uncovered.sum(), 1))
    )


@pytest.mark.parametrize(
    "y",
    [
        TEXT_LABELS,
        TEXT_LABELS.astype(object),
        DIGITS > 4,
        DIGITS.astype(float),
        np.array(["zwei", "drei", "fünf"])[DIGITS % 3],
    ],
    ids=["text", "objects", "bools", "floats", "non-ASCII"],
)
def test_classes_of_any_type(y):
    model = TanhClassifier(50, alpha=1.0, feature_weights=None, random_state=0).fit(X, y[:600])
    outputs = onnx_outputs(model, X_NEW)
    expected = model.predict(X_NEW)
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(outputs["label"], expected)
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X_NEW), atol=1e-12)


@pytest.mark.parametrize("raw_scores", [False, True])
@pytest.mark.parametrize("columns", [(DIGITS % 3, DIGITS > 4, DIGITS), (TEXT_LABELS, DIGITS)])
def test_multi_output_classification(columns, raw_scores):
    y = np.column_stack(columns)
    model = RBFClassifier(100, random_state=0, **NARROW).fit(X, y[:600])
    outputs = onnx_outputs(model, X_NEW, options={"zipmap": False, "raw_scores": raw_scores})
    np.testing.assert_array_equal(outputs["label"], model.predict(X_NEW))
    if raw_scores:
        actual, expected = outputs["scores"], model.decision_function(X_NEW)
    else:
        actual, expected = outputs["probabilities"], model.predict_proba(X_NEW)
    assert len(actual) == len(columns)
    for one, other in zip(actual, expected, strict=True):
        other = other if other.ndim == 2 else np.column_stack([-other, other])
        np.testing.assert_allclose(one, other, atol=1e-12)


WEIGHTED = {"alpha": 0.1, "feature_weights": WEIGHTS}
MODELS = [
    (RBFClassifier(20, **WEIGHTED), DIGITS > 4),
    (RBFClassifier(20, **WEIGHTED, metric="euclidean"), DIGITS),
    (TanhClassifier(20, **WEIGHTED), TEXT_LABELS),
    (TanhClassifier(20, **WEIGHTED, precision=8), TEXT_LABELS),
    (TanhClassifier(20, **WEIGHTED), np.column_stack([DIGITS % 3, DIGITS > 4])),
    (TanhClassifier(20, **WEIGHTED), np.column_stack([DIGITS % 2, DIGITS > 6])),
    (RBFRegressor(20, alpha=0.1, feature_weights=MAP), DIGITS),
    (TanhRegressor(20, **WEIGHTED), DIGITS),
    (
        StackedClassifier(
            [("a", TanhClassifier(20, **WEIGHTED)), ("b", RBFClassifier(20, **WEIGHTED))]
        ),
        TEXT_LABELS,
    ),
    (
        StackedRegressor(
            [("a", TanhRegressor(20, **WEIGHTED)), ("b", RBFRegressor(20, **WEIGHTED))]
        ),
        DIGITS,
    ),
]


@pytest.mark.parametrize(("model", "y"), MODELS)
def test_no_matmul_is_next_to_a_scalar(model, y):
    """onnxruntime 1.26 to 1.31 fuses them, with the scalar in float32.

    Only powers of two are exact there.
    """
    graph = to_onnx(model.fit(X, y[:600]), X).graph
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMul"]
    inputs = {name for node in products for name in node.input}
    outputs = {name for node in products for name in node.output}
    assert products
    for node in graph.node:
        if node.op_type in ("Mul", "Div") and (
            inputs.intersection(node.output) or outputs.intersection(node.input)
        ):
            scalars = [constants[name] for name in node.input if constants.get(name, X).size == 1]
            assert all(abs(np.frexp(scalar)[0]).item() == 0.5 for scalar in scalars)


@pytest.mark.parametrize("raw_scores", [False, True])
def test_multilabel_classification(raw_scores):
    y = np.column_stack([DIGITS % 2, DIGITS > 6, DIGITS == 1]).astype(int)
    model = TanhClassifier(100, alpha=1.0, feature_weights=None, random_state=0)
    model.fit(X, y[:600])
    outputs = onnx_outputs(model, X_NEW, options={"zipmap": False, "raw_scores": raw_scores})
    np.testing.assert_array_equal(outputs["label"], model.predict(X_NEW))
    actual = outputs["scores" if raw_scores else "probabilities"]
    expected = model.decision_function(X_NEW) if raw_scores else model.predict_proba(X_NEW)
    np.testing.assert_allclose(actual, expected, atol=1e-12)


TARGETS = [DIGITS, DIGITS % 2, np.column_stack([DIGITS % 3, DIGITS % 2])]
TARGETS += [np.column_stack([DIGITS % 2, DIGITS > 6]).astype(int)]


@pytest.mark.parametrize("readout", ["ridge", "softmax"])
@pytest.mark.parametrize("y", TARGETS, ids=["ten classes", "two", "outputs", "labels"])
def test_probabilities_of_scores_far_outside_0_and_1(y, readout):
    model = TanhClassifier(
        100, alpha=1.0, readout=readout, feature_weights=None, random_state=0
    ).fit(X, y[:600])
    model.readout_coef_ *= 100
    model.readout_intercept_ *= 100
    actual = onnx_outputs(model, X_NEW, options={"zipmap": False})["probabilities"]
    expected = model.predict_proba(X_NEW)
    scores = np.concatenate(model.decision_function(X_NEW), axis=None)
    assert scores.min() < -10
    assert scores.max() > 10
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("cls", [RBFRegressor, TanhRegressor])
def test_regressors(cls, n_outputs, dtype):
    y = np.column_stack([X.mean(axis=1), -1e6 * X.std(axis=1)])[:, :n_outputs].squeeze()
    model = cls(40, alpha=0.1, feature_weights=WEIGHTS, random_state=0).fit(X.astype(dtype), y)
    rows = X_NEW.astype(dtype)
    outputs = onnx_outputs(model, rows)["variable"]
    assert outputs.shape == (len(rows), n_outputs)
    expected = model.predict(rows).reshape(outputs.shape)
    np.testing.assert_allclose(outputs, expected, rtol=10 * TOLERANCE[dtype])


def test_targets_beyond_float32():
    for factor in (1e100, 1e-100):
        model = TanhRegressor(30, alpha=0.1, feature_weights=None, random_state=0)
        model.fit(X, factor * (Y + 1.0))
        outputs = onnx_outputs(model, X_NEW)["variable"]
        np.testing.assert_allclose(outputs[:, 0], model.predict(X_NEW), rtol=1e-9)
        with pytest.raises(ValueError, match="float64 rows"):
            to_onnx(model, X.astype(np.float32))


def test_incremental_fits():
    model = TanhClassifier(50, alpha=1.0, feature_weights=None, random_state=0)
    model.partial_fit(X[:300], Y[:300], classes=range(10)).partial_fit(X[300:], Y[300:])
    outputs = onnx_outputs(model, X_NEW)
    np.testing.assert_array_equal(outputs["label"], model.predict(X_NEW))
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X_NEW), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "steps",
    [
        (StandardScaler(), RBFClassifier(40, feature_weights=None, alpha=0.1, random_state=0)),
        (StandardScaler(), TanhClassifier(40, feature_weights=None, alpha=0.1, random_state=0)),
        (RBFProjector(40, radius=50.0, random_state=0), LogisticRegression(max_iter=1000)),
        (StandardScaler(), TanhProjector(40, random_state=0), LogisticRegression()),
    ],
    ids=["rbf", "tanh", "rbf projector", "tanh projector"],
)
def test_pipelines(steps, dtype):
    model = make_pipeline(*steps).fit(X.astype(dtype), Y)
    rows = X_NEW.astype(dtype)
    np.testing.assert_array_equal(onnx_outputs(model, rows)["label"], model.predict(rows))


@pytest.mark.parametrize("y", [TEXT_LABELS, DIGITS], ids=["two classes", "ten"])
def test_networks_in_meta_estimators_of_scikit_learn(y):
    """Which read scores and probabilities as those of scikit-learn's classifiers."""
    network = TanhClassifier(50, feature_weights=None, alpha=1.0, random_state=0)
    trained = OneVsRestClassifier(network), CalibratedClassifierCV(network, cv=2)
    for model in trained:
        model.fit(X, y[:600])
        options = {"zipmap": False}
        if isinstance(model, OneVsRestClassifier):  # or skl2onnx compares probabilities
            options["raw_scores"] = True
        outputs = onnx_outputs(model, X_NEW, options=options)
        np.testing.assert_array_equal(outputs["label"], model.predict(X_NEW))
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X_NEW), atol=1e-9)


@pytest.mark.parametrize("metric", ["manhattan", "euclidean"])
def test_equal_networks(metric):
    """skl2onnx merges equal constants."""
    parts = [RBFProjector(20, radius=50.0, metric=metric, random_state=0) for _ in range(2)]
    model = make_union(*parts).fit(X)
    rows = np.vstack([X_NEW, model.transformer_list[0][1].centers_])
    (outputs,) = onnx_outputs(model, rows).values()
    np.testing.assert_allclose(outputs, model.transform(rows), atol=1e-12)


def test_conversion_by_skl2onnx():
    """Probabilities are arrays, though its default is dictionaries."""
    register()
    model = make_pipeline(StandardScaler(), RBFClassifier(50, random_state=0))
    model.fit(X, Y)
    outputs = run(skl2onnx.to_onnx(model, X), X_NEW)
    np.testing.assert_array_equal(outputs["label"], model.predict(X_NEW))
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(X_NEW), atol=1e-11)


def test_raw_scores():
    model = TanhClassifier(50, alpha=1.0, feature_weights=None, random_state=0).fit(X, Y)
    outputs = onnx_outputs(model, X_NEW, options={"raw_scores": True})
    np.testing.assert_allclose(outputs["scores"], model.decision_function(X_NEW), atol=1e-12)


def test_search_is_converted_as_its_best_estimator():
    network = TanhClassifier(alpha=1.0, feature_weights=None)
    search = HiddenSizeSearchCV(network, {"n_hidden": [5, 60]}, cv=2).fit(X, Y)
    np.testing.assert_array_equal(onnx_outputs(search, X_NEW)["label"], search.predict(X_NEW))


def test_letter_recognition():
    path = Path(os.environ.get("SKLEARN_FSVC_DATA", "")) / "letter" / "letter.csv.gz"
    if "SKLEARN_FSVC_DATA" not in os.environ or not path.exists():
        pytest.skip("needs letter/letter.csv.gz in the folder that SKLEARN_FSVC_DATA names")
    table = pd.read_csv(path)
    words = table.select_dtypes(exclude="number").columns
    y, rows = table[words[0]].to_numpy(str), table.drop(columns=words).to_numpy(np.uint8)
    model = RBFClassifier(500, random_state=0, **NARROW | {"radius": 8.0})
    model.fit(rows[:6000], y[:6000])
    new, labels = rows[6000:9000], y[6000:9000]
    outputs = onnx_outputs(model, new)["label"]
    assert np.mean(outputs == labels) > 0.7
    np.testing.assert_array_equal(outputs, model.predict(new))
