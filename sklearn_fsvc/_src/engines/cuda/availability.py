"""Whether a GPU can be used, and if not, why."""

import os

import numpy as np

from ...utils.availability import install
from ..kernels.ptx import NoCompiler

_HEADERS = "CUPY_NVRTC_USE_PCH"
# (process, GPU) on which a kernel has run.
_WORKING = set()


def _remedy():
    return f"{install('cuda13')}, or for an older driver {install('cuda12')}"


def why_unavailable(engine, index):
    """None if the GPU works, else the sentence the user should read.

    Parameters
    ----------
    engine : class
        Made with the number of a GPU; it has `try_a_kernel`.
    index : int or None
        Which GPU was asked for; None is the first.
    """
    key = os.getpid(), index
    if key not in _WORKING:
        reason = _reason(engine, index)
        if reason:
            return reason
        _WORKING.add(key)
    return None


def _reason(engine, index):
    """Nothing counts but a kernel that was loaded, launched and gave the right answer."""
    if any(process != os.getpid() for process, _ in _WORKING):
        return (
            "this process was forked from one that has used the GPU, which CUDA does not "
            "survive. Start workers as joblib does, or by multiprocessing's spawn"
        )
    try:
        cupy = _import_cupy()
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); {_remedy()}"
    except Exception as error:  # what it needs may be broken, in whatever way
        return f"CuPy cannot be imported ({type(error).__name__}: {error}); {_remedy()}"
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return (
            f"no NVIDIA GPU can be reached ({error}). It needs an NVIDIA GPU, and its driver at "
            "least as new as the CUDA that CuPy was built for"
        )
    if (index or 0) >= n_devices:
        return f"there {'is 1 GPU' if n_devices == 1 else f'are {n_devices} GPUs'}, numbered from 0"
    try:
        return engine(index or 0).try_a_kernel()
    except NoCompiler as error:
        return str(error)
    except Exception as error:  # whatever CuPy or the driver raises is the reason
        if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
            return (
                f"too little memory is free on GPU {index or 0} ({error}); end what else is there"
            )
        return (
            f"a kernel cannot be loaded and run with NumPy {np.__version__} and CuPy "
            f"{cupy.__version__} ({type(error).__name__}: {error}). Update the driver and "
            f"these; {_remedy()}"
        )


def _import_cupy():
    """CuPy, which is told to keep the headers of its kernels compiled while it compiles them.

    It looks as it is imported, and what the user has set counts. The kernels are the same, and
    take half the time.
    """
    is_set = _HEADERS in os.environ
    os.environ.setdefault(_HEADERS, "1")
    try:
        import cupy
    finally:
        if not is_set:
            del os.environ[_HEADERS]
    return cupy
