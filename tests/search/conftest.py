"""Datasets to search on, and counters of the work of a search."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from search.comparing import load
from sklearn_fsvc._src.data import streaming
from sklearn_fsvc._src.hidden_layers import proxy_networks
from sklearn_fsvc._src.readouts import cross_validation
from sklearn_fsvc._src.readouts.calibration import Calibration
from sklearn_fsvc._src.search import shared_fits
from sklearn_fsvc._src.targets import labels


@pytest.fixture(scope="module", autouse=True)
def one_thread_for_small_matrices():
    """More threads would synchronise longer than they compute."""
    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture(scope="module", autouse=True)
def two_splits():
    """Search kernel, width and weights on two splits of few samples, instead of five.

    A search and single fits have the same splits, whose number is tested in hidden_layers.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proxy_networks, "_MAX_SPLITS", 2)
        yield


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def wine():
    X, y = load("wine")
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def iris():
    return load("iris")


@pytest.fixture(scope="module")
def cancer():
    X, y = load("cancer")
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def weight():
    """Sample weights of 200 samples, a third of them 0."""
    rng = np.random.default_rng(1)
    return rng.random(200) * (rng.random(200) > 0.33)


@pytest.fixture
def without_maps(monkeypatch):
    """Do not map scores, which takes most of the time of small fits of three and more classes.

    The tests of networks and outputs have maps, and so do those of `matrix_scaling`.
    """
    monkeypatch.setattr(labels, "fit_matrix_scaling", lambda *_: None)


@pytest.fixture
def without_calibrations(without_maps, monkeypatch):
    """Do not fit temperatures either, where no probabilities are compared."""
    monkeypatch.setattr(labels, "fit_calibration", lambda *_: Calibration(0.5, 0.16))


@pytest.fixture
def before_each_pass(monkeypatch):
    """Register a function that is called before each pass that computes statistics.

    It is called with (job, number of samples), and may raise.
    """
    gather = shared_fits.gather

    def register(function):
        def observed_gather(job, layers, samples, rows=None, dtype=None):
            function(job, len(samples) if rows is None else len(rows))
            return gather(job, layers, samples, rows, dtype)

        monkeypatch.setattr(shared_fits, "gather", observed_gather)

    return register


@pytest.fixture
def work(monkeypatch, before_each_pass):
    """Activations that are computed tile by tile, and samples that enter statistics."""
    counts = SimpleNamespace(entries=0, rows=0, passes=0)
    evaluate = streaming.evaluate

    def counted_evaluate(engine, prepared, shape, X, H):
        counts.entries += H.size
        return evaluate(engine, prepared, shape, X, H)

    def count_pass(job, n_samples):
        counts.rows += n_samples
        counts.passes += 1

    monkeypatch.setattr(streaming, "evaluate", counted_evaluate)
    before_each_pass(count_pass)
    return counts


@pytest.fixture
def set_small_size(monkeypatch):
    """Set the number of samples and units up to which all held-out parts validate penalties."""

    def set_size(n):
        monkeypatch.setattr(cross_validation, "MAX_CV_SAMPLES", n)
        for module in (cross_validation, shared_fits):
            monkeypatch.setattr(module, "MAX_CV_UNITS", n)

    return set_size
