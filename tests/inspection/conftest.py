"""Matplotlib without a window, and a fitted network."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_fsvc import RBFClassifier


@pytest.fixture(autouse=True)
def figures():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def iris_model():
    X, y = load_iris(return_X_y=True)
    species = np.array(["setosa", "versicolor", "virginica"])[y]
    model = RBFClassifier(30, feature_weights=None, alpha=0.1, random_state=0)
    return model.fit(X, species)
