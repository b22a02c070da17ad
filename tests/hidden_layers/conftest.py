import numpy as np
import pytest

from sklearn_fsvc._src.hidden_layers import proxy_networks


@pytest.fixture
def data(rng):
    """Return samples of 42 non-integer features, whose distribution depends on one of 3 classes."""
    X = rng.normal(size=(90, 42)) * rng.uniform(0.5, 2, 42) + 5
    y = np.repeat([3, 1, 7], [50, 10, 30])[rng.permutation(90)]
    X[y == 1] += 1
    return X, y


@pytest.fixture
def two_splits(monkeypatch):
    """Search kernel, width and weights on two splits of few samples, instead of up to five."""
    monkeypatch.setattr(proxy_networks, "_MAX_SPLITS", 2)
