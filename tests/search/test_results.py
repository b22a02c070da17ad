"""Refit, pickles, copies, and the attributes of a fitted search."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from search.comparing import (
    SIZES,
    TANH,
    assert_same_results,
    assert_same_search,
    compare,
    score_of_samples,
    weighted_accuracy,
)
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier
from sklearn_fsvc._src.search import cached_estimator

pytestmark = pytest.mark.usefixtures("without_maps")

# Its centres are novel samples.
RBF = RBFClassifier(
    kernel="laplacian", radius=20.0, feature_weights=None, alpha=1.0, random_state=0
)


def test_results_without_refit(wine):
    ours = compare(TANH, SIZES, wine, refit=False)
    assert not hasattr(ours, "best_estimator_")
    assert not hasattr(ours, "predict")


def test_refit_by_a_function(wine):
    met = {}

    def slowest(results):
        met.update(results)
        return int(np.argmax(results["mean_fit_time"]))

    grid = {"n_hidden": [10, 20], "scale": [0.1, "auto"]}
    ours = HiddenSizeSearchCV(TANH, grid, refit=slowest, cv=2).fit(*wine)
    assert ours.best_index_ == ours.cv_results_["mean_fit_time"].argmax()
    assert list(met) == list(ours.cv_results_)
    assert met["params"] == ours.cv_results_["params"]
    np.testing.assert_array_equal(met["mean_fit_time"], ours.cv_results_["mean_fit_time"])
    assert ours.best_params_ == ours.cv_results_["params"][ours.best_index_]
    assert not hasattr(ours, "best_score_")
    compare(TANH, SIZES, wine, refit=lambda results: 1)


def test_predictions_of_the_search(cancer):
    network = clone(TANH)
    searches = [
        search(network, {"n_hidden": [10, 20]}, cv=2).fit(*cancer)
        for search in (GridSearchCV, HiddenSizeSearchCV)
    ]
    reference, ours = searches
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        actual, expected = (getattr(search, method)(cancer[0]) for search in (ours, reference))
        np.testing.assert_allclose(actual, expected, atol=1e-12)
    assert ours.score(*cancer) == reference.score(*cancer)
    np.testing.assert_array_equal(ours.classes_, reference.classes_)
    assert ours.n_features_in_ == 30


def test_the_score_of_the_search_is_that_of_the_scorer(cancer):
    for scoring in ("roc_auc", score_of_samples):
        reference, ours = (
            search(TANH, SIZES, scoring=scoring, cv=2).fit(*cancer)
            for search in (GridSearchCV, HiddenSizeSearchCV)
        )
        np.testing.assert_allclose(ours.score(*cancer), reference.score(*cancer), atol=1e-12)
        assert ours.scorer_ == reference.scorer_ or scoring == "roc_auc"


def test_scorers_are_those_of_the_user(wine):
    scoring = {"own": score_of_samples, "f1": "f1_macro"}
    ours = HiddenSizeSearchCV(TANH, SIZES, scoring=scoring, refit=False).fit(*wine)
    assert ours.scorer_["own"] is score_of_samples
    assert ours.scoring is scoring


@pytest.mark.parametrize("scoring", [None, "accuracy", weighted_accuracy])
def test_a_pickle_does_not_contain_the_samples(digits, scoring):
    """Intermediate results are not kept."""
    ours, reference = (
        search(TANH, {"n_hidden": [10, 20]}, scoring=scoring, cv=2).fit(*digits)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    pickled = pickle.dumps(ours)
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again.predict(digits[0]), ours.predict(digits[0]))
    assert again.score(*digits) == ours.score(*digits)
    assert_same_results(again.cv_results_, ours.cv_results_)
    assert len(pickled) < len(pickle.dumps(reference)) + 1000
    best = pickle.loads(pickle.dumps(ours.best_estimator_))
    np.testing.assert_array_equal(best.predict(digits[0]), ours.predict(digits[0]))


COPIES = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}  # fmt: skip


@pytest.mark.parametrize("copy_function", COPIES)
def test_copies_of_a_search(wine, copy_function):
    search = HiddenSizeSearchCV(TANH, {"n_hidden": [10, 20]}, scoring=score_of_samples, cv=2)
    for original in (search, search.fit(*wine)):
        again = COPIES[copy_function](original)
        assert vars(again).keys() == vars(original).keys()
        assert repr(again) == repr(original)
    assert_same_search(again, search, wine)
    assert again.score(*wine) == search.score(*wine)
    assert_same_search(again.fit(*wine), search, wine)


@pytest.mark.parametrize("copy_function", COPIES)
def test_copies_share_the_cache(wine, copy_function):
    """scikit-learn 1.8 copies the whole search for routing, but must not copy X."""
    X, y = wine
    cache = cached_estimator.FitCache(X, TANH, [{}])
    candidate, scorer, splitter = (
        COPIES[copy_function](original)
        for original in (
            cached_estimator.CachedEstimator(cache),
            cached_estimator.UserScorer(score_of_samples),
            cached_estimator.UserSplitter(KFold(2), cache),
        )
    )
    assert repr(candidate) == repr(TANH)
    assert (candidate.cache.X is X) == (splitter.cache.X is X) == (copy_function != "pickle")
    rows = np.arange(len(X))
    (train, test), _ = splitter.split(rows, y)
    candidate.set_params(candidate=0, n_hidden=10).fit(train, y[train])
    assert candidate.cache.fitted_alone == {0}
    network = clone(TANH).set_params(n_hidden=10).fit(X[train], y[train])
    assert scorer(candidate, test, y[test]) == score_of_samples(network, X[test], y[test])


def test_clones_and_parameters(wine):
    search = HiddenSizeSearchCV(TANH, {"n_hidden": [10, 20]}, scoring=score_of_samples, cv=KFold(3))
    parameters = dict(search.get_params())
    search.fit(*wine)
    assert search.get_params() == parameters
    assert vars(TANH).keys() == TANH.get_params(deep=False).keys()
    again = clone(search)
    assert not hasattr(again, "cv_results_")
    assert_same_search(again.fit(*wine), search, wine)
    again.set_params(estimator__scale=0.1).fit(*wine)
    assert again.best_estimator_.scale == 0.1


def test_a_second_fit_is_like_the_first(wine, iris):
    ours, reference = (
        search(TANH, {"n_hidden": [1, 30]}, cv=2).fit(*wine)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    for search in (ours, reference):
        search.set_params(param_grid={"n_hidden": [10, 20]}).fit(*iris)
    assert_same_search(ours, reference, iris)


def test_a_second_fit_without_refit_has_no_best_estimator(wine):
    ours, reference = (
        search(TANH, {"n_hidden": [1, 30]}, cv=2).fit(*wine)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    assert ours.best_index_ > 0
    options = {"scoring": ["accuracy", "f1_macro"], "param_grid": {"n_hidden": [10]}}
    for search in (ours, reference):
        search.set_params(refit=False, **options).fit(*wine)
    assert_same_results(ours.cv_results_, reference.cv_results_)
    assert not hasattr(ours, "best_params_")


def test_a_search_within_cross_validation(wine):
    ours, reference = (
        cross_val_score(search(TANH, SIZES, cv=2), *wine, cv=2)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize(
    ("network", "n_samples", "sizes"),
    [
        (TANH, 178, [25, 50, 100, 200, 500, 1000, 2000]),
        (RBF, 178, [25, 50, None]),
        (RBF, 30, [15, None]),
    ],
    ids=["tanh", "rbf", "rbf, few samples"],
)
def test_the_default_grid_has_sizes(wine, network, n_samples, sizes):
    """Up to 2000; of RBF units, whose centres are samples, up to half of them, and the default."""
    X, y = (each[:: len(each) // n_samples][:n_samples] for each in wine)
    pipeline = make_pipeline(StandardScaler(), network)
    grid = {f"{type(network).__name__.lower()}__n_hidden": sizes}
    search = HiddenSizeSearchCV(pipeline, cv=2).fit(X, y)
    same = HiddenSizeSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.param_grid is None  # as every parameter, it is not changed by fit
    assert search.cv_results_["params"] == same.cv_results_["params"]
    means = (each.cv_results_["mean_test_score"] for each in (search, same))
    np.testing.assert_array_equal(*means)


def test_the_default_grid_needs_a_layer_with_a_size(wine):
    X, y = wine
    network = RBFClassifier(layer=X[:9], radius=1.0)
    with pytest.raises(ValueError, match=r'layer is given.*\{"alpha": \[0.1, 1, 10\]\}'):
        HiddenSizeSearchCV(network).fit(X, y)
