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

# Expected failures: each must fail, and its reason is why no estimator of its kind can pass.
SAME_WEIGHTS = [
    f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")
]  # fmt: skip
CENTRES_IN_ORDER = dict.fromkeys(
    SAME_WEIGHTS,
    "centres are selected from the samples in their order; repeating and reordering samples "
    "changes the order",
)
SUMS_OF_ROWS = dict.fromkeys(
    SAME_WEIGHTS,
    "weights are sums and differences of randomly drawn samples; repeating and reordering "
    "samples changes the draw",
)
HOLDS_OUT = dict.fromkeys(
    SAME_WEIGHTS,
    "the penalty minimises the error on held-out samples; some copies of a repeated sample are "
    "held out, and the model is trained on the others",
)
LEAVES_ONE_OUT = dict.fromkeys(
    SAME_WEIGHTS,
    "leave-one-out removes a sample with all its weight, but only one copy of a repeated "
    "sample; the model is trained on the others",
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


# All other choices are fixed: the estimators are tested with their defaults as well.
GRID = {"n_hidden": [2, 10], "alpha": [0.1, 1.0]}
PARAMS = {"kernel": "laplacian", "radius": 10.0, "feature_weights": None}


def searches(**params):
    networks = RBFClassifier(selection="random", **PARAMS), TanhClassifier(feature_weights=None)
    return [
        HiddenSizeSearchCV(
            network.set_params(random_state=0, **params), GRID, cv=2, error_score="raise"
        )
        for network in networks
    ]


def variants(**params):
    """Yield estimators whose fit or predict differs from that of the defaults."""
    yield RBFClassifier(10, readout="lms", **params)
    yield RBFClassifier(10, readout="none", **params)
    yield RBFClassifier(10, metric="euclidean", kernel="gaussian", feature_weights=None, **params)
    yield RBFClassifier(
        10, alpha=[0.1, 1.0], kernel="laplacian", feature_weights=None, random_state=0, **params
    )
    yield RBFClassifier(10, feature_weights="learned", kernel="laplacian", alpha=1.0, **params)
    yield RBFClassifier(
        10, selection="random", readout="softmax", alpha=1.0, random_state=0, **PARAMS, **params
    )
    yield TanhClassifier(
        30, readout="softmax", alpha=1.0, feature_weights=None, random_state=0, **params
    )
    yield RBFProjector(10, feature_weights="map", metric="euclidean", **params)
    yield TanhClassifier(30, alpha=1.0, feature_weights=None, **params)
    yield TanhClassifier(30, alpha="loo", feature_weights=None, random_state=0, **params)
    yield RBFRegressor(10, selection="random", **params)
    triangular = PARAMS | {"kernel": "triangular", "radius": 30.0}
    yield RBFRegressor(60, alpha="loo", uncertainty=True, **triangular, **params)
    yield TanhRegressor(30, alpha=1.0, feature_weights=None, **params)
    yield TanhRegressor(30, alpha="loo", uncertainty=True, feature_weights=None, **params)
    for weights in ("class_informed", "constrained"):
        yield TanhClassifier(30, weights=weights, feature_weights=None, **params)
        yield TanhProjector(10, weights=weights, **params)


ESTIMATORS = [
    RBFClassifier, TanhClassifier, RBFRegressor, TanhRegressor, RBFProjector, TanhProjector,
    PatchClassifier, PatchRegressor, PatchProjector,
]  # fmt: skip
# Only the penalty is searched: checks take a fifth of their time with the defaults.
SMALL = [
    RBFClassifier(10, **PARAMS), TanhClassifier(30, feature_weights=None),
    RBFRegressor(60, **PARAMS), TanhRegressor(30, feature_weights=None),
    RBFProjector(), TanhProjector(), PatchClassifier(10), PatchRegressor(10), PatchProjector(),
]  # fmt: skip


def on_device(name):
    """Return all estimators on the named device, or none if it is unavailable.

    test_engines.py fails if the device is required.
    """
    if ENGINES[name]().why_unavailable() is not None:
        return []
    networks = [TanhClassifier(30, feature_weights=None), TanhProjector(10)]
    if name != "mkl":  # everything else is the code of blas
        networks += [
            TanhRegressor(30, feature_weights=None),
            RBFClassifier(10, **PARAMS), RBFRegressor(60, **PARAMS), RBFProjector(10),
            PatchClassifier(10), PatchRegressor(10), PatchProjector(10),
        ]  # fmt: skip
    return [network.set_params(device=name) for network in networks]


# Checks of parameters, messages and input validation, which all variants of an estimator share.
INPUT_CHECKS = {
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


cached_repr = cache(repr)  # takes as long as a short test

# Of these checks, those of the class itself.
CLASS_CHECKS = {
    "check_do_not_raise_errors_in_init_or_set_params", "check_estimator_cloneable",
    "check_estimator_repr", "check_estimator_sparse_tag", "check_estimator_tags_renamed",
    "check_get_params_invariance", "check_mixin_order", "check_no_attributes_set_in_init",
    "check_parameters_default_constructible", "check_set_params", "check_valid_tag_types",
}  # fmt: skip


def is_repeated(check):
    """Return whether another check of training has read-only samples as well."""
    return check.func.__name__ in ("check_classifiers_train", "check_regressors_train") and (
        not check.keywords.get("readonly_memmap") or "X_dtype" in check.keywords
    )


def is_exhaustive(estimator, check):
    """Return whether a check of a variant is redundant: of input validation, expected to fail, or
    covered elsewhere.

    Class weights take a thousand passes of LMS; test_classifier.py tests these without LMS.
    scikit-learn has three checks of training: one, with read-only samples, is enough. Only some
    variants have a readout or a penalty search of their own; others differ by units, which all
    pass through the same methods. Readouts of two kinds of units are tested with one of them.
    """
    name = check.func.__name__
    if name in INPUT_CHECKS or is_repeated(check) or name in expected_failures(estimator):
        return True
    description = cached_repr(estimator)
    if "softmax" in description or "loo" in description:
        return isinstance(estimator, RBFClassifier)
    is_lms = name == "check_class_weight_classifiers" and "lms" in description
    return is_lms or "readout" not in description


def parametrize_checks(
    estimators, is_included=lambda estimator, check: True, expected=expected_failures
):
    """Apply scikit-learn's `parametrize_with_checks` to a selection of the checks."""
    mark = parametrize_with_checks(
        list(estimators), expected_failed_checks=expected, xfail_strict=True
    )
    names, cases = mark.args
    ids = cache(mark.kwargs.pop("ids"))  # computes the repr of each estimator once
    cases = [case if hasattr(case, "values") else pytest.param(*case) for case in cases]
    cases = [
        case for case in cases if is_included(case.values[0], case.values[1])
    ]  # fmt: skip
    return pytest.mark.parametrize(names, cases, ids=ids, **mark.kwargs)


def run_check(check, estimator):
    if check.func.__name__ == "check_classifier_multioutput" and hasattr(estimator, "random_state"):
        # The check compares ranks of scores with ranks of probabilities, but sets no seed. Of 400
        # seeds 7 have scores that differ in the last bit only, whose probabilities are equal.
        estimator = clone(estimator).set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Some checks have fewer samples than centres.
        warnings.filterwarnings("ignore", ".* is more than the .*", UserWarning)
        warnings.filterwarnings("ignore", ".* only .* samples differ enough", UserWarning)
        # From scikit-learn's splitters, for the infinite labels of one check.
        warnings.filterwarnings("ignore", "invalid value encountered in cast", RuntimeWarning)
        check(estimator)


def is_exhaustive_small(estimator, check):
    """Return whether a check is redundant: repeated, expected to fail, or of input validation,
    which all estimators share. test_bad_input.py tests messages of all classes.
    """
    name = check.func.__name__
    return is_repeated(check) or name in INPUT_CHECKS or name in expected_failures(estimator)


@parametrize_checks(SMALL, lambda e, check: not is_exhaustive_small(e, check))
def test_scikit_learn_checks(estimator, check):
    run_check(check, estimator)


# Checks of the class itself, and those whose data could be too small for the searches of the
# defaults, or that a choice which depends on more than the data and the seed would fail.
DEFAULT_CHECKS = CLASS_CHECKS | {
    "check_classifiers_one_label", "check_classifiers_one_label_sample_weights",
    "check_fit2d_1feature", "check_fit2d_1sample", "check_fit_idempotent", "check_regressors_int",
}  # fmt: skip


def is_exhaustive_default(estimator, check):
    """Return whether a check is left to the small estimators, or to another default: classifiers
    and regressors share their searches, and integer targets are converted before any of these.
    """
    name = check.func.__name__
    if name == "check_fit_idempotent" and isinstance(estimator, (RBFRegressor, TanhClassifier)):
        return True
    if name == "check_regressors_int" and isinstance(estimator, RBFRegressor):
        return True
    return name not in DEFAULT_CHECKS


@parametrize_checks(
    [made() for made in ESTIMATORS], lambda e, check: not is_exhaustive_default(e, check)
)
def test_scikit_learn_checks_of_defaults(estimator, check):
    run_check(check, estimator)


@parametrize_checks(
    [RBFClassifier(10, alpha=1.0, **PARAMS), RBFRegressor(10, alpha=1.0, **PARAMS), RBFProjector()],
    lambda e, check: check.func.__name__ in INPUT_CHECKS - CLASS_CHECKS,
)
def test_scikit_learn_checks_of_input(estimator, check):
    """Nothing is searched: input is validated before."""
    run_check(check, estimator)


@pytest.mark.exhaustive
@parametrize_checks([made() for made in ESTIMATORS], is_exhaustive_default)
def test_other_scikit_learn_checks(estimator, check):
    run_check(check, estimator)


def is_exhaustive_search(search, check):
    """Return whether a check is redundant: repeated, or of the search with RBF units, which
    shares its code with the search with tanh units. The tests of searches have both, and
    test_sparse.py sparse matrices.
    """
    is_covered = check.func.__name__.startswith("check_estimator_sparse_")
    return is_covered or isinstance(search.estimator, RBFClassifier) or is_repeated(check)


@parametrize_checks(searches(), lambda search, check: not is_exhaustive_search(search, check))
def test_scikit_learn_checks_of_searches(estimator, check):
    run_check(check, estimator)


@pytest.mark.exhaustive
@parametrize_checks(searches(), is_exhaustive_search)
def test_other_scikit_learn_checks_of_searches(estimator, check):
    run_check(check, estimator)


@parametrize_checks(variants(), lambda e, check: not is_exhaustive(e, check))
def test_scikit_learn_checks_of_variants(estimator, check):
    run_check(check, estimator)


@pytest.mark.exhaustive
@parametrize_checks(variants(), is_exhaustive)
def test_other_scikit_learn_checks_of_variants(estimator, check):
    run_check(check, estimator)


@pytest.mark.exhaustive
@parametrize_checks(
    [*on_device("blas"), *on_device("mkl"), *on_device("torch")],
    lambda e, check: check.func.__name__ not in INPUT_CHECKS,
)
def test_scikit_learn_checks_on_blas(estimator, check):
    """Most other tests run on each engine. Searches do not depend on the engine."""
    run_check(check, estimator)


# On a GPU other code computes the readouts, in another array library.
ON_CUDA = on_device("cuda")


@parametrize_checks(
    [*ON_CUDA, *searches(device="cuda"), *variants(device="cuda")] if ON_CUDA else ()
)
def test_scikit_learn_checks_on_cuda(estimator, check):
    run_check(check, estimator)


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
    """Processes and threads give the scores of a sequential search."""
    search = partial(GridSearchCV, estimator, grid, cv=2, error_score="raise")
    scores = search().fit(*digits).cv_results_["mean_test_score"]
    assert scores[1] > scores[0]
    parallel = search(n_jobs=2).fit(*digits).cv_results_["mean_test_score"]
    np.testing.assert_allclose(parallel, scores)
    with joblib.parallel_config("threading", n_jobs=2):
        threaded = search().fit(*digits).cv_results_["mean_test_score"]
    np.testing.assert_allclose(threaded, scores)


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_a_worker_process_uses_its_share_of_the_cores():
    from sklearn_fsvc._src.engines.threads import n_threads

    counts = joblib.Parallel(2)(joblib.delayed(n_threads)() for _ in range(2))
    assert max(counts) <= max(1, joblib.cpu_count() // 2)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_fit(digits, request):
    import multiprocessing

    open_engine("jit", request.config)
    X, y = digits[0][:200], digits[1][:200]
    clf = RBFClassifier(30, alpha=1.0, random_state=0, **PARAMS | {"radius": 100.0}).fit(X, y)
    expected = clf.predict(X)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        fitted = pool.apply_async(clf.fit, (X, y)).get(timeout=60)
    np.testing.assert_array_equal(fitted.predict(X), expected)
