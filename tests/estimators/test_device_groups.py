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
from sklearn_fsvc._src.engines.device_group import DeviceGroup
from sklearn_fsvc._src.hidden_layers import rbf
from sklearn_fsvc._src.hidden_layers.active_candidates import ActiveCandidates

SIZED = {"n_hidden": 40, "random_state": 0}
MODELS = [
    TanhClassifier(feature_weights=None, alpha=1.0, **SIZED),
    TanhClassifier(feature_weights=None, **SIZED),
    TanhClassifier(weights="class_informed", alpha="loo", **SIZED),
    TanhRegressor(feature_weights=None, uncertainty=True, **SIZED),
    RBFClassifier(**SIZED),
    RBFClassifier(radius=0.2, kernel="triangular", **SIZED),
    RBFClassifier(selection="per_class", metric="euclidean", **SIZED),
    RBFClassifier(readout="lms", **SIZED),
    RBFRegressor(selection="random", **SIZED),
    RBFProjector(30, feature_weights="learned", random_state=0),
    TanhProjector(30, random_state=0),
]


@pytest.fixture(autouse=True)
def halves(monkeypatch):
    monkeypatch.setitem(ENGINES, FakeDevice.name, FakeDevice)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 401)
    return (rng.random((401, 5)) + y[:, None] / 3).astype(np.float32), y


def answers(model, X):
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
        *(  # those without a readout or a search of their own
            pytest.param(True, model, marks=pytest.mark.exhaustive)
            for model in MODELS[:9] if model not in MODELS[1:9:3]
        ),
    ],
    ids=str,
)  # fmt: skip
def test_equals_the_model_of_one_device(rows, model, weighted):
    X, y = rows
    weight = {}
    if weighted and hasattr(model, "predict"):
        weight = {"sample_weight": np.random.default_rng(1).integers(0, 3, len(X)).astype(float)}
    alone = clone(model).set_params(device="half").fit(X, y, **weight)
    device_group = clone(model).set_params(device="half:all").fit(X, y, **weight)
    assert (alone.device_, device_group.device_) == ("half:0", "half:0,1")
    if hasattr(alone, "support_"):
        np.testing.assert_array_equal(device_group.support_, alone.support_)
    for found, expected in zip(answers(device_group, X), answers(alone, X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    # But for the rounding of products of other tiles, a model answers the same.
    for found, expected in zip(
        answers(device_group, X), answers(device_group.set_params(device="half"), X), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source", [SliceableFile, ChunkFunction])
def test_sources(rows, source):
    X, y = rows
    model = TanhClassifier(alpha=1.0, device="half:all", **SIZED)
    given = (source(X), y) if source is SliceableFile else (source(X, y),)
    found = clone(model).fit(*given).readout_coef_
    np.testing.assert_allclose(found, model.fit(X, y).readout_coef_, rtol=1e-4, atol=1e-6)


def test_uncovered_samples(rows):
    X, y = rows
    model = RBFClassifier(radius=0.2, kernel="triangular", selection_radius=0.5, **SIZED)
    model.set_params(n_hidden=10, device="half:all").fit(X, y)
    far = np.vstack([X[:5], X[:5] + 100, X[:5] - 100])
    expected = model.set_params(device="half").decision_function(far)
    found = model.set_params(device="half:all").decision_function(far)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_search_and_incremental_fits(rows):
    X, y = rows
    grid = {"n_hidden": [10, 30], "alpha": [0.1, 1.0, "auto"]}
    alone, device_group = (
        HiddenSizeSearchCV(TanhClassifier(random_state=0, device=device), grid, cv=2).fit(X, y)
        for device in ("half", "half:all")
    )
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(
            device_group.cv_results_[name], alone.cv_results_[name], atol=1e-6
        )
    streams = [
        TanhClassifier(alpha=1.0, device=device, **SIZED).partial_fit(X, y, classes=range(3))
        for device in ("half", "half:all")
    ]
    coefs = [model.forget(X[:50], y[:50]).solve().readout_coef_ for model in streams]
    np.testing.assert_allclose(*coefs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_distributed_rows_are_not_read_again(rows, monkeypatch, model):
    """The first device reads the rows that it needs from the devices, not from the host."""
    X, y = rows
    expected = answers(clone(model).set_params(device="half:all").fit(X, y), X)

    class Emptying(FakeDevice):
        """Sets the rows on the host to 0 when they are uploaded."""

        def upload_if_fits(self, X, limit):
            if X.flags.owndata:  # a random sample, which the first device drew
                return X
            uploaded = X.copy()
            X[...] = 0
            return uploaded

    monkeypatch.setitem(ENGINES, FakeDevice.name, Emptying)
    found = clone(model).set_params(device="half:all").fit(X.copy(), y)
    for some, others in zip(answers(found, X), expected, strict=True):
        np.testing.assert_allclose(some, others, rtol=1e-5, atol=1e-5)


def test_small_networks_use_the_first_device_only(rows, monkeypatch):
    calls, each = [], DeviceGroup.map

    def noted(self, work, tasks):
        calls.append("each")
        return each(self, work, tasks)

    def within(*args):
        calls.append("choice")
        found = choose(*args)
        calls.append("chosen")
        return found

    choose = rbf.select_kernel
    monkeypatch.setattr(DeviceGroup, "map", noted)
    monkeypatch.setattr(rbf, "select_kernel", within)
    X, y = rows
    model = RBFClassifier(feature_weights="learned", device="half:all", **SIZED).fit(X, y)
    assert len(model.search_results_["alpha"]) > 10
    at = calls.index("choice")
    assert calls[at + 1] == "chosen"
    # Rows are sharded before; then there are the sums of all rows, and of those held out.
    assert calls[:at] == ["each"]
    assert set(calls[at + 2 :]) == {"each"}


def test_a_large_selection_is_distributed(rows, monkeypatch):
    """And gives the centres of one engine, as does a small one."""

    class SmallGroups(FakeDevice):
        group_bytes = 0  # no group of candidates is evaluated at once

    monkeypatch.setitem(ENGINES, FakeDevice.name, SmallGroups)
    X, y = rows
    seen, begin = set(), ActiveCandidates.__init__

    def noted(self, shown, *args):
        seen.add(shown.engine.index)
        begin(self, shown, *args)

    monkeypatch.setattr(ActiveCandidates, "__init__", noted)
    given = {"feature_weights": None, "kernel": "gaussian", "alpha": 1.0, **SIZED}
    for least, members in ((2**32, {0}), (0, {0, 1})):
        monkeypatch.setattr("sklearn_fsvc._src.hidden_layers.novelty._MIN_SHARED_ELEMENTS", least)
        for selection in ("global", "per_class"):
            seen.clear()
            alone, device_group = (
                RBFClassifier(selection=selection, device=device, **given).fit(X, y)
                for device in ("half", "half:all")
            )
            np.testing.assert_array_equal(device_group.support_, alone.support_)
            assert seen == members


def test_all_devices_evaluate(rows, monkeypatch):
    seen = set()

    class Recording(FakeDevice):
        def hidden(self, *args, **kwargs):
            seen.add((self.index, threading.get_ident()))
            return super().hidden(*args, **kwargs)

    monkeypatch.setitem(ENGINES, FakeDevice.name, Recording)
    X, y = rows
    model = RBFClassifier(selection_radius=0.5, alpha=1.0, radius=0.5, device="half:all", **SIZED)
    model.fit(X, y)
    for work in (lambda: model.fit(X, y), lambda: model.predict(X)):
        seen.clear()
        work()
        assert {index for index, _ in seen} == {0, 1}
        assert len(seen) == 2  # a thread for each


@pytest.mark.parametrize("index", [0, 1])
def test_a_failed_fit_leaves_the_model_and_no_thread(rows, monkeypatch, index):
    X, y = rows
    model = TanhClassifier(alpha=1.0, device="half:all", **SIZED).fit(X, y)
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
    assert not [thread for thread in threading.enumerate() if "team" in thread.name]
