"""Softmax readouts compared with scikit-learn's logistic regression on the whole H."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit, log_softmax, logsumexp
from scipy.special import softmax as softmax_of
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import naive
from fake_devices import FakeDevice
from fake_sources import ChunkFunction
from peak_memory import peak
from readouts.brute_force import without_each_row
from sklearn_fsvc._src.data.dask_blocks import open_input
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples, exact_hashes
from sklearn_fsvc._src.data.sources import SparseSource
from sklearn_fsvc._src.engines.algebra import HOST, HostAlgebra
from sklearn_fsvc._src.engines.device_group import DeviceGroup
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc._src.readouts import softmax, softmax_penalty
from sklearn_fsvc._src.readouts.calibration import fit_temperature
from sklearn_fsvc._src.readouts.linear import warn_of_problem
from sklearn_fsvc._src.readouts.log_loss import LogLoss
from sklearn_fsvc._src.readouts.newton import (
    CachedRows,
    LBFGSHistory,
    LocalModel,
    WhitenedCoordinates,
    sample_by_uncertainty,
)
from sklearn_fsvc._src.readouts.softmax import SoftmaxSettings, train_softmax
from sklearn_fsvc._src.readouts.softmax_penalty import search_softmax_penalty
from sklearn_fsvc._src.readouts.statistics import RidgeStatistics
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

N, M, D = 600, 20, 5
# A cache that is too small for H of all samples.
SAMPLE = SoftmaxSettings(cached_elements=1)


def tanh_layer(dtype=np.float64, n_units=M):
    rng = np.random.default_rng(1)
    return TanhLayer(
        rng.normal(size=(n_units, D)).astype(dtype), rng.normal(size=n_units).astype(dtype)
    )


def table(n_classes, dtype=np.float64, n_rows=N):
    """Return samples of overlapping classes, of which the last one is rare."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, D))
    scores = X @ rng.normal(size=(D, n_classes)) + rng.gumbel(size=(n_rows, n_classes))
    scores[:, -1] -= 1
    return X.astype(dtype), scores.argmax(axis=1)


def some_weights(n_rows=N):
    weight = np.random.default_rng(2).uniform(0.1, 3, n_rows)
    weight[::7] = 0
    return weight


def objective(H, y, W, b, alpha, weight=None):
    """Return the objective by its definition; two classes have one weight vector, W[1] - W[0]."""
    losses = -log_softmax(H @ W.T + b, axis=1)[np.arange(len(y)), y]
    squared = (W**2).sum() if len(W) > 2 else ((W[1] - W[0]) ** 2).sum()
    return (losses if weight is None else weight * losses).sum() + alpha / 2 * squared


def oracle(H, y, alpha, weight=None):
    """Return W and b of scikit-learn, with a row for each class."""
    model = LogisticRegression(C=1 / alpha, solver="newton-cholesky", tol=1e-6).fit(H, y, weight)
    W, b = model.coef_, model.intercept_
    return (W, b) if len(W) > 1 else (np.vstack([-W, W]) / 2, np.concatenate([-b, b]) / 2)


def samples_of(X, y, weight=None):
    return Samples(X, OneHotTargets.of_column(y, y.max() + 1), weight)


def check_equal(result, H, y, alpha, weight=None, tolerance=1e-4):
    """Compare the objective with its definition, and with the optimum of scikit-learn."""
    W, b, problem = result.solution
    assert problem == ""
    own = objective(H, y, np.asarray(W), np.asarray(b), alpha, weight)
    np.testing.assert_allclose(result.loss, own, rtol=1e-5)
    best = objective(H, y, *oracle(H, y, alpha, weight), alpha, weight)
    assert best * (1 - 1e-6) < own < best * (1 + tolerance)


@pytest.fixture(params=["all", "uncertain", "sample"])
def settings(request):
    """Cache H of all samples, with coordinates by uncertain ones or not; or H of a subset."""
    return {"all": SoftmaxSettings(), "uncertain": SoftmaxSettings(slow_cg=-1), "sample": SAMPLE}[
        request.param
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
def test_the_objective_is_that_of_scikit_learn(n_classes, alpha, weighted, settings):
    X, y = table(n_classes)
    weight, layer = some_weights() if weighted else None, tanh_layer()
    with get_engine("jit") as engine:
        result = train_softmax(
            Job(engine), layer, samples_of(X, y, weight), alpha, tol=2e-5, settings=settings
        )
    check_equal(result, naive.hidden(layer, X), y, alpha, weight)
    assert (result.n_passes > 1) == (settings == SAMPLE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_every_device(device, dtype, settings):
    X, y = table(3, dtype)
    for layer in (tanh_layer(dtype), RBFLayer(X[:M], 2.0)):
        with get_engine(device) as engine:
            samples, job = samples_of(X, y).on_device(Job(engine))
            result = train_softmax(job, layer, samples, 1.0, settings=settings)
            W, b = (engine.to_host(each) for each in result.solution[:2])
        result = result._replace(solution=result.solution._replace(W=W, b=b))
        check_equal(result, naive.hidden(layer, X), y, 1.0)


def test_products_with_the_inverse_factor(monkeypatch, settings):
    """Engines of GPUs prefer them."""
    monkeypatch.setattr(HostAlgebra, "prefers_inverse", True)
    (X, y), layer = table(3), tanh_layer()
    with get_engine("jit") as engine:
        result = train_softmax(Job(engine), layer, samples_of(X, y), 1.0, settings=settings)
    check_equal(result, naive.hidden(layer, X), y, 1.0)


def test_samples_of_weight_zero_are_ignored(settings):
    X, y = table(3)
    weight, layer = some_weights(), tanh_layer()
    has_weight = weight > 0
    with get_engine("jit") as engine:
        job = Job(engine)
        result = train_softmax(
            job, layer, samples_of(X, y, weight), 1.0, tol=1e-9, settings=settings
        )
        other = train_softmax(
            job,
            layer,
            samples_of(X[has_weight], y[has_weight], weight[has_weight]),
            1.0,
            tol=1e-9,
            settings=settings,
        )
    np.testing.assert_allclose(result.solution.W, other.solution.W, atol=1e-3)


@pytest.mark.parametrize("are_labels", [True, False])
def test_several_outputs_have_a_log_loss_each(are_labels, settings):
    """A logistic loss for each label, a softmax loss for each output."""
    X, first = table(2 if are_labels else 3)
    ys = [first, (X[:, 0] > 0.3).astype(int), (X[:, 1] + X[:, 2] ** 2 > 1).astype(int)]
    targets = OneHotTargets(np.column_stack(ys), tuple(y.max() + 1 for y in ys), are_labels)
    layer, alpha = tanh_layer(), 0.5
    with get_engine("jit") as engine:
        result = train_softmax(
            Job(engine), layer, Samples(X, targets), alpha, tol=2e-5, settings=settings
        )
    H, start, total = naive.hidden(layer, X), 0, 0.0
    for y in ys:
        own = slice(start, start := start + y.max() + 1)
        total += objective(H, y, *oracle(H, y, alpha), alpha)
        W, b = result.solution.W[own], result.solution.b[own]
        best = objective(H, y, *oracle(H, y, alpha), alpha)
        assert objective(H, y, W, b, alpha) < best * (1 + 1e-3)
    np.testing.assert_allclose(result.loss, total, rtol=1e-4)


def test_blocks_of_dask(settings):
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    X, y = table(3)
    weight, layer = some_weights(), tanh_layer()
    rows, _, _ = open_input(da.from_array(X, chunks=(130, D)), "jit", None)
    with get_engine("jit") as engine, dask.config.set(scheduler="threads"):
        job = Job(engine)
        result = train_softmax(
            job, layer, samples_of(rows, y, weight), 1.0, tol=2e-5, settings=settings
        )
        search_softmax_penalty(job, layer, samples_of(rows, y, weight), np.random.default_rng(0))
    check_equal(result, naive.hidden(layer, X), y, 1.0, weight)


def test_several_devices(settings):
    X, y = table(3)
    with DeviceGroup([FakeDevice(0), FakeDevice(1)]) as engine:
        samples, job = samples_of(X, y, some_weights()).on_device(Job(engine))
        result = train_softmax(job, tanh_layer(), samples, 1.0, tol=2e-5, settings=settings)
    check_equal(result, naive.hidden(tanh_layer(), X), y, 1.0, some_weights())


@pytest.mark.parametrize("weighted", [False, True])
def test_uncertain_coordinates_are_newtons_for_two_classes(weighted):
    """With them conjugate gradients need at most one step, and with those of all samples many."""
    X, y = table(2)
    samples, n_steps = samples_of(X, y, some_weights() if weighted else None), {}
    for slow in (-1, np.inf):
        settings = SoftmaxSettings(slow_cg=slow, omitted_uncertainty=0.0)
        with get_engine("jit") as engine:
            training = softmax.SoftmaxTraining(
                Job(engine), tanh_layer(), samples, settings=settings
            )
            training.run(1e-3, 1e-6, 20)
        n_steps[slow] = training.n_cg
    assert n_steps[-1] <= 1 < n_steps[np.inf]


def test_each_step_reduces_the_objective(monkeypatch):
    losses, passes, X_y = [], [], table(4)
    step, compute_losses = softmax.SoftmaxTraining._best_step, softmax.compute_losses

    def recorded(self, T, D, loss, is_converged):
        losses.append(loss)
        return step(self, T, D, loss, is_converged)

    monkeypatch.setattr(softmax.SoftmaxTraining, "_best_step", recorded)
    monkeypatch.setattr(
        softmax, "compute_losses", lambda *args: passes.append(1) or compute_losses(*args)
    )
    with get_engine("jit") as engine:
        result = train_softmax(Job(engine), tanh_layer(), samples_of(*X_y), 0.1, settings=SAMPLE)
    assert (np.diff([*losses, result.loss]) < 0).all()
    assert result.n_passes == len(passes) + 1
    assert result.n_iter <= 12


def test_several_newton_steps_save_passes():
    """Classes hardly overlap, so that the curvature decreases as they are separated."""
    X, _ = table(4, n_rows=1500)
    y = (X @ np.random.default_rng(3).normal(size=(D, 4))).argmax(axis=1)
    layer, result = tanh_layer(n_units=60), {}
    for max_steps in (1, 4):
        settings = SAMPLE._replace(max_newton_steps=max_steps)
        with get_engine("jit") as engine:
            result[max_steps] = train_softmax(
                Job(engine), layer, samples_of(X, y), 1e-2, settings=settings
            )
    np.testing.assert_allclose(result[1].loss, result[4].loss, rtol=2e-4)
    assert result[4].n_passes < result[1].n_passes


def test_local_model_is_minimised(rng):
    """By SciPy: the log-loss of cached samples, a linear term, and squares of the other samples."""
    X, y = table(3)
    layer, log_loss, algebra = tanh_layer(), LogLoss([3]), HOST
    H, alpha, omitted = naive.hidden(layer, X), 0.3, 0.05
    statistics = RidgeStatistics.zeros(M, 0, algebra)
    statistics.update(H.copy(), np.zeros((N, 0)))
    coordinates = WhitenedCoordinates(statistics, 1.0)
    weight, T = rng.uniform(0.5, 2, N), rng.normal(size=(M + 1, 3))
    kept = CachedRows(algebra, np.arange(N), H, weight)
    model = LocalModel(
        coordinates, log_loss, kept, T, alpha, omitted, curvature=1.0,
        max_newton_steps=100, gradient_tolerance=1e-6,
    )  # fmt: skip
    H1 = np.hstack([H, np.ones((N, 1))])
    at_start = H1.T @ (weight[:, None] * softmax_of(H1 @ T, axis=1))
    G = at_start - H1.T @ (1.2 * np.eye(3)[y])

    def value(D):
        D = D.reshape(T.shape)
        S = H1 @ (T + D)
        squares = alpha * (D[:-1] ** 2).sum() + omitted * ((H1 @ D) ** 2).sum()
        return weight @ logsumexp(S, axis=1) + ((G - at_start) * D).sum() + squares / 2

    def gradient(D):
        D = D.reshape(T.shape)
        P = softmax_of(H1 @ (T + D), axis=1)
        result = H1.T @ (weight[:, None] * P + omitted * (H1 @ D)) + G - at_start
        result[:-1] += alpha * D[:-1]
        return result.ravel()

    best = minimize(value, np.zeros(T.size), jac=gradient).fun
    step = -model.solve(G)
    assert 1 < model.n_newton < 100
    np.testing.assert_allclose(value(step), best, rtol=1e-6)


class _WithHalves(HostAlgebra):
    """Algebra with products in half precision, as on a GPU."""

    def half_precision(self, A):
        return A.astype(np.float16).astype(A.dtype), 2.0**-22 / 12


@pytest.mark.parametrize("alpha", [1.0, 1e-7])
def test_hessian_in_half_precision(rng, alpha):
    """It is not used if the rounding of H would be as large as the penalty."""
    X, _ = table(3)
    H, log_loss, steps = naive.hidden(tanh_layer(), X), LogLoss([3]), []
    T, G = np.zeros((M + 1, 3)), rng.normal(size=(M + 1, 3))
    for algebra in (HOST, _WithHalves()):
        statistics = RidgeStatistics.zeros(M, 0, algebra)
        statistics.update(H.copy(), np.zeros((N, 0)))
        cached = CachedRows(algebra, np.arange(N), H, np.ones(N))
        coordinates = WhitenedCoordinates(statistics, 4 * alpha)
        curvature = N / 3  # for equal probabilities of three classes
        model = LocalModel(coordinates, log_loss, cached, T, alpha, 0.0, curvature)
        steps.append(model.solve(G))
    np.testing.assert_allclose(*steps, rtol=0, atol=0.01 * np.abs(steps[0]).max())
    assert np.array_equal(*steps) == (alpha < 1)


def test_no_convergence_warns():
    X, y = table(3)
    with get_engine("jit") as engine:
        result = train_softmax(Job(engine), tanh_layer(), samples_of(X, y), 1e-3, 1e-9, max_iter=2)
    assert result.n_iter == 2
    with pytest.warns(ConvergenceWarning, match=r"in 2 steps: .* Increase alpha, or"):
        warn_of_problem(result.solution.problem)


def test_rounding_of_float32_is_reported():
    X, y = table(3, np.float32)
    with get_engine("jit") as engine:
        result = train_softmax(
            Job(engine), tanh_layer(np.float32), samples_of(X, y), 1e-3, 1e-17, max_iter=1000
        )
    assert "rounding to float32" in result.solution.problem


@pytest.mark.parametrize("seed", [6, 13, 18])
def test_convergence_with_confidently_misclassified_samples(seed):
    """Their loss is steep but has almost no curvature: here, classes of one heavy sample."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, D)), np.repeat(range(5), (26, 1, 1, 1, 1))
    weight = 3e7 / np.bincount(y)[y]
    layer = TanhLayer(rng.normal(size=(4, D)), rng.normal(size=4))
    with get_engine("jit") as engine:
        # On some processors the loss is still 1e-4 above the optimum after 100 steps.
        result = train_softmax(Job(engine), layer, samples_of(X, y, weight), 1e-3, max_iter=300)
    assert result.solution.problem == ""
    H = naive.hidden(layer, X)
    model = LogisticRegression(C=1e3, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    model.fit(H, y, weight)
    best = objective(H, y, model.coef_, model.intercept_, 1e-3, weight)
    # The objective is flat, so that the end depends on rounding: up to 1.2 % above the optimum.
    assert result.loss < best * 1.02


def test_memory_limit():
    """With less memory, fewer samples are cached, and the optimum is the same."""
    limit, layer = 5 * 2**20 + n_threads() * 2**18, tanh_layer(n_units=60)
    X, y = table(3, n_rows=12_000)
    samples = samples_of(X, y)
    with get_engine("blas") as engine:
        train_softmax(Job(engine), layer, samples_of(X[:500], y[:500]), 10.0)  # fills caches
        result, bytes_ = peak(train_softmax, Job(engine, limit), layer, samples, 10.0, 3e-4)
    assert result.n_passes > 1
    assert bytes_ < limit
    check_equal(result, naive.hidden(layer, X), y, 10.0, tolerance=1e-3)


def test_duplicate_units_converge():
    X, y = table(3)
    layer = tanh_layer()
    layer = TanhLayer(np.vstack([layer.units] * 2), np.concatenate([layer.bias] * 2))
    with get_engine("jit") as engine:
        result = train_softmax(Job(engine), layer, samples_of(X, y), 1e-6, tol=1e-5)
    check_equal(result, naive.hidden(layer, X), y, 1e-6, tolerance=1e-3)


def test_samples_are_drawn_by_their_uncertainty(rng):
    """Weighted by the inverse of the returned probabilities, sums are unbiased."""
    uncertainty = rng.exponential(size=500).astype(np.float32)
    uncertainty[:5] = 1000
    total = np.zeros(500)
    for _ in range(2000):
        rows, share = sample_by_uncertainty(uncertainty, 60, rng)
        assert len(np.unique(rows)) == 60
        total[rows] += 1 / share
    np.testing.assert_array_equal(total[:5], 2000)
    assert abs(total.sum() / 2000 - 500) < 25
    probable = np.argsort(uncertainty)[100:]
    np.testing.assert_allclose(total[probable].mean() / 2000, 1, atol=0.03)


def test_lbfgs_is_exact_for_a_quadratic(rng):
    """With as many pairs as dimensions, the direction is Newton's for any initial matrix."""
    A = rng.normal(size=(4, 4))
    A = A @ A.T + np.eye(4)
    history, pairs = LBFGSHistory(4), []
    for _ in range(4):  # conjugate steps
        s = rng.normal(size=4)
        for other in pairs:
            s -= (s @ A @ other) / (other @ A @ other) * other
        pairs.append(s)
        history.add(s, A @ s)
    G = rng.normal(size=4)
    np.testing.assert_allclose(
        history.inverse_product(G, lambda g: 3 * g), np.linalg.solve(A, G), rtol=1e-8
    )
    history.add(s, -s)  # not convex
    assert len(history) == 4


@pytest.mark.parametrize("sizes", [(3,), (2,), (2, 2), (2, 4, 2, 2), (3, 2)])
def test_derivatives_against_finite_differences(sizes, rng):
    log_loss = LogLoss(sizes)
    S, U = rng.normal(size=(2, 6, log_loss.n_scores))
    losses = np.zeros(S.shape)
    P = S.copy()
    log_loss.normalise(P, np)
    for k in range(log_loss.n_scores):
        step = np.zeros(S.shape)
        step[:, k] = 1e-6
        both = [log_loss.normalise(S + sign * step, np) for sign in (1, -1)]
        losses[:, k] = (both[0] - both[1]) / 2e-6
    np.testing.assert_allclose(P, losses, atol=1e-8)
    after, before = S + 1e-6 * U, S - 1e-6 * U
    for each in (after, before):
        log_loss.normalise(each, np)
    np.testing.assert_allclose(
        log_loss.hessian_product(P, U.copy()), (after - before) / 2e-6, atol=1e-8
    )
    W = rng.normal(size=(log_loss.n_scores, 3))
    of_classes = log_loss.to_classes(W)
    assert len(of_classes) == sum(sizes)
    np.testing.assert_allclose(log_loss.to_scores(of_classes), W)


def test_extreme_scores_have_a_finite_loss():
    S = np.array([[800.0, -800.0], [-900.0, 0.0]])
    for sizes, expected in [((2, 2), [800.0, np.log(2)])]:
        P = S.copy()
        np.testing.assert_allclose(LogLoss(sizes).normalise(P, np), expected)
        np.testing.assert_allclose(P, [[1, 0], [0, 0.5]])


def test_the_penalty_has_the_lowest_validation_log_loss(monkeypatch):
    """As computed by scikit-learn on the same samples; neighbours of the best are worse."""
    X, y = table(3)
    layer = tanh_layer()
    held = np.arange(0, N, 3)
    monkeypatch.setattr(softmax_penalty, "draw_parts", lambda *_: [held])
    with get_engine("jit") as engine:
        result, point = search_softmax_penalty(
            Job(engine), layer, samples_of(X, y), np.random.default_rng(0)
        )
    H, kept = naive.hidden(layer, X), np.setdiff1d(np.arange(N), held)
    for alpha, error in result.tried.items():
        W, b = oracle(H[kept], y[kept], alpha)
        expected = objective(H[held], y[held], W, b, 0.0) / len(held)
        np.testing.assert_allclose(error, expected, rtol=5e-3)
    assert result.error == min(result.tried.values())
    assert len(result.tried) >= 3
    lowest, highest = min(result.tried), max(result.tried)
    assert lowest < result.alpha < highest
    best = min(result.tried, key=result.tried.get)
    assert 10**-0.5 < result.alpha / best < 10**0.5
    W, b = (oracle(H[kept], y[kept], best)[i] for i in (0, 1))
    scores, expected = H @ point[:-1] + point[-1], H @ W.T + b
    np.testing.assert_allclose(softmax_of(scores, axis=1), softmax_of(expected, axis=1), atol=0.03)


@pytest.mark.parametrize(
    ("kind", "per_unit"),
    [
        ("array", 1000),
        *product(["array", "dask", "sparse", "source", "device_group"], [4]),
        *(
            pytest.param(kind, 1000, marks=pytest.mark.exhaustive)
            for kind in ("dask", "sparse", "source", "device_group")
        ),
    ],
)
def test_penalty_does_not_depend_on_copies(kind, per_unit, monkeypatch):
    """Without memory for copies, the same samples give the same penalty."""
    monkeypatch.setattr(softmax_penalty, "_ROWS_PER_UNIT", per_unit)
    monkeypatch.setattr(softmax_penalty, "_HIDDEN_ELEMENTS", 1)
    X, y = table(3)
    data, result = X, []
    if kind == "dask":
        data = pytest.importorskip("dask.array").from_array(X, chunks=(130, D))
    elif kind != "array":
        data = {
            "sparse": SparseSource(csr_array(X)),
            "source": ChunkFunction(X),
            "device_group": X,
        }[kind]
    engine = (
        DeviceGroup([FakeDevice(0), FakeDevice(1)]) if kind == "device_group" else get_engine("jit")
    )
    with engine as entered:
        rows, _, _ = open_input(data, "jit", None)
        samples, job = samples_of(rows, y, some_weights()).on_device(Job(entered))
        for part in (1 / 4, 0):
            monkeypatch.setattr(softmax_penalty, "_COPIED_SHARE", part)
            random = np.random.default_rng(0)
            result.append(search_softmax_penalty(job, tanh_layer(), samples, random))
    np.testing.assert_allclose(result[0][0].alpha, result[1][0].alpha, rtol=1e-3)
    np.testing.assert_allclose(result[0][1], result[1][1], atol=1e-3)


@pytest.mark.parametrize("are_labels", [False, True])
def test_a_class_with_one_sample_is_never_held_out(are_labels):
    """Without it the training would not converge, and its own loss would not validate a penalty."""
    X, y = table(2)
    y[:] = 0
    y[7] = 1
    targets = OneHotTargets.of_column(y, 2)
    if are_labels:
        targets = OneHotTargets(np.column_stack([y, np.zeros(N, int)]), (2, 2), is_multilabel=True)
    with get_engine("jit") as engine:
        result, point = search_softmax_penalty(
            Job(engine), tanh_layer(), Samples(X, targets), np.random.default_rng(0)
        )
    H = naive.hidden(tanh_layer(), X)
    assert 0.5 < expit(H @ point[:-1] + point[-1])[:, 0].sum() < 2
    assert result.error < 0.1


def test_a_subset_of_many_samples_is_used_for_validation(monkeypatch):
    X, y = table(3)
    n_samples = []

    def fake_fold(self, job, layer, samples, kept, held, ridge_alpha, center_units):
        n_samples.append(len(samples))
        self.log_loss = lambda alpha: (np.log10(alpha) - 0.3) ** 2
        self.points = {1.0: len(held) * np.ones(3)}

    monkeypatch.setattr(softmax_penalty, "_HIDDEN_ELEMENTS", 1)
    monkeypatch.setattr(softmax_penalty._Fold, "__init__", fake_fold)
    with get_engine("jit") as engine:
        result, point = search_softmax_penalty(
            Job(engine), tanh_layer(), samples_of(X, y), np.random.default_rng(0)
        )
    assert set(n_samples) == {4 * M}
    np.testing.assert_allclose(result.alpha, 10**0.3)
    np.testing.assert_allclose(point, 4 * M / 6, atol=0.5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shrinkage_to_the_ridge_solution(n_classes):
    """A large penalty gives the calibrated ridge solution, a small one changes the loss little."""
    X, y = table(n_classes)
    H, layer = naive.hidden(tanh_layer(), X), tanh_layer()
    with get_engine("jit") as engine:
        job = Job(engine)
        far, near = (
            train_softmax(job, layer, samples_of(X, y), alpha, tol=1e-6, ridge_alpha=1.0)
            for alpha in (1e8, 1e-3)
        )
        unshrunk = train_softmax(job, layer, samples_of(X, y), 1e-3, tol=1e-6)
    W, _ = naive.ridge(H, np.eye(n_classes)[y], 1.0)
    scores = without_each_row(H, np.eye(n_classes)[y], 1.0)
    scores = np.diff(scores, axis=1) if n_classes == 2 else scores
    few = np.argsort(exact_hashes(X))[:512]
    T = fit_temperature(scores[few], y[few])
    centred = (W - W.mean(axis=0)) / T
    result = far.solution.W
    np.testing.assert_allclose(
        result - result.mean(axis=0), centred, atol=1e-5 * abs(centred).max()
    )
    assert near.loss < far.loss
    np.testing.assert_allclose(near.loss, unshrunk.loss, rtol=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_convergence_if_the_first_samples_lack_a_class(seed):
    """The first readout is overconfident, so that a full Newton step would be too long."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(4000, D)), np.zeros(4000, int)
    y[rng.choice(4000, 3, replace=False)] = 1
    X[y == 1] += 1.5
    layer = tanh_layer()
    with get_engine("jit") as engine:
        result = train_softmax(
            Job(engine), layer, samples_of(X, y), 1e-2, max_iter=200,
            settings=SAMPLE._replace(first_rows=50),
        )  # fmt: skip
    check_equal(result, naive.hidden(layer, X), y, 1e-2, tolerance=1e-3)
