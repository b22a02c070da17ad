"""The dual problem of few samples has the solution of the primal one."""

import numpy as np
import pytest

from sklearn_fsvc import TanhClassifier, TanhRegressor
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines import algebra
from sklearn_fsvc._src.layers import RBFLayer, quantize_layer
from sklearn_fsvc._src.readouts.draw_sample import sample_unique
from sklearn_fsvc._src.readouts.dual import (
    DualLOO,
    DualProblem,
    gather_dual_problem,
    search_dual,
    suits_dual,
)
from sklearn_fsvc._src.readouts.gather_statistics import gather
from sklearn_fsvc._src.readouts.leave_one_out import SampledLOO
from sklearn_fsvc._src.readouts.penalty_search import SearchHistory, gather_and_search
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def samples(request, rng):
    X, weight = rng.normal(size=(50, 4)), None
    if request.param:
        weight = rng.integers(0, 3, 50).astype(float)
    return Samples(X, OneHotTargets.of_column(rng.integers(0, 3, 50), 3), weight)


@pytest.fixture
def layer(rng):
    """A layer with more units than samples."""
    return RBFLayer(rng.normal(size=(120, 4)), 3.0, "manhattan", "laplacian")


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_dual_solution_is_that_of_the_primal(samples, layer, alpha):
    job = Job(JIT)
    (statistics,) = gather(job, [layer], samples)
    sample = sample_unique(job, samples)
    primal_loo, dual_loo = (
        SampledLOO(job, layer, sample, statistics),
        DualLOO(job, layer, sample, samples),
    )
    expected, expected_scores = primal_loo.solve(alpha)
    problem = gather_dual_problem(job, layer, samples)
    actual, dual = problem.try_solve(alpha)
    scores = dual_loo.score(dual, problem).scores
    np.testing.assert_allclose(actual.W, expected.W, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(actual.b, expected.b, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scores, expected_scores.scores, rtol=1e-6, atol=1e-6)


def test_dual_penalty_is_that_of_the_primal(samples, layer):
    job, history = Job(JIT), SearchHistory(0.1)
    expected, _ = gather_and_search(job, layer, samples, np.random.default_rng(0), history)
    result = search_dual(gather_dual_problem(job, layer, samples), np.random.default_rng(0), 0.1)
    assert (result.alpha, result.n_units) == (expected.alpha, expected.n_units)
    assert result.tried == pytest.approx(expected.tried)


def test_the_error_of_folds_is_that_of_readouts_trained_without_them(rng):
    H, Y = rng.normal(size=(30, 50)), rng.normal(size=(30, 2))
    weight = rng.integers(0, 3, 30).astype(float)
    first, second = np.array_split(rng.permutation(np.flatnonzero(weight)), 2)
    total = 0.0
    for fold, rest in ((first, second), (second[:5], np.append(first, second[5:]))):
        problem = DualProblem(H[rest], np.zeros(50), Y[rest], weight[rest])
        solution, _ = problem.try_solve(0.3)
        losses = np.square(H[fold] @ solution.W.T + solution.b - Y[fold]).sum(axis=1)
        total += weight[fold] @ losses
    error = DualProblem(H, np.zeros(50), Y, weight).error(0.3, [first, second[:5]])
    assert error == pytest.approx(total / weight[np.append(first, second[:5])].sum())


def test_the_gram_matrix_is_computed_once(monkeypatch, rng):
    products = []
    syrk = algebra.HOST.syrk
    monkeypatch.setattr(
        algebra.HostAlgebra, "syrk", lambda _, C, A, *args: (products.append(1), syrk(C, A, *args))
    )
    problem = DualProblem(rng.normal(size=(8, 10)), np.zeros(10), np.ones((8, 1)), np.ones(8))
    for alpha in (0.1, 1.0):
        problem.leading(10).try_solve(alpha)
    assert len(products) == 1


@pytest.mark.parametrize("estimator", [TanhClassifier, TanhRegressor])
def test_the_order_of_the_factor_is_the_number_of_samples(monkeypatch, rng, estimator):
    X, orders, factorise = rng.normal(size=(40, 3)), [], algebra.HOST.factorise

    def recorded(A):
        orders.append(len(A))
        return factorise(A)

    monkeypatch.setattr(algebra.HostAlgebra, "factorise", staticmethod(recorded))
    estimator(500, feature_weights=None, random_state=0).fit(X, X[:, 0] > 0)
    assert max(orders) == 40


def test_ill_conditioned_dual_is_refused(rng):
    H, Y = rng.normal(size=(20, 60)), rng.normal(size=(20, 2))
    H[10:] = H[:10]
    problem = DualProblem(H, np.zeros(60), Y, np.ones(20))
    assert problem.try_solve(1e-14) == (None, None)
    assert problem.error(1e-14, [np.arange(5)]) == np.inf


@pytest.mark.parametrize("alpha", [0.0, 1e-14])
def test_a_tiny_alpha_gives_the_least_norm_readout_of_independent_rows(rng, alpha):
    H, Y = rng.normal(size=(20, 60)), rng.normal(size=(20, 2))
    problem = DualProblem(H, np.zeros(60), Y, np.ones(20))
    solution, _ = problem.try_solve(alpha)
    W = np.linalg.lstsq(H - H.mean(axis=0), Y - Y.mean(axis=0), rcond=None)[0]
    np.testing.assert_allclose(solution.W.T, W, atol=1e-10)


def test_the_dual_is_used_for_few_samples(samples, layer):
    job = Job(JIT)
    assert suits_dual(job, layer, samples)
    assert not suits_dual(Job(JIT, max_memory=100_000), layer, samples)
    n_weighted = len(samples.rows_with_weight)  # others do not count
    assert suits_dual(job, layer.part(slice(n_weighted)), samples)
    assert not suits_dual(job, layer.part(slice(n_weighted - 1)), samples)
    assert not suits_dual(job, quantize_layer(layer, 8), samples)
