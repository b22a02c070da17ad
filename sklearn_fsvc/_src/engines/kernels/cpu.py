"""Compiled loops of the `jit` engine: rows x units, block by block.

The arguments are those of a block in `simd`, with the panels to walk over and the tile in
which to do so. Every kernel releases the GIL, allocates next to nothing and is kept on disk: see
`compiling`.

A kernel serves one dtype, and X is always given as read-only, so that each has but one
signature. numba numbers the signatures of a function in its cache, and two processes that
compile different ones at the same time may give both the same number: each would then
run the other's code, and be wrong without a word.
"""

from functools import cache

import numpy as np

from .compiling import FLOATS, jit, named
from .simd import block
from .target import CHUNK

# The rows of a block, and the block: every kernel has its own.
ROWS, BLOCK = 1, None


def _walk(X, panels, begin, end, rows, units, epilogue, out, tile, totals):
    """Panels `begin` to `end`, tile by tile, each block by block.

    A tile is some rows that meet some panels before the next tile is begun, `step` items at
    a time: so panels and rows are still in cache when they are met again. In `totals` sums wait,
    a slot for each block of the rows of a tile; it is made by who calls, and nothing is called
    here but the block, for whatever is takes long to compile.
    """
    tile_rows, tile_panels, step = tile
    n_rows, n_items = X.shape
    for group in range(begin, end, tile_panels):
        behind = group + tile_panels if group + tile_panels < end else end
        for first in range(0, n_rows, tile_rows):
            last = first + tile_rows if first + tile_rows < n_rows else n_rows
            for p in range(group, behind):
                for k in range(0, n_items, step):
                    stop = k + step if k + step < n_items else n_items
                    for i in range(first, last, ROWS):
                        valid = last - i if last - i < ROWS else ROWS
                        BLOCK(
                            X, i, valid, panels, p, rows, units, epilogue, out, k, stop, totals,
                            (i - first) // ROWS,
                        )  # fmt: skip


@cache
def kernel(name, item, shape):
    """The kernel that walks over blocks of one kind, for items of one dtype.

    A copy of `_walk` with a name and globals of its own. Its name keeps it apart in numba's
    cache, and for the linker: two kernels of one name, loaded from the cache, are both the
    first one's loop. As a closure over the block it could not be cached at all, for numba
    would compare the block by its random number.
    """
    own = f"{name}_{item}_{shape[0]}x{shape[1]}"
    return jit(named(_walk, own, ROWS=shape[0], BLOCK=block(name, shape)))


@jit
def bytes_portable(X, panels, begin, end, rows, units, epilogue, out, tile, totals):
    """One byte an item, no special instruction: what LLVM makes of a plain loop."""
    _, scale, offset, floor, _ = epilogue
    lanes = panels.shape[2]
    sums = np.empty(lanes, np.int32)
    for i in range(len(X)):
        for p in range(begin, end):
            sums[:] = 0
            for k in range(X.shape[1]):
                x = np.int32(X[i, k])
                for lane in range(lanes):
                    sums[lane] += abs(x - np.int32(panels[p, k, lane]))
            for lane in range(min(lanes, out.shape[1] - p * lanes)):
                h = scale * np.float32(sums[lane]) + offset[p, lane]
                out[i, p * lanes + lane] = max(floor, h)


def _look_up(table, step, first, last, out):
    """Multiples of a step, by a table, for the whole numbers in some columns of `out`."""
    end = np.float32(len(table) - 1)
    for i in range(len(out)):
        for j in range(first, last):
            entry = out[i, j] if out[i, j] < end else end
            out[i, j] = step * np.float32(table[np.uint32(entry)])


look_up_uint8, look_up_uint16 = (jit(named(_look_up, f"look_up_{t}")) for t in ("uint8", "uint16"))


@jit
def byte_sums(X, out):
    """Sum of each row, exactly."""
    for i in range(len(X)):
        total = np.int32(0)
        for k in range(X.shape[1]):
            total += np.int32(X[i, k])
        out[i] = total


@jit
def fingerprint(words, out):
    """Of words of 32 bits (n, lanes), polynomials modulo 2^32: one changed number changes one."""
    for i in range(words.shape[0]):
        for j in range(words.shape[1]):
            out[j] = out[j] * np.uint32(0x9E3779B1) + words[i, j]


def _sums(X, sums, sizes):
    """Sum of each row, rounded exactly as `simd` rounds sum min(x, x), and that of all |x|.

    Four rows at a time: each sum is a chain of dependent additions. Of a few rows left the last
    is summed again.
    """
    zero = X.dtype.type(0)
    last = len(X) - 1
    for i in range(0, len(X), 4):
        r1 = i + 1 if i + 1 < last else last
        r2 = i + 2 if i + 2 < last else last
        r3 = i + 3 if i + 3 < last else last
        t0 = t1 = t2 = t3 = zero
        a0 = a1 = a2 = a3 = zero
        for start in range(0, X.shape[1], CHUNK):
            stop = start + CHUNK if start + CHUNK < X.shape[1] else X.shape[1]
            s0 = s1 = s2 = s3 = zero
            for k in range(start, stop):
                x0, x1, x2, x3 = X[i, k], X[r1, k], X[r2, k], X[r3, k]
                s0 += x0
                s1 += x1
                s2 += x2
                s3 += x3
                a0 += abs(x0)
                a1 += abs(x1)
                a2 += abs(x2)
                a3 += abs(x3)
            t0 += s0
            t1 += s1
            t2 += s2
            t3 += s3
        sums[i], sums[r1], sums[r2], sums[r3] = t0, t1, t2, t3
        sizes[i], sizes[r1], sizes[r2], sizes[r3] = a0, a1, a2, a3


sums_float32, sums_float64 = (jit(named(_sums, f"sums_{t}")) for t in FLOATS)
