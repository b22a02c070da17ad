"""Engines: places where a layer is evaluated.

Who calls whom::

    estimators -> streaming -> engine.load(layer), engine.hidden(loaded, tile)
                                 |
                  jit            numba loops          kernels/simd.py emits the inner loop,
                                                      kernels/cpu.py walks the tiles
                  blas, mkl      matrix products      the same code, another library

An engine is a class that fulfils `base.Engine`, in a file of its own, and one line in
`ENGINES`. Nothing above this folder knows which engines exist. A device is a string that
the user wrote; it is resolved at each call, so that a pickled estimator carries no engine.

``"cpu"`` is the fastest engine on the host and ``"auto"`` the fastest of all, which today
is the same one. A device that was asked for by name is used or refused.
"""

from .blas import BlasEngine, MklEngine
from .jit import JitEngine

ENGINES = {engine.name: engine for engine in (JitEngine, BlasEngine, MklEngine)}

# benchmarks/layers.py: `jit` leads for differences, and whole tanh transforms; for bare
# products beside other work of the BLAS the two are close.
_FASTEST_ON_HOST = "jit"
ALIASES = {"auto": _FASTEST_ON_HOST, "cpu": _FASTEST_ON_HOST}


def get_engine(device):
    """The engine for `device`.

    Parameters
    ----------
    device : str
        "auto", "cpu" or the name of an engine.

    Raises
    ------
    ValueError
        If no such device exists.
    RuntimeError
        If it exists and does not work here, with the reason and the remedy.
    """
    name = ALIASES.get(device, device) if isinstance(device, str) else None
    if name not in ENGINES:
        known = ", ".join(map(repr, (*ALIASES, *ENGINES)))
        raise ValueError(f"device={device!r} is not known; choose one of {known}.")
    engine = ENGINES[name]()
    reason = engine.why_unavailable()
    if reason:
        raise RuntimeError(f"device={device!r} cannot be used: {reason}")
    return engine
