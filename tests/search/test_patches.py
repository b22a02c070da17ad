"""Searches of networks on image patches, whose units have several columns of H."""

import pytest

from search.comparing import compare, compare_networks, load, load_regression
from sklearn_fsvc import PatchClassifier, PatchRegressor
from sklearn_fsvc._src.parts import layer_of

SMALL = {"pool": 2, "random_state": 0}
SIZES = {"n_hidden": [12, 20], "alpha": [0.2, "auto"]}
NO_PENALTIES = {"n_hidden": [12, 5]}
NETWORKS = {
    "soft threshold": (PatchClassifier(**SMALL), SIZES),
    "distances": (PatchClassifier(kernel="gaussian", radius=3.0, **SMALL), SIZES),
    "no prefixes": (PatchClassifier(kernel="below_mean", **SMALL), SIZES),
    "novel patches": (PatchClassifier(selection="global", alpha=1.0, **SMALL), NO_PENALTIES),
    "other layers too": (
        PatchClassifier(9, alpha=1.0, **SMALL),
        {"patch_size": [2, 3], "threshold": [0.1, 1.0], "alpha": [0.1, 1.0]},
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_grid_search(name):
    for network in compare_networks(*NETWORKS[name], load("digits")):
        assert (
            network.readout_coef_.shape[1] == network.n_hidden * layer_of(network).n_columns_of_unit
        )
        assert len(network.components_) == len(network.patches_) == network.n_hidden


def test_regressors():
    compare(PatchRegressor(**SMALL), SIZES, load_regression())
