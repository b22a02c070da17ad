import numpy as np
import pytest


@pytest.fixture
def data(rng):
    """42 features that vary, differently in each of 3 classes, and are no whole numbers."""
    X = rng.normal(size=(90, 42)) * rng.uniform(0.5, 2, 42) + 5
    y = np.repeat([3, 1, 7], [50, 10, 30])[rng.permutation(90)]
    X[y == 1] += 1
    return X, y
