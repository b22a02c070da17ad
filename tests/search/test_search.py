"""HiddenSizeSearchCV answers what GridSearchCV answers, with less work.

Nearly every test fits both searches and compares all that they leave. Unless a test says
otherwise it fails, too, where a candidate was fitted one by one.
"""

import copy
import pickle
import threading
import warnings
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from unittest import mock

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, UnsetMetadataPassedError
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, get_scorer, hinge_loss, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, RBFProjector, TanhClassifier
from sklearn_fsvc.estimators.classifier import HiddenLayerClassifier
from sklearn_fsvc.rows import streaming
from sklearn_fsvc.search import look_up, shared

TANH = TanhClassifier(scale=0.5, random_state=0)
RBF = RBFClassifier(selection="random", random_state=0)
SIZES = {"n_hidden": [40, 10], "alpha": [0.1, 10.0]}


def weighed(y, scores, sample_weight=1.0):
    """A number that changes with each decision value, and with the order of the rows."""
    assert np.ndim(scores) == 1 or np.shape(scores)[1] > 1  # of two classes one score
    scores = np.asarray(scores, float).reshape(len(y), -1)
    rows = sample_weight * (1 + np.arange(len(y)) + np.unique(y, return_inverse=True)[1])
    columns = 1 + np.arange(scores.shape[1])
    return rows @ scores @ columns / (len(y) ** 2 * len(columns))


VALUES = make_scorer(weighed, response_method="decision_function")
IN_FULL = {"scoring": VALUES, "return_train_score": True, "cv": 3}


def load(name):
    """X in float64 and y, a few hundred rows in an order that mixes the classes."""
    if name == "classification":
        return make_classification(150, 8, n_informative=5, n_classes=3, random_state=0)
    loader = {"digits": load_digits, "iris": load_iris, "wine": load_wine}
    X, y = loader.get(name, load_breast_cancer)(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:200]
    return X[rows], y[rows]


@pytest.fixture(scope="module", autouse=True)
def one_thread_for_small_matrices():
    """With more, they wait for each other longer than they compute."""
    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def wine():
    X, y = load("wine")
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def iris():
    return load("iris")


@pytest.fixture(scope="module")
def cancer():
    X, y = load("cancer")
    return StandardScaler().fit_transform(X), y


def same(ours, theirs, data):
    """All that the two searches have found is equal."""
    same_results(ours.cv_results_, theirs.cv_results_)
    public = [{k for k in vars(s) if not k.startswith("_")} for s in (ours, theirs)]
    assert public[0] == public[1]
    for name in ("best_index_", "best_params_", "n_splits_", "multimetric_"):
        assert getattr(ours, name, None) == getattr(theirs, name, None), name
    if hasattr(theirs, "best_score_"):
        np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=0, atol=1e-9)
    assert repr(ours.scorer_) == repr(theirs.scorer_)
    if theirs.refit:
        same_estimator(ours.best_estimator_, theirs.best_estimator_, data[0])
        assert ours.refit_time_ > 0


def same_results(ours, theirs):
    assert list(ours) == list(theirs)
    assert ours["params"] == theirs["params"]
    assert [list(p) for p in ours["params"]] == [list(p) for p in theirs["params"]]
    for name in theirs.keys() - {"params"}:
        here, there = ours[name], theirs[name]
        assert here.dtype == there.dtype, name
        assert here.shape == there.shape, name
        if name.startswith("param_"):
            np.testing.assert_array_equal(here.mask, there.mask)
            assert here.tolist() == there.tolist(), name
        elif name.endswith("_time"):
            assert (np.isfinite(here) & (here >= 0)).all()
        else:
            np.testing.assert_allclose(here, there, rtol=0, atol=1e-9, err_msg=name)


def same_estimator(ours, theirs, X):
    assert type(ours) is type(theirs)
    assert ours.get_params().keys() == theirs.get_params().keys()
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-12)


def own_fits():
    """Counts the networks that are fitted one by one."""
    fit = HiddenLayerClassifier._fit
    return mock.patch.object(HiddenLayerClassifier, "_fit", autospec=True, side_effect=fit)


def compare(estimator, grid, data, *, alone=0, fit_params=None, **how):
    """Fit both searches and compare them; `alone` fits of one network are expected of ours."""
    how, fit_params = {"cv": 2, **how}, fit_params or {}
    theirs = GridSearchCV(estimator, grid, **how).fit(*data, **fit_params)
    with own_fits() as fits:
        ours = HiddenSizeSearchCV(estimator, grid, **how).fit(*data, **fit_params)
    best = getattr(ours, "best_estimator_", None)
    last = best[-1] if isinstance(best, Pipeline) else best
    assert fits.call_count == alone + isinstance(last, HiddenLayerClassifier)
    same(ours, theirs, data)
    return ours


NETWORKS = {
    "tanh, one pass": ("digits", TanhClassifier(scale=0.02), SIZES),
    "tanh, one pass, orthogonal": (
        "cancer", TanhClassifier(scale=1e-3, weights="orthogonal"), SIZES
    ),
    "tanh, a pass for each split": ("wine", TanhClassifier(), SIZES),
    "tanh, orthogonal": ("digits", TanhClassifier(weights="orthogonal"), SIZES),
    "tanh, other layers too": (
        "wine",
        TanhClassifier(12),
        {"scale": [1e-3, "auto"], "weights": ["gaussian", "orthogonal"], "bias": [True, False],
         "alpha": [1.0]},
    ),
    "tanh, weights of rows": (
        "digits",
        TanhClassifier(scale=0.02),
        {"n_hidden": [20, 60, 5], "alpha": [0.1, 10],
         "weights": ["class_informed", "constrained"]},
    ),
    "tanh, receptive fields": (
        "digits", TanhClassifier(scale=0.02, image_shape=(8, 8)),
        {"n_hidden": [20, 60], "alpha": [1.0], "patch_size": [None, (2, 6)]},
    ),
    "rbf, prefixes": (
        "digits",
        RBFClassifier(selection_radius=30.0),
        {"n_hidden": [20, 60, 5], "alpha": [0.1, 10], "radius": ["auto", 60.0]},
    ),
    "rbf, fewer centres than asked for": (
        "digits", RBFClassifier(selection_radius=80.0), {**SIZES, "n_hidden": [5, 60, 80]}
    ),
    "rbf, random centres": (
        "classification",
        RBFClassifier(selection="random"),
        {"n_hidden": [20, 5], "alpha": [1, 2.0], "radius": [4.0, "auto", 9]},
    ),
    "rbf, a search for each size": (
        "iris",
        RBFClassifier(),
        {"n_hidden": [20, 40], "alpha": [0.1, 1.0], "radius": [1.0, "auto"]},
    ),
    "rbf, None among sizes": (
        "digits",
        RBFClassifier(selection_radius=40.0),
        {"n_hidden": [30, None, 10], "radius": ["auto", 60.0]},
    ),
    "rbf, all that are novel": ("wine", RBFClassifier(), {"alpha": [0.1, 1.0]}),
    "rbf, the radius selects": ("iris", RBFClassifier(), {"radius": [0.5, 0.7], "alpha": [1, 2]}),
    "rbf, metrics and kernels": (
        "cancer",
        RBFClassifier(selection="random"),
        {"metric": ["euclidean", "sqeuclidean"], "kernel": ["gaussian", "triangular"],
         "n_hidden": [10, 25], "radius": [150.0, "auto"]},
    ),
    "rbf, selections": (
        "iris",
        RBFClassifier(20),
        {"selection": ["global", "per_class"], "overlap": [1.0, 2.5], "shuffle": [True, False]},
    ),
    "candidates twice": (
        "wine", TanhClassifier(scale=1e-3), {"n_hidden": [9, 9], "alpha": [1, 1.0]}
    ),
    "one candidate": ("iris", TanhClassifier(7), {}),
}  # fmt: skip


@pytest.mark.parametrize(("seed", "name"), list(enumerate(NETWORKS)))
def test_networks(seed, name):
    data, network, grid = NETWORKS[name]
    compare(clone(network).set_params(random_state=seed), grid, load(data), **IN_FULL)


def test_a_random_state_that_moves_on(iris):
    network = TanhClassifier(random_state=np.random.RandomState(3))
    compare(network, SIZES, iris, **IN_FULL)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_outside_every_unit(iris, n_classes):
    """They are answered by the nearest of the units that the candidate has."""
    X, y = (each[iris[1] < n_classes] for each in iris)
    ours = compare(RBF, {"n_hidden": [5, 20], "radius": [0.05, 0.2]}, (X, y), cv=3)
    compare(RBF, {"n_hidden": [5, 20], "radius": [0.05, 0.2]}, (X, y), **IN_FULL)
    clf = clone(RBF).set_params(n_hidden=20, radius=0.2).fit(X, y)
    is_outside = np.isin(clf.decision_function(X), [-1, 0, 1]).reshape(len(X), -1).all(axis=1)
    assert 3 < is_outside.sum() < len(X)
    assert ours.cv_results_["split0_test_score"].min() > 1 / n_classes


@pytest.mark.parametrize("network", [TANH, TanhClassifier(random_state=0), RBF])
def test_tiles(iris, network, monkeypatch):
    """Rows flow in pieces."""
    monkeypatch.setattr(streaming, "rows_per_tile", lambda *sizes: 16)
    grid = {"n_hidden": [5, 20], "alpha": [1.0]}
    grid = {**grid, "radius": [0.2, 0.5]} if network is RBF else grid
    compare(network, grid, iris, **IN_FULL)


def test_grids_that_name_different_parameters(digits):
    """What a parameter shares in one grid, it need not share in the next."""
    grids = [{"alpha": [0.1, 1.0]}, {"n_hidden": [15, 30]}, {"radius": [50.0], "n_hidden": [20]}]
    compare(RBFClassifier(selection_radius=40.0, random_state=0), grids, digits, **IN_FULL)


def test_grids_of_both_kinds_of_layer(iris):
    grids = [{"scale": [0.3], **SIZES}, {"weights": ["orthogonal"]}, {"alpha": [3.0]}]
    compare(TanhClassifier(10, random_state=0), grids, iris, **IN_FULL)


@pytest.mark.parametrize("network", [TANH, TanhClassifier(random_state=0), RBF])
def test_weights_of_classes(wine, network):
    by_class = [{0: 1, 1: 5.0, 2: 0.1}, {1: 0.0}, "balanced", None]
    grid = {"class_weight": by_class, "n_hidden": [10, 20]}
    compare(network, grid, wine, **IN_FULL)


def test_unbalanced_splits_have_weights_of_their_own(iris):
    """Balanced weights depend on the training rows: one pass cannot serve all splits."""
    X, y = (each[np.argsort(iris[1], kind="stable")] for each in iris)
    network = clone(TANH).set_params(class_weight="balanced")
    compare(network, SIZES, (X, y), **{**IN_FULL, "cv": KFold(4)})


@pytest.mark.parametrize("network", [TANH, RBF])
def test_labels_are_strings(cancer, network):
    X, y = cancer
    labels = np.array(["malignant", "benign"])[y]
    f1 = make_scorer(f1_score, pos_label="malignant")
    compare(network, SIZES, (X, labels), scoring=f1, return_train_score=True)
    compare(network, SIZES, (X, pd.Series(labels, index=np.arange(len(y))[::-1])))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize(
    "network",
    [TanhClassifier(scale=0.1, random_state=0), TanhClassifier(random_state=0),
     RBFClassifier(selection_radius=40.0, random_state=0)],
)  # fmt: skip
def test_narrow_rows(digits, network, dtype):
    """H is in float32, and here it is multiplied with itself in float64: one row may tip."""
    X, y = digits[0].astype(dtype), digits[1]
    scoring = {"accuracy": "accuracy", "values": VALUES}
    theirs, ours = (
        search(network, SIZES, scoring=scoring, refit=False, cv=3).fit(X, y).cv_results_
        for search in (GridSearchCV, HiddenSizeSearchCV)
    )
    for split in range(3):
        for name, tolerance in (("accuracy", 1.5 / (len(X) // 3)), ("values", 1e-4)):
            key = f"split{split}_test_{name}"
            np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=tolerance)


@pytest.mark.parametrize("network", [TANH, RBF], ids=["tanh", "rbf"])
def test_every_device(wine, device, network):
    network = clone(network).set_params(device=device)
    grid = SIZES if network.get_params().get("scale") else {**SIZES, "radius": [4.0, 8.0]}
    compare(network, grid, wine, **IN_FULL)


def test_lists_and_data_frames(wine):
    X, y = wine
    compare(TANH, SIZES, (X.tolist(), y.tolist()), **IN_FULL)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    frame.index = frame.index[::-1]
    for network in (TANH, TanhClassifier(random_state=0), RBF):
        ours = compare(network, SIZES, (frame, y), **IN_FULL)
        np.testing.assert_array_equal(ours.feature_names_in_, frame.columns)


# Weights of rows


@pytest.fixture(scope="module")
def weight():
    """Of 200 rows; a third of them is as good as absent."""
    rng = np.random.default_rng(1)
    return rng.random(200) * (rng.random(200) > 0.33)


NETWORKS_OF_WEIGHTS = [TANH, TanhClassifier(random_state=0), RBF]


@pytest.mark.parametrize("network", NETWORKS_OF_WEIGHTS)
def test_weights_of_rows(digits, weight, network):
    fit_params = {"sample_weight": weight}
    compare(network, SIZES, digits, fit_params=fit_params, **IN_FULL)


@pytest.mark.parametrize("network", NETWORKS_OF_WEIGHTS)
def test_weights_of_rows_reach_the_score(digits, weight, network):
    """GridSearchCV hands sample_weight to scorers that take it, and score does."""
    compare(network, SIZES, digits, fit_params={"sample_weight": weight}, return_train_score=True)


def weighted_accuracy(estimator, X, y, sample_weight=None, *, factor=1):
    return factor * estimator.score(X, y, sample_weight=sample_weight)


@pytest.mark.parametrize("scoring", [weighted_accuracy, partial(weighted_accuracy, factor=2)])
def test_weights_of_rows_reach_a_scorer_of_ones_own(digits, weight, scoring):
    compare(TANH, SIZES, digits, fit_params={"sample_weight": weight}, scoring=scoring)


@pytest.mark.parametrize("form", [lambda w: None, list, pd.Series, lambda w: w * (w.index > 66)])
def test_weights_may_have_many_forms(digits, weight, form):
    """Also a split may leave out nothing but rows without weight."""
    weight = form(pd.Series(weight, index=np.arange(200)))
    fit_params = {"sample_weight": weight}
    compare(
        TANH, {"n_hidden": [10, 20]}, digits, fit_params=fit_params, **{**IN_FULL, "cv": KFold(3)}
    )


@pytest.mark.parametrize("network", [TANH, RBF])
def test_a_class_without_weight_in_one_training_set(iris, network):
    y, weight = iris[1], np.ones(len(iris[1]))
    rows = np.arange(len(y))
    weight[(y == 2) & (rows >= len(y) // 2)] = 0  # all of class 2 in what split 0 trains on
    fit_params = {"sample_weight": weight}
    compare(network, SIZES, iris, fit_params=fit_params, **{**IN_FULL, "cv": KFold(2)})


@pytest.mark.filterwarnings("ignore:One or more of the t")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_weight_of_one_class_alone_in_one_training_set(cancer, network):
    y, rows = cancer[1], np.arange(len(cancer[1]))
    fit_params = {"sample_weight": ((y == 0) | (rows < 100)).astype(float)}
    with pytest.warns(FitFailedWarning, match="y holds one class"):
        ours = compare(
            network, SIZES, cancer, fit_params=fit_params, **{**IN_FULL, "cv": KFold(2)}, alone=4
        )
    assert np.isnan(ours.cv_results_["split0_test_score"]).all()
    assert np.isfinite(ours.cv_results_["split1_test_score"]).all()


# Steps before the network


def test_steps_before_the_network(digits):
    estimator = Pipeline([("scale", StandardScaler()), ("pca", PCA(5, random_state=0)),
                          ("clf", TanhClassifier(random_state=0))])  # fmt: skip
    grid = {
        "pca__n_components": [3, 6],
        "clf__n_hidden": [10, 30],
        "scale__with_std": [True, False],
    }
    compare(estimator, grid, digits, **IN_FULL)


@pytest.mark.parametrize(
    "network",
    [
        TANH,
        RBF,
        RBFClassifier(random_state=0),
        RBFClassifier(40, selection_radius=5.0, random_state=0),
    ],
)
def test_steps_that_learn_from_the_labels_of_the_split(digits, network):
    estimator = make_pipeline(SelectKBest(k=12), StandardScaler(with_std=False), network)
    grid = {f"{type(network).__name__.lower()}__{name}": SIZES[name] for name in SIZES}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Features .* are constant")
        warnings.filterwarnings("ignore", "invalid value")
        compare(estimator, grid, digits, **IN_FULL)


@pytest.mark.parametrize("network", [TANH, TanhClassifier(random_state=0), RBF])
def test_a_pipeline_of_the_network_alone(wine, network):
    grid = {"clf__n_hidden": [10, 20], "clf__alpha": [0.1, 1.0]}
    compare(Pipeline([("clf", network)]), grid, wine, **IN_FULL)


def test_steps_of_columns(wine):
    X = pd.DataFrame(wine[0], columns=list("abcdefghijklm"))
    columns = make_column_transformer((StandardScaler(), ["a", "b"]), (PCA(2), list("cdefg")))
    estimator = make_pipeline(columns, clone(TANH)).set_output(transform="pandas")
    ours = compare(estimator, {"tanhclassifier__n_hidden": [10, 20]}, (X, wine[1]), **IN_FULL)
    assert list(ours.feature_names_in_) == list(X.columns)


def test_parameters_of_fit_find_their_steps(digits, weight):
    estimator = Pipeline([("scale", StandardScaler()), ("clf", RBF)])
    fit_params = {"clf__sample_weight": weight, "scale__sample_weight": weight[::-1] + 1}
    compare(estimator, {"clf__n_hidden": [10, 20]}, digits, fit_params=fit_params, **IN_FULL)


def test_the_last_step_is_searched(wine):
    estimator = Pipeline([("scale", StandardScaler()), ("clf", TanhClassifier())])
    grids = [
        {"clf": [TANH, RBF], "clf__n_hidden": [10, 20], "clf__alpha": [0.1, 1.0]},
        {"clf": [SVC(), LogisticRegression()], "clf__C": [0.1, 1.0]},
        {"scale": ["passthrough"], "clf": [RBF], "clf__n_hidden": [15]},
    ]
    before = [dict(vars(network)) for network in (TANH, RBF)]
    compare(estimator, grids, wine, cv=3)
    first = compare(estimator, grids[0], wine, **IN_FULL)
    assert [vars(network) for network in (TANH, RBF)] == before
    assert first.best_estimator_[-1] is not first.best_params_["clf"]


# Splitters


def below_and_above(X, y=None, groups=None):
    """Splits that depend on X, which a splitter meets as it is."""
    side = np.asarray(X)[:, 20] > np.median(np.asarray(X)[:, 20])
    yield np.flatnonzero(side), np.flatnonzero(~side)
    yield np.flatnonzero(~side), np.flatnonzero(side)


def of_masks(n):
    mask = np.arange(n) % 4 == 0
    return [(~mask, mask), (mask, ~mask)]


def of_repeated_rows(n, rng):
    return [(rng.integers(0, n, n), rng.integers(0, n, 50)) for _ in range(3)]


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
    "masks": of_masks(200),
    "lists, from the end": [([*range(-150, 0)], [*range(50)]), ([*range(100)], [*range(-100, 0)])],
    "repeated rows": of_repeated_rows(200, np.random.default_rng(0)),
    "one training set": of_one_training_set(200),
    "train and test alike": [(np.arange(200), np.arange(200)), (np.arange(100), np.arange(100))],
}


@pytest.mark.parametrize("network", [TanhClassifier(scale=0.02, random_state=0), RBF])
@pytest.mark.parametrize("cv", SPLITTERS)
def test_splitters(digits, cv, network):
    grid = {"n_hidden": [25, 10], "alpha": [0.1, 1.0]}
    compare(network, grid, digits, **{**IN_FULL, "cv": SPLITTERS[cv]})


@pytest.mark.parametrize("network", [TANH, RBF])
def test_splitters_of_groups(wine, network):
    groups = np.random.default_rng(0).integers(0, 7, len(wine[1]))
    fit_params = {"groups": groups}
    compare(network, SIZES, wine, fit_params=fit_params, **{**IN_FULL, "cv": GroupKFold(3)})


@pytest.mark.parametrize("network", [TANH, RBF])
@pytest.mark.parametrize("missing", [0, 2])
def test_a_class_that_some_training_set_has_not(wine, network, missing):
    """There the codes of the classes are others."""
    y = wine[1]
    groups = np.where(y == missing, 0, 1 + np.arange(len(y)) % 2)
    how = {"fit_params": {"groups": groups}, "cv": LeaveOneGroupOut()}
    compare(network, SIZES, wine, return_train_score=True, **how)
    compare(network, SIZES, wine, **{**IN_FULL, **how})


# Scorers


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


def of_the_rows(estimator, X, y):
    """Depends on the rows themselves, the labels and the fitted attributes."""
    units = estimator.centers_ if isinstance(estimator, RBFClassifier) else estimator.components_
    assert estimator.readout_coef_.shape[1] == len(units) <= estimator.n_hidden
    assert estimator.alpha_ == estimator.alpha
    inner = units @ X.T @ (estimator.predict(X) == y)
    return estimator.readout_coef_.sum() + np.abs(inner).mean()


def several(estimator, X, y):
    return {"accuracy": estimator.score(X, y), "rows": of_the_rows(estimator, X, y)}


@pytest.mark.parametrize("network", [TANH, TanhClassifier(random_state=0), RBF])
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
        (TanhClassifier(random_state=0), SIZES),
        (RBF, {**SIZES, "radius": ["auto", 5.0]}),
        (RBFClassifier(selection_radius=3.0, random_state=0), {"n_hidden": [20, 10]}),
        (RBFClassifier(30, random_state=0, class_weight={1: 2.0}), {"radius": ["auto", 5.0]}),
    ],
)
def test_a_scorer_meets_what_fit_would_have_left(wine, network, grid):
    met = {GridSearchCV: [], HiddenSizeSearchCV: []}
    for search, estimators in met.items():

        def collect(estimator, X, y, estimators=estimators):
            estimators.append(estimator)
            return 0.0

        search(network, grid, scoring=collect, cv=2, refit=False).fit(*wine)
    for ours, theirs in zip(*reversed(met.values()), strict=True):
        assert repr(ours) == repr(theirs)
        assert vars(ours).keys() == vars(theirs).keys()
        for name, there in vars(theirs).items():
            here = vars(ours)[name]
            assert type(here) is type(there), name
            if isinstance(there, np.ndarray) and there.dtype.kind == "f":
                assert here.dtype == there.dtype
                np.testing.assert_allclose(here, there, rtol=1e-7, atol=1e-9, err_msg=name)
            else:
                np.testing.assert_array_equal(here, there, err_msg=name)


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


# Refit, and what is left of the search


def test_without_refit(wine):
    ours = compare(TANH, SIZES, wine, refit=False)
    assert not hasattr(ours, "best_estimator_")
    assert not hasattr(ours, "predict")


def test_refit_by_the_time_of_fit(wine):
    met = {}

    def slowest(results):
        met.update(results)
        return int(np.argmax(results["mean_fit_time"]))

    grid = {"n_hidden": [10, 20, 30], "scale": [0.1, 0.2, "auto"]}
    ours = HiddenSizeSearchCV(TanhClassifier(random_state=0), grid, refit=slowest, cv=2)
    ours.fit(*wine)
    assert ours.best_index_ == ours.cv_results_["mean_fit_time"].argmax()
    assert list(met) == list(ours.cv_results_)
    assert met["params"] == ours.cv_results_["params"]
    np.testing.assert_array_equal(met["mean_fit_time"], ours.cv_results_["mean_fit_time"])
    assert ours.best_params_ == ours.cv_results_["params"][ours.best_index_]
    assert not hasattr(ours, "best_score_")
    compare(TANH, SIZES, wine, refit=lambda results: 2)


def test_predictions_of_the_search(cancer):
    network = clone(TANH).set_params(probability=True)
    searches = [
        search(network, {"n_hidden": [10, 20]}, cv=2).fit(*cancer)
        for search in (GridSearchCV, HiddenSizeSearchCV)
    ]
    theirs, ours = searches
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        here, there = (getattr(search, method)(cancer[0]) for search in (ours, theirs))
        np.testing.assert_allclose(here, there, atol=1e-12)
    assert ours.score(*cancer) == theirs.score(*cancer)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.n_features_in_ == 30


def test_the_score_of_the_search_is_that_of_the_scorer(cancer):
    for scoring in ("roc_auc", of_the_rows):
        theirs, ours = (
            search(TANH, SIZES, scoring=scoring, cv=2).fit(*cancer)
            for search in (GridSearchCV, HiddenSizeSearchCV)
        )
        np.testing.assert_allclose(ours.score(*cancer), theirs.score(*cancer), atol=1e-12)
        assert ours.scorer_ == theirs.scorer_ or scoring == "roc_auc"


def test_the_scorers_are_those_that_were_given(wine):
    scoring = {"own": of_the_rows, "f1": "f1_macro"}
    ours = HiddenSizeSearchCV(TANH, SIZES, scoring=scoring, refit=False).fit(*wine)
    assert ours.scorer_["own"] is of_the_rows
    assert ours.scoring is scoring


@pytest.mark.parametrize("scoring", [None, "accuracy", weighted_accuracy])
def test_a_pickle_holds_the_answers_and_not_the_rows(digits, scoring):
    """What was found on the way is forgotten."""
    ours, theirs = (
        search(TANH, {"n_hidden": [10, 20]}, scoring=scoring, cv=2).fit(*digits)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    pickled = pickle.dumps(ours)
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again.predict(digits[0]), ours.predict(digits[0]))
    assert again.score(*digits) == ours.score(*digits)
    same_results(again.cv_results_, ours.cv_results_)
    assert len(pickled) < len(pickle.dumps(theirs)) + 1000
    best = pickle.loads(pickle.dumps(ours.best_estimator_))
    np.testing.assert_array_equal(best.predict(digits[0]), ours.predict(digits[0]))


COPIES = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}  # fmt: skip


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_a_search(wine, way):
    search = HiddenSizeSearchCV(TANH, {"n_hidden": [10, 20]}, scoring=of_the_rows, cv=2)
    for original in (search, search.fit(*wine)):
        again = COPIES[way](original)
        assert vars(again).keys() == vars(original).keys()
        assert repr(again) == repr(original)
    same(again, search, wine)
    assert again.score(*wine) == search.score(*wine)
    same(again.fit(*wine), search, wine)


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_what_scikit_learn_meets(wine, way):
    """scikit-learn 1.8 copies all of it for the routing, but must not copy the rows."""
    X, y = wine
    findings = look_up.Findings(X, TANH, [{}])
    candidate, scorer, splitter = (
        COPIES[way](original)
        for original in (
            look_up.Candidate(findings),
            look_up.UserScorer(of_the_rows),
            look_up.UserSplitter(KFold(2), findings, on_split=list),
        )
    )
    assert repr(candidate) == repr(TANH)
    assert (candidate.findings.X is X) == (splitter.findings.X is X) == (way != "pickle")
    rows = np.arange(len(X))
    (train, test), _ = splitter.split(rows, y)
    candidate.set_params(candidate=0, n_hidden=10).fit(train, y[train])
    assert candidate.findings.alone == {0}
    network = clone(TANH).set_params(n_hidden=10).fit(X[train], y[train])
    assert scorer(candidate, test, y[test]) == of_the_rows(network, X[test], y[test])


def test_clones_and_parameters(wine):
    search = HiddenSizeSearchCV(TANH, {"n_hidden": [10, 20]}, scoring=of_the_rows, cv=KFold(3))
    parameters = dict(search.get_params())
    search.fit(*wine)
    assert search.get_params() == parameters
    assert vars(TANH).keys() == TANH.get_params(deep=False).keys()
    again = clone(search)
    assert not hasattr(again, "cv_results_")
    same(again.fit(*wine), search, wine)
    again.set_params(estimator__scale=0.1).fit(*wine)
    assert again.best_estimator_.scale == 0.1


def test_a_second_fit_is_like_a_first(wine, iris):
    ours, theirs = (
        search(TANH, {"n_hidden": [1, 30]}, cv=2).fit(*wine)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    for search in (ours, theirs):
        search.set_params(param_grid={"n_hidden": [10, 20]}).fit(*iris)
    same(ours, theirs, iris)


def test_a_second_fit_of_several_scores_has_no_best(wine):
    ours, theirs = (
        search(TANH, {"n_hidden": [1, 30]}, cv=2).fit(*wine)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    assert ours.best_index_ > 0
    for search in (ours, theirs):
        search.set_params(scoring=["accuracy", "f1_macro"], refit=False, param_grid={}).fit(*wine)
    same_results(ours.cv_results_, theirs.cv_results_)
    assert not hasattr(ours, "best_params_")


def test_a_search_within_cross_validation(wine):
    ours, theirs = (
        cross_val_score(search(TANH, SIZES, cv=2), *wine, cv=2)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    np.testing.assert_array_equal(ours, theirs)


# Metadata


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def asks(estimator, *, fit=False, score=False):
    return clone(estimator).set_fit_request(sample_weight=fit).set_score_request(
        sample_weight=score
    )  # fmt: skip


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("network", NETWORKS_OF_WEIGHTS)
@pytest.mark.parametrize(("fit", "score"), [(True, True), (True, False), (False, True)])
def test_weights_are_routed(digits, weight, network, fit, score):
    network, fit_params = asks(network, fit=fit, score=score), {"sample_weight": weight}
    compare(network, SIZES, digits, fit_params=fit_params, return_train_score=True)


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_to_scorers_by_other_names(digits, weight):
    network = clone(TANH).set_fit_request(sample_weight="for_fit")
    scoring = {"plain": get_scorer("accuracy").set_score_request(sample_weight=False),
               "weighted": make_scorer(f1_score, average="macro").set_score_request(
                   sample_weight="for_score")}  # fmt: skip
    fit_params = {"for_fit": weight, "for_score": weight[::-1]}
    how = {"scoring": scoring, "refit": "weighted", "return_train_score": True}
    compare(network, SIZES, digits, fit_params=fit_params, **how)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_groups_are_routed_to_the_splitter(wine, network):
    groups = np.random.default_rng(0).integers(0, 7, len(wine[1]))
    compare(network, SIZES, wine, fit_params={"groups": groups}, **{**IN_FULL, "cv": GroupKFold(3)})


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("network", [TANH, RBF])
def test_weights_are_routed_through_steps(digits, weight, network):
    """In threads too, which have a configuration of their own."""
    scale = StandardScaler().set_fit_request(sample_weight=True)
    estimator = Pipeline([("scale", scale), ("clf", asks(network, fit=True, score=True))])
    fit_params = {"sample_weight": weight}
    one = compare(estimator, {"clf__n_hidden": [10, 20]}, digits, fit_params=fit_params)
    same(clone(one).set_params(n_jobs=2).fit(*digits, **fit_params), one, digits)


@pytest.mark.usefixtures("routing")
def test_metadata_that_nobody_asked_for(wine):
    ones = np.ones(len(wine[1]))
    pipeline = make_pipeline(StandardScaler(), TANH)
    for estimator, grid, metadata in (
        (TANH, SIZES, {"sample_weight": ones}),
        (pipeline, {"tanhclassifier__n_hidden": [5]}, {"sample_weight": ones}),
        (TANH, SIZES, {"groups": ones}),
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


def test_a_parameter_that_fit_does_not_know(wine):
    for search in (GridSearchCV, HiddenSizeSearchCV):
        with pytest.raises(ValueError, match=r"(?s)All the.*fits failed.*nonsense"):
            search(TANH, SIZES).fit(*wine, nonsense=np.ones(len(wine[1])))


# Candidates that fail, and those that share nothing


@pytest.mark.filterwarnings("ignore:One or more of the t")
@pytest.mark.parametrize("error_score", [np.nan, -1.0])
@pytest.mark.parametrize("network", [TANH, RBF])
def test_a_penalty_that_fails_alone(wine, network, error_score):
    grid = {"alpha": [1.0, -1, 0.1], "n_hidden": [10, 20]}
    with pytest.warns(FitFailedWarning, match="alpha=-1 must be"):
        ours = compare(network, grid, wine, error_score=error_score, alone=2 * 2)
    failed = ours.cv_results_["mean_test_score"] == error_score
    failed |= np.isnan(ours.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(failed, np.array([0, 0, 1, 1, 0, 0], bool))


@pytest.mark.filterwarnings("ignore:One or more of the t")
def test_a_size_that_fails_alone(wine):
    """More centres than rows; the other sizes, which shared with it, are fitted after all."""
    grid = {"n_hidden": [10, 500, 20]}
    with (
        pytest.warns(FitFailedWarning, match="500 hidden units are more"),
        pytest.warns(UserWarning, match="could not share their work"),
    ):
        compare(RBF, grid, wine, alone=3 * 2)


@pytest.mark.filterwarnings("ignore:One or more of the t", "ignore:.*could not share")
def test_a_size_that_fails_on_some_splits(wine):
    n, rows = len(wine[1]), np.arange(len(wine[1]))
    cv = [(rows[:30], rows[30:]), (rows[30:], rows[:30]), (rows[: n // 2], rows[n // 2 :])]
    with pytest.warns(FitFailedWarning, match="40 hidden units are more than the 30 rows"):
        ours = compare(
            RBF, {"n_hidden": [10, 40, 20]}, wine, cv=cv, alone=3, return_train_score=True
        )
    assert np.isnan(ours.cv_results_["split0_test_score"]).tolist() == [False, True, False]
    assert np.isfinite(ours.cv_results_["split1_test_score"]).all()


@pytest.mark.parametrize(
    ("grid", "match"),
    [({"n_hidden": [10, 500]}, "500 hidden units"), ({"alpha": [1.0, -1]}, "alpha=-1")],
)
def test_errors_are_raised_where_asked_for(wine, grid, match):
    network = clone(RBF).set_params(n_hidden=10)
    for search in (GridSearchCV, HiddenSizeSearchCV):
        with pytest.raises(ValueError, match=match):
            search(network, grid, error_score="raise", cv=2).fit(*wine)


def test_all_fail(wine):
    for search in (GridSearchCV, HiddenSizeSearchCV):
        with pytest.raises(ValueError, match=r"(?s)All the 10 fits failed.*hidden units are more"):
            search(RBF, {"n_hidden": [500, 600]}).fit(*wine)


def test_candidates_that_share_nothing(wine):
    grids = [
        {"readout": ["lms", "none"], "n_hidden": [10]},
        {"alpha": ["loo", 1.0, [0.1, 1.0]], "n_hidden": [10, 20]},
        {"probability": [True], "n_hidden": [20]},
    ]
    cv = of_repeated_rows(len(wine[1]), np.random.default_rng(0))
    ours = compare(RBF, grids, wine, alone=3 * 7, **{**IN_FULL, "cv": cv})
    assert ours.best_params_.keys() <= {"readout", "n_hidden", "alpha", "probability"}


def test_equations_that_have_no_finite_solution_are_left_to_fit(wine, monkeypatch):
    """A candidate that a shared pass cannot solve does not take the others with it."""
    solve = shared.RidgeStatistics.solve_leading

    def unsolved(statistics, alpha, sizes):
        found = solve(statistics, alpha, sizes)
        found[-1] = found[-1]._replace(W=found[-1].W * np.nan)
        return found

    monkeypatch.setattr(shared.RidgeStatistics, "solve_leading", unsolved)
    compare(TANH, {"n_hidden": [10, 20]}, wine, alone=3, **IN_FULL)


# Input that cannot be searched


@pytest.mark.parametrize(
    "estimator",
    [
        SVC(),
        RBFProjector(5),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(TANH, StandardScaler()),
    ],
)
def test_another_estimator_is_refused(wine, estimator):
    with pytest.raises(TypeError, match=r"RBFClassifier or TanhClassifier.*GridSearchCV"):
        HiddenSizeSearchCV(estimator, {}).fit(*wine)


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
def test_bad_input(name):
    """The same error as of GridSearchCV, and nothing is changed by it."""
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
def test_nan_in_one_row_spoils_the_splits_that_meet_it():
    """In the training rows it fails the fit, in the test rows the score."""
    rows = np.arange(40)
    cv = [(rows[10:30], rows[30:]), (rows[:20], rows[20:]), (rows[20:], rows[:20])]
    theirs, ours = (
        kind(TANH, {"n_hidden": [3, 5]}, cv=cv, refit=False).fit(X_NAN, Y).cv_results_
        for kind in (GridSearchCV, HiddenSizeSearchCV)
    )
    same_results(ours, theirs)
    finite = [np.isfinite(ours[f"split{split}_test_score"]).all() for split in range(3)]
    assert finite == [True, False, False]


@pytest.mark.parametrize("call", [1, 7])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_interrupted_search_is_left_as_it_was(wine, call, error):
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


def test_a_search_whose_warning_is_an_error_is_left_as_it_was(wine):
    search = HiddenSizeSearchCV(TanhClassifier(40, scale=1e-9), {"alpha": [0.0]}, refit=False)
    before = dict(vars(search))
    with pytest.raises(ConvergenceWarning):
        search.fit(*wine)
    assert vars(search) == before


@pytest.mark.parametrize("name", ["gather", "score"])
def test_an_interrupted_pass_is_no_failed_candidate(wine, monkeypatch, name):
    monkeypatch.setattr(shared, name, mock.Mock(side_effect=KeyboardInterrupt))
    search = HiddenSizeSearchCV(TANH, SIZES)
    before = dict(vars(search))
    with pytest.raises(KeyboardInterrupt):
        search.fit(*wine)
    assert vars(search) == before


# Work that is shared


@pytest.fixture
def work(monkeypatch):
    """Entries of H that are computed tile by tile, and rows that statistics are made of."""
    counts = SimpleNamespace(entries=0, rows=0, passes=0)
    evaluate, gather = streaming.evaluate, shared.gather

    def counted_evaluate(engine, prepared, basic, X, H):
        counts.entries += H.size
        return evaluate(engine, prepared, basic, X, H)

    def counted_gather(job, layers, samples, rows=None, dtype=None):
        counts.rows += len(samples) if rows is None else len(rows)
        counts.passes += 1
        return gather(job, layers, samples, rows, dtype)

    monkeypatch.setattr(streaming, "evaluate", counted_evaluate)
    monkeypatch.setattr(shared, "gather", counted_gather)
    return counts


def test_one_pass_serves_all_splits(digits, work):
    """Each row is met once by the largest network, and once more to be scored."""
    HiddenSizeSearchCV(TANH, SIZES, cv=KFold(4), refit=False).fit(*digits)
    assert work.rows == 200
    assert work.entries == 2 * 200 * 40


@pytest.mark.parametrize(
    ("cv", "rows"),
    [
        (ShuffleSplit(3, test_size=0.2, random_state=0), 3 * 40 + 200),
        (PredefinedSplit(np.arange(200) % 5 - 1), 200),
        (ShuffleSplit(3, train_size=0.3, random_state=0), 3 * 60),
        (of_masks(200), 200),
    ],
    ids=["rows left out twice", "rows never left out", "most rows left out", "masks"],
)
def test_rows_that_statistics_are_made_of(digits, work, cv, rows):
    HiddenSizeSearchCV(TANH, SIZES, cv=cv, refit=False).fit(*digits)
    assert work.rows == rows


@pytest.mark.parametrize(
    ("network", "grid"),
    [
        (TanhClassifier(random_state=0), SIZES),
        (clone(TANH).set_params(class_weight="balanced"), SIZES),
        (RBF, {**SIZES, "radius": [300.0, 400.0]}),
        (RBFClassifier(selection_radius=20.0), {**SIZES, "radius": [300.0, 400.0]}),
    ],
)
def test_one_pass_for_each_split(digits, work, network, grid):
    """Whatever the sizes, penalties and radii; and one more to score the rows left out."""
    HiddenSizeSearchCV(network, grid, cv=KFold(4), refit=False).fit(*digits)
    assert (work.passes, work.rows) == (4, 3 * 200)
    assert work.entries == (3 + 1) * 200 * 40


def test_a_searched_selection_radius_takes_passes_of_its_own(digits, work):
    grid = {"n_hidden": [20, 30], "alpha": [0.1, 1.0], "radius": [40.0, 60.0]}
    HiddenSizeSearchCV(RBFClassifier(), grid, cv=KFold(4), refit=False).fit(*digits)
    assert work.passes == 2 * 4


def test_no_scores_are_computed_twice(digits, work):
    """Those of scikit-learn's scorers come from the pass, for training rows too."""
    scoring = ["accuracy", "f1_macro"]
    how = {"cv": KFold(4), "refit": False, "return_train_score": True}
    HiddenSizeSearchCV(TANH, SIZES, scoring=scoring, **how).fit(*digits)
    assert work.entries == (1 + 1 + 3) * 200 * 40


def test_steps_are_fitted_once_for_each_split(digits):
    fits = []

    def fitted_scaler(scaler, *args, original=StandardScaler.fit, **how):
        fits.append(scaler)
        return original(scaler, *args, **how)

    estimator = make_pipeline(StandardScaler(), RBF)
    grid = {"rbfclassifier__n_hidden": [10, 20, 30], "rbfclassifier__alpha": [0.1, 1.0]}
    with mock.patch.object(StandardScaler, "fit", fitted_scaler):
        HiddenSizeSearchCV(estimator, grid, cv=4, refit=False).fit(*digits)
    assert len(fits) == 4


def test_little_memory_takes_a_pass_for_each_split(digits, work):
    """The statistics of all splits at one time are too many."""
    network, grid = TanhClassifier(scale=0.02, random_state=0), {"n_hidden": [150, 20]}
    full = HiddenSizeSearchCV(network, grid, **IN_FULL).fit(*digits)
    assert work.rows == 200
    tight = clone(full).set_params(estimator__max_memory="1MiB").fit(*digits)
    assert work.rows == 200 + 2 * 200
    same_results(tight.cv_results_, full.cv_results_)


@pytest.mark.parametrize("network", [TANH, RBF])
def test_jobs(digits, network):
    """Passes at one time give what they give one after the other."""
    grid = {**SIZES, "class_weight": [None, "balanced"]}
    one, two = (
        HiddenSizeSearchCV(network, grid, n_jobs=n_jobs, **IN_FULL).fit(*digits)
        for n_jobs in (1, 2)
    )
    same(two, one, digits)


@pytest.mark.parametrize(("n_jobs", "in_main"), [(1, True), (2, False)])
def test_jobs_are_threads(wine, monkeypatch, n_jobs, in_main):
    gather, threads = shared.gather, set()

    def recorded(*args, **how):
        threads.add(threading.current_thread())
        return gather(*args, **how)

    monkeypatch.setattr(shared, "gather", recorded)
    HiddenSizeSearchCV(RBF, SIZES, n_jobs=n_jobs, refit=False).fit(*wine)
    assert (threading.main_thread() in threads) is in_main


def test_jobs_of_joblib(digits):
    with joblib.parallel_config("loky", n_jobs=2):
        two = HiddenSizeSearchCV(RBF, SIZES, **IN_FULL).fit(*digits)
    same(two, HiddenSizeSearchCV(RBF, SIZES, **IN_FULL).fit(*digits), digits)


def test_the_plan_is_printed(wine, capsys):
    grids = [{"n_hidden": [10, 20], "scale": [0.1, "auto"]}, {"alpha": ["loo"], "n_hidden": [10]}]
    HiddenSizeSearchCV(TanhClassifier(random_state=0), grids, cv=3, verbose=1).fit(*wine)
    text = capsys.readouterr().out
    assert "5 candidates on 3 splits: 4 of them in 4 passes, 1 fitted one by one" in text
    assert "Fitting 3 folds for each of 5 candidates" in text
    assert "split 2 of 3" in text


def test_without_verbose_nothing_is_printed(wine, capsys):
    HiddenSizeSearchCV(TANH, SIZES).fit(*wine)
    assert capsys.readouterr().out == ""


def test_a_shared_pass_that_fails_is_made_good(wine, monkeypatch):
    monkeypatch.setattr(shared, "gather", mock.Mock(side_effect=MemoryError("too large")))
    with pytest.warns(UserWarning, match=r"4 candidates could not share.*MemoryError: too large"):
        compare(TANH, SIZES, wine, alone=4 * 3, **IN_FULL)


def test_a_pass_for_all_splits_that_fails_is_made_good(wine, monkeypatch):
    """By one for each of them, which draws the same layer: nobody has to know."""
    gather = shared.gather

    def of_one_split(job, *args):
        if job.reserved:
            raise MemoryError
        return gather(job, *args)

    monkeypatch.setattr(shared, "gather", of_one_split)
    network = clone(TANH).set_params(random_state=np.random.RandomState(3))
    compare(network, SIZES, wine, **IN_FULL)


def test_ill_conditioned_candidates_are_named(wine):
    """Units that are nearly constant are nearly dependent."""
    grid = {"n_hidden": [60], "alpha": [0.0, 1.0], "scale": [1e-9, 0.5]}
    network = TanhClassifier(random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HiddenSizeSearchCV(network, grid, refit=False).fit(*wine)
    (warning,) = caught
    assert warning.category is ConvergenceWarning
    message = str(warning.message)
    assert "1 of 4 candidates" in message
    assert "'alpha': 0.0" in message
    assert "'scale': 1e-09" in message
    assert "0.5" not in message


def test_of_many_ill_conditioned_candidates_some_are_named(wine):
    grid = {"n_hidden": range(40, 47), "alpha": [0.0], "scale": [1e-9]}
    search = HiddenSizeSearchCV(TanhClassifier(random_state=0), grid, refit=False)
    with pytest.warns(ConvergenceWarning, match=r"7 of 7 .*'n_hidden': 44.*; and 2 more\."):
        search.fit(*wine)


def test_warnings_name_the_line_of_the_fit(wine, monkeypatch):
    search = HiddenSizeSearchCV(TanhClassifier(40, scale=1e-9), {"alpha": [0.0]}, refit=False)
    with pytest.warns(ConvergenceWarning) as ill_conditioned:
        search.fit(*wine)
    monkeypatch.setattr(shared, "gather", mock.Mock(side_effect=MemoryError))
    with pytest.warns(UserWarning, match="could not share") as not_shared:
        HiddenSizeSearchCV(TANH, SIZES).fit(*wine)
    assert {w.filename for w in [*ill_conditioned, *not_shared]} == {__file__}


@pytest.mark.parametrize("scoring", [None, "accuracy", weighted_accuracy])
@pytest.mark.parametrize("readout", ["ridge", "lms"])
def test_times_are_shares_of_the_whole(wine, scoring, readout):
    network = clone(RBF).set_params(readout=readout, max_iter=20)
    grid = SIZES if readout == "ridge" else {"n_hidden": [40]}
    start = perf_counter()
    search = HiddenSizeSearchCV(network, grid, scoring=scoring, refit=False).fit(*wine)
    elapsed, results = perf_counter() - start, search.cv_results_
    fit_time, score_time = (results[f"mean_{name}_time"] for name in ("fit", "score"))
    assert (fit_time > 0).all()
    assert (score_time > 0).all()
    assert 0.1 * elapsed < 5 * (fit_time + score_time).sum() <= elapsed
    if readout == "lms":  # 20 passes over the rows, and one
        assert fit_time.sum() > score_time.sum()


def test_times_of_one_split_do_not_spread(wine):
    rows = np.arange(len(wine[1]))
    results = HiddenSizeSearchCV(TANH, SIZES, cv=[(rows[:90], rows[90:])]).fit(*wine).cv_results_
    assert not results["std_fit_time"].any()
    assert not results["std_score_time"].any()
