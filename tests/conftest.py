"""Options and fixtures: every engine of the registry, and the data sets of the authors."""

import gc
import os
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sklearn_fsvc._src.engines import ENGINES, jit

pytest.register_assert_rewrite("search.comparing")

# Modules that cannot be imported without a package.
NEEDS = {
    "skl2onnx": (
        "export/converted.py", "export/test_onnx.py", "export/test_onnx_errors.py",
        "export/test_onnx_layers.py", "export/test_sizes.py",
    ),
    "numpydoc": ("documentation/test_docstrings.py",),
}  # fmt: skip
MISSING = [package for package in NEEDS if find_spec(package) is None]
collect_ignore = [path for package in MISSING for path in NEEDS[package]]


def pytest_report_header(config):
    lines = [
        f"{package} is not installed: without {', '.join(NEEDS[package])}" for package in MISSING
    ]
    tested = tested_engines(config)
    for name in ENGINES:
        if name not in tested:
            lines.append(f"engine {name} is not tested: {why_unavailable(name)}")
    return lines


def pytest_addoption(parser):
    parser.addoption(
        "--require-engine", action="append", default=[], choices=list(ENGINES),
        help="fail, instead of skipping, where this engine does not work",
    )  # fmt: skip


def pytest_configure(config):
    """One thread for each BLAS of a worker, and for those of the programs it starts.

    Workers share the cores. What the engines do with threads of their own stays as it is.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
        threadpool_limits(1, user_api="blas")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Ten thousand tests stay to the end: nobody looks for garbage among them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@cache
def why_unavailable(name):
    return ENGINES[name]().why_unavailable()


def tested_engines(config):
    """Return the engines that work, and those that `--require-engine` names: their tests fail."""
    required = config.getoption("--require-engine")
    return [name for name in ENGINES if name in required or why_unavailable(name) is None]


# MKL has other products and another tanh than `blas`: tests of engines have both.
MARKS_OF_DEVICES = {"mkl": pytest.mark.exhaustive}


def pytest_generate_tests(metafunc):
    """Generate variants of the tested engines only: 1,500 would be collected to be skipped."""
    tested = tested_engines(metafunc.config)
    if "engine_name" in metafunc.fixturenames:
        metafunc.parametrize("engine_name", tested)
    if "device_name" in metafunc.fixturenames:
        marked = [pytest.param(name, marks=MARKS_OF_DEVICES.get(name, ())) for name in tested]
        metafunc.parametrize("device_name", marked)
    if "namespace_engine" in metafunc.fixturenames:  # of each namespace of arrays, one engine
        metafunc.parametrize("namespace_engine", [n for n in tested if n in ("jit", "cuda")])


def usable(name, config):
    """The engine, or a skip with its own reason."""
    engine = ENGINES[name]()
    reason = engine.why_unavailable()
    if reason and name in config.getoption("--require-engine"):
        pytest.fail(f"engine {name} was required: {reason}")
    if reason:
        pytest.skip(reason)
    return engine


@pytest.fixture(scope="session")
def profiles(tmp_path_factory):
    """Names of folders that are not there yet.

    A `tmp_path` for each of many thousand tests would take longer than most of them.
    """
    folder = tmp_path_factory.mktemp("profiles")
    return (str(folder / str(i)) for i in count())


@pytest.fixture(autouse=True)
def profiles_of_their_own(profiles, monkeypatch):
    """What was tuned on this machine has no part in the tests."""
    monkeypatch.setenv("SKLEARN_FSVC_CACHE", next(profiles))


@pytest.fixture
def few_cores(monkeypatch):
    """The default sizes of a machine of two cores, which tests name."""
    choices = jit.thread_choices
    monkeypatch.setattr(jit, "thread_choices", lambda: tuple(dict.fromkeys((2, *choices()))))


@pytest.fixture
def idle(monkeypatch):
    """A machine on which no other process computes, as far as `tune` knows."""
    monkeypatch.setattr("sklearn_fsvc._src.tuning.other_load", lambda: 0.0)


@pytest.fixture
def engine(engine_name, request):
    with usable(engine_name, request.config) as engine:
        yield engine


@pytest.fixture
def device(device_name, request):
    usable(device_name, request.config)
    return device_name


@pytest.fixture
def fsvc_data():
    """name -> X_train, y_train, X_test, y_test in float64, in file order."""
    folder = os.environ.get("SKLEARN_FSVC_DATA")

    def load(name):
        path = Path(folder or "") / "fsvc" / f"{name}.npz"
        if folder is None or not path.exists():
            pytest.skip(f"needs fsvc/{name}.npz in the folder that SKLEARN_FSVC_DATA names")
        with np.load(path) as file:
            X, y, X_test, y_test = (file[k] for k in ("X_train", "y_train", "X_test", "y_test"))
        return X.astype(np.float64), y.ravel(), X_test.astype(np.float64), y_test.ravel()

    return load


@pytest.fixture
def rng():
    return np.random.default_rng(0)
