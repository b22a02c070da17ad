"""Exported C headers: they compile without warnings, and predict as the model does."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from export.compiled import compile_library, predict_in_c
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.export.c import header_of
from sklearn_fsvc._src.parts.composition import parts_of
from sklearn_fsvc.export.c import to_c
from sklearn_fsvc.kernels import Affine, Function, Kernel, PoweredExponential

FIXED = {"random_state": 0, "device": "cpu"}
# Without a search for hyperparameters.
GIVEN = {"feature_weights": None, "alpha": 1.0, **FIXED}
DIGITS, FIGURES = load_digits(return_X_y=True)
NAMES = np.array(["zero", 'ein"s', "zw\\ei", "drei??/", "vier", "fünf", "6", "7", "8", "9"])
X, X_TEST, Y, Y_TEST = train_test_split(
    DIGITS, FIGURES, train_size=500, test_size=300, random_state=0
)


# A linear map of 64 features to 20.
MAP = np.random.default_rng(0).normal(size=(64, 20))


class Step(Kernel):
    """max(0.1, 2 - d^2 / radius^2): a custom kernel whose steps are supported in C."""

    name, power = "*/ step", 2

    def affine(self, radius):
        return Affine(scale=-1 / radius**2, offset=2.0, floor=0.1)

    def natural_radius(self, distance):
        return distance


class Root(Step):
    name, function = "root", Function("root", lambda A, xp: xp.sqrt(A, out=A), None)


CLASSIFIERS = {
    "8 bits": (RBFClassifier(40, precision=8, **GIVEN), "f8"),
    "8 bits, uint8": (RBFClassifier(40, precision=8, **GIVEN), "u1"),
    "15 bits, uint8": (RBFClassifier(40, precision=15, **GIVEN), "u1"),
    "softmax": (TanhClassifier(40, readout="softmax", **GIVEN), "f4"),
    "8 bits, tanh": (TanhClassifier(40, precision=8, **GIVEN), "f8"),
    "15 bits, float64": (TanhClassifier(40, precision=15, **GIVEN), "f8"),
    "defaults": (RBFClassifier(40, **FIXED), "u1"),
    "defaults, float32": (RBFClassifier(40, **FIXED), "f4"),
    "triangular": (RBFClassifier(40, kernel="triangular", **GIVEN), "u1"),
    "triangular, float64": (RBFClassifier(40, kernel="triangular", **GIVEN), "f8"),
    "feature weights": (
        RBFClassifier(40, **GIVEN | {"feature_weights": np.linspace(0, 1, 64)}), "u1",
    ),
    "linear map": (RBFClassifier(40, **GIVEN | {"feature_weights": MAP}), "u1"),
    "linear map, float64": (
        make_pipeline(
            StandardScaler(),
            RBFClassifier(40, metric="euclidean", **GIVEN | {"feature_weights": MAP}),
        ), "f8",
    ),
    "gaussian": (RBFClassifier(40, kernel="gaussian", **GIVEN), "u1"),
    "powered exponential": (RBFClassifier(40, kernel=PoweredExponential(0.4), **GIVEN), "f8"),
    "euclidean": (RBFClassifier(40, metric="euclidean", kernel="gaussian", **FIXED), "f4"),
    "euclidean, triangular": (RBFClassifier(40, metric="euclidean", **GIVEN), "f4"),
    "squared": (RBFClassifier(40, metric="sqeuclidean", kernel="triangular", **GIVEN), "f4"),
    "custom kernel": (RBFClassifier(40, kernel=Step(), selection="random", **GIVEN), "f8"),
    "lms": (RBFClassifier(40, readout="lms", **FIXED), "u1"),
    "untrained": (RBFClassifier(40, readout="none", **FIXED), "u1"),
    "tanh": (
        TanhClassifier(40, **GIVEN | {"feature_weights": np.linspace(0, 1, 64)}), "f4",
    ),
    "tanh, float64": (TanhClassifier(40, **GIVEN), "f8"),
    "standardised": (make_pipeline(StandardScaler(), TanhClassifier(40, **GIVEN)), "f4"),
    "centred": (
        make_pipeline(StandardScaler(with_std=False), TanhClassifier(40, **GIVEN)), "f8",
    ),
    "min-max scaled": (
        make_pipeline(MinMaxScaler((-1, 2)), "passthrough", RBFClassifier(40, **GIVEN)), "f4",
    ),
    "search": (HiddenSizeSearchCV(TanhClassifier(**GIVEN), {"n_hidden": [30, 60]}, cv=2), "f4"),
}  # fmt: skip


def assert_same_classifier(model, rows, folder):
    """Compile the exported model, compare it with `predict`, and return its scores."""
    scores, classes = predict_in_c(model, rows, folder)
    np.testing.assert_array_equal(classes, model.predict(rows))
    expected = model.decision_function(rows)
    atol = (1e-9 if scores.dtype == np.float64 else 1e-3) * np.abs(expected).max()
    bits = getattr(model, "precision", "float")
    if isinstance(bits, int):  # rounding ties may be resolved differently
        assert np.mean(np.abs(scores - expected) > atol) < 0.01
        atol += 2.0 ** (1 - bits) * np.abs(model.readout_coef_).max()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=atol)
    return scores


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifier_predicts_the_same(name, tmp_path):
    model, dtype = CLASSIFIERS[name]
    model.fit(X.astype(dtype), Y)
    assert_same_classifier(model, X_TEST.astype(dtype), tmp_path)


def test_buffered_samples_of_partial_fit():
    model = RBFClassifier(20, **GIVEN).partial_fit(X, Y)
    text = to_c(model)
    model.solve()
    assert text == to_c(model)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_classifier_on_the_data_of_the_paper(fsvc_data, dtype, tmp_path):
    X, y, X_test, _ = fsvc_data("optd64")
    X, X_test = 8 * X + 8, 8 * X_test + 8  # to counts, 0 to 16
    model = RBFClassifier(200, **GIVEN).fit(X.astype(dtype), y.astype(int))
    assert_same_classifier(model, X_test[:500].astype(dtype), tmp_path)


@pytest.mark.parametrize(
    "labels", [NAMES, NAMES.astype(object), np.arange(10.0), np.arange(10) - 2**30], ids=str
)
def test_classes_of_any_dtype(labels, tmp_path):
    model = RBFClassifier(30, **GIVEN).fit(X.astype("u1"), labels[Y])
    assert_same_classifier(model, X_TEST[:50].astype("u1"), tmp_path)


def test_integer_classes_beyond_32_bits():
    text = to_c(TanhClassifier(5, **GIVEN).fit(X, Y + 2**40))
    assert "static inline int64_t model_predict(const double *x)" in text
    assert "1099511627776LL, 1099511627777LL" in text


def test_activations_that_are_all_equal(rng, tmp_path):
    """Their table has one element, and an unsigned distance is never below 0: no warning."""
    rows = rng.integers(256, size=(40, 3)).astype(np.uint8)
    model = RBFClassifier(5, kernel="laplacian", precision=15, **GIVEN | {"radius": 1e30})
    model.fit(rows, rows[:, 0] > 99)
    scores, _ = predict_in_c(model, rows, tmp_path)
    np.testing.assert_allclose(scores, model.decision_function(rows), atol=1e-5)


def test_uint8_distances_beyond_16_bits(rng, tmp_path):
    """258 differences of up to 255 exceed 16 bits."""
    y = np.arange(40) % 2
    rows = rng.integers(0, 30, (40, 300)) + 225 * y[:, None]
    rows = np.clip(rows, 0, 255).astype("u1")
    model = RBFClassifier(20, selection="random", radius=5e4, **GIVEN).fit(rows, y)
    assert_same_classifier(model, 255 * (rows > 128).astype("u1"), tmp_path)


@pytest.mark.parametrize("model", [RBFClassifier(30, **GIVEN), TanhClassifier(30, **GIVEN)])
def test_binary_classification(model, tmp_path):
    model.fit(X.astype("f4"), Y > 4)
    assert_same_classifier(model, X_TEST.astype("f4"), tmp_path)


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize(("metric", "radius"), [("manhattan", 20.0), ("euclidean", 8.0)])
def test_uncovered_samples_of_classifiers(n_classes, metric, radius, tmp_path):
    """Their scores are exactly those of their nearest centre."""
    y = Y % n_classes
    options = {"metric": metric, "kernel": "triangular", "selection": "random", "radius": radius}
    dtype = "u1" if metric == "manhattan" else "f4"
    rows = X_TEST.astype(dtype)
    model = RBFClassifier(60, **options, **GIVEN).fit(X.astype(dtype), y)
    scores = assert_same_classifier(model, rows, tmp_path)
    values = {tuple(row) for row in parts_of(model).nearest_scores.astype(scores.dtype)}
    uncovered = [tuple(row) in values for row in scores.reshape(len(scores), -1)]
    assert 10 < sum(uncovered) < len(uncovered)


REGRESSORS = {
    "rbf": RBFRegressor(60, **FIXED),
    "narrow": RBFRegressor(60, kernel="triangular", radius=0.02, **GIVEN),
    "tanh": TanhRegressor(60, **GIVEN),
    "standardised": make_pipeline(StandardScaler(), RBFRegressor(60, **GIVEN)),
}


@pytest.mark.parametrize(
    ("name", "n_outputs", "dtype"),
    [
        ("rbf", 1, "f8"), ("rbf", 2, "f4"), ("narrow", 1, "f4"), ("narrow", 2, "f8"),
        ("tanh", 1, "f4"), ("tanh", 2, "f8"), ("standardised", 1, "f8"), ("standardised", 2, "f4"),
    ],
)  # fmt: skip
def test_regressor_predicts_the_same(name, n_outputs, dtype, tmp_path):
    rows, y = load_diabetes(return_X_y=True)
    rows, y = rows.astype(dtype), y if n_outputs == 1 else np.column_stack([1e9 * y, rows[:, 2]])
    model = REGRESSORS[name].fit(rows[:300], y[:300])
    expected = model.predict(rows[300:])
    rtol = 1e-9 if dtype == "f8" else 1e-3
    spread = y.std(axis=0)
    given = predict_in_c(model, rows[300:], tmp_path)
    np.testing.assert_allclose(given / spread, expected / spread, rtol=0, atol=rtol)


@pytest.mark.parametrize(
    ("offset", "scaler", "low", "high"),
    [(1e4, None, 2e-5, 2e-3), (1e6, None, 2e-3, 0.2), (1e6, StandardScaler(), 0, 1e-5)],
)
def test_features_far_from_0(offset, scaler, low, high, rng, tmp_path):
    """As documented: float32 sums of tanh units cancel, which a scaler prevents."""
    Z = np.round(16 * rng.normal(size=(600, 4))) / 16  # exact in float32, also with an offset
    rows, y = (Z + offset).astype("f4"), np.sin(Z[:, 0]) + Z[:, 1]
    network = TanhRegressor(40, feature_weights=None, **FIXED)
    model = make_pipeline(scaler, network).fit(rows[:400], y[:400])
    given = predict_in_c(model, rows[400:], tmp_path)
    difference = np.abs(given - model.predict(rows[400:])).max() / y.std()
    assert low <= difference < high


def test_quantised_regressors_of_bytes(tmp_path):
    rows, held_out = X.astype("u1"), X_TEST.astype("u1")
    model = RBFRegressor(40, metric="manhattan", kernel="triangular", precision=8, **GIVEN)
    given = predict_in_c(model.fit(rows, Y), held_out, tmp_path)
    np.testing.assert_allclose(given, model.predict(held_out), atol=1e-3)


def test_uncovered_samples_of_regressors(tmp_path):
    rows, y = load_diabetes(return_X_y=True)
    model = RBFRegressor(20, kernel="triangular", radius=0.02, **GIVEN)
    model.fit(rows[:300], y[:300])
    far = rows[300:] + 10
    expected = model.predict(far)
    np.testing.assert_array_equal(expected, np.tile(model.readout_intercept_, len(far)))
    np.testing.assert_array_equal(predict_in_c(model, far, tmp_path), expected)


def test_size_of_the_constants(tmp_path):
    header = header_of(RBFClassifier(30, **GIVEN).fit(X.astype("u1"), Y), "m")
    (tmp_path / "m.h").write_text(header.text)
    tables = re.findall(r"static const \w+ (\w+)\[", header.text)
    sizes = " + ".join(f"sizeof {table}" for table in tables)
    library = compile_library(
        f'#include "m.h"\nint size(void) {{ return (int)({sizes}); }}\n', tmp_path
    )
    assert header.n_bytes == library.size()
    assert f" {header.n_bytes} bytes of constants" in header.text


def two_outputs():
    return RBFClassifier(5, **GIVEN).fit(X, np.column_stack([Y % 2, Y % 3]))


def pipeline_of(*steps):
    return make_pipeline(*steps, TanhClassifier(5, **GIVEN)).fit(X, Y)


UNSUPPORTED = {
    "no readout": (
        lambda: RBFProjector(5, **FIXED).fit(X), TypeError, "RBFProjector.* cannot be exported",
    ),
    "several outputs": (two_outputs, ValueError, "several outputs.*each column"),
    "custom function": (
        lambda: RBFClassifier(5, kernel=Root(), selection="random", radius=100.0, **GIVEN)
        .fit(X, Y),
        ValueError, r"kernel=Root\(\) ends in the function 'root'.*laplacian",
    ),
    "clipping scaler": (
        lambda: pipeline_of(MinMaxScaler(clip=True)), ValueError, r"MinMaxScaler\(clip=True\)",
    ),
    "other scaler": (
        lambda: pipeline_of(RobustScaler()), ValueError, r"RobustScaler\(\) cannot be",
    ),
    "two scalers": (
        lambda: pipeline_of(StandardScaler(), MinMaxScaler()), ValueError,
        "use one StandardScaler",
    ),
    "not fitted": (RBFClassifier, ValueError, "not fitted yet"),
    "transformed target": (
        lambda: TanhRegressor(5, target_transform="log", **GIVEN).fit(X, Y), ValueError,
        "target_transform='log', which cannot be exported",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_models(name):
    make, error, message = UNSUPPORTED[name]
    with pytest.raises(error, match=message):
        to_c(make())


@pytest.mark.parametrize("name", ["", "2d", "a-b", "é", None])
def test_invalid_names(name):
    with pytest.raises(ValueError, match=re.escape(f"name={name!r} is not a C identifier")):
        to_c(RBFClassifier(), name)


def test_search_without_refit():
    search = HiddenSizeSearchCV(TanhClassifier(**GIVEN), {"n_hidden": [5]}, cv=2, refit=False)
    with pytest.raises(TypeError, match="refit=True"):
        to_c(search.fit(X, Y))
