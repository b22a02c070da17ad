"""The learned linear map of the features."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import naive
from peak_memory import MIB, peak
from sklearn_fsvc import RBFRegressor, TanhRegressor
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.hidden_layers import linear_map
from sklearn_fsvc._src.hidden_layers.feature_weights import (
    mean_outer_product,
    mean_squared_gradients,
)
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc._src.targets.encoding import OneHotTargets, StandardisedTargets
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")
DIRECTIONS = np.linalg.qr(np.random.default_rng(7).normal(size=(12, 2)))[0]


def make_samples(n_rows=900, dtype=np.float64, **options):
    """Return samples of 12 features whose target depends on two combinations of them."""
    X = np.random.default_rng(0).normal(size=(n_rows, 12))
    a, b = (X @ DIRECTIONS).T
    y = np.sin(2 * a) + b**2
    return Samples(X.astype(dtype), StandardisedTargets.standardise(y[:, None].copy()), **options)


def split_of(samples):
    """Return training and validation rows."""
    rows = np.random.default_rng(1).permutation(samples.rows_with_weight)
    n_held = max(1, len(rows) // 6)
    return np.sort(rows[n_held:]), np.sort(rows[:n_held])


def data_of(samples):
    return linear_map.MapData.of(Job(JIT), samples, np.random.default_rng(0), split_of(samples))


def learn(samples, engine=JIT, seed=0, weights=None, **options):
    """Return the map, or None."""
    job, random = Job(engine, **options), np.random.default_rng(seed)
    learned = linear_map.learn_map(job, samples, weights, random, split_of(samples))
    return learned and learned[0]


def part_within(A):
    """Return the fraction of the norm of the map along the planted directions."""
    return np.linalg.norm(A @ DIRECTIONS) / np.linalg.norm(A)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_mean_outer_product(engine, rng, metric, kernel):
    """Over several outputs and a subset of the rows, with weights, and tile by tile."""
    X, W = rng.normal(size=(300, 5)), rng.normal(size=(3, 40))
    layer = RBFLayer(X[:40], 2.0, metric, kernel)
    rows, weight = rng.permutation(300)[:200], rng.random(300)
    G = naive.gradients(X, X[:40], W, 2.0, metric, kernel)
    products = np.einsum("iok,iol->ikl", G, G)
    limit = engine.prepared_bytes(layer.distances) + 40_000
    for job in (Job(engine), Job(engine, limit)):
        result = mean_outer_product(job, layer, W, Samples(X), rows)
        np.testing.assert_allclose(result, products[rows].mean(axis=0), rtol=1e-7, atol=1e-12)
        result = mean_outer_product(job, layer, W, Samples(X, weight=weight), rows)
        expected = np.average(products[rows], axis=0, weights=weight[rows])
        np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-12)
    squares = mean_squared_gradients(Job(engine), layer, W, Samples(X))
    result = mean_outer_product(Job(engine), layer, W, Samples(engine.to_device(X)))
    np.testing.assert_allclose(np.diag(result), squares, rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_map_finds_planted_directions(dtype):
    A = learn(make_samples(dtype=dtype))
    assert A.dtype == np.float64
    assert np.abs(A).max() == 1
    assert part_within(A) > 0.97
    values = np.linalg.svd(A, compute_uv=False)
    assert values[1] > 5 * values[2]


def test_a_map_that_does_not_help_is_not_used(rng):
    """With an isotropic target, and with noise."""
    X = rng.normal(size=(900, 4))
    for y in (np.cos(np.linalg.norm(X, axis=1)), rng.normal(size=900)):
        assert learn(Samples(X, StandardisedTargets.standardise(y[:, None].copy()))) is None


def learn_with_errors(monkeypatch, errors):
    """Learn with these validation errors; return the map and all transformations."""
    transformations, errors = [], iter(errors)
    fit_network = linear_map.MapData.fit_network

    def fit_with_error(self, R):
        transformations.append(R)
        return replace(fit_network(self, R), error=next(errors))

    with monkeypatch.context() as context:
        context.setattr(linear_map.MapData, "fit_network", fit_with_error)
        return learn(make_samples(300), weights=np.arange(1.0, 13)), transformations


# Validation errors: of the network with weights; of maps until one is not lower by 1 %; if the
# first one is, of two networks with updated weights, and of maps after these. Then the index of the
# best transformation.
@pytest.mark.parametrize(
    ("errors", "best"),
    [
        ([4.0, 3.97], None),
        ([4.0, 3.95, 3.95, 9.0, 9.0, 3.97], 1),
        ([4.0, 3.0, 2.98, 9.0, 9.0, 2.5, 2.49], 5),
        ([4.0, 3.0, 2.98, 9.0, 9.0, 3.5, 3.4, 3.39], 1),
        ([4.0, 3.0, 2.0, 1.0, 0.5, 9.0, 9.0, 3.5, 2.5, 1.5, 0.6], 4),
    ],
)
def test_each_round_must_lower_the_error(monkeypatch, errors, best):
    samples = make_samples(300)
    deviations = samples.X[np.sort(np.concatenate(split_of(samples)))].std(axis=0)
    A, transformations = learn_with_errors(monkeypatch, [*errors, 0.0])
    assert len(transformations) == len(errors)
    is_vector = [np.ndim(R) == 1 for R in transformations]
    assert is_vector == [k == 0 or error == 9 for k, error in enumerate(errors)]
    # The first network has the weights that are continued, of features with equal deviations.
    weights = np.arange(1, 13) * deviations
    np.testing.assert_allclose(transformations[0], weights / weights.max())
    if best is None:
        assert A is None
    else:
        expected = transformations[best] / deviations[:, None]
        np.testing.assert_allclose(A, expected / np.abs(expected).max(), rtol=1e-9)


def test_a_round_is_the_published_formula(monkeypatch):
    """The square root of the AGOP, of centred features with equal deviations."""
    monkeypatch.setattr(linear_map, "search_penalty", lambda *_: Found)
    samples = make_samples(300)
    network = data_of(samples).fit_network(np.ones(12))
    R = linear_map.matrix_root(network.gradient_outer_product())
    equalising = samples.X.std(axis=0).min() / samples.X.std(axis=0)
    X = samples.X * equalising - (samples.X * equalising).mean(axis=0)
    rows = np.sort(network.samples.order)
    X /= np.abs(X).max()
    C = X[network.samples.order[:125]]
    np.testing.assert_allclose(network.layer.units, C, rtol=1e-9, atol=1e-12)
    H = naive.rbf(X[rows], C, network.layer.radius, "euclidean", "laplacian")
    W, _ = naive.ridge(H, samples.targets.matrix(rows), 0.3)
    G = naive.gradients(X[rows], C, W, network.layer.radius, "euclidean", "laplacian")
    M = np.einsum("iok,iol->kl", G, G)
    np.testing.assert_allclose(R, R.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(R @ R / np.trace(R @ R), M / np.trace(M), atol=1e-6)


class Found:
    alpha, error = 0.3, 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_engine_learns_the_same(engine, dtype):
    A = learn(make_samples(600, dtype), engine)
    # The statistics of the networks are float32, and a GPU sums in another order.
    tolerance = 1e-7 if dtype == np.float64 and engine.xp is np else 2e-3
    np.testing.assert_allclose(A, learned_by_jit(dtype), atol=tolerance)


@cache
def learned_by_jit(dtype):
    return learn(make_samples(600, dtype))


def test_the_map_is_invariant_to_units_and_offsets():
    """If the weights that it continues are."""
    samples, units = make_samples(600), np.where(np.arange(12) % 3 == 0, 1000.0, 1)
    changed = replace(samples, X=samples.X * units + 10)
    A, B = learned_by_jit(float), learn(changed, weights=1 / units)
    B *= units[:, None]
    # Statistics are float32, and rounding errors accumulate over rounds.
    np.testing.assert_allclose(B / np.abs(B).max(), A, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_huge_and_tiny_values(scale):
    samples = make_samples(600)
    expected = learned_by_jit(float)
    np.testing.assert_allclose(learn(replace(samples, X=samples.X * scale)), expected, rtol=1e-5)


def test_a_constant_feature_has_no_weight():
    samples = make_samples(dtype=np.float32)
    samples.X[:, 5] = 0.1
    A = learn(samples)
    assert not A[5].any()
    assert np.isfinite(A).all()


@pytest.mark.parametrize("change", [np.zeros_like, lambda X: X[:2]], ids=["equal", "two"])
def test_uninformative_samples(change):
    X = change(make_samples().X)
    result = learn(Samples(X, OneHotTargets.of_column(np.arange(len(X)) % 2, 2)))
    assert result is None or np.isfinite(result).all()


def test_samples_of_weight_0_are_ignored(rng):
    samples, keep = make_samples(), rng.random(900) < 0.6
    values = np.where(keep[:, None], samples.targets.values, 1e3)
    weighted = replace(
        samples, targets=replace(samples.targets, values=values), weight=keep.astype(float)
    )
    absent = samples.taken(np.flatnonzero(keep))
    np.testing.assert_allclose(learn(weighted), learn(absent), rtol=1e-6, atol=1e-9)


def test_random_state_draws_the_centres():
    samples = make_samples(600)  # more than are centres
    A = learn(samples)
    np.testing.assert_array_equal(learn(samples), A)
    assert np.abs(learn(samples, seed=1) - A).max() > 1e-3


@pytest.mark.exhaustive
def test_the_memory_limit_is_kept():
    samples, limit = make_samples(6000), 40 * MIB
    learn(make_samples(300))  # compiles before the measurement
    assert linear_map.map_bytes(6000, 12) < limit
    A, free = peak(learn, samples)
    bounded, most = peak(lambda: learn(samples, max_memory=limit))
    assert most <= limit < free
    np.testing.assert_allclose(bounded, A, atol=1e-3)  # float32, summed in other parts


@pytest.mark.parametrize("estimator", [RBFRegressor, TanhRegressor])
def test_a_map_that_is_requested_is_refused_if_it_does_not_fit(estimator):
    X = np.random.default_rng(0).normal(size=(600, 501))
    model = estimator(20, feature_weights="map", device="jit")
    with pytest.raises(ValueError, match='at most 500 features, and X has 501; use "learned"'):
        model.fit(X, X[:, 0])
    model.set_params(max_memory=6 * MIB)
    with pytest.raises(ValueError, match=r"learning a linear map needs .*\"learned\""):
        model.fit(X[:, :20], X[:, 0])


def test_combinations_are_found_among_many_irrelevant_features(rng):
    """The distances of a network without weights are dominated by noise."""
    X = rng.normal(size=(1400, 60))
    y = np.tanh(X[:, 0] + X[:, 1]) * X[:, 2]
    model = TanhRegressor(500, feature_weights="map", random_state=0, device="jit")
    assert model.fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.9
