"""`explain` of ensembles: weighted contributions of the centres of all RBF networks."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

import naive
from sklearn_fsvc import RBFClassifier, RBFRegressor, StackedClassifier, StackedRegressor
from stacking.ensembles import (
    GIVEN,
    RBF,
    classifier,
    regressor,
    small_ensemble,
    tanh_classifier,
    target_of_kind,
    with_final,
)


def two_rbf(kind, **params):
    """Return an ensemble of two RBF networks that share some centres."""
    networks = [("a", kind(25, **RBF)), ("b", kind(40, **RBF | {"random_state": 1}))]
    ensemble = StackedRegressor if kind is RBFRegressor else StackedClassifier
    return ensemble(networks, random_state=0, **params)


def expected(model, X, y, column, signs):
    """Return contributions of all training samples, and the sum of intercepts, by the formula."""
    contributions, intercept = np.zeros((len(X), len(y))), signs * model.intercept_[column]
    for weight, network in zip(model.weights_, model.estimators_, strict=True):
        if hasattr(network, "explain"):
            H = naive.of_model(network, X)
            W, b = network.readout_coef_[column], network.readout_intercept_[column]
            contributions[:, network.support_] += weight * signs[:, None] * H * W
            intercept = intercept + weight * signs * b
    factor = 1 - model.final_weight_
    return factor * contributions, factor * intercept


def check(model, X, y, column, signs, n=4, output=0):
    explanation = model.explain(X, n, output)
    each, intercept = expected(model, X, y, column, signs)
    np.testing.assert_allclose(
        explanation.contributions, np.take_along_axis(each, explanation.support, axis=1), atol=1e-5
    )
    size = np.abs(each)
    np.testing.assert_allclose(
        np.abs(explanation.contributions), np.sort(size, axis=1)[:, ::-1][:, :n], atol=1e-5
    )
    np.testing.assert_allclose(explanation.intercept, intercept, atol=1e-5)
    others = model.contributions(X, output)
    rbf = [k for k, network in enumerate(model.estimators_) if hasattr(network, "explain")]
    others = np.abs(np.delete(others, rbf, axis=1)).sum(axis=1)
    np.testing.assert_allclose(explanation.total, size.sum(axis=1) + others, rtol=1e-4)
    assert explanation.units is None
    assert "unit" not in explanation.to_frame()
    return explanation


def test_several_networks(data):
    """A training sample that is a centre of both contributes to both."""
    X, _, numbers = data
    model = two_rbf(RBFRegressor).fit(X, numbers)
    assert np.intersect1d(*[network.support_ for network in model.estimators_]).size
    explanation = check(model, X, numbers, np.zeros(len(X), int), np.ones(len(X)))
    np.testing.assert_allclose(explanation.scores, model.predict(X))
    np.testing.assert_allclose(explanation.predictions, model.predict(X))
    np.testing.assert_allclose(explanation.targets, numbers[explanation.support])


@pytest.mark.parametrize("kind", ["one", "two", "several", "labels"])
def test_classification(data, kind):
    """The score of the class that the ensemble predicts, whatever its networks predict."""
    X, y, _ = data
    y = target_of_kind(kind, X, y)
    model = classifier().fit(X, y)
    scores, predictions = model.decision_function(X), model.predict(X)
    if kind == "one":
        column, signs = scores.argmax(axis=1), np.ones(len(X))
    elif kind == "two":
        column, signs = np.zeros(len(X), int), np.where(scores > 0, 1.0, -1.0)
    else:  # the second column of y
        scores = scores[1] if kind == "several" else scores[:, 1]
        column = np.full(len(X), 3 if kind == "several" else 1)
        signs = np.where(scores > 0, 1.0, -1.0)
        predictions = predictions[:, 1]
    output = int(kind in ("several", "labels"))
    explanation = check(model, X, y, column, signs, output=output)
    assert (explanation.predictions == predictions).all()
    of_output = y[:, 1] if output else y
    assert (explanation.targets == of_output[explanation.support]).all()
    top = scores.max(axis=1) if kind == "one" else np.abs(scores)
    np.testing.assert_allclose(explanation.scores, top, atol=1e-5)
    with pytest.raises(ValueError, match=r"output=3: y has"):
        model.explain(X, output=3)


@pytest.mark.parametrize("kind", ["one", "two", "labels"])
def test_uncovered_samples(data, kind):
    """The nearest centre of each network contributes its whole score."""
    X, y, _ = data
    y = target_of_kind(kind, X, y)
    params = GIVEN | {"kernel": "triangular", "radius": 0.5, "selection": "random"}
    networks = [(f"rbf{n}", RBFClassifier(n, **params)) for n in (20, 30)]
    model = StackedClassifier(networks, final_estimator=None).fit(X, y)
    assert (model.weights_ > 0).all()
    far = 10 * X[:50]
    scores = model.decision_function(far)
    scores = scores[:, 0] if kind == "labels" else scores
    scores = scores.max(axis=1) if kind == "one" else np.abs(scores)
    np.testing.assert_allclose(model.explain(far).scores, scores, atol=1e-6)


def test_final_estimator(large_data):
    """Its contribution is part of the rest."""
    X, _, numbers = large_data
    model = with_final(small_ensemble(StackedRegressor)).fit(X, numbers)
    assert model.final_weight_ > 0
    explanation = check(model, X, numbers, np.zeros(len(X), int), np.ones(len(X)))
    np.testing.assert_allclose(explanation.scores, model.predict(X))


@pytest.mark.parametrize("model", [RBFRegressor(25, **RBF), two_rbf(RBFRegressor)])
def test_transformed_target(data, model):
    """Predictions and targets are in the unit of y, and scores predict transformed y."""
    X, _, numbers = data
    y = np.exp(np.column_stack([numbers, -numbers]))
    model = clone(model).set_params(target_transform="log").fit(X, y)
    explanation = model.explain(X, output=1)
    np.testing.assert_allclose(explanation.predictions, model.predict(X)[:, 1])
    np.testing.assert_allclose(explanation.targets, y[explanation.support, 1])
    low, high = np.log(y[:, 1].min()), np.log(y[:, 1].max())
    residuals = np.clip(explanation.scores[:, None] + model.smearing_[:, 1], low, high)
    np.testing.assert_allclose(np.exp(residuals).mean(axis=1), explanation.predictions, rtol=1e-4)


def test_blocks(data, monkeypatch):
    X, _, numbers = data
    model = regressor().fit(X, numbers)
    whole = model.explain(X)
    monkeypatch.setattr("sklearn_fsvc._src.stacking.prediction._CONTRIBUTIONS", 50)
    parts = model.explain(X)
    np.testing.assert_array_equal(parts.support, whole.support)
    np.testing.assert_allclose(parts.contributions, whole.contributions)
    assert model.explain(X[:2], n=1000).support.shape == (2, 25)


def test_invalid_input(data):
    X, y, _ = data
    with pytest.raises(NotFittedError):
        classifier().explain(X)
    with pytest.raises(ValueError, match="n=0"):
        classifier().fit(X, y).explain(X, 0)
    with pytest.raises(ValueError, match=r"\['tanh20', 'tanh30'\], have no units that are"):
        tanh_classifier(random_state=0).fit(X, y).explain(X)
    layer = FrozenEstimator(RBFClassifier(20, **RBF).fit(X, y))
    of_layer = [("rbf", RBFClassifier(layer=layer, alpha=GIVEN["alpha"]))]
    with pytest.raises(ValueError, match=r"\['rbf'\], have no units that are training samples"):
        StackedClassifier(of_layer).fit(X, y).explain(X)
