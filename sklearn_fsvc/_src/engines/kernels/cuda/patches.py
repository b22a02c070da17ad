"""What comes before and after units that are patches: see `engines.patches`."""

import math

import numpy as np

from ....layers import BELOW_MEAN, TWO_SIDED
from ..deferred import deferred

# Threads of a block.
THREADS = 256


@deferred
def moments(dtype):
    """Kernel: the mean of each patch, and one over the root of its variance and a floor.

    A thread for each patch; those of a block are neighbours, and so are the pixels they read.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    dtype = np.dtype(dtype).type
    THREADS_ = THREADS

    @jit(THREADS_)
    def kernel(X, down, across, step_down, step_across, height, line, floor, means, factors):
        # X (images, rows, numbers in a row) IN, means, factors (patches,) OUT
        patch = np.int64(cuda.blockIdx.x) * THREADS_ + cuda.threadIdx.x
        if patch < means.shape[0]:
            image, place = patch // (down * across), patch % (down * across)
            top, left = place // across * step_down, place % across * step_across
            total, squares, n = dtype(0), dtype(0), dtype(height * line)
            for y in range(top, top + height):
                for x in range(left, left + line):
                    total += X[image, y, x]
            mean = total / n
            for y in range(top, top + height):
                for x in range(left, left + line):
                    difference = X[image, y, x] - mean
                    squares += difference * difference
            root = dtype(math.sqrt(squares / n + floor))
            means[patch] = mean
            factors[patch] = dtype(1) / root if root > dtype(0) else dtype(1)

    return kernel


@deferred
def unfold(dtype, is_normalised):
    """Kernel: the patches of images one below the other. A thread for each number of them."""
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    THREADS_ = THREADS

    @jit(THREADS_)
    def kernel(X, down, across, step_down, step_across, line, means, factors, P):
        # X (images, rows, numbers in a row) IN, means, factors (patches,) IN, P (patches, inputs)
        # OUT
        number = np.int64(cuda.blockIdx.x) * THREADS_ + cuda.threadIdx.x
        patch, k = number // P.shape[1], number % P.shape[1]
        if patch < P.shape[0]:
            image, place = patch // (down * across), patch % (down * across)
            y = place // across * step_down + k // line
            x = place % across * step_across + k % line
            value = X[image, y, x]
            if is_normalised:
                value = (value - means[patch]) * factors[patch]
            P[patch, k] = value

    return kernel


@deferred
def average(dtype, response):
    """Kernel: the means over a cell of what becomes of the outputs of a unit, a thread for each.

    Launched with ``grid = (units / THREADS rounded up, cells, images)``; fewer images of blocks
    go round again. The cells of an image come one after the other, so that what they write
    side by side meets in the cache.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    dtype = np.dtype(dtype).type
    is_two_sided, is_below_mean = response == TWO_SIDED, response == BELOW_MEAN
    THREADS_ = THREADS

    @jit(THREADS_)
    def kernel(A, means, down, across, cells_down, cells_across, threshold, H):
        # A (images * places, units) IN, means (images * places,) IN: over the units,
        # H (images, units, sides, cells) OUT
        unit = np.int64(cuda.blockIdx.x) * THREADS_ + cuda.threadIdx.x
        cell = np.int64(cuda.blockIdx.y)
        image = np.int64(cuda.blockIdx.z)
        row, column = cell // cells_across, cell % cells_across
        top, bottom = row * down // cells_down, (row + 1) * down // cells_down
        left, right = column * across // cells_across, (column + 1) * across // cells_across
        n, zero = dtype((bottom - top) * (right - left)), dtype(0)
        while image < H.shape[0] and unit < A.shape[1]:
            above, below = zero, zero
            for y in range(top, bottom):
                line = (image * down + y) * across
                for place in range(line + left, line + right):
                    a = A[place, unit]
                    if is_two_sided:
                        above += max(a - threshold, zero)
                        below += max(-a - threshold, zero)
                    elif is_below_mean:
                        above += max(means[place] - a, zero)
                    else:
                        above += a
            H[image, unit, 0, cell] = above / n
            if is_two_sided:
                H[image, unit, 1, cell] = below / n
            image += cuda.gridDim.z

    return kernel
