"""Heavy-tailed targets: warnings, transforms, and predictions of the mean in the range of y."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from sklearn_fsvc import HiddenSizeSearchCV, PatchRegressor, RBFRegressor, TanhRegressor

NETWORK = RBFRegressor(50, kernel="laplacian", radius=3.0, feature_weights=None, random_state=0)


def make_data(n=600, noise=0.3):
    """Return X and a target without a heavy tail."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + rng.normal(scale=noise, size=n)


TAILS = {
    "positive": (lambda z: np.exp(2 * z), "log"),
    "tiny": (lambda z: 1e-9 * np.exp(2 * z), "log"),
    "with 0": (lambda z: np.maximum(np.exp(2 * z) - 1, 0), "log"),
    "both signs": (lambda z: z**7, "quantiles"),
}


@pytest.mark.parametrize("cls", [RBFRegressor, TanhRegressor])
@pytest.mark.parametrize("name", TAILS)
def test_the_recommended_transform_reduces_the_error(cls, name):
    X, z = make_data(900, noise=0.1)
    transform, kind = TAILS[name]
    y = transform(z)
    model, part = cls(100, feature_weights=None, random_state=0), slice(600)
    with pytest.warns(UserWarning, match="heavy tail") as caught:
        plain = model.fit(X[part], y[part])
    (message,) = (str(warning.message) for warning in caught)
    assert message.startswith("y has a heavy tail")
    assert f'target_transform="auto" of {cls.__name__}' in message
    better = clone(model).set_params(target_transform="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        better.fit(X[part], y[part])
    assert better.target_transformer_.kinds == [kind]
    errors = [abs(m.predict(X[600:]) - y[600:]) for m in (plain, better)]
    # The mean would be that of a few of the largest values.
    assert np.median(errors[1]) < 0.5 * np.median(errors[0])
    assert np.median(errors[1]) < 0.6 * np.median(errors[0])
    predicted = better.predict(3 * X)
    rounding = 1e-12 * y[part].max()
    assert y[part].min() - rounding <= predicted.min()
    assert predicted.max() <= y[part].max() + rounding


def test_the_heavy_tailed_output_is_named():
    X, z = make_data()
    with pytest.warns(UserWarning, match=r"^Column 1 of y has a heavy tail"):
        NETWORK.fit(X, np.column_stack([z, np.exp(2 * z), z**2]))


@pytest.mark.parametrize(
    "y",
    [
        np.random.default_rng(0).normal(size=600),
        np.random.default_rng(0).exponential(size=600),
        np.arange(600) == 7,  # still heavy-tailed after each transform
        np.where(np.arange(600) < 5, 1.0, -1.0),
        np.ones(600),
    ],
    ids=["normal", "exponential", "one", "rare", "constant"],
)
def test_no_warning_of_other_targets(y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NETWORK.fit(make_data()[0], y)


def test_samples_of_weight_0_are_ignored():
    X, z = make_data()
    weight = np.arange(len(z)) != 7
    z[7] = 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NETWORK.fit(X, z, sample_weight=weight)
    with pytest.warns(UserWarning, match="heavy tail"):
        NETWORK.fit(X, z)


def test_searches_warn_and_accept_the_transform():
    X, z = make_data()
    y, sizes = np.exp(2 * z), [20, 60]
    options = {"cv": 2, "scoring": "neg_median_absolute_error"}
    with pytest.warns(UserWarning, match="heavy tail"):
        plain = HiddenSizeSearchCV(NETWORK, {"n_hidden": sizes}, **options).fit(X, y)
    model = TransformedTargetRegressor(NETWORK, func=np.log, inverse_func=np.exp)
    better = HiddenSizeSearchCV(model, {"regressor__n_hidden": sizes}, **options).fit(X, y)
    assert better.best_score_ > plain.best_score_ / 2


def test_intervals_of_a_transformed_target():
    """As documented: those of the inner regressor, with their ends transformed back."""
    X, z = make_data()
    network = clone(NETWORK).set_params(n_hidden=100, uncertainty=True)
    model = TransformedTargetRegressor(network, func=np.log, inverse_func=np.exp)
    model.fit(X[:400], np.exp(2 * z[:400]))
    with pytest.raises(AttributeError, match=r"regressor_\.predict\(X, return_std=True\)"):
        model.predict(X, return_std=True)
    mean, std = model.regressor_.predict(X[400:], return_std=True)
    low, high = np.exp(mean - 1.645 * std), np.exp(mean + 1.645 * std)
    y = np.exp(2 * z[400:])
    assert 0.8 < ((low < y) & (y < high)).mean() < 0.97


@pytest.mark.parametrize(
    "network", [NETWORK, TanhRegressor(50, feature_weights=None, alpha="loo", random_state=0)]
)
def test_predictions_estimate_the_mean_and_not_the_median(network):
    """Of log-normal noise, the mean is exp(1 / 2) = 1.65 times the median."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = np.exp(X[:, 0] + rng.normal(size=len(X)))
    for kind in ("log", "quantiles"):
        model = clone(network).set_params(target_transform=kind).fit(X, y)
        center = abs(X[:, 0]) < 1
        ratio = model.predict(X[center]).mean() / y[center].mean()
        assert 0.9 < ratio < 1.1
        assert model.smearing_.shape == (32, 1)


@pytest.mark.parametrize("n_distinct", [1, 20])
@pytest.mark.parametrize("kind", ["log", "quantiles"])
def test_predictions_estimate_the_mean_of_equal_samples(kind, n_distinct):
    """The residuals are those of single samples, not of the mean y of equal ones."""
    rng = np.random.default_rng(0)
    X = rng.integers(n_distinct, size=(600, 1)).astype(float)
    y = np.exp(rng.normal(size=len(X)))
    model = RBFRegressor(
        1, radius=30.0, feature_weights=None, alpha=1.0, target_transform=kind, random_state=0
    )
    assert 0.9 < model.fit(X, y).predict(X).mean() / y.mean() < 1.1


@pytest.mark.parametrize(
    "network", [NETWORK, TanhRegressor(50, feature_weights=None, random_state=0)]
)
def test_auto_leaves_other_targets_unchanged(network):
    X, z = make_data()
    auto = clone(network).set_params(target_transform="auto").fit(X, z)
    assert auto.target_transformer_ is None
    assert not hasattr(auto, "smearing_")
    np.testing.assert_array_equal(auto.predict(X), clone(network).fit(X, z).predict(X))


def test_the_unit_of_y_does_not_matter():
    X, z = make_data(200)
    y = np.maximum(np.exp(2 * z) - 1, 0)
    for kind in ("auto", "log", "quantiles"):
        model = clone(NETWORK).set_params(target_transform=kind)
        predicted = [model.fit(X, factor * y).predict(X) / factor for factor in (1, 2.0**-20)]
        np.testing.assert_allclose(*predicted, rtol=1e-6)


def test_each_column_has_its_own_transform():
    X, z = make_data(noise=0.1)
    Y = np.column_stack([z, np.exp(2 * z), z**7])
    model = clone(NETWORK).set_params(target_transform="auto").fit(X, Y)
    assert model.target_transformer_.kinds == [None, "log", "quantiles"]
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.5
    np.testing.assert_allclose(model.center_targets_, Y[model.support_], rtol=1e-5)


def test_copies_do_not_choose_a_transform():
    """Leave-one-out would predict a sample from its copies, and favour transforms."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    z = np.sin(X[:, 0]) + 0.7 * X[:, 1] ** 2 + rng.normal(size=300)
    y, rows = np.exp(1.5 * z), np.repeat(np.arange(300), 3)
    model = clone(NETWORK).set_params(target_transform="auto")
    expected = clone(model).fit(X, y, sample_weight=np.full(300, 3.0))
    repeated = clone(model).fit(X[rows], y[rows])
    assert repeated.target_transformer_ is expected.target_transformer_ is None
    np.testing.assert_allclose(repeated.predict(X), expected.predict(X), rtol=1e-6)


@pytest.mark.parametrize("kind", ["log", "quantiles"])
def test_weights_with_a_transform(kind):
    """A sample of weight 0 is ignored, even if its y has no logarithm."""
    X, z = make_data()
    y, weight = np.exp(2 * z), np.ones(len(z))
    y[:100], weight[:100] = -1e9, 0
    model = TanhRegressor(
        50, feature_weights=None, alpha=1.0, target_transform=kind, random_state=0
    )
    weighted = clone(model).fit(X, y, sample_weight=weight)
    removed = clone(model).fit(X[100:], y[100:])
    np.testing.assert_allclose(weighted.target_mean_, removed.target_mean_, atol=1e-12)
    np.testing.assert_array_equal(
        weighted.target_transformer_.range_, removed.target_transformer_.range_
    )
    auto = clone(model).set_params(target_transform="auto").fit(X, y, sample_weight=weight)
    assert auto.target_transformer_.kinds == ["log"]


def test_integer_weights_count_in_quantiles():
    X, z = make_data(400)
    y, weight = np.exp(1.5 * z), np.random.default_rng(1).integers(0, 3, 400)
    rows = np.repeat(np.arange(400), weight)
    model = TanhRegressor(
        50, feature_weights=None, scale=0.5, alpha=1.0, target_transform="quantiles",
        random_state=0,
    )  # fmt: skip
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.target_mean_, repeated.target_mean_, atol=1e-12)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=0.01)


def test_searches_fit_the_transform_to_each_training_set():
    X, z = make_data(300)
    y, grid = np.exp(2 * z), {"n_hidden": [10, 40]}
    model = clone(NETWORK).set_params(target_transform="auto")
    actual, expected = (
        search(model, grid, cv=2).fit(X, y).cv_results_["mean_test_score"]
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    np.testing.assert_allclose(actual, expected)


def test_a_source_of_chunks_is_transformed():
    X, z = make_data()
    y = np.exp(2 * z)

    def chunks():
        yield X[:250], y[:250]
        yield X[250:], y[250:]

    model = clone(NETWORK).set_params(target_transform="auto")
    expected = clone(model).fit(X, y)
    assert model.fit(chunks).target_transformer_.kinds == ["log"]
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-5)


def test_a_refit_and_copies():
    X, z = make_data()
    y = np.exp(2 * z)
    model = clone(NETWORK).set_params(target_transform="auto").fit(X, y)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(X[:5]), model.predict(X[:5]))
    model.fit(X, z)  # no heavy tail: nothing is left of the transform
    np.testing.assert_array_equal(model.predict(X), clone(NETWORK).fit(X, z).predict(X))
    assert not hasattr(model, "smearing_")


def test_the_layer_of_a_model_with_a_transform():
    """Its mean and scale are those of transformed y, which `partial_fit` does not use."""
    X, z = make_data()
    y = np.exp(2 * z)
    layer = FrozenEstimator(clone(NETWORK).set_params(target_transform="log").fit(X, y))
    model = RBFRegressor(layer=layer, alpha=1.0).partial_fit(X, y)
    expected = RBFRegressor(layer=layer, alpha=1.0, target_transform=None)
    with pytest.warns(UserWarning, match="heavy tail"):
        expected.fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-6)
    assert model.target_transformer_ is None


@pytest.mark.parametrize(
    "cls", [RBFRegressor, TanhRegressor, PatchRegressor], ids=lambda cls: cls.__name__
)
def test_invalid_transforms(cls):
    X, z = make_data(60)
    for kind in ("sqrt", 1):
        with pytest.raises(ValueError, match=f"target_transform={kind!r} is not known"):
            cls(5, target_transform=kind).fit(X, z)
    with pytest.raises(ValueError, match=r"uncertainty=True.*TransformedTargetRegressor"):
        cls(5, target_transform="log", uncertainty=True).fit(X, z)
    with pytest.raises(AttributeError, match=r'target_transform="?\'?auto.*np\.log'):
        cls(5, target_transform="auto").partial_fit(X, z)


@pytest.mark.parametrize("kind", ["log", "quantiles"])
def test_transforms_of_large_values(kind):
    X, z = make_data(200)
    model = clone(NETWORK).set_params(target_transform=kind)
    assert np.isfinite(model.fit(X, 1e307 * np.exp(z / 3)).predict(X)).all()
    with pytest.raises(ValueError, match=r"^y contains values of size 1e\+308.* divide y"):
        model.fit(X, np.where(z > 0, 1e308, 0))


def test_the_logarithm_needs_values_of_0_or_more():
    X, z = make_data(200)
    model = clone(NETWORK).fit(X, z)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=r'"log" needs y of 0 or more, and y contains -'):
        model.set_params(target_transform="log").fit(X, z)
    assert vars(model) == before | {"target_transform": "log"}
