"""Classifiers of several outputs: labels that are there or not, and classes of their own."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive
from search.comparing import (
    ALL_AUTO,
    RBF,
    SIZES,
    TANH,
    TANH_AUTO,
    TANH_OF_SPLITS,
    TRIANGLES,
    VALUES,
    compare,
    load_outputs,
    of_masks,
    of_repeated_rows,
    same_fits,
    weighed,
)
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier

KINDS = ["labels", "classes"]
AUTO = {"n_hidden": [10, 30], "alpha": [0.2, "auto"]}
NETWORKS = {
    "tanh, one pass": (TANH, SIZES),
    "tanh, a pass for each split": (TANH_OF_SPLITS, SIZES),
    "tanh, all that is automatic": (TANH_AUTO, {"n_hidden": [10, 30]}),
    "tanh, penalties": (TANH, AUTO),
    "rbf": (RBF, {**SIZES, "radius": [3.0, 6.0], "kernel": ["triangular", "gaussian"]}),
    "rbf, prefixes": (
        RBFClassifier(selection_radius=2.0, feature_weights=None, random_state=0), AUTO
    ),
    "rbf, all that is automatic": (
        RBFClassifier(random_state=0), {"n_hidden": [30], "feature_weights": [None, "auto"]}
    ),
}  # fmt: skip


def all_right(y, answers):
    return (y == answers).all(axis=1).mean()


both_kinds = pytest.mark.parametrize("kind", KINDS)
both_networks = pytest.mark.parametrize("network", [TANH, RBF])


@both_kinds
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, kind):
    """Also by the answers."""
    same_fits(*NETWORKS[name], load_outputs(kind), scoring={"right": make_scorer(all_right)})


@both_networks
def test_scorers_of_labels(network):
    scoring = ["accuracy", "f1_macro", "roc_auc", "average_precision"]
    how = {"scoring": scoring, "refit": "roc_auc", "return_train_score": True}
    compare(network, SIZES, load_outputs("labels"), **how)


@both_networks
def test_scorers_that_scikit_learn_has_not(network):
    """As with GridSearchCV, each score is missing, with a warning."""
    how = {"scoring": ["accuracy", "f1_macro"], "refit": False}
    with pytest.warns(UserWarning, match="not supported|non-finite"):
        ours = compare(network, SIZES, load_outputs("classes"), **how)
    assert np.isnan(ours.cv_results_["mean_test_accuracy"]).all()


@both_networks
@both_kinds
def test_a_scorer_of_ones_own(network, kind):
    def of_columns(estimator, X, y):
        assert estimator.predict(X).shape == y.shape
        return {
            "values": weighed(y, estimator.decision_function(X)),
            "answers": (estimator.predict(X) == y).mean(),
        }

    compare(network, SIZES, load_outputs(kind), scoring=of_columns, refit="answers")


@both_networks
@pytest.mark.parametrize("form", [csr_array, pd.DataFrame, np.ndarray.tolist, lambda y: y > 0])
def test_labels_may_have_many_forms(work, network, form):
    X, y = load_outputs("labels")
    compare(network, SIZES, (X, form(y)), return_train_score=True)
    if network is TANH:
        assert work.rows == 150  # the pass serves all splits


@both_networks
def test_classes_may_have_many_forms(network):
    X, y = load_outputs("classes")
    for each in (pd.DataFrame(y), y.tolist()):
        compare(network, SIZES, (X, each))


@both_networks
def test_two_numbers_that_are_no_labels(network):
    """scikit-learn's type_of_target calls them an indicator."""
    X, y = load_outputs("labels")
    ours = compare(network, SIZES, (X, 1 + y[:, :2]))
    assert not ours.best_estimator_.multilabel_
    assert ours.best_score_ > 0.5


@pytest.mark.parametrize(
    "cv",
    [None, ShuffleSplit(3, test_size=0.2, random_state=0), of_masks(150),
     of_repeated_rows(150, np.random.default_rng(0))],
    ids=["default", "overlapping", "masks", "repeated rows"],
)  # fmt: skip
@both_kinds
def test_splitters(kind, cv):
    for network in (TANH, RBF):
        compare(network, {"n_hidden": [30, 10]}, load_outputs(kind), scoring=VALUES, cv=cv)


@both_kinds
def test_one_pass_serves_all_splits(work, kind):
    HiddenSizeSearchCV(TANH, SIZES, cv=KFold(5), refit=False).fit(*load_outputs(kind))
    assert (work.rows, work.entries) == (150, 2 * 150 * 40)


@both_networks
def test_a_label_that_some_training_set_has_not(work, network):
    """It is a label all the same: the targets stay as they are, and so does the one pass."""
    X, y = load_outputs("labels")
    y[:, 2] = np.arange(150) < 30
    y[:, 3] = 0
    same_fits(network, SIZES, (X, y), cv=KFold(5))
    if network is TANH:
        assert work.rows == 150


@both_networks
def test_a_class_that_some_training_set_has_not(work, network):
    """There the codes of that output's classes are others."""
    X, y = load_outputs("classes")
    y[:, 0] = np.where(np.arange(150) < 30, "a", np.where(X[:, 0] > 0, "b", "c"))
    same_fits(network, SIZES, (X, y), cv=KFold(5))
    if network is TANH:
        assert (work.passes, work.rows) == (5, 4 * 150)


# Weights


@both_kinds
@pytest.mark.parametrize("network", [TANH, ALL_AUTO])
def test_weights_of_rows(kind, network):
    rng = np.random.default_rng(1)
    fit_params = {"sample_weight": rng.random(150) * (rng.random(150) > 0.33)}
    grid = {"n_hidden": [30], "alpha": [0.2, "auto"]}
    same_fits(network, grid, load_outputs(kind), fit_params=fit_params)


@both_kinds
@both_networks
def test_weights_of_classes(kind, network):
    grid = {"class_weight": ["balanced", None], "n_hidden": [10, 20]}
    compare(network, grid, load_outputs(kind), scoring=VALUES)


@pytest.mark.filterwarnings("ignore:One or more of the t")
def test_labels_without_weight_in_one_training_set():
    rows = np.arange(150)
    how = {"cv": [(rows[:75], rows[75:]), (rows[50:], rows[:90])],
           "fit_params": {"sample_weight": np.where(rows < 75, 0.0, 1.0)}}  # fmt: skip
    with pytest.warns(FitFailedWarning, match="is 0 for all samples|non-zero"):
        compare(TANH, SIZES, load_outputs("labels"), alone=4, **how)


# Steps, rows outside, and what is fitted one by one


@both_kinds
@both_networks
def test_steps_before_the_network(kind, network):
    name = type(network).__name__.lower()
    grid = {f"{name}__{key}": values for key, values in AUTO.items()}
    same_fits(make_pipeline(StandardScaler(), network), grid, load_outputs(kind))


@both_kinds
def test_rows_that_no_unit_covers(kind):
    """They have the classes of the nearest of the units that the candidate has."""
    X, y = load_outputs(kind)
    grid = {"n_hidden": [5, 20], "radius": [0.6, 1.2]}
    compare(TRIANGLES, grid, (X, y), scoring=VALUES, return_train_score=True)
    clf = clone(TRIANGLES).set_params(n_hidden=20, radius=1.2).fit(X, y)
    assert 10 < (~naive.of_model(clf, X).any(axis=1)).sum() < len(X)


@both_kinds
@both_networks
def test_probabilities(kind, network):
    network = clone(network)

    def certainty(estimator, X, y):
        return np.mean([np.max(each) for each in estimator.predict_proba(X)])

    grid = {"n_hidden": [10, 20], "alpha": [1.0, "loo"]}
    compare(network, grid, load_outputs(kind), alone=2 * 2, scoring=certainty)


@pytest.mark.filterwarnings("ignore:One or more of the t", "ignore:.*could not share")
def test_layers_that_need_one_class_for_each_row():
    grid = {"weights": ["class_informed", "gaussian"], "n_hidden": [10, 20]}
    with pytest.warns(FitFailedWarning, match="needs one class per sample"):
        ours = compare(TANH, grid, load_outputs("labels"), alone=2 * 2)
    assert np.isnan(ours.cv_results_["mean_test_score"]).tolist() == [True, False] * 2
