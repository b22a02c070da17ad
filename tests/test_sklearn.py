"""scikit-learn's own checks, and its tools around our estimators."""

import sys
import threading
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import usable
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    TanhClassifier,
    TanhProjector,
)
from sklearn_fsvc.engines import ENGINES

# The one list of checks that fail; each must fail, and says why no estimator of its kind
# could pass.
SAME_WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
CENTRES_IN_ORDER = {
    SAME_WEIGHTS: (
        "centres are chosen among the rows in the order of presentation; repeating and "
        "reordering rows presents other rows first"
    )
}
SUMS_OF_ROWS = {
    SAME_WEIGHTS: (
        "weights are sums and differences of rows that are drawn one by one; repeating and "
        "reordering rows draws others"
    )
}
LEAVES_ONE_OUT = {
    SAME_WEIGHTS: (
        "leave-one-out leaves out a row with all its weight; of a row that is repeated it "
        "leaves out one, and the others tell what it was"
    )
}


def expected_failures(estimator):
    if isinstance(estimator, RBFClassifier):
        return CENTRES_IN_ORDER
    if getattr(estimator, "weights", None) in ("class_informed", "constrained"):
        return SUMS_OF_ROWS if isinstance(estimator, TanhClassifier) else {}
    return LEAVES_ONE_OUT if getattr(estimator, "probability", False) else {}


def devices():
    """Those that all estimators are checked on; a GPU where one works."""
    return [d for d in ("jit", "blas", "cuda") if ENGINES[d]().why_unavailable() is None]


def estimators():
    for device in devices():
        for readout in ("ridge", "lms", "none"):
            yield RBFClassifier(readout=readout, device=device)
        yield RBFClassifier(metric="euclidean", kernel="gaussian", device=device)
        yield RBFProjector(None, device=device)
        yield TanhClassifier(30, device=device)
        yield TanhClassifier(30, alpha="loo", probability=True, device=device)
        yield RBFClassifier(alpha=[0.1, 1.0], probability=True, device=device)
        for network in (RBFClassifier, TanhClassifier):
            yield HiddenSizeSearchCV(
                network(random_state=0, device=device),
                {"n_hidden": [2, 5], "alpha": [0.1, 1.0]}, cv=2, error_score="raise",
            )  # fmt: skip
        yield TanhProjector(10, device=device)
        for weights in ("class_informed", "constrained"):
            yield TanhClassifier(30, weights=weights, device=device)
            yield TanhProjector(10, weights=weights, device=device)


@parametrize_with_checks(
    list(estimators()),
    expected_failed_checks=expected_failures,
    xfail_strict=True,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# scikit-learn's own splitters, on the infinite labels of one check.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_sklearn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


SEARCHES = [
    (RBFClassifier(random_state=0), {"n_hidden": [30, 60]}),
    (TanhClassifier(random_state=0), {"n_hidden": [30, 60]}),
    (
        make_pipeline(TanhProjector(random_state=0), LogisticRegression(max_iter=500)),
        {"tanhprojector__n_components": [30, 60]},
    ),
]


@pytest.mark.parametrize(("estimator", "grid"), SEARCHES, ids=["rbf", "tanh", "pipeline"])
def test_grid_search_over_the_hidden_size(digits, estimator, grid):
    """In processes and in threads at once, the same scores as one after the other."""
    search = partial(GridSearchCV, estimator, grid, cv=2, error_score="raise")
    scores = search().fit(*digits).cv_results_["mean_test_score"]
    assert scores[1] > scores[0]
    parallel = search(n_jobs=2).fit(*digits).cv_results_["mean_test_score"]
    np.testing.assert_allclose(parallel, scores)
    with joblib.parallel_config("threading", n_jobs=2):
        threaded = search().fit(*digits).cv_results_["mean_test_score"]
    np.testing.assert_allclose(threaded, scores)


def test_processes_and_threads_at_the_same_time(digits):
    search = partial(GridSearchCV, RBFClassifier(random_state=0), {"n_hidden": [30, 60]}, cv=2)
    threaded = search()

    def in_threads():
        with joblib.parallel_config("threading", n_jobs=2):
            threaded.fit(*digits)

    thread = threading.Thread(target=in_threads)
    thread.start()
    scores = search(n_jobs=2).fit(*digits).cv_results_["mean_test_score"]
    thread.join()
    np.testing.assert_allclose(threaded.cv_results_["mean_test_score"], scores)


def test_a_worker_process_takes_its_share_of_the_cores():
    from sklearn_fsvc.engines.host import n_threads

    counts = joblib.Parallel(2)(joblib.delayed(n_threads)() for _ in range(2))
    assert max(counts) <= max(1, joblib.cpu_count() // 2)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_work_can_work(digits, request):
    import multiprocessing

    usable("jit", request.config)
    clf = RBFClassifier(100, random_state=0).fit(*digits)
    expected = clf.predict(digits[0])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        answer = pool.apply_async(clf.predict, (digits[0],)).get(timeout=60)
    np.testing.assert_array_equal(answer, expected)
