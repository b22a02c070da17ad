"""The language of the CUDA kernels: numba's CUDA dialect of Python, compiled or simulated.

Importing this module imports the compiler, numba-cuda-mlir. With ``NUMBA_ENABLE_CUDASIM=1`` it
imports numba's simulator instead, which runs kernels on the host, with a Python thread for each
CUDA thread. The simulator has neither vector loads nor inline PTX; scalar equivalents are below, so
that kernels need not distinguish the two.

Names
-----
cuda
    The CUDA module: indices, shared and local memory, barriers.
vector
    ``load(array, index, width, alignment=16)`` and ``store(array, index, v, alignment=16)`` move
    16 bytes. The elements of a vector are ``x, y, z, w``.
vector_of
    ``vector_of(dtype)(x, y, ...)`` constructs a vector of 16 bytes.
consteval
    ``for i in consteval(range(n))`` is unrolled during compilation.
jit, device
    Decorators of kernels, ``jit(threads, blocks)`` with the threads per block and the resident
    blocks per multiprocessor, and of functions that kernels call, which are inlined.
exponential_of
    ``exponential_of(dtype)(h, exponent)`` returns h for an exponent of 0, exp(h) for 1, and
    exp(-(-h)^exponent) for others.
add_absdiff4
    ``add_absdiff4(a, b, total)`` returns total + the absolute differences of four bytes.
"""

import math
import os
import warnings
from types import SimpleNamespace

import numpy as np

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"

if SIMULATED:
    from numba import cuda

    def consteval(values):
        return values

    def device(function):
        return function

    def jit(threads, blocks=1):
        return cuda.jit

    def _vector(*values):
        return SimpleNamespace(values=values, **dict(zip("xyzw", values, strict=False)))

    def _load(array, index, width, alignment):
        row, column = index
        assert column % width == 0, "vectors are aligned"
        return _vector(*(array[row, column + i] for i in range(width)))

    def _store(array, index, v, alignment):
        row, column = index
        assert column % len(v.values) == 0, "vectors are aligned"
        for i, value in enumerate(v.values):
            array[row, column + i] = value

    vector = SimpleNamespace(load=_load, store=_store)

    def vector_of(dtype):
        return _vector

    def add_absdiff4(a, b, total):
        for shift in (0, 8, 16, 24):
            total += np.uint32(abs(int(a >> shift & 255) - int(b >> shift & 255)))
        return total

else:
    with warnings.catch_warnings():
        # Deprecations of NumPy that the compiler has yet to follow.
        warnings.simplefilter("ignore", DeprecationWarning)
        from numba_cuda_mlir import cuda  # type: ignore[no-redef]
        from numba_cuda_mlir.cuda import (  # type: ignore[no-redef]  # noqa: F401
            experimental,
            vector,
        )
        from numba_cuda_mlir.cuda.experimental import (  # type: ignore[no-redef]
            consteval,  # noqa: F401
        )
        from numba_cuda_mlir.numba_cuda.core import config

    # Small inputs need small grids: a warning about low occupancy has no remedy.
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

    device = cuda.jit(device=True, inline="always")

    def jit(threads, blocks=1):
        return cuda.jit(launch_bounds=(threads, blocks))

    def vector_of(dtype):
        name = {"f4": "float32x4", "f8": "float64x2", "u4": "uint32x4"}[np.dtype(dtype).str[1:]]
        return getattr(cuda, name)

    @device
    def add_absdiff4(a, b, total):
        return experimental.inline_ptx(
            "vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;", "=r", total, "r", a, "r", b, "r", total
        )


def exponential_of(dtype):
    @device
    def exponential(h, exponent):
        if exponent == 0:
            return h
        if exponent != 1 and h < 0:
            h = -dtype(math.exp(exponent * dtype(math.log(-h))))
        return dtype(math.exp(h))

    return exponential
