"""Feature weights that minimise a leave-one-out error."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import naive
from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.memory_plan import MemoryLimitError
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.hidden_layers import proxy_networks, proxy_search, relevance
from sklearn_fsvc._src.hidden_layers.feature_weights import equalising_weights
from sklearn_fsvc._src.hidden_layers.proxy_search import ProxySearch
from sklearn_fsvc._src.hidden_layers.relevance import (
    QUICK,
    THOROUGH,
    minimise_by_signs,
    minimise_error,
    suits_refinement,
)
from sklearn_fsvc._src.readouts.penalty_search import SearchHistory
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")
V, ALPHA = np.array([0.5, 0.3, 0.2, 0.4, 0.1]), 0.3


def make_samples(n=60, dtype=np.float64, seed=0, weight=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * [1, 1, 30, 1, 1] + 7
    codes = (X[:, 0] - 7) * (X[:, 1] - 7) > 0
    return Samples(
        X.astype(dtype), OneHotTargets.of_column(codes.astype(int) + (X[:, 3] > 8), 3), weight
    )


def problem_of(engine, samples):
    equalising = equalising_weights(samples, engine)
    return relevance._Problem.of(Job(engine), samples, equalising, 30)


def leave_one_out_error(samples, v, alpha, centers):
    """Return the relative error of networks that are trained without one sample, in float64.

    `centers` are rows.
    """
    X, Y = samples.X.astype(float), samples.targets.matrix()
    weight = np.ones(len(X)) if samples.weight is None else samples.weight
    weight = weight / weight.mean()
    mean = np.average(X, axis=0, weights=weight)
    X = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    Y = Y - np.average(Y, axis=0, weights=weight)
    H = naive.rbf(X * v, X[centers] * v, 1.0, kernel="laplacian")
    total = 0.0
    for i in range(len(X)):
        keep = np.arange(len(X)) != i
        A = (weight[keep, None] * H[keep]).T @ H[keep] + alpha * np.eye(H.shape[1])
        W = np.linalg.solve(A, (weight[keep, None] * H[keep]).T @ Y[keep])
        total += weight[i] * ((Y[i] - H[i] @ W) ** 2).sum()
    return total / (weight[:, None] * Y**2).sum()


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("i", "centers"), [(0, slice(30)), (1, slice(30, 60)), (2, slice(30))])
def test_the_gradient_agrees_with_finite_differences(engine, rng, i, centers, is_weighted):
    """Each evaluation has the next samples as centres."""
    samples = make_samples(weight=rng.random(60) + 0.1 if is_weighted else None)
    gradient = problem_of(engine, samples).gradient(V, ALPHA, i)
    gradient /= leave_one_out_error(samples, V, ALPHA, centers)  # that of the logarithm
    step = 1e-6
    for k, actual in enumerate(gradient):
        errors = []
        for sign in (1, -1):
            v, alpha = V.copy(), ALPHA
            if k < len(V):
                v[k] += sign * step
            else:
                alpha *= math.exp(sign * step)
            errors.append(math.log(leave_one_out_error(samples, v, alpha, centers)))
        assert actual == pytest.approx((errors[0] - errors[1]) / (2 * step), rel=2e-3, abs=1e-3)


def minimise(samples, engine=JIT, first=None):
    equalising = equalising_weights(samples, engine)
    first = equalising if first is None else first
    return minimise_error(
        Job(engine), samples, np.arange(len(samples)), 0, first, equalising, QUICK
    )


def test_relevant_features_get_larger_weights(engine):
    weights = minimise(make_samples(900), engine)
    assert weights.max() == 1
    assert weights[[0, 1, 3]].min() > 10 * weights[[2, 4]].max()


def test_weights_do_not_depend_on_units_and_offsets():
    samples = make_samples(400)
    scale = np.array([1e6, 1, 1e-3, 1e9, 1])
    others = minimise(replace(samples, X=samples.X * scale - 3e4 * scale)) * scale
    np.testing.assert_allclose(others / others.max(), minimise(samples), rtol=0.02, atol=1e-4)


def test_huge_and_tiny_values():
    samples = make_samples(200)
    expected = minimise(samples)
    for exponent in (-600, 600):
        weights = minimise(replace(samples, X=np.ldexp(samples.X, exponent)))
        np.testing.assert_allclose(weights, expected, rtol=1e-3, atol=1e-6)


def test_constant_features_and_targets():
    samples = make_samples(300)
    samples.X[:, 4] = 1e5
    weights = minimise(samples)
    assert weights[4] == 0
    assert np.isfinite(weights).all()
    constant = OneHotTargets.of_column(np.zeros(300, int), 3)
    assert minimise(replace(samples, targets=constant)) is None


def test_gradients_that_cannot_be_computed(monkeypatch):
    """The weights are then those before."""
    calls = []

    def gradient(self, v, alpha, i):
        calls.append(v.copy())
        return original(self, v, alpha, i) if len(calls) == 1 else None

    original = relevance._Problem.gradient
    monkeypatch.setattr(relevance._Problem, "gradient", gradient)
    samples = make_samples(200)
    ratios, equalising = np.array([0.1, 0.2, 0.4, 1.0, 0.5]), equalising_weights(samples, JIT)
    weights = minimise(samples, first=ratios * equalising)
    assert len(calls) > 1
    expected = np.maximum(ratios**2, 0.03) * equalising
    np.testing.assert_allclose(weights, expected / expected.max())


@pytest.mark.parametrize(
    ("n_samples", "n_features", "n_outputs", "expected"),
    [
        (1000, 100, 100, True),
        (1000, 101, 1, False),
        (10_000, 301, 1, False),
        (1000, 1, 1, False),
        (1000, 100, 101, False),
    ],
)
def test_ten_samples_for_each_weight(n_samples, n_features, n_outputs, expected):
    assert suits_refinement(n_samples, n_features, n_outputs) == expected


@pytest.mark.exhaustive  # without noise, the next test finds a product of three features
def test_networks_that_predict_nothing_do_not_hide_one_that_does():
    """Their best penalty is the largest one, at which a network with suitable weights predicts
    nothing, either.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5000, 10)).astype(np.float32)
    y = X[:, :3].prod(axis=1) > 0
    y[:4000] ^= rng.random(4000) < 0.1
    model = RBFClassifier(600, kernel="laplacian", alpha=0.1, random_state=0, device="jit")
    assert model.fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]) > 0.9


@pytest.mark.parametrize("network", [RBFClassifier, TanhClassifier])
def test_a_product_of_three_features(network):
    """No feature is relevant alone, nor are two: mean squared gradients do not show them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8)).astype(np.float32)
    y = X[:, 0] * X[:, 1] * X[:, 2] > 0
    model = network(300, random_state=0, device="jit").fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.85
    assert model.feature_importances_[:3].sum() > 0.95


@pytest.mark.exhaustive
def test_tanh_networks_do_not_use_weights_that_suit_rough_functions_only():
    """The target is a step function of one of two features, and smooth in the other."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 3)).astype(np.float32)
    y = np.floor(8 * X[:, 0]) % 2 + np.sin(3 * X[:, 1])
    given = {"n_hidden": 100, "alpha": 0.1, "random_state": 0, "device": "jit"}
    rough, smooth = (
        network.fit(X, y).feature_importances_
        for network in (RBFRegressor(kernel="laplacian", **given), TanhRegressor(scale=1, **given))
    )
    assert rough[0] > 0.9
    assert smooth[1] > 2 * rough[1]


def test_steps_by_signs_find_a_minimum():
    """Of a function whose derivatives differ by orders of magnitude, in about equal steps."""
    scale, target = np.array([1e-4, 1e-2, 1e2]), np.array([2.0, -1.0, 0.5])

    def gradient(point, i):
        points.append(point)
        return 2 * scale * (point - target)

    points = []
    least, most = np.array([-9.0, -9.0, -9.0]), np.array([1.5, 9.0, 9.0])
    found = minimise_by_signs(gradient, np.zeros(3), least, most, 16)
    assert len(points) == 16
    np.testing.assert_allclose(found, [1.5, -1.0, 0.5], atol=0.15)  # the first one is bounded


def test_steps_by_signs_average_over_functions():
    """Of functions with minima at -0.5 and 1.5 in turn: their mean is the minimum of the sum."""

    def gradient(point, i):
        return 2 * (point - 0.5 + (-1.0) ** i)

    bounds = np.array([-9.0]), np.array([9.0])
    found = minimise_by_signs(gradient, np.full(1, 4.0), *bounds, 30)
    assert abs(found[0] - 0.5) < 0.2


def test_steps_by_signs_return_from_points_without_a_gradient():
    def gradient(point, i):
        return 2 * (point - 0.6) if point[0] <= 0.7 else None

    bounds = np.array([-9.0]), np.array([9.0])
    found = minimise_by_signs(gradient, np.zeros(1), *bounds, 12)
    assert abs(found[0] - 0.6) < 0.1
    np.testing.assert_array_equal(minimise_by_signs(gradient, np.ones(1), *bounds, 12), [1.0])


@pytest.mark.usefixtures("two_splits")
@pytest.mark.parametrize("network", [RBFClassifier, TanhClassifier])
def test_refined_weights_are_used_whatever_their_validation_error(network, monkeypatch):
    monkeypatch.setattr(proxy_search, "_MIN_CLASS_GAIN", 1.0)  # never better
    monkeypatch.setattr(proxy_search, "_MIN_CLASS_VARIANCE", 1.0)
    X = np.random.default_rng(0).normal(size=(700, 5))
    y = X[:, 0] * X[:, 1] > 0
    model = network(30, alpha=1.0, random_state=0)
    model.set_params(**{"kernel": "laplacian"} if network is RBFClassifier else {"scale": 1.0})
    learned, refined, few, expected = (
        clone(model).set_params(feature_weights=way).fit(X[:n], y[:n]).feature_weights_
        for n in (700, 40)
        for way in ("learned", "refined")
    )
    assert np.sort(refined)[-3] < 0.5 * np.sort(learned)[-3]
    np.testing.assert_array_equal(few, expected)


@pytest.fixture
def descents(monkeypatch):
    """List of (first weights, equalising weights, size) of all descents."""
    recorded = []

    def record(job, samples, rows, random_state, weights, equalising, size):
        recorded.append((weights, equalising, size))
        return minimise_error(job, samples, rows, random_state, weights, equalising, size)

    monkeypatch.setattr(proxy_search, "minimise_error", record)
    return recorded


@pytest.mark.exhaustive
def test_descents_start_from_equal_weights_if_learned_ones_are_hardly_better(descents):
    """Those that are learned from gradients of a network that predicts nothing are random."""
    X = np.random.default_rng(0).normal(size=(850, 12)).astype(np.float32)
    model = RBFClassifier(100, kernel="laplacian", radius=5.0, alpha=1.0, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1] * X[:, 2] > 0)
    for first, equalising, size in descents:
        np.testing.assert_array_equal(first, equalising)
        assert size == THOROUGH  # a small network would not find anything, either
    assert len(descents) == 1
    descents.clear()
    model.fit(X, X[:, 0] + X[:, 1] ** 2 > 0.5)
    (learned, *_, size), *_ = descents
    assert size == QUICK
    assert learned[:2].min() > 3 * learned[2:].max()


@pytest.mark.parametrize("is_weighted", [False, True])
def test_whether_little_is_predicted_depends_on_sample_weights(is_weighted, monkeypatch):
    """A small network would not find anything then. That of the mean is 0.56, weighted 0.05."""
    sizes, weight = [], None
    if is_weighted:
        weight = np.where(make_samples(1000).targets.class_codes == 0, 1.0, 0.02)
    monkeypatch.setattr(proxy_search, "minimise_error", lambda *given: sizes.append(given[-1]))
    search = ProxySearch.of(
        Job(JIT), make_samples(1000, weight=weight), np.random.default_rng(0), SearchHistory(0.1)
    )
    search._refine(None, np.ones(5), np.ones(5), 0, lowest=0.2, is_required=False)
    assert sizes == [THOROUGH if is_weighted else QUICK]


@pytest.mark.parametrize(("n_samples", "sizes"), [(700, [QUICK, QUICK]), (1500, [QUICK, THOROUGH])])
def test_few_samples_need_one_descent(n_samples, sizes, descents, monkeypatch):
    """The larger network would be the same. The error of the only one must fall by 20 %.

    There are two splits of 700 samples, and one of 1500.
    """
    X = np.random.default_rng(0).normal(size=(n_samples, 10))
    model = RBFClassifier(100, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    assert [size for *_, size in descents] == sizes
    assert model.kernel_ == "laplacian"
    importances = np.sort(model.feature_importances_)
    assert importances[-2] > 10 * importances[-3]
    monkeypatch.setattr(proxy_search, "_MIN_CLASS_GAIN", 1.0)
    monkeypatch.setattr(proxy_search, "_MIN_CLASS_VARIANCE", 1.0)
    unrefined = RBFClassifier(100, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    assert not np.array_equal(unrefined.feature_weights_, model.feature_weights_)


@pytest.mark.parametrize("n_samples", [160, 700])
def test_max_memory_does_not_change_the_weights_of_few_samples(n_samples, monkeypatch):
    monkeypatch.setattr(
        proxy_networks, "_MAX_SPLITS", 1
    )  # each may amplify differences of rounding
    X = np.random.default_rng(0).normal(size=(n_samples, 5))
    y = X[:, 0] * X[:, 1]
    free, tight = (
        RBFRegressor(30, random_state=0, max_memory=limit).fit(X, y).feature_weights_
        for limit in (None, "6MiB")
    )
    assert np.sort(free)[-2] > 10 * np.sort(free)[-3]
    np.testing.assert_allclose(tight, free, rtol=1e-3, atol=1e-4)


def test_refined_weights_are_those_of_the_largest_network_that_fits_in_memory(descents):
    X = np.random.default_rng(0).normal(size=(850, 5))
    y = X[:, 0] * X[:, 1]
    given = {"kernel": "laplacian", "radius": 5.0, "alpha": 1.0}
    model = RBFRegressor(30, feature_weights="refined", random_state=0, **given)
    for limit, expected in (("100MiB", THOROUGH), ("10MiB", QUICK)):
        descents.clear()
        model.set_params(max_memory=limit).fit(X, y)
        assert [size for *_, size in descents] == [expected]
    with pytest.raises(MemoryLimitError, match=r'refining feature weights.*max_memory.*"learned"'):
        model.set_params(max_memory="4MiB").fit(X, y)
    assert model.set_params(feature_weights="learned").fit(X, y).feature_weights_ is not None


def test_noise_is_not_fitted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 20)), rng.normal(size=900)
    model = RBFRegressor(300, random_state=0, device="jit").fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > -0.02
