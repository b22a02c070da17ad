"""Options and fixtures: the engines of the registry, and the datasets of the FSVC authors."""

import gc
import os
from collections import defaultdict
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sklearn_fsvc._src.engines import ENGINES, jit

pytest.register_assert_rewrite("search.comparing")

# Package -> test modules that import it.
REQUIRED_BY = {
    "skl2onnx": (
        "export/converted.py", "export/test_onnx.py", "export/test_onnx_errors.py",
        "export/test_onnx_layers.py", "export/test_sizes.py",
    ),
    "numpydoc": ("documentation/test_docstrings.py",),
}  # fmt: skip
MISSING_PACKAGES = [package for package in REQUIRED_BY if find_spec(package) is None]
collect_ignore = [path for package in MISSING_PACKAGES for path in REQUIRED_BY[package]]


def pytest_report_header(config):
    lines = [
        f"{package} is not installed: without {', '.join(REQUIRED_BY[package])}"
        for package in MISSING_PACKAGES
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
    """Limit BLAS to one thread in each xdist worker and its subprocesses, which share the cores.

    Threads of the engines are not limited.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
        threadpool_limits(1, user_api="blas")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exclude collected tests from garbage collection: they are never freed, and there are many."""
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
    """Return the engines that work, and those that `--require-engine` names (their tests fail)."""
    required = config.getoption("--require-engine")
    return [name for name in ENGINES if name in required or why_unavailable(name) is None]


# MKL differs from `blas` in its products and its tanh: tests of engines always include both.
MARKS_OF_DEVICES = {"mkl": pytest.mark.exhaustive}


def pytest_generate_tests(metafunc):
    """Parametrize tests by the available engines, instead of skipping 1,500 variants."""
    tested = tested_engines(metafunc.config)
    if "engine_name" in metafunc.fixturenames:
        metafunc.parametrize("engine_name", tested)
    if "device_name" in metafunc.fixturenames:
        marked = [pytest.param(name, marks=MARKS_OF_DEVICES.get(name, ())) for name in tested]
        metafunc.parametrize("device_name", marked)
    if "namespace_engine" in metafunc.fixturenames:  # one engine for each array namespace
        metafunc.parametrize("namespace_engine", [n for n in tested if n in ("jit", "cuda")])


# Tests with several variants are thinned, except where each of them is about something else.
NOT_THINNED = (
    "sklearn", "scikit_learn", "invalid", "bad_input", "errors", "golden", "tests/documentation/",
    "tests/utils/", "tests/test_architecture",
)  # fmt: skip


def pytest_collection_modifyitems(config, items):
    """Mark three quarters of the variants of a test exhaustive, or all but one of two or three.

    A bug seldom fails one variant alone. A hash of the names decides, so that nearly all values of
    each parameter remain. Where an engine of a GPU is required, all variants are tested.
    """
    if {"cuda", "torch"} & set(config.getoption("--require-engine")):
        return
    variants = defaultdict(list)
    for item in items:
        if item.get_closest_marker("exhaustive") is None:  # else there may be none left
            variants[item.nodeid.partition("[")[0]].append(item)
    for name, items_of_test in variants.items():
        if not any(part in name for part in NOT_THINNED):
            items_of_test.sort(key=lambda item: crc32(item.nodeid.encode()))
            for item in items_of_test[: len(items_of_test) * 3 // 4]:
                item.add_marker(pytest.mark.exhaustive)


def open_engine(name, config):
    """Return an engine; if it is unavailable, skip the test, or fail if it is required."""
    engine = ENGINES[name]()
    reason = engine.why_unavailable()
    if reason and name in config.getoption("--require-engine"):
        pytest.fail(f"engine {name} was required: {reason}")
    if reason:
        pytest.skip(reason)
    return engine


@pytest.fixture(scope="session")
def profile_folders(tmp_path_factory):
    """Iterate over names of folders that do not exist yet.

    Creating a `tmp_path` for each test would take longer than most tests.
    """
    folder = tmp_path_factory.mktemp("profiles")
    return (str(folder / str(i)) for i in count())


@pytest.fixture(autouse=True)
def empty_profile_folder(profile_folders, monkeypatch):
    """Tests must not use the settings that were tuned on this machine."""
    monkeypatch.setenv("SKLEARN_FSVC_CACHE", next(profile_folders))


@pytest.fixture
def few_cores(monkeypatch):
    """Use the default settings of a machine with two cores, which tests expect."""
    choices = jit.thread_choices
    monkeypatch.setattr(jit, "thread_choices", lambda: tuple(dict.fromkeys((2, *choices()))))


@pytest.fixture
def idle_machine(monkeypatch):
    """Simulate a machine without other load, for `tune`."""
    monkeypatch.setattr("sklearn_fsvc._src.tuning.other_load", lambda: 0.0)


@pytest.fixture
def engine(engine_name, request):
    with open_engine(engine_name, request.config) as engine:
        yield engine


@pytest.fixture
def device(device_name, request):
    open_engine(device_name, request.config)
    return device_name


@pytest.fixture
def fsvc_data():
    """Return a function: name -> X_train, y_train, X_test, y_test in float64, in file order."""
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
