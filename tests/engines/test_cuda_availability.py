"""Why a GPU cannot be used: each reason in its own words, with its remedy."""

import os
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.engines.cuda import availability
from sklearn_fsvc._src.engines.kernels.ptx import NoCompiler
from sklearn_fsvc._src.extras import install


class DriverError(RuntimeError):
    pass


def raising(error):
    def function(*args):
        raise error

    return function


@pytest.fixture
def fake(monkeypatch):
    """A CuPy that sees one GPU."""
    monkeypatch.setattr(availability, "_WORKING", set())
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=DriverError)
    cupy = ModuleType("cupy")
    cupy.__version__ = "0.0"
    cupy.cuda = SimpleNamespace(runtime=runtime, Device=lambda index: nullcontext())
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(availability, "_try", lambda cupy, index: None)
    return cupy


def refusal(device="cuda"):
    with pytest.raises(RuntimeError) as caught:
        get_engine(device)
    return str(caught.value)


def test_it_works(fake):
    assert get_engine("cuda:0").why_unavailable() is None


def test_cupy_is_missing(fake, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    said = refusal()
    assert "CuPy cannot be imported" in said
    assert install("cuda13") in said


def test_a_kernel_was_changed_and_there_is_no_compiler(fake, monkeypatch):
    """Then the GPU is no worse for it, and CuPy's extra would not help."""
    error = NoCompiler("the kernel 'pack': pip install '.[cuda-kernels]'")
    monkeypatch.setattr(availability, "_try", raising(error))
    said = refusal()
    assert "the kernel 'pack': pip install '.[cuda-kernels]'" in said
    assert "cuda13" not in said


def test_a_library_is_missing(fake, monkeypatch):
    monkeypatch.setattr(availability, "_try", raising(ImportError("libcublas.so.13")))
    said = refusal()
    assert "(ImportError: libcublas.so.13)" in said
    assert install("cuda13") in said


def test_no_driver(fake):
    fake.cuda.runtime.getDeviceCount = raising(DriverError("insufficient driver"))
    said = refusal()
    assert "no NVIDIA GPU can be reached (insufficient driver)" in said
    assert "driver at least as new as" in said


def test_no_such_gpu(fake):
    assert "'cuda:2' cannot be used: there is 1 GPU, numbered from 0" in refusal("cuda:2")


@pytest.mark.parametrize("error", [MemoryError("no room"), DriverError("out of memory: no room")])
def test_too_little_memory(fake, monkeypatch, error):
    monkeypatch.setattr(availability, "_try", raising(error))
    said = refusal()
    assert "too little memory is free on GPU 0" in said
    assert "end what else is there" in said


def test_a_kernel_cannot_be_loaded(fake, monkeypatch):
    monkeypatch.setattr(availability, "_try", raising(TypeError("this NumPy is too new")))
    said = refusal()
    assert "(TypeError: this NumPy is too new)" in said
    assert "NumPy" in said
    assert "CuPy 0.0" in said
    assert "Update" in said


def test_a_fork(fake, monkeypatch):
    monkeypatch.setattr(availability, "_WORKING", {(os.getpid() + 1, None)})
    assert "forked" in refusal()
    assert "spawn" in refusal()


def test_a_failure_is_not_remembered(fake, monkeypatch):
    monkeypatch.setattr(availability, "_try", raising(MemoryError()))
    refusal()
    monkeypatch.setattr(availability, "_try", lambda cupy, index: None)
    get_engine("cuda")


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
