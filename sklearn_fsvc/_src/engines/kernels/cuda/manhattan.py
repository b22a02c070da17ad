"""Manhattan distances: sums of |x - c| over the features.

A matrix-product kernel with other arithmetic, by the classic scheme of tiled SGEMM (Volkov and
Demmel, 2008): a block of threads computes a tile of `Tile.rows` x `Tile.units` outputs, and each
thread a block of it in registers, so that a value read from shared memory is used 8 times. Shared
memory is double-buffered: while one half is summed, the next features travel to the other half.

`packing.pack_features` transposes and pads both operands in advance. So every load is one of 16
bytes, and the loop over the features needs no bounds checks. Every output is the sum of its
features in ascending order, whatever the tile.
"""

import math
from typing import NamedTuple

import numpy as np

from .kernel import cuda_kernel


class Tile(NamedTuple):
    """Outputs per block and per thread, and items (features, or four bytes) per step."""

    rows: int
    units: int
    thread_rows: int
    thread_units: int
    step: int
    blocks: int  # resident on a multiprocessor at the same time, which limits their registers

    @property
    def threads(self) -> int:
        return self.rows * self.units // (self.thread_rows * self.thread_units)


# Choices for tuning, the fastest on an H200 first. An item is a number, or four bytes.
_TILES_32_BITS = (
    Tile(128, 128, 8, 8, 8, 2),
    Tile(128, 128, 8, 8, 16, 2),
    Tile(128, 64, 8, 8, 8, 3),
    Tile(64, 64, 8, 8, 8, 6),
    Tile(64, 64, 4, 4, 16, 4),
)
TILES: dict[np.dtype, tuple[Tile, ...]] = {
    np.dtype(np.float32): (*_TILES_32_BITS, Tile(256, 128, 8, 8, 16, 1)),
    np.dtype(np.float64): (
        Tile(128, 64, 8, 4, 8, 2),
        Tile(128, 64, 8, 4, 16, 2),
        Tile(64, 64, 8, 4, 8, 4),
        Tile(64, 64, 4, 4, 8, 2),
    ),
    np.dtype(np.uint32): _TILES_32_BITS,
}


@cuda_kernel
def manhattan(item, tile):
    """Kernel: ``H = exponential(max(floor, scale * distance + offset))`` of packed operands.

    Launched with one block per tile, ``grid = (rows / tile.rows, units / tile.units)`` rounded up;
    rows are the first axis because only that one may have more than 65,535 blocks. The grid
    begins `first_tile` tiles to the right of the first unit.

    Parameters
    ----------
    item : dtype
        float32 or float64, or uint32 for four uint8 features.
    tile : Tile
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import consteval, cuda, jit, vector

    item = np.dtype(item).type
    is_bytes = item is np.uint32
    hidden = np.float32 if is_bytes else item
    W = 16 // np.dtype(item).itemsize  # elements of a vector of 16 bytes
    STEP, STEPS = tile.step, 2 * tile.step
    ROWS, UNITS, TM, TN = tile.rows, tile.units, tile.thread_rows, tile.thread_units
    THREADS_X = UNITS // TN
    # A thread's outputs are groups of W adjacent ones. The groups are a stride apart, so that
    # adjacent threads read adjacent vectors.
    STRIDE_X, STRIDE_C = W * ROWS // TM, W * UNITS // TN
    GROUPS_X, GROUPS_C = TM // W, TN // W
    # A step of bytes has 4 * STEP features, often more than are left. The second half of a step is
    # skipped if it is only padding; for wider items the branch would cost more than it saves.
    PART = STEP // 2 if is_bytes else STEP
    LINE_X, PER_ROUND_X, ROUNDS_X, fetch_x = _copy_plan(item, ROWS, tile)
    LINE_C, PER_ROUND_C, ROUNDS_C, fetch_c = _copy_plan(item, UNITS, tile)
    STAGED_X, STAGED_C = ROUNDS_X * W, ROUNDS_C * W
    spread, gather = _vector_conversions(item)
    _, gather_hidden = _vector_conversions(hidden)
    accumulate, exponential = _accumulate(item, tile), _exponential(hidden)

    @jit(tile.threads, tile.blocks)
    def kernel(X, C, H, first_tile, begin, end, scale, offset, floor, exponent):
        # X (items, padded rows) IN, C (items, padded units) IN, H (rows, units) OUT.
        # Items begin..end are summed; if begin > 0, they are added to the distances in H.
        shared_x = cuda.shared.array((STEPS, ROWS), item)
        shared_c = cuda.shared.array((STEPS, UNITS), item)
        thread = np.uint32(cuda.threadIdx.x)
        across, down = thread % THREADS_X, thread // THREADS_X
        row0 = np.uint32(cuda.blockIdx.x) * np.uint32(ROWS)
        unit0 = (np.uint32(first_tile) + np.uint32(cuda.blockIdx.y)) * np.uint32(UNITS)
        # Which vector of a step this thread copies: item k, element i.
        kx, ix = thread // LINE_X, thread % LINE_X * W
        kc, ic = thread // LINE_C, thread % LINE_C * W
        staged_x = cuda.local.array(STAGED_X, item)
        staged_c = cuda.local.array(STAGED_C, item)
        x = cuda.local.array(TM, item)
        c = cuda.local.array(TN, item)
        sums = cuda.local.array((TM, TN), item)
        for i in range(TM):
            for j in range(TN):
                sums[i, j] = item(0)

        # 1. The first items: from global memory to registers ("staged"), then to shared memory.
        k0, stop = np.uint32(begin), np.uint32(end)
        last = k0 + (stop - k0 - np.uint32(1)) // np.uint32(STEP) * np.uint32(STEP)
        half = np.uint32(0)
        fetch_x(X, k0 + kx, row0 + ix, staged_x)
        fetch_c(C, k0 + kc, unit0 + ic, staged_c)
        # These loops are not in a function, like `fetch_x`: numba-cuda-mlir 0.6 would address a
        # shared array that is passed to a function as global memory.
        for r in range(ROUNDS_X):
            at = kx + np.uint32(r * PER_ROUND_X), ix
            vector.store(shared_x, at, gather(staged_x, r * W), alignment=16)
        for r in range(ROUNDS_C):
            at = kc + np.uint32(r * PER_ROUND_C), ic
            vector.store(shared_c, at, gather(staged_c, r * W), alignment=16)
        cuda.syncthreads()
        while k0 <= last:
            # 2. Start loading the next items. The last step loads its own items again, which is
            # cheaper than a branch in every step.
            k0 += np.uint32(STEP)
            ahead = min(k0, last)
            fetch_x(X, ahead + kx, row0 + ix, staged_x)
            fetch_c(C, ahead + kc, unit0 + ic, staged_c)
            # 3. Meanwhile sum the items in the current half of shared memory.
            for first in consteval(range(0, STEP, PART)):
                if not is_bytes or k0 - np.uint32(STEP - first) < stop:
                    for k in consteval(range(first, first + PART)):
                        for g in range(GROUPS_X):
                            at = half + k, g * STRIDE_X + down * W
                            spread(vector.load(shared_x, at, W, alignment=16), x, g * W)
                        for g in range(GROUPS_C):
                            at = half + k, g * STRIDE_C + across * W
                            spread(vector.load(shared_c, at, W, alignment=16), c, g * W)
                        accumulate(x, c, sums)
            # 4. Store the next items in the other half. One barrier per step is enough: that half
            # was last read before the previous one.
            half = np.uint32(STEP) - half
            for r in range(ROUNDS_X):
                at = half + kx + np.uint32(r * PER_ROUND_X), ix
                vector.store(shared_x, at, gather(staged_x, r * W), alignment=16)
            for r in range(ROUNDS_C):
                at = half + kc + np.uint32(r * PER_ROUND_C), ic
                vector.store(shared_c, at, gather(staged_c, r * W), alignment=16)
            cuda.syncthreads()

        # 5. Activations, in vectors where the rows of H are aligned to 16 bytes.
        rows, units = np.uint32(H.shape[0]), np.uint32(H.shape[1])
        line = cuda.local.array(W, hidden)
        for i in consteval(range(TM)):
            row = row0 + np.uint32(i // W * STRIDE_X + i % W) + down * W
            if row < rows:
                for g in consteval(range(GROUPS_C)):
                    unit = unit0 + np.uint32(g * STRIDE_C) + across * W
                    for j in range(W):
                        distance = hidden(sums[i, g * W + j])
                        if begin > 0 and unit + np.uint32(j) < units:
                            distance += H[row, unit + np.uint32(j)]
                        h = max(floor, scale * distance + offset)
                        line[j] = exponential(h, exponent)
                    if units % W != 0:
                        for j in range(W):
                            if unit + np.uint32(j) < units:
                                H[row, unit + np.uint32(j)] = line[j]
                    elif unit < units:
                        vector.store(H, (row, unit), gather_hidden(line, 0), alignment=16)

    return kernel


def _copy_plan(item, size, tile):
    """Return how the threads of a block copy a step of an operand with `size` rows or units.

    Returns
    -------
    line : int
        Vectors of one item.
    per_round : int
        Items that all threads together copy in a round, a vector each.
    rounds : int
        Rounds per step.
    fetch : device function
        Loads the vectors of a thread from global memory to registers.
    """
    from .language import device, vector

    W = 16 // np.dtype(item).itemsize
    line = size // W
    PER_ROUND = tile.threads // line
    ROUNDS = tile.step // PER_ROUND
    spread, _ = _vector_conversions(item)

    @device
    def fetch(operand, k, i, staged):
        for r in range(ROUNDS):
            at = k + np.uint32(r * PER_ROUND), i
            spread(vector.load(operand, at, W, alignment=16), staged, r * W)

    return line, PER_ROUND, ROUNDS, fetch


def _vector_conversions(dtype):
    """Return device functions between vectors of 16 bytes and elements `at` of an array."""
    from .language import device, vector_of

    is_wide, make = np.dtype(dtype).itemsize == 4, vector_of(dtype)

    @device
    def spread(v, numbers, at):
        numbers[at] = v.x
        numbers[at + 1] = v.y
        if is_wide:
            numbers[at + 2] = v.z
            numbers[at + 3] = v.w

    @device
    def gather(numbers, at):
        if is_wide:
            return make(numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3])
        return make(numbers[at], numbers[at + 1])

    return spread, gather


def _accumulate(item, tile):
    """Return the device function that adds one item of each row and unit of a thread."""
    from .language import add_absdiff4, device

    TM, TN = tile.thread_rows, tile.thread_units
    if item is np.uint32:
        add = add_absdiff4
    else:

        @device
        def add(x, c, total):
            return total + abs(x - c)

    @device
    def accumulate(x, c, sums):
        for i in range(TM):
            for j in range(TN):
                sums[i, j] = add(x[i], c[j], sums[i, j])

    return accumulate


def _exponential(dtype):
    """Return `language.exponential_of`; in float64, only for the exponents 0 and 1.

    Powers in float64 would spill registers to memory: the engine applies them afterwards.
    """
    from .language import device, exponential_of

    if dtype != np.float64:
        return exponential_of(dtype)

    @device
    def exponential(h, exponent):
        return h if exponent == 0 else math.exp(h)

    return exponential
