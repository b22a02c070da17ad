"""Validation of X, the range of float32, and arrays that results are written into."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import naive
from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.data import validation
from sklearn_fsvc._src.data.rows import write_rows
from sklearn_fsvc._src.data.validation import (
    cast_to_float32_if_safe,
    check_holds,
    check_out,
    is_float32_resolved,
)
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer


@pytest.fixture
def fitted(rng):
    X = rng.random((30, 3))
    model = RBFClassifier(5, kernel="laplacian", feature_weights=None, alpha=1, random_state=0)
    return model.fit(X, X[:, 0] > 0.5), X


@pytest.fixture
def validated_inputs(monkeypatch):
    """Return the list of all X that scikit-learn validates."""
    seen, validate = [], validation.validate_data

    def recorded(estimator, X, *args, **options):
        seen.append(X)
        return validate(estimator, X, *args, **options)

    monkeypatch.setattr(validation, "validate_data", recorded)
    return seen


def test_valid_samples_are_not_validated_by_scikit_learn(fitted, validated_inputs):
    clf, X = fitted
    for rows in (X[:1], X, X[::2], X.astype(np.float32), np.asfortranarray(X)):
        np.testing.assert_array_equal(clf.predict(rows), clf.predict(rows.astype(float).tolist()))
    assert all(isinstance(rows, list) for rows in validated_inputs)
    assert len(validated_inputs) == 5


def test_valid_batches_are_not_validated_by_scikit_learn(rng, validated_inputs):
    X, y = rng.random((30, 3)), np.arange(30) % 2
    clf = RBFClassifier(5, alpha=1, random_state=0).partial_fit(X, y, classes=[0, 1])
    assert len(validated_inputs) == 1
    clf.partial_fit(X, y)
    assert len(validated_inputs) == 1
    for wrong in (y[:5], np.where(y, np.nan, 0.0)):
        with pytest.raises(ValueError, match=r"inconsistent|NaN"):
            clf.partial_fit(X, wrong)
    assert len(validated_inputs) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:, :2], "2 features"),
        (lambda X: X[0], "Expected 2D array"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: np.where(X.max() == X, np.nan, X), "NaN"),
        (lambda X: np.where(X.max() == X, np.inf, X), "infinity"),
        (lambda X: X + 1j, "Complex"),
    ],
)
def test_invalid_samples_are_refused(fitted, change, message):
    clf, X = fitted
    with pytest.raises(ValueError, match=message):
        clf.predict(change(X))


def test_missing_feature_names_are_warned_of(fitted):
    clf, X = fitted
    clf.fit(pd.DataFrame(X, columns=list("abc")), X[:, 0] > 0.5)
    with pytest.warns(UserWarning, match="feature names"):
        clf.predict(X)


def test_other_byte_orders_are_converted(fitted):
    clf, X = fitted
    swapped = X.astype(X.dtype.newbyteorder())
    np.testing.assert_array_equal(clf.predict(swapped), clf.predict(X))


@pytest.mark.parametrize("module", ["pandas", "polars", "pyarrow"])
def test_columns_of_uint8_in_a_table_are_numbers_of_any_unit(rng, module):
    """Unlike pixels: features of a large range would hide all others without learned weights."""
    library = pytest.importorskip(module)
    X = rng.integers(0, [2, 2, 256, 256, 256], size=(300, 5)).astype(np.uint8)
    y = X[:, 0] ^ X[:, 1]
    make_table = getattr(library, "table" if module == "pyarrow" else "DataFrame")
    tables = [
        make_table({f"x{j}": column for j, column in enumerate(rows.T)})
        for rows in (X, X.astype(np.float64))
    ]
    found, expected = (
        RBFClassifier(50, random_state=0).fit(table[:200], y[:200]) for table in tables
    )
    scores = [m.decision_function(t[200:]) for m, t in zip((found, expected), tables, strict=True)]
    np.testing.assert_array_equal(*scores)
    assert found.score(tables[0][200:], y[200:]) > 0.9
    assert RBFClassifier(50, random_state=0).fit(X, y).centers_.dtype == np.uint8


def test_prediction_without_fit_is_refused():
    with pytest.raises(NotFittedError):
        RBFClassifier().predict(np.zeros((1, 3)))


LAYERS = {
    "manhattan": lambda X: RBFLayer(X[:9], 3.0, "manhattan", "laplacian"),
    "weighted": lambda X: RBFLayer(
        X[:9] * [1, 0.5, 0.1], 1.0, "manhattan", "triangular", np.array([1, 0.5, 0.1])
    ),
    "euclidean": lambda X: RBFLayer(X[:9], 1.0, "euclidean", "gaussian"),
    "tanh": lambda X: TanhLayer(np.linspace(-1, 1, 27).reshape(9, 3), np.zeros(9)),
}
# name -> (transformation of X, whether float32 is accurate enough)
ROWS = {
    "standardised": (lambda X: X, True),
    "with a few common digits": (lambda X: X + 8, True),
    "far from 0": (lambda X: X + 1e6, False),
    "one feature far from 0": (lambda X: X + [0, 1e7, 0], False),
    "huge": (lambda X: X * 1e30, False),
}


@pytest.fixture
def X(rng):
    return rng.normal(size=(60, 3))


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(("change", "is_safe"), ROWS.values(), ids=ROWS)
def test_a_layer_is_cast_if_its_activations_stay_the_same(X, kind, change, is_safe):
    X = change(X)
    layer = LAYERS[kind](X)
    actual = cast_to_float32_if_safe(layer, X)
    assert actual.units.dtype == (np.float32 if is_safe else np.float64)
    if is_safe:
        few = naive.of_rows(actual, X.astype(np.float32))
        np.testing.assert_allclose(few, naive.of_rows(layer, X), atol=1e-5)


@pytest.mark.parametrize("radius", [1e-3, 1e-30])
def test_units_of_small_radius_stay_in_float64(X, radius):
    assert cast_to_float32_if_safe(RBFLayer(X[:9], radius), X).units.dtype == np.float64


def test_layers_of_float32_samples_are_unchanged(X):
    X = X.astype(np.float32)
    layer = RBFLayer(X[:9], 3.0)
    assert cast_to_float32_if_safe(layer, X) is layer


@pytest.mark.parametrize(("change", "is_safe"), ROWS.values(), ids=ROWS)
def test_resolution_of_distances(X, change, is_safe):
    assert is_float32_resolved(change(X)) == is_safe


def test_constant_features_are_ignored(X):
    X[:, 1] = 1e9
    assert is_float32_resolved(X)


def test_a_feature_of_tiny_spread_needs_float64(X):
    X[:, 1] *= 1e-40
    assert not is_float32_resolved(X)


class SliceOnlyFile:
    """A file that is written in slices only."""

    def __init__(self, *shape, dtype=float):
        self.shape, self.dtype, self.X = shape, np.dtype(dtype), np.zeros(shape, dtype)

    def __setitem__(self, key, value):
        assert isinstance(key, slice)
        assert len(value) == key.stop - key.start
        self.X[key] = value


@pytest.mark.parametrize("rows", [[], [3], [0, 1, 2], [0, 2, 3, 7, 8, 9], [1, 3, 5]])
def test_rows_of_a_file_are_written_in_slices(rows):
    out, values = SliceOnlyFile(10, 2), np.arange(1.0, 2 * len(rows) + 1).reshape(-1, 2)
    write_rows(out, np.array(rows, int), values)
    expected = np.zeros((10, 2))
    expected[rows] = values
    np.testing.assert_array_equal(out.X, expected)


def test_rows_of_an_array_are_written_at_once():
    out = np.zeros(5)
    write_rows(out, np.array([0, 4]), np.array([1.0, 2.0]))
    write_rows(out, slice(1, 3), np.array([3.0, 4.0]))
    np.testing.assert_array_equal(out, [1, 3, 4, 0, 2])


def read_only_array(*shape):
    out = np.zeros(shape)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([[0.0]], TypeError, "out is a list; pass an array"),
        (np.zeros((4, 3)), ValueError, r"out has shape \(4, 3\), and the result has \(3, 3\)"),
        (SliceOnlyFile(3), ValueError, r"out has shape \(3,\), and the result has \(3, 3\)"),
        (read_only_array(3, 3), ValueError, "read-only"),
        (np.zeros((3, 3), int), ValueError, "out has dtype int64, and the result is float32"),
        (
            SliceOnlyFile(3, 3, dtype="u1"),
            ValueError,
            "out has dtype uint8, and the result is float32",
        ),
    ],
)
def test_invalid_outputs_are_refused(out, error, message):
    with pytest.raises(error, match=message):
        check_out(out, (3, 3), np.float32)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_outputs_of_any_floating_dtype(dtype):
    check_out(SliceOnlyFile(3, 3, dtype=dtype), (3, 3), np.float32)


@pytest.mark.parametrize(
    ("values", "dtype", "is_held"),
    [
        ([0, 255], "u1", True), ([0, 256], "u1", False), ([-1, 0], "u1", False),
        (["a", "bc"], "U2", True), (["a", "bc"], "U1", False), (["a", "b"], int, False),
        ([0.0, 1.0], int, True), ([0.5, 1.0], int, False), (["a", "bc"], object, True),
    ],
)  # fmt: skip
def test_outputs_must_represent_all_values(values, dtype, is_held):
    out, values = np.empty(5, dtype), np.array(values)
    if is_held:
        check_holds(out, values)
    else:
        with pytest.raises(ValueError, match="which cannot hold all of"):
            check_holds(out, values)
