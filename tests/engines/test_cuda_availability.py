"""Why a GPU cannot be used: each reason in its own words, with its remedy."""

import os
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

from sklearn_fsvc._src.engines.cuda import CudaEngine, availability
from sklearn_fsvc._src.engines.kernels.ptx import NoCompiler
from sklearn_fsvc._src.utils.availability import install
from sklearn_fsvc.engines import get_engine


class DriverError(RuntimeError):
    pass


def raising(error):
    def function(*args):
        raise error

    return function


class Working(CudaEngine):
    """A GPU on which a kernel gives what it should."""

    def try_a_kernel(self):
        return None


def failing(error):
    """A GPU on which it fails."""

    class Failing(CudaEngine):
        try_a_kernel = raising(error)

    return Failing()


@pytest.fixture
def fake(monkeypatch):
    """A CuPy that sees one GPU."""
    monkeypatch.setattr(availability, "_WORKING", set())
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=DriverError)
    cupy = ModuleType("cupy")
    cupy.__version__ = "0.0"
    cupy.cuda = SimpleNamespace(runtime=runtime, Device=lambda index: nullcontext())
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


def test_it_works(fake):
    assert Working().why_unavailable() is None
    assert Working(0).why_unavailable() is None


def test_the_registry_says_so(fake):
    fake.cuda.runtime.getDeviceCount = lambda: 0
    with pytest.raises(RuntimeError, match="'cuda:2' cannot be used: there are 0 GPUs"):
        get_engine("cuda:2")


def test_cupy_is_missing(fake, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    said = Working().why_unavailable()
    assert "CuPy cannot be imported" in said
    assert install("cuda13") in said


def test_a_kernel_was_changed_and_there_is_no_compiler(fake):
    """Then the GPU is no worse for it, and CuPy's extra would not help."""
    error = NoCompiler("the kernel 'pack': pip install '.[cuda-kernels]'")
    said = failing(error).why_unavailable()
    assert "the kernel 'pack': pip install '.[cuda-kernels]'" in said
    assert "cuda13" not in said


def test_a_library_is_missing(fake):
    said = failing(ImportError("libcublas.so.13")).why_unavailable()
    assert "(ImportError: libcublas.so.13)" in said
    assert install("cuda13") in said


def test_no_driver(fake):
    fake.cuda.runtime.getDeviceCount = raising(DriverError("insufficient driver"))
    said = Working().why_unavailable()
    assert "no NVIDIA GPU can be reached (insufficient driver)" in said
    assert "driver at least as new as" in said


def test_no_such_gpu(fake):
    assert Working(2).why_unavailable() == "there is 1 GPU, numbered from 0"


@pytest.mark.parametrize("error", [MemoryError("no room"), DriverError("out of memory: no room")])
def test_too_little_memory(fake, error):
    said = failing(error).why_unavailable()
    assert "too little memory is free on GPU 0" in said
    assert "end what else is there" in said


def test_a_kernel_cannot_be_loaded(fake):
    said = failing(TypeError("this NumPy is too new")).why_unavailable()
    assert "(TypeError: this NumPy is too new)" in said
    assert "NumPy" in said
    assert "CuPy 0.0" in said
    assert "Update" in said


def test_a_fork(fake, monkeypatch):
    monkeypatch.setattr(availability, "_WORKING", {(os.getpid() + 1, None)})
    said = Working().why_unavailable()
    assert "forked" in said
    assert "spawn" in said


def test_a_failure_is_not_remembered(fake):
    assert failing(MemoryError()).why_unavailable()
    assert Working().why_unavailable() is None


@pytest.mark.parametrize(("before", "during"), [(None, "1"), ("0", "0")])
def test_cupy_keeps_headers_compiled_unless_the_user_says_no(monkeypatch, tmp_path, before, during):
    name = "CUPY_NVRTC_USE_PCH"
    (tmp_path / "cupy.py").write_text(f"import os\nseen = os.environ.get({name!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "cupy", None)  # so that it is as before in the end
    del sys.modules["cupy"]
    monkeypatch.setenv(name, before or "")
    if before is None:
        monkeypatch.delenv(name)
    assert availability._import_cupy().seen == during
    assert os.environ.get(name) == before
