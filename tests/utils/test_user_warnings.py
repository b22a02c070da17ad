"""Warnings point to the line of the user, not of this package or scikit-learn."""

import inspect
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, TanhClassifier
from sklearn_fsvc._src.utils.user_warnings import warn, without_warnings

X = np.repeat(np.random.default_rng(0).random((30, 4)), 4, axis=0)
Y = np.arange(120) % 3
ILL_CONDITIONED = TanhClassifier(100, scale=1e-8, alpha=1e-30, feature_weights=None, random_state=0)


def fit(model):
    return model.fit(X, Y)


def in_pipeline(model):
    return make_pipeline(StandardScaler(), model).fit(X, Y)


def in_search(model):
    return HiddenSizeSearchCV(model, {"n_hidden": [90, 100]}, cv=2).fit(X, Y)


def in_parallel(model):
    return cross_val_score(model, X, Y, cv=2, n_jobs=1)


@pytest.mark.parametrize("act", [fit, in_pipeline, in_search, in_parallel])
def test_the_line_of_a_call(act):
    with pytest.warns(ConvergenceWarning) as caught:
        act(ILL_CONDITIONED)
    lines, start = inspect.getsourcelines(act)
    for warning in caught:
        assert warning.filename == __file__
        assert start <= warning.lineno < start + len(lines)


def test_the_file_of_a_call():
    with pytest.warns(UserWarning, match="n_hidden=200 is more than the 120 samples") as caught:
        fit(
            RBFClassifier(
                200, kernel="laplacian", selection="random", feature_weights=None, alpha=1.0
            )
        )
    assert {warning.filename for warning in caught} == {__file__}


def test_a_line_warns_once():
    """The default filter of Python works: the registry is that of the user's module."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            warn("message")
    assert len(caught) == 1


def test_without_warnings_is_silent_in_one_thread():
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(1) as other:
        warnings.simplefilter("always")
        with without_warnings():
            warn("silent")
            other.submit(warn, "of another thread").result()
        warn("afterwards")
    assert [str(each.message) for each in caught] == ["of another thread", "afterwards"]
