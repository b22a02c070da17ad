"""Classifiers with the softmax readout."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import naive
from sklearn_fsvc import HiddenSizeSearchCV, PatchClassifier, RBFClassifier, TanhClassifier
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts import softmax_penalty

OPTIONS = {"readout": "softmax", "alpha": 0.5, "random_state": 0, "device": "jit"}
NETWORKS = [
    RBFClassifier(20, kernel="laplacian", radius=3.0, feature_weights=None, **OPTIONS),
    TanhClassifier(20, feature_weights=None, **OPTIONS),
    PatchClassifier(5, image_shape=(3, 3), patch_size=2, **OPTIONS),
]


@pytest.fixture(params=NETWORKS, ids=lambda network: type(network).__name__)
def network(request):
    return clone(request.param)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(300, 9))
    return X, (X[:, :3] + rng.gumbel(size=(300, 3))).argmax(axis=1)


def loss(scores, y, weight):
    return weight @ -log_softmax(scores, axis=1)[np.arange(len(y)), y]


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 5.0}])
def test_equals_logistic_regression_of_the_activations(network, data, class_weight, rng):
    X, y = data
    weight = rng.uniform(0.5, 2, len(y))
    model = network.set_params(class_weight=class_weight).fit(X, y, sample_weight=weight)
    H = hidden_of(model, X)
    np.testing.assert_allclose(
        model.decision_function(X), H @ model.readout_coef_.T + model.readout_intercept_,
        rtol=1e-6, atol=1e-8,
    )  # fmt: skip
    balanced = weight.sum() / 3 / np.bincount(y, weight)
    each = {"balanced": balanced, "None": [1, 1, 1]}.get(str(class_weight), [5, 1, 1])
    total = weight * np.array(each)[y]
    other = LogisticRegression(C=2, tol=1e-8, solver="newton-cg").fit(H, y, total)  # 1 / alpha
    optimum = loss(other.decision_function(H), y, total) + (other.coef_**2).sum() / 4
    found = loss(model.decision_function(X), y, total) + (model.readout_coef_**2).sum() / 4
    assert optimum * (1 - 1e-6) < found < optimum * (1 + 2e-4)
    assert (model.alpha_, model.temperature_) == (0.5, 1.0)
    assert not hasattr(model, "score_scale_")
    assert model.n_iter_ >= 1


def hidden_of(model, X):
    layer = layer_of(model)
    return naive.patches(layer, X) if isinstance(model, PatchClassifier) else naive.hidden(layer, X)


def test_predict_proba_is_available(network, data):
    X, y = data
    model = network.fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p, softmax(model.decision_function(X), axis=1))
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p))
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    two = clone(network).fit(X, y == 1)
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], expit(two.decision_function(X)))


def test_outputs_are_fitted_independently(network, data):
    X, y = data
    labels = np.column_stack([y == 0, y == 2]).astype(int)
    if isinstance(network, RBFClassifier):
        network.set_params(layer=FrozenEstimator(clone(network).fit(X, y)))
    model = clone(network).fit(X, labels)
    two_outputs = clone(network).fit(X, np.column_stack([y, labels[:, 1]]))
    for k, column in enumerate(labels.T):
        single = clone(network).fit(X, column).predict_proba(X)
        np.testing.assert_allclose(model.predict_proba(X)[:, k], single[:, 1], atol=5e-3)
    np.testing.assert_allclose(two_outputs.predict_proba(X)[1], single, atol=5e-3)
    single = clone(network).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(two_outputs.predict_proba(X)[0], single, atol=5e-3)


@pytest.mark.parametrize("alpha", ["loo", [0.1, 1.0], 0.0])
def test_penalties_of_ridge_only_raise(network, data, alpha):
    with pytest.raises(ValueError, match='readout="softmax" cannot be combined; use a number'):
        network.set_params(alpha=alpha).fit(*data)


def test_automatic_penalty(network, data):
    found = network.set_params(alpha="auto").fit(*data)
    losses = {
        alpha: clone(network).set_params(alpha=alpha).fit(*data).predict_proba(data[0])
        for alpha in (found.alpha_, 1e4)
    }
    assert 1e-5 < found.alpha_ < 1e6
    assert np.ptp(losses[1e4]) < np.ptp(losses[found.alpha_])


@pytest.mark.parametrize("weight", [None, [1.0, 1e-3]])
def test_automatic_penalty_needs_two_samples_of_a_class(network, weight):
    """Training samples of each split would be of one class; a fixed penalty needs no split."""
    if isinstance(network, RBFClassifier):
        network.set_params(n_hidden=2)
    X, y = np.random.default_rng(0).random((2, 9)), [0, 1]
    with pytest.raises(
        ValueError, match=r'^alpha="auto" .* n_samples=2 the others are of one class'
    ):
        clone(network).set_params(alpha="auto").fit(X, y, weight)
    assert network.fit(X, y, weight).score(X, y) >= 0.5


def test_partial_fit_is_not_available(network, data):
    with pytest.raises(AttributeError, match=r'"softmax" needs several passes .* use "ridge"'):
        network.partial_fit(*data, classes=range(3))
    with pytest.raises(ValueError, match="keeps no sums of its samples"):
        network.fit(*data).forget(*data)


def test_an_unknown_readout_raises(data):
    for network in (TanhClassifier(5), PatchClassifier(5)):
        with pytest.raises(ValueError, match=r"readout='lms' .*'ridge'.*'softmax'"):
            network.set_params(readout="lms").fit(*data)


def test_a_search_warns_that_it_cannot_share_work(data):
    network = TanhClassifier(feature_weights=None, **OPTIONS)
    search = HiddenSizeSearchCV(network, {"n_hidden": [5, 20]}, cv=2)
    with pytest.warns(UserWarning, match="2 candidates on 2 splits are 4 fits"):
        search.fit(*data)
    best = clone(network).set_params(**search.best_params_).fit(*data)
    expected = best.predict_proba(data[0])
    np.testing.assert_allclose(search.predict_proba(data[0]), expected, atol=1e-6)


def test_contributions_add_up_to_the_logit(data):
    X, y = data
    model = clone(NETWORKS[0]).fit(X, y)
    explained = model.explain(X[:5], n=3)
    logits = model.decision_function(X[:5])
    chosen = logits[np.arange(5), model.predict(X[:5])]
    np.testing.assert_allclose(explained.scores, chosen, rtol=1e-6)


@pytest.mark.exhaustive
def test_separable_classes_are_classified_as_well_as_by_ridge():
    """The maximum-margin readout, which small penalties approximate, has twice the errors."""
    X, X_test, y, y_test = train_test_split(
        *load_digits(return_X_y=True), train_size=600, test_size=600, random_state=0
    )
    ridge = TanhClassifier(200, feature_weights=None, random_state=0).fit(X, y)
    model = clone(ridge).set_params(readout="softmax").fit(X, y)
    error, ridge_error = (np.mean(each.predict(X_test) != y_test) for each in (model, ridge))
    assert error <= ridge_error + 0.003
    plain = clone(model).set_params(alpha=0.1).fit(X, y)
    losses = [log_loss(y_test, each.predict_proba(X_test)) for each in (model, plain)]
    assert losses[0] < 0.9 * losses[1]


def test_confident_samples_have_no_curvature():
    """Only the penalty determines the step of the solver, which must stay finite."""
    X = np.repeat([[1.0, 3.0], [2.0, 1.0], [3.0, 3.0], [4.0, 1.0]], 4, axis=0)
    y = np.repeat([1, 2, 1, 2], 4)
    model = RBFClassifier(10, readout="softmax", feature_weights=None, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer distinct samples than units
        model.fit(X, y)
    assert model.score(X, y) == 1
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(("n_rare", "n_parts"), [(7, 6), (750, 1)])
def test_all_samples_of_a_rare_class_validate_the_penalty(n_rare, n_parts, monkeypatch):
    """One part of the samples has about one of seven: any penalty may be best for it."""
    X = np.random.default_rng(0).normal(size=(1500, 3))
    y, split, held_out = (np.argsort(X[:, 0]) < n_rare).astype(int), softmax_penalty._split, []

    def record(samples, parts):
        held_out.extend(parts)
        return split(samples, parts)

    monkeypatch.setattr(softmax_penalty, "_split", record)
    TanhClassifier(
        5, readout="softmax", feature_weights=None, scale=0.5, random_state=0
    ).fit(X, y)  # fmt: skip
    assert len(held_out) == n_parts
    assert len(np.unique(np.concatenate(held_out))) == 250 * n_parts
