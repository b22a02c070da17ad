"""Data in which most samples have duplicates, such as tables of a few categories."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, r2_score

from sklearn_fsvc import RBFClassifier, RBFRegressor, StackedClassifier, TanhClassifier

GIVEN = {"kernel": "laplacian", "feature_weights": None}
# Estimators that select the penalty by leave-one-out errors or by held-out samples, and sizes.
ESTIMATORS = [
    (RBFClassifier(), 1500),
    (RBFClassifier(alpha="loo", **GIVEN), 1500),
    (RBFClassifier(200, **GIVEN), 7000),
    (TanhClassifier(), 1500),
    pytest.param(StackedClassifier(), 1500, marks=pytest.mark.exhaustive),
]


def cells(n, rng):
    """Return samples of 24 distinct values, and the probability of the second class of each."""
    X = np.column_stack([rng.integers(0, size, n) for size in (4, 3, 2)])
    odds = np.random.default_rng(1).normal(0, 1.5, (4, 3, 2))
    return X.astype(float), 1 / (1 + np.exp(-odds[tuple(X.T)]))


@pytest.mark.filterwarnings("ignore:.*samples differ enough")
@pytest.mark.parametrize(("model", "n"), ESTIMATORS, ids=repr)
def test_probabilities_are_those_of_each_cell(model, n):
    """Duplicates are left out one at a time: the others estimate the class frequencies."""
    rng = np.random.default_rng(0)
    (X, p), (X_test, p_test) = cells(n, rng), cells(5000, rng)
    y, y_test = (p > rng.random(n)).astype(int), (p_test > rng.random(5000)).astype(int)
    model = model.set_params(random_state=0).fit(X, y)
    found = model.predict_proba(X_test)
    assert log_loss(y_test, found) < log_loss(y_test, p_test) + 0.02
    best = np.mean((p_test > 0.5) == y_test)
    assert model.score(X_test, y_test) > best - 0.01


def test_means_and_intervals_are_those_of_each_cell():
    rng = np.random.default_rng(0)
    (X, p), (X_test, p_test) = cells(1500, rng), cells(5000, rng)
    y = p + rng.normal(0, 0.2, len(X))
    model = RBFRegressor(random_state=0, **GIVEN).fit(X, y)
    assert r2_score(p_test, model.predict(X_test)) > 0.97
    lower, upper = model.predict_interval(X_test, confidence_level=0.9).T
    y_test = p_test + rng.normal(0, 0.2, len(X_test))
    assert 0.87 < np.mean((lower < y_test) & (y_test < upper)) < 0.93
