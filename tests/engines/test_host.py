"""What engines on the host share: slices for threads, the processor's name, and overflow."""

import threading

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_name
from scipy.sparse import csr_array

from conftest import open_engine
from sklearn_fsvc._src.engines.host import map_rows, read_processor_name
from sklearn_fsvc._src.layers import TanhLayer


@pytest.mark.parametrize(
    ("machine", "description", "name"),
    [
        ("aarch64", "", get_host_cpu_name()),
        ("AMD64", "Family 25", "Family 25"),
        ("s390x", "", "s390x"),
    ],
)
def test_the_name_of_a_processor_without_a_model_name(tmp_path, machine, description, name):
    """Profiles need one: settings of one Arm processor are not those of another."""
    assert read_processor_name(str(tmp_path / "cpuinfo"), machine, description) == name
    (tmp_path / "cpuinfo").write_text("CPU part : 0xd0c\n")
    assert read_processor_name(str(tmp_path / "cpuinfo"), machine, description) == name


def test_the_model_name_of_a_processor(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: Some CPU @ 2 GHz\n")
    assert read_processor_name(str(tmp_path / "cpuinfo"), "x86_64", "x86_64") == "Some CPU @ 2 GHz"


@pytest.mark.parametrize("n_rows", [1, 7, 64, 1000])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("max_parts", "most"), [(None, 12), (0, 3), (8, 6)])
def test_slices_cover_each_row_once(n_rows, n_threads, max_parts, most):
    parts = []
    map_rows(parts.append, n_rows, n_threads, multiple=8, max_parts=max_parts)
    parts.sort(key=lambda part: part.start)
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(n_rows))
    assert all(part.start % 8 == 0 for part in parts)
    assert len(parts) <= (most if n_threads > 1 else 1)


def test_all_threads_take_slices():
    together = threading.Barrier(3, timeout=10)
    map_rows(lambda part: together.wait(), 24, 3, multiple=8, max_parts=0)


def test_an_error_of_a_thread_is_raised():
    def fail(part):
        raise ValueError(part.start)

    with pytest.raises(ValueError, match=r"\d"):
        map_rows(fail, 100, 3)


def test_nested_calls_start_no_more_threads():
    """Inside a slice all threads are busy; afterwards they are used again."""
    threads, lengths = set(), []

    def outer(part):
        own = threading.get_ident()

        def inner(rows):
            threads.add(own == threading.get_ident())
            lengths.append(rows.stop - rows.start)

        map_rows(inner, 10, 3)

    map_rows(outer, 12, 3)
    assert threads == {True}
    assert set(lengths) == {10}
    together = threading.Barrier(3, timeout=10)
    map_rows(lambda part: together.wait(), 24, 3, multiple=8, max_parts=0)


# Exponents of two by which samples and weights are multiplied: their products overflow.
EXPONENTS = {np.float32: (66, 66), np.float64: (520, 520)}


@pytest.fixture(params=["jit", "blas", "mkl"])
def host_engine(request):
    with open_engine(request.param, request.config) as engine:
        yield engine


def normal(shape, dtype, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def hidden(engine, layer, X, is_sparse=False):
    if not is_sparse:
        return engine.hidden(engine.prepare(layer), X)
    evaluator = engine.sparse_evaluator()
    out = np.empty((len(X), layer.n_units), layer.hidden_dtype)
    return evaluator.hidden(evaluator.prepare(layer), csr_array(X), out)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_features", [3, 130])  # X is inspected, or the sums
@pytest.mark.parametrize("dtype", EXPONENTS)
def test_overflowing_sums_have_the_sign_of_the_exact_sum(dtype, n_features, is_sparse, host_engine):
    X, W = normal((200, n_features), dtype, 0), normal((100, n_features), dtype, 1)
    exact = X.astype(np.float64) @ W.T.astype(np.float64)
    of_rows, of_weights = EXPONENTS[dtype]
    huge = X.copy()
    huge[::3] = np.ldexp(X[::3], of_rows)
    layer = TanhLayer(np.ldexp(W, of_weights), np.zeros(100, dtype))
    expected = np.where(abs(exact) > 1e-6, np.sign(exact), np.nan)  # else rounding decides
    actual = hidden(host_engine, layer, huge, is_sparse)
    assert np.isfinite(actual).all()
    np.testing.assert_array_equal(actual[~np.isnan(expected)], expected[~np.isnan(expected)])


def test_a_product_overflows_although_the_sum_does_not(host_engine):
    """4e38 is infinite in float32, and 4e38 - 3e38 - 3e38 is not."""
    X = np.full((1, 3), 1e38, np.float32)
    W = np.array([[4, -3, -3], [-4, 3, 3], [4, -2, -2]], np.float32)
    layer = TanhLayer(W, np.array([0, 0, 0.5], np.float32))
    expected = [[-1, 1, np.tanh(0.5)]]
    np.testing.assert_allclose(hidden(host_engine, layer, X), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", EXPONENTS)
def test_a_bias_of_nan_stays_nan(dtype, host_engine):
    bias = np.zeros(100, dtype)
    bias[7] = np.nan
    layer = TanhLayer(normal((100, 3), dtype, 1), bias)
    X = np.ldexp(normal((5, 3), dtype, 0), np.finfo(dtype).maxexp - 3)
    actual = hidden(host_engine, layer, X)
    np.testing.assert_array_equal(np.isnan(actual), np.broadcast_to(np.isnan(bias), actual.shape))
