import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import naive
from conftest import usable
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.readout import LMS_BLOCK, RidgeStatistics, lms_update, untrained

JIT = get_engine("jit")


@pytest.fixture
def data(rng):
    H = rng.random((200, 15))
    Y = rng.normal(size=(200, 3))
    return H, Y, rng.random(200) * 2


@pytest.fixture(params=["jit", "cuda"])
def engine(request):
    """Of each namespace of arrays, one engine."""
    with usable(request.param, request.config) as engine:
        yield engine


def statistics(H, Y, weight=None, step=1000, engine=JIT):
    result = RidgeStatistics(H.shape[1], Y.shape[1], engine.xp)
    for i in range(0, len(H), step):
        part = slice(i, i + step)
        rows = engine.to_device(H[part].copy()), engine.to_device(Y[part])
        result.update(*rows, None if weight is None else weight[part])
    return result


def solved(statistics, alpha, engine):
    return [engine.to_host(a) for a in statistics.solve(alpha)]


def assert_same(a, b, tolerance=1e-10):
    for name in ("n", "h", "y", "hy"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=tolerance)
    np.testing.assert_allclose(np.tril(a.gram), np.tril(b.gram), rtol=0, atol=tolerance)


@pytest.mark.parametrize("alpha", [1e-6, 1.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_least_squares(engine, data, alpha, weighted):
    H, Y, weight = data
    weight = weight if weighted else None
    W, b = solved(statistics(H, Y, weight, step=37, engine=engine), alpha, engine)
    expected_W, expected_b = naive.ridge(H, Y, alpha, weight)
    np.testing.assert_allclose(W, expected_W, atol=1e-9)
    np.testing.assert_allclose(b, expected_b, atol=1e-9)


def test_float32_tiles_are_summed_in_float64(data):
    H, Y, _ = data
    tile = H.astype(np.float32)
    result = statistics(np.tile(tile, (50, 1)), np.tile(Y, (50, 1)), step=200)
    one = statistics(tile, Y)
    assert result.gram.dtype == np.float64
    np.testing.assert_allclose(np.tril(result.gram), 50 * np.tril(one.gram), rtol=1e-12)


def test_statistics_are_a_monoid(data):
    H, Y, weight = data
    whole = statistics(H, Y, weight)
    a, b = statistics(H[:80], Y[:80], weight[:80]), statistics(H[80:], Y[80:], weight[80:])
    assert_same(a + b, whole)
    assert_same(b + a, whole)
    assert_same(whole - b, a)
    assert_same(whole + RidgeStatistics(15, 3), whole)


def test_leading_units_are_a_smaller_network(data):
    H, Y, _ = data
    W, b = statistics(H, Y).leading(6).solve(1.0)
    expected_W, expected_b = statistics(H[:, :6], Y).solve(1.0)
    np.testing.assert_allclose(W, expected_W, atol=1e-12)
    np.testing.assert_allclose(b, expected_b, atol=1e-12)


def test_solving_leaves_the_statistics_alone(data):
    H, Y, _ = data
    s = statistics(H, Y)
    first = s.solve(1.0)
    assert_same(s, statistics(H, Y))
    np.testing.assert_array_equal(s.solve(1.0)[0], first[0])


def test_weights_are_repetitions(data, rng):
    H, Y, _ = data
    times = rng.integers(0, 4, len(H))
    repeated = statistics(np.repeat(H, times, axis=0), np.repeat(Y, times, axis=0))
    assert_same(statistics(H, Y, times.astype(float)), repeated, 1e-8)


def test_an_ill_conditioned_layer_warns_and_is_solved(engine, data):
    H, Y, _ = data
    H = np.hstack([H, H[:, :5]])  # five directions of no variance
    with pytest.warns(ConvergenceWarning, match=r"condition number .*5 of 20 directions.*alpha"):
        W, b = solved(statistics(H, Y, engine=engine), 0.0, engine)
    expected_W, expected_b = naive.ridge(H[:, :15], Y, 0.0)
    np.testing.assert_allclose(H @ W.T + b, H[:, :15] @ expected_W.T + expected_b, atol=1e-6)


def test_a_constant_layer_answers_the_mean(engine, data):
    _, Y, _ = data
    with pytest.warns(ConvergenceWarning, match="ill-conditioned"):
        W, b = solved(statistics(np.zeros((200, 4)), Y, engine=engine), 0.0, engine)
    np.testing.assert_array_equal(W, 0)
    np.testing.assert_allclose(b, Y.mean(axis=0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, LMS_BLOCK, LMS_BLOCK + 1, 3 * LMS_BLOCK + 7])
def test_lms_is_the_rule_row_by_row(engine, rng, n, weighted):
    H, Y = rng.random((n, 12)), rng.random((n, 4))
    weight = rng.random(n) if weighted else None
    W = rng.random((4, 12))
    expected = naive.lms(W, H, Y, 0.06, weight)
    there = [a if a is None else engine.to_device(a) for a in (W, H, Y, weight)]
    lms_update(*there[:3], 0.06, there[3], engine.xp)
    np.testing.assert_allclose(engine.to_host(there[0]), expected, rtol=0, atol=1e-12)


def test_lms_every_step(rng):
    """The rule after one row, two rows, three: not only where it ends."""
    H, Y = rng.random((20, 5)), rng.random((20, 2))
    for n in range(1, 21):
        W = np.zeros((2, 5))
        lms_update(W, H[:n], Y[:n], 0.1)
        np.testing.assert_allclose(W, naive.lms(np.zeros((2, 5)), H[:n], Y[:n], 0.1), atol=1e-14)


def test_untrained_sums_the_activities_of_each_class():
    W = untrained(np.array([0, 2, 2, 1]), 3)
    np.testing.assert_array_equal(W @ [1, 10, 100, 1000], [1, 1000, 110])
