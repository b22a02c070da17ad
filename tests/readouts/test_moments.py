"""Sums of rounded activations do not depend on the order or the batches of samples, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.readouts.statistics import RidgeStatistics

N, M = 300, 70
CASES = [Quantizer(bits, is_signed) for bits in (8, 15) for is_signed in (False, True)]


def rows(quantizer, dtype=np.float32):
    rng = np.random.default_rng(0)
    lowest = -quantizer.max_code if quantizer.is_signed else 0
    H = rng.integers(lowest, quantizer.max_code, (N, M), endpoint=True) / quantizer.scale
    Y = np.eye(3)[rng.integers(0, 3, N)]
    return H.astype(dtype), Y


def sums(H, Y, quantizer, parts, weight=None):
    actual = RidgeStatistics.zeros(M, 3, quantizer=quantizer)
    for part in parts:
        w = None if weight is None else weight[part]
        actual.update(H[part].copy(), Y[part], w)
    return actual


def assert_same_bits(a, b):
    for name in ("n", "h", "y", "yy", "hy", "shift"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_array_equal(np.tril(a.gram.full()), np.tril(b.gram.full()))


@settings(max_examples=60, deadline=None)
@given(
    quantizer=st.sampled_from(CASES), dtype=st.sampled_from([np.float32, np.float64]),
    cuts=st.lists(st.integers(1, N - 1), max_size=5, unique=True), seed=st.integers(0, 99),
    in_tree=st.booleans(),
)  # fmt: skip
def test_order_and_batches_change_no_bit(quantizer, dtype, cuts, seed, in_tree):
    H, Y = rows(quantizer, dtype)
    order = np.random.default_rng(seed).permutation(N)
    parts = np.split(order, sorted(cuts))
    whole = sums(*rows(quantizer), quantizer, [slice(None)])
    if in_tree:  # as with several devices or workers
        actual = RidgeStatistics.zeros(M, 3, quantizer=quantizer)
        for part in parts:
            actual = actual + sums(H, Y, quantizer, [part])
    else:
        actual = sums(H, Y, quantizer, parts)
    assert_same_bits(actual, whole)
    without = actual - sums(H, Y, quantizer, parts[:1])
    assert_same_bits(without, sums(H, Y, quantizer, [np.concatenate([*parts[1:], order[:0]])]))


@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("quantizer", CASES, ids=str)
def test_sums_by_class_are_exact_beyond_the_integers_of_float32(quantizer, dtype, is_binary):
    q = quantizer.max_code - np.random.default_rng(0).integers(0, 3, (9001, 4))
    Y = np.eye(2)[np.arange(9001) % 2]
    actual = RidgeStatistics.zeros(4, 2, quantizer=quantizer)
    actual.is_binary = is_binary
    actual.update((q / quantizer.scale).astype(dtype), Y)
    np.testing.assert_array_equal(actual.hy, q.T @ Y / quantizer.scale)
    np.testing.assert_array_equal(actual.h, q.sum(axis=0) / quantizer.scale)


@pytest.mark.parametrize("quantizer", CASES, ids=str)
def test_removing_all_samples_leaves_zeros(quantizer):
    H, Y = rows(quantizer)
    remainder = sums(H, Y, quantizer, [slice(0, 100), slice(100, N)]) - sums(
        H, Y, quantizer, [slice(None)]
    )
    for name in ("n", "h", "y", "yy", "hy"):
        assert not np.any(getattr(remainder, name)), name
    assert not np.tril(remainder.gram.full()).any()


@pytest.mark.parametrize("quantizer", CASES, ids=str)
def test_the_solution_is_that_of_float64(quantizer):
    H, Y = rows(quantizer)
    actual = sums(H, Y, quantizer, [slice(None)]).solve(0.5)
    exact = RidgeStatistics.zeros(M, 3).update(H.astype(np.float64), Y).solve(0.5)
    np.testing.assert_allclose(actual.W, exact.W, rtol=0, atol=1e-12)
    np.testing.assert_allclose(actual.b, exact.b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("quantizer", CASES[:2], ids=str)
def test_weighted_samples_are_added_in_float64(quantizer):
    H, Y = rows(quantizer)
    weight = np.random.default_rng(1).random(N)
    actual = sums(H, Y, quantizer, [slice(0, 99), slice(99, N)], weight)
    H = H.astype(np.float64)
    expected = np.tril((H * weight[:, None]).T @ H)
    np.testing.assert_allclose(np.tril(actual.gram.full()), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(actual.hy, (H * weight[:, None]).T @ Y, rtol=1e-13, atol=1e-13)
