"""The array library of a GPU, where there is one, and the compiler for Arm."""

import joblib
import numpy as np
import pytest
from llvmlite import binding
from sklearn.datasets import load_digits

from conftest import usable
from sklearn_fsvc._src.engines import threads
from sklearn_fsvc._src.engines.kernels.cuda import build, programs


@pytest.fixture
def cupy(request):
    usable("cuda", request.config)
    import cupy

    return cupy


@pytest.fixture
def archive():
    """The archive of compiled CUDA kernels: of a wheel, or built into the checkout."""
    path = build.default_archive()
    if programs.read(path, programs.PTX, *build.all_kernels()[0]) is None:
        pytest.skip(f"the kernels are not built: python -m {build.__name__}")
    return path


@pytest.fixture(scope="session")
def llvm_of_arm():
    """LLVM as a compiler for processors of Arm, whichever this one is."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        return binding.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError as error:
        pytest.skip(f"llvmlite here compiles for no processor of Arm ({error})")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.uint8), y


@pytest.fixture
def sixteen_threads(monkeypatch):
    """8 cores with two threads each, and no limit that is set."""

    def cpu_count(only_physical_cores=False):
        return 8 if only_physical_cores else 16

    monkeypatch.setattr(joblib, "cpu_count", cpu_count)
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    # They have read the variables as they were loaded.
    monkeypatch.setattr(threads, "_openmp_effective_n_threads", lambda **kwargs: 16)
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 16)
    threads._count_cores.cache_clear()
    yield
    threads._count_cores.cache_clear()
