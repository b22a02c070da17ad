"""Prediction intervals and quantiles of regressors, from leave-one-out residuals."""

import pickle

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_fsvc import RBFRegressor, StackedRegressor, TanhRegressor

TANH = TanhRegressor(40, scale=0.5, feature_weights=None, alpha=0.1, random_state=0, device="jit")
RBF = RBFRegressor(
    40, selection="random", kernel="laplacian", radius=2.0, feature_weights=None, alpha=0.1,
    random_state=0, device="jit",
)  # fmt: skip
STACKED = StackedRegressor([("tanh", TANH), ("rbf", RBF)], random_state=0, target_transform=None)
N, LEVELS = 1200, [0.02, 0.05, 0.3, 0.5, 0.8, 0.95]


def samples(n=N, seed=0, noise="constant"):
    """Return X and a smooth function of its first feature with noise of a known distribution."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    noise = {
        "constant": rng.normal(size=n),
        "local": rng.normal(size=n) * np.exp(1.5 * X[:, 1]),
        "skewed": rng.exponential(size=n),
    }[noise]
    return X, np.sin(2 * X[:, 0]) + 0.3 * noise


def coverage(model, X, y, level=0.9):
    low, high = model.predict_interval(X, level).T
    return np.mean((low <= y) & (y <= high))


@pytest.mark.parametrize("model", [TANH, RBF, STACKED], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("noise", ["constant", "local", "skewed"])
def test_quantiles_are_those_of_the_noise(model, noise):
    model = clone(model).fit(*samples(noise=noise))
    X, y = samples(4000, 1, noise)
    found = model.predict_quantiles(X, LEVELS)
    np.testing.assert_allclose((y[:, None] <= found).mean(axis=0), LEVELS, atol=0.04)
    centre = np.sin(2 * X[:, 0])
    low, median, high = (found[:, LEVELS.index(q)] - centre for q in (0.05, 0.5, 0.95))
    if noise == "constant":
        assert np.mean(high - low) == pytest.approx(0.6 * norm.ppf(0.95), rel=0.1)
    if noise == "local":
        noisy = X[:, 1] > 0.5
        assert coverage(model, X[noisy], y[noisy]) == pytest.approx(0.9, abs=0.05)
        assert coverage(model, X[~noisy], y[~noisy]) == pytest.approx(0.9, abs=0.05)
    if noise == "skewed":
        assert np.mean(high - median) > 2.5 * np.mean(median - low)


def test_shapes_and_order():
    X, y = samples(300)
    model = clone(TANH).fit(X, np.column_stack([y, -50 * y, np.arange(300)]))
    found = model.predict_quantiles(X[:7], [0.9, 0.1, 0.3, 0.5])
    assert found.shape == (7, 3, 4)
    assert (np.diff(found[..., [1, 2, 3, 0]]) > 0).all()
    assert model.predict_interval(X[:7]).shape == (7, 3, 2)
    single = clone(TANH).fit(X, y)
    assert single.predict_quantiles(X[:7], [0.5]).shape == (7, 1)
    ends = single.predict_quantiles(X[:7], [0.1, 0.9])
    np.testing.assert_allclose(single.predict_interval(X[:7], 0.8), ends)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_interval(X),
                                  model.predict_interval(X))  # fmt: skip


def test_many_outputs_have_a_scale_that_depends_on_activations_alone():
    X, y = samples(400, noise="local")
    model = clone(TANH).fit(X, np.column_stack([y] * 9))
    assert model.residual_distribution_.hinge_coef.shape == (6, 9)
    low, high = model.predict_interval([[0.0, -0.9], [0.0, 0.9]])[:, 4].T
    assert high[1] - low[1] > 3 * (high[0] - low[0])


@pytest.mark.parametrize("alpha", [0.1, "auto", "loo", [0.1, 1.0]], ids=str)
def test_weights_and_validation_samples(alpha):
    """Samples of weight 0 do not count; those of a noisy group count by their weights."""
    X, y = samples()
    weight = np.where(np.arange(N) % 2, 1.0, 0.0)
    corrupted = np.where(weight > 0, y, 1e6)
    model = clone(TANH).set_params(alpha=alpha).fit(X, corrupted, weight)
    assert coverage(model, *samples(2000, 1)) == pytest.approx(0.9, abs=0.04)
    if alpha == 0.1:
        given = model.fit(X[:600], y[:600] * 0, X_val=X[600:], y_val=y[600:])
        assert coverage(given, *samples(2000, 1)) == pytest.approx(0.9, abs=0.04)


def test_levels_of_weighted_residuals():
    """Weights of 3 and 1 act like three copies of the samples of weight 3."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 2)), rng.permutation(np.repeat([0.0, 1.0], 1000))
    weight = np.where(y == 1, 3.0, 1.0)
    model = clone(TANH).set_params(alpha=1e9).fit(X, y, weight)
    low, high = model.predict_quantiles(X[:1], [0.22, 0.28])[0]
    assert low == pytest.approx(0, abs=0.01)
    assert high == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("model", [TANH, RBF, STACKED], ids=lambda m: type(m).__name__)
def test_a_value_that_nearly_all_targets_have(model):
    """Of nearly constant predictions, all its residuals are just beyond it."""
    X, _ = samples(200)
    y = np.where(np.arange(200) % 40, 0.1, 7.3)
    parameters = [name for name in model.get_params() if name.endswith("alpha")]
    model = clone(model).set_params(**dict.fromkeys(parameters, 1e9))
    model.fit(X, np.column_stack([y, 3 - 1e8 * y]))
    low, high = np.moveaxis(model.predict_interval(X), 2, 0)
    assert (low <= [0.1, 3 - 1e7]).all()
    assert (high >= [0.1, 3 - 1e7]).all()
    assert (high[:, 0] < 0.2).all()
    # The proportion of this value is below the confidence level.
    ends = model.predict_quantiles(X, [0.005, 0.995])
    np.testing.assert_allclose(model.predict_interval(X, 0.99), ends, rtol=1e-12)


def test_intervals_do_not_just_miss_a_frequent_value():
    """More samples than the tail of the interval have the value 0."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 3))
    y = np.where(rng.random(40) < 0.7, 0, np.exp(X[:, 0] + rng.normal(size=40)))
    low = RBFRegressor(random_state=0).fit(X, y).predict_interval(rng.normal(size=(200, 3)))[:, 0]
    assert (low <= 0).mean() > 0.9


def test_equal_targets_are_counted_although_weights_round_them():
    X, _ = samples(500)
    y, weight = np.where(np.arange(500) % 33, 0.0, 1.0), np.random.default_rng(0).random(500) + 0.5
    model = clone(TANH).set_params(alpha="auto").fit(X, y, weight)
    share = weight[y == 0].sum() / weight.sum()
    assert model.residual_distribution_.mode_share == pytest.approx(share)


def test_accurate_predictions_of_rare_values_have_narrow_intervals():
    X, _ = samples(400)
    y = np.where(X[:, 0] > 0.9, 1.0, 0.0)
    model = clone(TANH).set_params(n_hidden=200, alpha=1e-3).fit(X, y)
    assert np.mean(y == 0) > 0.9
    assert (model.predict_interval(X[X[:, 0] > 0.95])[:, 0] > 0).all()


def test_intervals_of_incremental_fits():
    X, y = samples(noise="local")
    model = clone(TANH).partial_fit(X[:700], y[:700]).partial_fit(X[700:], y[700:])
    assert coverage(model, *samples(2000, 1, "local")) == pytest.approx(0.9, abs=0.06)
    before = model.predict_interval(X[:5])
    model.partial_fit(X[:100], y[:100] + 9).forget(X[:100], y[:100] + 9)
    after = model.predict_interval(X[:5])
    np.testing.assert_allclose(after.mean(axis=1), before.mean(axis=1), atol=0.3)
    assert coverage(model, *samples(2000, 1, "local")) == pytest.approx(0.9, abs=0.06)


@pytest.mark.parametrize("model", [TANH, STACKED], ids=lambda m: type(m).__name__)
def test_transformed_targets(model):
    """Quantiles are transformed back, and stay within the range of y."""
    (X, z), (X_test, z_test) = samples(), samples(2000, 1)
    y = np.exp(3 * z)
    model = clone(model).set_params(target_transform="log").fit(X, y)
    found = model.predict_quantiles(X_test, [0.0002, *LEVELS, 0.9998])
    assert y.min() <= found.min()
    assert found.max() <= y.max()
    assert (np.diff(found) >= 0).all()
    below = (np.exp(3 * z_test)[:, None] <= found[:, 1:-1]).mean(axis=0)
    np.testing.assert_allclose(below, LEVELS, atol=0.06)


def test_the_readout_does_not_depend_on_the_residuals():
    """Coefficients are bitwise equal, also if a float32 factor is refined."""
    X, y = samples()
    X, model = X.astype(np.float32), clone(TANH).set_params(alpha=1e-3).fit(X.astype(np.float32), y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model._parts().target), "estimates_residuals", False)
        without = clone(model).fit(X, y)
    assert not hasattr(without, "residual_distribution_")
    np.testing.assert_array_equal(model.readout_coef_, without.readout_coef_)
    with pytest.raises(ValueError, match=r'no leave-one-out residuals, .* alpha="auto"'):
        without.predict_interval(X)


def test_little_memory_and_few_samples():
    X, y = samples(20_000)
    model = clone(TANH).set_params(max_memory="3MiB").fit(X, y)
    assert len(model.residual_distribution_.values) < 1000
    assert coverage(model, X, y) == pytest.approx(0.9, abs=0.05)
    few = clone(TANH).set_params(alpha=10.0).fit(X[:12], y[:12])
    assert not len(few.residual_distribution_.coef)  # one scale for all samples
    assert np.ptp(np.ptp(few.predict_interval(X[:50]), axis=1)) < 1e-9


@pytest.mark.parametrize("model", [TANH, RBF, STACKED], ids=lambda m: type(m).__name__)
def test_a_single_residual_has_no_distribution(model):
    X, y = samples(60)
    models = [clone(model).fit(X, y, X_val=X[:1], y_val=y[:1])]
    if model is TANH:
        models += [clone(model).fit(X[:1], y[:1]), clone(model).partial_fit(X[:1], y[:1])]
    for fitted in models:
        with pytest.raises(ValueError, match=r"the residual of 1 sample, .* at least 2 in X_val"):
            fitted.predict_interval(X)
    models[-1].fit(X, y).predict_interval(X)


def test_a_single_quantile_has_no_axis():
    X, y = samples(60)
    for targets in (y, np.column_stack([y, -y])):
        model = clone(TANH).fit(X, targets)
        median = model.predict_quantiles(X, 0.5)
        np.testing.assert_array_equal(median, model.predict_quantiles(X, [0.1, 0.5])[..., 1])
        assert median.shape == targets.shape


def test_invalid_arguments():
    X, y = samples(60)
    with pytest.raises(NotFittedError):
        clone(TANH).predict_interval(X)
    model = clone(TANH).fit(X, y)
    before = dict(vars(model))
    for level in (0, 1, 1.5):
        with pytest.raises(ValueError, match=f"confidence_level={level} must be between"):
            model.predict_interval(X, level)
    with pytest.raises(TypeError, match="confidence_level='90' must be a number"):
        model.predict_interval(X, "90")
    for quantiles in ("a", [], ["a"], [[0.5]]):
        with pytest.raises(ValueError, match=r"quantiles=.* must be a number or a sequence"):
            model.predict_quantiles(X, quantiles)
    with pytest.raises(ValueError, match=r"quantiles=\[0, 0.5\] must be between 0 and 1"):
        model.predict_quantiles(X, [0, 0.5])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.where(y > 0, np.nan, y))
    assert vars(model) == before


def test_mapie_accepts_a_regressor():
    regression = pytest.importorskip("mapie.regression")
    X, y = samples(300)
    mapie = regression.CrossConformalRegressor(clone(TANH), confidence_level=0.9, cv=3)
    ends = mapie.fit_conformalize(X, y).predict_interval(X)[1]
    assert np.mean((ends[:, 0, 0] <= y) & (y <= ends[:, 1, 0])) > 0.85
