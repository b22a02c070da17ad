"""Copies of samples become one sample with a weight."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.copies import merge_copies
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.data.sources import ArraySource, SparseSource
from sklearn_fsvc._src.estimators import network
from sklearn_fsvc._src.stacking import parts
from sklearn_fsvc._src.targets.encoding import OneHotTargets

N = 200
# The kernel and feature weights are given where the penalty is all that copies could change.
RBF = {"kernel": "laplacian", "feature_weights": None, "random_state": 0}
TANH = {"feature_weights": None, "random_state": 0}
ESTIMATORS = {
    "TanhRegressor": TanhRegressor(50, **TANH),
    "loo": TanhRegressor(50, alpha="loo", random_state=0),
    "RBFRegressor": RBFRegressor(random_state=0),
    "TanhClassifier": TanhClassifier(50, **TANH),
    "RBFClassifier": RBFClassifier(**RBF),
}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(N, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)


def samples_of(X, codes=None, **params):
    codes = np.zeros(len(X), int) if codes is None else codes
    return Samples(X, OneHotTargets.of_column(codes, 2), **params)


def test_copies_are_merged_in_the_order_of_the_first_ones(rng):
    X, codes = rng.normal(size=(50, 3)), rng.integers(2, size=50)
    order = rng.permutation(np.repeat(np.arange(50), rng.integers(1, 4, 50)))
    weight = rng.random(len(order))
    merged = merge_copies(samples_of(X[order], codes[order], weight=weight))
    first = [int(np.flatnonzero(order == i)[0]) for i in range(50)]
    np.testing.assert_array_equal(merged.rows, sorted(first))
    np.testing.assert_array_equal(merged.X, X[order][merged.rows])
    np.testing.assert_array_equal(merged.targets.class_codes, codes[order][merged.rows])
    expected = [weight[order == order[row]].sum() for row in merged.rows]
    np.testing.assert_allclose(merged.weight, expected)
    assert merge_copies(samples_of(X[order])).weight.sum() == len(order)


def one_hot(rng):
    """Return a one-hot encoded table of three categories, in which rows are equal by chance."""
    codes = rng.integers([6, 8, 10], size=(500, 3))
    return np.concatenate([np.eye(10)[column] for column in codes.T], axis=1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("n_features", [6, 600])
def test_copies_of_bytes_are_merged(n_features, dtype, rng):
    """Larger arrays of int64 are sources, whose rows are converted as they are read."""
    X = rng.integers(256, size=(400, n_features)).astype(dtype)
    X = ArraySource(X) if dtype == np.int64 else X
    rows = np.repeat(np.arange(300), 2)
    merged = merge_copies(samples_of(X.part(rows) if dtype == np.int64 else X[rows]))
    np.testing.assert_array_equal(merged.rows, np.arange(0, 600, 2))
    np.testing.assert_array_equal(merged.X[:], X[:300])
    np.testing.assert_array_equal(merged.weight, np.full(300, 2))


@pytest.mark.parametrize("is_part", [False, True])
def test_one_distinct_feature_of_integers_suffices(is_part, rng):
    """As in an array of floats, also if the rows are converted as they are read."""
    X = rng.integers(3, size=(300, 5))
    X[:, 3] = rng.permutation(300)
    rows = np.repeat(np.arange(300), 2)
    twice = ArraySource(X).part(rows) if is_part else ArraySource(X[rows])
    for samples in (samples_of(twice), samples_of(X[rows].astype(float))):
        merged = merge_copies(samples)
        np.testing.assert_array_equal(merged.rows, np.arange(0, 600, 2))
        np.testing.assert_array_equal(merged.X[:], X)


@pytest.mark.parametrize("n_features", [10, 500])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_copies_of_integers_choose_no_transform(dtype, n_features, rng):
    X = rng.integers(256, size=(300, n_features)).astype(dtype)
    z = np.sin(X[:, 0] / 40) + 0.5 * rng.normal(size=300)
    model = RBFRegressor(40, target_transform="auto", **RBF)
    y, rows = np.exp(2 * z), np.repeat(np.arange(300), 2)
    once, twice = clone(model).fit(X, y), clone(model).fit(X[rows], y[rows])
    assert once.target_transformer_ is twice.target_transformer_ is None
    weighted = clone(model).fit(X, y, sample_weight=np.full(300, 2))
    np.testing.assert_allclose(twice.predict(X), weighted.predict(X), rtol=1e-6)


def test_samples_that_are_not_copies_are_kept(rng):
    X = rng.normal(size=(100, 3))
    twice = np.tile(X, (2, 1))
    few_copies = np.concatenate([X, X[:9]])
    coincidences = rng.integers(3, size=(200, 4)).astype(float)
    groups = np.arange(200)
    for samples in (
        samples_of(X), samples_of(few_copies), samples_of(coincidences),
        samples_of(coincidences.astype(np.uint8)), samples_of(one_hot(rng)),
        samples_of(one_hot(rng).astype(np.uint8)), samples_of(twice, groups=groups),
        samples_of(twice, validation=samples_of(X)),
        samples_of(twice, np.repeat([0, 1], 100)),  # other targets
    ):  # fmt: skip
        assert merge_copies(samples) is samples


def collected(rng, *n_distinct):
    """Return samples of continuous features, so many of which occur once, twice and so on."""
    X = rng.normal(size=(sum(n_distinct), 4))
    y = rng.integers(2, size=len(X))
    n_equal = np.repeat(np.arange(1, len(n_distinct) + 1), n_distinct)
    rows = rng.permutation(np.repeat(np.arange(len(X)), n_equal))
    return samples_of(X[rows], y[rows])


def test_samples_that_were_collected_repeatedly_are_kept(rng):
    """New samples repeat them as often: in files of wines, employees, or network traffic."""
    for samples in (
        collected(rng, 840, 130, 30), collected(rng, 890, 50, 10, 5, 10, 40),
        collected(rng, 670, 330), collected(rng, 150, 30, 20),
    ):  # fmt: skip
        assert merge_copies(samples) is samples


def levels(rng, k, n, *columns):
    """Return samples of k levels, whose target is a function of the level, with `columns` of it."""
    level = rng.integers(k, size=n)
    X = np.column_stack([np.asarray(column, float)[level] for column in columns])
    return samples_of(X, rng.integers(2, size=k)[level])


def balanced(values):
    """Return ten samples of each level, with alternating targets of the levels."""
    return samples_of(
        np.repeat(values[:, None], 10, axis=0), np.repeat(np.arange(len(values)) % 2, 10)
    )


def test_levels_are_kept(rng):
    """New samples have the same levels, whose targets are learned from all samples of each."""
    few, many = np.arange(10), np.arange(300)
    for samples in (
        levels(rng, 10, 200, few),
        levels(rng, 10, 200, rng.normal(size=10)),
        levels(rng, 10, 200, few // 3, few % 3, few % 3, few // 3),  # equal halves
        levels(rng, 300, 330, many),  # most occur once
        levels(rng, 300, 330, many, many),
        levels(rng, 80, 600, *rng.normal(size=(3, 80))),
        balanced(np.arange(60.0)),
        balanced(rng.normal(size=60)),
    ):
        assert merge_copies(samples) is samples


@pytest.mark.parametrize("model", [RBFClassifier(), TanhClassifier(), StackedClassifier()])
@pytest.mark.parametrize("columns", [[0, 1, 0, 1], [2]])
def test_functions_of_a_few_levels_are_learned(model, columns, rng):
    a, b = rng.integers(2, size=300), rng.integers(3, size=300)
    X = np.column_stack([a, b, 3 * a + b])[:, columns].astype(float)
    model = clone(model).set_params(random_state=0).fit(X, a == (b == 1))
    assert model.score(X, a == (b == 1)) == 1


def test_samples_that_were_drawn_again_are_merged(rng):
    X, codes = rng.normal(size=(150, 2)), np.repeat([0, 1], [120, 30])
    oversampled = np.concatenate([np.arange(150), rng.integers(120, 150, 90)])
    many_of_a_class = np.concatenate([np.arange(40), np.repeat(np.arange(40, 150), 5)])
    drawn = rng.integers(150, size=150)
    most = np.concatenate([np.tile(np.arange(150), 2), np.arange(80)])
    for rows, labels in (
        (oversampled, codes), (drawn, codes), (most, codes),
        (many_of_a_class, np.repeat([0, 1], [40, 110])),
    ):  # fmt: skip
        merged = merge_copies(samples_of(X[rows], labels[rows]))
        assert len(merged) == len(np.unique(rows)) < len(rows)


def sparse_tables(rng):
    """Return tables with zeros, and whether copies of their rows would be recognised."""
    is_zero = rng.random((300, 30)) < 0.7
    few_values = np.where(is_zero, 0, rng.integers(1, 4, (300, 30)))
    one_feature = np.zeros((300, 5))
    one_feature[:, 3] = rng.permutation(300)  # one of them is 0
    return [
        (np.where(is_zero, 0, rng.normal(size=(300, 30))), True),
        (few_values, True),  # it differs in both halves
        (few_values.astype(np.uint8), True),
        (one_feature, True),
        (one_hot(rng), False),
    ]


@pytest.mark.parametrize("k", range(5))
def test_copies_in_sparse_rows_are_those_in_dense_rows(k, rng):
    X, is_merged = sparse_tables(rng)[k]
    twice = X[np.repeat(np.arange(len(X)), 2)]
    dense, sparse = (
        merge_copies(samples_of(twice)),
        merge_copies(samples_of(SparseSource(csr_array(twice)))),
    )
    assert len(dense) == len(sparse)
    assert (dense.rows is not None) == (sparse.rows is not None) == is_merged
    assert isinstance(sparse.X, SparseSource)
    if is_merged:
        np.testing.assert_array_equal(sparse.X.take(np.arange(len(X))), dense.X)
        np.testing.assert_array_equal(sparse.rows, dense.rows)
        np.testing.assert_array_equal(sparse.weight, dense.weight)


def test_sparse_and_dense_copies_have_the_same_model(rng):
    X = np.where(rng.random((400, 30)) < 0.7, 0, rng.normal(size=(400, 30)))
    y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=400) > 0
    rows = np.tile(np.arange(300), 3)
    model = TanhClassifier(60, **TANH)
    dense, sparse = (
        clone(model).fit(convert(X[rows]), y[rows]) for convert in (np.asarray, csr_array)
    )
    assert sparse.alpha_ == dense.alpha_
    scores = sparse.decision_function(csr_array(X)), dense.decision_function(X)
    np.testing.assert_allclose(*scores, atol=1e-8)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_copies_are_equivalent_to_weights(name, data):
    X, y = data
    y = y > 0 if name.endswith("Classifier") else y
    copies = np.tile(np.arange(N), 3)
    model = ESTIMATORS[name]
    copied = clone(model).fit(X[copies], y[copies])
    weighted = clone(model).fit(X, y, sample_weight=np.full(N, 3.0))
    score = "decision_function" if name.endswith("Classifier") else "predict"
    np.testing.assert_allclose(*(getattr(m, score)(X) for m in (copied, weighted)), atol=1e-8)
    assert copied.alpha_ == weighted.alpha_


def test_the_rows_of_centres_are_those_of_the_given_samples(data, rng):
    X, y = data
    order = rng.permutation(np.tile(np.arange(N), 2))
    model = RBFRegressor(100, **RBF).fit(X[order], y[order])
    np.testing.assert_array_equal(X[order][model.support_], model.centers_)
    ensemble = StackedRegressor(
        [("rbf", RBFRegressor(100, **RBF)), ("tanh", TanhRegressor(50, **TANH))],
        final_estimator=None, random_state=0,
    ).fit(X[order], y[order])  # fmt: skip
    network = ensemble.named_estimators_["rbf"]
    np.testing.assert_array_equal(X[order][network.support_], network.centers_)


def test_copies_do_not_narrow_the_intervals_of_an_ensemble(data, rng):
    X, y = data
    networks = [("rbf", RBFRegressor(100, **RBF)), ("tanh", TanhRegressor(300, **TANH))]
    model = StackedRegressor(networks, random_state=0).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    new = rng.normal(size=(500, 4))
    y_new = np.sin(2 * new[:, 0]) + new[:, 1] * new[:, 2] + 0.3 * rng.normal(size=500)
    low, high = model.predict_interval(new, confidence_level=0.9).T
    assert np.mean((low < y_new) & (y_new < high)) > 0.8


def test_an_ensemble_merges_copies_for_all_of_its_networks(data, monkeypatch):
    """Not the final estimator by itself: its features include scores, and its sample is drawn."""
    X, y = data
    merged = []
    monkeypatch.setattr(parts, "merge_copies", lambda samples: merged.append(samples) or samples)
    monkeypatch.setattr(network, "merge_copies", None)
    rbf = RBFClassifier(10, alpha=1.0, **RBF)
    final = TanhClassifier(10, alpha=1.0, **TANH)
    StackedClassifier([("rbf", rbf)], final_estimator=final).fit(X, y > 0)
    (samples,) = merged
    assert samples.X.shape == X.shape


def test_a_search_merges_copies_as_its_candidates_do(data, rng):
    X, y = data
    order = rng.permutation(np.tile(np.arange(N), 3))  # so many that each split has copies
    grid = {"n_hidden": [30, 60]}
    ours, theirs = (
        search(RBFClassifier(**RBF, metric="manhattan"), grid, cv=2).fit(X[order], y[order] > 0)
        for search in (HiddenSizeSearchCV, GridSearchCV)
    )
    scores = (s.cv_results_["mean_test_score"] for s in (ours, theirs))
    np.testing.assert_allclose(*scores)
    np.testing.assert_array_equal(
        ours.best_estimator_.support_, theirs.best_estimator_.support_
    )  # fmt: skip
