"""Rows to search on, and what counts the work."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from search.comparing import load
from sklearn_fsvc._src.data import streaming
from sklearn_fsvc._src.search import shared_fits


@pytest.fixture(scope="module", autouse=True)
def one_thread_for_small_matrices():
    """With more, they wait for each other longer than they compute."""
    with threadpool_limits(1, "blas"):
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
    """Of 200 rows; a third of them is as good as absent."""
    rng = np.random.default_rng(1)
    return rng.random(200) * (rng.random(200) > 0.33)


@pytest.fixture
def work(monkeypatch):
    """Entries of H that are computed tile by tile, and rows that statistics are made of."""
    counts = SimpleNamespace(entries=0, rows=0, passes=0)
    evaluate, gather = streaming.evaluate, shared_fits.gather

    def counted_evaluate(engine, prepared, basic, X, H):
        counts.entries += H.size
        return evaluate(engine, prepared, basic, X, H)

    def counted_gather(job, layers, samples, rows=None, dtype=None):
        counts.rows += len(samples) if rows is None else len(rows)
        counts.passes += 1
        return gather(job, layers, samples, rows, dtype)

    monkeypatch.setattr(streaming, "evaluate", counted_evaluate)
    monkeypatch.setattr(shared_fits, "gather", counted_gather)
    return counts
