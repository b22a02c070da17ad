"""Whether a GPU can be used, and if not, the reason and the remedy."""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ...utils.availability import install_command
from ..kernels.cuda.compiler import CompilerMissing

_PRECOMPILED_HEADERS = "CUPY_NVRTC_USE_PCH"
# The default of `why_unavailable`.
_working: set[tuple[int, int | None]] = set()


def _remedy() -> str:
    return f"{install_command('cuda13')}, or for an older driver {install_command('cuda12')}"


def why_unavailable(
    engine: Callable[[int], Any], index: int | None, working: set[tuple[int, int | None]] = _working
) -> str | None:
    """Return None if the GPU works, else a sentence for the user.

    Parameters
    ----------
    engine : class
        Called with the number of a GPU; its `check_kernel` runs a kernel there.
    index : int or None
        The requested GPU; None is the first one.
    working : set
        (process id, GPU) pairs on which a kernel has run; this one is added.
    """
    key = os.getpid(), index
    if key in working:
        return None
    if any(process != os.getpid() for process, _ in working):
        return (
            "this process was forked from one that has used the GPU, which CUDA does not "
            "support. Start workers as joblib does, or by multiprocessing's spawn"
        )
    reason = _reason(engine, index)
    if reason is None:
        working.add(key)
    return reason


def _reason(engine: Callable[[int], Any], index: int | None) -> str | None:
    """Return why a GPU does not work: only a kernel with the right result shows that it does."""
    try:
        cupy = _import_cupy()
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); {_remedy()}"
    except Exception as error:  # a broken dependency may raise anything
        return f"CuPy cannot be imported ({type(error).__name__}: {error}); {_remedy()}"
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return (
            f"no NVIDIA GPU can be reached ({error}). The engine needs an NVIDIA GPU, and a driver "
            "at least as new as the CUDA version that CuPy was built for"
        )
    if (index or 0) >= n_devices:
        return f"there {'is 1 GPU' if n_devices == 1 else f'are {n_devices} GPUs'}, numbered from 0"
    try:
        return engine(index or 0).check_kernel()
    except CompilerMissing as error:
        return str(error)
    except Exception as error:  # CuPy and the driver raise many types
        if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
            return (
                f"too little memory is free on GPU {index or 0} ({error}); end other processes "
                "that use it"
            )
        return (
            f"a kernel cannot be loaded and run with NumPy {np.__version__} and CuPy "
            f"{cupy.__version__} ({type(error).__name__}: {error}). Update the driver and "
            f"these packages; {_remedy()}"
        )


def _import_cupy() -> ModuleType:
    """Import CuPy, with precompiled headers unless the user has chosen otherwise.

    They halve the compilation time of CuPy's own kernels. CuPy reads the variable when it is
    imported.
    """
    is_set = _PRECOMPILED_HEADERS in os.environ
    os.environ.setdefault(_PRECOMPILED_HEADERS, "1")
    try:
        import cupy
    finally:
        if not is_set:
            del os.environ[_PRECOMPILED_HEADERS]
    return cupy
