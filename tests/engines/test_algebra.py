"""Sums and products of each engine's algebra, of arrays in whatever order they lie."""

from itertools import product

import numpy as np
import pytest

SHAPES = (7, 4), (5, 1), (1, 6), (1, 1)


def whole(rng, shape, order):
    """A part of an array of that order, and the array: what lies beside it stays."""
    around = np.array(rng.normal(size=(shape[0] + 2, shape[1] + 3)), order=order)
    return around, (slice(1, 1 + shape[0]), slice(2, 2 + shape[1]))


@pytest.mark.parametrize("orders", list(product("CF", "CF")), ids="".join)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factor", [1, -1, 0.25])
def test_a_matrix_is_added_to_another(engine, rng, orders, shape, factor):
    (C, here), (A, there) = (whole(rng, shape, order) for order in orders)
    expected = C.copy()
    expected[here] += factor * A[there]
    C, A = (engine.xp.asarray(array) for array in (C, A))
    engine.algebra.add(C[here], A[there], factor)
    np.testing.assert_allclose(engine.to_host(C), expected, rtol=1e-12)


def test_a_line_is_added_to_another(engine, rng):
    h, sums = rng.normal(size=6), rng.normal(size=(6, 3))
    C, A = engine.xp.array(h), engine.xp.asarray(sums)
    engine.algebra.add(C, A[:, 1], -1)
    np.testing.assert_array_equal(engine.to_host(C), h - sums[:, 1])


def test_a_matrix_of_another_dtype_is_added(engine, rng):
    C, A = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)).astype(np.float32)
    there = engine.xp.array(C)
    engine.algebra.add(there, engine.xp.asarray(A), -2)
    np.testing.assert_allclose(engine.to_host(there), C - 2.0 * A, rtol=1e-12)


@pytest.mark.parametrize("orders", list(product("CF", "CF")), ids="".join)
@pytest.mark.parametrize("shape", SHAPES)
def test_inner_products(engine, rng, orders, shape):
    (A, here), (B, there) = (whole(rng, shape, order) for order in orders)
    found = engine.algebra.inner(engine.xp.asarray(A)[here], engine.xp.asarray(B)[there])
    assert found == pytest.approx((A[here] * B[there]).sum(), rel=1e-12)
    assert isinstance(found, float)


@pytest.mark.parametrize("n", [1, 3, 9])
@pytest.mark.parametrize("order", "CF")
def test_symmetric_products_read_the_lower_triangle(engine, rng, n, order):
    """Of the square that a panel begins with."""
    panel, B = rng.normal(size=(11, 8)), rng.normal(size=(8, n))
    A = panel[:8]
    expected = (np.tril(A) + np.tril(A, -1).T) @ B
    A[np.triu_indices(8, 1)] = np.nan
    there = engine.xp.asarray(np.asfortranarray(panel))
    found = engine.algebra.symmetric_product(there[:8], engine.xp.asarray(np.array(B, order=order)))
    np.testing.assert_allclose(engine.to_host(found), expected, rtol=1e-12)
    np.testing.assert_array_equal(engine.to_host(there)[:8], A)
