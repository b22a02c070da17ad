"""ONNX models in onnxruntime: what they answer is what the estimators answer."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import skl2onnx
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import naive
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc.export.onnx import manhattan, register, to_onnx
from sklearn_fsvc.formulas import EXP, Affine, Function
from sklearn_fsvc.kernels import KERNELS, METRICS, Kernel

IMAGES, DIGITS = load_digits(return_X_y=True)
X, Y, X_NEW = IMAGES[:600], DIGITS[:600], IMAGES[600:]
WORDS = np.array(["even", "odd"])[DIGITS % 2]
DTYPES = (np.float32, np.float64, np.uint8)
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-11, np.uint8: 2e-5}
# Triangles so narrow that most images are outside all of them.
NARROW = {"kernel": "triangular", "radius": 45.0, "feature_weights": None, "alpha": 0.1}


def answers(model, rows, **options):
    """name -> what onnxruntime answers to rows with the converted model."""
    return run(to_onnx(model, rows, **options), rows)


def run(converted, rows):
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": rows}), strict=True))


def outside(model, rows):
    """Which rows raise no activity, by the oracle."""
    H = naive.hidden(model._layer(), rows).astype(np.float32)
    return H.sum(axis=1) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "model",
    [
        RBFClassifier(150, random_state=0, probability=True),
        RBFClassifier(150, random_state=0, feature_weights=np.linspace(0, 1, 64), alpha=0.1),
        RBFClassifier(150, random_state=0, **NARROW),
        RBFClassifier(150, random_state=0, readout="lms"),
        TanhClassifier(150, random_state=0, probability=True),
    ],
    ids=["chosen", "weights", "narrow", "lms", "tanh"],
)
def test_classifiers_answer_as_they_do(model, dtype):
    model.fit(X.astype(dtype), Y)
    rows = X_NEW.astype(dtype)
    found = answers(model, rows)
    assert found["label"].dtype == np.int64
    np.testing.assert_array_equal(found["label"], model.predict(rows))
    numbers = "probabilities" if model.probability else "scores"
    ours = model.predict_proba(rows) if model.probability else model.decision_function(rows)
    assert found[numbers].dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_allclose(found[numbers], ours, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_rbf_units_are_their_formula(kernel, metric, dtype):
    radius = 1000.0 if metric == "sqeuclidean" else 100.0 if metric == "manhattan" else 20.0
    units = {"kernel": kernel, "metric": metric, "radius": radius, "selection": "random"}
    model = RBFProjector(70, random_state=0, **units).fit(X.astype(dtype))
    H = answers(model, X_NEW.astype(dtype))["variable"]
    expected = naive.rbf(X_NEW, model.centers_, radius, metric, kernel)
    assert expected.std() > 0.01
    np.testing.assert_allclose(H, expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_tanh_units_are_their_formula(dtype):
    model = TanhProjector(70, random_state=0).fit(X.astype(dtype))
    H = answers(model, X_NEW.astype(dtype))["variable"]
    expected = naive.tanh(X_NEW, model.components_, model.hidden_intercept_)
    np.testing.assert_allclose(H, expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("n_rows", [0, 1, 2, 5, 6, 7, 13])
@pytest.mark.parametrize("n_units", [1, 3, 7])
def test_blocks_need_not_divide_anything(monkeypatch, n_rows, n_units):
    """Blocks of 3 units or fewer, with at most 6 rows."""
    monkeypatch.setattr(manhattan, "_UNIT_DIFFERENCES", 3 * 64)
    monkeypatch.setattr(manhattan, "_DIFFERENCES", 6 * 3 * 64)
    model = RBFProjector(n_units, selection="random", radius=200.0, random_state=0).fit(X)
    rows = X_NEW[:n_rows]
    H = run(to_onnx(model, X), rows)["variable"]
    np.testing.assert_allclose(H, naive.rbf(rows, model.centers_, 200.0), atol=1e-12)


def test_memory_is_for_the_answer_and_not_for_all_differences():
    """Of 3000 rows, 500 units and 64 features they would be 384 MB."""
    code = (
        "import resource, numpy as np, onnxruntime\n"
        "from sklearn_fsvc import RBFProjector\n"
        "from sklearn_fsvc.export.onnx import to_onnx\n"
        "X = np.random.default_rng(0).random((3000, 64), dtype=np.float32)\n"
        "model = RBFProjector(500, selection='random', radius=9.0, device='blas').fit(X)\n"
        "session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "session.run(None, {'X': X[:1]})\n"
        "before = peak()\n"
        "session.run(None, {'X': X})\n"
        "assert peak() - before < 64 * 1024, peak() - before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 1e4), (np.float64, 1e7)])
def test_rows_that_hardly_differ_from_a_centre_far_away(dtype, far):
    """Squares are made of what rows and centres are beside the mean centre: little cancels."""
    rows = (far + np.random.default_rng(0).random((50, 5))).astype(dtype)
    units = {"metric": "euclidean", "kernel": "laplacian", "radius": 0.5, "selection": "random"}
    model = RBFProjector(20, random_state=0, **units).fit(rows)
    H = answers(model, rows)["variable"]
    expected = naive.rbf(rows, model.centers_, 0.5, "euclidean", "laplacian")
    np.testing.assert_allclose(H, expected, atol=1e-6)


@pytest.mark.parametrize("fit_dtype", DTYPES)
@pytest.mark.parametrize("dtype", [*DTYPES, np.int64])
def test_rows_may_be_of_another_dtype_than_those_of_fit(fit_dtype, dtype):
    """The layer is computed in the wider one."""
    model = TanhClassifier(100, alpha=1e-6, random_state=0).fit((0.7 * X).astype(fit_dtype), Y)
    rows = (0.7 * X_NEW).astype(dtype)
    found = answers(model, rows)
    np.testing.assert_array_equal(found["label"], model.predict(rows))
    ours = model.decision_function(rows)
    is_wide = np.float64 in (fit_dtype, dtype) or dtype == np.int64
    np.testing.assert_allclose(found["scores"], ours, atol=2e-7 if is_wide else 1e-3)


@pytest.mark.parametrize("kernel", ["triangular", "gaussian"])
def test_rows_outside_every_unit_get_the_nearest_centre(kernel):
    """A Gaussian is 0 far enough away, too: in float32."""
    narrow = NARROW | {"kernel": kernel, "radius": {"triangular": 45.0, "gaussian": 10.0}[kernel]}
    model = RBFClassifier(100, random_state=0, **narrow).fit(X.astype(np.float32), Y)
    rows = X_NEW.astype(np.float32)
    is_outside = outside(model, rows)
    nearest = naive.distances(rows, model.centers_, "manhattan").argmin(axis=1)
    assert 50 < is_outside.sum() < len(rows) - 50
    label = answers(model, rows)["label"]
    np.testing.assert_array_equal(label[is_outside], model.center_labels_[nearest][is_outside])
    np.testing.assert_array_equal(label, model.predict(rows))


def test_rows_outside_a_layer_that_was_given_get_the_intercept():
    lender = RBFProjector(100, kernel="triangular", radius=45.0, random_state=0).fit(X)
    model = RBFClassifier(layer=lender, alpha=0.1).fit(X, Y)
    scores = answers(model, X_NEW)["scores"]
    is_outside = outside(model, X_NEW)
    assert is_outside.any()
    np.testing.assert_array_equal(
        scores[is_outside], np.tile(model.readout_intercept_, (is_outside.sum(), 1))
    )


@pytest.mark.parametrize(
    "y",
    [
        WORDS,
        WORDS.astype(object),
        DIGITS > 4,
        DIGITS.astype(float),
        np.array(["zwei", "drei", "fünf"])[DIGITS % 3],
    ],
    ids=["words", "objects", "bools", "floats", "umlauts"],
)
def test_labels_of_all_types(y):
    model = TanhClassifier(50, alpha=1.0, probability=True, random_state=0).fit(X, y[:600])
    found = answers(model, X_NEW)
    expected = model.predict(X_NEW)
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(found["label"], expected)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X_NEW), atol=1e-12)


@pytest.mark.parametrize("probability", [False, True])
@pytest.mark.parametrize("columns", [(DIGITS % 3, DIGITS > 4, DIGITS), (WORDS, DIGITS)])
def test_several_outputs(columns, probability):
    y = np.column_stack(columns)
    model = RBFClassifier(100, random_state=0, probability=probability, **NARROW).fit(X, y[:600])
    found = answers(model, X_NEW)
    np.testing.assert_array_equal(found["label"], model.predict(X_NEW))
    if probability:
        theirs, ours = found["probabilities"], model.predict_proba(X_NEW)
    else:
        theirs, ours = found["scores"], model.decision_function(X_NEW)
    assert len(theirs) == len(columns)
    for one, other in zip(theirs, ours, strict=True):
        other = other if other.ndim == 2 else np.column_stack([-other, other])
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("probability", [False, True])
def test_indicators(probability):
    y = np.column_stack([DIGITS % 2, DIGITS > 6, DIGITS == 1]).astype(int)
    model = TanhClassifier(100, alpha=1.0, probability=probability, random_state=0)
    model.fit(X, y[:600])
    found = answers(model, X_NEW)
    np.testing.assert_array_equal(found["label"], model.predict(X_NEW))
    theirs = found["probabilities" if probability else "scores"]
    ours = model.predict_proba(X_NEW) if probability else model.decision_function(X_NEW)
    np.testing.assert_allclose(theirs, ours, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("cls", [RBFRegressor, TanhRegressor])
def test_regressors_answer_as_they_do(cls, n_outputs, dtype):
    y = np.column_stack([X.mean(axis=1), -1e6 * X.std(axis=1)])[:, :n_outputs].squeeze()
    model = cls(100, alpha=0.1, random_state=0).fit(X.astype(dtype), y)
    rows = X_NEW.astype(dtype)
    found = answers(model, rows)["variable"]
    assert found.shape == (len(rows), n_outputs)
    ours = model.predict(rows).reshape(found.shape)
    np.testing.assert_allclose(found, ours, rtol=10 * TOLERANCE[dtype])


def test_numbers_that_float32_cannot_hold():
    for factor in (1e100, 1e-100):
        model = TanhRegressor(30, alpha=0.1, random_state=0).fit(X, factor * (Y + 1.0))
        found = answers(model, X_NEW)["variable"]
        np.testing.assert_allclose(found[:, 0], model.predict(X_NEW), rtol=1e-9)
        with pytest.raises(ValueError, match="float64 rows"):
            to_onnx(model, X.astype(np.float32))


def test_what_was_learnt_row_by_row():
    model = TanhClassifier(50, alpha=1.0, random_state=0)
    model.partial_fit(X[:300], Y[:300], classes=range(10)).partial_fit(X[300:], Y[300:])
    np.testing.assert_array_equal(answers(model, X_NEW)["label"], model.predict(X_NEW))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "steps",
    [
        (StandardScaler(), RBFClassifier(100, random_state=0)),
        (StandardScaler(), TanhClassifier(100, random_state=0)),
        (RBFProjector(100, radius=50.0, random_state=0), LogisticRegression(max_iter=1000)),
        (StandardScaler(), TanhProjector(100, random_state=0), LogisticRegression()),
    ],
    ids=["rbf", "tanh", "rbf projector", "tanh projector"],
)
def test_pipelines(steps, dtype):
    model = make_pipeline(*steps).fit(X.astype(dtype), Y)
    rows = X_NEW.astype(dtype)
    np.testing.assert_array_equal(answers(model, rows)["label"], model.predict(rows))


@pytest.mark.parametrize("y", [WORDS, DIGITS], ids=["two classes", "ten"])
@pytest.mark.parametrize("probability", [False, True])
def test_networks_within_classifiers_of_scikit_learn(probability, y):
    """They take columns of our scores and probabilities as those of scikit-learn's own."""
    network = TanhClassifier(50, alpha=1.0, probability=probability, random_state=0)
    trained = OneVsRestClassifier(network), CalibratedClassifierCV(network, cv=2)
    for model in trained:
        model.fit(X, y[:600])
        options = {"zipmap": False}
        if isinstance(model, OneVsRestClassifier):  # which skl2onnx has compare probabilities
            options["raw_scores"] = True
        found = answers(model, X_NEW, options=options)
        np.testing.assert_array_equal(found["label"], model.predict(X_NEW))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X_NEW), atol=1e-9)


def test_two_networks_of_the_same_numbers():
    """skl2onnx keeps equal constants once."""
    parts = [RBFProjector(20, radius=50.0, random_state=0) for _ in range(2)]
    model = make_union(*parts).fit(X)
    (found,) = answers(model, X_NEW).values()
    np.testing.assert_allclose(found, model.transform(X_NEW), atol=1e-12)


def test_by_skl2onnx_itself():
    """Arrays in any case, though skl2onnx asks for dictionaries."""
    register()
    model = make_pipeline(StandardScaler(), RBFClassifier(50, random_state=0, probability=True))
    model.fit(X, Y)
    found = run(skl2onnx.to_onnx(model, X), X_NEW)
    np.testing.assert_array_equal(found["label"], model.predict(X_NEW))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X_NEW), atol=1e-11)


def test_scores_where_there_are_probabilities():
    model = TanhClassifier(50, alpha=1.0, probability=True, random_state=0).fit(X, Y)
    found = answers(model, X_NEW, options={"raw_scores": True})
    np.testing.assert_allclose(found["scores"], model.decision_function(X_NEW), atol=1e-12)


@pytest.mark.parametrize("target_opset", [None, 14, 18, 21])
def test_older_and_newer_operators(target_opset):
    """By default old ones, which all runtimes know."""
    model = RBFClassifier(50, random_state=0, **NARROW).fit(X, Y)
    converted = to_onnx(model, X, target_opset=target_opset)
    (version,) = (each.version for each in converted.opset_import if not each.domain)
    assert version == (target_opset or 14)
    np.testing.assert_array_equal(run(converted, X_NEW)["label"], model.predict(X_NEW))


def test_a_search_is_its_best_network():
    search = HiddenSizeSearchCV(TanhClassifier(alpha=1.0), {"n_hidden": [5, 60]}, cv=2).fit(X, Y)
    np.testing.assert_array_equal(answers(search, X_NEW)["label"], search.predict(X_NEW))


class Steep(Kernel):
    """``exp(-d^2)`` with an edge: a kernel of its own, of steps that ONNX has."""

    name, power, function = "steep", 2, EXP

    def affine(self, radius):
        return Affine(scale=-1 / radius**2, offset=0.5, floor=-3.0)

    def natural_radius(self, distance):
        return distance


class Cauchy(Steep):
    name = "cauchy"
    function = Function("reciprocal", lambda A, xp: xp.divide(1, A, out=A), lambda H, xp: -H * H)

    def affine(self, radius):
        return Affine(scale=1 / radius**2, offset=1.0)


def test_kernels_of_your_own():
    plain = {"radius": 100.0, "selection": "random", "random_state": 0}
    steep = RBFProjector(20, kernel=Steep(), **plain).fit(X)
    d = naive.distances(X_NEW, steep.centers_, "manhattan")
    H = answers(steep, X_NEW)["variable"]
    np.testing.assert_allclose(H, np.exp(np.maximum(-3, 0.5 - (d / 100) ** 2)), atol=1e-12)
    cauchy = RBFProjector(20, kernel=Cauchy(), **plain).fit(X)
    with pytest.raises(ValueError, match=r"Cauchy\(\).*'reciprocal'.*kernel=\"triangular\""):
        to_onnx(cauchy, X)


@pytest.mark.parametrize(
    ("rows", "options", "error", "message"),
    [
        (X[:, :5], {}, ValueError, "X has 5 features, and .* with 64"),
        (X.astype(str), {}, TypeError, "must be of numbers"),
        (pd.DataFrame(X).add_prefix("f"), {}, ValueError, "64 inputs.*to_numpy"),
        (X, {"target_opset": 13}, ValueError, "target_opset=13.*14 or more"),
        (X, {"options": {"zipmap": "columns"}}, ValueError, "zipmap"),
        (X, {"options": {"nocl": True}}, NameError, "nocl.*raw_scores"),
    ],
)
def test_what_cannot_be_converted(rows, options, error, message):
    model = TanhClassifier(5, alpha=1.0, random_state=0).fit(X, Y)
    with pytest.raises(error, match=message):
        to_onnx(model, rows, **options)


@pytest.mark.parametrize(
    "model", [RBFClassifier(), make_pipeline(StandardScaler(), TanhRegressor())]
)
def test_a_model_that_is_not_fitted(model):
    with pytest.raises(NotFittedError, match=type(model).__name__):
        to_onnx(model, X)


def test_a_model_that_is_not_fitted_by_skl2onnx_itself():
    register()
    for model in (RBFClassifier(), TanhRegressor(), RBFProjector()):
        with pytest.raises(NotFittedError):
            skl2onnx.to_onnx(model, X)


def test_labels_that_onnx_has_no_type_for():
    model = TanhClassifier(5, alpha=1.0).fit(X, Y.astype(np.uint64) + 2**63)
    with pytest.raises(ValueError, match="LabelEncoder"):
        to_onnx(model, X)


def test_without_the_packages_of_the_extra():
    code = "import sys; sys.modules['skl2onnx'] = None; import sklearn_fsvc.export.onnx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'sklearn-fsvc[onnx]'" in done.stderr


def test_letters():
    path = Path(os.environ.get("SKLEARN_FSVC_DATA", "")) / "letter" / "letter.csv.gz"
    if "SKLEARN_FSVC_DATA" not in os.environ or not path.exists():
        pytest.skip("needs letter/letter.csv.gz in the folder that SKLEARN_FSVC_DATA names")
    table = pd.read_csv(path)
    words = table.select_dtypes(exclude="number").columns
    y, rows = table[words[0]].to_numpy(str), table.drop(columns=words).to_numpy(np.uint8)
    model = RBFClassifier(500, random_state=0, **NARROW | {"radius": 8.0})
    model.fit(rows[:6000], y[:6000])
    found = answers(model, rows[6000:])["label"]
    assert np.mean(found == y[6000:]) > 0.7
    np.testing.assert_array_equal(found, model.predict(rows[6000:]))
