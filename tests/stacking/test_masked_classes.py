"""Ensembles whose scores of masked classes are mapped."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_gaussian_quantiles

import naive
from sklearn_fsvc import RBFClassifier, StackedClassifier, TanhClassifier
from sklearn_fsvc._src.readouts.matrix_scaling import fit_matrix_scaling
from sklearn_fsvc._src.targets import labels
from sklearn_fsvc.inspection import shapley_values

# Nested classes: those between the innermost and the outermost one are masked.
X, Y = make_gaussian_quantiles(n_samples=1500, n_features=5, n_classes=4, random_state=0)
X, X_TEST, Y, Y_TEST = X[:500], X[500:], Y[:500], Y[500:]
LAPLACIAN = RBFClassifier(40, radius=20.0, kernel="laplacian", feature_weights=None, alpha=0.1)
TANH = TanhClassifier(60, scale=0.3, feature_weights=None, alpha=0.1, random_state=0)
MEMBERS = [("rbf", LAPLACIAN), ("tanh", TANH)]


def fitted(members=MEMBERS, final=None, y=Y):
    return StackedClassifier(members, final_estimator=final, random_state=0).fit(X, y)


def scores_of(model, k=0):
    """Return the weighted sum of the scores of all networks, those of the column k of y."""
    each = [network.decision_function(X_TEST) for network in model.estimators_]
    each = [scores[k] if isinstance(scores, list) else scores for scores in each]
    return np.tensordot(model.weights_, each, 1)


def test_decision_values_are_mapped():
    model = fitted()
    matrix, total = model.matrix_scaling_, scores_of(model)
    assert matrix.shape == (4, 5)
    decision = model.decision_function(X_TEST)
    np.testing.assert_allclose(decision, total @ matrix[:, :-1].T + matrix[:, -1], atol=1e-6)
    plain = np.mean(total.argmax(axis=1) == Y_TEST)
    assert model.score(X_TEST, Y_TEST) > plain + 0.08
    p = model.predict_proba(X_TEST)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X_TEST))
    assert not any(hasattr(network, "matrix_scaling_") for network in model.estimators_)
    in_set = model.predict_set(X_TEST, 0.9)[np.arange(len(p)), Y_TEST]
    assert 0.87 < in_set.mean() < 0.94


class OverriddenFit(TanhClassifier):
    def fit(self, X, y=None, sample_weight=None, **validation):
        return super().fit(X, y, sample_weight, **validation)


@pytest.mark.parametrize(
    ("role", "network"),
    [
        ("base", clone(TANH).set_params(alpha=[0.01, 0.1])),
        ("base", OverriddenFit(**TANH.get_params())),
        ("base, X_val", OverriddenFit(**TANH.get_params())),
        ("final", clone(TANH).set_params(alpha=[0.01, 0.1])),
    ],
)
def test_only_the_ensemble_maps_scores(role, network, monkeypatch):
    """Also if the fit of a network returns no leave-one-out scores, as with several penalties."""
    maps = []

    def record_map(*arguments):
        maps.append(fit_matrix_scaling(*arguments))
        return maps[-1]

    monkeypatch.setattr(labels, "fit_matrix_scaling", record_map)
    validation = {"X_val": X[400:], "y_val": Y[400:]} if "X_val" in role else {}
    models = []
    for tanh in (network, TANH):
        members, final = [("tanh", tanh)], None
        if role == "final":
            members, final = [("small", clone(TANH).set_params(n_hidden=12))], tanh
        ensemble = StackedClassifier(members, final_estimator=final, random_state=0)
        models.append(ensemble.fit(X[:400], Y[:400], **validation))
    actual = models[0]
    fitted_network = actual.final_estimator_ or actual.estimators_[0]
    assert fitted_network.alpha_ == 0.1
    assert len(maps) == len(models)
    assert hasattr(actual, "matrix_scaling_")
    assert not hasattr(fitted_network, "matrix_scaling_")
    assert not fitted_network._parts().target.is_base_estimator  # in later calls of partial_fit
    p = [model.predict_proba(X_TEST) for model in models]
    np.testing.assert_allclose(*p, atol=1e-4)


def test_columns_of_y_are_mapped_one_by_one():
    """Also beside a column of two classes, which has one score."""
    model = fitted(y=np.column_stack([Y > 1, Y]))
    two, matrix = model.matrix_scaling_
    assert two is None
    first, second = model.decision_function(X_TEST)
    np.testing.assert_allclose(first, scores_of(model, 0), atol=1e-6)
    expected = scores_of(model, 1) @ matrix[:, :-1].T + matrix[:, -1]
    np.testing.assert_allclose(second, expected, atol=1e-6)


@pytest.mark.parametrize("final", [None, TANH])
def test_contributions_add_up(final):
    members = [(name, clone(network).set_params(n_hidden=12)) for name, network in MEMBERS]
    model = fitted(members, final)
    assert (model.final_estimator_ is None) == (final is None)
    constant = model.matrix_scaling_[:, -1][model.predict(X_TEST)]
    total = model.contributions(X_TEST).sum(axis=1) + constant
    np.testing.assert_allclose(total, model.decision_function(X_TEST).max(axis=1), atol=1e-6)


def test_explanations_add_up():
    """And the contribution of a centre is that of its activation in the mapped readout."""
    model = fitted()
    explanation = model.explain(X_TEST[:50], n=3)
    total = explanation.contributions.sum(axis=1) + explanation.rest + explanation.intercept
    np.testing.assert_allclose(total, model.decision_function(X_TEST[:50]).max(axis=1), atol=1e-5)
    network, unit = model.estimators_[0], explanation.support[:, 0]
    W = model.weights_[0] * model.matrix_scaling_[:, :-1] @ network.readout_coef_
    units = np.argsort(network.support_)[np.searchsorted(np.sort(network.support_), unit)]
    rows = np.arange(50)
    H = naive.of_model(network, X_TEST[:50])
    expected = H[rows, units] * W[model.predict(X_TEST[:50]), units]
    np.testing.assert_allclose(explanation.contributions[:, 0], expected, atol=1e-5)


def test_shapley_values_add_up():
    model = fitted([("rbf", LAPLACIAN)])
    values = shapley_values(model, X_TEST[:5], X[:20])
    assert hasattr(model, "matrix_scaling_")
    total = values.base_values + values.values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(X_TEST[:5]), atol=1e-6)


def test_explanations_of_uncovered_samples_add_up():
    triangles = clone(LAPLACIAN).set_params(kernel="triangular")
    model = fitted([("triangles", triangles), ("tanh", TANH)])
    assert hasattr(model, "matrix_scaling_")
    X_FAR = 100 * X_TEST[:20]
    explanation = model.explain(X_FAR, n=3)
    total = explanation.contributions.sum(axis=1) + explanation.rest + explanation.intercept
    np.testing.assert_allclose(total, model.decision_function(X_FAR).max(axis=1), atol=1e-5)
