"""Fits of several base estimators at the same time."""

import threading
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning

from sklearn_fsvc import (
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.hidden_layers import proxy_search
from sklearn_fsvc._src.stacking import parts
from sklearn_fsvc._src.stacking.base_estimators import TrainingSet
from stacking.ensembles import classifier, regressor

METRICS = ("manhattan", "euclidean")


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Let the package believe that it may use four threads."""
    monkeypatch.setattr(parts, "n_threads", lambda: 4)


@pytest.fixture
def before_each_fit(monkeypatch):
    """Let a test set what is called with each network before it is fitted."""
    fit = TrainingSet.fit

    def set_function(function):
        def replacement(self, network, *args):
            function(network)
            return fit(self, network, *args)

        monkeypatch.setattr(TrainingSet, "fit", replacement)

    return set_function


def names_of_threads(before_each_fit, model, X, y):
    names = []
    before_each_fit(lambda network: names.append(threading.current_thread().name))
    model.fit(X, y)
    return set(names)


@pytest.mark.parametrize("device", ["jit", "blas"])
def test_results_are_those_of_one_fit_after_another(device, data, monkeypatch):
    X, _, y = data
    networks = [
        ("rbf", RBFRegressor(20, kernel="laplacian", alpha=1.0)),
        ("euclidean", RBFRegressor(20, metric="euclidean", kernel="gaussian", alpha=1.0)),
        ("tanh", TanhRegressor(20)),
    ]
    model = StackedRegressor(networks, random_state=0, device=device)
    at_the_same_time = model.fit(X, y).predict(X)
    monkeypatch.setattr(parts, "MAX_CONCURRENT_SAMPLES", 0)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), at_the_same_time)


def test_the_global_generator_seeds_every_fit(data):
    X, _, y = data
    given = {"kernel": "laplacian", "radius": 2.0, "feature_weights": None, "alpha": 1.0}
    networks = [(metric, RBFRegressor(20, metric=metric, **given)) for metric in METRICS]
    predictions = []
    for _ in range(2):
        np.random.seed(3)  # noqa: NPY002
        predictions.append(StackedRegressor(networks).fit(X, y).predict(X))
    np.testing.assert_array_equal(*predictions)
    seeds = [network.random_state for network in StackedRegressor(networks).fit(X, y).estimators_]
    assert all(isinstance(seed, int) for seed in seeds)


def test_fits_run_at_the_same_time(data, before_each_fit):
    """Neither network is fitted before the fit of the other one has begun."""
    X, y, _ = data
    both_have_begun = threading.Barrier(2, timeout=60)
    before_each_fit(lambda network: both_have_begun.wait())
    classifier().fit(X, y)


def test_each_fit_uses_its_share_of_the_threads(data, before_each_fit, monkeypatch):
    shares = []
    monkeypatch.setattr(parts, "n_threads", lambda: 2 * n_threads())
    before_each_fit(lambda network: shares.append(n_threads()))
    X, y, _ = data
    classifier().fit(X, y)
    assert shares == [n_threads()] * 2
    monkeypatch.setattr(parts, "n_threads", lambda: 2)
    shares.clear()
    classifier().fit(X, y)
    assert shares == [1, 1]


def test_feature_weights_are_learned_once_for_each_metric(data, monkeypatch):
    X, _, y = data
    metrics, learn = [], proxy_search.learn_weights

    def learn_weights(job, samples, metric, *args):
        metrics.append(metric)
        return learn(job, samples, metric, *args)

    monkeypatch.setattr(proxy_search, "learn_weights", learn_weights)
    estimators = [
        *((metric, RBFRegressor(20, metric=metric, kernel="gaussian", alpha=1.0))
          for metric in METRICS),
        ("tanh", TanhRegressor(20, alpha=1.0)),
    ]  # fmt: skip
    StackedRegressor(estimators, random_state=0).fit(X, y)
    # Once for each of four splits.
    assert sorted(metrics) == 4 * ["euclidean"] + 4 * ["manhattan"]


def with_shared_weights():
    """Return an ensemble of which the second network has the feature weights of the first."""
    given = {"kernel": "laplacian", "radius": 2.0, "alpha": 1.0}
    networks = [
        ("first", RBFRegressor(20, metric="manhattan", **given)),
        ("sharing", TanhRegressor(20, alpha=1.0)),
        ("other", RBFRegressor(20, metric="euclidean", **given)),
    ]
    return StackedRegressor(networks, random_state=0)


def test_networks_that_share_weights_are_the_last_ones(data, before_each_fit):
    """No thread waits for weights while there is another network to fit."""
    X, _, y = data
    begun = []
    before_each_fit(lambda network: begun.append(getattr(network, "metric", "shared")))
    with_shared_weights().fit(X, y)
    assert set(begun[:2]) == {"manhattan", "euclidean"}
    assert begun[2:] == ["shared"]


def test_an_error_of_a_network_that_learns_weights_is_raised(data, before_each_fit):
    X, _, y = data

    def fail(network):
        if getattr(network, "metric", "") == "manhattan":
            raise MemoryError("of the first network")

    before_each_fit(fail)
    with pytest.raises(MemoryError, match="of the first network"):
        with_shared_weights().fit(X, y)


@pytest.mark.parametrize(
    "make",
    [
        lambda: classifier(verbose=1),
        lambda: classifier(max_memory="1GB"),
        lambda: StackedClassifier([("a", TanhClassifier(20)), ("b", TanhClassifier(30))]),
    ],
    ids=["progress", "a memory limit", "shared weights"],
)
def test_one_after_another(make, data, before_each_fit):
    X, y, _ = data
    assert names_of_threads(before_each_fit, make(), X, y) == {threading.current_thread().name}


def test_other_devices_fit_one_after_another(data, before_each_fit, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(parts, "HostEngine", type("Other", (), {}))  # as if it were a GPU
    names = names_of_threads(before_each_fit, classifier(), X, y)
    assert names == {threading.current_thread().name}


def test_many_samples_are_fitted_one_after_another(data, before_each_fit, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(parts, "MAX_CONCURRENT_SAMPLES", len(X) - 1)
    names = names_of_threads(before_each_fit, classifier(), X, y)
    assert names == {threading.current_thread().name}


def test_an_error_of_a_fit_is_raised(data, before_each_fit):
    X, _, y = data
    model = regressor().fit(X, y)
    before = model.predict(X)

    def fail(network):
        if isinstance(network, TanhRegressor):
            raise MemoryError("of the second network")

    before_each_fit(fail)
    with pytest.raises(MemoryError, match="of the second network"):
        model.fit(X[:50], y[:50])
    np.testing.assert_array_equal(model.predict(X), before)


def test_warnings_have_the_line_of_the_fit_as_their_origin(data):
    X, y, _ = data
    network = TanhClassifier(40, alpha=0.0, scale=1e-9, feature_weights=None)
    model = StackedClassifier([("a", network), ("b", network)])
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert {warning.filename for warning in caught} == {__file__}


def test_filters_of_warnings_are_the_same_in_every_thread(data, before_each_fit):
    """A thread that changes them changes those of the others."""
    X, y, _ = data
    before, seen = list(warnings.filters), []
    before_each_fit(lambda network: seen.append(list(warnings.filters)))
    classifier().fit(X, y)
    assert seen == [before, before]
    assert warnings.filters == before


def test_the_configuration_holds_in_every_thread(data, before_each_fit):
    X, y, _ = data
    seen = []
    before_each_fit(lambda network: seen.append(sklearn.get_config()["working_memory"]))
    with sklearn.config_context(working_memory=7):
        classifier().fit(X, y)
    assert seen == [7, 7]
