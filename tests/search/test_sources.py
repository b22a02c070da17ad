"""Searches over files have the results of searches over arrays."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fake_sources import ChunkFunction, SliceableFile, batches
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, TanhClassifier, TanhRegressor

pytestmark = pytest.mark.usefixtures("without_calibrations")

SMALL = {"random_state": 0, "device": "jit"}
GRID = {"n_hidden": [10, 30], "alpha": [0.2, "auto"]}
SHUFFLED = KFold(3, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    return rng.random((300, 5), np.float32) + y[:, None].astype(np.float32) / 3, y


def own_score(estimator, X, y):
    """Scores with the samples of a split, which are a source, too."""
    return -np.mean(estimator.predict(X) != y)


TANH = TanhClassifier(30, feature_weights=None, **SMALL)
RBF = RBFClassifier(30, feature_weights=None, radius=3.0, **SMALL)
SEARCHES = {
    "one pass": (clone(TANH).set_params(scale=1.0), {"n_hidden": [10, 30], "alpha": [0.1, 1]}, {}),
    "a pass for each split": (TANH, GRID, {"return_train_score": True, "cv": 3}),
    "any order": (RBF, {"n_hidden": [10, 30]}, {"cv": SHUFFLED}),
    "fitted separately": (RBF, {"readout": ["none"], "n_hidden": [10]}, {}),
    "numbers": (
        TanhRegressor(30, feature_weights=None, **SMALL),
        {"alpha": [0.2, "auto"]},
        {"cv": 3},
    ),
    "rows are scored": (TANH, {"n_hidden": [10, 30]}, {"scoring": own_score, "cv": 3}),
}


@pytest.fixture(scope="module")
def in_memory_results(rows):
    """Name -> the search over arrays, once for all kinds of sources."""

    @cache
    def search(name):
        model, grid, options = SEARCHES[name]
        return HiddenSizeSearchCV(model, grid, **options).fit(*rows)

    return search


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *product(("one pass", "any order"), ("slices", "chunks", "batches")),
        ("a pass for each split", "slices"),
        ("a pass for each split", "batches"),
        ("fitted separately", "chunks"),
        ("numbers", "batches"),
        ("rows are scored", "slices"),
        ("rows are scored", "chunks"),
    ],
)
def test_results_are_those_of_arrays(rows, in_memory_results, name, kind):
    X, y = rows
    expected = in_memory_results(name)
    given = {
        "slices": (SliceableFile(X), y),
        "chunks": (ChunkFunction(X, y),),
        "batches": (batches(X, y=y), "y"),
    }
    search = clone(expected).fit(*given[kind])
    names = [name for name in expected.cv_results_ if name.endswith("score")]
    assert len(names) > 5
    for name in names:
        np.testing.assert_array_equal(search.cv_results_[name], expected.cv_results_[name])
    bare = batches(X) if kind == "batches" else SliceableFile(X)
    np.testing.assert_array_equal(search.predict(bare), expected.predict(X))


def test_sample_weights_of_a_source(rows):
    X, y = rows
    weight = np.random.default_rng(0).random(300)
    search = HiddenSizeSearchCV(TANH, GRID, cv=3, refit=False)
    expected = search.fit(X, y, sample_weight=weight).cv_results_["mean_test_score"]
    actual = search.fit(ChunkFunction(X, y, weight)).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(actual, expected)
    assert (actual != search.fit(X, y).cv_results_["mean_test_score"]).any()


def test_a_source_can_be_scored(rows):
    X, y = rows
    search = HiddenSizeSearchCV(TANH, GRID, cv=3).fit(SliceableFile(X), y)
    assert search.score(SliceableFile(X), y) == accuracy_score(y, search.predict(X))


def test_shuffled_splits_are_refused(rows):
    X, y = rows
    search = HiddenSizeSearchCV(TANH, GRID, cv=ShuffleSplit(2))
    with pytest.raises(ValueError, match="use a splitter that keeps the order, such as KFold"):
        search.fit(SliceableFile(X), y)


def test_training_rows_of_one_pass_in_any_order(rows):
    X, y = rows
    order = np.random.default_rng(0).permutation(200)
    search = HiddenSizeSearchCV(SEARCHES["one pass"][0], {"alpha": [0.1]}, refit=False)
    search.set_params(cv=[(order, np.arange(200, 300))])
    scores = [search.fit(data, y).cv_results_["mean_test_score"] for data in (X, SliceableFile(X))]
    np.testing.assert_array_equal(*scores)


def test_pipelines_are_refused(rows):
    X, y = rows
    model = make_pipeline(StandardScaler(), TANH)
    search = HiddenSizeSearchCV(model, {"tanhclassifier__n_hidden": [10, 20]})
    with pytest.raises(ValueError, match="the steps around the network need all samples in memory"):
        search.fit(SliceableFile(X), y)


def test_y_of_another_length(rows):
    X, y = rows
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        HiddenSizeSearchCV(TANH, GRID).fit(SliceableFile(X), y[:-1])
