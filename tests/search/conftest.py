"""Rows to search on."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from search.comparing import load


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
