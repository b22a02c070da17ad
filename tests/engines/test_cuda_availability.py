"""Why a GPU cannot be used: the reason and the remedy of each case."""

import os
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

from sklearn_fsvc._src.engines.cuda import CudaEngine, availability
from sklearn_fsvc._src.engines.kernels.cuda.compiler import CompilerMissing
from sklearn_fsvc._src.utils.availability import install_command
from sklearn_fsvc.engines import get_engine


class DriverError(RuntimeError):
    pass


def raising(error):
    def function(*args):
        raise error

    return function


class Working(CudaEngine):
    """A GPU on which a kernel gives the right result."""

    def check_kernel(self):
        return None


def failing(error):
    """Return the engine of a GPU on which a kernel raises."""

    class Failing(CudaEngine):
        check_kernel = raising(error)

    return Failing


def reason(engine, index=None, working=()):
    return availability.why_unavailable(engine, index, set(working))


@pytest.fixture
def fake(monkeypatch):
    """A CuPy with one GPU."""
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=DriverError)
    cupy = ModuleType("cupy")
    cupy.__version__ = "0.0"
    cupy.cuda = SimpleNamespace(runtime=runtime, Device=lambda index: nullcontext())
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


def test_a_working_gpu(fake):
    assert reason(Working) is None
    assert reason(Working, 0) is None


def test_get_engine_raises_the_reason(fake):
    fake.cuda.runtime.getDeviceCount = lambda: 0
    with pytest.raises(RuntimeError, match="'cuda:99' cannot be used: there are 0 GPUs"):
        get_engine("cuda:99")


def test_cupy_is_missing(fake, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "CuPy cannot be imported" in reason(Working)
    assert install_command("cuda13") in reason(Working)


def test_kernels_are_not_compiled_and_the_compiler_is_missing(fake):
    """The reason is only that: the extra with CuPy would not help."""
    message = "the CUDA kernel 'pack' is not compiled: pip install '.[cuda-kernels]'"
    assert reason(failing(CompilerMissing(message))) == message


def test_a_library_is_missing(fake):
    message = reason(failing(ImportError("libcublas.so.13")))
    assert "(ImportError: libcublas.so.13)" in message
    assert install_command("cuda13") in message


def test_no_driver(fake):
    fake.cuda.runtime.getDeviceCount = raising(DriverError("insufficient driver"))
    assert "no NVIDIA GPU can be reached (insufficient driver)" in reason(Working)
    assert "driver at least as new as" in reason(Working)


def test_no_such_gpu(fake):
    assert reason(Working, 2) == "there is 1 GPU, numbered from 0"


@pytest.mark.parametrize("error", [MemoryError("no room"), DriverError("out of memory: no room")])
def test_too_little_memory(fake, error):
    message = reason(failing(error))
    assert "too little memory is free on GPU 0" in message
    assert "end other processes" in message


def test_a_kernel_cannot_be_loaded(fake):
    message = reason(failing(TypeError("this NumPy is too new")))
    assert "(TypeError: this NumPy is too new)" in message
    assert "NumPy" in message
    assert "CuPy 0.0" in message
    assert "Update" in message


def test_a_fork(fake):
    message = reason(Working, working={(os.getpid() + 1, None)})
    assert "forked" in message
    assert "spawn" in message


def test_only_success_is_remembered(fake):
    working = set()
    assert availability.why_unavailable(failing(MemoryError()), None, working)
    assert not working
    assert availability.why_unavailable(Working, None, working) is None
    assert availability.why_unavailable(failing(MemoryError()), None, working) is None


@pytest.mark.parametrize(("before", "during"), [(None, "1"), ("0", "0")])
def test_cupy_precompiles_headers_unless_the_user_disables_it(
    monkeypatch, tmp_path, before, during
):
    name = "CUPY_NVRTC_USE_PCH"
    (tmp_path / "cupy.py").write_text(f"import os\nseen = os.environ.get({name!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "cupy", None)  # to restore it at the end
    del sys.modules["cupy"]
    monkeypatch.setenv(name, before or "")
    if before is None:
        monkeypatch.delenv(name)
    assert availability._import_cupy().seen == during
    assert os.environ.get(name) == before
