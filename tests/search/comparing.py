"""Comparison of HiddenSizeSearchCV with GridSearchCV: fits both, and compares all results."""

from unittest import mock

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_multilabel_classification,
)
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV

from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, TanhClassifier
from sklearn_fsvc._src.estimators.network import Network
from sklearn_fsvc._src.search.wrappers import last_step

# All hyperparameters are searched.
TANH_AUTO = TanhClassifier(random_state=0)
ALL_AUTO = RBFClassifier(selection="random", random_state=0)
# Parameters are given where a test is not about their search, since fits take less time. The first
# has one layer for all splits, the next two have one for each split.
TANH = TanhClassifier(feature_weights=None, scale=0.5, alpha=1.0, random_state=0)
TANH_OF_SPLITS = clone(TANH).set_params(scale="auto")
RBF = clone(ALL_AUTO).set_params(kernel="laplacian", radius=20.0, feature_weights=None, alpha=1.0)
# A kernel of bounded support, so that some samples are uncovered.
TRIANGLES = clone(ALL_AUTO).set_params(kernel="triangular", feature_weights=None)
SIZES = {"n_hidden": [40, 10], "alpha": [1.0]}
SIZES_AND_PENALTIES = {"n_hidden": [40, 10], "alpha": [0.1, 10.0]}
ALL_PASSES = [TANH, TANH_OF_SPLITS, RBF]  # one for all splits, or one for each of them


def weighted_score(y, scores, sample_weight=1.0):
    """Return a score that depends on each decision value, their shape and the sample order."""
    outputs = scores if isinstance(scores, list) else [scores]
    assert all(np.ndim(s) == 1 or np.shape(s)[1] > 1 for s in outputs)  # two classes have one score
    scores = np.column_stack(outputs).astype(float)
    axis = 0 if np.ndim(y) == 2 else None
    label_codes = np.unique(y, return_inverse=True, axis=axis)[1].reshape(len(y))
    rows = sample_weight * (1 + np.arange(len(y)) + label_codes)
    columns = 1 + np.arange(scores.shape[1])
    return rows @ scores @ columns / (len(y) ** 2 * len(columns) * len(outputs))


DECISION_SCORER = make_scorer(weighted_score, response_method="decision_function")
ALL_SCORES = {"scoring": DECISION_SCORER, "return_train_score": True, "cv": 2}


def load(name):
    """Return X in float64 and y: up to 200 samples with shuffled classes."""
    if name == "classification":
        return make_classification(150, 8, n_informative=5, n_classes=3, random_state=0)
    loader = {"digits": load_digits, "iris": load_iris, "wine": load_wine}
    X, y = loader.get(name, load_breast_cancer)(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:200]
    return X[rows], y[rows]


def load_regression(n_outputs=0):
    """Return X and y of 150 samples: y of shape (150,), or with outputs of different units."""
    X, y = load_diabetes(return_X_y=True)
    X, y = 20 * X[:150], y[:150] / 100
    outputs = [y, 1e3 * X[:, 2] * X[:, 8] - 5e3, 1e-3 * np.sin(X[:, 3])]
    return X, np.column_stack(outputs[:n_outputs]) if n_outputs else y


def load_multioutput(kind):
    """Return X and y of 150 samples: "labels" is a matrix of 0 and 1, "classes" has 2 outputs."""
    X, y = make_multilabel_classification(150, 8, n_classes=4, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if kind == "labels":
        return X, y
    return X, np.column_stack([np.array(list("abc"))[y[:, :3].argmax(axis=1)], y[:, 3]])


def assert_same_search(actual, expected, data):
    """Assert that two searches have the same public attributes."""
    assert_same_results(actual.cv_results_, expected.cv_results_)
    public = [{k for k in vars(s) if not k.startswith("_")} for s in (actual, expected)]
    assert public[0] == public[1]
    for name in ("best_index_", "best_params_", "n_splits_", "multimetric_"):
        assert getattr(actual, name, None) == getattr(expected, name, None), name
    if hasattr(expected, "best_score_"):
        np.testing.assert_allclose(actual.best_score_, expected.best_score_, rtol=1e-9, atol=1e-9)
    assert repr(actual.scorer_) == repr(expected.scorer_)
    if expected.refit:
        assert_same_estimator(actual.best_estimator_, expected.best_estimator_, data[0])
        assert actual.refit_time_ > 0


def assert_same_results(actual, expected):
    assert list(actual) == list(expected)
    assert actual["params"] == expected["params"]
    assert [list(p) for p in actual["params"]] == [list(p) for p in expected["params"]]
    for name in expected.keys() - {"params"}:
        a, b = actual[name], expected[name]
        assert a.dtype == b.dtype, name
        assert a.shape == b.shape, name
        if name.startswith("param_"):
            np.testing.assert_array_equal(a.mask, b.mask)
            assert a.tolist() == b.tolist(), name
        elif name.endswith("_time"):
            assert (np.isfinite(a) & (a >= 0)).all()
        else:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)


def assert_same_estimator(actual, expected, X):
    assert type(actual) is type(expected)
    assert actual.get_params().keys() == expected.get_params().keys()
    if not is_classifier(expected):
        np.testing.assert_allclose(actual.predict(X), expected.predict(X), rtol=1e-9)
        return
    assert_same_value("classes_", actual.classes_, expected.classes_)
    np.testing.assert_array_equal(actual.predict(X), expected.predict(X))
    values = [search.decision_function(X) for search in (actual, expected)]
    for a, b in zip(*values, strict=True):  # over samples, or outputs
        np.testing.assert_allclose(a, b, atol=1e-12)


def count_network_fits():
    """Return a patch that counts the networks that are fitted separately."""
    fit = Network._fit
    return mock.patch.object(Network, "_fit", autospec=True, side_effect=fit)


def compare(estimator, grid, data, *, n_separate=0, fit_params=None, **options):
    """Fit and compare both searches; `n_separate` is the expected number of separate fits.

    The refit is a fit of its own, so that few tests need it.
    """
    options, fit_params = {"cv": 2, "refit": False, **options}, fit_params or {}
    expected = GridSearchCV(estimator, grid, **options).fit(*data, **fit_params)
    with count_network_fits() as fits:
        actual = HiddenSizeSearchCV(estimator, grid, **options).fit(*data, **fit_params)
    last = last_step(getattr(actual, "best_estimator_", None))
    assert fits.call_count == n_separate + isinstance(last, Network)
    assert_same_search(actual, expected, data)
    return actual


def compare_networks(estimator, grid, data, *, scoring=None, **options):
    """Compare both searches, and each network of each split with that of its own fit.

    `scoring` is a dict of additional scorers. Returns the networks of our search.
    """
    networks = []

    def collect(estimator, X, y, sample_weight=None):
        network = last_step(estimator)
        if not (
            networks and networks[-1] is network
        ):  # called for test and then for training samples
            networks.append(network)
        return 0.0

    values = DECISION_SCORER if is_classifier(estimator) else make_scorer(weighted_score)
    scoring, own = {"values": values, **(scoring or {})}, {"networks": collect}
    # With weights, scikit-learn accepts a plain function as the only scorer.
    each = [scoring, collect] if "fit_params" in options else [own | scoring]
    for scorers in each:
        options = {"return_train_score": True, **options, "scoring": scorers}
        compare(estimator, grid, data, **options)
    expected, actual = networks[: len(networks) // 2], networks[len(networks) // 2 :]
    for a, b in zip(actual, expected, strict=True):
        assert repr(a) == repr(b)
        # Intervals are not computed for the networks of the splits.
        missing = {"residual_distribution_"} - vars(a).keys()
        assert vars(a).keys() == vars(b).keys() - missing
        for name, value in vars(a).items():
            assert_same_value(name, value, vars(b)[name])
    return actual


def assert_same_value(name, here, there):
    """Assert that attributes of fitted networks are equal, up to rounding."""
    assert type(here) is type(there), name
    if isinstance(there, (list, tuple)):
        for i, (actual_item, expected_item) in enumerate(zip(here, there, strict=True)):
            assert_same_value(f"{name}[{i}]", actual_item, expected_item)
        return
    if isinstance(there, dict):
        assert list(here) == list(there), name
        for key in there:
            assert_same_value(f"{name}[{key!r}]", here[key], there[key])
        return
    # The temperature minimises a function with rounding errors, and thresholds depend on it.
    if name.startswith(("temperature_", "conformity_scores_", "mean_weight_")):
        np.testing.assert_allclose(here, there, rtol=1e-6, err_msg=name)
        return
    if not isinstance(there, np.ndarray):
        np.testing.assert_array_equal(here, there, err_msg=name)
        return
    assert here.dtype == there.dtype, name
    assert here.shape == there.shape, name
    if there.dtype.kind == "f":
        np.testing.assert_allclose(here, there, rtol=1e-7, atol=1e-9, err_msg=name)
    else:
        np.testing.assert_array_equal(here, there, err_msg=name)


def weighted_accuracy(estimator, X, y, sample_weight=None, *, factor=1):
    return factor * estimator.score(X, y, sample_weight=sample_weight)


def score_of_samples(estimator, X, y):
    """Return a score that depends on the samples, the labels and the fitted attributes."""
    units = estimator.centers_ if isinstance(estimator, RBFClassifier) else estimator.components_
    assert estimator.readout_coef_.shape[1] == len(units) <= estimator.n_hidden
    assert estimator.alpha in ("auto", estimator.alpha_)
    inner = units @ X.T @ (estimator.predict(X) == y)
    return estimator.readout_coef_.sum() + np.abs(inner).mean()


def mask_splits(n):
    mask = np.arange(n) % 4 == 0
    return [(~mask, mask), (mask, ~mask)]


def bootstrap_splits(n, rng):
    return [(rng.integers(0, n, n), rng.integers(0, n, 50)) for _ in range(3)]
