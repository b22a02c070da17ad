"""Searches of multilabel and multioutput classifiers."""

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
    DECISION_SCORER,
    RBF,
    SIZES,
    SIZES_AND_PENALTIES,
    TANH,
    TANH_AUTO,
    TANH_OF_SPLITS,
    TRIANGLES,
    bootstrap_splits,
    compare,
    compare_networks,
    load_multioutput,
    mask_splits,
    weighted_score,
)
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier

AUTO = {"n_hidden": [10, 30], "alpha": [0.2, "auto"]}
NETWORKS = {
    "tanh, one pass": (TANH, SIZES_AND_PENALTIES),
    "tanh, a pass for each split": (TANH_OF_SPLITS, SIZES_AND_PENALTIES),
    "tanh, all that is automatic": (TANH_AUTO, {"n_hidden": [10, 30]}),
    "tanh, penalties": (TANH, AUTO),
    "rbf": (RBF, {**SIZES, "radius": [3.0, 6.0]}),
    "rbf, prefixes": (
        RBFClassifier(selection_radius=2.0, feature_weights=None, random_state=0), AUTO
    ),
    "rbf, automatic": (
        RBFClassifier(random_state=0), {"n_hidden": [30], "feature_weights": [None, "auto"]}
    ),
}  # fmt: skip


def exact_match(y, predictions):
    return (y == predictions).all(axis=1).mean()


both_kinds = pytest.mark.parametrize(
    "kind", ["labels", pytest.param("classes", marks=pytest.mark.exhaustive)]
)
both_networks = pytest.mark.parametrize("network", [TANH, RBF])


@both_kinds
@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_grid_search(name, kind):
    """Also for scores of predictions."""
    compare_networks(
        *NETWORKS[name], load_multioutput(kind), scoring={"right": make_scorer(exact_match)}
    )


@both_networks
def test_multilabel_scorers(network):
    scoring = ["accuracy", "f1_macro", "roc_auc", "average_precision"]
    options = {"scoring": scoring, "refit": "roc_auc", "return_train_score": True}
    compare(network, SIZES, load_multioutput("labels"), **options)


@both_networks
def test_scorers_without_multioutput_support(network):
    """Both searches warn, and have missing scores."""
    options = {"scoring": ["accuracy", "f1_macro"], "refit": False}
    with pytest.warns(UserWarning, match="not supported|non-finite"):
        search = compare(network, SIZES, load_multioutput("classes"), **options)
    assert np.isnan(search.cv_results_["mean_test_accuracy"]).all()


@both_networks
@both_kinds
def test_custom_scorers(network, kind):
    def of_columns(estimator, X, y):
        assert estimator.predict(X).shape == y.shape
        return {
            "values": weighted_score(y, estimator.decision_function(X)),
            "label_accuracy": (estimator.predict(X) == y).mean(),
        }

    compare(network, SIZES, load_multioutput(kind), scoring=of_columns, refit="label_accuracy")


@both_networks
@pytest.mark.parametrize("form", [csr_array, pd.DataFrame, np.ndarray.tolist, lambda y: y > 0])
def test_containers_of_labels(work, network, form):
    X, y = load_multioutput("labels")
    compare(network, SIZES, (X, form(y)), return_train_score=True)
    if network is TANH:
        assert work.rows == 150  # one pass for all splits


@both_networks
def test_containers_of_classes(network):
    X, y = load_multioutput("classes")
    for each in (pd.DataFrame(y), y.tolist()):
        compare(network, SIZES, (X, each))


@both_networks
def test_two_values_other_than_0_and_1(network):
    """scikit-learn's type_of_target has an indicator for them."""
    X, y = load_multioutput("labels")
    search = compare(network, SIZES, (X, 1 + y[:, :2]), refit=True)
    assert not search.best_estimator_.multilabel_
    assert search.best_score_ > 0.5


@pytest.mark.parametrize(
    "cv",
    [None, ShuffleSplit(3, test_size=0.2, random_state=0), mask_splits(150),
     bootstrap_splits(150, np.random.default_rng(0))],
    ids=["default", "overlapping", "masks", "repeated rows"],
)  # fmt: skip
@both_kinds
def test_splitters(kind, cv):
    for network in (TANH, RBF):
        compare(
            network, {"n_hidden": [30, 10]}, load_multioutput(kind), scoring=DECISION_SCORER, cv=cv
        )


@both_kinds
def test_all_splits_share_one_pass(work, kind):
    HiddenSizeSearchCV(TANH, SIZES_AND_PENALTIES, cv=KFold(5), refit=False).fit(
        *load_multioutput(kind)
    )
    # Leave-one-out scores show whether one of several classes is masked: for two penalties.
    left_out = 2 * 5 * 120 if kind == "classes" else 0
    assert (work.rows, work.entries) == (150, (2 * 150 + left_out) * 40)


@both_networks
def test_a_label_missing_in_a_training_set(work, network):
    """The label remains a target, so that all splits share one pass."""
    X, y = load_multioutput("labels")
    y[:, 2] = np.arange(150) < 50
    y[:, 3] = 0
    compare_networks(network, SIZES, (X, y), cv=KFold(3))
    if network is TANH:
        assert work.rows == 150


@both_networks
def test_a_class_missing_in_a_training_set(work, network):
    """There the classes of that output are encoded otherwise."""
    X, y = load_multioutput("classes")
    y[:, 0] = np.where(np.arange(150) < 30, "a", np.where(X[:, 0] > 0, "b", "c"))
    compare_networks(network, SIZES, (X, y), cv=KFold(5))
    if network is TANH:
        assert (work.passes, work.rows) == (5, 4 * 150)


# Weights


@both_kinds
@pytest.mark.parametrize("network", [TANH, ALL_AUTO])
def test_sample_weights(kind, network):
    rng = np.random.default_rng(1)
    fit_params = {"sample_weight": rng.random(150) * (rng.random(150) > 0.33)}
    grid = {"n_hidden": [30], "alpha": ["auto"]}
    compare_networks(network, grid, load_multioutput(kind), fit_params=fit_params)


@both_kinds
@both_networks
def test_class_weights(kind, network):
    grid = {"class_weight": ["balanced", None], "n_hidden": [10, 20]}
    compare(network, grid, load_multioutput(kind), scoring=DECISION_SCORER)


@pytest.mark.filterwarnings("ignore:One or more of the t")
def test_labels_of_weight_0_in_a_training_set():
    rows = np.arange(150)
    options = {"cv": [(rows[:75], rows[75:]), (rows[50:], rows[:90])],
           "fit_params": {"sample_weight": np.where(rows < 75, 0.0, 1.0)}}  # fmt: skip
    with pytest.warns(FitFailedWarning, match="is zero for all samples"):
        compare(TANH, SIZES, load_multioutput("labels"), n_separate=2, **options)


# Pipelines, uncovered samples, and networks that are fitted separately


@both_kinds
@both_networks
def test_steps_before_the_network(kind, network):
    name = type(network).__name__.lower()
    grid = {f"{name}__{key}": values for key, values in AUTO.items()}
    compare_networks(make_pipeline(StandardScaler(), network), grid, load_multioutput(kind))


@both_kinds
def test_uncovered_samples(kind):
    """They have the classes of the nearest unit of the candidate."""
    X, y = load_multioutput(kind)
    grid = {"n_hidden": [5, 20], "radius": [0.6, 1.2], "alpha": [1.0]}
    compare(TRIANGLES, grid, (X, y), scoring=DECISION_SCORER, return_train_score=True)
    clf = clone(TRIANGLES).set_params(n_hidden=20, radius=1.2).fit(X, y)
    assert 10 < (~naive.of_model(clf, X).any(axis=1)).sum() < len(X)


@both_kinds
@both_networks
def test_probabilities(kind, network):
    network = clone(network)

    def certainty(estimator, X, y):
        return np.mean([np.max(each) for each in estimator.predict_proba(X)])

    grid = {"n_hidden": [10, 20], "alpha": [1.0, "loo"]}
    compare(network, grid, load_multioutput(kind), n_separate=2 * 2, scoring=certainty)


@pytest.mark.filterwarnings("ignore:One or more of the t", "ignore:.*could not share")
def test_layers_that_need_one_class_per_sample():
    grid = {"weights": ["class_informed", "gaussian"], "n_hidden": [10, 20]}
    with pytest.warns(FitFailedWarning, match="needs one class per sample"):
        search = compare(TANH, grid, load_multioutput("labels"), n_separate=2 * 2)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False] * 2
