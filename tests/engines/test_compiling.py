"""Compiled kernels with a cache, without one, and where numba cannot compile."""

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
# Predicts with a pickled model, and prints the warnings.
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


@pytest.mark.exhaustive
def test_a_model_predicts_where_kernels_cannot_be_cached(model, zipped):
    """`test_demo.py` has a fit where nothing can be written."""
    done = run(zipped, "-c", PREDICT, zipped, model, "f4", NUMBA_CACHE_DIR="/dev/null")
    lines = done.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(
        "RuntimeWarning The kernels of the jit engine cannot be kept on disk"
    )
    assert "Set NUMBA_CACHE_DIR to a folder that can be written; a package in a zip" in lines[0]


FIT = """
import numpy as np
from sklearn_fsvc import TanhRegressor
X = np.random.default_rng(0).random((50, 3))
for verbose in (1, 1, 0):
    TanhRegressor(
        5, feature_weights=None, alpha=1, random_state=0, device="jit", verbose=verbose
    ).fit(X, X[:, 0])
"""


@pytest.mark.exhaustive
def test_kernels_are_compiled_once_and_again_for_changed_sources(read_only, tmp_path):
    """The first verbose fit prints it; the next process loads the kernels.

    numba itself checks only the file of the function.
    """
    folder, n_kept = tmp_path / "cache", []
    source = read_only / "sklearn_fsvc" / "_src" / "engines" / "kernels" / "vector_ops.py"
    for is_changed, times in ((False, 1), (False, 0), (True, 1)):
        if is_changed:
            source.write_text(source.read_text() + "# changed\n")
        output = run(read_only, "-c", FIT, NUMBA_CACHE_DIR=str(folder))
        assert output.count("[TanhRegressor fit] compiling loops") == times
        n_kept.append(len(list(folder.rglob("*.nbc"))))
    assert 1 < n_kept[0] == n_kept[1] < n_kept[2]


@pytest.fixture
def cache(tmp_path, monkeypatch, set_numba_cache):
    """A folder in which kernels are cached from here on, none of which is compiled yet."""
    monkeypatch.setattr(compiling, "_has_warned", False)
    set_numba_cache(tmp_path / "cache")
    return tmp_path / "cache"


def distances():
    """Return a prepared layer, whose kernel no other test here has compiled, and its evaluation."""
    X = np.array([[0.0, 0.0], [3.0, 4.0]])
    engine, layer = jit.JitEngine(), RBFLayer(X, metric="sqeuclidean", kernel="distance")
    return engine.prepare(layer), lambda prepared: engine.hidden(prepared, X)


def test_the_cache_folder_may_be_deleted(cache):
    prepared, evaluate = distances()
    shutil.rmtree(cache)
    cache.touch()
    with pytest.warns(RuntimeWarning, match="cannot be kept on disk .*Set NUMBA_CACHE_DIR"):
        np.testing.assert_array_equal(evaluate(prepared)[0] > 0, [False, True])
    evaluate(prepared)


def test_cached_kernels_that_cannot_be_read_are_compiled(cache):
    prepared, evaluate = distances()
    expected = evaluate(prepared)
    for index in cache.rglob("*.nbi"):
        index.unlink()
        index.mkdir()
    cpu.kernel.cache_clear()
    prepared, evaluate = distances()
    with pytest.warns(RuntimeWarning, match="cannot be kept on disk"):
        np.testing.assert_array_equal(evaluate(prepared), expected)


def test_a_disabled_compiler_is_reported(monkeypatch, capsys):
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    info()
    output = capsys.readouterr().out
    assert (
        "  jit     no: NUMBA_DISABLE_JIT turns numba's compiler off; unset the variable" in output
    )


def test_availability_is_checked_by_a_kernel_until_it_works(monkeypatch):
    jit._try_a_kernel.cache_clear()
    calls, byte_sums, is_broken = [], jit._byte_sums, True

    def broken_at_first(X):
        calls.append(X)
        if is_broken:
            raise RuntimeError("no memory may be executed.")
        return byte_sums(X)

    monkeypatch.setattr(jit, "_byte_sums", broken_at_first)
    for n_calls in (1, 2):
        with pytest.raises(
            RuntimeError, match=r"'cpu' cannot be used: no memory may be executed.$"
        ):
            get_engine("cpu")
        assert len(calls) == n_calls
    is_broken = False
    for _ in range(2):
        assert jit.JitEngine().why_unavailable() is None
    assert len(calls) == 3


def test_ctrl_c_interrupts_after_the_compilation(monkeypatch):
    """During it, a lock of LLVM would stay held, and other threads would wait for it forever."""
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
