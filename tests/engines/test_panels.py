"""Panels of units that are cached for the next call."""

import gc

import numpy as np
import pytest

import naive
from sklearn_fsvc._src.engines import panels
from sklearn_fsvc._src.engines.panels import MAX_SMALL, SMALL_BYTES, fingerprint_units
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc.engines import get_engine


def hidden(layer, X):
    with get_engine("jit") as engine:
        return engine.hidden(engine.prepare_cached(layer), X)


def change(units, value):
    units[-1, -1] = value


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_units_changed_in_place_are_packed_again(rng, dtype):
    units, X = (rng.integers(0, 9, (n, 5)).astype(dtype) for n in (40, 3))
    layer = RBFLayer(units, 30.0)
    hidden(layer, X)
    change(units, 200)
    np.testing.assert_allclose(hidden(layer, X), naive.hidden(layer, X), atol=1e-5)


def test_layers_of_the_same_units_keep_their_own_formulas(rng):
    units, X = rng.normal(size=(40, 5)), rng.normal(size=(3, 5))
    bias = rng.normal(size=40)
    layers = [RBFLayer(units, r, m) for r in (2.0, 9.0) for m in ("manhattan", "sqeuclidean")]
    for layer in (*layers, TanhLayer(units, bias), TanhLayer(units, 2 * bias)):
        np.testing.assert_allclose(hidden(layer, X), naive.hidden(layer, X), atol=1e-12)


def test_the_number_of_cached_layers_is_limited(rng):
    X = rng.normal(size=(1, 3))
    for _ in range(2 * MAX_SMALL):
        hidden(RBFLayer(rng.normal(size=(8, 3))), X)
    assert len(panels._small) == MAX_SMALL


def large_layer(rng, dtype=np.float32):
    n = 128
    units = rng.integers(0, 9, (SMALL_BYTES // n // np.dtype(dtype).itemsize + 8, n)).astype(dtype)
    return RBFLayer(units, 300.0)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_one_large_layer_is_cached_while_its_units_exist(rng, dtype):
    layers, X = (
        [large_layer(rng, dtype), large_layer(rng, dtype)],
        rng.integers(0, 9, (1, 128)).astype(dtype),
    )
    for layer in layers:
        for _ in range(2):
            np.testing.assert_allclose(hidden(layer, X), naive.hidden(layer, X), atol=1e-5)
        ((reference, packed),) = panels._large.values()
        assert reference() is layer.units
    hidden(layer, X)
    assert next(iter(panels._large.values()))[1] is packed
    change(layer.units, 200)
    np.testing.assert_allclose(hidden(layer, X), naive.hidden(layer, X), atol=1e-5)
    del layer, layers
    gc.collect()
    assert not panels._large


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (70, 9)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_each_value_changes_the_fingerprint(shape, dtype):
    units = np.zeros(shape, dtype)
    before, seen = fingerprint_units(units), set()
    for i in np.ndindex(shape):
        units[i] = 1
        seen.add(fingerprint_units(units))
        units[i] = 0
    assert len(seen) == units.size
    assert before not in seen
    assert (
        fingerprint_units(-units) == before
        if dtype == np.uint8
        else fingerprint_units(-units) != before
    )
