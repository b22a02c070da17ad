"""Shared work: threads, recovery from errors, times, messages and warnings."""

import threading
import warnings
from time import perf_counter
from unittest import mock

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from search.comparing import (
    ALL_SCORES,
    RBF,
    SIZES_AND_PENALTIES,
    TANH,
    assert_same_search,
    compare,
    weighted_accuracy,
)
from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier

pytestmark = pytest.mark.usefixtures("without_calibrations")


def test_steps_are_fitted_once_for_each_split(digits):
    fits = []

    def fitted_scaler(scaler, *args, original=StandardScaler.fit, **options):
        fits.append(scaler)
        return original(scaler, *args, **options)

    network = clone(RBF).set_params(kernel="laplacian", radius=20.0)
    estimator = make_pipeline(StandardScaler(), network)
    grid = {"rbfclassifier__n_hidden": [10, 20, 30], "rbfclassifier__alpha": [0.1, 1.0]}
    with mock.patch.object(StandardScaler, "fit", fitted_scaler):
        HiddenSizeSearchCV(estimator, grid, cv=4, refit=False).fit(*digits)
    assert len(fits) == 4


@pytest.mark.parametrize("network", [TANH, RBF])
def test_concurrent_passes_have_the_same_results(digits, network):
    """As consecutive passes."""
    grid = {**SIZES_AND_PENALTIES, "class_weight": [None, "balanced"]}
    one, two = (
        HiddenSizeSearchCV(network, grid, n_jobs=n_jobs, **ALL_SCORES).fit(*digits)
        for n_jobs in (1, 2)
    )
    assert_same_search(two, one, digits)


@pytest.mark.parametrize(("n_jobs", "in_main"), [(1, True), (2, False)])
def test_concurrent_passes_are_threads(wine, before_each_pass, n_jobs, in_main):
    threads = set()
    before_each_pass(lambda job, n_samples: threads.add(threading.current_thread()))
    HiddenSizeSearchCV(RBF, SIZES_AND_PENALTIES, n_jobs=n_jobs, refit=False).fit(*wine)
    assert (threading.main_thread() in threads) is in_main


def test_the_backend_of_joblib_is_overridden(digits):
    with joblib.parallel_config("loky", n_jobs=2):
        two = HiddenSizeSearchCV(RBF, SIZES_AND_PENALTIES, **ALL_SCORES).fit(*digits)
    assert_same_search(
        two, HiddenSizeSearchCV(RBF, SIZES_AND_PENALTIES, **ALL_SCORES).fit(*digits), digits
    )


def test_the_plan_is_printed(wine, capsys):
    grids = [{"n_hidden": [10, 20], "scale": [0.2, "auto"]}, {"alpha": ["loo"], "n_hidden": [10]}]
    HiddenSizeSearchCV(
        TanhClassifier(feature_weights=None, alpha=1.0, random_state=0), grids, cv=3, verbose=2
    ).fit(*wine)
    text = capsys.readouterr().out
    assert "5 candidates on 3 splits: 4 of them in 4 passes, 1 fitted one by one" in text
    assert "Fitting 3 folds for each of 5 candidates" in text
    assert "split 2 of 3" in text


def test_without_verbose_nothing_is_printed(wine, capsys):
    HiddenSizeSearchCV(TANH, SIZES_AND_PENALTIES).fit(*wine)
    assert capsys.readouterr().out == ""


def test_candidates_of_a_failed_pass_are_fitted_separately(wine, before_each_pass):
    before_each_pass(mock.Mock(side_effect=MemoryError("too large")))
    with pytest.warns(UserWarning, match=r"4 candidates could not share.*MemoryError: too large"):
        compare(TANH, SIZES_AND_PENALTIES, wine, n_separate=4 * 2, **ALL_SCORES)


def test_a_failed_pass_for_all_splits_is_repeated_for_each_split(wine, before_each_pass):
    """The separate passes draw the same layer."""

    def fail_for_all_splits(job, n_samples):
        if job.reserved:  # for the statistics of all splits
            raise MemoryError

    before_each_pass(fail_for_all_splits)
    network = clone(TANH).set_params(random_state=np.random.RandomState(3))
    compare(network, SIZES_AND_PENALTIES, wine, **ALL_SCORES)


def test_ill_conditioned_candidates_are_listed(wine):
    """Nearly constant units are nearly collinear."""
    grid = {"n_hidden": [60], "alpha": [0.0, 1.0], "scale": [1e-9, 0.5]}
    network = TanhClassifier(feature_weights=None, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        HiddenSizeSearchCV(network, grid, refit=False).fit(*wine)
    (warning,) = caught
    assert warning.category is ConvergenceWarning
    message = str(warning.message)
    assert "1 of 4 candidates" in message
    assert "'alpha': 0.0" in message
    assert "'scale': 1e-09" in message
    assert "0.5" not in message


def test_the_list_of_ill_conditioned_candidates_is_limited(wine):
    grid = {"n_hidden": range(40, 47), "alpha": [0.0], "scale": [1e-9]}
    search = HiddenSizeSearchCV(
        TanhClassifier(feature_weights=None, random_state=0), grid, refit=False
    )
    with pytest.warns(ConvergenceWarning, match=r"7 of 7 .*'n_hidden': 44.*; and 2 more\."):
        search.fit(*wine)


def test_warnings_point_to_the_line_of_the_fit(wine, before_each_pass):
    network = clone(TANH).set_params(n_hidden=40, scale=1e-9)
    search = HiddenSizeSearchCV(network, {"alpha": [0.0]}, refit=False)
    with pytest.warns(ConvergenceWarning) as ill_conditioned:
        search.fit(*wine)
    before_each_pass(mock.Mock(side_effect=MemoryError))
    with pytest.warns(UserWarning, match="could not share") as not_shared:
        HiddenSizeSearchCV(TANH, SIZES_AND_PENALTIES).fit(*wine)
    assert {w.filename for w in [*ill_conditioned, *not_shared]} == {__file__}


@pytest.mark.parametrize("scoring", [None, "accuracy", weighted_accuracy])
@pytest.mark.parametrize("readout", ["ridge", "lms"])
def test_times_add_up_to_that_of_the_search(wine, scoring, readout):
    network = clone(RBF).set_params(readout=readout, max_iter=20)
    grid = SIZES_AND_PENALTIES if readout == "ridge" else {"n_hidden": [40]}
    start = perf_counter()
    search = HiddenSizeSearchCV(network, grid, scoring=scoring, refit=False).fit(*wine)
    elapsed, results = perf_counter() - start, search.cv_results_
    fit_time, score_time = (results[f"mean_{name}_time"] for name in ("fit", "score"))
    assert (fit_time > 0).all()
    assert (score_time > 0).all()
    assert 0.1 * elapsed < 5 * (fit_time + score_time).sum() <= elapsed
    if readout == "lms":  # 20 passes for a fit, one for the scores
        assert fit_time.sum() > score_time.sum()


def test_times_of_one_split_have_no_deviation(wine):
    rows = np.arange(len(wine[1]))
    results = (
        HiddenSizeSearchCV(TANH, SIZES_AND_PENALTIES, cv=[(rows[:90], rows[90:])])
        .fit(*wine)
        .cv_results_
    )
    assert not results["std_fit_time"].any()
    assert not results["std_score_time"].any()
