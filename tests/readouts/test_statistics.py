"""Ridge solutions from statistics equal least squares on the whole H."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import naive
from readouts.brute_force import translated
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.readouts import packed_symmetric
from sklearn_fsvc._src.readouts.linear import warn_of_problem
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric
from sklearn_fsvc._src.readouts.statistics import RidgeStatistics
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")


@pytest.fixture(autouse=True, params=[2048, 4], ids="panels of {}".format)
def width(request, monkeypatch):
    """Run each test with one panel and with several."""
    monkeypatch.setattr(packed_symmetric, "WIDTH", request.param)


@pytest.fixture
def data(rng):
    H = rng.random((200, 15))
    Y = rng.normal(size=(200, 3))
    return H, Y, rng.random(200) * 2


def statistics(H, Y, weight=None, step=1000, engine=JIT, dtype=None):
    result = RidgeStatistics.zeros(H.shape[1], Y.shape[1], engine.algebra, dtype)
    for i in range(0, len(H), step):
        part = slice(i, i + step)
        rows = engine.to_device(H[part].copy()), engine.to_device(Y[part])
        result.update(*rows, None if weight is None else weight[part])
    return result


def solve_on_host(statistics, alpha, engine):
    W, b, problem = statistics.solve(alpha)
    warn_of_problem(problem)
    return engine.to_host(W), engine.to_host(b)


def assert_same(a, b, tolerance=1e-10):
    b = translated(b, a.shift)
    for name in ("n", "h", "y", "yy", "hy"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=tolerance)
    np.testing.assert_allclose(a.gram.full(), b.gram.full(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("alpha", [1e-6, 1.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_least_squares(engine, data, alpha, weighted):
    H, Y, weight = data
    weight = weight if weighted else None
    W, b = solve_on_host(statistics(H, Y, weight, step=37, engine=engine), alpha, engine)
    expected_W, expected_b = naive.ridge(H, Y, alpha, weight)
    np.testing.assert_allclose(W, expected_W, atol=1e-9)
    np.testing.assert_allclose(b, expected_b, atol=1e-9)


def test_float32_tiles_are_summed_in_float64(data):
    H, Y, _ = data
    tile = H.astype(np.float32)
    result = statistics(np.tile(tile, (50, 1)), np.tile(Y, (50, 1)), step=200)
    single = statistics(tile, Y)
    assert result.gram.full().dtype == np.float64
    np.testing.assert_allclose(result.gram.full(), 50 * single.gram.full(), rtol=1e-12)


def test_statistics_are_a_commutative_group(data):
    H, Y, weight = data
    whole = statistics(H, Y, weight)
    a, b = statistics(H[:80], Y[:80], weight[:80]), statistics(H[80:], Y[80:], weight[80:])
    assert_same(a + b, whole)
    assert_same(b + a, whole)
    assert_same(whole - b, a)
    assert_same(whole + RidgeStatistics.zeros(15, 3), whole)


def test_the_mean_does_not_depend_on_the_shift(data, rng):
    H, Y, weight = data
    s = statistics(H, Y, weight)
    expected = np.average(H, axis=0, weights=weight)
    a, b = statistics(H[:80], Y[:80], weight[:80]), statistics(H[80:], Y[80:], weight[80:])
    shifted = translated(s, rng.random(15))
    zeros = RidgeStatistics.zeros(15, 3)
    for equal in (s, shifted, a + b, b + a, s + zeros, zeros + s):
        np.testing.assert_allclose(equal.mean, expected, rtol=1e-12)
    np.testing.assert_allclose((s - b).mean, a.mean, rtol=1e-12)
    np.testing.assert_allclose(s.leading(6).mean, expected[:6], rtol=1e-12)


def test_adding_zeros_keeps_the_shift(data):
    H, Y, _ = data
    s, zeros = statistics(H, Y), RidgeStatistics.zeros(15, 3)
    for equal in (s + zeros, zeros + s, s - zeros):
        np.testing.assert_array_equal(equal.shift, s.shift)
        np.testing.assert_array_equal(equal.gram.full(), s.gram.full())


def test_sums_have_the_coarsest_rounding(data):
    H, Y, _ = data
    fine, coarse = statistics(H, Y), statistics(H.astype(np.float32), Y)
    assert fine.rounding < coarse.rounding == np.finfo(np.float32).eps
    for s in (fine + coarse, coarse + fine, coarse - fine, coarse.leading(4)):
        assert s.rounding == coarse.rounding
    assert coarse.update(H.copy(), Y).rounding == np.finfo(np.float32).eps


def test_almost_constant_units_are_accurate_in_float32(engine, rng):
    """Their mean square is much larger than their variance, which would be lost by rounding."""
    H = 0.7 + 0.01 * rng.normal(size=(50_000, 8))
    H[:, 4:] = 0.7
    H[:3, 4:] = rng.random((3, 4))  # constant except for three samples
    H, Y = H.astype(np.float32), rng.normal(size=(50_000, 2))
    s = statistics(H, Y, step=8000, engine=engine)
    variance = np.cov(H.astype(float), rowvar=False, ddof=0)
    actual = engine.to_host(s._normal_matrix(0.0, np.float64, False).full()) / len(H)
    scale = np.sqrt(np.outer(variance.diagonal(), variance.diagonal()))
    np.testing.assert_allclose(actual / scale, np.tril(variance / scale), rtol=0, atol=1e-3)


def test_leading_statistics_are_those_of_a_smaller_network(data):
    H, Y, _ = data
    W, b, _ = statistics(H, Y).leading(6).solve(1.0)
    expected_W, expected_b, _ = statistics(H[:, :6], Y).solve(1.0)
    np.testing.assert_allclose(W, expected_W, atol=1e-12)
    np.testing.assert_allclose(b, expected_b, atol=1e-12)


def test_solving_does_not_change_the_statistics(data):
    H, Y, _ = data
    s = statistics(H, Y)
    first = s.solve(1.0)
    assert_same(s, statistics(H, Y))
    np.testing.assert_array_equal(s.solve(1.0)[0], first[0])


def test_weights_are_equivalent_to_repetitions(data, rng):
    H, Y, _ = data
    times = rng.integers(0, 4, len(H))
    repeated = statistics(np.repeat(H, times, axis=0), np.repeat(Y, times, axis=0))
    assert_same(statistics(H, Y, times.astype(float)), repeated, 1e-8)


def test_an_ill_conditioned_layer_warns_and_is_solved(engine, data):
    H, Y, _ = data
    H = np.hstack([H, H[:, :5]])  # five directions without variance
    with pytest.warns(ConvergenceWarning, match=r"condition number .*5 of 20 directions.*alpha"):
        W, b = solve_on_host(statistics(H, Y, engine=engine), 0.0, engine)
    expected_W, expected_b = naive.ridge(H[:, :15], Y, 0.0)
    np.testing.assert_allclose(H @ W.T + b, H[:, :15] @ expected_W.T + expected_b, atol=1e-6)


def test_a_constant_layer_predicts_the_mean(engine, data):
    _, Y, _ = data
    with pytest.warns(ConvergenceWarning, match="ill-conditioned"):
        W, b = solve_on_host(statistics(np.zeros((200, 4)), Y, engine=engine), 0.0, engine)
    np.testing.assert_array_equal(W, 0)
    np.testing.assert_allclose(b, Y.mean(axis=0))


SIZES = [[15], [1], [4, 9, 12], list(range(1, 16))]


@pytest.mark.parametrize("sizes", SIZES, ids=len)
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 1.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_solutions_of_all_sizes_equal_those_of_each_size(engine, data, alpha, weighted, sizes):
    H, Y, weight = data
    weight = weight if weighted else None
    whole = statistics(H, Y, weight, engine=engine)
    solutions = whole.solve_leading(alpha, sizes)
    assert [len(W[0]) for W, _, _ in solutions] == sizes
    for size, (W, b, problem) in zip(sizes, solutions, strict=True):
        W, b = engine.to_host(W), engine.to_host(b)
        alone_W, alone_b = solve_on_host(whole.leading(size), alpha, engine)
        assert problem == ""
        np.testing.assert_allclose(W, alone_W, atol=1e-11)
        np.testing.assert_allclose(b, alone_b, atol=1e-11)


def test_solving_all_sizes_does_not_change_the_statistics(data):
    H, Y, _ = data
    s = statistics(H, Y)
    first = s.solve_leading(1.0, [3, 15])
    assert_same(s, statistics(H, Y))
    for a, b in zip(s.solve_leading(1.0, [3, 15]), first, strict=True):
        np.testing.assert_array_equal(a.W, b.W)


def test_problems_are_reported_for_ill_conditioned_sizes(engine, data):
    """Unit 11 is a copy of unit 4, so that sizes up to 11 are well-conditioned."""
    H, Y, _ = data
    H = np.insert(H, 11, H[:, 4], axis=1)
    s, sizes = statistics(H, Y, engine=engine), [3, 10, 11, 12, 16]
    solutions = s.solve_leading(0.0, sizes)
    assert [bool(problem) for _, _, problem in solutions] == [False] * 3 + [True] * 2
    assert "1 of 12 directions" in solutions[3].problem
    assert "1 of 16 directions" in solutions[4].problem
    for size, (W, b, _) in zip(sizes, solutions, strict=True):
        W, b = engine.to_host(W), engine.to_host(b)
        expected_W, expected_b = naive.ridge(H[:, :size], Y, 0.0)
        scores = H[:, :size] @ expected_W.T + expected_b
        np.testing.assert_allclose(H[:, :size] @ W.T + b, scores, atol=1e-6)
        # As lstsq, the solution of minimum norm.
        np.testing.assert_allclose(W, expected_W, atol=1e-6)
    assert not any(problem for _, _, problem in s.solve_leading(1e-3, sizes))
    assert not any(problem for _, _, problem in s.solve_leading(0.0, sizes[:3]))


def diagonalise_on_host(s, alphas, engine):
    """Return the vectors, scale and problem for each penalty, on the host."""
    return [
        (engine.to_host(actual.vectors), engine.to_host(actual.scale[:, k]), problem)
        for actual in s.diagonalise(alphas)
        for k, problem in enumerate(actual.problems)
    ]


@pytest.mark.parametrize("alphas", [[1e-3], [1.0, 2.0], [1e-3, 1.0, 100.0], [1e-3, 1.0, 2.0, 3.0]])
@pytest.mark.parametrize("weighted", [False, True])
def test_diagonal_bases_invert_the_normal_matrix(engine, data, alphas, weighted):
    H, Y, weight = data
    weight = weight if weighted else np.ones(len(H))
    actual = diagonalise_on_host(statistics(H, Y, weight, engine=engine), alphas, engine)
    centred = H - np.average(H, axis=0, weights=weight)
    A = (centred * weight[:, None]).T @ centred
    for alpha, (basis, scale, problem) in zip(alphas, actual, strict=True):
        inverse = np.linalg.inv(A + alpha * np.eye(15))
        np.testing.assert_allclose(basis * scale @ basis.T, inverse, rtol=0, atol=1e-11)
        assert not problem
        assert np.array_equal(basis, np.triu(basis)) == (len(alphas) < 4)


def test_diagonalise_reports_too_small_penalties(engine, data):
    H, Y, _ = data
    H = np.hstack([H, H[:, :5]])
    s = statistics(H, Y, engine=engine)
    for alphas in ([0.0], [0.0, 1.0], [1.0, 0.0]):
        actual = diagonalise_on_host(s, alphas, engine)
        assert [bool(problem) for _, _, problem in actual] == [alpha == 0 for alpha in alphas]
        basis, scale, problem = actual[alphas.index(0.0)]
        assert "5 of 20 directions" in problem
        inverse = np.linalg.pinv(np.cov(H.T, ddof=0) * len(H), rcond=1e-10, hermitian=True)
        np.testing.assert_allclose(basis * scale @ basis.T, inverse, rtol=0, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_memory_error_leaves_the_statistics_unchanged(engine, data, weighted, monkeypatch):
    H, Y, weight = data
    weight = weight if weighted else None
    s = statistics(H, Y, weight, engine=engine)

    def fail(panels, H, quantizer):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(PackedSymmetric, "add_gram", fail)
        with pytest.raises(MemoryError):
            s.update(engine.to_device(H.copy()), engine.to_device(Y), weight)
    once = statistics(H, Y, weight, engine=engine)
    for name in ("n", "rounding"):
        assert getattr(s, name) == getattr(once, name)
    for name in ("h", "y", "hy"):
        pair = engine.to_host(getattr(s, name)), engine.to_host(getattr(once, name))
        np.testing.assert_array_equal(*pair)
    np.testing.assert_array_equal(*(engine.to_host(each.gram.full()) for each in (s, once)))


@pytest.fixture(scope="module")
def narrow():
    """Return H in float32, whose smallest variance is 1e-7 of the largest, targets and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    H = np.tanh(X @ rng.normal(size=(6, 200)) / 3 + rng.uniform(-1, 1, 200))
    return H.astype(np.float32), np.eye(4)[rng.integers(0, 4, 400)], rng.random(400) + 0.1


@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_in_float64_are_exact_for_float32(engine, narrow, weighted):
    """Means, too: their rounding errors would affect the directions of small variance."""
    H, Y, weight = narrow
    weight = weight if weighted else None
    s = statistics(H, Y, weight, step=250, engine=engine, dtype=float)
    s = translated(s, engine.xp.zeros(200))
    H, w = H.astype(float), np.ones(len(H)) if weight is None else weight
    for actual, exact in (
        (s.h, w @ H),
        (s.y, w @ Y),
        (s.hy, H.T @ (w[:, None] * Y)),
        (s.gram.full(), np.tril(H.T @ (w[:, None] * H))),
    ):
        scale = np.abs(exact).max()
        np.testing.assert_allclose(engine.to_host(actual), exact, rtol=0, atol=1e-12 * scale)
    assert s.rounding == np.finfo(float).eps


@pytest.mark.parametrize("alpha", [1e-6, 1e-3])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_small_penalty_is_accurate_for_float32_activations(engine, narrow, alpha, weighted):
    """The oracle is the SVD of the centred H, whose condition number is a square root."""
    H, Y, weight = narrow
    w = weight if weighted else np.ones(len(H))
    s = statistics(H, Y, weight if weighted else None, engine=engine, dtype=float)
    h, y, root = np.average(H, axis=0, weights=w), np.average(Y, axis=0, weights=w), np.sqrt(w)
    U, d, Vt = np.linalg.svd(root[:, None] * (H.astype(float) - h), full_matrices=False)
    assert (d[0] / d[-1]) ** 2 > 1e6
    expected = (d / (d**2 + alpha) * (U.T @ (root[:, None] * (Y - y))).T) @ Vt
    W, b = solve_on_host(s, alpha, engine)
    np.testing.assert_allclose(W, expected, rtol=0, atol=1e-7 * np.abs(expected).max())
    np.testing.assert_allclose(b, y - expected @ h, rtol=0, atol=1e-7 * np.abs(b).max())
    ((W_leading, _, _),) = s.solve_leading(alpha, [200])
    np.testing.assert_allclose(engine.to_host(W_leading), W, rtol=0, atol=1e-7 * np.abs(W).max())
    basis, scale, _ = diagonalise_on_host(s, [alpha, 1.0], engine)[0]
    W = (basis * scale @ (basis.T @ engine.to_host(s.right))).T
    np.testing.assert_allclose(W, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_a_float32_factor_gives_nearly_the_solution_of_a_float64_factor(engine, narrow):
    """For float32 sums. Without workspace for a second matrix, the factor is in float64."""
    H, Y, weight = narrow
    s = statistics(H, Y, weight, engine=engine)
    coarse = solve_on_host(s, 0.1, engine)
    s.workspace_bytes = 0
    for actual, expected in zip(coarse, solve_on_host(s, 0.1, engine), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-7 * np.abs(expected).max())
        assert (actual != expected).any()


@pytest.mark.parametrize(
    ("times", "needs_whitening", "tolerance"),
    [(0.1, False, 0), (2, False, 1e-3), (2, True, 0), (20, True, 1e-6)],
)
def test_a_factor_is_in_float32_if_its_rounding_can_be_corrected(
    engine, narrow, times, needs_whitening, tolerance
):
    """`times` is the penalty in units of the rounding error of the sums."""
    H, Y, _ = narrow
    s = statistics(H, Y, engine=engine)
    alpha = times * s.rounding * float(s.gram.diagonal().sum())
    equations = s.factorise(alpha, needs_whitening=needs_whitening)
    actual = engine.to_host(equations.solve().W)
    s.workspace_bytes = 0
    expected = engine.to_host(s.solve(alpha).W)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    assert (actual != expected).any() == (tolerance > 0)
    assert equations.whitened_right.dtype == (np.float32 if tolerance else float)


def test_exact_sums_of_rounded_activations_use_a_float32_factor(engine, narrow):
    H, Y, _ = narrow
    quantizer = Quantizer(8, is_signed=True)
    H = quantizer.apply(H.astype(np.float32), np)
    s = RidgeStatistics.zeros(200, 4, engine.algebra, quantizer=quantizer)
    s.update(engine.to_device(H.copy()), engine.to_device(Y))
    actual = solve_on_host(s, 1.0, engine)
    s.workspace_bytes = 0
    for each, expected in zip(actual, solve_on_host(s, 1.0, engine), strict=True):
        np.testing.assert_allclose(each, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        assert (each != expected).any()


def test_pickle_has_host_arrays(engine, data):
    H, Y, weight = data
    s = statistics(H, Y, weight, engine=engine)
    loaded = pickle.loads(pickle.dumps(s))
    assert loaded.algebra is HOST
    assert all(isinstance(block, np.ndarray) for block in loaded.gram.blocks)
    W, b = solve_on_host(s, 0.5, engine)
    for again in (loaded, loaded.on(engine.algebra)):
        solution = again.solve(0.5)
        np.testing.assert_allclose(again.algebra.to_host(solution.W), W, rtol=0, atol=1e-11)
        np.testing.assert_allclose(again.algebra.to_host(solution.b), b, rtol=0, atol=1e-11)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("workspace_bytes", [0, None])
def test_the_last_solution_equals_the_others(engine, data, alpha, workspace_bytes):
    """Also if it overwrites the statistics."""
    H, Y, weight = data
    s = statistics(H, Y, weight, engine=engine)
    expected = solve_on_host(s, alpha, engine)
    s.workspace_bytes = workspace_bytes
    W, b, _ = s.solve(alpha, is_last=True)
    assert s.gram is None
    np.testing.assert_array_equal(engine.to_host(W), expected[0])
    np.testing.assert_array_equal(engine.to_host(b), expected[1])


def test_the_last_solution_of_repeated_samples_is_finite(engine, rng):
    """H has two distinct rows, so that rounding errors of equal sign add up."""
    both = np.tanh(rng.normal(size=(2, 20))).astype(np.float32)
    for n in range(1000, 1020):
        H, Y = both[np.arange(n) % 2], rng.normal(size=(n, 1))
        s = statistics(H, Y, None, engine=engine)
        largest = float((s.gram.diagonal() - engine.to_host(s.h) ** 2 / s.n).sum())
        W, _, _ = s.solve(1.01 * s.rounding * largest, is_last=True)
        assert np.isfinite(engine.to_host(W)).all()


@pytest.mark.parametrize("is_last", [False, True])
def test_too_little_memory_for_eigenvectors_is_an_error(engine, data, is_last):
    H, Y, _ = data
    s = statistics(np.hstack([H, H[:, :5]]), Y, engine=engine)
    s.workspace_bytes = 100
    with pytest.raises(ValueError, match=r"alpha=0, and max_memory .* 20 units .*Raise alpha"):
        s.solve(0.0, is_last=is_last)
