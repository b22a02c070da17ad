"""Groups of devices: their members, their threads, and failures of one of them."""

import threading
import time

import numpy as np
import pytest

from fake_devices import FakeDevice
from sklearn_fsvc import TanhRegressor
from sklearn_fsvc._src.engines import ENGINES
from sklearn_fsvc._src.engines.device_group import THREAD_NAME, WorkCancelled
from sklearn_fsvc.engines import get_engine


@pytest.fixture(autouse=True)
def halves(monkeypatch):
    monkeypatch.setitem(ENGINES, FakeDevice.name, FakeDevice)


@pytest.fixture
def device_group():
    with get_engine("half:all") as engine:
        yield engine.device_group


@pytest.mark.parametrize(
    ("device", "name", "n_members"),
    [("half:all", "half:0,1", 2), ("half:1,0", "half:1,0", 2), ("half:1", "half:1", 0)],
)
def test_members_of_a_group(device, name, n_members):
    with get_engine(device) as engine:
        assert engine.name == name
        members = [] if engine.device_group is None else engine.device_group.members
        assert len(members) == n_members
        assert not members or members[0] is engine


@pytest.mark.parametrize(
    ("device", "error", "message"),
    [
        ("half:0,2", RuntimeError, "device='half:0,2' cannot be used: there is no half 2"),
        ("half:0,0", ValueError, "device='half:0,0' names a device twice"),
        ("half:0,", ValueError, 'is not known; .* "half:0,1" two of them'),
        ("half:some", ValueError, "is not known"),
        ("jit:all", ValueError, "is not known"),
    ],
)
def test_invalid_groups_are_refused(device, error, message):
    with pytest.raises(error, match=message):
        get_engine(device)


def test_results_are_in_order_and_computed_in_a_thread_for_each_device(device_group):
    def work(member, task, stop):
        time.sleep(0.05 * (task == "a"))
        return member.name, task, threading.get_ident()

    for _ in range(2):
        first, second = device_group.map(work, ["a", "b"])
        assert (first[:2], second[:2]) == (("half:0,1", "a"), ("half:1", "b"))
        assert first[2] == threading.get_ident() != second[2]
    assert second == device_group.map(work, ["a", "b"])[1]  # the same thread


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt])
def test_a_failure_stops_the_others(device_group, failing, error):
    def work(member, task, stop):
        if task == failing:
            raise error("this one")
        if not stop.wait(10):
            pytest.fail("stop was not set")
        raise WorkCancelled

    with pytest.raises(error, match="this one"):
        device_group.map(work, [0, 1])
    assert device_group.map(lambda member, task, stop: task, [0, 1]) == [0, 1]


def test_threads_end_with_the_group():
    with get_engine("half:all"):
        assert [t for t in threading.enumerate() if THREAD_NAME in t.name]
    assert not [t for t in threading.enumerate() if THREAD_NAME in t.name]


class SelectedByAuto(FakeDevice):
    """Selected by "auto" from 100 on, and in a group from 1000 on."""

    auto_work, group_work = 100, 1000


@pytest.fixture
def only_two_engines(monkeypatch):
    """Engines are `jit`, and `half` as an accelerator."""
    for name in [name for name in ENGINES if name not in ("jit", "half")]:
        monkeypatch.delitem(ENGINES, name)
    monkeypatch.setitem(ENGINES, "half", SelectedByAuto)


@pytest.mark.parametrize(("work", "name"), [(99, "jit"), (100, "half:0"), (1000, "half:0,1")])
def test_auto_selects_all_devices_for_large_work(only_two_engines, work, name):
    with get_engine("auto", work) as engine:
        assert engine.name == name


@pytest.mark.parametrize(
    ("device", "work", "name"),
    [
        ("half:all", (999,), "half:0"), ("half:all", (1000,), "half:0,1"),
        ("half:all", (1000, 9), "half:0"), ("half:all", (1000, 10), "half:0,1"),
        ("half:all", (), "half:0,1"), ("half:0,1", (0,), "half:0,1"),
    ],
)  # fmt: skip
def test_one_device_of_all_computes_a_small_job(only_two_engines, device, work, name):
    with get_engine(device, *work) as engine:
        assert engine.name == name


def test_the_device_of_a_small_fit(only_two_engines):
    X, y = np.eye(60, 3), np.arange(60.0)
    model = TanhRegressor(5, feature_weights=None, alpha=1.0, device="half:all")
    assert model.fit(X, y).device_ == "half:0"
    assert model.set_params(n_hidden=6).fit(X, y).device_ == "half:0,1"
    assert model.set_params(n_hidden=7).fit(X, y).device_ == "half:0"


def test_a_small_job_does_not_number_its_thread(only_two_engines, monkeypatch):
    """Threads are numbered in the order of their first large job, and then use different GPUs."""
    monkeypatch.setattr("sklearn_fsvc._src.engines.registry.worker_index", pytest.fail)
    with get_engine("auto", 100) as engine:
        assert engine.name == "half:0"


def test_auto_selects_one_device_in_a_worker(only_two_engines, monkeypatch):
    monkeypatch.setattr("sklearn_fsvc._src.engines.registry.worker_index", lambda: 1)
    with get_engine("auto", 1000) as engine:
        assert engine.device_group is None
