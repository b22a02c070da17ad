"""Patch layers, and the comparison of an engine with the naive loop over all positions."""

import numpy as np

import naive
from contract import TOLERANCE
from sklearn_fsvc._src.engines.patches import PatchEvaluator
from sklearn_fsvc._src.images import PatchGrid
from sklearn_fsvc._src.layers import PatchLayer, RBFLayer
from sklearn_fsvc.parts import LinearLayer

# One position; unequal cells; channels; rectangles; strides that skip pixels.
GRIDS = [
    PatchGrid((3, 4, 1), (3, 4), 1, (1, 1)),
    PatchGrid((9, 9, 1), (3, 3), 1, (3, 2)),
    PatchGrid((7, 5, 3), (2, 3), 1, (1, 3)),
    PatchGrid((11, 8, 2), (4, 3), 2, (4, 2)),
    PatchGrid((1, 10, 1), (1, 3), 3, (1, 2)),
]
WAYS = [
    ("linear", "two-sided"), ("linear", "as they are"), ("distance", "below mean"),
    ("laplacian", "as they are"), ("gaussian", "as they are"),
]  # fmt: skip


def made(grid, way, dtype, is_whitened=True, floor=0.3, m=7, seed=0):
    """Return a random patch layer, and images for it."""
    rng = np.random.default_rng(seed)
    (kind, response), n = way, grid.n_inputs
    units = rng.normal(size=(m, n)).astype(dtype)
    if kind == "linear":
        inner = LinearLayer(units, rng.normal(size=m).astype(dtype))
    else:
        inner = RBFLayer(units, 1.5, "euclidean", kind)
    whitening = rng.normal(size=(n, n)).astype(dtype) if is_whitened else None
    shift = rng.normal(size=n).astype(dtype) if is_whitened else None
    layer = PatchLayer(grid, inner, response, 0.4, floor, whitening, shift)
    return layer, rng.normal(size=(13, grid.n_features)).astype(dtype)


def evaluated(engine, layer, X, memory_limit=2**30):
    out = engine.xp.full((len(X), layer.n_units), np.nan, layer.hidden_dtype)
    evaluator = PatchEvaluator(engine, memory_limit)
    return engine.to_host(evaluator.hidden(evaluator.prepare(layer), engine.to_device(X), out))


def assert_is_formula(H, layer, X):
    expected = naive.patches(layer, X)
    assert H.shape == expected.shape
    tolerance = 20 * TOLERANCE[H.dtype] * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(H, expected, rtol=0, atol=tolerance)
