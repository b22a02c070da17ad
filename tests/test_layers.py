"""Layers: formulas, dtypes, and rounding."""

from dataclasses import replace

import numpy as np
import pytest

import naive
from contract import TOLERANCE
from sklearn_fsvc._src.kernels import KERNELS, METRICS, K
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer, hidden_dtype, quantize_layer
from sklearn_fsvc.kernels import Affine


def test_triangle_and_gaussian_have_equal_area():
    d = np.linspace(-20, 20, 400_001)[:, None]
    areas = []
    for kernel in ("triangular", "gaussian"):
        layer = RBFLayer(np.zeros((1, 1)), 1.3, "manhattan", kernel)
        H = np.abs(d).copy()
        layer.affine_of_sum.apply(H, np)
        if layer.has_finish:
            layer.finish(H, np)
        areas.append(H.sum() * (d[1, 0] - d[0, 0]))
    assert areas[0] == pytest.approx(areas[1], rel=1e-4)
    assert areas[0] == pytest.approx(K * 1.3, rel=1e-4)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("u1", np.float32), ("f4", np.float32), ("f8", np.float64)]
)
def test_hidden_dtype(dtype, expected):
    assert hidden_dtype(np.dtype(dtype)) == expected


def test_affine_is_applied_in_place():
    A = np.array([[-3.0, 1.0, 2.0]])
    result = Affine(2.0, np.array([1.0, 0.0, 1.0]), 0.0).apply(A, np)
    assert result is A
    np.testing.assert_array_equal(A, [[0, 2, 5]])


def test_astype_converts_all_arrays():
    layer = TanhLayer(np.ones((2, 3)), np.ones(2)).astype(np.float32)
    assert layer.units.dtype == layer.bias.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("metric", METRICS)
def test_activations_from_distances_are_those_of_the_layer(engine, rng, metric, kernel, dtype):
    """Layers of all radii share the distances."""
    if dtype == np.uint8 and metric != "manhattan":
        pytest.skip("uint8 samples only have Manhattan distances")
    X = rng.integers(0, 9, (40, 7)).astype(dtype)
    X, units = (X, X[:13]) if dtype == np.uint8 else (X / 9, X[:13] / 9)
    layer = RBFLayer(units.astype(dtype), 1.0, metric, kernel)
    X = X.astype(dtype)
    typical = float(np.median(naive.distances(X, units, metric)))
    D = engine.hidden(engine.prepare(layer.distances), engine.to_device(X))
    before = engine.to_host(D).copy()
    np.testing.assert_allclose(before, naive.distances(X, units, metric), rtol=1e-5)
    out = engine.xp.full(D.shape, np.nan, D.dtype)
    for part in (0.2, 0.6, 3.0):
        layer = RBFLayer(layer.units, part * typical, metric, kernel)
        H = engine.activate_distances(layer, D, out)
        assert H is out
        assert H.dtype == layer.hidden_dtype
        H = engine.to_host(H)
        expected_layer = engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X)))
        for expected in (expected_layer, naive.hidden(layer, X)):
            np.testing.assert_allclose(H, expected, rtol=0, atol=TOLERANCE[H.dtype])
        assert H.min() >= 0
        np.testing.assert_array_equal(H[np.arange(13), np.arange(13)], 1)
    np.testing.assert_array_equal(engine.to_host(D), before)


@pytest.mark.parametrize("bits", [8, 15])
@pytest.mark.parametrize("kernel", KERNELS)
def test_rounded_activations_from_distances_are_identical(engine, rng, kernel, bits):
    """`contract.check_steps` compares them with the formula."""
    X = rng.integers(0, 256, (200, 30)).astype(np.uint8)
    layer = quantize_layer(RBFLayer(X[:50], 900.0, "manhattan", kernel), bits)
    rows = engine.to_device(X)
    D = engine.hidden(engine.prepare(layer.distances), rows)
    H = engine.activate_distances(layer, D, engine.xp.empty_like(D))
    expected = engine.hidden(engine.prepare(layer), rows)
    np.testing.assert_array_equal(engine.to_host(H), engine.to_host(expected))


def test_only_rounded_layers_of_uint8_have_a_table():
    units = np.zeros((1, 5), np.uint8)
    layer = RBFLayer(units, 100.0)
    table = quantize_layer(layer, 8).table
    assert table.dtype == np.uint8
    assert quantize_layer(layer, 15).table.dtype == np.uint16
    assert table[0] == 255
    assert table[-1] == 0 < table[-2]
    for other in (
        layer, replace(quantize_layer(layer, 8), metric="euclidean"),
        quantize_layer(RBFLayer(units, weights=np.ones(5)), 8),
        quantize_layer(layer.astype(np.float32), 8),
        quantize_layer(RBFLayer(np.zeros((1, 16_449), np.uint8)), 8), TanhLayer(units, np.zeros(1)),
    ):  # fmt: skip
        assert other.table is None
