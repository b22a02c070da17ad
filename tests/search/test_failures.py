"""Candidates that fail, candidates that cannot share a pass, and invalid input."""

from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from search.comparing import (
    ALL_SCORES,
    RBF,
    SIZES,
    TANH,
    assert_same_results,
    bootstrap_splits,
    compare,
)
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFProjector,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
)
from sklearn_fsvc._src.search import shared_fits

pytestmark = pytest.mark.usefixtures("without_calibrations")


@pytest.mark.filterwarnings("ignore:One or more of the t")
@pytest.mark.parametrize(("network", "error_score"), [(TANH, np.nan), (RBF, -1.0)])
def test_an_invalid_penalty_does_not_affect_other_candidates(wine, network, error_score):
    grid = {"alpha": [1.0, -1, 0.1], "n_hidden": [10, 20]}
    with pytest.warns(FitFailedWarning, match="alpha=-1 must be"):
        ours = compare(network, grid, wine, error_score=error_score, n_separate=2 * 2)
    failed = ours.cv_results_["mean_test_score"] == error_score
    failed |= np.isnan(ours.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(failed, np.array([0, 0, 1, 1, 0, 0], bool))


@pytest.mark.filterwarnings("ignore:One or more of the t")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_an_invalid_size_does_not_affect_other_candidates(wine, network):
    with pytest.warns(FitFailedWarning, match="n_hidden=0 must be at least 1"):
        compare(network, {"n_hidden": [10, 0, 20]}, wine, n_separate=2)


@pytest.mark.filterwarnings("ignore:One or more of the t")
def test_a_size_that_exceeds_the_memory_does_not_affect_other_candidates(wine):
    """The smaller sizes of the same group are fitted separately."""
    network = clone(TANH).set_params(max_memory="1MiB")
    grid = {"n_hidden": [10, 300, 20], "alpha": ["auto"]}
    with (
        pytest.warns(FitFailedWarning, match="within max_memory"),
        pytest.warns(UserWarning, match="could not share their work"),
    ):
        ours = compare(network, grid, wine, n_separate=3 * 2)
    failed = np.isnan(ours.cv_results_["mean_test_score"])
    assert failed.tolist() == [False, True, False]


@pytest.mark.filterwarnings("ignore:One or more of the t", "ignore:.*could not share")
def test_candidates_may_fail_on_some_splits(wine):
    """One split trains on a single class."""
    X, y = (each[np.argsort(wine[1], kind="stable")] for each in wine)
    rows = np.arange(len(y))
    cv = [(rows[:30], rows[30:]), (rows[30:], rows[:30]), (rows[::2], rows[1::2])]
    with pytest.warns(FitFailedWarning, match="y has one class"):
        ours = compare(
            RBF, {"n_hidden": [10, 20]}, (X, y), cv=cv, n_separate=2, return_train_score=True
        )
    assert np.isnan(ours.cv_results_["split0_test_score"]).all()
    assert np.isfinite(ours.cv_results_["split1_test_score"]).all()


@pytest.mark.parametrize(
    ("grid", "match"),
    [({"n_hidden": [10, 0]}, "n_hidden=0 must"), ({"alpha": [1.0, -1]}, "alpha=-1")],
)
def test_error_score_raise_raises(wine, grid, match):
    network = clone(RBF).set_params(n_hidden=10)
    for search in (GridSearchCV, HiddenSizeSearchCV):
        with pytest.raises(ValueError, match=match):
            search(network, grid, error_score="raise", cv=2).fit(*wine)


def test_a_search_of_invalid_candidates_is_refused(wine):
    for search in (GridSearchCV, HiddenSizeSearchCV):
        with pytest.raises(ValueError, match=r"(?s)All the 10 fits failed.*n_hidden=0 must"):
            search(RBF, {"n_hidden": [0, -1]}).fit(*wine)


def test_candidates_that_share_no_pass(wine):
    grids = [
        {"readout": ["lms", "none"], "n_hidden": [10]},
        {"alpha": ["loo", 1.0, [0.1, 1.0]], "n_hidden": [10]},
    ]
    cv = bootstrap_splits(len(wine[1]), np.random.default_rng(0))[:2]
    ours = compare(RBF, grids, wine, n_separate=2 * 4, **{**ALL_SCORES, "cv": cv})
    assert ours.best_params_.keys() <= {"readout", "n_hidden", "alpha"}


def test_networks_without_a_finite_solution_are_fitted_separately(wine, monkeypatch):
    """The other candidates of the pass are unaffected."""
    solve = shared_fits.RidgeStatistics.solve_leading

    def unsolved(statistics, alpha, sizes):
        actual = solve(statistics, alpha, sizes)
        actual[-1] = actual[-1]._replace(W=actual[-1].W * np.nan)
        return actual

    monkeypatch.setattr(shared_fits.RidgeStatistics, "solve_leading", unsolved)
    X, y = wine
    compare(TANH, {"n_hidden": [10, 20], "alpha": [1.0]}, (X, y > 0), n_separate=2, **ALL_SCORES)


# Invalid input


OTHER_ESTIMATORS = {
    "other": (SVC(), r"^estimator=SVC\(\) is not a classifier or regressor .*GridSearchCV"),
    "other in a pipeline": (
        make_pipeline(StandardScaler(), LogisticRegression()),
        r"^estimator ends in LogisticRegression\(\), which is not a classifier .*GridSearchCV",
    ),
    "nothing at the end": (make_pipeline(TANH, StandardScaler()), "is not a .*GridSearchCV"),
    "class": (TanhClassifier, r"is a class; pass an estimator: TanhClassifier\(\)\.$"),
    "transformer": (
        RBFProjector(5),
        r"is a transformer, .*make_pipeline\(RBFProjector\(\), \.\.\.\) .*"
        "'rbfprojector__n_components'",
    ),
    "ensemble": (StackedClassifier(), r"is an ensemble, .*RBFClassifier\(\).* 'NAME__n_hidden'"),
    "ensemble of regressors": (StackedRegressor(), r"is an ensemble, .*RBFRegressor\(\)"),
    "ensemble in a pipeline": (
        make_pipeline(StandardScaler(), StackedClassifier()),
        "^estimator ends in Stacked.*, which is an ensemble, .*'stackedclassifier__NAME__n_hidden'",
    ),
}


@pytest.mark.parametrize(("estimator", "message"), OTHER_ESTIMATORS.values(), ids=OTHER_ESTIMATORS)
def test_other_estimators_are_refused_with_a_remedy(wine, estimator, message):
    search = HiddenSizeSearchCV(estimator, {})
    with pytest.raises(TypeError, match=message):
        search.fit(*wine)
    assert not hasattr(search, "cv_results_")


def test_an_ensemble_is_searched_as_the_message_recommends(wine):
    pair = [
        ("tanh", clone(TANH).set_params(n_hidden=20)),
        ("rbf", clone(RBF).set_params(n_hidden=10)),
    ]
    ensemble = make_pipeline(StandardScaler(), StackedClassifier(pair, random_state=0))
    grid = {"stackedclassifier__tanh__n_hidden": [10, 30]}
    search = GridSearchCV(ensemble, grid, cv=2, error_score="raise").fit(*wine)
    assert search.best_score_ > 0.9


X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
X_NAN = np.where(np.arange(40)[:, None] == 7, np.nan, X)
BAD_INPUT = {
    "NaN": (X_NAN, Y, {}, "NaN"),
    "y too short": (X, Y[:-1], {}, "inconsistent"),
    "one class": (X, np.zeros(40, int), {}, "one class"),
    "numbers for labels": (X, np.linspace(0, 1, 40), {}, "continuous"),
    "a column": (X[:, 0], Y, {}, "1D array"),
    "no sizes": (X, Y, {"param_grid": {"n_hidden": []}}, "n_hidden"),
    "no grids": (X, Y, {"param_grid": []}, "No fits were performed"),
    "unknown name": (X, Y, {"param_grid": {"n_hiden": [3]}}, "Invalid parameter 'n_hiden'"),
    "cv unknown": (X, Y, {"cv": "three"}, "cv"),
    "cv of one": (X, Y, {"cv": 1}, "cv|k-fold cross-validation requires at least one"),
    "cv of too many": (X, Y, {"cv": 300}, "Cannot have number of splits n_splits=300"),
    "cv of none": (X, Y, {"cv": []}, "No fits were performed"),
    "cv of none, printed": (X, Y, {"cv": [], "verbose": 1}, "No fits were performed"),
    "scoring unknown": (X, Y, {"scoring": "goodness"}, "scoring"),
    "refit missing": (X, Y, {"scoring": ["accuracy", "f1"]}, "refit"),
    "refit unknown": (X, Y, {"refit": "f1", "scoring": ["accuracy"]}, "refit"),
    "error_score unknown": (X, Y, {"error_score": "none"}, "error_score"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_invalid_input_has_the_errors_of_grid_search(name):
    """The error of GridSearchCV; the search is unchanged."""
    X, y, parameters, match = BAD_INPUT[name]
    all_rows = [(np.arange(40), np.arange(40))]
    for kind in (GridSearchCV, HiddenSizeSearchCV):
        search = kind(clone(TANH), {"n_hidden": [3]}, cv=all_rows).set_params(**parameters)
        before = dict(vars(search))
        with pytest.raises(ValueError, match=match):
            search.fit(X, y)
        if kind is HiddenSizeSearchCV:
            assert vars(search) == before


@pytest.mark.filterwarnings("ignore")
def test_nan_affects_only_the_splits_that_contain_it():
    """In training samples it fails the fit, in test samples the score."""
    rows = np.arange(40)
    cv = [(rows[10:30], rows[30:]), (rows[:20], rows[20:]), (rows[20:], rows[:20])]
    expected, ours = (
        kind(TANH, {"n_hidden": [3, 5]}, cv=cv, refit=False).fit(X_NAN, Y).cv_results_
        for kind in (GridSearchCV, HiddenSizeSearchCV)
    )
    assert_same_results(ours, expected)
    finite = [np.isfinite(ours[f"split{split}_test_score"]).all() for split in range(3)]
    assert finite == [True, False, False]


@pytest.mark.parametrize("call", [1, 7])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_interrupted_search_is_unchanged(wine, call, error):
    calls = []

    def interrupted(estimator, X, y):
        calls.append(y)
        if len(calls) == call:
            raise error
        return 0.0

    search = HiddenSizeSearchCV(TANH, SIZES, error_score="raise").fit(*wine)
    search.set_params(scoring=interrupted)
    before = dict(vars(search))
    with pytest.raises(error):
        search.fit(*wine)
    assert len(calls) == call
    assert vars(search) == before


def test_a_search_whose_warning_is_an_error_is_unchanged(wine):
    network = clone(TANH).set_params(n_hidden=40, scale=1e-9)
    search = HiddenSizeSearchCV(network, {"alpha": [0.0]}, refit=False)
    before = dict(vars(search))
    with pytest.raises(ConvergenceWarning):
        search.fit(*wine)
    assert vars(search) == before


@pytest.mark.parametrize("name", ["gather", "score_group"])
def test_an_interrupt_of_a_pass_is_raised(wine, monkeypatch, name):
    monkeypatch.setattr(shared_fits, name, mock.Mock(side_effect=KeyboardInterrupt))
    search = HiddenSizeSearchCV(TANH, SIZES)
    before = dict(vars(search))
    with pytest.raises(KeyboardInterrupt):
        search.fit(*wine)
    assert vars(search) == before


class WithExtraMethod(TanhClassifier):
    """Has other defaults and an additional method; overrides none."""

    def __init__(self, n_hidden=20, *, alpha=1.0, random_state=0):
        super().__init__(n_hidden, alpha=alpha, random_state=random_state)

    def twice(self, X):
        return 2 * self.decision_function(X)


class WithOverriddenPredict(TanhClassifier):
    """Overrides the predictions."""

    def decision_function(self, X):
        return -super().decision_function(X)

    def predict(self, X):
        return self.classes_[self.decision_function(X).argmax(axis=1)]


@pytest.mark.parametrize(
    ("network", "n_separate"),
    [(WithExtraMethod(), 0), (WithOverriddenPredict(feature_weights=None, random_state=0), 2 * 3)],
)
def test_subclasses_share_passes_unless_they_override_methods(wine, network, n_separate):
    """They are fitted separately if they override a method that is shared."""
    grid = {"n_hidden": [10, 20], "alpha": [1.0]}
    ours = compare(network, grid, wine, cv=3, n_separate=n_separate, refit=True)
    assert type(ours.best_estimator_) is type(network)


@pytest.mark.parametrize("estimator", [TANH, make_pipeline(StandardScaler(), TANH)])
def test_a_missing_y_is_named(wine, estimator):
    search = HiddenSizeSearchCV(estimator, cv=2)
    with pytest.raises(ValueError, match="y=None, and TanhClassifier requires y"):
        search.fit(wine[0])
