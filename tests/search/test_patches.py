"""HiddenSizeSearchCV over units on patches, each of which has several columns of H."""

import pytest

from search.comparing import IN_FULL, compare, load, load_numbers, same_fits
from sklearn_fsvc import PatchClassifier, PatchRegressor

SMALL = {"pool": 2, "random_state": 0}
SIZES = {"n_hidden": [12, 30, 5], "alpha": [0.1, "auto"]}
NETWORKS = {
    "soft threshold": (PatchClassifier(**SMALL), SIZES),
    "distances": (PatchClassifier(kernel="gaussian", radius=3.0, **SMALL), SIZES),
    "no prefixes": (PatchClassifier(kernel="below_mean", **SMALL), SIZES),
    "novel patches": (PatchClassifier(selection="global", **SMALL), SIZES),
    "other layers too": (
        PatchClassifier(9, alpha=1.0, **SMALL),
        {"patch_size": [2, 3], "threshold": [0.1, 1.0], "alpha": [0.1, 1.0]},
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name):
    compare(*NETWORKS[name], load("digits"), **IN_FULL)


@pytest.mark.parametrize("name", ["soft threshold", "no prefixes"])
def test_each_network_is_what_its_own_fit_leaves(name):
    for network in same_fits(*NETWORKS[name], load("digits")):
        assert (
            network.readout_coef_.shape[1] == network.n_hidden * network._layer().n_columns_of_unit
        )
        assert len(network.components_) == len(network.patches_) == network.n_hidden


def test_regressors():
    compare(PatchRegressor(**SMALL), SIZES, load_numbers())
