"""Gradients of RBF networks: the oracle, and cases that are numerically difficult."""

from dataclasses import replace

import numpy as np
import pytest

import contract
import naive
from contract import Cauchy
from sklearn_fsvc._src.engines.blas import BlasEngine
from sklearn_fsvc._src.kernels import KERNELS, METRICS
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc.engines import Engine


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", [*KERNELS, "cauchy", "distance"])
def test_the_oracle_agrees_with_finite_differences(rng, metric, kernel):
    """The steps are too small to cross a kink."""
    X, C, W = rng.random((40, 5)), rng.random((7, 5)), rng.normal(size=(3, 7))
    radius, step = np.median(naive.distances(X, C, metric)) / 2, 1e-6
    G = naive.gradients(X, C, W, radius, metric, kernel)
    for k in range(5):
        up, down = X.copy(), X.copy()
        up[:, k], down[:, k] = X[:, k] + step, X[:, k] - step
        above, below = (naive.rbf(x, C, radius, metric, kernel) @ W.T for x in (up, down))
        np.testing.assert_allclose((above - below) / (2 * step), G[:, :, k], atol=1e-6)
    assert np.abs(G).max() > 0.1


def squared_gradients(engine, layer, X, W):
    X = engine.to_device(X)
    D = engine.hidden(engine.prepare(layer.distances), X)
    return engine.to_host(engine.squared_gradients(layer, X, D, W))


class _AllAtOnce(BlasEngine):
    """Evaluates all samples of a tile at a time, as engines with other arrays than NumPy's."""

    squared_gradients = Engine.squared_gradients


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", contract.SHAPES)
def test_gradients_all_at_once(shape, dtype):
    contract.check_gradients(_AllAtOnce(), shape, dtype)


@pytest.mark.parametrize("metric", METRICS)
def test_small_differences_in_the_presence_of_a_large_feature(engine, metric):
    """Samples differ in digits that an expanded product would lose."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1000.0 * rng.integers(0, 3, 60), rng.integers(0, 60, 60) / 2**20])
    X = X.astype(np.float32)
    layer = RBFLayer(X[:20] + np.float32([0, 2.0**-22]), 500.0, metric, "laplacian")
    W = rng.normal(size=(2, 20))
    expected = naive.squared_gradients(layer, X, W)
    np.testing.assert_allclose(squared_gradients(engine, layer, X, W), expected, rtol=1e-3)


def test_squares_do_not_overflow(engine, rng):
    """Gradients of 1e30 have infinite squares in float32."""
    X = rng.random((9, 4), np.float32)
    layer, W = RBFLayer(X[:3], 2.0, kernel="distance"), np.full((1, 3), 1e30)
    G = squared_gradients(engine, layer, X, W)
    np.testing.assert_allclose(G, naive.squared_gradients(layer, X, W), rtol=1e-5)
    assert G.max() > np.finfo(np.float32).max


def test_feature_weights_are_not_applied_again(engine, rng):
    """X and the units have been multiplied already."""
    X, W = rng.random((30, 4)), rng.normal(size=(2, 8))
    plain = RBFLayer(X[:8], 1.0, "euclidean", Cauchy())
    weighted = replace(plain, weights=rng.random(4))
    np.testing.assert_array_equal(
        squared_gradients(engine, plain, X, W), squared_gradients(engine, weighted, X, W)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_units", "n_features"), [(3, 4), (70, 33), (5000, 2)])
def test_difference_sums(engine, rng, n_units, n_features, dtype):
    """Also of matrices that are not contiguous, with a compiled loop, and in several blocks."""
    X, C = (rng.normal(size=(n, n_features)).astype(dtype) for n in (41, n_units))
    M = rng.normal(size=(n_units, 41)).astype(dtype).T
    expected = np.einsum("ij,ijk->ik", M, np.abs(X[:, None].astype(float) - C))
    sums = engine.to_host(engine.difference_sums(*map(engine.to_device, (X, C, M))))
    assert sums.dtype == np.float64
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(sums, expected, rtol=tolerance, atol=tolerance * n_units**0.5)
