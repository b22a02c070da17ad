"""Stacked ensembles with validation samples, X_val and y_val, that are passed to fit."""

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.metrics import log_loss

import naive
from modified_parts import with_parts
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from stacking.ensembles import classifier, pair, regressor, small_ensemble, with_final


class OwnRBF(RBFRegressor):
    """`fit` is overridden, so that it is called."""

    def fit(self, X, y, sample_weight=None, groups=None, **validation):
        self.n_validation = len(validation["X_val"])
        return super().fit(X, y, sample_weight, groups, **validation)


@pytest.fixture
def split(data):
    """Return X, classes, numbers, and those of distinct validation samples."""
    X, y, numbers = data
    held = np.arange(len(X)) < 60
    kept = ~held & ~(X[:, None] == X[:60]).all(axis=2).any(axis=1)
    return X[kept], y[kept], numbers[kept], X[held], y[held], numbers[held]


def scores_of(model, X, y):
    """Return the standardised scores (n_samples, n_estimators) of the base estimators."""
    each = [network.predict(X) for network in model.estimators_]
    return (np.stack(each, axis=1) - y.mean()) / y.std()


@pytest.mark.parametrize("kind", [RBFRegressor, OwnRBF])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_regression_weights(split, rng, kind, is_weighted):
    X, _, y, X_val, _, y_val = split
    weight = rng.uniform(0.5, 2, len(X_val)) if is_weighted else np.ones(len(X_val))
    model = StackedRegressor(pair(kind, TanhRegressor), random_state=0)
    model.fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight if is_weighted else None)
    S, Y = scores_of(model, X_val, y), (y_val - y.mean()) / y.std()
    root = np.sqrt(weight)
    expected, _ = nnls(root[:, None] * S, root * Y)
    assert (expected > 0.1).all()
    np.testing.assert_allclose(model.weights_, expected, rtol=1e-6)
    errors = np.average(np.square(Y[:, None] - S), axis=0, weights=weight)
    np.testing.assert_allclose(model.loo_errors_, errors, rtol=1e-6)
    assert getattr(model.estimators_[0], "n_validation", len(X_val)) == len(X_val)


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("with_groups", [False, True])
def test_the_error_of_an_ensemble_is_that_on_validation_samples(split, final, with_groups):
    X, _, y, X_val, _, y_val = split
    model = with_final(small_ensemble(StackedRegressor)) if final else regressor()
    model = with_parts(model, weighting={"min_gain": -1e3})  # there are few samples
    groups = np.arange(len(X)) % 20 if with_groups else None
    model.fit(X, y, groups=groups, X_val=X_val, y_val=y_val)
    assert with_groups or (model.final_weight_ > 0) == final
    error = np.square(model.predict(X_val) - y_val).mean() / y.var()
    assert model.loo_error_ == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("final", [False, True])
def test_classification(split, final):
    """Weights and temperatures minimise the log-loss of validation samples."""
    X, y, _, X_val, y_val, _ = split
    model = with_final(small_ensemble(StackedClassifier)) if final else classifier()
    model.fit(X, y, X_val=X_val, y_val=y_val)
    logits = naive.logits(model.decision_function(X_val), model.score_scale_)
    logits, losses = logits / model.temperature_, []
    for factor in (0.95, 1, 1.05):
        P = np.exp(factor * logits)
        losses.append(log_loss(y_val, P / P.sum(axis=1, keepdims=True)))
    assert losses[1] < min(losses[0], losses[2])


def test_a_rejected_final_estimator(split):
    X, _, y, X_val, _, y_val = split
    model = with_final(regressor(), alpha=1e12).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.final_estimator_ is None


@pytest.mark.parametrize("ensemble", [StackedClassifier, StackedRegressor])
def test_base_estimators_are_validated(ensemble, rng):
    """Their penalty is not refined by leave-one-out errors."""
    X, X_val = rng.normal(size=(200, 3)), rng.normal(size=(100, 3))
    y, y_val = (each[:, 0] > 0 for each in (X, X_val))
    kinds = RBFClassifier, TanhClassifier
    kinds = kinds if ensemble is StackedClassifier else (RBFRegressor, TanhRegressor)
    network = kinds[1](60, feature_weights=None, scale=0.5, random_state=0)
    given = {"X_val": X_val, "y_val": y_val}
    model = ensemble([("tanh", network)], final_estimator=None, random_state=0).fit(X, y, **given)
    assert model.estimators_[0].alpha_ == network.fit(X, y, **given).alpha_
    network.set_params(alpha=[0.1, 1.0])
    with pytest.raises(ValueError, match="not by validation samples"):
        ensemble([("tanh", network)]).fit(X, y, **given)


def test_sparse_validation_samples(split):
    """In their own form, as the training samples."""
    from scipy.sparse import csr_array

    X, _, y, X_val, _, y_val = split
    model = StackedRegressor([("tanh", TanhRegressor(20, random_state=0))], final_estimator=None)
    dense = model.fit(X, y, X_val=X_val, y_val=y_val).loo_error_
    sparse = model.fit(csr_array(X), y, X_val=csr_array(X_val), y_val=y_val).loo_error_
    assert sparse == pytest.approx(dense, rel=1e-6)


def test_heavy_tails(rng):
    """The target is transformed, and residuals of validation samples correct predictions."""
    X, X_val = rng.normal(size=(500, 3)), rng.normal(size=(200, 3))
    y, y_val = (np.exp(3 * each[:, 0] + rng.normal(size=len(each))) for each in (X, X_val))
    model = regressor(target_transform="log").fit(X, y, X_val=X_val, y_val=y_val)
    z, mean, scale = np.log(y_val), model.target_mean_, model.target_scale_
    error = np.square(z - mean).mean() / scale**2
    assert model.loo_error_ < error / 2
    spread = np.ptp(model.smearing_)
    assert spread == pytest.approx(np.ptp(_residual_quantiles(model, X_val, z)), rel=0.1)


def _residual_quantiles(model, X, z):
    scores = sum(
        weight * network.predict(X)
        for weight, network in zip(model.weights_, model.estimators_, strict=True)
    )
    residuals = z - scores - model.intercept_
    n = len(model.smearing_)
    return np.quantile(residuals, (np.arange(n) + 0.5) / n)
