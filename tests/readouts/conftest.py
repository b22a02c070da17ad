import pytest
from sklearn.base import clone

from conftest import open_engine
from readouts.brute_force import NETWORKS
from sklearn_fsvc._src.layers import RBFLayer


@pytest.fixture
def engine(namespace_engine, request):
    with open_engine(namespace_engine, request.config) as engine:
        yield engine


@pytest.fixture(params=NETWORKS, ids=lambda c: type(c).__name__)
def network(request):
    return clone(request.param)


@pytest.fixture
def data(rng):
    """Return X, noisy classes, a layer centred at every second sample, and sample weights."""
    X = rng.normal(size=(240, 5))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=240) > 1).astype(int) + (X[:, 2] > 1)
    layer = RBFLayer(X[::2].copy(), 3.0, "manhattan", "laplacian")
    return X, y, layer, rng.integers(0, 3, 240).astype(float)
