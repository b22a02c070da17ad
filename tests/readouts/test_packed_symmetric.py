"""Panels against the full matrices of NumPy, for widths that divide the order and others."""

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
def panels_of(width):
    before, packed_symmetric.WIDTH = packed_symmetric.WIDTH, width
    try:
        yield
    finally:
        packed_symmetric.WIDTH = before


def of_matrix(A, algebra):
    """PackedSymmetric with the lower triangle of A, and nonsense above the diagonal."""
    found = PackedSymmetric(len(A), algebra)
    nonsense = np.tril(A) + np.triu(np.full(A.shape, 7.0), 1)
    for first, block in found:
        block[:] = algebra.xp.asarray(nonsense[first:, first : first + block.shape[1]])
    return found


def positive(order, seed, rows=2):
    H = np.random.default_rng(seed).normal(size=(rows * order + 3, order))
    return H.T @ H


# An engine that was entered has nothing that one example could leave for the next.
# The first example on a GPU may compile, so no example has a deadline.
of_one_engine = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
orders, widths, seeds = st.integers(1, 40), st.integers(1, 41), st.integers(0, 99)


@of_one_engine
@given(orders, widths, widths, seeds, st.sampled_from([np.float32, np.float64]))
def test_sums_are_those_of_the_lower_triangle(engine, order, width, strip, seed, dtype):
    rng = np.random.default_rng(seed)
    H, v = rng.normal(size=(9, order)).astype(dtype), rng.normal(size=order)
    W = rng.normal(size=(3, order))
    A = positive(order, seed)
    expected = A + H.T.astype(float) @ H - 0.5 * np.outer(v, v) + 2 * np.eye(order)
    tolerance = 1e-3 if dtype == np.float32 else 1e-11
    with panels_of(width):
        found = of_matrix(A, engine.algebra)
        found.strip = strip
        found.add_gram(engine.to_device(H))
        found.add_outer(-0.5, engine.to_device(v))
        found.add_to_diagonal(2.0)
        twice = found.copy()
        twice.add(found)
        twice.add(of_matrix(A, engine.algebra), -1)
        part = found.leading(order // 2 + 1)
        product = found.multiply(engine.to_device(W).T)
    np.testing.assert_allclose(engine.to_host(product), expected @ W.T, rtol=0, atol=20 * tolerance)
    for panels_, matrix in ((found, expected), (twice, 2 * expected - A)):
        full = engine.to_host(panels_.full())
        np.testing.assert_allclose(full, np.tril(matrix), rtol=0, atol=tolerance)
        diagonal = engine.to_host(panels_.diagonal())
        np.testing.assert_allclose(diagonal, matrix.diagonal(), rtol=0, atol=tolerance)
    k = order // 2 + 1
    np.testing.assert_array_equal(
        engine.to_host(part.full()), engine.to_host(found.full())[:k, :k]
    )  # fmt: skip
    quadratic = float(found.quadratic(engine.to_device(W)))
    assert quadratic == pytest.approx(np.einsum("ij,jk,ik", W, expected, W), rel=1e-3)


@of_one_engine
@given(orders, widths, seeds, st.integers(1, 3))
def test_the_factor_solves(engine, order, width, seed, n_right):
    A = positive(order, seed) + np.eye(order)
    right = np.random.default_rng(seed).normal(size=(order, n_right))
    with panels_of(width):
        factor = of_matrix(A, engine.algebra)
        assert factor.factorise()
        there = engine.xp.array(right, order="F")
        solution = factor.solve_lower(factor.solve_lower(there), transposed=True)
        inverse = engine.to_host(factor.inverse_factor())
        L = engine.to_host(factor.full())
    np.testing.assert_allclose(L, np.linalg.cholesky(A), rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        engine.to_host(solution), np.linalg.solve(A, right), rtol=0, atol=1e-9
    )  # fmt: skip
    np.testing.assert_allclose(inverse @ L, np.eye(order), rtol=0, atol=1e-9)
    assert not np.triu(inverse, 1).any()
    with panels_of(width), engine.algebra.reduced_precision():
        coarse = factor.inverse_factor(np.float32)
    assert coarse.dtype == np.float32
    np.testing.assert_allclose(engine.to_host(coarse), inverse, rtol=0, atol=0.05)


class _PrefersInverse(HostAlgebra):
    """As on a GPU."""

    prefers_inverse = True


@pytest.mark.parametrize("order", [20, 23])
def test_many_panels_are_factorised_by_the_inverses_of_diagonal_blocks(order):
    A = positive(order, 0) + np.eye(order)
    with panels_of(4):  # five or more, which are cut into strips of four rows
        factor = of_matrix(A, _PrefersInverse())
        assert factor.factorise()
    np.testing.assert_allclose(factor.full(), np.linalg.cholesky(A), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("leading", [5, 17, 23])
def test_prepared_solves(rng, dtype, leading):
    """By the inverses of the diagonal blocks, of which the last one may be smaller."""
    A = positive(23, 0) + np.eye(23)
    right = np.asfortranarray(rng.normal(size=(leading, 3)).astype(dtype))
    with panels_of(5):
        factor = of_matrix(A, _PrefersInverse()).plus_outer(0.0, np.zeros(23), dtype)
        assert factor.factorise()
        factor = factor.leading(leading)
        expected = [factor.solve_lower(right.copy("F"), transposed) for transposed in (False, True)]
        factor.prepare_solves()
        if leading > 10:  # only the inverses are used
            for _, block in factor:
                block[: block.shape[1]] = np.nan
        found = [factor.solve_lower(right.copy("F"), transposed) for transposed in (False, True)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("width", [3, 5, 64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("strip", [2, 5, 64])
def test_float32_right_hand_sides_are_solved_strip_by_strip(engine, width, strip, transposed):
    A = positive(12, 0) + np.eye(12)
    right = np.random.default_rng(1).normal(size=(len(A), 3)).astype(np.float32)
    with panels_of(width):
        factor = of_matrix(A, engine.algebra)
        factor.cast_strip = strip
        assert factor.factorise()
        there = engine.xp.array(right, order="F")
        found = engine.to_host(factor.solve_lower(there, transposed))
    L = np.linalg.cholesky(A)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, np.linalg.solve(L.T if transposed else L, right), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("width", [3, 5, 64])
@pytest.mark.parametrize("at", [0, 4, 5, 11])
def test_a_matrix_that_is_not_positive_has_no_factor(engine, width, at):
    A = positive(12, 0)
    A[at, at] = -1
    with panels_of(width):
        assert not of_matrix(A, engine.algebra).factorise()


@pytest.mark.parametrize("width", [5, 64])
@pytest.mark.parametrize(("dtype", "least"), [(np.float64, 1e-7), (np.float32, 1e-3)])
def test_the_smallest_eigenvalue_is_found(engine, width, dtype, least):
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))
    values = np.r_[least, np.linspace(1, 10, 19)]
    with panels_of(width):
        factor = of_matrix(Q * values @ Q.T, engine.algebra)
        factor = factor.plus_outer(0.0, factor.algebra.xp.zeros(20), dtype)
        assert factor.factorise()
        assert factor.smallest_eigenvalue() == pytest.approx(least, rel=1e-2)


def test_half_of_a_square_is_stored():
    assert (
        PackedSymmetric.nbytes(20 * packed_symmetric.WIDTH)
        < 0.53 * 8 * (20 * packed_symmetric.WIDTH) ** 2
    )
    found = PackedSymmetric(5000, HOST)
    assert sum(block.nbytes for block in found.blocks) == PackedSymmetric.nbytes(5000)


def test_no_memory_for_a_product_adds_nothing(monkeypatch):
    """All that is allocated is there before the first panel is touched."""
    with panels_of(3):
        found = of_matrix(positive(10, 0), HOST)
        before = found.full()

        def fail(*args, **kwargs):
            raise MemoryError

        monkeypatch.setattr(np, "zeros", fail)
        with pytest.raises(MemoryError):
            found.add_gram(np.ones((4, 10), np.float32))
        monkeypatch.undo()
        np.testing.assert_array_equal(found.full(), before)


def test_other_threads_go_on():
    """The interpreter is free while a panel is factorised, multiplied and solved."""
    A = of_matrix(positive(1500, 0, rows=1), HOST)
    A.add_to_diagonal(1.0)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(1e-4)

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        start = time.perf_counter()
        for _ in range(3):
            A.copy().factorise()
            HOST.eigh(A.leading(300).full())
        end = time.perf_counter()
    finally:
        done.set()
        ticker.join()
    # With the interpreter held there is one between two calls.
    assert sum(start < t < end for t in ticks) > 50


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_and_is_finite(engine, dtype):
    algebra, tiny = engine.algebra, np.finfo(dtype).tiny
    A = engine.to_device(np.array([[0, 0], [-tiny, 0], [0, tiny], [np.nan, 0], [0, np.inf]], dtype))
    assert algebra.any(A, axis=1).tolist() == [False, True, True, True, True]
    assert [bool(algebra.any(row)) for row in A] == [False, True, True, True, True]
    assert [algebra.is_finite(row) for row in A] == [True, True, True, False, False]
