"""Splitters, sample weights, groups and other metadata of a search."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, UnsetMetadataPassedError
from sklearn.metrics import f1_score, get_scorer, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from search.comparing import (
    ALL_PASSES,
    ALL_SCORES,
    DECISION_SCORER,
    RBF,
    SIZES,
    TANH,
    assert_same_search,
    bootstrap_splits,
    compare,
    mask_splits,
    weighted_accuracy,
)
from sklearn_fsvc import HiddenSizeSearchCV

pytestmark = pytest.mark.usefixtures("without_calibrations")


def below_and_above(X, y=None, groups=None):
    """Splits that depend on X, which the splitter receives unchanged."""
    side = np.asarray(X)[:, 20] > np.median(np.asarray(X)[:, 20])
    yield np.flatnonzero(side), np.flatnonzero(~side)
    yield np.flatnonzero(~side), np.flatnonzero(side)


def of_one_training_set(n):
    rows = np.arange(n)
    train = rows[rows % 3 > 0]
    return [(train, rows[rows % 6 == 0]), (train, rows[rows % 6 == 3]), (train[::-1], train)]


SPLITTERS = {
    "number": 4,
    "default": None,
    "shuffled": KFold(3, shuffle=True, random_state=0),
    "stratified": StratifiedKFold(3, shuffle=True, random_state=1),
    "repeated": RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    "shuffle": ShuffleSplit(3, test_size=0.2, random_state=0),
    "shuffle, some rows never": ShuffleSplit(2, test_size=0.2, train_size=0.5, random_state=0),
    "shuffle, most left out": ShuffleSplit(3, train_size=0.3, test_size=0.1, random_state=0),
    "predefined": PredefinedSplit(np.arange(200) % 5 - 1),
    "of X": SimpleNamespace(split=below_and_above, get_n_splits=lambda X, y, groups=None: 2),
    "masks": mask_splits(200),
    "lists, from the end": [([*range(-150, 0)], [*range(50)]), ([*range(100)], [*range(-100, 0)])],
    "repeated rows": bootstrap_splits(200, np.random.default_rng(0)),
    "one training set": of_one_training_set(200),
    "train and test alike": [(np.arange(200), np.arange(200)), (np.arange(100), np.arange(100))],
}


@pytest.mark.parametrize(
    "network",
    [clone(TANH).set_params(scale=0.02), pytest.param(RBF, marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize("cv", SPLITTERS)
def test_splitters(digits, cv, network):
    compare(network, {"n_hidden": [25, 10]}, digits, **{**ALL_SCORES, "cv": SPLITTERS[cv]})


@pytest.mark.parametrize("network", [TANH, RBF])
def test_splitters_of_groups(wine, network):
    groups = np.random.default_rng(0).integers(0, 7, len(wine[1]))
    fit_params = {"groups": groups}
    compare(network, SIZES, wine, fit_params=fit_params, **{**ALL_SCORES, "cv": GroupKFold(3)})


@pytest.mark.parametrize("network", [TANH, RBF])
@pytest.mark.parametrize("missing", [0, 2])
def test_a_class_missing_in_a_training_set(wine, network, missing):
    """There the classes are encoded otherwise."""
    y = wine[1]
    groups = np.where(y == missing, 0, 1 + np.arange(len(y)) % 2)
    options = {"fit_params": {"groups": groups}, "cv": LeaveOneGroupOut()}
    scoring = {"accuracy": "accuracy", "values": DECISION_SCORER}
    options |= {"scoring": scoring, "refit": "values", "return_train_score": True}
    compare(network, SIZES, wine, **options)


# Sample weights


@pytest.mark.parametrize("network", ALL_PASSES)
def test_sample_weights(digits, weight, network):
    fit_params = {"sample_weight": weight}
    compare(network, SIZES, digits, fit_params=fit_params, **ALL_SCORES)


@pytest.mark.parametrize("network", ALL_PASSES)
def test_sample_weights_reach_the_score(digits, weight, network):
    """GridSearchCV passes sample_weight to scorers that accept it, and so to score."""
    compare(network, SIZES, digits, fit_params={"sample_weight": weight}, return_train_score=True)


def test_sample_weights_reach_the_score_of_networks_fitted_separately(digits, weight):
    network, fit_params = clone(TANH).set_params(alpha=[1.0]), {"sample_weight": weight}
    compare(network, {"n_hidden": [10, 20]}, digits, n_separate=2 * 2, fit_params=fit_params)


@pytest.mark.parametrize("scoring", [weighted_accuracy, partial(weighted_accuracy, factor=2)])
def test_sample_weights_reach_a_custom_scorer(digits, weight, scoring):
    compare(TANH, SIZES, digits, fit_params={"sample_weight": weight}, scoring=scoring)


@pytest.mark.parametrize("form", [lambda w: None, list, pd.Series, lambda w: w * (w.index > 66)])
def test_containers_of_sample_weights(digits, weight, form):
    """A split may hold out only samples of weight 0."""
    weight = form(pd.Series(weight, index=np.arange(200)))
    fit_params = {"sample_weight": weight}
    compare(
        TANH,
        {"n_hidden": [10, 20]},
        digits,
        fit_params=fit_params,
        **{**ALL_SCORES, "cv": KFold(3)},
    )


@pytest.mark.parametrize("network", [TANH, RBF])
def test_a_class_of_weight_0_in_a_training_set(iris, network):
    y, weight = iris[1], np.ones(len(iris[1]))
    rows = np.arange(len(y))
    weight[(y == 2) & (rows >= len(y) // 2)] = 0  # class 2 in the training set of split 0
    fit_params = {"sample_weight": weight}
    compare(network, SIZES, iris, fit_params=fit_params, **{**ALL_SCORES, "cv": KFold(2)})


@pytest.mark.filterwarnings("ignore:One or more of the t")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_a_training_set_of_one_class_by_weight(cancer, network):
    y, rows = cancer[1], np.arange(len(cancer[1]))
    fit_params = {"sample_weight": ((y == 0) | (rows < 100)).astype(float)}
    with pytest.warns(FitFailedWarning, match="y has one class"):
        actual = compare(
            network,
            SIZES,
            cancer,
            fit_params=fit_params,
            **{**ALL_SCORES, "cv": KFold(2)},
            n_separate=2,
        )
    assert np.isnan(actual.cv_results_["split0_test_score"]).all()
    assert np.isfinite(actual.cv_results_["split1_test_score"]).all()


# Metadata


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def request_weights(estimator, *, fit=False, score=False):
    return clone(estimator).set_fit_request(sample_weight=fit).set_score_request(
        sample_weight=score
    )  # fmt: skip


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("network", ALL_PASSES)
@pytest.mark.parametrize(("fit", "score"), [(True, True), (True, False), (False, True)])
def test_sample_weights_are_routed(digits, weight, network, fit, score):
    network, fit_params = request_weights(network, fit=fit, score=score), {"sample_weight": weight}
    compare(network, SIZES, digits, fit_params=fit_params, return_train_score=True)


@pytest.mark.usefixtures("routing")
def test_aliases_of_sample_weights_are_routed(digits, weight):
    network = clone(TANH).set_fit_request(sample_weight="for_fit")
    scoring = {"plain": get_scorer("accuracy").set_score_request(sample_weight=False),
               "weighted": make_scorer(f1_score, average="macro").set_score_request(
                   sample_weight="for_score")}  # fmt: skip
    fit_params = {"for_fit": weight, "for_score": weight[::-1]}
    options = {"scoring": scoring, "refit": "weighted", "return_train_score": True}
    compare(network, SIZES, digits, fit_params=fit_params, **options)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_groups_are_routed_to_the_splitter(wine, network):
    groups = np.random.default_rng(0).integers(0, 7, len(wine[1]))
    compare(
        network, SIZES, wine, fit_params={"groups": groups}, **{**ALL_SCORES, "cv": GroupKFold(3)}
    )


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_sample_weights_are_routed_through_steps(digits, weight, network):
    """Also in threads, which have a separate configuration."""
    scale = StandardScaler().set_fit_request(sample_weight=True)
    estimator = Pipeline(
        [("scale", scale), ("clf", request_weights(network, fit=True, score=True))]
    )
    fit_params = {"sample_weight": weight}
    one = compare(estimator, {"clf__n_hidden": [10, 20]}, digits, fit_params=fit_params)
    assert_same_search(clone(one).set_params(n_jobs=2).fit(*digits, **fit_params), one, digits)


@pytest.mark.usefixtures("routing")
def test_unrequested_metadata_is_refused(wine):
    ones = np.ones(len(wine[1]))
    pipeline = make_pipeline(StandardScaler(), TANH)
    for estimator, grid, metadata in (
        (TANH, SIZES, {"sample_weight": ones}),
        (pipeline, {"tanhclassifier__n_hidden": [5]}, {"sample_weight": ones}),
        (TANH, SIZES, {"nonsense": ones}),
    ):
        errors = []
        for search in (GridSearchCV, HiddenSizeSearchCV):
            with pytest.raises((UnsetMetadataPassedError, TypeError, ValueError)) as error:
                search(estimator, grid).fit(*wine, **metadata)
            errors.append(error)
        assert errors[0].type is errors[1].type
        assert next(iter(metadata)) in str(errors[1].value)
        assert "Candidate" not in str(errors[1].value)


def test_unknown_fit_parameters_are_refused(wine):
    for search in (GridSearchCV, HiddenSizeSearchCV):
        with pytest.raises(ValueError, match=r"(?s)All the.*fits failed.*nonsense"):
            search(TANH, SIZES).fit(*wine, nonsense=np.ones(len(wine[1])))
