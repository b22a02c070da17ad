"""Weights of base and final estimators, compared with naive leave-one-out scores."""

from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax
from sklearn.base import clone

from modified_parts import with_parts
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.readouts.calibration import fit_calibration, fit_temperature
from sklearn_fsvc._src.stacking.base_estimators import BaseEstimators
from sklearn_fsvc._src.stacking.weights import ClassWeighting, assign_folds, sample_groups
from stacking.ensembles import (
    classifier,
    naive_left_out,
    naive_left_out_of_all,
    pair,
    regressor,
    small_ensemble,
    target_of_kind,
    two_folds,
    with_final,
)


def test_regression_weights(data, rng):
    """Non-negative least squares over two outputs, each standardised."""
    X, _, y = data
    y, weight = np.column_stack([y, 1e3 * X[:, 1] * X[:, 2]]), rng.uniform(0.5, 2, len(X))
    mean = np.average(y, axis=0, weights=weight)
    Y = (y - mean) / np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight))
    model = regressor().fit(X, y, weight)
    scores, root = naive_left_out_of_all(model, X, y, Y, weight), np.sqrt(weight)[:, None]
    expected, _ = nnls(np.stack([(root * s).ravel() for s in scores], axis=1), (root * Y).ravel())
    assert (expected > 0.1).all()
    np.testing.assert_allclose(model.weights_, expected, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, (1 - expected.sum()) * mean, rtol=1e-6)
    errors = [np.average(((Y - s) ** 2).sum(axis=1), weights=weight) for s in scores]
    np.testing.assert_allclose(model.loo_errors_, errors, rtol=1e-6)
    assert model.loo_error_ < min(errors)


def test_classification_weights(data, rng):
    X, y, _ = data
    weight = rng.uniform(0.5, 2, len(X))
    model = classifier(class_weight={0: 2.0, 1: 1.0, 2: 0.5}).fit(X, y, weight)
    weight = weight * np.array([2.0, 1.0, 0.5])[y]
    scores = naive_left_out_of_all(model, X, y, np.eye(3)[y], weight)

    def log_loss(a):
        return -weight @ log_softmax(np.tensordot(a, scores, 1), axis=1)[np.arange(len(y)), y]

    expected = minimize(log_loss, [2.0, 2.0], bounds=[(0, None)] * 2, options={"ftol": 1e-14}).x
    assert (expected > 0.1 * expected.sum()).all()
    np.testing.assert_allclose(model.weights_, expected / expected.sum(), rtol=1e-3)
    share = expected / expected.sum()
    combined = np.tensordot(share, scores, 1)
    calibration = fit_calibration(combined, y, weight)
    assert (model.temperature_, model.score_scale_) == pytest.approx(calibration[:2], rel=5e-3)
    temperature = fit_temperature(combined, y, weight)  # as if scores were logits
    np.testing.assert_allclose(1 / temperature, expected.sum(), rtol=0.02)  # up to its prior


def test_a_useless_base_estimator_is_dropped(data):
    X, _, y = data
    model = regressor()
    model.estimators.append(("mean", TanhRegressor(5, alpha=1e12, feature_weights=None)))
    model.fit(X, y)
    assert list(model.named_estimators_) == ["rbf", "tanh"]
    assert len(model.estimators_) == len(model.weights_) == 2
    assert model.loo_errors_.argmax() == 2
    expected = regressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-6)


def test_number_of_samples_that_give_the_weights(data):
    X, y, _ = data
    expected = classifier().fit(X, y)
    model = with_parts(expected, weighting={"max_weight_samples": 60}).fit(X, y)
    assert (model.weights_ != expected.weights_).all()
    np.testing.assert_array_equal(model.weights_, clone(model).fit(X, y).weights_)


def test_samples_of_weight_0_are_ignored(data):
    X, _, y = data
    weight = np.ones(len(X))
    weight[::4] = 0
    model = regressor().set_params(estimators=pair(RBFRegressor, TanhRegressor)[1:])
    expected = clone(model).fit(X[weight > 0], y[weight > 0])
    model.fit(X, np.where(weight > 0, y, 1e6), weight)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)


def test_folds_of_groups():
    sample = SimpleNamespace(targets=np.zeros((1300, 1)))
    groups = np.random.default_rng(0).integers(0, 40, 1300)
    folds = assign_folds(sample, groups)
    assert np.unique(folds).tolist() == [0, 1, 2]
    assert np.bincount(folds).min() > 350
    assert all(len(set(folds[groups == group])) == 1 for group in range(40))
    assert len(set(assign_folds(sample, groups > 20))) == 2  # not more folds than groups


def test_samples_of_some_groups():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(500, 2)), rng.integers(0, 50, 500)
    weight = (np.arange(500) >= 20).astype(float)
    samples = Samples(X, weight=weight, groups=groups)
    assert sample_groups(samples, 500) is None
    rows = sample_groups(samples, 200)
    assert 150 < len(rows) <= 200
    for group in set(groups[rows]):
        assert (groups[rows] == group).sum() == (groups[20:] == group).sum()
    groups = groups % 3
    assert len(set(groups[sample_groups(replace(samples, groups=groups), 10)])) == 2


def test_base_estimators_with_several_penalties(data):
    """They keep no Gram matrix: leave-one-out scores take another pass."""
    X, y, _ = data
    expected = classifier().fit(X, y)
    model = classifier().set_params(rbf__alpha=[0.5], tanh__alpha=[0.5]).fit(X, y)
    np.testing.assert_allclose(model.weights_, expected.weights_, rtol=1e-6)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_final_regressor(large_data, rng, is_weighted):
    """Its training scores, and the scores that give its weight, leave out the fold of a sample."""
    X, _, y = large_data
    weight = rng.uniform(0.5, 2, len(X)) if is_weighted else np.ones(len(X))
    model = with_final(small_ensemble(StackedRegressor)).fit(X, y, weight if is_weighted else None)
    mean = np.average(y, weights=weight)
    Y = ((y - mean) / np.sqrt(np.average((y - mean) ** 2, weights=weight)))[:, None]
    folds = two_folds(X)
    given = dict(model.estimators)
    used = [
        naive_left_out(clone(given[k]), X, y, Y, weight, folds) for k in model.named_estimators_
    ]
    scores = np.tensordot(model.weights_, used, 1)
    variance = np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    np.testing.assert_allclose(model.feature_scale_, np.sqrt(variance.mean()))
    with_scores = np.hstack([X, scores * model.feature_scale_])
    final = clone(model.final_estimator).fit(with_scores, y, weight)
    second = naive_left_out(clone(final), with_scores, y, Y, weight, folds)
    root = np.sqrt(weight)
    pair, _ = nnls(np.hstack([scores, second]) * root[:, None], Y[:, 0] * root)
    assert 0.05 < model.final_weight_ <= 1
    np.testing.assert_allclose(model.final_weight_, pair[1] / pair.sum(), rtol=1e-5)

    first = sum(w * m.predict(X) for w, m in zip(model.weights_, model.estimators_, strict=True))
    first += model.intercept_[0]
    standardised = (first - mean) / model.target_scale_
    extended = np.column_stack([X, standardised * model.feature_scale_])
    expected = (1 - model.final_weight_) * first + model.final_weight_ * final.predict(extended)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8)
    contributions = model.contributions(X)
    assert contributions.shape == (len(X), len(model.weights_) + 1)
    start = (1 - model.final_weight_) * model.intercept_
    np.testing.assert_allclose(contributions.sum(axis=1) + start, expected, rtol=1e-8)


@pytest.mark.parametrize("kind", ["one", "two", "several", "labels"])
def test_final_classifier(large_data, kind):
    X, y, _ = large_data
    y = target_of_kind(kind, X, y)
    model = with_final(small_ensemble(StackedClassifier), alpha=0.1).fit(X, y)
    share, final = model.final_weight_, model.final_estimator_
    assert 0 < share <= 1

    def scores_of(network, X):
        scores = network.decision_function(X)
        return np.column_stack(scores) if isinstance(scores, list) else scores.reshape(len(X), -1)

    each = zip(model.weights_, model.estimators_, strict=True)
    first = sum(weight * scores_of(network, X) for weight, network in each)
    second = scores_of(final, np.hstack([X, first * model.feature_scale_]))
    expected = (1 - share) * first + share * second
    if hasattr(model, "matrix_scaling_"):  # of three classes that are masked, or nearly so
        matrix = model.matrix_scaling_ if kind == "one" else model.matrix_scaling_[0]
        expected[:, :3] = expected[:, :3] @ matrix[:, :3].T + matrix[:, 3]
    np.testing.assert_allclose(scores_of(model, X), expected, atol=1e-12)


def test_the_scale_of_more_samples_than_it_is_computed_from(rng):
    X = rng.normal(scale=3, size=(3000, 2))
    weighting = ClassWeighting().with_scale_of(X, np.ones(3000))
    assert weighting.feature_scale_ == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_of_the_final_estimator_do_not_depend_on_the_unit(data, rng, unit, dtype):
    X = data[0].astype(dtype)
    scores, weight = rng.normal(size=(len(X), 3)), np.ones(len(X))

    def features(X):
        return ClassWeighting().with_scale_of(X, weight).append_scores(None, X, scores)

    rows = X * dtype(unit)
    np.testing.assert_allclose(features(rows), features(X) * unit, rtol=1e-5)
    assert features(rows).dtype == dtype


def test_ensembles_of_earlier_versions_have_scores_as_features(large_data):
    """They have no `feature_scale_`; their final estimator was fitted to the scores themselves."""
    X, y, _ = large_data
    model = with_final(small_ensemble(StackedClassifier), alpha=0.1).fit(X, y)
    model.feature_scale_ = 1.0
    expected = model.decision_function(X)
    del model.feature_scale_
    np.testing.assert_array_equal(model.decision_function(X), expected)


def test_a_useless_final_estimator_is_dropped(data):
    X, _, y = data
    model = with_final(regressor(), alpha=1e12).fit(X, y)
    assert (model.final_estimator_, model.final_weight_) == (None, 0)
    expected = regressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-12)


def test_no_final_estimator_if_the_sample_lacks_a_class(rng):
    """It could not predict that class."""
    X = rng.normal(size=(300, 3))
    y = np.where(np.arange(300) < 2, "rare", np.where(X[:, 0] > 0, "high", "low"))
    model = StackedClassifier(random_state=0)
    model = with_parts(model, weighting={"max_final_samples": 60}).fit(X, y)
    assert model.final_estimator_ is None
    assert model.predict_proba(X).shape == (300, 3)


def test_a_default_final_estimator_that_interpolates_is_dropped(data):
    """Nothing that the user gave is wrong, so that the ensemble is fitted without it."""
    X, y, _ = data

    class Ensemble(StackedClassifier):
        default_estimators = staticmethod(lambda: pair(RBFClassifier, TanhClassifier))
        default_final_estimator = staticmethod(lambda: TanhClassifier(300, scale=0.5))

    def set_penalty(_, final, pairs):
        final.set_params(alpha=1e-15)

    with mock.patch.object(BaseEstimators, "set_final_penalty", set_penalty):
        model = Ensemble(random_state=0).fit(X, y)
    assert model.final_weight_ == 0
