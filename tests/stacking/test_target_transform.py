"""Stacked ensembles of a heavy-tailed target: one warning, and transforms for all estimators."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_fsvc import RBFRegressor, StackedRegressor, TanhRegressor
from stacking.ensembles import pair, regressor, small_ensemble, with_final


@pytest.fixture
def prices(large_data):
    X, _, numbers = large_data
    return X, np.exp(2 * numbers - 20)


def test_one_warning_names_the_ensemble(prices):
    model = small_ensemble(StackedRegressor)
    model = with_final(model).set_params(target_transform=None)
    with pytest.warns(UserWarning, match="heavy tail") as caught:
        model.fit(*prices)
    (message,) = (str(warning.message) for warning in caught)
    assert 'target_transform="auto" of StackedRegressor' in message


@pytest.mark.parametrize("final", [False, True])
def test_auto_transforms_for_all_networks(prices, final):
    X, y = prices
    model = regressor()
    model = with_final(model) if final else model
    plain = clone(model).set_params(target_transform=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
        warnings.filterwarnings("ignore", "y has a heavy tail")
        plain.fit(X, y)
    assert model.target_transformer_.kinds == ["log"]
    assert model.smearing_.shape == (32, 1)
    np.testing.assert_allclose(model.estimators_[0].target_mean_, np.log(y).mean())
    errors = [np.abs(y - each.predict(X)).mean() for each in (model, plain)]
    assert errors[0] < 0.9 * errors[1]
    assert abs(model.predict(X).mean() / y.mean() - 1) < 0.15
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(X[:7]), model.predict(X[:7]))


def test_predictions_are_means_over_residuals(prices):
    X, y = prices
    model = regressor(target_transform="log").fit(X, y)
    z = model.contributions(X).sum(axis=1) + model.intercept_
    low, high = np.log(y.min()), np.log(y.max())
    expected = np.exp(np.clip(z[:, None] + model.smearing_[:, 0], low, high)).mean(axis=1)
    np.testing.assert_allclose(model.predict(X), expected)


def test_other_targets_are_unchanged(large_data):
    X, _, numbers = large_data
    auto, none = (regressor(target_transform=kind).fit(X, numbers) for kind in ("auto", None))
    assert auto.target_transformer_ is None
    np.testing.assert_array_equal(auto.predict(X), none.predict(X))


def test_base_estimators_have_no_transform_of_their_own(prices):
    estimators = pair(RBFRegressor, TanhRegressor)
    estimators[1][1].set_params(target_transform="log")
    with pytest.raises(ValueError, match="pass target_transform to the ensemble"):
        StackedRegressor(estimators).fit(*prices)
