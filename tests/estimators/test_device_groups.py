"""Groups of devices: models equal those of one device up to rounding, and centres bitwise."""

import threading

import numpy as np
import pytest
from sklearn.base import clone

from fake_devices import FakeDevice
from fake_sources import ChunkFunction, SliceableFile
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.engines import ENGINES
from sklearn_fsvc._src.engines.device_group import THREAD_NAME, DeviceGroup
from sklearn_fsvc._src.hidden_layers import rbf
from sklearn_fsvc._src.hidden_layers.active_candidates import ActiveCandidates

SIZED = {"n_hidden": 40, "random_state": 0}
GIVEN = {"feature_weights": None, "alpha": 1.0, **SIZED}
MODELS = [
    TanhClassifier(**GIVEN),
    TanhClassifier(feature_weights=None, **SIZED),
    TanhClassifier(weights="class_informed", alpha="loo", **SIZED),
    TanhRegressor(feature_weights=None, uncertainty=True, **SIZED),
    RBFClassifier(**SIZED),
    RBFClassifier(radius=0.2, kernel="triangular", feature_weights=None, **SIZED),
    RBFClassifier(
        selection="per_class", metric="euclidean", kernel="gaussian", feature_weights=None, **SIZED
    ),
    RBFClassifier(readout="lms", kernel="laplacian", feature_weights=None, **SIZED),
    RBFRegressor(selection="random", kernel="laplacian", **SIZED),
    RBFProjector(30, feature_weights="learned", kernel="laplacian", random_state=0),
    TanhProjector(30, random_state=0),
]


@pytest.fixture(autouse=True)
def fake_devices(monkeypatch):
    monkeypatch.setitem(ENGINES, FakeDevice.name, FakeDevice)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 401)
    return (rng.random((401, 5)) + y[:, None] / 3).astype(np.float32), y


def outputs_of(model, X):
    if hasattr(model, "transform"):
        return [model.transform(X)]
    if hasattr(model, "decision_function"):
        proba = [model.predict_proba(X)] if hasattr(model, "predict_proba") else []
        return [model.decision_function(X), *proba]
    return model.predict(X, return_std=True) if model.uncertainty else [model.predict(X)]


@pytest.mark.parametrize(
    ("weighted", "model"),
    [
        *((False, model) for model in MODELS), *((True, model) for model in MODELS[1:9:3]),
        *(  # they share readouts and searches with the models above
            pytest.param(True, model, marks=pytest.mark.exhaustive)
            for model in MODELS[:9] if model not in MODELS[1:9:3]
        ),
    ],
    ids=str,
)  # fmt: skip
def test_equals_the_model_of_one_device(data, model, weighted):
    X, y = data
    weight = {}
    if weighted and hasattr(model, "predict"):
        weight = {"sample_weight": np.random.default_rng(1).integers(0, 3, len(X)).astype(float)}
    single = clone(model).set_params(device="half").fit(X, y, **weight)
    device_group = clone(model).set_params(device="half:all").fit(X, y, **weight)
    assert (single.device_, device_group.device_) == ("half:0", "half:0,1")
    if hasattr(single, "support_"):
        np.testing.assert_array_equal(device_group.support_, single.support_)
    for found, expected in zip(outputs_of(device_group, X), outputs_of(single, X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    # The same model predicts the same on one device, up to the rounding of other tiles.
    for found, expected in zip(
        outputs_of(device_group, X),
        outputs_of(device_group.set_params(device="half"), X),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source", [SliceableFile, ChunkFunction])
def test_files_and_functions_equal_arrays(data, source):
    X, y = data
    model = TanhClassifier(device="half:all", **GIVEN)
    given = (source(X), y) if source is SliceableFile else (source(X, y),)
    found = clone(model).fit(*given).readout_coef_
    np.testing.assert_allclose(found, model.fit(X, y).readout_coef_, rtol=1e-4, atol=1e-6)


def test_scores_of_uncovered_samples_equal_those_of_one_device(data):
    X, y = data
    model = RBFClassifier(radius=0.2, kernel="triangular", selection_radius=0.5, **SIZED)
    model.set_params(n_hidden=10, device="half:all").fit(X, y)
    far = np.vstack([X[:5], X[:5] + 100, X[:5] - 100])
    expected = model.set_params(device="half").decision_function(far)
    found = model.set_params(device="half:all").decision_function(far)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_searches_and_incremental_fits_equal_those_of_one_device(data):
    X, y = data
    grid = {"n_hidden": [10, 30], "alpha": [1.0, "auto"]}
    single, device_group = (
        HiddenSizeSearchCV(
            TanhClassifier(feature_weights=None, random_state=0, device=device), grid, cv=2
        ).fit(X, y)
        for device in ("half", "half:all")
    )
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(
            device_group.cv_results_[name], single.cv_results_[name], atol=1e-6
        )
    streams = [
        TanhClassifier(device=device, **GIVEN).partial_fit(X, y, classes=range(3))
        for device in ("half", "half:all")
    ]
    coefs = [model.forget(X[:50], y[:50]).solve().readout_coef_ for model in streams]
    np.testing.assert_allclose(*coefs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_distributed_samples_are_not_read_again(data, monkeypatch, model):
    """The first device reads the samples it needs from the devices, not from the host."""
    X, y = data
    expected = outputs_of(clone(model).set_params(device="half:all").fit(X, y), X)

    class ClearsHost(FakeDevice):
        """Sets the samples on the host to 0 when they are uploaded."""

        def upload_if_fits(self, X, limit):
            if X.flags.owndata:  # a random sample, which the first device drew
                return X
            uploaded = X.copy()
            X[...] = 0
            return uploaded

    monkeypatch.setitem(ENGINES, FakeDevice.name, ClearsHost)
    found = clone(model).set_params(device="half:all").fit(X.copy(), y)
    for actual, reference in zip(outputs_of(found, X), expected, strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-5, atol=1e-5)


def test_small_networks_use_the_first_device_only(data, monkeypatch):
    calls, plain_map = [], DeviceGroup.map

    def record_map(self, work, tasks):
        calls.append("map")
        return plain_map(self, work, tasks)

    def record_choice(*args):
        calls.append("choice begins")
        found = select_units(*args)
        calls.append("choice ends")
        return found

    select_units = rbf.select_units
    monkeypatch.setattr(DeviceGroup, "map", record_map)
    monkeypatch.setattr(rbf, "select_units", record_choice)
    X, y = data
    model = RBFClassifier(feature_weights="learned", device="half:all", **SIZED).fit(X, y)
    assert len(model.search_results_["alpha"]) > 10
    start = calls.index("choice begins")
    assert calls[start + 1] == "choice ends"
    # Samples are distributed before; the sums of all and of held-out samples follow.
    assert calls[:start] == ["map"]
    assert set(calls[start + 2 :]) == {"map"}


def test_a_large_selection_is_distributed(data, monkeypatch):
    """Large and small selections give the centres of one engine."""

    class SmallGroups(FakeDevice):
        group_bytes = 0  # no group of candidates is evaluated at once

    monkeypatch.setitem(ENGINES, FakeDevice.name, SmallGroups)
    X, y = data
    used_devices, plain_init = set(), ActiveCandidates.__init__

    def record(self, ordered, *args):
        used_devices.add(ordered.engine.index)
        plain_init(self, ordered, *args)

    monkeypatch.setattr(ActiveCandidates, "__init__", record)
    for min_elements, expected_devices in ((2**32, {0}), (0, {0, 1})):
        monkeypatch.setattr(
            "sklearn_fsvc._src.hidden_layers.novelty._MIN_SHARED_ELEMENTS", min_elements
        )
        for selection in ("global", "per_class"):
            used_devices.clear()
            single, device_group = (
                RBFClassifier(selection=selection, kernel="gaussian", device=device, **GIVEN).fit(
                    X, y
                )
                for device in ("half", "half:all")
            )
            np.testing.assert_array_equal(device_group.support_, single.support_)
            assert used_devices == expected_devices


def test_all_devices_evaluate(data, monkeypatch):
    device_threads = set()

    class Recording(FakeDevice):
        def hidden(self, *args, **kwargs):
            device_threads.add((self.index, threading.get_ident()))
            return super().hidden(*args, **kwargs)

    monkeypatch.setitem(ENGINES, FakeDevice.name, Recording)
    X, y = data
    model = RBFClassifier(
        selection_radius=0.5, kernel="triangular", radius=0.5, device="half:all", **GIVEN
    )
    model.fit(X, y)
    for work in (lambda: model.fit(X, y), lambda: model.predict(X)):
        device_threads.clear()
        work()
        assert {index for index, _ in device_threads} == {0, 1}
        assert len(device_threads) == 2  # one thread per device


@pytest.mark.parametrize("index", [0, 1])
def test_a_failed_fit_keeps_the_model_and_ends_its_threads(data, monkeypatch, index):
    X, y = data
    model = TanhClassifier(device="half:all", **GIVEN).fit(X, y)
    before = dict(vars(model))

    class Failing(FakeDevice):
        def hidden(self, *args, **kwargs):
            if self.index == index:
                raise MemoryError("no more")
            return super().hidden(*args, **kwargs)

    monkeypatch.setitem(ENGINES, FakeDevice.name, Failing)
    with pytest.raises(MemoryError, match="no more"):
        model.fit(X[::-1], y)
    assert {name: vars(model)[name] for name in before} == before
    assert not [thread for thread in threading.enumerate() if THREAD_NAME in thread.name]
