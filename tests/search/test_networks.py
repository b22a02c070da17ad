"""Results of HiddenSizeSearchCV for classifiers: those of GridSearchCV, from shared passes.

Nearly every test of this folder fits both searches and compares all fitted attributes. It fails,
too, if a candidate was fitted separately that should share a pass.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import naive
from fake_sources import TiledArray
from search.comparing import (
    ALL_PASSES,
    ALL_SCORES,
    DECISION_SCORER,
    RBF,
    SIZES,
    SIZES_AND_PENALTIES,
    TANH,
    TANH_OF_SPLITS,
    TRIANGLES,
    assert_same_results,
    compare,
    compare_networks,
    load,
    load_regression,
)
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchClassifier,
    PatchRegressor,
    RBFClassifier,
    TanhClassifier,
)
from sklearn_fsvc._src.parts.composition import layer_of

PLAIN_RBF = RBFClassifier(feature_weights=None, kernel="triangular")
NETWORKS = {
    "tanh, one pass": (
        "digits", TanhClassifier(feature_weights=None, scale=0.02), SIZES_AND_PENALTIES
    ),
    "tanh, one pass, orthogonal": (
        "cancer",
        TanhClassifier(feature_weights=None, scale=1e-3, weights="orthogonal"),
        SIZES_AND_PENALTIES,
    ),
    "tanh, a pass for each split": (
        "wine", TanhClassifier(feature_weights=None), SIZES_AND_PENALTIES
    ),
    "tanh, orthogonal": (
        "digits", TanhClassifier(feature_weights=None, weights="orthogonal"), SIZES_AND_PENALTIES
    ),
    "tanh, other layers too": (
        "wine",
        TanhClassifier(12, feature_weights=None),
        {"scale": [1e-3, "auto"], "weights": ["gaussian", "orthogonal"], "bias": [True, False],
         "alpha": [1.0]},
    ),
    "tanh, weights of rows": (
        "digits",
        TanhClassifier(feature_weights=None, scale=0.02, alpha=1.0),
        {"n_hidden": [20, 60, 5], "weights": ["class_informed", "constrained"]},
    ),
    "tanh, receptive fields": (
        "digits", TanhClassifier(feature_weights=None, scale=0.02, image_shape=(8, 8)),
        {"n_hidden": [20, 60], "alpha": [1.0], "patch_size": [None, (2, 6)]},
    ),
    "rbf, prefixes": (
        "digits",
        RBFClassifier(selection_radius=30.0, feature_weights=None, kernel="laplacian"),
        {"n_hidden": [20, 60, 5], "alpha": [0.1], "radius": ["auto", 60.0]},
    ),
    "rbf, fewer centres than asked for": (
        "digits", clone(PLAIN_RBF).set_params(selection_radius=80.0),
        {**SIZES, "n_hidden": [5, 60, 80]},
    ),
    "rbf, random centres": (
        "classification",
        clone(PLAIN_RBF).set_params(selection="random"),
        {"n_hidden": [20, 5], "alpha": [1, 2.0], "radius": ["auto", 9]},
    ),
    "rbf, a search for each size": (
        "iris", PLAIN_RBF, {"n_hidden": [20, 40], "alpha": [1.0], "radius": [1.0, "auto"]}
    ),
    "rbf, None among sizes": (
        "digits",
        clone(PLAIN_RBF).set_params(selection_radius=40.0, alpha=1.0),
        {"n_hidden": [30, None, 10], "radius": [60.0]},
    ),
    "rbf, all that are novel": (
        "wine", RBFClassifier(feature_weights=None), {"alpha": [0.1, 1.0]}
    ),
    "rbf, the radius selects": ("iris", PLAIN_RBF, {"radius": [0.5, 0.7], "alpha": [1, 2]}),
    "rbf, metrics and kernels": (
        "cancer",
        clone(PLAIN_RBF).set_params(n_hidden=25, selection="random", alpha=1.0),
        {"metric": ["euclidean", "sqeuclidean"], "kernel": ["gaussian", "triangular"],
         "radius": [150.0]},
    ),
    "rbf, selections": (
        "iris",
        clone(PLAIN_RBF).set_params(n_hidden=20, alpha=1.0),
        [{"selection": ["global", "per_class"], "overlap": [1.0, 2.5]}, {"shuffle": [True, False]}],
    ),
    "candidates twice": (
        "wine",
        TanhClassifier(feature_weights=None, scale=1e-3),
        {"n_hidden": [9, 9], "alpha": [1, 1.0]},
    ),
    "one candidate": ("iris", TanhClassifier(7, feature_weights=None), {}),
}  # fmt: skip


def test_nearly_linear_units_of_wide_data():
    """With more features than samples, units of a small scale are candidates of each fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 200))
    y = (X[:, :40].sum(axis=1) > 0).astype(int)
    network = TanhClassifier(random_state=0, feature_weights=None, alpha=1.0)
    compare(network, {"n_hidden": [100]}, (X, y))


@pytest.mark.parametrize(("seed", "name"), list(enumerate(NETWORKS)))
def test_results_are_those_of_grid_search(seed, name):
    data, network, grid = NETWORKS[name]
    compare(clone(network).set_params(random_state=seed), grid, load(data), **ALL_SCORES)


def test_a_random_state_instance(iris):
    network = TanhClassifier(feature_weights=None, random_state=np.random.RandomState(3))
    compare(network, SIZES, iris, **ALL_SCORES)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_uncovered_samples(iris, n_classes):
    """They have the class of the nearest unit of the candidate."""
    X, y = (each[iris[1] < n_classes] for each in iris)
    grid = {"n_hidden": [5, 20], "radius": [0.05, 0.2], "alpha": [0.1]}
    scoring = {"accuracy": "accuracy", "values": DECISION_SCORER}
    actual = compare(
        TRIANGLES, grid, (X, y), **{**ALL_SCORES, "scoring": scoring, "refit": "values"}
    )
    clf = clone(TRIANGLES).set_params(n_hidden=20, radius=0.2).fit(X, y)
    assert 3 < (~naive.of_model(clf, X).any(axis=1)).sum() < len(X)
    assert actual.cv_results_["split0_test_accuracy"].min() > 1 / n_classes


@pytest.mark.parametrize("network", ALL_PASSES)
def test_small_tiles(iris, network):
    """A source limits the tiles."""
    grid = {"n_hidden": [5, 20], "alpha": [1.0]}
    grid = {**grid, "radius": [0.2, 0.5]} if network is RBF else grid
    X, y = iris
    results = [
        HiddenSizeSearchCV(network, grid, **ALL_SCORES).fit(samples, y).cv_results_
        for samples in (TiledArray(X, 16), X)
    ]
    assert_same_results(*results)


def test_grids_of_different_parameters(digits):
    """Parameters that are shared in one grid may not be shared in another."""
    network = clone(PLAIN_RBF).set_params(selection_radius=40.0, alpha=0.5, random_state=0)
    network.radius = 60.0
    grids = [{"alpha": [0.1, 1.0]}, {"n_hidden": [15, 30]}, {"radius": [50.0], "n_hidden": [20]}]
    compare(network, grids, digits, **ALL_SCORES)


def test_grids_of_layers_with_and_without_training_data(iris):
    grids = [{"scale": [0.3], **SIZES}, {"weights": ["orthogonal"]}, {"alpha": [3.0]}]
    compare(clone(TANH_OF_SPLITS).set_params(n_hidden=10), grids, iris, **ALL_SCORES)


@pytest.mark.parametrize("network", ALL_PASSES)
def test_class_weights(wine, network):
    by_class = [{0: 1, 1: 5.0, 2: 0.1}, {1: 0.0}, "balanced", None]
    grid = {"class_weight": by_class, "n_hidden": [20], "alpha": [1.0]}
    compare(network, grid, wine, **ALL_SCORES)


def test_balanced_class_weights_are_those_of_each_split(iris):
    """Balanced weights depend on the training set: one pass cannot serve all splits."""
    X, y = (each[np.argsort(iris[1], kind="stable")] for each in iris)
    network = clone(TANH).set_params(class_weight="balanced")
    compare(network, SIZES, (X, y), **{**ALL_SCORES, "cv": KFold(4)})


def test_copies_of_samples(wine):
    """The fit to a training set leaves out all copies of a sample at once."""
    X, y = (np.concatenate([part[::2], part[::2], part[1::2]]) for part in wine)
    train, test = np.split(np.arange(len(y)), [2 * len(wine[1][::2])])
    compare(TANH, SIZES, (X, y), scoring="neg_log_loss", cv=[(train, test)])


@pytest.mark.parametrize("network", [TANH, RBF])
def test_string_labels(cancer, network):
    X, y = cancer
    labels = np.array(["malignant", "benign"])[y]
    f1 = make_scorer(f1_score, pos_label="malignant")
    compare(network, SIZES, (X, labels), scoring=f1, return_train_score=True)
    compare(network, SIZES, (X, pd.Series(labels, index=np.arange(len(y))[::-1])))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize(
    "network",
    [clone(TANH).set_params(scale=0.1), TANH_OF_SPLITS,
     clone(PLAIN_RBF).set_params(selection_radius=40.0, random_state=0)],
)  # fmt: skip
def test_float32_and_uint8_samples(digits, network, dtype):
    """H in float32 is multiplied in float64 here: the class of one sample may differ."""
    X, y = digits[0].astype(dtype), digits[1]
    scoring = {"accuracy": "accuracy", "values": DECISION_SCORER}
    expected, actual = (
        search(network, SIZES, scoring=scoring, refit=False, cv=2).fit(X, y).cv_results_
        for search in (GridSearchCV, HiddenSizeSearchCV)
    )
    for split in range(2):
        for name, tolerance in (("accuracy", 1.5 / (len(X) // 2)), ("values", 1e-4)):
            key = f"split{split}_test_{name}"
            np.testing.assert_allclose(actual[key], expected[key], rtol=0, atol=tolerance)


@pytest.mark.parametrize("network", [TANH, RBF], ids=["tanh", "rbf"])
def test_every_device(wine, device, network):
    network = clone(network).set_params(device=device)
    grid = {"n_hidden": [40, 10], "alpha": [0.2, "auto"]}
    if network.get_params().get("radius"):
        network.kernel = "laplacian"  # so that radii share a pass
        grid["radius"] = [4.0, 8.0]
    compare(network, grid, wine, **ALL_SCORES)


def test_lists_and_data_frames(wine):
    X, y = wine
    compare(TANH, SIZES, (X.tolist(), y.tolist()), **ALL_SCORES)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    frame.index = frame.index[::-1]
    for network in (TANH, RBF):  # one pass for all splits, or one for each of them
        actual = compare(network, {"n_hidden": [40, 10]}, (frame, y), refit=True)
        np.testing.assert_array_equal(actual.feature_names_in_, frame.columns)


# Steps before the network


def test_steps_before_the_network(digits):
    estimator = Pipeline([("scale", StandardScaler()), ("pca", PCA(5, random_state=0)),
                          ("clf", TANH_OF_SPLITS)])  # fmt: skip
    grid = {
        "pca__n_components": [3, 6],
        "clf__n_hidden": [10, 30],
        "clf__alpha": [1.0],
        "scale__with_std": [False],
    }
    compare(estimator, grid, digits, refit=True, **{**ALL_SCORES, "scoring": None})


@pytest.mark.parametrize(
    "network",
    [
        TANH,
        RBF,
        clone(PLAIN_RBF).set_params(radius=30.0, random_state=0),
        clone(PLAIN_RBF).set_params(
            selection_radius=5.0, kernel="laplacian", radius=20.0, random_state=0
        ),
    ],
)
def test_supervised_steps_are_fitted_to_each_split(digits, network):
    estimator = make_pipeline(SelectKBest(k=12), StandardScaler(with_std=False), network)
    grid = {f"{type(network).__name__.lower()}__{name}": SIZES[name] for name in SIZES}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Features .* are constant")
        warnings.filterwarnings("ignore", "invalid value")
        compare(estimator, grid, digits, **ALL_SCORES)


@pytest.mark.parametrize("network", ALL_PASSES)
def test_a_pipeline_with_the_network_only(wine, network):
    grid = {"clf__n_hidden": [10, 20], "clf__alpha": [1.0]}
    compare(Pipeline([("clf", network)]), grid, wine, **ALL_SCORES)


def test_column_transformers(wine):
    X = pd.DataFrame(wine[0], columns=list("abcdefghijklm"))
    columns = make_column_transformer((StandardScaler(), ["a", "b"]), (PCA(2), list("cdefg")))
    estimator = make_pipeline(columns, clone(TANH)).set_output(transform="pandas")
    grid = {"tanhclassifier__n_hidden": [10, 20]}
    actual = compare(estimator, grid, (X, wine[1]), refit=True, **ALL_SCORES)
    assert list(actual.feature_names_in_) == list(X.columns)


def test_fit_parameters_reach_their_steps(digits, weight):
    estimator = Pipeline([("scale", StandardScaler()), ("clf", RBF)])
    fit_params = {"clf__sample_weight": weight, "scale__sample_weight": weight[::-1] + 1}
    options = {**ALL_SCORES, "refit": True}
    compare(estimator, {"clf__n_hidden": [10, 20]}, digits, fit_params=fit_params, **options)


def test_the_network_itself_is_a_parameter(wine):
    estimator = Pipeline([("scale", StandardScaler()), ("clf", TANH_OF_SPLITS)])
    grids = [
        {"clf": [TANH, RBF], "clf__n_hidden": [10, 20], "clf__alpha": [1.0]},
        {"clf": [SVC(), LogisticRegression()], "clf__C": [0.1]},
        {"scale": ["passthrough"], "clf": [RBF], "clf__n_hidden": [15]},
    ]
    before = [dict(vars(network)) for network in (TANH, RBF)]
    compare(estimator, grids, wine)
    first = compare(estimator, grids[0], wine, refit=True, **ALL_SCORES)
    assert [vars(network) for network in (TANH, RBF)] == before
    assert first.best_estimator_[-1] is not first.best_params_["clf"]


# Image patches, whose units have several columns of H

SMALL = {"pool": 2, "random_state": 0}
PATCH_SIZES = {"n_hidden": [12, 20], "alpha": [0.2, "auto"]}
ONLY_SIZES = {"n_hidden": [12, 5]}
PATCH_NETWORKS = {
    "soft threshold": (PatchClassifier(**SMALL), PATCH_SIZES),
    "distances": (PatchClassifier(kernel="gaussian", radius=3.0, **SMALL), PATCH_SIZES),
    "no prefixes": (PatchClassifier(kernel="below_mean", **SMALL), PATCH_SIZES),
    "novel patches": (PatchClassifier(selection="global", alpha=1.0, **SMALL), ONLY_SIZES),
    "other layers too": (
        PatchClassifier(9, alpha=1.0, **SMALL),
        {"patch_size": [2, 3], "threshold": [0.1, 1.0]},
    ),
}


@pytest.mark.parametrize("name", PATCH_NETWORKS)
def test_networks_on_patches(name):
    data = (each[:100] for each in load("digits"))
    for network in compare_networks(*PATCH_NETWORKS[name], tuple(data)):
        assert (
            network.readout_coef_.shape[1] == network.n_hidden * layer_of(network).n_columns_of_unit
        )
        assert len(network.components_) == len(network.patches_) == network.n_hidden


def test_regressors_on_patches():
    compare(PatchRegressor(**SMALL), PATCH_SIZES, load_regression())
