"""Engines: places where a layer is evaluated.

Who calls whom::

    estimators -> streaming -> engine.load(layer), engine.hidden(loaded, tile)
                                 |
                  jit            numba loops          kernels/simd.py emits the inner loop,
                                                      kernels/cpu.py walks the tiles
                  blas, mkl      matrix products      the same code, another library
                  cuda           one NVIDIA GPU       kernels/cuda.py, and cuBLAS; transfer.py
                                                      moves tiles while it computes

An engine is a class that fulfils `base.Engine`, in a file of its own, and one line in
`ENGINES`. Nothing above this folder knows which engines exist. A device is a string that
the user wrote; it is resolved at each call, so that a pickled estimator carries no engine.

``"cpu"`` is the fastest engine on the host. ``"auto"`` is a GPU, if there is one that works
and the job is large enough to gain, else ``"cpu"``. A device that was asked for by name is
used or refused.
"""

from importlib.util import find_spec

from .blas import BlasEngine, MklEngine
from .cuda import CudaEngine
from .jit import JitEngine

ENGINES = {engine.name: engine for engine in (JitEngine, BlasEngine, MklEngine, CudaEngine)}

# benchmarks/layers.py: `jit` leads for differences, and whole tanh transforms; for bare
# products beside other work of the BLAS the two are close.
CPU = "jit"
ALIASES = ("auto", "cpu")
# rows x units x features from which "auto" asks for a GPU: a second or more of two cores;
# the first use of a GPU in a process costs seconds.
AUTO_WORK = 10**11


def get_engine(device, work=0):
    """The engine for `device`.

    Parameters
    ----------
    device : str
        "auto", "cpu" or the name of an engine; "cuda:1" is the second GPU.
    work : int
        rows x units x features of the job, for "auto".

    Raises
    ------
    ValueError
        If no such device exists.
    RuntimeError
        If it exists and does not work here, with the reason and the remedy.
    """
    name, index = _parse(device)
    if name == "auto":
        name = "cuda" if work >= AUTO_WORK and gpu_works() else CPU
    elif name == "cpu":
        name = CPU
    engine = ENGINES[name]() if index is None else ENGINES[name](index)
    reason = engine.why_unavailable()
    if reason:
        raise RuntimeError(f"device={device!r} cannot be used: {reason}.")
    return engine


def _parse(device):
    """Name and index of a device."""
    name, colon, index = device.partition(":") if isinstance(device, str) else ("", "", "")
    is_indexed = name == "cuda" and index.isdecimal()
    if name not in (*ALIASES, *ENGINES) or (colon and not is_indexed):
        known = ", ".join(map(repr, (*ALIASES, *ENGINES)))
        raise ValueError(
            f"device={device!r} is not known; choose one of {known}; 'cuda:1' is the second GPU."
        )
    return name, int(index) if colon else None


def gpu_works():
    """Whether "auto" may take a GPU: what is not installed is not looked for further."""
    installed = find_spec("cupy") and find_spec("numba_cuda_mlir")
    return bool(installed) and CudaEngine().why_unavailable() is None
