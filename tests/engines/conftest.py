"""Fixtures: CuPy if there is a GPU, LLVM for Arm, caches of numba, and numbers of threads."""

import joblib
import numpy as np
import pytest
from llvmlite import binding
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from conftest import open_engine
from sklearn_fsvc._src.engines import threads
from sklearn_fsvc._src.engines.kernels.cuda import build, programs


@pytest.fixture
def cupy(request):
    open_engine("cuda", request.config)
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
    """LLVM's target for Arm processors, on any machine."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        return binding.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError as error:
        pytest.skip(f"llvmlite does not compile for Arm processors here ({error})")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.uint8), y


@pytest.fixture
def set_numba_cache(monkeypatch):
    """A function that sets the folder in which numba caches what is compiled from then on."""
    from sklearn_fsvc._src.engines.kernels.cpu import kernel

    def set_folder(folder):
        monkeypatch.setattr("numba.config.CACHE_DIR", str(folder))
        kernel.cache_clear()

    yield set_folder
    kernel.cache_clear()


@pytest.fixture
def sixteen_threads(monkeypatch):
    """8 cores with two hardware threads each, and no limit of the user."""

    def cpu_count(only_physical_cores=False):
        return 8 if only_physical_cores else 16

    monkeypatch.setattr(joblib, "cpu_count", cpu_count)
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    # Both libraries have read the variables when they were loaded.
    monkeypatch.setattr(threads, "_openmp_effective_n_threads", lambda **kwargs: 16)
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 16)
    threads._count_cores.cache_clear()
    yield
    threads._count_cores.cache_clear()


@pytest.fixture
def blas_thread_counts():
    """A function that returns the numbers of threads of all BLAS libraries."""
    return lambda: {library.get() for library in threads._libraries()}


@pytest.fixture
def three_blas_threads(blas_thread_counts):
    """Each BLAS may use three threads, on any machine."""
    with threadpool_limits(3, "blas"):
        if blas_thread_counts() != {3}:
            pytest.skip("the number of threads of a BLAS cannot be set here")
        yield
