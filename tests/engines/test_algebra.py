"""The algebra of each engine, and on the host its parts and the threads of its BLAS calls."""

import threading
import tracemalloc
from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from peak_memory import peak
from sklearn_fsvc import PatchRegressor, RBFClassifier, TanhRegressor
from sklearn_fsvc._src.engines import lapack, threads
from sklearn_fsvc._src.engines.algebra import HOST, MIN_PARALLEL_WORK, Blocking, HostAlgebra
from sklearn_fsvc._src.hidden_layers import patches, proxy_networks, random_weights

# Every operation is cut into parts of a few elements.
SMALL_PARTS = Blocking(
    min_work={routine: {4: 1, 8: 1} for routine in MIN_PARALLEL_WORK},
    edge=16, min_edge=8, cholesky_order=16, sum_length=4,
)  # fmt: skip


def with_threads(n, blocking=HOST.blocking):
    """Return a host algebra of `n` threads."""
    members = {"n_threads": staticmethod(lambda: n), "blocking": blocking}
    return type("Algebra", (HostAlgebra,), members)()


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(HostAlgebra, "blocking", SMALL_PARTS)


@pytest.fixture
def calls(monkeypatch, blas_thread_counts):
    """(numbers of threads of all BLAS libraries, calling thread) for each call of LAPACK."""
    records, routine = [], lapack._routine

    def recorded(name):
        records.append((blas_thread_counts(), threading.get_ident()))
        return routine(name)

    monkeypatch.setattr(lapack, "_routine", recorded)
    return records


SHAPES = (7, 4), (5, 1), (1, 6), (1, 1)


def embedded(rng, shape, order):
    """Return an array in an order, and the index of a part of it with that shape."""
    around = np.array(rng.normal(size=(shape[0] + 2, shape[1] + 3)), order=order)
    return around, (slice(1, 1 + shape[0]), slice(2, 2 + shape[1]))


@pytest.mark.parametrize("orders", list(product("CF", "CF")), ids="".join)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factor", [1, -1, 0.25])
def test_a_matrix_is_added_to_another(engine, rng, orders, shape, factor):
    (C, of_C), (A, of_A) = (embedded(rng, shape, order) for order in orders)
    expected = C.copy()
    expected[of_C] += factor * A[of_A]
    C, A = (engine.xp.asarray(array) for array in (C, A))
    engine.algebra.add(C[of_C], A[of_A], factor)
    np.testing.assert_allclose(engine.to_host(C), expected, rtol=1e-12)


def test_a_column_is_added_to_a_vector(engine, rng):
    h, sums = rng.normal(size=6), rng.normal(size=(6, 3))
    C, A = engine.xp.array(h), engine.xp.asarray(sums)
    engine.algebra.add(C, A[:, 1], -1)
    np.testing.assert_array_equal(engine.to_host(C), h - sums[:, 1])


def test_a_matrix_of_another_dtype_is_added(engine, rng):
    C, A = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)).astype(np.float32)
    on_device = engine.xp.array(C)
    engine.algebra.add(on_device, engine.xp.asarray(A), -2)
    np.testing.assert_allclose(engine.to_host(on_device), C - 2.0 * A, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "k"), [(40, 24, 10), (33, 7, 1), (5, 16, 3)])
def test_products_in_half_precision(engine, rng, dtype, n, m, k):
    """Only the matrix is rounded, to the same numbers in both products."""
    algebra = engine.algebra
    A = (1000 * rng.normal(size=(n, m))).astype(dtype)
    columns = rng.normal(size=(m, k)) * 10.0 ** rng.integers(-3, 4, k)
    rows = rng.normal(size=(n, k))
    half, variance = algebra.half_precision(engine.to_device(A))
    B, C = (engine.to_device(np.array(each, half.dtype)) for each in (columns, rows))
    product, other = algebra.multiply(half, B), algebra.multiply_transposed(half, C)
    product, other = map(engine.to_host, (product, other))
    identity = engine.to_device(np.eye(m, dtype=half.dtype))
    rounded = engine.to_host(algebra.multiply(half, identity)).astype(float)
    assert np.abs(rounded - A).max() <= np.sqrt(12 * variance) / 2 + 1e-6 * np.abs(A).max()
    size = np.abs(rounded).max()
    np.testing.assert_allclose(product, rounded @ columns, atol=2e-6 * size * np.abs(columns).sum())
    np.testing.assert_allclose(other, rounded.T @ rows, atol=2e-6 * size * np.abs(rows).sum())


@pytest.mark.parametrize("orders", list(product("CF", "CF")), ids="".join)
@pytest.mark.parametrize("shape", SHAPES)
def test_inner_products(engine, rng, orders, shape):
    (A, of_A), (B, of_B) = (embedded(rng, shape, order) for order in orders)
    result = engine.algebra.inner(engine.xp.asarray(A)[of_A], engine.xp.asarray(B)[of_B])
    assert result == pytest.approx((A[of_A] * B[of_B]).sum(), rel=1e-12)
    assert isinstance(result, float)


@pytest.mark.parametrize("n", [1, 3, 9])
@pytest.mark.parametrize("order", "CF")
def test_symmetric_products_read_the_lower_triangle(engine, rng, n, order):
    """A is the leading square of a panel."""
    panel, B = rng.normal(size=(11, 8)), rng.normal(size=(8, n))
    A = panel[:8]
    expected = (np.tril(A) + np.tril(A, -1).T) @ B
    A[np.triu_indices(8, 1)] = np.nan
    on_device = engine.xp.asarray(np.asfortranarray(panel))
    result = engine.algebra.symm(on_device[:8], engine.xp.asarray(np.array(B, order=order)))
    np.testing.assert_allclose(engine.to_host(result), expected, rtol=1e-12)
    np.testing.assert_array_equal(engine.to_host(on_device)[:8], A)


# Parts and threads on the host.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cached_scalars_of_equal_value_have_different_types(dtype):
    """In `lapack`: the sizes 1 and the factor 1.0."""
    C = np.ones((1, 1), dtype, order="F")
    for factor, keep in ((1.0, 1.0), (2.0, 1.0)):
        HOST.gemm(C, 2 * np.ones((1, 1), dtype), 2 * np.ones((1, 1), dtype), factor, keep)
    assert C[0, 0] == 13


@pytest.mark.parametrize(
    "estimator", [RBFClassifier(20), TanhRegressor(20), RBFClassifier(20, alpha=[1, 2])]
)
def test_lapack_calls_have_one_thread(
    three_blas_threads, blas_thread_counts, calls, small_parts, rng, estimator, monkeypatch
):
    monkeypatch.setattr(proxy_networks, "_MAX_SPLITS", 1)
    X = rng.normal(size=(90, 3))
    estimator.set_params(random_state=0).fit(X, X[:, 0] > 0).predict(X)
    assert calls
    assert all(counts == {1} for counts, _ in calls)
    assert blas_thread_counts() == {3}


def test_products_of_numpy_have_one_thread(
    three_blas_threads, blas_thread_counts, monkeypatch, rng
):
    records, matmul = [], np.matmul

    def recorded(*args, **kwargs):
        records.append(blas_thread_counts())
        return matmul(*args, **kwargs)

    monkeypatch.setattr(np, "matmul", recorded)
    # Tiny products are not limited, as every BLAS computes them in one thread.
    monkeypatch.setattr(HostAlgebra, "blocking", Blocking(tiny_work=1))
    X = rng.normal(size=(50, 3))
    TanhRegressor(20, alpha=1, device="blas").fit(X, X[:, 0]).predict(X)
    assert records
    assert all(counts == {1} for counts in records)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 2048, 11), (1, 3000, 21), (5, 1001, 3), (900, 2, 30)]
)
def test_few_rows_are_multiplied_in_tiny_products(monkeypatch, calls, rng, m, k, n):
    sizes, matmul = [], np.matmul

    def recorded(A, B):
        sizes.append(A.size * B.shape[1])
        return matmul(A, B)

    monkeypatch.setattr(np, "matmul", recorded)
    A, B = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    np.testing.assert_allclose(HOST.multiply(A, B), A @ B, rtol=1e-12, atol=1e-12)
    assert max(sizes, default=0) <= HOST.blocking.tiny_work
    assert bool(sizes) == (k > 2)  # with two columns the parts would be too large
    assert bool(calls) == (k == 2)


@pytest.mark.parametrize(
    ("module", "name", "estimator"),
    [
        (random_weights.linalg, "qr", TanhRegressor(20, weights="orthogonal", alpha=1)),
        (patches, "eigh", PatchRegressor(9, image_shape=(6, 6), patch_size=3, alpha=1)),
        (np, "sign", RBFClassifier(20, alpha=1, device="blas")),
    ],
)
def test_functions_of_scipy_and_numpy_have_one_thread(
    three_blas_threads, blas_thread_counts, monkeypatch, rng, module, name, estimator
):
    records, function = [], getattr(module, name)

    def recorded(*args, **kwargs):
        records.append(blas_thread_counts())
        return function(*args, **kwargs)

    monkeypatch.setattr(module, name, recorded)
    X = rng.normal(size=(60, 36))
    estimator.set_params(random_state=0).fit(X, X[:, 0] > 0)
    assert records
    assert all(counts == {1} for counts in records)


@pytest.mark.parametrize(("n", "blas_limit", "most"), [(1, 3, 1), (3, 1, 1), (2, 3, 2), (8, 3, 3)])
def test_no_more_threads_call_blas_than_the_process_may_use(calls, rng, n, blas_limit, most):
    """Limited by a quota, a share or OMP_NUM_THREADS; or by the limit that is set for BLAS."""
    algebra = with_threads(n, blocking=SMALL_PARTS)
    threads._pool_of_process.cache_clear()  # any thread of a larger pool may run the next part
    H = rng.normal(size=(400, 200))
    with threadpool_limits(blas_limit, "blas"):
        for _ in range(5):
            algebra.multiply(H, H.T)
    callers = {thread for _, thread in calls}
    assert len(callers) <= most
    assert threading.get_ident() in callers


def test_eigenvectors_do_not_depend_on_the_threads_of_blas(rng):
    """syevr itself would use them, and round otherwise."""
    A = rng.normal(size=(600, 600))
    A = np.asfortranarray(A + A.T)
    decompositions = []
    for n in (1, 2):
        with threadpool_limits(n, "blas"):
            decompositions.append(HOST.eigh(A.copy(order="F")))
    for one, two in zip(*decompositions, strict=True):
        np.testing.assert_array_equal(one, two)


def results(algebra, dtype, shape):
    """Return the results of every routine for the same matrices."""
    rng = np.random.default_rng(0)
    H = rng.normal(size=shape).astype(dtype)
    order = shape[1]
    gram, lower = np.zeros((order, order), dtype, order="F"), np.empty((order, order), order="F")
    algebra.syrk(gram, H.T, beta=0.0, allow_workspace=True)
    lower[:] = np.tril(gram) + order * np.eye(order)
    factor = lower.copy(order="F")
    assert algebra.factorise(factor)
    x = np.asfortranarray(np.eye(order))
    algebra.solve_lower(factor, x)
    algebra.solve_lower(factor, x, transposed=True)
    product = np.ones((order, order), dtype, order="F")
    algebra.gemm(product, H.T, H, 2.0, -1.0)
    algebra.syrk(gram, H.T, 2.0, -1.0)
    return H, np.tril(gram), lower, np.tril(factor), x, product, algebra.multiply(H, H[:9].T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(40, 7), (23, 50), (400, 41), (9, 129)])
def test_results_of_parts_are_those_of_the_whole(dtype, shape):
    algebra = with_threads(2, blocking=SMALL_PARTS)
    H, gram, lower, factor, x, product, other = results(algebra, dtype, shape)
    tolerance = {"rtol": 0, "atol": 1e-3 if dtype == np.float32 else 1e-11}
    exact = H.T.astype(float) @ H
    np.testing.assert_allclose(gram, np.tril(exact), **tolerance)
    np.testing.assert_allclose(product, 2 * exact - 1, **tolerance)
    np.testing.assert_allclose(other, H.astype(float) @ H[:9].T, **tolerance)
    matrix = lower + np.tril(lower, -1).T
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(matrix @ x, np.eye(shape[1]), atol=1e-9)


@pytest.mark.parametrize("shape", [(3000, 300), (700, 1100)])
def test_the_number_of_threads_does_not_change_a_bit(three_blas_threads, shape):
    outputs = [results(with_threads(n), np.float64, shape) for n in (1, 2, 3)]
    for other in outputs[1:]:
        for a, b in zip(outputs[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_memory_of_parts_is_freed(rng):
    """Although a thread of the pool may still have a cancelled task."""
    H = rng.normal(size=(3000, 300))
    C = np.zeros((300, 300), order="F")
    HOST.syrk(C, H.T, allow_workspace=True)  # imports modules
    for _ in range(5):
        _, most = peak(lambda: HOST.syrk(C, H.T, allow_workspace=True))
        assert most < HOST.syrk_workspace_bytes(300, H.dtype) + 2**16
        tracemalloc.start()
        HOST.syrk(C, H.T, allow_workspace=True)
        assert tracemalloc.get_traced_memory()[0] < 2**16
        tracemalloc.stop()


def test_a_matrix_that_is_not_positive_definite_has_no_factor():
    algebra = with_threads(2, blocking=SMALL_PARTS)
    for bad in (3, 30, 49):
        A = np.eye(50, order="F")
        A[bad, bad] = -1
        assert not algebra.factorise(A)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("order", "CF")
def test_triangular_systems_of_one_column_and_of_several(rng, n, transposed, unit, order):
    L = np.tril(rng.normal(size=(9, 9))) + 4 * np.eye(9)
    L = np.array(L + np.triu(np.full((9, 9), np.nan), 1), order=order)
    whole = np.array(rng.normal(size=(9, 5)), order=order)
    B, exactly = whole[:, 1 : 1 + n], np.tril(L)
    if unit:
        np.fill_diagonal(exactly, 1)
    expected = np.linalg.solve(exactly.T if transposed else exactly, B)
    HOST.solve_lower(L, B, transposed, unit)
    np.testing.assert_allclose(whole[:, 1 : 1 + n], expected)


def test_a_matrix_is_added_below_the_diagonal(rng):
    C, A = (np.asfortranarray(rng.normal(size=(50, 30))) for _ in range(2))
    expected, before = np.tril(C + A), C.copy()
    with_threads(2, Blocking(added=40)).add_lower(C, A.astype(np.float32))
    np.testing.assert_allclose(np.tril(C), expected, atol=1e-6)
    assert (C[:16, 16:] == before[:16, 16:]).all()  # unchanged above it


@pytest.mark.parametrize("n", [1, 9, 129])
def test_the_inverse_of_a_triangle(rng, n):
    L = np.asfortranarray(rng.normal(size=(n, n)) + n * np.eye(n))  # garbage above the diagonal
    inverse = with_threads(2, Blocking(min_edge=8)).invert_lower(L)
    np.testing.assert_allclose(inverse @ np.tril(L), np.eye(n), atol=1e-12)
    assert (inverse == np.tril(inverse)).all()
