"""Standard deviations of regressors: their formula, coverage and memory."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import BayesianRidge

import naive
from fake_sources import TiledArray
from peak_memory import MIB, PER_ROW, peak
from readouts.brute_force import unit_at_sample, without_each_row
from sklearn_fsvc import RBFRegressor, TanhRegressor
from sklearn_fsvc._src.readouts.linear import Posterior, StdPredictor
from sklearn_fsvc.engines import get_engine

REGRESSORS = [
    RBFRegressor(
        20, selection="random", kernel="laplacian", radius=2.0, feature_weights=None, alpha=0.3,
        uncertainty=True, random_state=0,
    ),
    TanhRegressor(
        20, feature_weights=None, scale=0.5, alpha=0.3, uncertainty=True, random_state=0
    ),
]  # fmt: skip
N = 60
FIT, PREDICT = 10 * MIB, 4 * MIB


@pytest.fixture(params=REGRESSORS, ids=lambda r: type(r).__name__)
def regressor(request):
    return clone(request.param)


@pytest.fixture
def rows(rng):
    """Return X, Y with two outputs of different units, weights (some are 0), and new samples."""
    X = rng.normal(size=(N, 3))
    Y = np.column_stack([np.sin(X[:, 0]), 1e3 * X[:, 1] * X[:, 2]])
    Y += rng.normal(size=Y.shape) * [0.2, 100]
    weight = rng.random(N) * rng.integers(0, 4, N) * 2
    return X, Y, weight, 2 * rng.normal(size=(30, 3))


def naive_deviations(model, X, Y, new, weight=None):
    """Return deviations by their formula; the noise is estimated by leave-one-out residuals.

    A left-out sample leaves out the unit that is centred there. Weights are those of mean 1, with
    a penalty for these.
    """
    w, alpha = np.ones(len(X)), model.alpha_
    if weight is not None:
        mean_weight = weight[weight > 0].mean()
        w, alpha = weight / mean_weight, alpha / mean_weight
    mean_y = np.average(Y, axis=0, weights=w)
    scale = np.sqrt(np.average((Y - mean_y) ** 2, axis=0, weights=w))
    H, Z = naive.of_model(model, X), (Y - mean_y) / scale
    own, residual = unit_at_sample(model, len(X)), np.empty(Z.shape)
    for i, unit in enumerate(own):
        kept = np.arange(H.shape[1]) != unit
        W, b = naive.ridge(H[:, kept], Z, alpha, w)
        residual[i] = Z[i] - H[i, kept] @ W.T - b
    left = Z - without_each_row(H, Z, alpha, w, own)
    one_minus_leverage = residual / left  # the same for all outputs
    noise = (w[:, None] * one_minus_leverage * residual**2).sum(axis=0) / (
        w[:, None] * one_minus_leverage**2
    ).sum(axis=0)
    noise = np.sqrt(noise)
    mean = np.average(H, axis=0, weights=w)
    A = (w[:, None] * (H - mean)).T @ (H - mean) + alpha * np.eye(H.shape[1])
    D = naive.of_model(model, new) - mean
    variances = np.einsum("ij,jk,ik->i", D, np.linalg.inv(A), D)
    return np.sqrt(1 + 1 / w.sum() + variances)[:, None] * noise * scale


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.3, [1e-3, 0.1, 10.0], "loo", "auto"], ids=str)
def test_deviations_equal_the_formula(device, regressor, rows, alpha, weighted):
    X, Y, weight, new = rows
    weight = weight if weighted else None
    model = regressor.set_params(device=device, alpha=alpha).fit(X, Y, weight)
    predictions, deviations = model.predict(new, return_std=True)
    assert deviations.dtype == np.float64
    np.testing.assert_allclose(
        deviations, naive_deviations(model, X, Y, new, weight), rtol=1e-7
    )  # fmt: skip
    np.testing.assert_allclose(predictions, model.predict(new), rtol=1e-9)
    root, mean, _, noise = model.posterior_
    assert root.shape == (20, 20)
    assert (mean.shape, noise.shape) == ((20,), (2,))
    assert all(type(each) is np.ndarray for each in (root, mean, noise))  # on the host


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_samples_of_low_precision(device, regressor, rows, dtype):
    X, Y, _, new = rows
    X, new = ((40 * each + 128).clip(0, 255).astype(dtype) for each in (X, new))
    regressor.set_params(device=device, **{"radius": 80.0} if "radius" in vars(regressor) else {})
    model = regressor.fit(X, Y)
    expected = naive_deviations(model, X, Y, new)
    for other in (dtype, np.float32, np.float64):
        actual = model.predict(new.astype(other), return_std=True)[1]
        np.testing.assert_allclose(actual, expected, rtol=1e-4)


def test_one_output(regressor, rows):
    X, Y, _, new = rows
    expected = clone(regressor).fit(X, Y).predict(new, return_std=True)[1]
    for y, shape in ((Y[:, 1], (30,)), (Y[:, 1:], (30, 1))):
        actual = clone(regressor).fit(X, y).predict(new, return_std=True)[1]
        assert actual.shape == shape
        np.testing.assert_allclose(actual.ravel(), expected[:, 1], rtol=1e-9)


def test_predictions_equal_those_of_a_gaussian_process_on_the_hidden_layer(regressor, rows):
    """With the same prior and noise. H is centred, and the prior of the intercept nearly flat."""
    X, Y, _, new = rows
    y = Y[:, 0]
    model = regressor.fit(X, y)
    predictions, deviations = model.predict(new, return_std=True)
    noise = model.posterior_.noise[0]
    H, H_new = (naive.of_model(model, each) for each in (X, new))
    # The prior variance of weights is noise^2 / alpha, that of the intercept is much larger.
    kernel = ConstantKernel(noise**2 / model.alpha_) * DotProduct(1e3) + WhiteKernel(noise**2)
    centre = H.mean(axis=0)
    process = GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(H - centre, y)
    expected, expected_std = process.predict(H_new - centre, return_std=True)
    np.testing.assert_allclose(predictions, expected, atol=1e-5)
    np.testing.assert_allclose(deviations, expected_std, rtol=1e-5)


def test_deviations_equal_those_of_bayesian_ridge(regressor, rows):
    """Except for the variance of the mean, noise^2 / n, which BayesianRidge does not include."""
    X, Y, _, new = rows
    model = regressor.set_params(alpha="loo").fit(X, Y[:, 0])
    H, H_new = (naive.of_model(model, each) for each in (X, new))
    scale = model.target_scale_
    noise = model.posterior_.noise[0] / scale
    other = BayesianRidge(
        max_iter=1, alpha_init=noise**-2, lambda_init=model.alpha_ * noise**-2,
        alpha_1=1e12, alpha_2=1e12 * noise**2,  # a prior that fixes both precisions
        lambda_1=1e12, lambda_2=1e12 * noise**2 / model.alpha_,
    ).fit(H, Y[:, 0] / scale)  # fmt: skip
    predictions, deviations = model.predict(new, return_std=True)
    expected, expected_std = other.predict(H_new, return_std=True)
    np.testing.assert_allclose(predictions / scale, expected, atol=1e-6)
    expected_std = np.sqrt(expected_std**2 + noise**2 / N)
    np.testing.assert_allclose(deviations / scale, expected_std, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_coverage_of_intervals(weighted):
    """Intervals of 90 % contain 90 % of new samples: half or twice the width has 59 or 99.9 %."""
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-1, 1, (500, 2)), rng.uniform(-1, 1, (20_000, 2))

    def noisy(X):
        smooth = np.column_stack([np.sin(3 * X[:, 0]), X[:, 0] * X[:, 1]])
        return (smooth + 0.5 * rng.normal(size=smooth.shape)) * [1.0, 1e4]

    repetitions = rng.integers(1, 3, 500) if weighted else None
    Y, Y_new = noisy(X), noisy(new)
    # With many units the readout fits the noise, which must not reduce its estimate.
    model = TanhRegressor(
        250, feature_weights=None, alpha="loo", uncertainty=True, random_state=0
    ).fit(X, Y, repetitions)
    predictions, deviations = model.predict(new, return_std=True)
    coverage = (np.abs(Y_new - predictions) < 1.6449 * deviations).mean(axis=0)
    assert (np.abs(coverage - 0.9) < 0.03).all()
    np.testing.assert_allclose(model.posterior_.noise, [0.5, 5e3], rtol=0.1)


def test_deviations_increase_away_from_the_training_samples():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    model = TanhRegressor(
        50, feature_weights=None, alpha=0.1, uncertainty=True, random_state=0
    ).fit(X, X[:, 0] ** 3)
    _, deviations = model.predict([[0.0], [2.0], [4.0]], return_std=True)
    assert deviations[0] < deviations[1] < deviations[2]


def test_overfitting_does_not_reduce_the_estimated_noise():
    """With many units and a small penalty, training residuals are smaller than the noise."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(120, 3)), rng.normal(size=(4000, 3))
    y = rng.normal(size=120)
    model = TanhRegressor(
        60, feature_weights=None, scale=0.5, alpha=1e-2, uncertainty=True, random_state=0
    ).fit(X, y)
    assert (y - model.predict(X)).std() < 0.8
    predictions, deviations = model.predict(new, return_std=True)
    assert 0.8 < np.mean(((rng.normal(size=4000) - predictions) / deviations) ** 2) < 1.25


@pytest.mark.parametrize("alpha", [1e-10, 1e-6])
def test_as_many_units_as_samples(alpha, rng):
    """Leverages are near 1: those of float32 activations are computed in float64, too."""
    X = rng.normal(size=(20, 4)).astype(np.float32)
    y = np.sin(X[:, 0].astype(float))
    model = TanhRegressor(20, feature_weights=None, alpha=alpha, uncertainty=True, random_state=0)
    _, expected = model.fit(X.astype(float), y).predict(X.astype(float), return_std=True)
    _, actual = model.fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(actual, expected, rtol=0.1)


@pytest.mark.parametrize("weight", [None, [1, 0, 0]])
def test_a_single_sample_has_no_residual(weight):
    n = 1 if weight is None else 3
    model = TanhRegressor(5, feature_weights=None, alpha=0.1, uncertainty=True, random_state=0)
    with pytest.raises(ValueError, match=r"uncertainty=True .* leave-one-out .* two samples"):
        model.fit(np.eye(3)[:n], np.arange(3.0)[:n], weight)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("size", [1, 7])
def test_results_do_not_depend_on_tiles(regressor, rows, size):
    X, Y, weight, new = rows
    whole = clone(regressor).fit(X, Y, weight).predict(new, return_std=True)
    regressor.fit(TiledArray(X, size), Y, weight)
    tiled = regressor.predict(TiledArray(new, size), return_std=True)
    np.testing.assert_allclose(tiled, whole, rtol=1e-8)


def test_a_memory_error_halves_the_tile(regressor, rows, monkeypatch):
    X, Y, _, new = rows
    model, deviations_of = regressor.fit(X, Y), StdPredictor.std
    whole = model.predict(new, return_std=True)

    def fail_for_large_tiles(self, H):
        if len(H) > 10:
            H[:] = np.nan  # H may be overwritten before the error
            raise MemoryError
        return deviations_of(self, H)

    monkeypatch.setattr(StdPredictor, "std", fail_for_large_tiles)
    np.testing.assert_allclose(model.predict(new, return_std=True), whole, rtol=1e-9)


def test_memory_limit(device, monkeypatch):
    """As in test_memory.py, with the matrix of the posterior."""
    if device in ("cuda", "torch"):
        pytest.skip("memory that NumPy does not allocate: test_cuda_memory.py, test_torch.py")
    monkeypatch.setattr("sklearn_fsvc._src.engines.blas.n_threads", lambda: 2)
    n, m = 8000, 400
    X = np.random.default_rng(0).random((n, 10), np.float32)
    y = X.sum(axis=1)
    model = TanhRegressor(
        m, feature_weights=None, alpha=1.0, uncertainty=True, random_state=0, device=device
    )
    model.set_params(max_memory=FIT).fit(X[:2000], y[:2000])  # compiles and imports
    assert peak(model.fit, X, y)[1] <= FIT + n * PER_ROW
    unlimited = peak(model.predict, X, True)[1]
    _, predict = peak(model.set_params(max_memory=PREDICT).predict, X, True)
    assert predict <= PREDICT + n * PER_ROW < unlimited
    with pytest.raises(ValueError, match=r"return_std=True needs 625.0 KiB"):
        model.set_params(max_memory=600_000).predict(X, return_std=True)
    if device == "jit":  # the other engines need more memory
        assert len(model.predict(X)) == n


def test_deviations_do_not_overwrite_the_posterior(rng):
    """It is an attribute of the model."""
    posterior = Posterior(rng.random((4, 3)), rng.random(4), 5.0, np.ones(2))
    before = [np.copy(each) for each in posterior]
    with get_engine("jit") as engine:
        actual = StdPredictor(engine, posterior, np.dtype(float)).std(rng.random((6, 4)))
    assert actual.shape == (6, 2)
    for each, copy in zip(posterior, before, strict=True):
        np.testing.assert_array_equal(each, copy)


def test_deviations_require_uncertainty(regressor, rows):
    X, Y, _, new = rows
    with pytest.raises(NotFittedError, match=type(regressor).__name__):
        regressor.predict(new, return_std=True)
    regressor.set_params(uncertainty=False).fit(X, Y)
    assert not hasattr(regressor, "posterior_")
    with pytest.raises(ValueError, match=r"return_std=True needs.*uncertainty=True.*fit again"):
        regressor.predict(new, return_std=True)
    # The parameter was set after the fit.
    with pytest.raises(ValueError, match=r"was fitted without.*it is True.*fit again"):
        regressor.set_params(uncertainty=True).predict(new, return_std=True)
    for value in ("yes", 1, None):
        with pytest.raises(TypeError, match=f"return_std={value!r} must be True or False"):
            regressor.predict(new, return_std=value)
    assert regressor.predict(new, return_std=np.False_).shape == (30, 2)
