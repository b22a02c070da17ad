"""Rows in float64 that meet a layer in float32: only where it makes no difference."""

import numpy as np
import pytest

import naive
from sklearn_fsvc._src.data.validation import cast_if_safe, keeps_distances
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer

LAYERS = {
    "manhattan": lambda X: RBFLayer(X[:9], 3.0, "manhattan", "laplacian"),
    "weighted": lambda X: RBFLayer(
        X[:9] * [1, 0.5, 0.1], 1.0, "manhattan", "triangular", np.array([1, 0.5, 0.1])
    ),
    "euclidean": lambda X: RBFLayer(X[:9], 1.0, "euclidean", "gaussian"),
    "tanh": lambda X: TanhLayer(np.linspace(-1, 1, 27).reshape(9, 3), np.zeros(9)),
}
# name -> (what is made of rows, whether float32 does for them)
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
@pytest.mark.parametrize(("change", "does"), ROWS.values(), ids=ROWS)
def test_a_layer_is_in_float32_where_its_outputs_are_the_same(X, kind, change, does):
    X = change(X)
    layer = LAYERS[kind](X)
    found = cast_if_safe(layer, X)
    assert found.units.dtype == (np.float32 if does else np.float64)
    if does:
        few = naive.of_rows(found, X.astype(np.float32))
        np.testing.assert_allclose(few, naive.of_rows(layer, X), atol=1e-5)


@pytest.mark.parametrize("radius", [1e-3, 1e-30])
def test_narrow_units_are_left_in_float64(X, radius):
    assert cast_if_safe(RBFLayer(X[:9], radius), X).units.dtype == np.float64


def test_rows_in_other_dtypes_are_as_good_as_they_are(X):
    X = X.astype(np.float32)
    layer = RBFLayer(X[:9], 3.0)
    assert cast_if_safe(layer, X) is layer


@pytest.mark.parametrize(("change", "does"), ROWS.values(), ids=ROWS)
def test_rows_keep_their_distances(X, change, does):
    assert keeps_distances(change(X)) == does


def test_a_constant_feature_has_no_distances(X):
    X[:, 1] = 1e9
    assert keeps_distances(X)


def test_a_feature_of_tiny_spread_has_none_in_float32(X):
    X[:, 1] *= 1e-40
    assert not keeps_distances(X)
