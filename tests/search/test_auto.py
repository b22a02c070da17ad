"""Grids with "auto" in addition to numbers and names.

Each network is compared with that of its own fit, including `search_results_`: its searches must
start at the same values and use the same held-out samples.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from peak_memory import MIB, peak
from search.comparing import (
    ALL_AUTO,
    ALL_SCORES,
    RBF,
    TANH,
    TANH_AUTO,
    TRIANGLES,
    compare,
    compare_networks,
    count_network_fits,
)
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, TanhClassifier
from sklearn_fsvc._src.readouts import loo_penalty, penalty_search
from sklearn_fsvc._src.search import networks
from sklearn_fsvc.kernels import Laplacian

pytestmark = pytest.mark.usefixtures("without_maps")

GIVEN = {"feature_weights": None, "radius": 5.0, "kernel": "gaussian"}
NETWORKS = {
    "tanh": (TANH, {}),
    "tanh, all that is automatic": (TANH_AUTO, {"n_hidden": [20, 60]}),
    "tanh, of the rows": (TanhClassifier(weights="class_informed", random_state=0), {}),
    "rbf": (ALL_AUTO, {"alpha": ["auto"]}),
    "rbf, prefixes": (RBFClassifier(selection_radius=3.0, random_state=0), {}),
    "rbf, centres by kernel": (
        RBFClassifier(selection_radius=3.0, radius=5.0, feature_weights=None, random_state=0),
        {"kernel": ["triangular", "gaussian"]},
    ),
    "rbf, given": (clone(ALL_AUTO).set_params(**GIVEN), {"radius": [1.0, 30.0]}),
    "rbf, rows outside": (
        clone(TRIANGLES).set_params(n_hidden=20),
        {"radius": [1.2], "kernel": ["triangular", "laplacian"]},
    ),
    "rbf, kernels": (
        clone(ALL_AUTO).set_params(radius=5.0),
        {"kernel": ["triangular", "laplacian"]},
    ),
    "rbf, a search for each size": (RBFClassifier(feature_weights=None, random_state=0), {}),
}


def alphas(networks):
    return [network.alpha_ for network in networks if network.alpha == "auto"]


@pytest.mark.parametrize("name", NETWORKS)
def test_searched_penalties(wine, name):
    network, grid = NETWORKS[name]
    actual = compare_networks(network, {"n_hidden": [3, 60], "alpha": [0.2, "auto"], **grid}, wine)
    assert (
        len(set(alphas(actual))) > 1
    )  # else the test would not detect a confusion of sizes or splits


@pytest.mark.parametrize("few", [1000, 20])
def test_penalties_of_rbf_networks_by_held_out_samples(wine, monkeypatch, set_small_size, few):
    """As for many samples: units with held-out centres are left out, in all parts or in one."""
    monkeypatch.setattr(loo_penalty, "MAX_LOO_ROWS", 0)
    set_small_size(few)
    network = clone(ALL_AUTO).set_params(**GIVEN)
    actual = compare_networks(network, {"n_hidden": [20, 40, 60], "alpha": [0.2, "auto"]}, wine)
    assert len(set(alphas(actual))) > 1


@pytest.mark.parametrize("network", [TANH, clone(RBF).set_params(radius="auto")])
def test_searched_penalties_with_sample_weights(wine, network):
    """Samples of weight 0 are neither trained on nor held out."""
    rng = np.random.default_rng(0)
    weight = rng.random(len(wine[1])) * (rng.random(len(wine[1])) > 0.33)
    grid = {"n_hidden": [30], "alpha": ["auto"], "class_weight": [None, "balanced"]}
    compare_networks(network, grid, wine, fit_params={"sample_weight": weight})


@pytest.mark.parametrize("network", [TANH, clone(ALL_AUTO).set_params(feature_weights=None)])
def test_searched_penalties_in_a_pipeline(wine, weight, network):
    estimator = Pipeline([("scale", StandardScaler()), ("clf", network)])
    grid = {"clf__n_hidden": [30], "clf__alpha": ["auto"]}
    fit_params = {"clf__sample_weight": weight[: len(wine[1])]}
    compare_networks(estimator, grid, wine, fit_params=fit_params)


@pytest.mark.usefixtures("without_calibrations")
@pytest.mark.parametrize(("few", "n_parts"), [(150, [6, 1, 1]), (50, [1, 1, 1])])
def test_small_networks_are_validated_on_all_parts(wine, monkeypatch, set_small_size, few, n_parts):
    """100 samples in each split: all parts for small networks, only the first for larger ones.

    The penalty found is 1, which is not in the grid: scores that tie up to rounding have any order.
    """
    set_small_size(few)
    grid = {"n_hidden": [40, 160, 200], "alpha": ["auto", 2.0]}
    n_folds = []

    def search_penalty(folds, start, search=penalty_search.search_penalty):
        n_folds.append(len(folds))
        return search(folds, start)

    monkeypatch.setattr(networks, "search_penalty", search_penalty)
    compare_networks(TANH, grid, wine)
    assert n_folds == 2 * n_parts


@pytest.mark.usefixtures("without_calibrations")
@pytest.mark.parametrize("network", [TANH, clone(ALL_AUTO).set_params(feature_weights=None)])
def test_a_random_state_instance(wine, network):
    """Held-out samples are drawn last."""
    network = clone(network).set_params(random_state=np.random.RandomState(3))
    compare(network, {"n_hidden": [10, 30], "alpha": ["auto", 1.0]}, wine, **ALL_SCORES)


@pytest.mark.usefixtures("without_calibrations")
def test_searched_and_given_parameters_in_one_grid(wine):
    """The search history of a candidate does not affect that of another, nor its first penalty."""
    grid = {"kernel": ["auto", "gaussian"], "radius": ["auto", 4.0],
            "alpha": ["auto", 1.0], "n_hidden": [20]}  # fmt: skip
    splits = list(KFold(2, shuffle=True, random_state=0).split(*wine))[:1]
    actual = compare_networks(ALL_AUTO, grid, wine, cv=splits)
    searched = {
        (network.kernel, network.radius): set(
            zip(*(network.search_results_[name] for name in ("kernel", "radius")), strict=True)
        )
        for network in actual
        if network.alpha == 1.0
    }
    kernels = {params: {kernel for kernel, _ in each} for params, each in searched.items()}
    assert kernels["auto", "auto"] >= {"laplacian", "triangular"}
    # Feature weights are learned by Laplacian units, whatever the kernel.
    assert kernels["gaussian", "auto"] == {"laplacian", "gaussian"}
    assert len(searched["gaussian", "auto"]) > len(searched["gaussian", 4.0]) > 0


@pytest.mark.usefixtures("without_calibrations")
@pytest.mark.parametrize("selection_radius", [None, 3.0])
def test_feature_weights(wine, selection_radius):
    given_weights = np.linspace(0.0, 1.0, wine[0].shape[1])
    selection = "per_class" if selection_radius else "random"
    network = clone(ALL_AUTO).set_params(selection=selection, selection_radius=selection_radius)
    grid = {"feature_weights": [None, "learned", given_weights, "auto"], "n_hidden": [10, 20],
            "radius": [5.0], "kernel": ["laplacian"], "alpha": [1.0]}  # fmt: skip
    splits = list(KFold(2, shuffle=True, random_state=0).split(*wine))[:1]
    actual = compare_networks(network, grid, wine, cv=splits)
    assert [n.feature_weights_ is None for n in actual if n.feature_weights is None] == [True] * 2
    assert not all(
        n.feature_weights_ is None for n in actual if n.feature_weights is not given_weights
    )


@pytest.mark.usefixtures("without_calibrations")
def test_a_custom_kernel(wine):
    """scikit-learn clones it for each candidate."""
    grid = {"kernel": [Laplacian(), "gaussian"], "radius": [5.0], "n_hidden": [10, 20]}
    compare_networks(RBF, grid, wine)


# More units than samples


@pytest.mark.usefixtures("without_calibrations")
@pytest.mark.parametrize("grid", [{"alpha": [0.1, 1.0], "radius": [4.0]}, {"radius": [3.0, 6.0]}])
def test_more_units_than_samples(wine, grid):
    """Larger sizes are the same network; both searches warn."""
    network = clone(ALL_AUTO).set_params(kernel="gaussian", feature_weights=None)
    grid = {"n_hidden": [10, 500, 600, 20], **grid}
    with pytest.warns(UserWarning, match=r"n_hidden=\d+ is more than the 89 samples") as caught:
        actual = compare_networks(network, grid, wine, refit=False)
    assert {len(each.centers_) for each in actual} == {10, 20, 89}
    with pytest.warns(UserWarning, match="n_hidden=600 is more than the") as caught:
        HiddenSizeSearchCV(network, grid, cv=2, refit=False).fit(*wine)
    assert len(caught) == 2  # splits


@pytest.mark.usefixtures("without_calibrations")
def test_more_units_than_samples_of_some_splits(wine):
    n, rows = len(wine[1]), np.arange(len(wine[1]))
    cv = [(rows[:30], rows[30:]), (rows[30:], rows[:30]), (rows[: n // 2], rows[n // 2 :])]
    mixed = np.random.default_rng(0).permutation(n)
    with pytest.warns(UserWarning, match="n_hidden=40 is more than the 30 samples"):
        actual = compare_networks(
            RBF, {"n_hidden": [10, 40]}, [each[mixed] for each in wine], cv=cv
        )
    assert sorted(len(each.centers_) for each in actual) == [10, 10, 10, 30, 40, 40]


# Memory


GROUP = {"n_hidden": [200], "alpha": ["auto"], "radius": [3.0, 5.0, 8.0],
         "kernel": ["triangular", "gaussian"]}  # fmt: skip


@pytest.mark.usefixtures("without_calibrations")
@pytest.mark.parametrize(("limit", "is_shared"), [("6MiB", True), ("3MiB", False)])
@pytest.mark.filterwarnings("ignore:.*could not share")
def test_statistics_of_held_out_samples_respect_the_memory_limit(
    limit, is_shared, set_small_size, monkeypatch
):
    """12 statistics of 313 KiB are shared if they fit into the limit."""
    monkeypatch.setattr(loo_penalty, "MAX_LOO_ROWS", 0)
    rng = np.random.default_rng(0)
    set_small_size(100)  # one held-out part for all sizes
    X, y = rng.normal(size=(600, 4)), rng.integers(0, 2, 600)
    network = clone(TRIANGLES).set_params(max_memory=limit)
    search = HiddenSizeSearchCV(network, GROUP, cv=2, refit=False)
    few = {**GROUP, "n_hidden": [40], "radius": [5.0]}
    clone(search).set_params(param_grid=few).fit(X, y)  # compiles the kernels
    with count_network_fits() as fits:
        _, taken = peak(search.fit, X, y)
    assert (fits.call_count == 0) is is_shared
    assert taken < float(limit.removesuffix("MiB")) * MIB
