"""A learned linear map: gradients, what it finds, when it is not taken, and what it may cost."""

from dataclasses import replace

import numpy as np
import pytest

import naive
from allocated import MIB, peak
from sklearn_fsvc import TanhRegressor
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.hidden_layers import linear_map
from sklearn_fsvc._src.hidden_layers.feature_weights import (
    mean_outer_product,
    mean_squared_gradients,
)
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc._src.targets.validation import ClassTargets, NumberTargets
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")
DIRECTIONS = np.linalg.qr(np.random.default_rng(7).normal(size=(12, 2)))[0]


def made(n_rows=900, dtype=np.float64, **how):
    """Rows of 12 features, and numbers that depend on two combinations of all of them."""
    X = np.random.default_rng(0).normal(size=(n_rows, 12))
    a, b = (X @ DIRECTIONS).T
    y = np.sin(2 * a) + b**2
    return Samples(X.astype(dtype), NumberTargets.standardise(y[:, None].copy()), **how)


def learned(samples, engine=JIT, seed=0, **how):
    return linear_map.learn(Job(engine, **how), samples, np.random.default_rng(seed))


def part_within(A):
    """How much of the map is of the planted directions."""
    return np.linalg.norm(A @ DIRECTIONS) / np.linalg.norm(A)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_mean_outer_product(engine, rng, metric, kernel):
    """Of all outputs, over rows that are some of all, weighted, and tile by tile."""
    X, W = rng.normal(size=(300, 5)), rng.normal(size=(3, 40))
    layer = RBFLayer(X[:40], 2.0, metric, kernel)
    rows, weight = rng.permutation(300)[:200], rng.random(300)
    G = naive.gradients(X, X[:40], W, 2.0, metric, kernel)
    products = np.einsum("iok,iol->ikl", G, G)
    limit = engine.prepared_bytes(layer.distances) + 40_000
    for job in (Job(engine), Job(engine, limit)):
        found = mean_outer_product(job, layer, W, Samples(X), rows)
        np.testing.assert_allclose(found, products[rows].mean(axis=0), rtol=1e-7, atol=1e-12)
        found = mean_outer_product(job, layer, W, Samples(X, weight=weight), rows)
        expected = np.average(products[rows], axis=0, weights=weight[rows])
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)
    squares = mean_squared_gradients(Job(engine), layer, W, Samples(X))
    found = mean_outer_product(Job(engine), layer, W, Samples(engine.to_device(X)))
    np.testing.assert_allclose(np.diag(found), squares, rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_planted_directions_are_found(dtype):
    A = learned(made(dtype=dtype))
    assert A.dtype == np.float64
    assert np.abs(A).max() == 1
    assert part_within(A) > 0.97
    values = np.linalg.svd(A, compute_uv=False)
    assert values[1] > 5 * values[2]


def test_a_map_that_does_not_help_is_not_taken(rng):
    """Where all directions matter alike, and where nothing does."""
    X = rng.normal(size=(900, 4))
    for y in (np.cos(np.linalg.norm(X, axis=1)), rng.normal(size=900)):
        found = learned(Samples(X, NumberTargets.standardise(y[:, None].copy())))
        assert found is None or found.ndim == 1


def test_equal_spread_is_taken_where_it_alone_helps(rng):
    X = rng.normal(size=(900, 3)) * [1, 1, 1000]
    y = np.cos(np.linalg.norm(X / [1, 1, 1000], axis=1))
    found = learned(Samples(X, NumberTargets.standardise(y[:, None].copy())))
    found = found if found.ndim == 1 else found.diagonal()  # of a map that hardly turns anything
    np.testing.assert_allclose(found, [1, 1, 1e-3], rtol=0.2)


def test_a_later_round_must_lower_the_error(monkeypatch):
    """It is the map of the best round, and no round comes after one that gains nothing."""
    tried, fit = [], linear_map._Rows.fit

    def with_error(self, A):
        network = replace(fit(self, A), error=next(errors))
        tried.append(A)
        return network

    monkeypatch.setattr(linear_map._Rows, "fit", with_error)
    # As they are, of equal spread, two rounds of weights of which the first gains nothing, maps.
    errors = iter([5.0, 4.0, 4.5, 3.0, 2.0, 1.99, 0.1])
    found = learned(made(300))
    assert [np.ndim(A) for A in tried] == [1, 1, 1, 1, 2, 2]
    even = 1 / made(300).X.std(axis=0)
    expected = even[:, None] * tried[4]
    np.testing.assert_allclose(found, expected / np.abs(expected).max(), rtol=1e-9)
    errors = iter([4.0, 5.0, 3.99, 3.99, 3.99, 0.1])
    assert learned(made(300)) is None
    tried.clear()
    errors = iter([5.0, 4.0, 3.5, 3.0, 2.99, 0.1])  # no map is better than weights
    found, expected = learned(made(300)), even * tried[3]
    np.testing.assert_allclose(found, expected / expected.max(), rtol=1e-9)


def test_a_round_as_it_is_on_paper(monkeypatch):
    """The root after one round, of features of one spread that are centred."""
    monkeypatch.setattr(linear_map, "search_penalty", lambda *_: Found)
    samples = made(300)
    probe = linear_map._Rows.draw(Job(JIT), samples, np.random.default_rng(0))
    network = probe.fit(np.ones(12))
    R = linear_map._root(network.outer_product())
    even = samples.X.std(axis=0).min() / samples.X.std(axis=0)
    X = samples.X * even - (samples.X * even).mean(axis=0)
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
    weights = linear_map._root_of_diagonal(network.outer_product())
    np.testing.assert_allclose(weights**2, M.diagonal() / M.diagonal().max(), atol=1e-5)


class Found:
    alpha, error = 0.3, 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_engine_learns_the_same(engine, dtype):
    A = learned(made(600, dtype), engine)
    # Small networks are trained on sums in float32, which a GPU adds up in another order.
    tolerance = 1e-7 if dtype == np.float64 and engine.xp is np else 2e-3
    np.testing.assert_allclose(A, learned(made(600, dtype)), atol=tolerance)


def test_units_and_origins_of_features_do_not_matter():
    samples, units = made(), np.where(np.arange(12) % 3 == 0, 1000.0, 1)
    A, B = learned(samples), learned(replace(samples, X=samples.X * units + 10))
    B *= units[:, None]
    # Sums are in float32, and each round adds to what the ones before it have rounded.
    np.testing.assert_allclose(B / np.abs(B).max(), A, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_huge_and_tiny_numbers(scale):
    samples = made(600)
    expected = learned(samples)
    assert expected.ndim == 2
    np.testing.assert_allclose(learned(replace(samples, X=samples.X * scale)), expected, rtol=1e-5)


def test_a_constant_feature_has_no_part_in_it():
    samples = made(dtype=np.float32)
    samples.X[:, 5] = 0.1
    A = learned(samples)
    assert not A[5].any()
    assert np.isfinite(A).all()


@pytest.mark.parametrize("change", [np.zeros_like, lambda X: X[:2]], ids=["equal", "two"])
def test_rows_that_tell_nothing(change):
    X = change(made().X)
    found = learned(Samples(X, ClassTargets(np.arange(len(X)) % 2, 2)))
    assert found is None or np.isfinite(found).all()


def test_rows_of_weight_0_are_as_good_as_absent(rng):
    samples, keep = made(), rng.random(900) < 0.6
    values = np.where(keep[:, None], samples.targets.values, 1e3)
    weighted = replace(
        samples, targets=replace(samples.targets, values=values), weight=keep.astype(float)
    )
    absent = samples.taken(np.flatnonzero(keep))
    np.testing.assert_allclose(learned(weighted), learned(absent), rtol=1e-6, atol=1e-9)


def test_random_state_draws_the_rows(monkeypatch):
    monkeypatch.setattr(linear_map, "_ROWS", 300)
    samples = made()
    np.testing.assert_array_equal(learned(samples), learned(samples))
    assert np.abs(learned(samples) - learned(samples, seed=1)).max() > 1e-3


def test_the_budget_is_kept():
    samples, limit = made(20_000), 64 * MIB
    learned(made(300))  # compiled before it is measured
    A, free = peak(learned, samples)
    assert free > limit
    bounded, most = peak(lambda: learned(samples, max_memory=limit))
    assert most <= limit + 20_000 * 32  # the numbers of the rows, and their order
    np.testing.assert_allclose(bounded, A, atol=1e-3)  # float32, added up in other parts
    with pytest.raises(ValueError, match=r"learning a linear map needs .* feature_weights=None"):
        learned(samples, max_memory=MIB)


def test_too_many_features():
    X = np.ones((60, 501))
    with pytest.raises(ValueError, match='501, more than 500; use "learned"'):
        learned(Samples(X, ClassTargets(np.arange(60) % 2, 2)))


def test_combinations_are_found_among_many_useless_features(rng):
    """Where a network without weights sees nothing but noise."""
    X = rng.normal(size=(1400, 60))
    y = np.tanh(X[:, 0] + X[:, 1]) * X[:, 2]
    model = TanhRegressor(500, feature_weights="map", random_state=0, device="jit")
    assert model.fit(X[:900], y[:900]).score(X[900:], y[900:]) > 0.9
