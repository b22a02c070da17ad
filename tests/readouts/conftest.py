import pytest
from sklearn.base import clone

from conftest import usable
from readouts.brute_force import NETWORKS


@pytest.fixture(params=["jit", "cuda"])
def engine(request):
    """Of each namespace of arrays, one engine."""
    with usable(request.param, request.config) as engine:
        yield engine


@pytest.fixture(params=NETWORKS, ids=lambda c: type(c).__name__)
def network(request):
    return clone(request.param)
