"""Scorers of scikit-learn and of the user: the scores of GridSearchCV."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import f1_score, get_scorer, hinge_loss, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from search.comparing import (
    ALL_PASSES,
    DECISION_SCORER,
    RBF,
    SIZES,
    TANH,
    TANH_AUTO,
    TANH_OF_SPLITS,
    compare,
    compare_networks,
    count_network_fits,
    load,
    load_regression,
    score_of_samples,
    weighted_score,
)
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, RBFRegressor

pytestmark = pytest.mark.usefixtures("without_maps")


@pytest.mark.usefixtures("without_calibrations")
@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        (None, True),
        ("accuracy", False),
        ("roc_auc", False),
        (["roc_auc", "f1", "average_precision"], "roc_auc"),
        (("accuracy", "f1"), False),
        (
            make_scorer(hinge_loss, response_method="decision_function", greater_is_better=False),
            False,
        ),
        ({"f1": make_scorer(f1_score, pos_label=0), "auc": get_scorer("roc_auc")}, "f1"),
    ],
    ids=["none", "one", "of scores", "several of scores", "several", "with needs", "by name"],
)
@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:One or more of the t")
def test_scorers_of_scikit_learn(cancer, scoring, refit):
    options = {"scoring": scoring, "refit": refit, "return_train_score": True}
    network = RBF if isinstance(scoring, list) else TANH
    compare(network, {"n_hidden": [40, 10]}, cancer, **options)


def several_scores(estimator, X, y):
    return {"accuracy": estimator.score(X, y), "rows": score_of_samples(estimator, X, y)}


@pytest.mark.usefixtures("without_calibrations")
@pytest.mark.parametrize("network", ALL_PASSES)
@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        (score_of_samples, True),
        (several_scores, "rows"),
        ({"own": score_of_samples, "f1": "f1_macro", "values": DECISION_SCORER}, "own"),
        (several_scores, False),
    ],
    ids=["one", "several", "among others", "without refit"],
)
def test_custom_scorers(wine, network, scoring, refit):
    grid = {"n_hidden": [40, 10]}
    compare(network, grid, wine, scoring=scoring, refit=refit, return_train_score=True)


@pytest.mark.parametrize(
    ("network", "grid"),
    [
        (TANH, SIZES),
        (TANH_OF_SPLITS, SIZES),
        (TANH_AUTO, {"n_hidden": [40]}),
        (RBF, {"n_hidden": [40, 10], "radius": ["auto", 5.0]}),
        (RBFClassifier(selection_radius=3.0, random_state=0), {"n_hidden": [20, 10]}),
        (clone(RBF).set_params(n_hidden=30, class_weight={1: 2.0}), {"radius": ["auto", 5.0]}),
    ],
)
def test_a_custom_scorer_receives_the_fitted_estimator(wine, network, grid):
    compare_networks(network, grid, wine)


@pytest.mark.usefixtures("without_calibrations")
def test_a_custom_scorer_receives_the_fitted_pipeline(wine):
    def of_steps(estimator, X, y):
        return estimator[0].mean_.sum() + estimator.score(X, y) + estimator[-1].readout_coef_.sum()

    estimator = make_pipeline(StandardScaler(), TANH)
    compare(estimator, {"tanhclassifier__n_hidden": [10, 20]}, wine, scoring=of_steps)


@pytest.mark.parametrize("network", [TANH, RBF])
def test_probabilities(wine, network):
    network = clone(network)
    options = {"scoring": ["neg_log_loss", "roc_auc_ovr", "accuracy"], "refit": "neg_log_loss"}
    grid = {"n_hidden": [10, 20], "alpha": ["auto"]}
    actual = compare(network, grid, wine, return_train_score=True, **options)
    np.testing.assert_allclose(actual.predict_proba(wine[0]).sum(axis=1), 1)


def test_logarithms_of_probabilities(wine):
    scorer = make_scorer(weighted_score, response_method=["predict_log_proba"])
    compare(TANH, {"n_hidden": [10, 20]}, wine, scoring=scorer)


def failing_scorer(estimator, X, y):
    if estimator.n_hidden == 40 and X[0, 0] > 0:
        raise ArithmeticError("not today")
    return estimator.score(X, y)


@pytest.mark.usefixtures("without_calibrations")
@pytest.mark.parametrize(
    ("scoring", "error_score"),
    [(failing_scorer, np.nan), ({"a": failing_scorer, "b": "accuracy"}, -7.0)],
)
@pytest.mark.filterwarnings("ignore:One or more of the t")
def test_errors_of_scorers(wine, scoring, error_score):
    refit = scoring is failing_scorer or "b"
    options = {"scoring": scoring, "error_score": error_score, "refit": refit, "cv": 3}
    with pytest.warns(UserWarning, match="(?s)Scoring failed.*not today"):
        compare(TANH, SIZES, wine, return_train_score=True, **options)
    for search in (GridSearchCV, HiddenSizeSearchCV):
        with pytest.raises(ArithmeticError, match="not today"):
            search(TANH, SIZES, **{**options, "error_score": "raise"}).fit(*wine)


@pytest.mark.parametrize(
    "scoring", ["neg_log_loss", ["accuracy", "roc_auc_ovr"], {"p": "neg_brier_score"}]
)
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_scorers_of_unavailable_probabilities(scoring, in_pipeline, wine):
    """One error before any fit; GridSearchCV's behaviour if some candidates have the method."""
    network = clone(RBF).set_params(readout="lms")
    estimator = make_pipeline(StandardScaler(), network) if in_pipeline else network
    prefix = "rbfclassifier__" if in_pipeline else ""
    options = {"scoring": scoring, "cv": 2, "refit": False}
    with (
        count_network_fits() as fits,
        pytest.raises(ValueError, match=r"^scoring='.*needs predict_proba, and readout='lms'"),
    ):
        HiddenSizeSearchCV(estimator, {prefix + "n_hidden": [5, 10]}, **options).fit(*wine)
    assert not fits.call_count
    grid = {prefix + "readout": ["ridge"], prefix + "n_hidden": [5]}
    HiddenSizeSearchCV(estimator, grid, error_score="raise", **options).fit(*wine)


def test_a_binary_scorer_of_three_classes(wine):
    search = HiddenSizeSearchCV(TANH, {"n_hidden": [5]}, scoring="roc_auc", cv=2)
    with pytest.raises(ValueError, match=r"'roc_auc' is for two classes.*'roc_auc_ovr'"):
        search.fit(*wine)
    assert search.fit(wine[0], wine[1] == 1).best_score_ > 0.5


def test_scorers_of_probabilities_of_regressors():
    search = HiddenSizeSearchCV(RBFRegressor(), {"n_hidden": [5]}, scoring="neg_log_loss")
    with pytest.raises(ValueError, match=r"needs predict_proba, and .*RBFRegressor"):
        search.fit(*load_regression())


def test_softmax_readouts_are_warned_of():
    """Each candidate is fitted separately, with a warning of the cost."""
    X, y = load("iris")
    network = clone(TANH).set_params(readout="softmax", n_hidden=20)
    options = {"param_grid": {"alpha": [0.5, 2.0]}, "scoring": "neg_log_loss", "cv": 2}
    expected = GridSearchCV(network, **options).fit(X, y)
    with pytest.warns(UserWarning, match="softmax.* 2 candidates on 2 splits are 4 fits"):
        search = HiddenSizeSearchCV(network, **options).fit(X, y)
    for name in ("mean_test_score", "std_test_score", "rank_test_score"):
        np.testing.assert_array_equal(search.cv_results_[name], expected.cv_results_[name])
    np.testing.assert_array_equal(search.predict_proba(X), expected.predict_proba(X))
