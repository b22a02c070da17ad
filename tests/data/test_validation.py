"""Rows that are answered: few clean ones are taken as they are, all others as scikit-learn says."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.data import validation


@pytest.fixture
def fitted(rng):
    X = rng.random((30, 3))
    return RBFClassifier(5, alpha=1, random_state=0).fit(X, X[:, 0] > 0.5), X


@pytest.fixture
def asked(monkeypatch):
    """What scikit-learn is asked about."""
    seen, validate = [], validation.validate_data

    def recorded(estimator, X, *args, **how):
        seen.append(X)
        return validate(estimator, X, *args, **how)

    monkeypatch.setattr(validation, "validate_data", recorded)
    return seen


def test_clean_rows_are_not_looked_at_twice(fitted, asked):
    clf, X = fitted
    for rows in (X[:1], X, X[::2], X.astype(np.float32), np.asfortranarray(X)):
        np.testing.assert_array_equal(clf.predict(rows), clf.predict(rows.astype(float).tolist()))
    assert all(isinstance(rows, list) for rows in asked)
    assert len(asked) == 5


def test_clean_rows_and_targets_of_a_stream_are_not_looked_at_twice(rng, asked):
    X, y = rng.random((30, 3)), np.arange(30) % 2
    clf = RBFClassifier(5, alpha=1, random_state=0).partial_fit(X, y, classes=[0, 1])
    assert len(asked) == 1
    clf.partial_fit(X, y)
    assert len(asked) == 1
    for wrong in (y[:5], np.where(y, np.nan, 0.0)):
        with pytest.raises(ValueError, match=r"inconsistent|NaN"):
            clf.partial_fit(X, wrong)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:, :2], "2 features"),
        (lambda X: X[0], "Expected 2D array"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: np.where(X.max() == X, np.nan, X), "NaN"),
        (lambda X: np.where(X.max() == X, np.inf, X), "infinity"),
        (lambda X: X + 1j, "Complex"),
    ],
)
def test_all_others_are(fitted, change, message):
    clf, X = fitted
    with pytest.raises(ValueError, match=message):
        clf.predict(change(X))


def test_names_are_missed(fitted):
    clf, X = fitted
    clf.fit(pd.DataFrame(X, columns=list("abc")), X[:, 0] > 0.5)
    with pytest.warns(UserWarning, match="feature names"):
        clf.predict(X)


def test_other_numbers_are_converted(fitted):
    clf, X = fitted
    swapped = X.astype(X.dtype.newbyteorder())
    np.testing.assert_array_equal(clf.predict(swapped), clf.predict(X))


def test_who_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        RBFClassifier().predict(np.zeros((1, 3)))
