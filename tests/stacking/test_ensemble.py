"""Predictions of stacked ensembles, and the interfaces of scikit-learn."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV

from estimators.test_sklearn import is_repeated, parametrize_checks
from fake_sources import ChunkFunction
from peak_memory import MIB, peak
from sklearn_fsvc import (
    RBFClassifier,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
)
from stacking.ensembles import (
    RBF,
    classifier,
    pair,
    regressor,
    small_ensemble,
    tanh_classifier,
    target_of_kind,
    with_final,
)

LEAVES_ONE_OUT = {
    f"check_sample_weight_equivalence_on_{kind}_data": "leave-one-out leaves out a sample with all "
    "its weight; of a sample that is repeated it leaves out one"
    for kind in ("dense", "sparse")
}


@pytest.mark.parametrize("kind", ["one", "two", "several", "labels"])
def test_scores_are_weighted_sums(data, kind):
    X, y, _ = data
    y = target_of_kind(kind, X, y)
    model = classifier().fit(X, y)
    assert list(model.named_estimators_) == ["rbf", "tanh"]
    each = [network.decision_function(X) for network in model.estimators_]
    actual, first, second = model.decision_function(X), *each
    if kind == "several":
        actual, first, second = map(np.column_stack, (actual, first, second))
    expected = model.weights_[0] * first + model.weights_[1] * second
    np.testing.assert_allclose(actual, expected, atol=1e-12)
    assert model.predict(X).shape == y.shape
    p = model.predict_proba(X)
    if kind in ("one", "two"):
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)
    assert model.score(X, y) == (model.predict(X) == y).reshape(len(X), -1).all(axis=1).mean()


def test_constant_outputs_are_predicted_exactly(data):
    X, _, numbers = data
    constants = np.tile([0.3, 7.7, 1e6, 123456.789], (len(X), 1))
    model = regressor().fit(X, np.column_stack([numbers, constants]))
    np.testing.assert_array_equal(model.predict(X)[:, 1:], constants)
    np.testing.assert_array_equal(model.predict_quantiles(X, [0.5])[:, 1:, 0], constants)
    assert (model.explain(X[:2], output=3).predictions == 1e6).all()


def test_a_constant_output_does_not_exclude_the_final_estimator(data):
    X, _, numbers = data
    constant = np.full(len(X), 0.3)
    model = with_final(small_ensemble(StackedRegressor))
    model.fit(X, np.column_stack([numbers, constant]))
    assert model.final_weight_ > 0.4
    np.testing.assert_array_equal(model.predict(X)[:, 1], constant)


def test_contributions_add_up(data):
    X, y, numbers = data
    model = regressor().fit(X, np.column_stack([numbers, -numbers]))
    for output in (0, 1):
        total = model.contributions(X, output).sum(axis=1) + model.intercept_[output]
        np.testing.assert_allclose(total, model.predict(X)[:, output])
    model = classifier().fit(X, y)
    contributions = model.contributions(X)
    np.testing.assert_allclose(contributions.sum(axis=1), model.decision_function(X).max(axis=1))
    two = classifier().fit(X, y > 0)
    np.testing.assert_allclose(two.contributions(X).sum(axis=1), abs(two.decision_function(X)))
    with pytest.raises(ValueError, match=r"output=1: y has 1 column"):
        model.contributions(X, 1)
    for output in ("a", 0.5, None, True):
        with pytest.raises(TypeError, match=f"output={output!r} must be an integer"):
            model.contributions(X, output)


def test_importances_are_the_mean_over_networks(large_data):
    """Scores that are features of the final estimator count as the features behind them."""
    X, _, numbers = large_data
    model = small_ensemble(StackedRegressor)
    assert not hasattr(model, "feature_importances_")
    weights = {"rbf": [4, 1, 0, 0], "tanh": [0, 0, 1, 1]}
    model.set_params(**{f"{name}__feature_weights": w for name, w in weights.items()})
    with_final(model, feature_weights=[1, 1, 1, 1, 2]).fit(X, numbers)
    assert model.final_weight_ > 0
    rbf, tanh = (network.feature_importances_ for network in model.estimators_)
    of_sum = np.average([rbf, tanh], axis=0, weights=model.weights_)
    *of_final, of_scores = model.final_estimator_.feature_importances_
    expected = (1 - model.final_weight_) * of_sum
    expected += model.final_weight_ * (of_final + of_scores * of_sum)
    np.testing.assert_allclose(model.feature_importances_, expected)
    assert model.feature_importances_.sum() == pytest.approx(1)
    selected = SelectFromModel(model, prefit=True, max_features=1, threshold=-np.inf)
    assert selected.get_support().argmax() == expected.argmax()


def test_no_importances_if_a_network_has_none(large_data):
    X, _, numbers = large_data
    model = regressor().set_params(rbf__feature_weights=[1, 1, 1, 1]).fit(X, numbers)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match=r"tanh=TanhRegressor has none.*permutation"):
        _ = model.feature_importances_
    model = small_ensemble(StackedRegressor)
    model.set_params(rbf__feature_weights=[1, 1, 1, 1], tanh__feature_weights=[1, 1, 1, 1])
    with_final(model).fit(X, numbers)
    with pytest.raises(AttributeError, match="final_estimator=TanhRegressor has none"):
        _ = model.feature_importances_


def test_grid_search_over_base_estimators(data):
    X, y, _ = data
    grid = {"tanh__n_hidden": [5, 30], "rbf": ["drop", RBFClassifier(20, **RBF)]}
    search = GridSearchCV(classifier(), grid, cv=2, error_score="raise").fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert clone(classifier()).get_params()["tanh__n_hidden"] == 25


def test_sources(data, tmp_path):
    """A file is read in blocks, once per prediction, and predictions may be written to `out`."""
    X, y, _ = data
    expected = classifier().fit(X, y)
    source = ChunkFunction(X, y)
    model = classifier().fit(source)
    np.testing.assert_allclose(model.weights_, expected.weights_, rtol=1e-6)
    calls, out = source.calls, np.zeros(len(X), int)
    assert model.predict(source, out=out) is out
    assert source.calls <= calls + 2
    np.testing.assert_array_equal(out, expected.predict(X))
    assert model.score(source) == expected.score(X, y)
    with pytest.raises(ValueError, match="out has shape"):
        model.predict(X, out=np.zeros(3))


def test_chunks_with_feature_names(data):
    """Without warnings, which are errors: base estimators predict arrays without names."""
    X, y, _ = data
    table = pd.DataFrame(X, columns=list("abcd")).assign(target=y)
    model = classifier().fit(lambda: (table[i : i + 50] for i in range(0, len(X), 50)), "target")
    assert list(model.feature_names_in_) == list("abcd")
    X = table[list("abcd")]
    expected = classifier().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_blocks(data):
    X, y, _ = data
    prediction = classifier().fit(X, y)._open_prediction(X)
    blocked = replace(prediction, block_values=100)
    for method in ("predict", "predict_proba"):
        np.testing.assert_allclose(blocked.output(method), prediction.output(method), atol=1e-12)
    np.testing.assert_allclose(blocked.contributions(0), prediction.contributions(0), atol=1e-12)


def test_memory_limit(rng):
    X, y = rng.normal(size=(4000, 20)).astype(np.float32), rng.integers(0, 2, 4000)
    estimators = pair(RBFClassifier, TanhClassifier, 250)
    unlimited = StackedClassifier(estimators, device="jit", random_state=0)
    model = clone(unlimited).set_params(max_memory=3 * MIB)
    model.fit(X[:1000], y[:1000]).predict(X[:1000])
    limit = 3 * MIB + 32 * len(X)  # y and the predictions
    for limited, free in ((model.fit, unlimited.fit), (model.predict, unlimited.predict)):
        data = (X, y) if limited == model.fit else (X,)
        assert peak(limited, *data)[1] < limit < peak(free, *data)[1]


def test_dask(data):
    da = pytest.importorskip("dask.array")
    X, y, _ = data
    lazy, expected = da.from_array(X, chunks=(50, 4)), classifier().fit(X, y)
    model = classifier().fit(lazy, da.from_array(y, chunks=50))
    actual = model.predict_proba(lazy)
    assert isinstance(actual, da.Array)
    np.testing.assert_allclose(actual.compute(), expected.predict_proba(X), atol=1e-6)
    assert model.score(lazy, y) == expected.score(X, y)


def test_sparse_input(data):
    X, y, _ = data
    dense = tanh_classifier().fit(X, y)
    sparse = tanh_classifier().fit(csr_array(X), y)
    np.testing.assert_allclose(
        sparse.decision_function(csr_array(X)), dense.decision_function(X), atol=1e-6
    )
    with pytest.raises(TypeError, match="sparse"):
        classifier().fit(csr_array(X), y)


def test_pickle(large_data):
    X, _, y = large_data
    for model in (regressor().fit(X, y), with_final(small_ensemble(StackedRegressor)).fit(X, y)):
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert model.final_weight_ > 0


def test_callbacks_of_base_estimators(data):
    pytest.importorskip("sklearn.callback")
    from callback_recorder import Recorder

    X, y, _ = data
    recorder = Recorder()
    model = classifier().set_callbacks(recorder).fit(X, y)
    assert recorder.tasks.count("end fit") == 3
    names = {context.estimator_name for context in recorder.contexts}
    assert names == {"StackedClassifier", "RBFClassifier", "TanhClassifier"}
    assert pickle.loads(pickle.dumps(model)).predict(X).shape == y.shape


def is_exhaustive(model, check):
    """Return whether a check is redundant: repeated, expected to fail, or of a method that both
    ensembles share. Only checks of regressors need the regressor.
    """
    name = check.func.__name__
    is_shared = isinstance(model, StackedRegressor) and "regress" not in name
    return is_repeated(check) or name in LEAVES_ONE_OUT or is_shared


@parametrize_checks(
    [regressor(), with_final(classifier())],
    lambda model, check: not is_exhaustive(model, check),
    lambda model: LEAVES_ONE_OUT,
)
def test_sklearn(estimator, check):
    passes(estimator, check)


@pytest.mark.exhaustive
@parametrize_checks(
    [regressor(), with_final(classifier())], is_exhaustive, lambda model: LEAVES_ONE_OUT
)
def test_other_sklearn_checks(estimator, check):
    passes(estimator, check)


@pytest.mark.exhaustive
@parametrize_checks([classifier(), tanh_classifier()], expected=lambda model: LEAVES_ONE_OUT)
def test_sklearn_without_a_final_estimator(estimator, check):
    passes(estimator, check)


def passes(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".* is more than the .*", UserWarning)
        warnings.filterwarnings("ignore", ".* only .* samples differ enough", UserWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in cast", RuntimeWarning)
        check(estimator)


class OneNetwork(StackedClassifier):
    """Of a single network, which is ill-conditioned, as is the final estimator."""

    @classmethod
    def default_estimators(cls):
        return [("tanh", TanhClassifier(300, alpha=1e-12))]

    @classmethod
    def default_final_estimator(cls):
        return TanhClassifier(300)


def test_no_warning_of_the_default_final_estimator():
    """The user has not set its penalty."""
    X = np.random.default_rng(0).normal(size=(200, 1))
    with pytest.warns(ConvergenceWarning) as caught:
        OneNetwork(random_state=0).fit(X, X[:, 0] > 0)
    assert len(caught) == 1


def test_a_network_that_interpolates_has_no_out_of_fold_scores():
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 4)), 2, axis=0)
    network = TanhClassifier(1000, alpha=1e-14, feature_weights=None, random_state=0)
    model = StackedClassifier([("tanh", network)], final_estimator=TanhClassifier(50))
    with (
        pytest.warns(ConvergenceWarning, match="Raise alpha"),
        pytest.raises(ValueError, match=r"alpha=1e-14 of tanh .* larger alpha"),
    ):
        model.fit(X, X[:, 0] > 0)
