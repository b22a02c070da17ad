"""A search over rows of a file is the search over the rows in memory."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, TanhClassifier, TanhRegressor
from sourced import Shelf, Tap, batches

SMALL = {"random_state": 0, "device": "jit"}
GRID = {"n_hidden": [10, 30], "alpha": [0.1, "auto"]}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    return rng.random((300, 5), np.float32) + y[:, None].astype(np.float32) / 3, y


def own_score(estimator, X, y):
    """Meets the rows of a split, which are a source themselves."""
    return -np.mean(estimator.predict(X) != y)


@pytest.mark.parametrize("kind", ["slices", "chunks", "batches"])
@pytest.mark.parametrize(
    ("model", "grid", "how"),
    [
        (TanhClassifier(30, scale=1.0, **SMALL), {"n_hidden": [10, 30], "alpha": [0.1, 1]}, {}),
        (TanhClassifier(30, **SMALL), GRID, {"return_train_score": True}),
        (RBFClassifier(30, **SMALL), GRID, {"cv": KFold(3, shuffle=True, random_state=0)}),
        (RBFClassifier(30, **SMALL), {"readout": ["none"], "n_hidden": [10]}, {"cv": 3}),
        (TanhRegressor(30, **SMALL), GRID, {"cv": 3}),
        (TanhClassifier(30, **SMALL), GRID, {"scoring": own_score}),
    ],
)
def test_the_same_results(rows, kind, model, grid, how):
    X, y = rows
    expected = HiddenSizeSearchCV(model, grid, **how).fit(X, y)
    given = {"slices": (Shelf(X), y), "chunks": (Tap(X, y),), "batches": (batches(X, y=y), "y")}
    search = HiddenSizeSearchCV(model, grid, **how).fit(*given[kind])
    names = [name for name in expected.cv_results_ if name.endswith("score")]
    assert len(names) > 5
    for name in names:
        np.testing.assert_array_equal(search.cv_results_[name], expected.cv_results_[name])
    bare = batches(X) if kind == "batches" else Shelf(X)
    np.testing.assert_array_equal(search.predict(bare), expected.predict(X))


def test_weights_of_a_source(rows):
    X, y = rows
    weight = np.random.default_rng(0).random(300)
    search = HiddenSizeSearchCV(TanhClassifier(**SMALL), GRID, cv=3, refit=False)
    expected = search.fit(X, y, sample_weight=weight).cv_results_["mean_test_score"]
    found = search.fit(Tap(X, y, weight)).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(found, expected)
    assert (found != search.fit(X, y).cv_results_["mean_test_score"]).any()


def test_scores_of_the_best_network(rows):
    X, y = rows
    search = HiddenSizeSearchCV(TanhClassifier(**SMALL), GRID, cv=3).fit(Shelf(X), y)
    assert search.score(Shelf(X), y) == accuracy_score(y, search.predict(X))


def test_a_splitter_in_another_order_is_refused(rows):
    X, y = rows
    search = HiddenSizeSearchCV(TanhClassifier(**SMALL), GRID, cv=ShuffleSplit(2))
    with pytest.raises(ValueError, match="use a splitter that keeps the order, such as KFold"):
        search.fit(Shelf(X), y)


def test_steps_before_the_network_are_refused(rows):
    X, y = rows
    model = make_pipeline(StandardScaler(), TanhClassifier(**SMALL))
    search = HiddenSizeSearchCV(model, {"tanhclassifier__n_hidden": [10, 20]})
    with pytest.raises(ValueError, match="steps before the network would need all of them"):
        search.fit(Shelf(X), y)


def test_y_of_another_length(rows):
    X, y = rows
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        HiddenSizeSearchCV(TanhClassifier(**SMALL), GRID).fit(Shelf(X), y[:-1])
