"""Regressors: the formula, targets of any scale and shape, sample weights, dtypes and copies."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import naive
from readouts.brute_force import error_of, unit_at_sample, without_each_row
from sklearn_fsvc import RBFRegressor, TanhRegressor
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.targets.encoding import StandardisedTargets

# With fixed layers and penalties: nothing is searched.
REGRESSORS = [
    RBFRegressor(
        30, selection="random", kernel="laplacian", radius=2.0, feature_weights=None, alpha=0.1,
        random_state=0,
    ),
    TanhRegressor(30, scale=0.5, feature_weights=None, alpha=0.1, random_state=0),
]  # fmt: skip
N = 150


@pytest.fixture(params=REGRESSORS, ids=lambda r: type(r).__name__)
def regressor(request):
    return clone(request.param)


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, 4))


def make_targets(X, k=3):
    """Return k smooth functions of X with noise, each with its own scale and offset."""
    noise = np.random.default_rng(1).normal(size=(len(X), 3))
    smooth = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2], X[:, 3] ** 2])
    return ((smooth + 0.3 * noise) * [1.0, 50.0, 0.02] + [3.0, -700.0, 0.0])[:, :k]


def make_weights():
    """Return weights from 0 to 6, a quarter of them 0."""
    rng = np.random.default_rng(2)
    return rng.random(N) * rng.integers(0, 4, N) * 2


def ridge_predictions(model, X, Y, alpha, weight=None):
    """Return predictions of a ridge readout of standardised y on the layer of the model."""
    mean = np.average(Y, axis=0, weights=weight)
    scale = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
    H = naive.of_model(model, X)
    W, b = naive.ridge(H, (Y - mean) / scale, alpha, weight)
    return (H @ W.T + b) * scale + mean


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3], ids=["1d", "column", "several"])
def test_predictions_equal_the_formula(device, regressor, X, k, weighted):
    Y, weight = make_targets(X, max(k, 1)), make_weights() if weighted else None
    model = regressor.set_params(device=device).fit(X, Y if k else Y[:, 0], weight)
    predictions = model.predict(X)
    assert predictions.dtype == np.float64
    assert predictions.shape == (Y.shape if k else (N,))
    errors = (predictions.reshape(Y.shape) - ridge_predictions(model, X, Y, 0.1, weight)) / Y.std(
        axis=0
    )
    np.testing.assert_allclose(errors, 0, atol=1e-9)
    assert model.readout_coef_.shape == (max(k, 1), len(layer_of(model).units))
    mean = np.average(Y, axis=0, weights=weight)
    scale = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
    for fitted, expected in ((model.target_mean_, mean), (model.target_scale_, scale)):
        assert fitted.shape == predictions.shape[1:]
        np.testing.assert_allclose(fitted.ravel(), expected, rtol=1e-12)


@pytest.mark.parametrize("X_dtype", [np.float32, np.uint8])
def test_low_precision_inputs(device, regressor, X, X_dtype):
    X, Y = (50 * X + 120).clip(0, 255).astype(X_dtype), make_targets(X)
    regressor.set_params(device=device, **{"radius": 100.0} if "radius" in vars(regressor) else {})
    model = regressor.fit(X, Y)
    errors = (model.predict(X) - ridge_predictions(model, X, Y, 0.1)) / Y.std(axis=0)
    np.testing.assert_allclose(errors, 0, atol=2e-4)
    assert model.readout_coef_.dtype == model.predict(X).dtype == np.float64


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.float32, np.float64, object])
def test_dtypes_of_y(regressor, X, dtype):
    values = make_targets(X, 1)[:, 0]
    y = (values > 3).astype(dtype) if dtype is bool else values.round()
    found = regressor.fit(X, y.astype(dtype)).predict(X)
    assert found.dtype == np.float64
    expected = regressor.fit(X, y.astype(float)).predict(X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def test_a_float32_y_is_summed_in_float64(regressor, X):
    """In float32 the variance of values near 1e6 that differ by 1 would have one correct digit."""
    y = make_targets(X, 1)[:, 0].round() + 1e6
    np.testing.assert_array_equal(y.astype(np.float32), y)
    found = regressor.fit(X, y.astype(np.float32)).predict(X)
    np.testing.assert_allclose(
        found, ridge_predictions(regressor, X, y[:, None], 0.1)[:, 0], atol=1e-8
    )


# scale and shift of y, and the relative precision that is left
UNITS = [(1e6, 1e9, 1e-9), (1e-12, 0, 1e-12), (1e200, 0, 1e-12), (1e307, 0, 1e-12),
         (-1e-250, 0, 1e-12)]  # fmt: skip


@pytest.mark.parametrize(
    ("alpha", "X_dtype"),
    [
        (0.1, np.float32), ("auto", np.float64), ("loo", np.float32),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in ((0.1, np.float64), ("auto", np.float32), ("loo", np.float64))
        ),
    ],
)  # fmt: skip
def test_predictions_are_equivariant_to_scale_and_shift_of_y(regressor, X, X_dtype, alpha):
    X, Y = X.astype(X_dtype), np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])
    regressor.set_params(alpha=alpha, uncertainty=True)
    predictions, deviations = regressor.fit(X, Y).predict(X, return_std=True)
    for unit, origin, digits in UNITS:
        scaled, scaled_std = regressor.fit(X, unit * Y + origin).predict(X, return_std=True)
        digits = max(digits, 1e-7) if X_dtype == np.float32 else digits
        np.testing.assert_allclose((scaled - origin) / unit, predictions, rtol=0, atol=100 * digits)
        np.testing.assert_allclose(scaled_std / abs(unit), deviations, rtol=100 * digits)


@pytest.mark.parametrize("value", [0.0, 1 / 3, -7e20])
@pytest.mark.parametrize("alpha", [0.1, "auto", "loo"])
def test_a_constant_target(regressor, X, value, alpha):
    weight = np.random.default_rng(2).random(N)
    model = regressor.set_params(alpha=alpha, uncertainty=True)
    for weights in (None, weight):
        predictions, deviations = model.fit(X, np.full(N, value), weights).predict(
            X, return_std=True
        )
        np.testing.assert_allclose(predictions, value, rtol=1e-12)
        np.testing.assert_allclose(deviations, 0, atol=1e-12 * abs(value))
        assert model.target_scale_ == 1


def test_a_target_that_varies_by_rounding_is_constant(regressor, X):
    y = np.where(X[:, 0] > 0, 0.3, 0.1 + 0.2)
    assert y.std() > 0
    model = regressor.fit(X, y)
    assert model.target_scale_ == 1
    assert np.abs(model.readout_coef_).max() < 1e-15


def test_a_constant_target_of_many_samples():
    """The rounding error of a sum of a million weights must not count as variance."""
    targets = StandardisedTargets.standardise(
        np.full((10**6, 2), 1 / 3), np.random.default_rng(0).random(10**6)
    )
    np.testing.assert_array_equal(targets.scale, 1)
    assert np.abs(targets.values).max() < 1e-12


def test_a_constant_output_does_not_change_the_others(regressor, X):
    Y = make_targets(X)
    single = clone(regressor).fit(X, Y[:, ::2]).predict(X)
    Y[:, 1] = 1e9 / 3
    predictions = regressor.fit(X, Y).predict(X)
    np.testing.assert_allclose(predictions[:, ::2], single, atol=1e-12)
    np.testing.assert_allclose(predictions[:, 1], 1e9 / 3, rtol=1e-14)


@pytest.mark.parametrize("k", [0, 2], ids=["1d", "2d"])
def test_uncovered_samples_get_the_intercept(device, k):
    X = np.array([[0.0, 0], [0, 1], [10, 0], [10, 1], [20, 0], [20, 1]])
    y = np.array([5.0, 5, -2, -2, 1e6, 1e6])
    Y = np.column_stack([y, np.arange(6)])
    model = RBFRegressor(
        radius=0.1, kernel="triangular", feature_weights=None, alpha=1.0, random_state=0,
        device=device,
    ).fit(X, Y if k else y)  # fmt: skip
    far = np.array([[4.0, -50], [6, 50], [16, -90], [10, 1]])
    predictions = model.predict(far)
    np.testing.assert_array_equal(
        predictions[:3], np.tile(model.readout_intercept_, (3, 1))[:, : k or 1].squeeze()
    )
    np.testing.assert_allclose(model.center_targets_, (Y if k else y)[model.support_], atol=1e-9)
    # The readout predicts the sample on a centre, shrunk by the penalty.
    assert np.abs(predictions[3] - (Y if k else y)[3]).max() > 0.1


def test_fewer_units_are_the_first(X):
    Y = make_targets(X)
    few, many = (
        clone(REGRESSORS[0]).set_params(n_hidden=n).fit(X, Y) for n in (20, 50)
    )  # fmt: skip
    np.testing.assert_array_equal(few.support_, many.support_[:20])
    np.testing.assert_array_equal(few.center_targets_, many.center_targets_[:20])
    few, many = (clone(REGRESSORS[1]).set_params(n_hidden=n).fit(X, Y) for n in (20, 50))
    np.testing.assert_allclose(few.components_, many.components_[:20], atol=1e-12)


@pytest.mark.parametrize("alpha", [0.1, "auto", "loo"])
def test_samples_of_weight_zero_have_no_effect(regressor, X, alpha):
    """For any values of their targets."""
    y, kept = make_targets(X, 2), np.random.default_rng(3).random(N) < 0.7
    regressor.set_params(alpha=alpha, uncertainty=True)
    if isinstance(regressor, RBFRegressor):
        regressor.set_params(selection="global", shuffle=False)
    corrupted = np.where(kept[:, None], y, 1e300)
    with_zeros = clone(regressor).fit(X, corrupted, kept.astype(float)).predict(X, return_std=True)
    without = clone(regressor).fit(X[kept], y[kept]).predict(X, return_std=True)
    np.testing.assert_allclose(with_zeros, without, rtol=1e-7)


def test_integer_sample_weights_equal_repetitions(X):
    times = np.random.default_rng(3).integers(1, 4, N)
    rows, Y = np.repeat(np.arange(N), times), make_targets(X)
    common = {"radius": 1.5, "selection_radius": 0.8, "kernel": "triangular", "shuffle": False}
    for model in (
        RBFRegressor(alpha=1.0, feature_weights=None, **common),
        TanhRegressor(30, alpha=1.0, scale=0.5, feature_weights=None, random_state=0),
    ):
        weighted = clone(model).fit(X, Y, sample_weight=times).predict(X)
        repeated = clone(model).fit(X[rows], Y[rows]).predict(X)
        np.testing.assert_allclose(weighted, repeated, rtol=1e-8)


def test_outputs_are_independent(regressor, X):
    Y = make_targets(X)
    regressor.set_params(uncertainty=True)
    together = clone(regressor).fit(X, Y).predict(X, return_std=True)
    for k in range(3):
        single = clone(regressor).fit(X, Y[:, k]).predict(X, return_std=True)
        np.testing.assert_allclose(np.array(together)[:, :, k], single, rtol=1e-9)


def test_several_penalties(regressor, X):
    """The penalty has the smallest leave-one-out error of the standardised outputs."""
    Y, alphas = make_targets(X), [1e-3, 0.1, 10.0]
    model = regressor.set_params(alpha=alphas).fit(X, Y)
    H, Z = naive.of_model(model, X), (Y - Y.mean(axis=0)) / Y.std(axis=0)
    own = unit_at_sample(model, N)
    errors = [error_of(without_each_row(H, Z, alpha, own=own), Z) for alpha in alphas]
    np.testing.assert_allclose(model.loo_errors_, errors, rtol=1e-8)
    assert model.alpha_ == alphas[int(np.argmin(errors))]
    np.testing.assert_allclose(
        model.predict(X), ridge_predictions(model, X, Y, model.alpha_), rtol=1e-8
    )


@pytest.mark.parametrize("alpha", ["auto", "loo"])
def test_automatic_penalties(regressor, X, alpha):
    Y = make_targets(X)
    model = regressor.set_params(alpha=alpha).fit(X, Y)
    np.testing.assert_allclose(
        model.predict(X), ridge_predictions(model, X, Y, model.alpha_), rtol=1e-6
    )
    alphas, errors = (
        (model.search_results_["alpha"], model.search_results_["error"]) if alpha == "auto"
        else (model.alphas_, model.loo_errors_)
    )  # fmt: skip
    assert model.alpha_ == alphas[errors.argmin()]
    assert len(alphas) > 2


def test_default_hyperparameters_fit(X):
    y = np.sin(2 * X[:, 0]) + 0.05 * np.random.default_rng(1).normal(size=N)
    common = RBFRegressor(60, random_state=0).fit(X[:100], y[:100])
    assert common.score(X[100:], y[100:]) > 0.9  # three of four features are irrelevant
    assert common.feature_weights_.argmax() == 0


def test_same_seed_same_model_on_every_device(device, X):
    X = X[:80]
    Y = make_targets(X)
    for model in (
        RBFRegressor(40, uncertainty=True, random_state=0),
        TanhRegressor(40, alpha="loo", uncertainty=True, random_state=0),
    ):
        found = clone(model).set_params(device=device).fit(X, Y)
        expected = clone(model).set_params(device="jit").fit(X, Y)
        assert found.device_.partition(":")[0] == device
        assert found.alpha_ == expected.alpha_
        options = {"return_std": model.uncertainty}
        np.testing.assert_allclose(
            found.predict(X, **options), expected.predict(X, **options), rtol=1e-7
        )


def test_pickle_and_clone(regressor, X):
    model = regressor.set_params(uncertainty=True).fit(X, make_targets(X))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.predict(X, return_std=True), model.predict(X, return_std=True)
    )
    assert copy.posterior_._fields == ("root", "mean", "n", "noise")
    unfitted = clone(model)
    assert unfitted.get_params() == model.get_params()
    assert not [name for name in vars(unfitted) if name.endswith("_")]


def test_a_failed_fit_does_not_change_the_estimator(regressor, X):
    y = make_targets(X, 1)[:, 0]
    model = regressor.set_params(uncertainty=True).fit(X, y)
    before = dict(vars(model))
    X_bad, y_bad = X[:, :2].copy(), y.copy()
    X_bad[3, 1], y_bad[5] = np.nan, np.inf
    for bad in ((X_bad, y), (X[:, :2], y_bad), (X[:, :2], y[:-1]), (X[:, :2], y, np.zeros(N))):
        with pytest.raises(ValueError, match=r"NaN|infinity|inconsistent|weight"):
            model.fit(*bad)
        assert vars(model) == before
    with pytest.raises(ValueError, match="alpha"):
        model.set_params(alpha=-1).fit(X[:, :2], y)
    assert model.n_features_in_ == 4


def test_a_second_fit_replaces_the_first(regressor, X):
    """Attributes of the other alpha and of `uncertainty` are deleted."""
    regressor.set_params(alpha="loo", uncertainty=True).fit(X, make_targets(X))
    regressor.set_params(alpha=1.0, uncertainty=False).fit(X, make_targets(X, 1)[:, 0])
    assert not {"posterior_", "alphas_", "loo_errors_"} & set(vars(regressor))
    assert regressor.predict(X).shape == (N,)


def test_frames_and_series(regressor, X):
    pd = pytest.importorskip("pandas")
    Y, names = make_targets(X), list("abcd")
    frame = pd.DataFrame(X, columns=names)
    model = clone(regressor).fit(frame, pd.DataFrame(Y, columns=list("xyz")))
    assert list(model.feature_names_in_) == names
    expected = clone(regressor).fit(X, Y).predict(X)
    np.testing.assert_allclose(model.predict(frame), expected, rtol=0, atol=1e-9)
    series = regressor.fit(frame, pd.Series(Y[:, 0], index=range(N, 0, -1)))
    np.testing.assert_allclose(series.predict(frame), expected[:, 0], rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_a_memmap_is_read_in_place(tmp_path, regressor, X):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = clone(regressor).fit(mapped, make_targets(X)).predict(mapped)
    expected = regressor.fit(X, make_targets(X)).predict(X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_max_memory_makes_small_tiles_and_the_same_predictions(regressor):
    X, sizes = np.random.default_rng(0).normal(size=(6000, 4)), []
    regressor.set_params(uncertainty=True, device="jit")
    free = regressor.fit(X, make_targets(X)).predict(X, return_std=True)
    regressor.set_params(max_memory="1MiB").fit(X, make_targets(X))
    tight = regressor.predict(X, return_std=True)
    np.testing.assert_allclose(tight, free, rtol=0, atol=1e-9)
    with regressor._open_prediction(X, "predict") as prediction:
        prediction.scores(lambda rows, scores: sizes.append(len(scores)))
    assert sum(sizes) == 6000
    assert len(sizes) > 1
