"""Engines: evaluate layers on a device.

Call graph::

    estimators -> data.streaming -> engine.prepare(layer), engine.hidden(prepared, tile)
                                    |
                     jit            compiled loops       kernels/simd.py emits the inner loop,
                                                         kernels/cpu.py loops over tiles
                     blas, mkl      matrix products      the same code, different libraries
                     cuda           one NVIDIA GPU       kernels/cuda and cuBLAS; cuda/transfer.py
                                                         copies tiles while others are computed
                     torch          any device of PyTorch, through NumPy's interface of its arrays

Layers of image patches are evaluated by `patches`, which extracts the patches, evaluates their
units on the engine as those of any layer, and pools the activations.

An engine is a class that implements `base.Engine`, in a file of its own, and one call of
`register`; an engine of another package is an entry point in the group
``sklearn_fsvc.engines``. Nothing above this folder depends on which engines exist.
"""

from .base import Engine
from .blas import BlasEngine
from .cuda import CudaEngine
from .jit import JitEngine
from .mkl import MklEngine
from .registry import ALIASES, CPU, ENGINES, accelerator, get_engine, known_engines, register
from .torch import TorchEngine

__all__ = [
    "ALIASES", "CPU", "ENGINES", "Engine", "accelerator", "get_engine", "known_engines", "register",
]  # fmt: skip

for _engine in (JitEngine, BlasEngine, MklEngine, CudaEngine, TorchEngine):
    register(_engine)
