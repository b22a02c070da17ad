"""Feature importances do not depend on the units of the features, and selectors use them."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_friedman1
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.frozen import FrozenEstimator

from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.hidden_layers.parameters import standard_deviations

pytestmark = pytest.mark.usefixtures("two_splits")

WEIGHTS = np.array([0.5, 0.0, 2.0])
MAP = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, -1.0]])


def make_data(n=200):
    """Return X with units that differ by orders of magnitude, and two classes."""
    Z = np.random.default_rng(0).normal(size=(n, 3))
    return 5 + Z * [1e-3, 1, 1e4], Z[:, 0] > Z[:, 2]


def expected(X, weights, sample_weight=None):
    """The formula: norms of the rows times standard deviations, scaled to a sum of 1."""
    mean = np.average(X, axis=0, weights=sample_weight)
    deviations = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=sample_weight))
    norms = weights if weights.ndim == 1 else np.linalg.norm(weights, axis=1)
    return norms * deviations / (norms * deviations).sum()


@pytest.mark.parametrize("weights", [WEIGHTS, MAP], ids=["weights", "map"])
@pytest.mark.parametrize(
    "network", [RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor], ids=str
)
def test_of_given_weights(network, weights):
    """Samples of weight 0 are ignored."""
    X, y = make_data()
    sample_weight = np.arange(len(X)) % 3
    X[::3] = 1e6
    model = network(5, feature_weights=weights, alpha=1.0).fit(X, y, sample_weight)
    np.testing.assert_allclose(model.feature_importances_, expected(X, weights, sample_weight))


@pytest.mark.parametrize("weights", [WEIGHTS, MAP], ids=["weights", "map"])
@pytest.mark.parametrize(
    "model",
    [
        RBFProjector(5, selection="random", random_state=0),
        RBFRegressor(5, kernel="laplacian", radius=1e4, metric="manhattan", alpha=1.0),
        TanhProjector(5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_given_weights_may_be_changed_after_the_fit(model, weights):
    X, y = make_data()
    given = weights.copy()
    model = clone(model).set_params(feature_weights=given).fit(X, y)
    compute = model.transform if hasattr(model, "transform") else model.predict
    before = compute(X)
    given *= 50
    np.testing.assert_array_equal(compute(X), before)


def test_of_transformers_and_a_given_layer():
    X, y = make_data()
    for network in (RBFProjector(5, feature_weights=WEIGHTS, selection="random"),
                    TanhProjector(5, feature_weights=WEIGHTS)):  # fmt: skip
        network.fit(X, y)
        np.testing.assert_allclose(network.feature_importances_, expected(X, WEIGHTS))
    reused = RBFClassifier(
        layer=FrozenEstimator(RBFClassifier(5, feature_weights=WEIGHTS).fit(X, y)), alpha=1.0
    ).fit(X / 10, y)
    np.testing.assert_allclose(reused.feature_importances_, expected(X, WEIGHTS))


def test_of_sparse_matrices_and_chunks(rng):
    X, y = make_data()
    X *= rng.random(X.shape) < 0.5
    model = TanhClassifier(5, feature_weights=WEIGHTS, alpha=1.0)
    for read in (csr_array(X), lambda: [(X[:70], y[:70]), (X[70:], y[70:])]):
        labels = None if callable(read) else y
        actual = model.fit(read, labels).feature_importances_
        np.testing.assert_allclose(actual, expected(X, WEIGHTS))


@pytest.mark.parametrize(
    "network",
    [
        RBFRegressor(50, random_state=0),
        TanhRegressor(50, random_state=0),
        RBFRegressor(50, random_state=0, feature_weights="map", metric="euclidean"),
        TanhRegressor(50, random_state=0, feature_weights="map"),
    ],
    ids=str,
)
def test_learned_importances_do_not_depend_on_units(network):
    X, y = make_friedman1(300, n_features=8, random_state=0)  # the first five are relevant
    plain = network.fit(X, y).feature_importances_
    assert plain.sum() == pytest.approx(1)
    assert plain[:5].min() > plain[5:].max()
    X = X * [1e-4, 1, 1e5, 1, 1, 1e3, 1, 1e-5]
    np.testing.assert_allclose(network.fit(X, y).feature_importances_, plain, rtol=0.01)


def test_learned_weights_that_were_not_kept():
    """Of random labels, which chance weights sometimes predict: the first ones they do not."""
    for seed in range(1, 10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(100, 12)), rng.integers(0, 2, 100)
        model = RBFClassifier(20, kernel="laplacian", alpha=1.0, random_state=0).fit(X, y)
        if model.feature_weights_ is None:
            break
    assert model.feature_weights_ is None
    assert model.feature_importances_.max() > 2 * model.feature_importances_.min()


def test_no_importances_without_weights():
    X, y = make_data()
    for model in (
        RBFClassifier(5, feature_weights=None),
        TanhClassifier(5, feature_weights=None),
        RBFProjector(5, selection="random"),
    ):
        assert not hasattr(model.fit(X, y), "feature_importances_")
    images = np.random.default_rng(0).integers(0, 255, (100, 4)).astype(np.uint8)
    for network in (RBFClassifier(5, kernel="laplacian", alpha=1.0), TanhClassifier(5, alpha=1.0)):
        model = network.fit(X, y).fit(images, y[:100])
        assert not hasattr(model, "feature_importances_")


@pytest.mark.parametrize("network", [RBFClassifier, TanhClassifier])
def test_selection_does_not_depend_on_units(network):
    """The raw columns of breast_cancer differ by five orders of magnitude."""
    table = load_breast_cancer(as_frame=True)
    X, y = table.data[::3], table.target[::3]
    scaled = (X - X.mean()) / X.std()
    names = []
    for data in (X, scaled):
        kernel = {"kernel": "laplacian"} if network is RBFClassifier else {}
        model = network(50, alpha=1.0, random_state=0, **kernel)
        eliminated = RFE(model, n_features_to_select=5, step=25).fit(data, y)
        chosen = SelectFromModel(model, max_features=5, threshold=-np.inf).fit(data, y)
        names += [eliminated.get_feature_names_out(), chosen.get_feature_names_out()]
    assert "worst area" in names[0]
    assert names[0].tolist() == names[2].tolist()
    assert names[1].tolist() == names[3].tolist()


def deviations(X, weight=None, max_memory=None):
    with get_engine("cpu") as engine:
        return standard_deviations(Job(engine, max_memory), Samples(X, weight=weight))


def test_deviations_of_extreme_values():
    """Squares of huge values are finite, and constant features are exactly 0."""
    Z = np.random.default_rng(0).normal(size=50)
    actual = deviations(np.column_stack([1e300 * Z, 1e200 * Z, np.full(50, 0.1)]))
    exact = Z.std() / np.abs(Z).max()
    np.testing.assert_allclose(actual, [exact, 1e-100 * exact, 0], rtol=1e-12)


def test_deviations_of_a_subset():
    """At most 4000 samples, and no more than fit in the memory limit."""
    X = np.random.default_rng(0).normal(size=(9000, 4)) * [1, 2, 3, 4]
    actual = deviations(X)
    exact = X.std(axis=0) / np.abs(X).max()
    np.testing.assert_allclose(actual / actual[0], exact / exact[0], rtol=0.05)
    few = deviations(X, max_memory=100_000)
    assert (few != actual).any()
    np.testing.assert_allclose(few / few[0], exact / exact[0], rtol=0.2)
