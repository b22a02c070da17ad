"""Kernels of `jit` where numba can keep them, where it cannot, and where it does not compile."""

import _thread
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import sklearn_fsvc
from sklearn_fsvc import TanhProjector
from sklearn_fsvc._src.cli import info
from sklearn_fsvc._src.engines import jit
from sklearn_fsvc._src.engines.kernels import compiling, cpu
from sklearn_fsvc._src.layers import RBFLayer
from sklearn_fsvc.engines import get_engine

PACKAGE = Path(sklearn_fsvc.__file__).parent
# What an unpickled model does, and what it warns of.
PREDICT = """
import pickle, sys, warnings
path, model, *others = sys.argv[1:]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with open(model, "rb") as file:
        model, X, H = pickle.load(file)
    assert abs(model.transform(X) - H).max() < 1e-6
    for dtype in others:
        model.transform(X.astype(dtype))
import sklearn_fsvc
assert sklearn_fsvc.__file__.startswith(path), sklearn_fsvc.__file__
for warning in caught:
    print(warning.category.__name__, warning.message)
"""


def run(path, *args, **environment):
    """Run Python with the package at `path`, without a home."""
    inherited = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"}
    environment = {"HOME": "/dev/null"} | environment
    done = subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, text=True, cwd="/",
        env=inherited | {"PYTHONPATH": str(path)} | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def model(tmp_path, rng):
    X = rng.random((20, 4))
    projector = TanhProjector(5, random_state=0, device="jit").fit(X)
    path = tmp_path / "model"
    path.write_bytes(pickle.dumps((projector, X, np.asarray(projector.transform(X)))))
    return path


@pytest.fixture
def read_only(tmp_path):
    """A folder with the package, in which numba cannot write: modes would not stop root."""
    target = tmp_path / "site" / "sklearn_fsvc"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    (target / "_src" / "engines" / "kernels" / "__pycache__").touch()
    return target.parent


@pytest.fixture
def zipped(tmp_path):
    target = tmp_path / "package.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for path in PACKAGE.rglob("*.py"):
            archive.write(path, path.relative_to(PACKAGE.parent))
    return target


def test_a_model_answers_where_kernels_cannot_be_kept(model, zipped):
    """Where nothing may be written `test_demo.py` has a fit."""
    done = run(zipped, "-c", PREDICT, zipped, model, "f4", NUMBA_CACHE_DIR="/dev/null")
    said = done.splitlines()
    assert len(said) == 1, said
    assert said[0].startswith("RuntimeWarning The kernels of the jit engine cannot be kept on disk")
    assert "Set NUMBA_CACHE_DIR to a folder that can be written; a package in a zip" in said[0]


FIT = """
import numpy as np
from sklearn_fsvc import TanhRegressor
X = np.random.default_rng(0).random((50, 3))
for verbose in (1, 1, 0):
    TanhRegressor(
        5, feature_weights=None, alpha=1, random_state=0, device="jit", verbose=verbose
    ).fit(X, X[:, 0])
"""


def test_kernels_are_compiled_once_and_anew_for_changed_sources(read_only, tmp_path):
    """The first fit that is verbose says so; the next process has nothing to say.

    numba itself looks for changes in the file of the function alone.
    """
    folder, n_kept = tmp_path / "cache", []
    terms = read_only / "sklearn_fsvc" / "_src" / "engines" / "kernels" / "terms.py"
    for is_changed, times in ((False, 1), (False, 0), (True, 1)):
        if is_changed:
            terms.write_text(terms.read_text() + "# changed\n")
        said = run(read_only, "-c", FIT, NUMBA_CACHE_DIR=str(folder))
        assert said.count("[TanhRegressor fit] compiling loops") == times
        n_kept.append(len(list(folder.rglob("*.nbc"))))
    assert 1 < n_kept[0] == n_kept[1] < n_kept[2]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder for what is compiled from here on, and kernels that are not compiled yet."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling, "_warned", False)

    cpu.kernel.cache_clear()
    yield tmp_path / "cache"
    cpu.kernel.cache_clear()


def distances():
    """By a kernel that no other test here has compiled."""
    X = np.array([[0.0, 0.0], [3.0, 4.0]])
    engine, layer = jit.JitEngine(), RBFLayer(X, metric="sqeuclidean", kernel="distance")
    return engine.prepare(layer), lambda prepared: engine.hidden(prepared, X)


def test_a_cache_folder_may_go_away(cache):
    prepared, evaluate = distances()
    shutil.rmtree(cache)
    cache.touch()
    with pytest.warns(RuntimeWarning, match="cannot be kept on disk .*Set NUMBA_CACHE_DIR"):
        np.testing.assert_array_equal(evaluate(prepared)[0] > 0, [False, True])
    evaluate(prepared)


def test_kernels_that_cannot_be_read_are_compiled(cache):
    prepared, evaluate = distances()
    expected = evaluate(prepared)
    for index in cache.rglob("*.nbi"):
        index.unlink()
        index.mkdir()
    cpu.kernel.cache_clear()
    prepared, evaluate = distances()
    with pytest.warns(RuntimeWarning, match="cannot be kept on disk"):
        np.testing.assert_array_equal(evaluate(prepared), expected)


def test_numba_that_may_not_compile(monkeypatch, capsys):
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    info()
    said = capsys.readouterr().out
    assert "  jit     no: NUMBA_DISABLE_JIT turns numba's compiler off; unset the variable" in said


def test_info_tries_what_fit_will_do(monkeypatch):
    """Once: what works is not tried again."""
    jit._try_a_kernel.cache_clear()
    calls = []

    def fail(X):
        calls.append(X)
        raise RuntimeError("no memory may be executed.")

    with monkeypatch.context() as patched:
        patched.setattr(jit, "_byte_sums", fail)
        with pytest.raises(
            RuntimeError, match=r"'cpu' cannot be used: no memory may be executed.$"
        ):
            get_engine("cpu")
        assert len(calls) == 1
    assert jit.JitEngine().why_unavailable() is None
    monkeypatch.setattr(jit, "_byte_sums", fail)
    assert jit.JitEngine().why_unavailable() is None
    assert len(calls) == 1


def test_ctrl_c_waits_for_the_kernel_that_is_compiled(monkeypatch):
    """It would leave a lock of LLVM held, for which other threads wait for ever."""
    kernel, ends = compiling.jit(lambda x: x + 1), []

    def load(signature, context):
        _thread.interrupt_main()
        time.sleep(0.2)
        ends.append(threading.current_thread())

    monkeypatch.setattr(kernel, "_cache", mock.Mock(load_overload=load))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(1)
    finally:
        signal.signal(signal.SIGINT, before)
    (thread,) = ends
    assert thread is not threading.main_thread()
    assert kernel(1) == 2
    assert len(ends) == 1
