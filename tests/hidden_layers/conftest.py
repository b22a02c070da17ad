import numpy as np
import pytest


@pytest.fixture
def data(rng):
    """Return samples of 42 non-integer features, whose distribution depends on one of 3 classes."""
    X = rng.normal(size=(90, 42)) * rng.uniform(0.5, 2, 42) + 5
    y = np.repeat([3, 1, 7], [50, 10, 30])[rng.permutation(90)]
    X[y == 1] += 1
    return X, y
