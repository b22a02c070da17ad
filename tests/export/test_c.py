"""The C header answers as `predict` does: compiled without a warning, for every row."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from export.compiled import compiled, in_c
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.export.c import header_of
from sklearn_fsvc._src.parts import parts_of
from sklearn_fsvc.export.c import to_c
from sklearn_fsvc.kernels import Affine, Function, Kernel, PoweredExponential

FIXED = {"random_state": 0, "device": "cpu"}
# Nothing is chosen by error on rows that are held out.
GIVEN = {"feature_weights": None, "alpha": 1.0, **FIXED}
DIGITS, FIGURES = load_digits(return_X_y=True)
NAMES = np.array(["zero", 'ein"s', "zw\\ei", "drei??/", "vier", "fünf", "6", "7", "8", "9"])
X, X_TEST, Y, Y_TEST = train_test_split(
    DIGITS, FIGURES, train_size=500, test_size=300, random_state=0
)


# Of 64 features to 20 combinations.
MAP = np.random.default_rng(0).normal(size=(64, 20))


class Step(Kernel):
    """max(0.1, 2 - d^2 / radius^2): a formula of one's own, of steps that C has."""

    name, power = "*/ step", 2

    def affine(self, radius):
        return Affine(scale=-1 / radius**2, offset=2.0, floor=0.1)

    def natural_radius(self, distance):
        return distance


class Root(Step):
    name, function = "root", Function("root", lambda A, xp: xp.sqrt(A, out=A), None)


CLASSIFIERS = {
    "8 bits": (RBFClassifier(100, precision=8, **FIXED), "f8"),
    "8 bits of bytes": (RBFClassifier(100, precision=8, **FIXED), "u1"),
    "15 bits of bytes": (RBFClassifier(100, precision=15, **FIXED), "u1"),
    "softmax": (TanhClassifier(100, readout="softmax", **GIVEN), "f4"),
    "8 bits, tanh": (TanhClassifier(100, precision=8, **FIXED), "f8"),
    "15 bits, doubles": (TanhClassifier(100, precision=15, **FIXED), "f8"),
    "chosen": (RBFClassifier(100, **FIXED), "u1"),
    "chosen, floats": (RBFClassifier(100, **FIXED), "f4"),
    "triangles": (RBFClassifier(100, kernel="triangular", **GIVEN), "u1"),
    "triangles, doubles": (RBFClassifier(100, kernel="triangular", **FIXED), "f8"),
    "weights": (RBFClassifier(100, **GIVEN | {"feature_weights": np.linspace(0, 1, 64)}), "u1"),
    "map": (RBFClassifier(100, **GIVEN | {"feature_weights": MAP}), "u1"),
    "map, doubles": (
        make_pipeline(
            StandardScaler(),
            RBFClassifier(100, metric="euclidean", **GIVEN | {"feature_weights": MAP}),
        ), "f8",
    ),
    "gaussian": (RBFClassifier(100, kernel="gaussian", **GIVEN), "u1"),
    "powered": (RBFClassifier(100, kernel=PoweredExponential(0.4), **GIVEN), "f8"),
    "euclidean": (RBFClassifier(100, metric="euclidean", kernel="gaussian", **FIXED), "f4"),
    "euclidean triangles": (RBFClassifier(100, metric="euclidean", **GIVEN), "f4"),
    "squared": (RBFClassifier(100, metric="sqeuclidean", kernel="triangular", **GIVEN), "f4"),
    "own kernel": (RBFClassifier(100, kernel=Step(), selection="random", **GIVEN), "f8"),
    "lms": (RBFClassifier(100, readout="lms", **FIXED), "u1"),
    "untrained": (RBFClassifier(100, readout="none", **FIXED), "u1"),
    "tanh": (TanhClassifier(100, **FIXED), "f4"),
    "tanh, doubles": (TanhClassifier(100, **GIVEN), "f8"),
    "standardised": (make_pipeline(StandardScaler(), TanhClassifier(100, **GIVEN)), "f4"),
    "only centred": (
        make_pipeline(StandardScaler(with_std=False), TanhClassifier(100, **GIVEN)), "f8",
    ),
    "between -1 and 2": (
        make_pipeline(MinMaxScaler((-1, 2)), "passthrough", RBFClassifier(100, **GIVEN)), "f4",
    ),
    "search": (HiddenSizeSearchCV(TanhClassifier(**GIVEN), {"n_hidden": [30, 60]}, cv=2), "f4"),
}  # fmt: skip


def assert_same(model, rows, folder):
    scores, classes = in_c(model, rows, folder)
    np.testing.assert_array_equal(classes, model.predict(rows))
    expected = model.decision_function(rows)
    atol = (1e-9 if scores.dtype == np.float64 else 1e-3) * np.abs(expected).max()
    bits = getattr(model, "precision", "float")
    if isinstance(bits, int):  # an activation between two steps may be rounded to either
        assert np.mean(np.abs(scores - expected) > atol) < 0.01
        atol += 2.0 ** (1 - bits) * np.abs(model.readout_coef_).max()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=atol)
    return scores


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_digits(name, tmp_path):
    model, dtype = CLASSIFIERS[name]
    model.fit(X.astype(dtype), Y)
    assert_same(model, X_TEST.astype(dtype), tmp_path)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_the_authors_data(fsvc_data, dtype, tmp_path):
    X, y, X_test, _ = fsvc_data("optd64")
    X, X_test = 8 * X + 8, 8 * X_test + 8  # to counts, 0 to 16
    model = RBFClassifier(200, **GIVEN).fit(X.astype(dtype), y.astype(int))
    assert_same(model, X_test[:500].astype(dtype), tmp_path)


@pytest.mark.parametrize(
    "labels", [NAMES, NAMES.astype(object), np.arange(10.0), np.arange(10) - 2**30], ids=str
)
def test_labels(labels, tmp_path):
    model = RBFClassifier(30, **GIVEN).fit(X.astype("u1"), labels[Y])
    assert_same(model, X_TEST[:50].astype("u1"), tmp_path)


def test_large_labels():
    text = to_c(TanhClassifier(5, **GIVEN).fit(X, Y + 2**40))
    assert "static inline int64_t model_predict(const double *x)" in text
    assert "1099511627776LL, 1099511627777LL" in text


def test_distances_of_many_bytes(rng, tmp_path):
    """Sums of 258 differences and more do not fit into 16 bits."""
    y = np.arange(40) % 2
    rows = rng.integers(0, 30, (40, 300)) + 225 * y[:, None]
    rows = np.clip(rows, 0, 255).astype("u1")
    model = RBFClassifier(20, selection="random", radius=5e4, **GIVEN).fit(rows, y)
    assert_same(model, 255 * (rows > 128).astype("u1"), tmp_path)


@pytest.mark.parametrize("model", [RBFClassifier(30, **GIVEN), TanhClassifier(30, **GIVEN)])
def test_two_classes(model, tmp_path):
    model.fit(X.astype("f4"), Y > 4)
    assert_same(model, X_TEST.astype("f4"), tmp_path)


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize(("metric", "radius"), [("manhattan", 20.0), ("euclidean", 8.0)])
def test_rows_that_no_unit_covers(n_classes, metric, radius, tmp_path):
    """They have the scores that the model has for their nearest unit, exactly."""
    y = Y % n_classes
    options = {"metric": metric, "kernel": "triangular", "selection": "random", "radius": radius}
    dtype = "u1" if metric == "manhattan" else "f4"
    rows = X_TEST.astype(dtype)
    model = RBFClassifier(60, **options, **GIVEN).fit(X.astype(dtype), y)
    scores = assert_same(model, rows, tmp_path)
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
def test_numbers(name, n_outputs, dtype, tmp_path):
    rows, y = load_diabetes(return_X_y=True)
    rows, y = rows.astype(dtype), y if n_outputs == 1 else np.column_stack([1e9 * y, rows[:, 2]])
    model = REGRESSORS[name].fit(rows[:300], y[:300])
    expected = model.predict(rows[300:])
    rtol = 1e-9 if dtype == "f8" else 1e-3
    spread = y.std(axis=0)
    given = in_c(model, rows[300:], tmp_path)
    np.testing.assert_allclose(given / spread, expected / spread, rtol=0, atol=rtol)


def test_numbers_for_rows_that_no_unit_covers(tmp_path):
    rows, y = load_diabetes(return_X_y=True)
    model = RBFRegressor(20, kernel="triangular", radius=0.02, **GIVEN)
    model.fit(rows[:300], y[:300])
    far = rows[300:] + 10
    expected = model.predict(far)
    np.testing.assert_array_equal(expected, np.tile(model.readout_intercept_, len(far)))
    np.testing.assert_array_equal(in_c(model, far, tmp_path), expected)


def test_bytes_of_constants(tmp_path):
    header = header_of(RBFClassifier(30, **GIVEN).fit(X.astype("u1"), Y), "m")
    (tmp_path / "m.h").write_text(header.text)
    tables = re.findall(r"static const \w+ (\w+)\[", header.text)
    sizes = " + ".join(f"sizeof {table}" for table in tables)
    library = compiled(f'#include "m.h"\nint size(void) {{ return (int)({sizes}); }}\n', tmp_path)
    assert header.n_bytes == library.size()
    assert f" {header.n_bytes} bytes of constants" in header.text


def two_columns():
    return RBFClassifier(5, **GIVEN).fit(X, np.column_stack([Y % 2, Y % 3]))


def behind(*steps):
    return make_pipeline(*steps, TanhClassifier(5, **GIVEN)).fit(X, Y)


REFUSED = {
    "no readout": (lambda: RBFProjector(5, **FIXED).fit(X), TypeError, "RBFProjector.* readout"),
    "several outputs": (two_columns, ValueError, "several outputs.*each column"),
    "own function": (
        lambda: RBFClassifier(5, kernel=Root(), selection="random", radius=100.0, **GIVEN)
        .fit(X, Y),
        ValueError, r"kernel=Root\(\) ends in the function 'root'.*laplacian",
    ),
    "clips": (lambda: behind(MinMaxScaler(clip=True)), ValueError, r"MinMaxScaler\(clip=True\)"),
    "other scaler": (lambda: behind(RobustScaler()), ValueError, r"RobustScaler\(\) cannot be"),
    "two scalers": (
        lambda: behind(StandardScaler(), MinMaxScaler()), ValueError, "have one StandardScaler",
    ),
    "not fitted": (RBFClassifier, ValueError, "not fitted yet"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        to_c(make())


@pytest.mark.parametrize("name", ["", "2d", "a-b", "é", None])
def test_names(name):
    with pytest.raises(ValueError, match=re.escape(f"name={name!r} is no name in C")):
        to_c(RBFClassifier(), name)


def test_a_search_without_its_best_model():
    search = HiddenSizeSearchCV(TanhClassifier(**GIVEN), {"n_hidden": [5]}, cv=2, refit=False)
    with pytest.raises(TypeError, match="refit=True"):
        to_c(search.fit(X, Y))
