"""Engines: places where a layer is evaluated.

Who calls whom::

    estimators -> rows.stream -> engine.prepare(layer), engine.hidden(prepared, tile)
                                 |
                  jit            numba loops          kernels/simd.py emits the inner loop,
                                                      kernels/cpu.py walks the tiles
                  blas, mkl      matrix products      the same code, another library
                  cuda           one NVIDIA GPU       kernels/cuda, and cuBLAS; cuda/transfer.py
                                                      moves tiles while it computes

`patches` stands between the two for the patches of images: it unfolds them, has them met by
the units of the engine as any rows are, and averages.

An engine is a class that fulfils `base.Engine`, in a file of its own, and one call of
`register`; an engine of another package is an entry point in the group
``sklearn_fsvc.engines``. Nothing above this folder knows which engines exist.
"""

from .base import Engine
from .blas import BlasEngine, MklEngine
from .cuda import CudaEngine
from .jit import JitEngine
from .registry import ALIASES, CPU, ENGINES, accelerator, get_engine, known_engines, register

__all__ = [
    "ALIASES", "CPU", "ENGINES", "Engine", "accelerator", "get_engine", "known_engines", "register",
]  # fmt: skip

for _engine in (JitEngine, BlasEngine, MklEngine, CudaEngine):
    register(_engine)
