"""The array library of a GPU, where there is one."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from conftest import usable


@pytest.fixture
def cupy(request):
    usable("cuda", request.config)
    import cupy

    return cupy


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.uint8), y
