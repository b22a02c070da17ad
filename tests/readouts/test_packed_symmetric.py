"""Packed matrices compared with full ones, for panel widths that divide the order and others."""

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sklearn_fsvc._src.engines.algebra import HOST, HostAlgebra
from sklearn_fsvc._src.readouts import packed_symmetric
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric


@contextmanager
def panel_width(width):
    before, packed_symmetric.WIDTH = packed_symmetric.WIDTH, width
    try:
        yield
    finally:
        packed_symmetric.WIDTH = before


def pack(A, algebra):
    """Return a PackedSymmetric with the lower triangle of A, and sevens above the diagonal."""
    actual = PackedSymmetric(len(A), algebra)
    values = np.tril(A) + np.triu(np.full(A.shape, 7.0), 1)
    for first, block in actual:
        block[:] = algebra.xp.asarray(values[first:, first : first + block.shape[1]])
    return actual


def positive_definite(order, seed, rows=2):
    H = np.random.default_rng(seed).normal(size=(rows * order + 3, order))
    return H.T @ H


# Examples may share an entered engine. The first one on a GPU may compile, hence no deadline.
engine_settings = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
orders, widths, seeds = st.integers(1, 40), st.integers(1, 41), st.integers(0, 99)


@engine_settings
@given(orders, widths, widths, seeds, st.sampled_from([np.float32, np.float64]))
def test_sums_are_those_of_the_lower_triangle(engine, order, width, strip, seed, dtype):
    rng = np.random.default_rng(seed)
    H, v = rng.normal(size=(9, order)).astype(dtype), rng.normal(size=order)
    W = rng.normal(size=(3, order))
    A = positive_definite(order, seed)
    expected = A + H.T.astype(float) @ H - 0.5 * np.outer(v, v) + 2 * np.eye(order)
    tolerance = 1e-3 if dtype == np.float32 else 1e-11
    with panel_width(width):
        actual = pack(A, engine.algebra)
        actual.strip = strip
        actual.add_gram(engine.to_device(H))
        actual.add_outer(-0.5, engine.to_device(v))
        actual.add_to_diagonal(2.0)
        twice = actual.copy()
        twice.add(actual)
        twice.add(pack(A, engine.algebra), -1)
        part = actual.leading(order // 2 + 1)
        product = actual.multiply(engine.to_device(W).T)
    np.testing.assert_allclose(engine.to_host(product), expected @ W.T, rtol=0, atol=20 * tolerance)
    for panels_, matrix in ((actual, expected), (twice, 2 * expected - A)):
        full = engine.to_host(panels_.full())
        np.testing.assert_allclose(full, np.tril(matrix), rtol=0, atol=tolerance)
        diagonal = engine.to_host(panels_.diagonal())
        np.testing.assert_allclose(diagonal, matrix.diagonal(), rtol=0, atol=tolerance)
    k = order // 2 + 1
    np.testing.assert_array_equal(
        engine.to_host(part.full()), engine.to_host(actual.full())[:k, :k]
    )
    quadratic = float(actual.quadratic(engine.to_device(W)))
    assert quadratic == pytest.approx(np.einsum("ij,jk,ik", W, expected, W), rel=1e-3)


@engine_settings
@given(orders, widths, seeds, st.integers(1, 3))
def test_the_factor_solves(engine, order, width, seed, n_right):
    A = positive_definite(order, seed) + np.eye(order)
    right = np.random.default_rng(seed).normal(size=(order, n_right))
    with panel_width(width):
        factor = pack(A, engine.algebra)
        assert factor.factorise()
        on_device = engine.xp.array(right, order="F")
        solution = factor.solve_lower(factor.solve_lower(on_device), transposed=True)
        inverse = engine.to_host(factor.inverse_factor())
        L = engine.to_host(factor.full())
    np.testing.assert_allclose(L, np.linalg.cholesky(A), rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        engine.to_host(solution), np.linalg.solve(A, right), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(inverse @ L, np.eye(order), rtol=0, atol=1e-9)
    assert not np.triu(inverse, 1).any()
    with panel_width(width), engine.algebra.reduced_precision():
        coarse = factor.inverse_factor(np.float32)
    assert coarse.dtype == np.float32
    np.testing.assert_allclose(engine.to_host(coarse), inverse, rtol=0, atol=0.05)


class _PrefersInverse(HostAlgebra):
    """Algebra that prefers inverse factors, as on a GPU."""

    prefers_inverse = True


@pytest.mark.parametrize("order", [20, 23])
def test_many_panels_are_factorised_by_the_inverses_of_diagonal_blocks(order):
    A = positive_definite(order, 0) + np.eye(order)
    with panel_width(4):  # at least five panels, in strips of four rows
        factor = pack(A, _PrefersInverse())
        assert factor.factorise()
    np.testing.assert_allclose(factor.full(), np.linalg.cholesky(A), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("leading", [5, 17, 23])
def test_prepared_solves(rng, dtype, leading):
    """They use the inverses of the diagonal blocks, of which the last one may be smaller."""
    A = positive_definite(23, 0) + np.eye(23)
    right = np.asfortranarray(rng.normal(size=(leading, 3)).astype(dtype))
    with panel_width(5):
        factor = pack(A, _PrefersInverse()).plus_outer(0.0, np.zeros(23), dtype)
        assert factor.factorise()
        factor = factor.leading(leading)
        expected = [factor.solve_lower(right.copy("F"), transposed) for transposed in (False, True)]
        factor.prepare_solves()
        if leading > 10:  # only the inverses are used
            for _, block in factor:
                block[: block.shape[1]] = np.nan
        actual = [factor.solve_lower(right.copy("F"), transposed) for transposed in (False, True)]
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=1e-4 if dtype == np.float32 else 1e-12
    )


@pytest.mark.parametrize("width", [3, 5, 64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("strip", [2, 5, 64])
def test_float32_right_hand_sides_are_solved_strip_by_strip(engine, width, strip, transposed):
    A = positive_definite(12, 0) + np.eye(12)
    right = np.random.default_rng(1).normal(size=(len(A), 3)).astype(np.float32)
    with panel_width(width):
        factor = pack(A, engine.algebra)
        factor.cast_strip = strip
        assert factor.factorise()
        on_device = engine.xp.array(right, order="F")
        actual = engine.to_host(factor.solve_lower(on_device, transposed))
    L = np.linalg.cholesky(A)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(
        actual, np.linalg.solve(L.T if transposed else L, right), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("width", [3, 5, 64])
@pytest.mark.parametrize("at", [0, 4, 5, 11])
def test_a_matrix_that_is_not_positive_has_no_factor(engine, width, at):
    A = positive_definite(12, 0)
    A[at, at] = -1
    with panel_width(width):
        assert not pack(A, engine.algebra).factorise()


@pytest.mark.parametrize("width", [5, 64])
@pytest.mark.parametrize(("dtype", "least"), [(np.float64, 1e-7), (np.float32, 1e-3)])
def test_the_smallest_eigenvalue_is_found(engine, width, dtype, least):
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))
    values = np.r_[least, np.linspace(1, 10, 19)]
    with panel_width(width):
        factor = pack(Q * values @ Q.T, engine.algebra)
        factor = factor.plus_outer(0.0, factor.algebra.xp.zeros(20), dtype)
        assert factor.factorise()
        assert factor.smallest_eigenvalue() == pytest.approx(least, rel=1e-2)


def test_about_half_of_the_matrix_is_stored():
    assert (
        PackedSymmetric.nbytes(20 * packed_symmetric.WIDTH)
        < 0.53 * 8 * (20 * packed_symmetric.WIDTH) ** 2
    )
    actual = PackedSymmetric(5000, HOST)
    assert sum(block.nbytes for block in actual.blocks) == PackedSymmetric.nbytes(5000)


def test_no_memory_for_a_product_adds_nothing(monkeypatch):
    """Memory is allocated before the first panel is changed."""
    with panel_width(3):
        actual = pack(positive_definite(10, 0), HOST)
        before = actual.full()

        def fail(*args, **kwargs):
            raise MemoryError

        monkeypatch.setattr(np, "zeros", fail)
        with pytest.raises(MemoryError):
            actual.add_gram(np.ones((4, 10), np.float32))
        monkeypatch.undo()
        np.testing.assert_array_equal(actual.full(), before)


def test_other_threads_run_during_a_factorisation():
    """The GIL is released while a panel is factorised, multiplied and solved."""
    A = pack(positive_definite(1500, 0, rows=1), HOST)
    A.add_to_diagonal(1.0)
    times, done = [], threading.Event()

    def record_times():
        while not done.is_set():
            times.append(time.perf_counter())
            time.sleep(1e-4)

    thread = threading.Thread(target=record_times)
    thread.start()
    try:
        start = time.perf_counter()
        for _ in range(3):
            A.copy().factorise()
            HOST.eigh(A.leading(300).full())
        end = time.perf_counter()
    finally:
        done.set()
        thread.join()
    # If the GIL were held, there would be at most one time between two calls.
    assert sum(start < t < end for t in times) > 50


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_and_is_finite(engine, dtype):
    algebra, tiny = engine.algebra, np.finfo(dtype).tiny
    A = engine.to_device(np.array([[0, 0], [-tiny, 0], [0, tiny], [np.nan, 0], [0, np.inf]], dtype))
    assert algebra.any(A, axis=1).tolist() == [False, True, True, True, True]
    assert [bool(algebra.any(row)) for row in A] == [False, True, True, True, True]
    assert [algebra.is_finite(row) for row in A] == [True, True, True, False, False]
