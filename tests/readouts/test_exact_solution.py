"""Readouts from exact sums are the correctly rounded solution, and equal on every machine."""

import platform
from fractions import Fraction

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features
from threadpoolctl import threadpool_limits

import same_model
from in_turn import run_in_turn
from same_model import GIVEN, make_byte_data
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, RBFRegressor, TanhClassifier
from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.readouts import exact_solution, statistics
from sklearn_fsvc._src.readouts.exact_solution import solve_exactly
from sklearn_fsvc._src.readouts.statistics import RidgeStatistics


def sums_of(bits, is_signed, n_rows=300, n_units=8, n_outputs=3, dtype=np.float64):
    """Return statistics of units of which one is constant, and one is always 0."""
    rng, quantizer = np.random.default_rng(0), Quantizer(bits, is_signed)
    X = rng.normal(size=(n_rows, 3))
    H = np.exp(-np.abs(X[:, None] - X[:n_units]).sum(axis=2) / 4)
    H = np.tanh(X @ rng.normal(size=(3, n_units))) if is_signed else H
    H[:, 3], H[:, 5] = 0.5, 0
    Y = np.eye(n_outputs)[rng.integers(0, n_outputs, n_rows)]
    s = RidgeStatistics.zeros(n_units, n_outputs, HOST, dtype, quantizer=quantizer)
    return s.update(quantizer.apply(H, np).astype(dtype), Y)


def repeated(s, n):
    """Return statistics of n copies of each sample."""
    for sums in (s.h, s.y, s.yy, s.hy, *s.gram.blocks):
        sums *= n
    s.n *= n
    return s


def solve_in_fractions(s, alpha):
    """Return W and b of the bordered equations by Gaussian elimination, rounded to float64."""
    G, m = np.tril(s.gram.full()), len(s.h)
    G = G + np.tril(G, -1).T
    A = np.block([[G, s.h[:, None]], [s.h, s.n]]).tolist()
    Y = np.vstack([s.hy, s.y]).tolist()
    rows = [list(map(Fraction, a + b)) for a, b in zip(A, Y, strict=True)]
    for i in range(m):
        rows[i][i] += Fraction(alpha)
    for i, row in enumerate(rows):
        row[i:] = [value / row[i] for value in row[i:]]
        for other in rows[:i] + rows[i + 1 :]:
            factor = other[i]
            if factor:
                other[i:] = [a - factor * b for a, b in zip(other[i:], row[i:], strict=True)]
    solution = np.array([[float(value) for value in row[m + 1 :]] for row in rows])
    return solution[:-1].T, solution[-1]


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize(("bits", "n_copies"), [(8, 1), (15, 1), (8, 1000), (15, 2**13)])
def test_solutions_are_those_of_fractions(bits, is_signed, alpha, n_copies):
    """With 2^13 copies, sums of 15-bit activations exceed 44 bits and are split."""
    s = repeated(sums_of(bits, is_signed), n_copies)
    W, b = solve_in_fractions(s, alpha)
    solution = s.solve(alpha)
    np.testing.assert_array_equal(solution.W, W)
    np.testing.assert_array_equal(solution.b, b)
    assert not W[:, [3, 5]].any()
    sums = sums_of(bits, is_signed, dtype=np.float32)
    solution = repeated(sums, n_copies).solve(alpha)
    np.testing.assert_array_equal(solution.W, W.astype(np.float32))
    np.testing.assert_array_equal(solution.b, b.astype(np.float32))


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-4])
def test_the_precision_of_the_factor_does_not_change_the_solution(noise, rng):
    s = sums_of(8, False)
    A = np.tril(s.gram.full())
    A = A + np.tril(A, -1).T - np.outer(s.h, s.h) / s.n + 0.1 * np.eye(len(s.h))

    def solve(right):
        return np.linalg.solve(A, right) * (1 + noise * rng.uniform(-1, 1, right.shape))

    W, b = solve_in_fractions(s, 0.1)
    actual = solve_exactly(s, 0.1, solve)
    np.testing.assert_array_equal(actual.W, W)
    np.testing.assert_array_equal(actual.b, b)


def test_targets_of_zeros():
    """As of a regressor, whose targets are centred, if y is constant."""
    s = sums_of(8, False)
    s.hy[:] = s.y[:] = 0
    solution = s.solve(0.1)
    assert not solution.W.any()
    assert not solution.b.any()
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = RBFRegressor(10, precision=8, random_state=0).fit(X, np.full(50, 3.0))
    np.testing.assert_array_equal(model.predict(X), 3.0)


@pytest.mark.parametrize("bits", [8, 15])
def test_activations_that_are_all_rounded_to_zero(bits, rng):
    X = rng.normal(size=(60, 2))
    model = TanhClassifier(3, scale=1e-10, bias=False, precision=bits, alpha=1.0, random_state=0)
    model.fit(X, X[:, 0] > 0)
    assert not model.readout_coef_.any()
    np.testing.assert_allclose(model.readout_intercept_, 2 * np.mean(X[:, 0] > 0) - 1)


def test_a_useless_factor_gives_no_solution():
    assert solve_exactly(sums_of(8, False), 0.1, lambda right: right) is None


def test_solutions_that_are_not_rounded_may_depend_on_the_factor(monkeypatch):
    """If iterative refinement does not contract, the solution in floats is returned."""
    monkeypatch.setattr(exact_solution, "_MAX_CONTRACTION", 0.0)
    s = sums_of(8, False)
    W, _ = solve_in_fractions(s, 0.1)
    np.testing.assert_allclose(s.solve(0.1).W, W, rtol=1e-9, atol=1e-12)


def test_which_sums_are_exact():
    s = sums_of(8, False)
    H, Y = np.full((4, 8), 0.5), np.eye(3)[[0, 1, 2, 0]]
    assert s.is_exact
    assert (s + sums_of(8, False)).is_exact
    assert (s - sums_of(8, False, n_rows=100)).is_exact
    assert not s.scaled(0.5).is_exact
    assert not s.copy().update(H.copy(), Y, np.full(4, 2.0)).is_exact
    assert not (s + s.copy().update(H.copy(), Y, np.full(4, 2.0))).is_exact
    assert not s.copy().update(H.copy(), Y + 1 / 3).is_exact
    assert not repeated(s.copy(), 2**40).is_exact
    assert not RidgeStatistics.zeros(8, 3).update(H.copy(), Y).is_exact


@pytest.mark.parametrize("device", ["jit", "blas"])
def test_any_order_of_samples_gives_the_same_model(device):
    X, y = make_byte_data()
    model = RBFClassifier(200, alpha=0.01, device=device, **GIVEN).fit(X, y)
    streams = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(X))
        stream = RBFClassifier(layer=model.centers_, alpha=0.01, device=device, **GIVEN)
        for part in np.array_split(order, 3 + seed):
            stream.partial_fit(X[part], y[part], classes=np.arange(4))
        rows = order[:50]
        streams.append(stream.forget(X[rows], y[rows]).partial_fit(X[rows], y[rows]).solve())
        np.testing.assert_array_equal(stream.readout_coef_, model.readout_coef_)
        np.testing.assert_array_equal(stream.readout_intercept_, model.readout_intercept_)
    assert streams[0].temperature_ == streams[1].temperature_
    assert streams[0].score_scale_ == streams[1].score_scale_


def test_a_search_gives_the_same_model():
    X, y = make_byte_data()
    model = RBFClassifier(100, **GIVEN, selection="random")
    grid = {"n_hidden": [100, 200], "alpha": [0.01]}
    best = HiddenSizeSearchCV(model, grid, cv=2).fit(X, y).best_estimator_
    single = RBFClassifier(best.n_hidden, alpha=0.01, selection="random", **GIVEN).fit(X, y)
    np.testing.assert_array_equal(best.readout_coef_, single.readout_coef_)


IS_X86 = platform.machine() in ("x86_64", "AMD64")
HASWELL = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma,+avx,+sse4.2"}
GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
SAME = """
import os, sys
os.environ.update({variables})  # before numba is imported
import same_model
for device in ("jit", "blas"):
    assert same_model.digests(device) == {expected}, device
"""


def older_processors():
    """Return environment variables for loops of older processors."""
    has_avx2 = IS_X86 and get_host_cpu_features().get("avx2", False)
    return [GENERIC, HASWELL] if has_avx2 else [GENERIC]


@pytest.mark.exhaustive
@pytest.mark.parametrize("blas", ["Prescott" if IS_X86 else "ARMV8", "Haswell"])
def test_every_machine_gives_the_same_model(tmp_path, blas):
    """With code for this processor and for older ones, one and two threads, and two engines."""
    if blas == "Haswell" and len(older_processors()) < 2:
        pytest.skip("this processor is older")
    with threadpool_limits(1):
        expected = same_model.digests("jit")
        assert same_model.digests("blas") == expected
    programs = [
        SAME.format(variables=variables, expected=expected) for variables in older_processors()
    ]
    threads = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")
    run_in_turn(
        *programs, module="sklearn_fsvc", NUMBA_CACHE_DIR=str(tmp_path), OPENBLAS_CORETYPE=blas,
        MKL_CBWR="COMPATIBLE", **threads,
    )  # fmt: skip


@pytest.mark.parametrize("is_exact", [True, False])
def test_rounding_changes_models_unless_solutions_are_exact(is_exact, monkeypatch):
    """The other tests need models that depend on the last bits of the factor."""
    if not is_exact:
        monkeypatch.setattr(statistics, "solve_exactly", lambda *_: None)
    X, y = make_byte_data()
    models = []
    for factor in (1.0, 1 + 1e-9):
        cholesky = RidgeStatistics.cholesky

        def perturbed(self, *args, cholesky=cholesky, factor=factor, **options):
            L = cholesky(self, *args, **options)
            for block in L.blocks:
                block *= factor
            return L

        with monkeypatch.context() as patched:
            patched.setattr(RidgeStatistics, "cholesky", perturbed)
            models.append(RBFClassifier(400, alpha=1e-3, **GIVEN).fit(X, y))
    one, two = (model.readout_coef_ for model in models)
    assert np.array_equal(one, two) == is_exact
