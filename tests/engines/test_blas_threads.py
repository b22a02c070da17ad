"""What is called of a BLAS has one thread, and what is large is cut the same way for any number."""

import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from allocated import peak
from sklearn_fsvc import PatchRegressor, RBFClassifier, TanhRegressor
from sklearn_fsvc._src.engines import algebra, blas, lapack, threads
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.engines.threads import at_most
from sklearn_fsvc._src.hidden_layers import patches, random_weights


def counts():
    """Of each BLAS of the process."""
    return {get() for get, _ in threads._libraries()}


@pytest.fixture
def allowed():
    """Three threads for each BLAS, whatever the machine and the tests beside this one."""
    with threadpool_limits(3, "blas"):
        if counts() != {3}:
            pytest.skip("a BLAS here cannot be told how many threads it takes")
        yield 3


@pytest.fixture
def calls(monkeypatch):
    """(threads of each BLAS, thread that calls) of all calls of LAPACK."""
    found, routine = [], lapack._routine

    def recorded(name):
        found.append((counts(), threading.get_ident()))
        return routine(name)

    monkeypatch.setattr(lapack, "_routine", recorded)
    return found


@pytest.fixture
def small_parts(monkeypatch):
    """Everything is worth more threads, in parts of a few numbers."""
    monkeypatch.setattr(algebra, "WORTH", {name: {4: 1, 8: 1} for name in algebra.WORTH})
    for name, value in {"EDGE": 16, "_LEAST_EDGE": 8, "_WHOLE": 16, "_ROWS": 4}.items():
        monkeypatch.setattr(algebra, name, value)


def test_threads_are_as_before_when_all_have_left(allowed):
    with at_most(2) as outer:
        assert (outer.allowed, counts()) == (3, {2})
        with at_most(1) as inner:
            assert (inner.allowed, counts()) == (3, {1})
        assert counts() == {2}
    assert counts() == {3}


def test_who_leaves_first_does_not_take_the_limit_away(allowed):
    first, second = at_most(1), at_most(1)
    first.__enter__(), second.__enter__()
    first.__exit__()
    assert counts() == {1}
    second.__exit__()
    assert counts() == {3}


def test_more_are_not_taken_than_were_allowed(allowed):
    with at_most(8) as kept:
        assert (kept.allowed, counts()) == (3, {3})


def test_the_limit_holds_whichever_thread_asks(allowed):
    """threadpoolctl lets the first thread alone set the number."""
    found = []

    def ask():
        with at_most(1):
            found.append(counts())

    with at_most(2):
        pass
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [{1}]
    assert counts() == {3}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes_and_factors_that_are_equal_are_told_apart(dtype):
    C = np.ones((1, 1), dtype, order="F")
    for factor, keep in ((1.0, 1.0), (2.0, 1.0)):
        HOST.gemm(C, 2 * np.ones((1, 1), dtype), 2 * np.ones((1, 1), dtype), factor, keep)
    assert C[0, 0] == 13


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_has_what_was_allowed():
    code = (
        "import os, sys\n"
        "from threadpoolctl import threadpool_limits\n"
        "from sklearn_fsvc._src.engines import threads\n"
        "threadpool_limits(3, 'blas')\n"
        "with threads.at_most(1):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        numbers = {get() for get, _ in threads._libraries()}\n"
        "        with threads.at_most(1):\n"
        "            pass\n"
        "        os._exit(numbers != {3})\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "estimator", [RBFClassifier(20), TanhRegressor(20), RBFClassifier(20, alpha=[1, 2])]
)
def test_each_call_has_one_thread(allowed, calls, small_parts, rng, estimator):
    X = rng.normal(size=(90, 3))
    estimator.set_params(random_state=0).fit(X, X[:, 0] > 0).predict(X)
    # Eigenvectors alone may have more.
    assert calls
    assert all(numbers == {1} for numbers, _ in calls)
    assert counts() == {3}


def test_products_of_numpy_have_one_thread(allowed, monkeypatch, rng):
    found, matmul = [], np.matmul

    def recorded(*args, **how):
        found.append(counts())
        return matmul(*args, **how)

    monkeypatch.setattr(blas.np, "matmul", recorded)
    monkeypatch.setattr(algebra, "_TINY", 1)  # what is tiny has one without being told
    X = rng.normal(size=(50, 3))
    TanhRegressor(20, alpha=1, device="blas").fit(X, X[:, 0]).predict(X)
    assert found
    assert all(numbers == {1} for numbers in found)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 2048, 11), (1, 3000, 21), (5, 1001, 3), (900, 2, 30)]
)
def test_few_rows_are_multiplied_in_parts_that_no_library_shares(monkeypatch, calls, rng, m, k, n):
    sizes, matmul = [], np.matmul

    def recorded(A, B):
        sizes.append(A.size * B.shape[1])
        return matmul(A, B)

    monkeypatch.setattr(algebra.np, "matmul", recorded)
    A, B = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    np.testing.assert_allclose(HOST.multiply(A, B), A @ B, rtol=1e-12, atol=1e-12)
    assert max(sizes, default=0) <= algebra._TINY
    assert bool(sizes) == (k > 2)  # else there are too few columns to cut
    assert bool(calls) == (k == 2)


@pytest.mark.parametrize(
    ("module", "name", "estimator"),
    [
        (random_weights.linalg, "qr", TanhRegressor(20, weights="orthogonal", alpha=1)),
        (patches, "eigh", PatchRegressor(9, image_shape=(6, 6), patch_size=3, alpha=1)),
        (np, "sign", RBFClassifier(20, alpha=1, device="blas")),
    ],
)
def test_what_scipy_and_numpy_do_has_one_thread(allowed, monkeypatch, rng, module, name, estimator):
    found, function = [], getattr(module, name)

    def recorded(*args, **how):
        found.append(counts())
        return function(*args, **how)

    monkeypatch.setattr(module, name, recorded)
    X = rng.normal(size=(60, 36))
    estimator.set_params(random_state=0).fit(X, X[:, 0] > 0)
    assert found
    assert all(numbers == {1} for numbers in found)


@pytest.mark.parametrize(("n", "blas_limit", "most"), [(1, 3, 1), (3, 1, 1), (2, 3, 2), (8, 3, 3)])
def test_no_more_threads_call_than_the_process_may_take(
    monkeypatch, calls, small_parts, rng, n, blas_limit, most
):
    """By a quota, a share or OMP_NUM_THREADS; or by what was set for the BLAS."""
    monkeypatch.setattr(algebra, "n_threads", lambda: n)
    H = rng.normal(size=(400, 200))
    with threadpool_limits(blas_limit, "blas"):
        for _ in range(5):
            HOST.multiply(H, H.T)
    callers = {thread for _, thread in calls}
    assert len(callers) <= most
    assert threading.get_ident() in callers


def results(dtype, shape):
    """What every routine makes of the same numbers."""
    rng = np.random.default_rng(0)
    H = rng.normal(size=shape).astype(dtype)
    order = shape[1]
    gram, lower = np.zeros((order, order), dtype, order="F"), np.empty((order, order), order="F")
    HOST.syrk(gram, H.T, keep=0.0, has_room=True)
    lower[:] = np.tril(gram) + order * np.eye(order)
    factor = lower.copy(order="F")
    assert HOST.factorise(factor)
    x = np.asfortranarray(np.eye(order))
    HOST.solve_lower(factor, x)
    HOST.solve_lower(factor, x, transposed=True)
    product = np.ones((order, order), dtype, order="F")
    HOST.gemm(product, H.T, H, 2.0, -1.0)
    HOST.syrk(gram, H.T, 2.0, -1.0)
    return H, np.tril(gram), lower, np.tril(factor), x, product, HOST.multiply(H, H[:9].T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(40, 7), (23, 50), (400, 41), (9, 129)])
def test_parts_make_the_whole(small_parts, dtype, shape):
    H, gram, lower, factor, x, product, other = results(dtype, shape)
    tolerance = {"rtol": 0, "atol": 1e-3 if dtype == np.float32 else 1e-11}
    exact = H.T.astype(float) @ H
    np.testing.assert_allclose(gram, np.tril(exact), **tolerance)
    np.testing.assert_allclose(product, 2 * exact - 1, **tolerance)
    np.testing.assert_allclose(other, H.astype(float) @ H[:9].T, **tolerance)
    matrix = lower + np.tril(lower, -1).T
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(matrix @ x, np.eye(shape[1]), atol=1e-9)


@pytest.mark.parametrize("shape", [(3000, 300), (700, 1100)])
def test_threads_change_no_bit(monkeypatch, allowed, shape):
    found = []
    for n in (1, 2, 3):
        monkeypatch.setattr(algebra, "n_threads", lambda n=n: n)
        found.append(results(np.float64, shape))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_memory_of_parts_is_given_back(rng):
    """Though a thread of the pool may not have looked at its task yet."""
    H = rng.normal(size=(3000, 300))
    C = np.zeros((300, 300), order="F")
    HOST.syrk(C, H.T, has_room=True)  # what it imports
    for _ in range(5):
        _, most = peak(lambda: HOST.syrk(C, H.T, has_room=True))
        assert most < HOST.syrk_bytes(300, H.dtype) + 2**16
        tracemalloc.start()
        HOST.syrk(C, H.T, has_room=True)
        assert tracemalloc.get_traced_memory()[0] < 2**16
        tracemalloc.stop()


def test_a_matrix_without_a_factor_is_found_out(small_parts):
    for bad in (3, 30, 49):
        A = np.eye(50, order="F")
        A[bad, bad] = -1
        assert not HOST.factorise(A)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("order", "CF")
def test_one_column_is_solved_for_as_several_are(rng, n, transposed, unit, order):
    L = np.tril(rng.normal(size=(9, 9))) + 4 * np.eye(9)
    L = np.array(L + np.triu(np.full((9, 9), np.nan), 1), order=order)
    whole = np.array(rng.normal(size=(9, 5)), order=order)
    B, exactly = whole[:, 1 : 1 + n], np.tril(L)
    if unit:
        np.fill_diagonal(exactly, 1)
    expected = np.linalg.solve(exactly.T if transposed else exactly, B)
    HOST.solve_lower(L, B, transposed, unit)
    np.testing.assert_allclose(whole[:, 1 : 1 + n], expected)


def test_a_matrix_is_added_below_the_diagonal(monkeypatch, rng):
    monkeypatch.setattr(algebra, "_ADDED", 40)
    C, A = (np.asfortranarray(rng.normal(size=(50, 30))) for _ in range(2))
    expected, before = np.tril(C + A), C.copy()
    HOST.add_lower(C, A.astype(np.float32))
    np.testing.assert_allclose(np.tril(C), expected, atol=1e-6)
    assert (C[:16, 16:] == before[:16, 16:]).all()  # above, it is not even looked at
