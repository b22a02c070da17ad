"""Products of rows and weights that are no numbers: tanh still has the sign of their sum."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from conftest import usable
from sklearn_fsvc._src.layers import TanhLayer

# Powers of two by which rows and weights are multiplied: their products are no numbers.
EXPONENTS = {np.float32: (66, 66), np.float64: (520, 520)}


@pytest.fixture(params=["jit", "blas", "mkl"])
def host_engine(request):
    with usable(request.param, request.config) as engine:
        yield engine


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def hidden(engine, layer, X, is_sparse=False):
    if not is_sparse:
        return engine.hidden(engine.prepare(layer), X)
    place = engine.sparse_evaluator()
    out = np.empty((len(X), layer.n_units), layer.hidden_dtype)
    return place.hidden(place.prepare(layer), csr_array(X), out)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_features", [3, 130])  # the rows are looked at, or the sums
@pytest.mark.parametrize("dtype", EXPONENTS)
def test_the_sign_is_that_of_the_whole_sum(dtype, n_features, is_sparse, host_engine):
    X, W = numbers((200, n_features), dtype, 0), numbers((100, n_features), dtype, 1)
    exact = X.astype(np.float64) @ W.T.astype(np.float64)
    of_rows, of_weights = EXPONENTS[dtype]
    huge = X.copy()
    huge[::3] = np.ldexp(X[::3], of_rows)
    layer = TanhLayer(np.ldexp(W, of_weights), np.zeros(100, dtype))
    expected = np.where(abs(exact) > 1e-6, np.sign(exact), np.nan)  # else rounding decides
    found = hidden(host_engine, layer, huge, is_sparse)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[~np.isnan(expected)], expected[~np.isnan(expected)])


def test_one_product_is_too_large_and_the_sum_is_not(host_engine):
    """4e38 is no number of float32, and 4e38 - 3e38 - 3e38 is."""
    X = np.full((1, 3), 1e38, np.float32)
    W = np.array([[4, -3, -3], [-4, 3, 3], [4, -2, -2]], np.float32)
    layer = TanhLayer(W, np.array([0, 0, 0.5], np.float32))
    expected = [[-1, 1, np.tanh(0.5)]]
    np.testing.assert_allclose(hidden(host_engine, layer, X), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", EXPONENTS)
def test_a_bias_that_is_no_number_is_seen(dtype, host_engine):
    bias = np.zeros(100, dtype)
    bias[7] = np.nan
    layer = TanhLayer(numbers((100, 3), dtype, 1), bias)
    X = np.ldexp(numbers((5, 3), dtype, 0), np.finfo(dtype).maxexp - 3)
    found = hidden(host_engine, layer, X)
    np.testing.assert_array_equal(np.isnan(found), np.broadcast_to(np.isnan(bias), found.shape))
