"""Shapley values of many samples and of one."""

import matplotlib.pyplot as plt
from page import WIDTH
from sklearn.datasets import load_breast_cancer

from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
from sklearn_fsvc.inspection import ShapleyDisplay

SHOWN = {"max_features": 10}


def shapley():
    data = load_breast_cancer(as_frame=True)
    X, y = data.data, data.target_names[data.target]
    model = make_tabular_pipeline(RBFClassifier(kernel="laplacian", random_state=0)).fit(X, y)
    background = X.sample(50, random_state=0)
    fig, (left, right) = plt.subplots(1, 2, figsize=(1.4 * WIDTH, 3.6), layout="constrained")
    ShapleyDisplay.from_estimator(model, X[:200], background, ax=left, **SHOWN)
    ShapleyDisplay.from_estimator(model, X[:1], background, ax=right, **SHOWN)
    return fig


PICTURES = {"shapley.png": shapley}
