"""Feature weights that are learned from the gradients of small networks."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.metrics import log_loss

import naive
from contract import Cauchy
from peak_memory import MIB, peak
from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.hidden_layers.feature_weights import (
    equalising_weights,
    learn_weights,
    mean_squared_gradients,
    n_gradient_samples,
    update_weights,
)
from sklearn_fsvc._src.kernels import KERNELS
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

JIT = get_engine("jit")
ALL_KERNELS = [*KERNELS.values(), Cauchy()]
SOME_KERNELS = [KERNELS["triangular"], KERNELS["laplacian"], KERNELS["gaussian"], Cauchy()]
RELEVANT, IRRELEVANT = [3, 7], [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]


def make_samples(n_rows=900, dtype=np.float64, seed=0, **options):
    """Return samples of 12 features, with two classes that depend on the product of two."""
    X = np.random.default_rng(seed).normal(size=(n_rows, 12))
    classes = (X[:, 3] * X[:, 7] > 0).astype(int)
    return Samples(X.astype(dtype), OneHotTargets.of_column(classes, 2), **options)


def learn(samples, metric="manhattan", kernel=KERNELS["laplacian"], engine=JIT, seed=0, **options):
    return learn_weights(Job(engine, **options), samples, metric, kernel, seed)[1]


@pytest.mark.parametrize("kernel", ALL_KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("metric", ["manhattan", "euclidean", "sqeuclidean"])
def test_relevant_features_get_larger_weights(metric, kernel):
    weights = learn(make_samples(), metric, kernel)
    assert weights.shape == (12,)
    assert weights.dtype == np.float64
    assert weights.max() == 1
    assert weights.min() >= 0
    assert weights[RELEVANT].min() > 3 * weights[IRRELEVANT].max()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["manhattan", "euclidean"])
def test_every_engine_learns_the_same(engine, metric, dtype):
    if engine.name == "mkl" and metric == "manhattan":
        pytest.skip("the same code as that of blas, except for matrix products")
    for kernel, expected in learned_by_jit(metric, dtype).items():
        # The slope of a triangle is discontinuous, and distances differ by rounding errors.
        tolerance = (3e-2 if kernel.has_compact_support else 1e-3) if dtype == np.float32 else 1e-8
        if dtype == np.float64 and engine.name.startswith("torch"):
            tolerance = 1e-3  # of products in float32 by another BLAS
        weights = learn(make_samples(400, dtype), metric, kernel, engine)
        np.testing.assert_allclose(weights, expected, rtol=tolerance)


@cache
def learned_by_jit(metric, dtype):
    return {kernel: learn(make_samples(400, dtype), metric, kernel) for kernel in SOME_KERNELS}


def after_another_round(samples, weights):
    """Return the weights after another round."""
    return update_weights(Job(JIT), samples, weights, "manhattan", KERNELS["laplacian"])


def test_a_round_is_the_published_formula():
    samples = make_samples(200)
    codes = samples.targets.class_codes + (samples.X[:, 0] > 1)
    samples = replace(samples, targets=OneHotTargets.of_column(codes, 3))
    X, Y = samples.X, samples.targets.matrix()
    even = X.std(axis=0).min() / X.std(axis=0)
    X = X * even
    d = naive.distances(X, X, "manhattan")
    radius = 0.7 * np.median(d[np.triu_indices(200, 1)])
    W, _ = naive.ridge(naive.rbf(X, X[:100], radius, kernel="laplacian"), Y, 0.1)
    squares = naive.gradients(X, X[:100], W, radius, kernel="laplacian") ** 2
    g = even**2 * squares.sum(axis=1).mean(axis=0)
    np.testing.assert_allclose(after_another_round(samples, even), np.sqrt(g / g.max()), rtol=1e-5)


def test_later_rounds_use_weighted_samples():
    """A round is a first round on samples multiplied by the weights; there are three."""
    samples = make_samples(200).taken(
        np.random.RandomState(0).permutation(200)
    )  # as they are drawn
    even = weights = equalising_weights(samples, JIT)
    for _ in range(3):
        actual = after_another_round(samples, weights)
        first = after_another_round(replace(samples, X=samples.X * weights), np.ones(12)) * weights
        np.testing.assert_allclose(actual, first / first.max(), rtol=1e-6)
        weights = actual
    assert (even != weights).any()
    np.testing.assert_allclose(learn(make_samples(200)), weights, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_invariant_to_units_of_features(dtype):
    """Values that are a thousand times as large get a weight that is a thousandth."""
    samples, units = (
        make_samples(dtype=dtype),
        np.where(np.arange(12) % 3 == 0, 1000, 1).astype(dtype),
    )
    weights, others = learn(samples), units * learn(replace(samples, X=samples.X * units))
    tolerance = 1e-2 if dtype == np.float32 else 1e-7
    np.testing.assert_allclose(others / others.max(), weights, rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_equalising_weights(dtype, engine, rng):
    """Also with sample weights, with an offset, and for several blocks of features."""
    X = (rng.normal(size=(300, 7)) * [1, 2, 3, 4, 5, 0, 7] + 100).astype(dtype)
    X = np.concatenate([X, np.full((300, 5000), 100, dtype), X[:, ::-1]], axis=1)
    weight = rng.integers(0, 3, 300).astype(float)
    samples = Samples(engine.to_device(X), weight=weight)
    spread = np.repeat(X, weight.astype(int), axis=0).std(axis=0, dtype=np.float64)
    varies = np.flatnonzero(spread)
    assert len(varies) == 12
    actual = equalising_weights(samples, engine)
    assert not np.delete(actual, varies).any()
    np.testing.assert_allclose(actual[varies], spread[varies].min() / spread[varies], rtol=1e-6)


def test_equalising_weights_of_constant_samples(rng):
    np.testing.assert_array_equal(equalising_weights(Samples(np.full((5, 3), 0.1)), JIT), 1)
    X = rng.normal(size=(9, 1)) * [1, 1e300]
    np.testing.assert_allclose(equalising_weights(Samples(X), JIT), [1, 1e-300])


def test_a_constant_feature_has_no_deviation(rng):
    """The mean of many equal numbers is rounded, and differs from them."""
    X = np.column_stack([rng.normal(size=4000), np.full(4000, 0.1), np.full(4000, 1e3)])
    for weight in (None, rng.random(4000)):
        np.testing.assert_array_equal(equalising_weights(Samples(X, weight=weight), JIT), [1, 0, 0])


def test_samples_of_weight_0_are_ignored(rng):
    samples = make_samples()
    keep = rng.random(900) < 0.6
    lies = OneHotTargets.of_column(np.where(keep, samples.targets.class_codes, 0), 2)
    weighted = replace(samples, targets=lies, weight=keep.astype(float))
    absent = Samples(samples.X[keep], OneHotTargets.of_column(samples.targets.class_codes[keep], 2))
    np.testing.assert_allclose(learn(weighted), learn(absent), rtol=1e-9)


def test_sample_weights_are_used():
    """Samples of the other half have almost no weight."""
    samples = make_samples()
    codes = np.where(np.arange(900) < 450, samples.X[:, 0] > 0, samples.X[:, 5] > 0).astype(int)
    for most, cause in ((slice(450), 0), (slice(450, 900), 5)):
        weight = np.full(900, 1e-3)
        weight[most] = 1
        mixed = replace(samples, targets=OneHotTargets.of_column(codes, 2), weight=weight)
        assert learn(mixed).argmax() == cause


def test_memory_mapped_uint8_data(tmp_path):
    samples = make_samples()
    X = np.clip(samples.X * 40 + 128, 0, 255).astype(np.uint8)
    file = np.memmap(tmp_path / "X", np.uint8, "w+", shape=X.shape)
    file[:] = X
    file.flush()
    file = np.memmap(tmp_path / "X", np.uint8, "r", shape=X.shape)
    weights = learn(replace(samples, X=file))
    wide = learn(replace(samples, X=X.astype(np.float32)))
    np.testing.assert_array_equal(weights, wide)
    assert weights[RELEVANT].min() > 4 * weights[IRRELEVANT].max()


@pytest.mark.parametrize("metric", ["manhattan", "euclidean", "sqeuclidean"])
def test_a_constant_feature_is_harmless(metric):
    samples = make_samples()
    samples.X[:, 5] = 1e6
    weights = learn(samples, metric)
    assert np.isfinite(weights).all()
    assert weights[RELEVANT].min() > 4 * np.delete(weights, RELEVANT).max()


@pytest.mark.parametrize(
    "change",
    [lambda X: np.zeros_like(X), lambda X: X[:1]],
    ids=["equal", "one"],
)
def test_uninformative_samples_leave_the_initial_weights(change):
    X = change(make_samples().X)
    targets = OneHotTargets.of_column(np.arange(len(X)) % 2, 2)
    samples = Samples(X, targets)
    np.testing.assert_allclose(learn(samples), equalising_weights(samples, JIT), rtol=1e-12)


@pytest.mark.parametrize("exponent", [-660, 660])
def test_weights_are_invariant_to_the_unit_of_X(exponent):
    """The squares of samples and gradients overflow or underflow."""
    samples = make_samples()
    far = replace(samples, X=np.ldexp(samples.X.astype(float), exponent))
    expected = learn(replace(samples, X=samples.X.astype(float)))
    np.testing.assert_allclose(learn(far), expected, rtol=1e-6)


def test_deviations_that_no_weights_equalise_are_an_error():
    samples = make_samples()
    X = samples.X.astype(np.float32)
    X[:, 1] *= np.float32(1e-20)
    X[:, 4] *= np.float32(1e20)
    with pytest.raises(ValueError, match=r"Feature 1 of X has .* and feature 4 one of .*Scale"):
        learn(replace(samples, X=X))


@pytest.mark.parametrize("seed", [0, 7])
def test_weights_of_many_features_of_noise_are_not_selected(seed):
    """Random labels: weights of features that correlate by chance would be overconfident."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(1150, 300)), rng.integers(2, size=1150)
    model = RBFClassifier(random_state=0).fit(X[:150], y[:150])
    assert log_loss(y[150:], model.predict_proba(X[150:])) < np.log(2) + 0.01


def test_random_state_draws_the_subset():
    samples = make_samples(1500)
    # Of so many outputs, 909 samples are used.
    samples = replace(samples, targets=OneHotTargets.of_column(samples.targets.class_codes, 41))
    weights = learn(samples)
    np.testing.assert_array_equal(learn(samples), weights)
    assert np.abs(weights - learn(samples, seed=1)).max() > 1e-3


@pytest.mark.parametrize(("n_outputs", "n_samples"), [(2, 4000), (41, 909), (200, 500)])
def test_gradients_of_many_outputs_are_computed_at_fewer_samples(n_outputs, n_samples):
    samples = make_samples(4000)
    assert (
        n_gradient_samples(
            replace(
                samples, targets=OneHotTargets.of_column(samples.targets.class_codes, n_outputs)
            )
        )
        == n_samples
    )


def test_only_a_subset_of_many_samples_is_used(monkeypatch):
    """And gradients are computed at samples that are not centres."""
    samples, subset = make_samples(5000), []
    samples = replace(samples, targets=OneHotTargets.of_column(samples.targets.class_codes, 41))

    def gradients(job, layer, W, drawn, rows):
        subset.append((len(drawn), layer.n_units, rows[0], len(rows)))
        return mean_squared_gradients(job, layer, W, drawn, rows)

    monkeypatch.setattr(
        "sklearn_fsvc._src.hidden_layers.feature_weights.mean_squared_gradients", gradients
    )
    learn(samples)
    assert subset == [(4000, 600, 4000 - 909, 909)] * 3


@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.exhaustive)]
)
def test_the_memory_limit_is_kept(dtype):
    samples, limit = make_samples(20_000, dtype), int((10.5 if dtype == np.float32 else 19) * MIB)
    learn(make_samples(300, dtype))  # compiles before the measurement
    weights, free = peak(learn, samples)
    assert free > limit
    bounded, most = peak(lambda: learn(samples, max_memory=limit))
    assert most <= limit + 20_000 * 16  # row indices, and their order
    np.testing.assert_allclose(bounded, weights, rtol=1e-3)
    with pytest.raises(
        ValueError,
        match=r"learning feature weights needs .* max_memory, or set feature_weights=None",
    ):
        learn(samples, max_memory=3 * MIB)


@pytest.mark.parametrize("metric", ["manhattan", "euclidean"])
@pytest.mark.parametrize("tile_bytes", [None, 40_000])
def test_mean_squared_gradients(engine, rng, metric, tile_bytes):
    """Over a subset of uint8 rows, with weights, and tile by tile."""
    X = rng.integers(0, 9, (300, 5)).astype(np.uint8)
    weights, W = rng.random(5).astype(np.float32), rng.normal(size=(2, 20))
    layer = RBFLayer(X[:20] * weights, 3.0, metric, "laplacian", weights)
    rows, weight = rng.permutation(300)[:200], rng.random(300)
    squares = naive.squared_gradients(layer, X * weights, W)
    limit = None
    if tile_bytes:
        limit = engine.prepared_bytes(layer.distances) + tile_bytes
    job = Job(engine, limit)
    actual = mean_squared_gradients(job, layer, W, Samples(X), rows)
    np.testing.assert_allclose(actual, squares[rows].mean(axis=0), rtol=1e-4)
    actual = mean_squared_gradients(job, layer, W, Samples(X, weight=weight), rows)
    expected = np.average(squares[rows], axis=0, weights=weight[rows])
    np.testing.assert_allclose(actual, expected, rtol=1e-4)
    actual = mean_squared_gradients(job, layer, W, Samples(engine.to_device(X)))
    np.testing.assert_allclose(actual, squares.mean(axis=0), rtol=1e-4)
