"""What is left to do on sums and products, in place: one pass over H."""

import math

import numpy as np

from ....formulas import EXP, IDENTITY, TANH
from ..deferred import deferred

# Threads of a block.
THREADS = 256
# Functions that `map_rows` applies; engines apply others by themselves.
FUNCTIONS = (IDENTITY, EXP, TANH)


@deferred
def map_rows(name, is_squared, dtype, width):
    """Kernel: ``H = function(max(floor, scale * h + b[j]))`` in place, `width` columns a thread.

    h is H, or its square.

    In the columns from `first` to `last`, multiples of `width`. Launched with THREADS
    threads a block, ``grid = (columns / (THREADS * width), rows)`` rounded up; fewer rows of
    blocks go round again.

    Parameters
    ----------
    name : str
        Of one of FUNCTIONS.
    width : int
        1, or the numbers in 16 bytes where that divides the columns.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, device, jit, vector, vector_of

    is_wide, is_vector = width == 4, width > 1
    W, STEP = width, THREADS * width
    dtype = np.dtype(dtype).type
    make = vector_of(dtype)
    is_tanh, is_exp = name == TANH.name, name == EXP.name

    @device
    def power(h):
        return h * h if is_squared else h

    @device
    def function(h, b, scale, floor):
        a = scale * power(h) + b
        if a < floor:  # `max` would make it of a NaN, too, and nobody would see that there was one
            a = floor
        if is_tanh:
            return dtype(math.tanh(a))
        if is_exp:
            return dtype(math.exp(a))
        return a

    @jit(THREADS)
    def kernel(H, B, first, last, scale, floor):
        # H (rows, units) IN OUT, B (1, units) IN
        column = first + cuda.blockIdx.x * STEP + cuda.threadIdx.x * W
        row = cuda.blockIdx.y
        if column < last:
            if is_vector:
                b = vector.load(B, (0, column), W, alignment=16)
                while row < H.shape[0]:
                    h = vector.load(H, (row, column), W, alignment=16)
                    if is_wide:
                        v = make(
                            function(h.x, b.x, scale, floor), function(h.y, b.y, scale, floor),
                            function(h.z, b.z, scale, floor), function(h.w, b.w, scale, floor),
                        )  # fmt: skip
                    else:
                        v = make(function(h.x, b.x, scale, floor), function(h.y, b.y, scale, floor))
                    vector.store(H, (row, column), v, alignment=16)
                    row += cuda.gridDim.y
            else:
                while row < H.shape[0]:
                    H[row, column] = function(H[row, column], B[0, column], scale, floor)
                    row += cuda.gridDim.y

    return kernel


@deferred
def expand(dtype):
    """Kernel: products x.c to squared distances |x - c|^2, in place.

    |x|^2 + |c|^2 - 2 x.c, and where that cancels, the sum of the squared differences.
    Launched as `map_rows` with a width of 1.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, exponential_of, jit

    dtype = np.dtype(dtype).type
    STEP = THREADS
    exponential = exponential_of(dtype)

    @jit(THREADS)
    def kernel(
        H, X, C, x_norms, c_norms, first, last, limit, scale, offset, floor, is_root, exponent
    ):
        # H (rows, units) IN OUT, X (rows, n) IN, C (units, n) IN, norms (rows,), (units,) IN
        unit = first + cuda.blockIdx.x * STEP + cuda.threadIdx.x
        row = cuda.blockIdx.y
        while row < H.shape[0] and unit < last:
            both = x_norms[row] + c_norms[unit]
            squared = both - dtype(2) * H[row, unit]
            # Written so that NaN, from infinite norms, counts as cancelled.
            if not squared >= limit * both:
                squared = dtype(0)
                for k in range(X.shape[1]):
                    difference = X[row, k] - C[unit, k]
                    squared += difference * difference
            if is_root:
                squared = dtype(math.sqrt(squared))
            h = max(floor, scale * squared + offset)
            H[row, unit] = exponential(h, exponent)
            row += cuda.gridDim.y

    return kernel
