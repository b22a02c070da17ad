"""Several splits of few samples: each selects, and all of them evaluate what was selected."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhRegressor
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.hidden_layers import model_selection, proxy_networks
from sklearn_fsvc._src.hidden_layers.proxy_search import FeatureWeights, ProxySearch
from sklearn_fsvc._src.readouts.penalty_search import SearchHistory
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine


def make_splits(n, n_of_weight_0=0, shared=None, **changes):
    X = np.random.default_rng(0).normal(size=(n, 3))
    weight = np.arange(n) >= n_of_weight_0
    samples = Samples(
        X, OneHotTargets.of_column((X[:, 0] > 0).astype(int), 2), weight.astype(float)
    )
    job, random = Job(get_engine("jit")), np.random.default_rng(0)
    samples = replace(samples, **changes)
    return ProxySearch.of_splits(job, samples, random, SearchHistory(0.1), shared)


@pytest.mark.parametrize(
    ("n", "n_splits"), [(2, 5), (300, 5), (375, 4), (500, 3), (750, 2), (751, 1), (5000, 1)]
)
def test_the_fewer_the_samples_the_more_splits(n, n_splits):
    splits = make_splits(n)
    assert len(splits) == n_splits
    assert len(make_splits(n + 100, 100)) == n_splits
    validation_sets = {tuple(proxy.validation) for proxy, _ in splits}
    assert n == 2 or len(validation_sets) == n_splits


@pytest.mark.parametrize(("n", "n_splits"), [(100, 5), (250, 2), (251, 1)])
def test_networks_of_ensembles_have_fewer_splits(n, n_splits):
    assert len(make_splits(n, shared={})) == n_splits


def test_given_validation_samples_are_the_only_split():
    validation = make_splits(40)[0][0].samples
    ((proxy, _),) = make_splits(100, validation=validation)
    np.testing.assert_array_equal(proxy.samples.X[proxy.validation], validation.X)


def stubs(errors_by_choice, mean_errors, choices):
    """Return splits with given errors, each of which selects one of the choices."""
    return [
        SimpleNamespace(
            choice=choice, first_choices=["first", "second"],
            proxy=SimpleNamespace(mean_error=mean_error),
            error_of=lambda name, i=i: errors_by_choice[name][i],
            penalised_error_of=lambda name, error, mean=mean_error: error / (mean or 1.0),
        )
        for i, (choice, mean_error) in enumerate(zip(choices, mean_errors, strict=True))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("errors", "mean_errors", "best"),
    [
        ({"a": [0.1, 0.9, 0.9], "b": [0.5, 0.4, 0.5]}, [1.0, 1.0, 1.0], "b"),
        # The samples of the second split have outliers.
        ({"a": [0.1, 90.0, 0.1], "b": [0.5, 80.0, 0.5]}, [1.0, 100.0, 1.0], "a"),
        ({"a": [0.1, 0.0, 0.1], "b": [0.5, 0.0, 0.5]}, [1.0, 0.0, 1.0], "a"),  # constant targets
    ],
)
def test_the_lowest_mean_error_decides(errors, mean_errors, best):
    splits = stubs(errors, mean_errors, ["a", "b", "a"])
    assert model_selection._best_over_splits(splits) == (best, errors[best])


def test_if_nothing_is_predicted_an_unlearned_choice_is_selected():
    errors = {"a": [0.9, 1.1, 1.0], "first": [1.2] * 3, "second": [1.1] * 3}
    splits = stubs(errors, [1.0] * 3, ["a"] * 3)
    assert model_selection._best_over_splits(splits) == ("second", errors["second"])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([None, None], None),
        ([np.array([4.0, 0.0, 2.0]), np.array([0.5, 1.0, 0.0])], [1.0, 2 / 3, 1 / 3]),
        ([np.diag([4.0, 2.0]), np.diag([0.1, 0.1])], np.diag([1.0, 0.75])),
    ],
)
def test_weights_are_the_mean_of_those_of_the_splits(weights, expected):
    importances = np.array([0.25, 0.75]), np.array([0.75, 0.25])
    found = [FeatureWeights(*pair) for pair in zip(weights, importances, strict=True)]
    mean = model_selection._mean_weights(found)
    if expected is None:
        assert mean.weights is None
    else:
        np.testing.assert_allclose(mean.weights, expected)
    np.testing.assert_array_equal(mean.importances, [0.5, 0.5])
    assert model_selection._mean_weights(found[:1]) is found[0]


@pytest.mark.parametrize(
    ("estimator", "n_features", "target", "gain"),
    [
        (RBFRegressor(feature_weights=None), 10, lambda X: X.sum(axis=1) / np.sqrt(10), 0.05),
        (TanhRegressor(), 30, lambda X: np.abs(X[:, 0]) + 0.5 * X[:, 1], 0.2),
    ],
)
def test_results_depend_little_on_the_seed(estimator, n_features, target, gain, monkeypatch):
    """The lowest R2 of four seeds. Of one split, ten samples select."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1060, n_features))
    y = target(X) + 0.25 * rng.normal(size=len(X))

    def lowest_score():
        models = (clone(estimator).set_params(random_state=seed) for seed in range(4))
        return min(model.fit(X[:60], y[:60]).score(X[60:], y[60:]) for model in models)

    several = lowest_score()
    monkeypatch.setattr(proxy_networks, "_MAX_SPLITS", 1)
    assert several > lowest_score() + gain


def test_the_mean_error_is_in_the_search_results():
    """The last row before those of the final network is that of the selected layer."""
    X = np.random.default_rng(0).normal(size=(200, 4))
    model = RBFClassifier(40, random_state=0, feature_weights=None).fit(X, X[:, 0] > 0)
    results = model.search_results_
    row = np.flatnonzero(results["n_units"] != 40)[-1]
    assert results["kernel"][row] == model.kernel_
    assert results["radius"][row] == model.radius_
    before = results["error"][:row][results["kernel"][:row] == model.kernel_]
    assert before.min() < results["error"][row] < before.max()
