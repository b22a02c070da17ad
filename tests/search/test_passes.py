"""The number of passes over the samples, and their cost."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, PredefinedSplit, ShuffleSplit

from search.comparing import (
    ALL_SCORES,
    SIZES_AND_PENALTIES,
    TANH,
    TRIANGLES,
    assert_same_results,
    mask_splits,
)
from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier

pytestmark = pytest.mark.usefixtures("without_calibrations")


def test_all_splits_share_one_pass(digits, work):
    """The largest network is evaluated once for the statistics, and once for the scores."""
    HiddenSizeSearchCV(TANH, SIZES_AND_PENALTIES, cv=KFold(4), refit=False).fit(*digits)
    assert work.rows == 200
    assert work.entries == 2 * 200 * 40


@pytest.mark.parametrize(
    ("cv", "rows"),
    [
        (ShuffleSplit(3, test_size=0.2, random_state=0), 3 * 40 + 200),
        (PredefinedSplit(np.arange(200) % 5 - 1), 200),
        (ShuffleSplit(3, train_size=0.3, random_state=0), 3 * 60),
        (mask_splits(200), 200),
    ],
    ids=["rows left out twice", "rows never left out", "most rows left out", "masks"],
)
def test_samples_that_enter_the_statistics(digits, work, cv, rows):
    HiddenSizeSearchCV(TANH, SIZES_AND_PENALTIES, cv=cv, refit=False).fit(*digits)
    assert work.rows == rows


@pytest.mark.parametrize(
    ("network", "grid"),
    [
        (TanhClassifier(feature_weights=None, random_state=0), SIZES_AND_PENALTIES),
        (clone(TANH).set_params(class_weight="balanced"), SIZES_AND_PENALTIES),
        (TRIANGLES, {**SIZES_AND_PENALTIES, "radius": [300.0, 400.0]}),
        (
            TRIANGLES,
            {**SIZES_AND_PENALTIES, "radius": [300.0, 400.0], "kernel": ["gaussian", "laplacian"]},
        ),
        (
            clone(TRIANGLES).set_params(selection="global", selection_radius=20.0),
            {**SIZES_AND_PENALTIES, "radius": [300.0, 400.0]},
        ),
    ],
)
def test_each_split_needs_one_pass(digits, work, network, grid):
    """For any grid; and one more pass for the test samples."""
    HiddenSizeSearchCV(network, grid, cv=KFold(4), refit=False).fit(*digits)
    assert (work.passes, work.rows) == (4, 3 * 200)
    assert work.entries == (3 + 1) * 200 * 40


PASSES = {
    # The selection radius is searched; or centres are random, but radius or kernel are searched.
    "sizes": ({"selection": "global"}, {"n_hidden": [20, 30], "radius": [40.0, 60.0]}, 2),
    "kernels": (
        {"selection": "global", "n_hidden": 20},
        {"kernel": ["triangular", "gaussian"], "radius": [40.0, 60.0]},
        2,
    ),
    "the radius selects": ({"selection": "global"}, {"radius": [200.0, 220.0]}, 2),
    "radius auto": ({"n_hidden": 20}, {"radius": ["auto", 40.0, 60.0]}, 2),
    "kernel auto": (
        {"n_hidden": 20, "radius": 40.0},
        {"kernel": ["auto", "gaussian", "laplacian"]},
        2,
    ),
    "both": (
        {"n_hidden": 20},
        {"kernel": ["auto", "gaussian", "laplacian"], "radius": ["auto", 40.0, 60.0]},
        3 + 2 + 1,
    ),
    "weights": (
        {"n_hidden": 20, "radius": 40.0},
        {
            "feature_weights": [None, "learned", np.ones(64), "auto"],
            "kernel": ["gaussian", "laplacian"],
        },
        4,
    ),
}


@pytest.mark.parametrize("name", PASSES)
def test_parameters_that_need_separate_passes(digits, work, name):
    parameters, grid, passes = PASSES[name]
    network = clone(TRIANGLES).set_params(**parameters)
    HiddenSizeSearchCV(network, {**grid, "alpha": [0.1, 1.0]}, cv=KFold(2), refit=False).fit(
        *digits
    )
    assert work.passes == passes * 2


@pytest.mark.parametrize("network", [TANH, TRIANGLES])
@pytest.mark.parametrize("alphas", [["auto"], [0.1, "auto", 10.0]])
@pytest.mark.parametrize(("few", "passes", "rows"), [(1000, 7, 2 * 150), (100, 2, 150 + 25)])
def test_searched_penalties_need_a_pass_for_each_split(
    digits, work, set_small_size, network, alphas, few, passes, rows
):
    """Held-out samples are evaluated once more, for any sizes. RBF networks leave out samples."""
    set_small_size(few)
    grid = {"n_hidden": [40, 10], "alpha": alphas}
    if network is TRIANGLES:
        passes, rows = 1, 150
        grid |= {"radius": [300.0, 400.0], "kernel": ["gaussian", "triangular"]}
    HiddenSizeSearchCV(network, grid, cv=KFold(4), refit=False).fit(*digits)
    assert (work.passes, work.rows) == (passes * 4, rows * 4)
    if network is TANH:
        assert work.entries == (rows * 4 + 200) * 40


def test_scorers_share_decision_values(digits, work):
    """Scorers of scikit-learn use those of the pass, also for training samples."""
    scoring = ["accuracy", "f1_macro"]
    options = {"cv": KFold(4), "refit": False, "return_train_score": True}
    HiddenSizeSearchCV(TANH, SIZES_AND_PENALTIES, scoring=scoring, **options).fit(*digits)
    assert work.entries == (1 + 1 + 3) * 200 * 40


def test_a_small_limit_needs_a_pass_for_each_split(digits, work):
    """The statistics of all splits together exceed the limit."""
    network = TanhClassifier(feature_weights=None, scale=0.02, alpha=1.0, random_state=0)
    grid = {"n_hidden": [150, 20]}
    full = HiddenSizeSearchCV(network, grid, **{**ALL_SCORES, "cv": 3}).fit(*digits)
    assert work.rows == 200
    tight = clone(full).set_params(estimator__max_memory="1MiB").fit(*digits)
    assert work.rows == 200 + 2 * 200
    assert_same_results(tight.cv_results_, full.cv_results_)
