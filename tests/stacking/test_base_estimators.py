"""Which networks are stacked, with which parameters, and what they share."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from fake_sources import ChunkFunction
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.dask_blocks import open_input
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.readouts.draw_sample import sample_unique
from sklearn_fsvc._src.stacking.base_estimators import BaseEstimators, TrainingSet
from sklearn_fsvc._src.utils.callbacks import NO_CALLBACKS
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.parts import ClassTarget, NumericTarget
from stacking.ensembles import classifier, pair, regressor, with_final


def test_default_base_estimators(data):
    X, y, numbers = data
    for model, target in ((StackedClassifier(), y), (StackedRegressor(), numbers)):
        model.set_params(random_state=0).fit(X, target)
        assert model.score(X, target) > 0.6
        names = [name for name, _ in model.default_estimators()]
        assert set(model.named_estimators_) <= set(names)
        assert len(model.loo_errors_) == len(names)


def test_inherited_parameters(data):
    """Base estimators keep other values than the defaults, and `estimators` are not modified."""
    X, _, y = data
    estimators = pair(RBFRegressor, TanhRegressor)
    estimators[0][1].set_params(device="blas", random_state=None)
    estimators[1][1].set_params(max_memory="1GB")
    model = StackedRegressor(estimators, random_state=3, device="jit", max_memory="2GB").fit(X, y)
    rbf, tanh = model.named_estimators_.values()
    assert (rbf.device, tanh.device, tanh.max_memory) == ("blas", "jit", "1GB")
    assert 1.8e9 < rbf.max_memory < 2e9
    assert isinstance(rbf.random_state, int)
    assert tanh.random_state == 0
    assert estimators[0][1].random_state is None
    assert not hasattr(estimators[0][1], "centers_")


class CountingTanh(TanhRegressor):
    """Counts the calls of its own `fit`."""

    def fit(self, X, y=None, sample_weight=None):
        self.n_fits = getattr(self, "n_fits", 0) + 1
        return super().fit(X, y, sample_weight)


def test_an_overridden_fit_is_called(rng):
    X = rng.normal(size=(200, 3))
    y = X[:, 0] * X[:, 1]
    settings = {"feature_weights": None, "alpha": 0.1, "random_state": 0, "device": "jit"}
    ensembles = [
        StackedRegressor([("tanh", kind(30, **settings))], final_estimator=None, random_state=0)
        for kind in (CountingTanh, TanhRegressor)
    ]
    counted, plain = (ensemble.fit(X, y) for ensemble in ensembles)
    assert counted.estimators_[0].n_fits == 1
    np.testing.assert_allclose(counted.predict(X), plain.predict(X), rtol=1e-9)


def test_feature_weights_are_learned_once(rng):
    """Per metric and way, also for tanh units; a linear map is not shared."""
    X = rng.normal(size=(120, 6))
    y = np.abs(X[:, 0]) + X[:, 1]
    _, samples = NumericTarget.from_estimator(TanhRegressor(), uncertainty=False).fit_encode(
        X, y, None
    )
    training_set = TrainingSet(samples, y, sample_unique(Job(get_engine("cpu", 1)), samples))
    fitted, shared, learned = {}, {}, []
    for name, network in {
        "first": RBFRegressor(40), "second": RBFRegressor(30, kernel="triangular"),
        "refined": RBFRegressor(30, feature_weights="refined"),
        "euclidean": RBFRegressor(40, metric="euclidean"), "tanh": TanhRegressor(50),
        "map": TanhRegressor(50, feature_weights="map"),
        "none": RBFRegressor(20, feature_weights=None),
    }.items():  # fmt: skip
        before = set(shared.get(0, {}))
        training_set.fit(network.set_params(random_state=0), NO_CALLBACKS, shared)
        learned += [(name, *key) for key in set(shared[0]) - before]
        fitted[name] = network
    assert learned == [
        ("first", "manhattan", False), ("refined", "manhattan", True),
        ("euclidean", "euclidean", False),
    ]  # fmt: skip
    first = fitted["first"].feature_weights_
    assert first.argmax() < 2
    for name in ("second", "tanh"):
        np.testing.assert_array_equal(fitted[name].feature_weights_, first)
        importances = fitted[name].feature_importances_
        np.testing.assert_array_equal(importances, fitted["first"].feature_importances_)
    assert list(shared) == [0, 1, 2, 3]  # four splits, each with the same kinds of weights
    assert len({tuple(of_split) for of_split in shared.values()}) == 1
    assert (fitted["euclidean"].feature_weights_ != first).any()
    assert fitted["none"].feature_weights_ is None
    assert not any("left_out_" in vars(network) for network in fitted.values())


@pytest.mark.parametrize(
    ("dtype", "expected"), [(np.float64, "refined"), (np.float32, "refined"), (np.uint8, "auto")]
)
def test_default_weights_of_the_euclidean_network(rng, dtype, expected):
    """Integers, such as the pixels of images, are not weighted by default."""
    X, y = rng.integers(0, 9, size=(200, 4)).astype(dtype), np.arange(200) % 2
    _, samples = ClassTarget.from_estimator(RBFClassifier()).fit_encode(X, y, None)
    given = StackedClassifier([("refined", RBFClassifier(feature_weights="refined"))])
    by_default, as_given = (
        dict(BaseEstimators.from_estimator(ensemble).clone_for(samples)[0])
        for ensemble in (StackedClassifier(), given)
    )
    assert by_default["euclidean"].feature_weights == expected
    assert as_given["refined"].feature_weights == "refined"


@pytest.mark.parametrize("cls", [StackedClassifier, StackedRegressor])
@pytest.mark.parametrize("params", [{"tanh__n_hidden": 20}, {"map": "drop"}])
def test_default_base_estimators_have_no_parameters(cls, params):
    """The remedy in the message is right."""
    model = cls()
    (name, value), *_ = params.items()
    with pytest.raises(ValueError, match=rf"{name}={value!r} .*set estimators={cls.__name__}\."):
        model.set_params(**params)
    given = {
        "estimators": cls.default_estimators(),
        "final_estimator": cls.default_final_estimator(),
    }
    model.set_params(**given).set_params(**params)
    assert model.get_params()[name] == value
    assert cls().set_params(**given, **params).get_params()[name] == value
    with pytest.raises(ValueError, match="Invalid parameter 'other'"):
        cls().set_params(other=1)


@pytest.mark.parametrize(
    ("cls", "n_with_weight", "has_map"),
    [(StackedClassifier, 59, False), (StackedClassifier, 60, True), (StackedRegressor, 20, True)],
)
def test_linear_map_of_classes_needs_samples_per_feature(cls, n_with_weight, has_map, rng):
    """Six of positive weight; otherwise its leave-one-out errors are too small."""
    X, y = rng.normal(size=(70, 10)), np.arange(70) % 2
    parts, weight = cls()._stacked_parts(), np.arange(70) < n_with_weight
    samples = parts.target.fit_encode(X, y, weight.astype(float))[1]
    assert ("map" in dict(parts.base.clone_for(samples)[0])) == has_map


@pytest.mark.parametrize("cls", [StackedClassifier, StackedRegressor])
def test_no_linear_map_of_many_features(cls, rng):
    """The default base estimator "map" is left out; as an argument it is refused."""
    X, y = rng.normal(size=(60, 501)), np.arange(60) % 2
    parts = cls()._stacked_parts()
    names = [name for name, _ in parts.base.clone_for(parts.target.fit_encode(X, y, None)[1])[0]]
    assert names == [name for name, _ in cls.default_estimators()][:-1]
    assert len(names) == 3
    with pytest.raises(ValueError, match="501"):
        cls([("map", cls.default_estimators()[-1][1])]).fit(X, y)


@pytest.mark.parametrize(
    ("estimators", "error", "message"),
    [
        (LogisticRegression(), TypeError, "must be None, or a list"),
        ([], ValueError, "contains no estimator"),
        ([("rbf", "drop")], ValueError, "contains no estimator"),
        ([("line", LogisticRegression())], TypeError, "StackingClassifier"),
        ([("rbf", RBFRegressor())], TypeError, "for the same task"),
        ([("rbf", RBFProjector())], TypeError, "for the same task"),
        ([("rbf", RBFClassifier)], TypeError, r"pass an estimator: RBFClassifier\(\)"),
        ([("rbf", RBFClassifier(readout="softmax"))], ValueError, 'use readout="ridge"'),
        ([("a", TanhClassifier(class_weight="balanced"))], ValueError, "to the ensemble"),
        ([("a", TanhClassifier()), ("a", TanhClassifier())], ValueError, "not unique"),
        ([("device", TanhClassifier())], ValueError, "conflict"),
        ([(1, TanhClassifier())], TypeError, "name 1, which must be a string, such as '1'"),
    ],
)
def test_invalid_estimators(data, estimators, error, message):
    """The fitted ensemble is left as it was."""
    X, y, _ = data
    model = classifier()
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    expected = model.decision_function(X)
    model.set_params(estimators=estimators)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), expected)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_of_base_estimators_name_them(monkeypatch, rng, n_jobs):
    monkeypatch.setattr("sklearn_fsvc._src.stacking.parts.n_threads", lambda: n_jobs)
    X = rng.normal(size=(60, 3))
    with pytest.raises(ValueError, match=r"StandardScaler.*, pass float64, or use") as caught:
        StackedRegressor(random_state=0).fit((1e-30 * X).astype(np.float32), X[:, 0])
    (note,) = caught.value.__notes__
    assert "the base estimator 'euclidean'" in note


def test_when_a_final_estimator_is_used(data, rng):
    """By default for numeric arrays and default base estimators; otherwise if it is passed."""
    X, _, y = data
    array = np.float32(X), y
    parts, is_used = StackedRegressor()._stacked_parts(), {}
    for name, X_y in {
        "array": array, "bytes": (rng.integers(0, 255, X.shape, np.uint8), y),
        "wide": (rng.normal(size=(len(X), 501)), y), "few": (X[:40], y[:40]),
        "source": open_input(ChunkFunction(X, y), "cpu", None)[:2],
        "integers": (np.rint(X).astype(int), y),
    }.items():  # fmt: skip
        _, samples = parts.target.fit_encode(*X_y, None)
        _, final = parts.base.clone_for(samples)
        is_used[name] = final is not None
    assert [name for name, used in is_used.items() if used] == ["array", "integers"]
    assert regressor().fit(*array).final_estimator_ is None
    with pytest.raises(TypeError, match="X as a dense array"):
        with_final(regressor()).fit(ChunkFunction(X, y))
    with pytest.raises(TypeError, match="final_estimator=RBFClassifier"):
        regressor(final_estimator=RBFClassifier()).fit(X, y)


def test_penalty_of_the_default_final_estimator(large_data):
    """That of the base estimator with the same units: its own search would fit noise."""
    X, _, y = large_data

    class TwoNetworks(StackedRegressor):
        @classmethod
        def default_estimators(cls):
            estimators = pair(RBFRegressor, TanhRegressor, 12)
            return [(name, network.set_params(alpha="auto")) for name, network in estimators]

    model = TwoNetworks(random_state=0).fit(X, y)
    rbf, tanh = model.estimators_
    assert model.final_estimator_.alpha == tanh.alpha_
    final = model.default_final_estimator()
    model._stacked_parts().base.set_final_penalty(final, [("rbf", rbf)])
    assert final.alpha == "auto"
