"""Panels of units that are kept for the next row."""

import gc

import numpy as np
import pytest

import naive
from sklearn_fsvc._src.engines.integers import _MOST, _SMALL, _fingerprint, _kept, _large
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc.engines import get_engine


def hidden(layer, X):
    with get_engine("jit") as engine:
        return engine.hidden(engine.prepare_for_few(layer), X)


def changed(units, value):
    units[-1, -1] = value


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_units_changed_in_place_are_met_as_they_are_now(rng, dtype):
    units, X = (rng.integers(0, 9, (n, 5)).astype(dtype) for n in (40, 3))
    layer = RBFLayer(units, 30.0)
    hidden(layer, X)
    changed(units, 200)
    np.testing.assert_allclose(hidden(layer, X), naive.hidden(layer, X), atol=1e-5)


def test_layers_of_the_same_units_keep_their_own_formulas(rng):
    units, X = rng.normal(size=(40, 5)), rng.normal(size=(3, 5))
    bias = rng.normal(size=40)
    layers = [RBFLayer(units, r, m) for r in (2.0, 9.0) for m in ("manhattan", "sqeuclidean")]
    for layer in (*layers, TanhLayer(units, bias), TanhLayer(units, 2 * bias)):
        np.testing.assert_allclose(hidden(layer, X), naive.hidden(layer, X), atol=1e-12)


def test_few_are_kept(rng):
    X = rng.normal(size=(1, 3))
    for _ in range(2 * _MOST):
        hidden(RBFLayer(rng.normal(size=(8, 3))), X)
    assert len(_kept) == _MOST


def large(rng, dtype=np.float32):
    n = 128
    units = rng.integers(0, 9, (_SMALL // n // np.dtype(dtype).itemsize + 8, n)).astype(dtype)
    return RBFLayer(units, 300.0)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_one_large_layer_is_kept_while_its_units_live(rng, dtype):
    layers, X = [large(rng, dtype), large(rng, dtype)], rng.integers(0, 9, (1, 128)).astype(dtype)
    for layer in layers:
        for _ in range(2):
            np.testing.assert_allclose(hidden(layer, X), naive.hidden(layer, X), atol=1e-5)
        ((kept, panels),) = _large.values()
        assert kept() is layer.units
    hidden(layer, X)
    assert next(iter(_large.values()))[1] is panels
    changed(layer.units, 200)
    np.testing.assert_allclose(hidden(layer, X), naive.hidden(layer, X), atol=1e-5)
    del layer, layers
    gc.collect()
    assert not _large


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (70, 9)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_each_number_counts(shape, dtype):
    units = np.zeros(shape, dtype)
    before, seen = _fingerprint(units), set()
    for i in np.ndindex(shape):
        units[i] = 1
        seen.add(_fingerprint(units))
        units[i] = 0
    assert len(seen) == units.size
    assert before not in seen
    assert _fingerprint(-units) == before if dtype == np.uint8 else _fingerprint(-units) != before
