"""Kernels before and after the hidden layer of image patches: see `engines.patches`.

They are launched with `threads` threads per block.
"""

import math

import numpy as np

from ....layers import BELOW_MEAN, TWO_SIDED
from .kernel import cuda_kernel


@cuda_kernel
def patch_moments(dtype, threads):
    """Kernel: the mean of each patch, and ``1 / sqrt(variance + floor)`` (1 if that root is 0).

    One thread per patch. The threads of a block process adjacent patches, which share pixels.
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, jit

    dtype = np.dtype(dtype).type

    @jit(threads)
    def kernel(X, down, across, step_down, step_across, height, line, floor, means, factors):
        # X (images, rows, numbers in a row) IN, means, factors (patches,) OUT
        patch = np.int64(cuda.blockIdx.x) * threads + cuda.threadIdx.x
        if patch < means.shape[0]:
            image, place = patch // (down * across), patch % (down * across)
            top, left = place // across * step_down, place % across * step_across
            total, squares, n = dtype(0), dtype(0), dtype(height * line)
            for y in range(top, top + height):
                for x in range(left, left + line):
                    total += X[image, y, x]
            mean = total / n
            # A second pass: sum(x^2) - n mean^2 would cancel.
            for y in range(top, top + height):
                for x in range(left, left + line):
                    difference = X[image, y, x] - mean
                    squares += difference * difference
            root = dtype(math.sqrt(squares / n + floor))
            means[patch] = mean
            factors[patch] = dtype(1) / root if root > dtype(0) else dtype(1)

    return kernel


@cuda_kernel
def unfold(dtype, is_normalised, threads):
    """Kernel: the patches of all images as the rows of a matrix. One thread per element of it."""
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, jit

    @jit(threads)
    def kernel(X, down, across, step_down, step_across, line, means, factors, P):
        # X (images, rows, numbers in a row) IN, means, factors (patches,) IN, P (patches, inputs)
        # OUT
        number = np.int64(cuda.blockIdx.x) * threads + cuda.threadIdx.x
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


@cuda_kernel
def average_cells(dtype, response, threads):
    """Kernel: average pooling of the responses of a unit over the cells of an image.

    One thread per unit, cell and image, launched with ``grid = (units / threads rounded up, cells,
    images)``; if there are fewer blocks than images, a block continues `gridDim.z` images further.
    The cells of an image are adjacent in the grid, so that adjacent results are written at about
    the same time and share cache lines.
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, jit

    dtype = np.dtype(dtype).type
    is_two_sided, is_below_mean = response == TWO_SIDED, response == BELOW_MEAN

    @jit(threads)
    def kernel(A, means, down, across, cells_down, cells_across, threshold, H):
        # A (images * patches, units) IN, means (images * patches,) IN: over the units,
        # H (images, units, sides, cells) OUT
        unit = np.int64(cuda.blockIdx.x) * threads + cuda.threadIdx.x
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
