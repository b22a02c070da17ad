"""Compiled loops of the `jit` engine: rows x units, block by block.

The arguments are those of a block in `simd`. Every kernel releases the GIL, allocates
next to nothing and is cached on disk.

A kernel serves one dtype, and X is always given as read-only, so that each has but one
signature. numba numbers the signatures of a function in its cache, and two processes that
compile different ones at the same time may give both the same number: each would then
run the other's code, and be wrong without a word.
"""

import numpy as np
from numba import njit

from .simd import (
    CHUNK,
    ROWS,
    bytes_min_block,
    bytes_sad_block,
    manhattan_block,
    product_block,
    sqeuclidean_block,
)

# Rows that meet one panel of units before the next panel is fetched.
STRIP = 128

jit = njit(nogil=True, cache=True)


# Inlined, so that it has no symbol. As a function of its own it would have the same one for
# every block that is compiled in a process of its own, and of two such kernels loaded from
# the cache the second would run the first one's loop.
@njit(inline="always")
def _run(block, X, panels, rows, units, epilogue, out):
    for first in range(0, len(X), STRIP):
        for p in range(len(panels)):
            for i in range(first, min(first + STRIP, len(X)), ROWS):
                block(X, i, min(ROWS, len(X) - i), panels, p, rows, units, epilogue, out)


@jit
def manhattan_float32(X, panels, rows, units, epilogue, out):
    _run(manhattan_block, X, panels, rows, units, epilogue, out)


@jit
def manhattan_float64(X, panels, rows, units, epilogue, out):
    _run(manhattan_block, X, panels, rows, units, epilogue, out)


@jit
def sqeuclidean_float32(X, panels, rows, units, epilogue, out):
    _run(sqeuclidean_block, X, panels, rows, units, epilogue, out)


@jit
def sqeuclidean_float64(X, panels, rows, units, epilogue, out):
    _run(sqeuclidean_block, X, panels, rows, units, epilogue, out)


@jit
def product_float32(X, panels, rows, units, epilogue, out):
    _run(product_block, X, panels, rows, units, epilogue, out)


@jit
def product_float64(X, panels, rows, units, epilogue, out):
    _run(product_block, X, panels, rows, units, epilogue, out)


@jit
def manhattan_bytes_min(X, panels, rows, units, epilogue, out):
    _run(bytes_min_block, X, panels, rows, units, epilogue, out)


@jit
def manhattan_bytes_sad(X, panels, rows, units, epilogue, out):
    _run(bytes_sad_block, X, panels, rows, units, epilogue, out)


@jit
def manhattan_bytes_portable(X, panels, rows, units, epilogue, out):
    """One byte an item, no special instruction: what LLVM makes of a plain loop."""
    _, scale, offset, floor = epilogue
    lanes = panels.shape[2]
    sums = np.empty(lanes, np.int32)
    for i in range(len(X)):
        for p in range(len(panels)):
            sums[:] = 0
            for k in range(X.shape[1]):
                x = np.int32(X[i, k])
                for lane in range(lanes):
                    sums[lane] += abs(x - np.int32(panels[p, k, lane]))
            for lane in range(min(lanes, out.shape[1] - p * lanes)):
                h = scale * np.float32(sums[lane]) + offset[p, lane]
                out[i, p * lanes + lane] = max(floor, h)


@jit
def byte_sums(X, out):
    """Sum of each row, exactly."""
    for i in range(len(X)):
        total = np.int32(0)
        for k in range(X.shape[1]):
            total += np.int32(X[i, k])
        out[i] = total


@njit(nogil=True)
def _ordered_sums(X, out):
    """Sum of each row, rounded exactly as `simd` rounds sum min(x, x).

    Four rows at a time: each sum is a chain of dependent additions.
    """
    zero = X.dtype.type(0)
    last = len(X) - 1
    for i in range(0, len(X), 4):
        r0, r1, r2, r3 = i, min(i + 1, last), min(i + 2, last), min(i + 3, last)
        t0 = t1 = t2 = t3 = zero
        for start in range(0, X.shape[1], CHUNK):
            s0 = s1 = s2 = s3 = zero
            for k in range(start, min(start + CHUNK, X.shape[1])):
                s0 += X[r0, k]
                s1 += X[r1, k]
                s2 += X[r2, k]
                s3 += X[r3, k]
            t0 += s0
            t1 += s1
            t2 += s2
            t3 += s3
        out[r0], out[r1], out[r2], out[r3] = t0, t1, t2, t3


# fastmath lets LLVM reorder the sum, and so use vectors.
@njit(nogil=True, fastmath=True)
def _magnitudes(X, out):
    for i in range(len(X)):
        total = X.dtype.type(0)
        for k in range(X.shape[1]):
            total += abs(X[i, k])
        out[i] = total


@jit
def sums_float32(X, sums, magnitudes):
    """Sum of x and of |x| over each row."""
    _ordered_sums(X, sums)
    _magnitudes(X, magnitudes)


@jit
def sums_float64(X, sums, magnitudes):
    _ordered_sums(X, sums)
    _magnitudes(X, magnitudes)
