"""Scorers, scikit-learn's and those of ones own: each gives what it gives in GridSearchCV."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import f1_score, get_scorer, hinge_loss, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from search.comparing import (
    ALL_PASSES,
    RBF,
    SIZES,
    TANH,
    TANH_AUTO,
    TANH_OF_SPLITS,
    VALUES,
    compare,
    of_the_rows,
    same_fits,
)
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier


@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        (None, True),
        ("accuracy", True),
        ("roc_auc", True),
        (["roc_auc", "f1", "average_precision"], "roc_auc"),
        (("accuracy", "f1"), False),
        (
            make_scorer(hinge_loss, response_method="decision_function", greater_is_better=False),
            True,
        ),
        ({"f1": make_scorer(f1_score, pos_label=0), "auc": get_scorer("roc_auc")}, "f1"),
    ],
    ids=["none", "one", "of scores", "several of scores", "several", "with needs", "by name"],
)
@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:One or more of the t")
def test_scorers(cancer, scoring, refit):
    how = {"scoring": scoring, "refit": refit, "return_train_score": True}
    for network in (TANH, RBF):
        compare(network, {"n_hidden": [40, 10]}, cancer, **how)


def several(estimator, X, y):
    return {"accuracy": estimator.score(X, y), "rows": of_the_rows(estimator, X, y)}


@pytest.mark.parametrize("network", ALL_PASSES)
@pytest.mark.parametrize(
    ("scoring", "refit"),
    [
        (of_the_rows, True),
        (several, "rows"),
        ({"own": of_the_rows, "f1": "f1_macro", "values": VALUES}, "own"),
        (several, False),
    ],
    ids=["one", "several", "among others", "without refit"],
)
def test_scorers_of_ones_own(wine, network, scoring, refit):
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
        (RBFClassifier(30, random_state=0, class_weight={1: 2.0}), {"radius": ["auto", 5.0]}),
    ],
)
def test_a_scorer_meets_what_fit_would_have_left(wine, network, grid):
    same_fits(network, grid, wine)


def test_a_scorer_meets_the_steps_before_the_network(wine):
    def of_steps(estimator, X, y):
        return estimator[0].mean_.sum() + estimator.score(X, y) + estimator[-1].readout_coef_.sum()

    estimator = make_pipeline(StandardScaler(), TANH)
    compare(estimator, {"tanhclassifier__n_hidden": [10, 20]}, wine, scoring=of_steps)


@pytest.mark.parametrize("network", [TANH, RBF])
def test_probabilities(wine, network):
    network = clone(network).set_params(probability=True)
    how = {"scoring": ["neg_log_loss", "roc_auc_ovr", "accuracy"], "refit": "neg_log_loss"}
    grid = {"n_hidden": [10, 20]}
    ours = compare(network, grid, wine, alone=4, return_train_score=True, **how)
    np.testing.assert_allclose(ours.predict_proba(wine[0]).sum(axis=1), 1)


def test_no_probabilities_unless_asked_for(wine):
    """As with GridSearchCV, each score is missing, with a warning."""
    with pytest.warns(UserWarning, match="Scoring failed|non-finite"):
        ours = compare(TANH, {"n_hidden": [10]}, wine, scoring="neg_log_loss")
    assert np.isnan(ours.best_score_)
    assert not hasattr(ours, "predict_proba")


def test_errors_name_the_response_that_a_scorer_misses(wine):
    how = {"scoring": ["neg_log_loss", "accuracy"], "refit": False, "cv": 2}
    for search, name in ((GridSearchCV, "TanhClassifier"), (HiddenSizeSearchCV, "Candidate")):
        message = f"{name} has none of the following attributes: predict_proba"
        with pytest.raises(AttributeError, match=message):
            search(TANH, SIZES, **how).fit(*wine)


def moody(estimator, X, y):
    if estimator.n_hidden == 40 and X[0, 0] > 0:
        raise ArithmeticError("not today")
    return estimator.score(X, y)


@pytest.mark.parametrize("scoring", [moody, {"a": moody, "b": "accuracy"}])
@pytest.mark.parametrize("error_score", [np.nan, -7.0])
@pytest.mark.filterwarnings("ignore:One or more of the t")
def test_a_scorer_that_raises(wine, scoring, error_score):
    refit = scoring is moody or "b"
    how = {"scoring": scoring, "error_score": error_score, "refit": refit, "cv": 3}
    with pytest.warns(UserWarning, match="(?s)Scoring failed.*not today"):
        compare(TANH, SIZES, wine, return_train_score=True, **how)
    for search in (GridSearchCV, HiddenSizeSearchCV):
        with pytest.raises(ArithmeticError, match="not today"):
            search(TANH, SIZES, **{**how, "error_score": "raise"}).fit(*wine)
