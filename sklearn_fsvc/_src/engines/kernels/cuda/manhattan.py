"""Distances summed feature by feature: Manhattan layers.

The kernel works on tiles of `Tile.rows` x `Tile.units` outputs a block. Both
operands lie feature by feature, padded with zeros to whole tiles, as `pack` lays them
out: every load is one of 16 bytes, and the loop over the features asks for no limits. It
is register-blocked, each thread holds an 8 x 8 block of outputs, and double-buffered, the
next features travel to shared memory while these are summed.

Every output is the sum of its features in their order, whatever the tile.
"""

import math
from typing import NamedTuple

import numpy as np

from ..deferred import deferred

# Side of a packed square.
SQUARE = 32


class Tile(NamedTuple):
    """Outputs of a block, outputs of a thread, and items (features) a step."""

    rows: int
    units: int
    thread_rows: int
    thread_units: int
    step: int
    blocks: int  # that share a multiprocessor, which bounds their registers

    @property
    def threads(self):
        return self.rows * self.units // (self.thread_rows * self.thread_units)


# The tiles to choose from, the best one on an H200 first. An item is a number, or four bytes.
_WORDS = (
    Tile(128, 128, 8, 8, 8, 2),
    Tile(128, 128, 8, 8, 16, 2),
    Tile(128, 64, 8, 8, 8, 3),
    Tile(64, 64, 8, 8, 8, 6),
    Tile(64, 64, 4, 4, 16, 4),
)
TILES = {
    np.dtype(np.float32): (*_WORDS, Tile(256, 128, 8, 8, 16, 1)),
    np.dtype(np.float64): (
        Tile(128, 64, 8, 4, 8, 2),
        Tile(128, 64, 8, 4, 16, 2),
        Tile(64, 64, 8, 4, 8, 4),
        Tile(64, 64, 4, 4, 8, 2),
    ),
    np.dtype(np.uint32): _WORDS,
}


@deferred
def manhattan(item, tile):
    """Kernel: H of sum |x - c| for packed rows and units.

    Launched with a block for each tile, ``grid = (rows / tile.rows, units / tile.units)``
    rounded up; there may be more rows than the second axis of a grid holds. The first of
    the units is `first_tile` tiles away from that of H.
    """
    global cuda  # where the simulator looks for it
    from ..language import (
        add_absdiff4,
        consteval,
        cuda,
        device,
        exponential_of,
        jit,
        vector,
        vector_of,
    )

    item = np.dtype(item).type
    W = 16 // np.dtype(item).itemsize
    bytes_, is_wide = item is np.uint32, W == 4
    hidden = np.float32 if bytes_ else item
    STEP, STEPS = tile.step, 2 * tile.step
    # Bytes come 32 a step, so half a step may be padding; it is worth a branch not to sum it.
    PART = STEP // 2 if bytes_ else STEP
    ROWS, UNITS, TM, TN = tile.rows, tile.units, tile.thread_rows, tile.thread_units
    THREADS_X = UNITS // TN
    N_THREADS = tile.threads
    # A line holds the vectors of one item, for the rows or the units of a tile. In one
    # round all threads load as many lines as they fill.
    LINE_X, LINE_C = ROWS // W, UNITS // W
    PER_ROUND_X, PER_ROUND_C = N_THREADS // LINE_X, N_THREADS // LINE_C
    ROUNDS_X, ROUNDS_C = STEP // PER_ROUND_X, STEP // PER_ROUND_C
    STAGED_X, STAGED_C = ROUNDS_X * W, ROUNDS_C * W
    # A thread's outputs are groups of W, a stride apart, so that neighbours read neighbours.
    STRIDE_X, STRIDE_C = W * ROWS // TM, W * UNITS // TN
    GROUPS_X, GROUPS_C = TM // W, TN // W
    vector_in, vector_out = vector_of(item), vector_of(hidden)

    @device
    def spread(v, numbers, at):
        numbers[at] = v.x
        numbers[at + 1] = v.y
        if is_wide:
            numbers[at + 2] = v.z
            numbers[at + 3] = v.w

    @device
    def gather_in(numbers, at):
        if is_wide:
            return vector_in(numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3])
        return vector_in(numbers[at], numbers[at + 1])

    @device
    def gather_out(numbers):
        if is_wide:
            return vector_out(numbers[0], numbers[1], numbers[2], numbers[3])
        return vector_out(numbers[0], numbers[1])

    @device
    def fetch_x(X, k, i, staged):
        for r in range(ROUNDS_X):
            at = k + np.uint32(r * PER_ROUND_X), i
            spread(vector.load(X, at, W, alignment=16), staged, r * W)

    @device
    def fetch_c(C, k, i, staged):
        for r in range(ROUNDS_C):
            at = k + np.uint32(r * PER_ROUND_C), i
            spread(vector.load(C, at, W, alignment=16), staged, r * W)

    if bytes_:
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

    if item == np.float64:
        # Other exponents than 1 would spill registers: the layer has them applied afterwards.
        @device
        def exponential(h, exponent):
            return h if exponent == 0 else math.exp(h)

    else:
        exponential = exponential_of(hidden)

    @jit(N_THREADS, tile.blocks)
    def kernel(X, C, H, first_tile, begin, end, scale, offset, floor, exponent):
        # X (items, padded rows) IN, C (items, padded units) IN, H (rows, units) OUT.
        # Items begin..end are summed; with begin > 0 on top of what H holds.
        shared_x = cuda.shared.array((STEPS, ROWS), item)
        shared_c = cuda.shared.array((STEPS, UNITS), item)
        thread = np.uint32(cuda.threadIdx.x)
        across, down = thread % THREADS_X, thread // THREADS_X
        row0 = np.uint32(cuda.blockIdx.x) * np.uint32(ROWS)
        unit0 = (np.uint32(first_tile) + np.uint32(cuda.blockIdx.y)) * np.uint32(UNITS)
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

        k0, stop = np.uint32(begin), np.uint32(end)
        last = k0 + (stop - k0 - np.uint32(1)) // np.uint32(STEP) * np.uint32(STEP)
        half = np.uint32(0)
        fetch_x(X, k0 + kx, row0 + ix, staged_x)
        fetch_c(C, k0 + kc, unit0 + ic, staged_c)
        for r in range(ROUNDS_X):
            at = kx + np.uint32(r * PER_ROUND_X), ix
            vector.store(shared_x, at, gather_in(staged_x, r * W), alignment=16)
        for r in range(ROUNDS_C):
            at = kc + np.uint32(r * PER_ROUND_C), ic
            vector.store(shared_c, at, gather_in(staged_c, r * W), alignment=16)
        cuda.syncthreads()
        while k0 <= last:
            # The next items travel while those in one half of shared memory are summed,
            # and are put into the other half. The last step fetches its own once more,
            # which costs less than to ask each time.
            k0 += np.uint32(STEP)
            ahead = min(k0, last)
            fetch_x(X, ahead + kx, row0 + ix, staged_x)
            fetch_c(C, ahead + kc, unit0 + ic, staged_c)
            for first in consteval(range(0, STEP, PART)):
                if not bytes_ or k0 - np.uint32(STEP - first) < stop:
                    for k in consteval(range(first, first + PART)):
                        for g in range(GROUPS_X):
                            at = half + k, g * STRIDE_X + down * W
                            spread(vector.load(shared_x, at, W, alignment=16), x, g * W)
                        for g in range(GROUPS_C):
                            at = half + k, g * STRIDE_C + across * W
                            spread(vector.load(shared_c, at, W, alignment=16), c, g * W)
                        accumulate(x, c, sums)
            half = np.uint32(STEP) - half
            for r in range(ROUNDS_X):
                at = half + kx + np.uint32(r * PER_ROUND_X), ix
                vector.store(shared_x, at, gather_in(staged_x, r * W), alignment=16)
            for r in range(ROUNDS_C):
                at = half + kc + np.uint32(r * PER_ROUND_C), ic
                vector.store(shared_c, at, gather_in(staged_c, r * W), alignment=16)
            cuda.syncthreads()

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
                        vector.store(H, (row, unit), gather_out(line), alignment=16)

    return kernel


@deferred
def pack(item):
    """Kernel: rows to items feature by feature, padded with zeros.

    Launched with a block of SQUARE x 8 threads for each square of SQUARE x SQUARE items,
    ``grid = (padded rows / SQUARE, items / SQUARE)`` rounded up.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, device, jit

    item = np.dtype(item).type
    bytes_ = item is np.uint32
    SIDE, LINES = SQUARE, 8
    PITCH = SQUARE + 1  # an odd pitch spreads a column over all banks

    @device
    def read(X, row, k):
        if bytes_:
            word = np.uint32(0)
            for i in range(4):
                if 4 * k + i < X.shape[1]:
                    word |= np.uint32(X[row, 4 * k + i]) << np.uint32(8 * i)
            return word
        return item(X[row, k])

    @device
    def n_items(X):
        return (X.shape[1] + 3) // 4 if bytes_ else X.shape[1]

    @jit(SIDE * LINES)
    def kernel(X, packed):
        # X (rows, n) IN, packed (items, padded rows) OUT
        square = cuda.shared.array((SIDE, PITCH), item)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        row0, k0 = cuda.blockIdx.x * SIDE, cuda.blockIdx.y * SIDE
        for j in range(SIDE // LINES):
            i = y + j * LINES
            value = item(0)
            if row0 + i < X.shape[0] and k0 + x < n_items(X):
                value = read(X, row0 + i, k0 + x)
            square[i, x] = value
        cuda.syncthreads()
        for j in range(SIDE // LINES):
            i = y + j * LINES
            if k0 + i < packed.shape[0] and row0 + x < packed.shape[1]:
                packed[k0 + i, row0 + x] = square[x, i]

    return kernel
