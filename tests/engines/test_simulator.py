"""The CUDA kernels on numba's simulator fulfil the contract of engines.

Run by itself: ``NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/engines/test_simulator.py``.
"""

import os

import numpy as np
import pytest

import contract
import naive
from benchmark import benchmark
from engines.test_integers import rounded
from patch_layers import GRIDS, WAYS, assert_is_formula, evaluated, made
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.hidden_layers.novelty import novel_rows
from sklearn_fsvc._src.hidden_layers.ordered_samples import NoveltyRule, OrderedSamples
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric
from sklearn_fsvc._src.tuning import example
from sklearn_fsvc.engines import get_engine

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    pytest.skip("needs NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)

import simulated  # imports the simulator, which the variable must have chosen before
from sklearn_fsvc._src.engines.cuda.integers import FixedPoint, add_gram, shift_of
from sklearn_fsvc._src.engines.kernels.cuda import selection

methods, kernel = benchmark("_paper_methods"), benchmark("_paper_kernel").kernel
pytestmark = pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaDeprecationWarning")
# The float64 kernels differ from those of float32 only in their types.
DOUBLE = pytest.param(np.float64, marks=pytest.mark.exhaustive)
DTYPES = [np.float32, DOUBLE, np.uint8]


@pytest.fixture(autouse=True, scope="module")
def one_core(worker_id):
    """Pin the process to one core: simulated threads alternate, and waking a core is slow."""
    if worker_id == "master" or not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[int(worker_id[2:]) % len(cores)]})
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture
def engine():
    return simulated.SimulatedCuda()


@pytest.fixture
def few_kernels(monkeypatch):
    """One RBF kernel with all steps; `test_values` has all of them."""
    monkeypatch.setattr(contract, "KERNELS", {"gaussian": contract.KERNELS["gaussian"]})
    monkeypatch.setattr(contract, "METRICS", ("manhattan", "euclidean"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5)])
def test_values(engine, shape, dtype):
    contract.check_values(engine, shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 70), (17, 20, 33)])
def test_values_of_several_tiles(engine, shape, dtype, few_kernels):
    contract.check_values(engine, shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps(engine, dtype, few_kernels):
    contract.check_steps(engine, (3, 4, 5), dtype)


def multiply_bytes(A, B, sums, accumulate):
    """Replace cuBLAS."""
    A, B = (words.view(np.int8).astype(np.int64) for words in (A, B))
    sums[:] = accumulate * sums + B @ A.T


@pytest.mark.parametrize("dtype", [np.float32, DOUBLE])
@pytest.mark.parametrize("shape", [(1, 1), (9, 37)], ids=str)
@pytest.mark.parametrize(
    "quantizer", [Quantizer(8, False), Quantizer(15, True), FixedPoint(0.125)], ids=str
)
def test_gram_matrices_of_quantised_activations(engine, quantizer, shape, dtype, monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.readouts.packed_symmetric.WIDTH", 32)
    sizes = engine.block_sizes._replace(square=8, lines=2)
    H, q = rounded(quantizer, *shape, dtype)
    gram = PackedSymmetric(shape[1], HOST)
    Y = np.eye(3, dtype=dtype)[np.arange(len(q)) % 3]
    for targets in (None, Y):
        sums = add_gram(list(gram), H, targets, quantizer, np, engine.launch, multiply_bytes, sizes)
    codes = q - shift_of(quantizer)
    np.testing.assert_array_equal(sums, codes.T @ Y / quantizer.scale)
    expected = np.tril(2 * (q.T @ q)) / quantizer.scale**2
    np.testing.assert_array_equal(np.tril(gram.full()), expected)


@pytest.mark.parametrize("way", WAYS[:3], ids=" ".join)  # each response, and both kinds of units
def test_patches(engine, way):
    layer, X = made(GRIDS[1], way, np.float32, m=3)
    assert_is_formula(evaluated(engine, layer, X[:2]), layer, X[:2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_distance(engine, dtype, few_kernels):
    contract.check_zero_distance(engine, dtype, shape=(2, 2, 20))


@pytest.mark.parametrize("dtype", [np.float32, DOUBLE])
def test_far_from_zero(engine, dtype):
    contract.check_far_from_zero(engine, dtype)


@pytest.mark.parametrize("dtype", [np.float32, DOUBLE])
def test_gradients(engine, dtype, few_kernels):
    contract.check_gradients(engine, (17, 20, 3), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_independent(engine, dtype, few_kernels):
    contract.check_rows_are_independent(engine, dtype, shape=(20, 19, 9), steps=(7,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_of_the_units(engine, dtype, few_kernels):
    contract.check_parts_of_the_units(engine, dtype, shape=(1, 37, 2), part=16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_activity(engine, dtype, few_kernels):
    contract.check_activity(engine, dtype, shape=(5, 20, 9))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles(dtype, few_kernels):
    contract.check_settings(simulated.TunesTilesOnly(), dtype, shape=(17, 3, 9))


@pytest.mark.parametrize("n_units", [3, 8])  # scalar and vector code
def test_nan_is_propagated(engine, n_units):
    """So that it is detected in H: CUDA's maximum of NaN and a number is the number."""
    bias = np.zeros(n_units, np.float32)
    bias[1] = np.nan
    layer, X = TanhLayer(np.ones((n_units, 2), np.float32), bias), np.ones((2, 2), np.float32)
    with engine:
        H = engine.to_host(engine.hidden(engine.prepare(layer), engine.to_device(X)))
    np.testing.assert_array_equal(np.isnan(H), np.isnan(bias)[None].repeat(2, axis=0))


def test_large_uint8_distances_are_exact(engine):
    """Sums of more than 16 bits."""
    X = np.zeros((3, 260), np.uint8)
    X[1] = 255
    X[2, :7] = 1
    H = engine.hidden(engine.prepare(RBFLayer(X, kernel="distance")), X)
    np.testing.assert_array_equal(H[0], [0, 255 * 260, 7])


def test_novelty_selection_equals_that_of_the_host(engine, rng):
    X = rng.random((35, 3))
    rule = NoveltyRule("manhattan", "triangular", 0.5, 1.7)
    actual, _ = novel_rows(OrderedSamples(engine, X, np.arange(35)), rule)
    expected, _ = novel_rows(OrderedSamples(get_engine("jit"), X, np.arange(35)), rule)
    np.testing.assert_array_equal(actual, expected)
    assert 10 < len(actual) < 35


@pytest.mark.parametrize("sizes", [[1], [7, 1, 20], [9, 8, 8, 1]])
def test_novelty_selection_of_groups(engine, rng, sizes):
    layers = [RBFLayer(rng.random((n, 3)), 0.4, kernel="triangular") for n in sizes]
    actual = engine.select_novel_by_group(layers, 0.9)
    for layer, kept in zip(layers, actual, strict=True):
        expected = naive.novel_rows(layer.units, 0.4, 0.9)
        np.testing.assert_array_equal(kept, expected)
    assert len(actual) == len(sizes)
    assert sum(map(len, actual)) < sum(sizes) or sizes == [1]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_hashes_of_rows(rng):
    X, factors = rng.standard_normal((9, 33)), rng.integers(0, 2**63, 33, np.uint64)
    X[3, 32] = -0.0
    sums = np.zeros(9, np.uint64)
    block = selection.LANES, selection.LINES
    selection.sum_row_bits().definition[2, block](X.view(np.uint64), factors, sums)
    np.testing.assert_array_equal(sums, HOST.hash_rows(X, factors))


def test_a_gpu_is_available_if_a_kernel_is_right(engine):
    assert engine.check_kernel() is None
    engine.to_host = np.zeros_like
    assert engine.check_kernel() == "a kernel gives wrong results on GPU 0"


@pytest.mark.parametrize("kind", ["manhattan triangular uint8", "tanh float64"])
def test_the_kernel_of_the_paper(kind):
    X, layer = example(kind, 9, 7, 5)
    *arrays, parameter = methods._by_features(kind, 9, 7, 5)
    H = np.full((9, 7), np.nan)
    paper_kernel = kernel(kind.split()[0], "int" in kind)
    paper_kernel.definition[(3, 2), (4, 4)](*arrays, H, parameter)
    np.testing.assert_allclose(H, naive.hidden(layer, X), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, DOUBLE])
def test_sparse_rows(engine, dtype):
    contract.check_sparse_rows(engine, dtype, [(7, 5, 33)])
