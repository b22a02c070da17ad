"""scikit-learn's estimator checks, and its tools with the estimators of this package."""

import sys
import threading
import warnings
from functools import cache, partial

import joblib
import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import open_engine
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchClassifier,
    PatchProjector,
    PatchRegressor,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.engines import ENGINES

# The one list of checks that fail; each must fail, and says why no estimator of its kind
# could pass.
SAME_WEIGHTS = [
    f"check_sample_weight_equivalence_on_{rows}_data" for rows in ("dense", "sparse")
]  # fmt: skip
CENTRES_IN_ORDER = dict.fromkeys(
    SAME_WEIGHTS,
    "centres are chosen among the rows in the order of presentation; repeating and "
    "reordering rows presents other rows first",
)
SUMS_OF_ROWS = dict.fromkeys(
    SAME_WEIGHTS,
    "weights are sums and differences of rows that are drawn one by one; repeating and "
    "reordering rows draws others",
)
HOLDS_OUT = dict.fromkeys(
    SAME_WEIGHTS,
    "a penalty is found by the error of rows that are held out; of a row that is repeated, "
    "some are held out and the others tell what they were",
)
LEAVES_ONE_OUT = dict.fromkeys(
    SAME_WEIGHTS,
    "leave-one-out leaves out a row with all its weight; of a row that is repeated it "
    "leaves out one, and the others tell what it was",
)


def expected_failures(estimator):
    if isinstance(estimator, (RBFClassifier, RBFRegressor)):
        # With a given radius the same samples are novel.
        is_novel = estimator.selection != "random" and not isinstance(estimator.radius, str)
        return LEAVES_ONE_OUT if is_novel and estimator.alpha == "auto" else CENTRES_IN_ORDER
    if getattr(estimator, "weights", None) in ("class_informed", "constrained"):
        return SUMS_OF_ROWS if isinstance(estimator, TanhClassifier) else {}
    if getattr(estimator, "uncertainty", False):
        return LEAVES_ONE_OUT
    if isinstance(getattr(estimator, "alpha", None), str):
        return HOLDS_OUT
    # Leave-one-out scores calibrate the probabilities of a ridge; all samples, those of softmax.
    is_calibrated = is_classifier(estimator) and getattr(estimator, "readout", "ridge") == "ridge"
    return LEAVES_ONE_OUT if is_calibrated else {}


# What a search is made of. It chooses nothing else: without arguments estimators choose it.
SEARCHED = {"n_hidden": [2, 10], "alpha": [0.1, 1.0]}
GIVEN = {"kernel": "laplacian", "radius": 10.0, "feature_weights": None}


def searches(**params):
    networks = RBFClassifier(selection="random", **GIVEN), TanhClassifier(feature_weights=None)
    return [
        HiddenSizeSearchCV(
            network.set_params(random_state=0, **params), SEARCHED, cv=2, error_score="raise"
        )
        for network in networks
    ]  # fmt: skip


def variants(**params):
    """Those that do something else in a fit or an answer than the estimators by default."""
    yield RBFClassifier(10, readout="lms", **params)
    yield RBFClassifier(10, readout="none", **params)
    yield RBFClassifier(10, metric="euclidean", kernel="gaussian", feature_weights=None, **params)
    yield RBFClassifier(
        10, alpha=[0.1, 1.0], kernel="laplacian", feature_weights=None, random_state=0, **params
    )
    yield RBFClassifier(10, feature_weights="learned", kernel="laplacian", alpha=1.0, **params)
    yield RBFClassifier(
        10, selection="random", readout="softmax", alpha=1.0, random_state=0, **GIVEN, **params
    )
    yield TanhClassifier(
        30, readout="softmax", alpha=1.0, feature_weights=None, random_state=0, **params
    )
    yield RBFProjector(10, feature_weights="map", metric="euclidean", **params)
    yield TanhClassifier(30, alpha=1.0, feature_weights=None, **params)
    yield TanhClassifier(30, alpha="loo", feature_weights=None, random_state=0, **params)
    yield RBFRegressor(10, selection="random", **params)
    yield RBFRegressor(kernel="triangular", radius=10.0, alpha="loo", uncertainty=True, **params)
    yield TanhRegressor(30, alpha=1.0, feature_weights=None, **params)
    yield TanhRegressor(30, alpha="loo", uncertainty=True, feature_weights=None, **params)
    for weights in ("class_informed", "constrained"):
        yield TanhClassifier(30, weights=weights, feature_weights=None, **params)
        yield TanhProjector(10, weights=weights, **params)


ESTIMATORS = [
    RBFClassifier, TanhClassifier, RBFRegressor, TanhRegressor, RBFProjector, TanhProjector,
    PatchClassifier, PatchRegressor, PatchProjector,
]  # fmt: skip


def on_device(name):
    """All estimators on a device that is named, where it works.

    Where it is required, test_engines.py says why it does not.
    """
    if ENGINES[name]().why_unavailable() is not None:
        return []
    networks = [TanhClassifier(30, feature_weights=None), TanhProjector(10)]
    if name != "mkl":  # all else is the code of blas there
        networks += [
            TanhRegressor(30, feature_weights=None),
            RBFClassifier(10, **GIVEN), RBFRegressor(60, **GIVEN), RBFProjector(10),
            PatchClassifier(10), PatchRegressor(10), PatchProjector(10),
        ]  # fmt: skip
    return [network.set_params(device=name) for network in networks]


# Checks of parameters, of messages, and of what X, y and weights may be: what they test is done
# before there is a layer, by all variants of an estimator alike.
OF_INPUT = {
    "check_all_zero_sample_weights_error", "check_array_api_input",
    "check_classifier_data_not_an_array", "check_classifiers_regression_target",
    "check_complex_data", "check_do_not_raise_errors_in_init_or_set_params",
    "check_dtype_object", "check_estimator_cloneable", "check_estimator_repr",
    "check_estimator_sparse_array", "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag", "check_estimator_tags_renamed",
    "check_estimators_empty_data_messages", "check_estimators_nan_inf",
    "check_estimators_partial_fit_n_features", "check_estimators_unfitted", "check_fit1d",
    "check_fit2d_predict1d", "check_fit_check_is_fitted", "check_fit_score_takes_y",
    "check_get_params_invariance", "check_mixin_order", "check_n_features_in",
    "check_n_features_in_after_fitting", "check_no_attributes_set_in_init",
    "check_parameters_default_constructible", "check_positive_only_tag_during_fit",
    "check_requires_y_none", "check_sample_weights_list", "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten", "check_sample_weights_pandas_series",
    "check_sample_weights_shape", "check_set_params", "check_supervised_y_2d",
    "check_supervised_y_no_nan", "check_transformer_data_not_an_array",
    "check_transformers_unfitted", "check_valid_tag_types",
}  # fmt: skip


def is_exhaustive(estimator, check):
    """Return whether a check of a variant is redundant: of input validation, or made elsewhere.

    LMS takes a thousand passes for class
    weights; test_classifier.py tests these without LMS. scikit-learn has three checks of training:
    one, with read-only samples, is enough. Only some variants have a readout or a penalty search of
    their own; others differ by units, which all pass through the same methods.
    """
    name, how = check.func.__name__, check.keywords
    is_lms = name == "check_class_weight_classifiers" and "lms" in repr(estimator)
    is_repeated = name in ("check_classifiers_train", "check_regressors_train") and (
        not how.get("readonly_memmap") or "X_dtype" in how
    )
    description = repr(estimator)
    has_own_readout = any(word in description for word in ("readout", "loo", "uncertainty"))
    return name in OF_INPUT or is_lms or is_repeated or not has_own_readout


def checks(estimators, wanted=lambda estimator, check: True):
    """scikit-learn's `parametrize_with_checks`, cut to the checks that are wanted."""
    mark = parametrize_with_checks(
        list(estimators), expected_failed_checks=expected_failures, xfail_strict=True
    )
    names, cases = mark.args
    ids = cache(mark.kwargs.pop("ids"))  # else an estimator is written out for each of its checks
    cases = [case if hasattr(case, "values") else pytest.param(*case) for case in cases]
    cases = [
        case for case in cases if wanted(case.values[0], case.values[1])
    ]  # fmt: skip
    return pytest.mark.parametrize(names, cases, ids=ids, **mark.kwargs)


def passes(check, estimator):
    if check.func.__name__ == "check_classifier_multioutput" and hasattr(estimator, "random_state"):
        # The check compares ranks of scores with ranks of probabilities, but sets no seed. Of 400
        # seeds 7 have scores that differ in the last bit only, whose probabilities are equal.
        estimator = clone(estimator).set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Of some checks there are fewer rows than centres.
        warnings.filterwarnings("ignore", ".* is more than the .*", UserWarning)
        warnings.filterwarnings("ignore", ".* only .* samples differ enough", UserWarning)
        # scikit-learn's own splitters, on the infinite labels of one check.
        warnings.filterwarnings("ignore", "invalid value encountered in cast", RuntimeWarning)
        check(estimator)


@checks([*(made() for made in ESTIMATORS), *searches()])
def test_scikit_learn_checks(estimator, check):
    passes(check, estimator)


@checks(variants(), lambda e, check: not is_exhaustive(e, check))
def test_scikit_learn_checks_of_variants(estimator, check):
    passes(check, estimator)


@pytest.mark.exhaustive
@checks(variants(), is_exhaustive)
def test_other_scikit_learn_checks_of_variants(estimator, check):
    passes(check, estimator)


@pytest.mark.exhaustive
@checks(
    [*on_device("blas"), *on_device("mkl"), *on_device("torch")],
    lambda e, check: check.func.__name__ not in OF_INPUT,
)
def test_scikit_learn_checks_on_blas(estimator, check):
    """Most other tests run on each engine. Searches do not depend on the engine."""
    passes(check, estimator)


# A GPU has readouts of its own, in another array library.
ON_CUDA = on_device("cuda")


@checks([*ON_CUDA, *searches(device="cuda"), *variants(device="cuda")] if ON_CUDA else ())
def test_scikit_learn_checks_on_cuda(estimator, check):
    passes(check, estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


SEARCHES = [
    (RBFClassifier(feature_weights=None, random_state=0), {"n_hidden": [30, 60]}),
    (TanhClassifier(feature_weights=None, random_state=0), {"n_hidden": [30, 60]}),
    (
        make_pipeline(TanhProjector(random_state=0), LogisticRegression(max_iter=500)),
        {"tanhprojector__n_components": [30, 60]},
    ),
]


@pytest.mark.exhaustive
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
    X, y = digits
    digits = X[:200], y[:200]
    network = RBFClassifier(alpha=1.0, feature_weights=None, random_state=0)
    search = partial(GridSearchCV, network, {"n_hidden": [10, 20]}, cv=2)
    threaded = search()

    def in_threads():
        with joblib.parallel_config("threading", n_jobs=2):
            threaded.fit(*digits)

    thread = threading.Thread(target=in_threads)
    thread.start()
    scores = search(n_jobs=2).fit(*digits).cv_results_["mean_test_score"]
    thread.join()
    np.testing.assert_allclose(threaded.cv_results_["mean_test_score"], scores)


def test_a_worker_process_uses_its_share_of_the_cores():
    from sklearn_fsvc._src.engines.threads import n_threads

    counts = joblib.Parallel(2)(joblib.delayed(n_threads)() for _ in range(2))
    assert max(counts) <= max(1, joblib.cpu_count() // 2)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_fit(digits, request):
    import multiprocessing

    open_engine("jit", request.config)
    clf = RBFClassifier(100, random_state=0).fit(*digits)
    expected = clf.predict(digits[0])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        answer = pool.apply_async(clf.predict, (digits[0],)).get(timeout=60)
    np.testing.assert_array_equal(answer, expected)
