"""Kernels that transform each element of a matrix on its own, in place.

They are launched with `threads` threads per block, ``grid = (columns / (threads * width), rows)``
rounded up, where a thread processes `width` adjacent columns (1 unless stated otherwise). A grid
may have fewer rows than the matrix: a block then continues `gridDim.y` rows further down.
"""

import math

import numpy as np

from ....formulas import EXP, IDENTITY, TANH
from .kernel import cuda_kernel

# Functions that `apply_function` computes; the engine applies all others.
FUNCTIONS = (IDENTITY, EXP, TANH)


@cuda_kernel
def apply_function(name, is_squared, dtype, width, threads):
    """Kernel: ``H = function(max(floor, scale * h + b[j]))``, where h is H or its square.

    Quantised by `quantiser_of`, if there are steps. In the columns from `first` to `last`, which
    are multiples of `width`.

    Parameters
    ----------
    name : str
        Name of one of FUNCTIONS.
    is_squared : bool
    dtype : dtype
    width : int
        1, or the number of elements in 16 bytes if that divides the number of columns.
    threads : int
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, device, jit, vector, vector_of

    is_wide, is_vector = width == 4, width > 1
    W, STEP = width, threads * width
    dtype = np.dtype(dtype).type
    make, quantised = vector_of(dtype), quantiser_of(dtype)
    is_tanh, is_exp = name == TANH.name, name == EXP.name

    @device
    def power(h):
        return h * h if is_squared else h

    @device
    def function(h, b, scale, floor):
        a = scale * power(h) + b
        if a < floor:  # CUDA's max(a, floor) would hide a NaN, which the caller checks for
            a = floor
        if is_tanh:
            return dtype(math.tanh(a))
        if is_exp:
            return dtype(math.exp(a))
        return a

    @device
    def activation(h, b, scale, floor, steps, max_code):
        a = function(h, b, scale, floor)
        if steps > 0:
            return quantised(a, steps, max_code)
        return a

    @jit(threads)
    def kernel(H, B, first, last, scale, floor, steps, max_code):
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
                            activation(h.x, b.x, scale, floor, steps, max_code),
                            activation(h.y, b.y, scale, floor, steps, max_code),
                            activation(h.z, b.z, scale, floor, steps, max_code),
                            activation(h.w, b.w, scale, floor, steps, max_code),
                        )
                    else:
                        v = make(
                            activation(h.x, b.x, scale, floor, steps, max_code),
                            activation(h.y, b.y, scale, floor, steps, max_code),
                        )
                    vector.store(H, (row, column), v, alignment=16)
                    row += cuda.gridDim.y
            else:
                while row < H.shape[0]:
                    H[row, column] = activation(
                        H[row, column], B[0, column], scale, floor, steps, max_code
                    )
                    row += cuda.gridDim.y

    return kernel


@cuda_kernel
def expand_distances(dtype, threads):
    """Kernel: activations from dot products x.c, by ``|x - c|^2 = |x|^2 + |c|^2 - 2 x.c``.

    Where the result is less than `limit` times ``|x|^2 + |c|^2``, too many digits have cancelled,
    and the squared differences are summed instead. `is_root` takes the square root first; then
    follow the affine step and the exponential of `language.exponential_of`.
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, exponential_of, jit

    dtype = np.dtype(dtype).type
    exponential = exponential_of(dtype)

    @jit(threads)
    def kernel(
        H, X, C, x_norms, c_norms, first, last, limit, scale, offset, floor, is_root, exponent
    ):
        # H (rows, units) IN OUT, X (rows, features) IN, C (units, features) IN,
        # squared norms (rows,), (units,) IN
        unit = first + cuda.blockIdx.x * threads + cuda.threadIdx.x
        row = cuda.blockIdx.y
        while row < H.shape[0] and unit < last:
            both = x_norms[row] + c_norms[unit]
            squared = both - dtype(2) * H[row, unit]
            # `not >=` is also true for NaN, which infinite norms give.
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


def quantiser_of(dtype):
    """Return ``f(h, steps, max_code)``: h rounded to multiples of ``1 / steps``.

    Halves are rounded to even multiples, and results are clipped to ``+-max_code / steps``.
    """
    from .language import device

    # Adjacent numbers of the dtype near 1.5 * 2^nmant are 1 apart, so adding this and subtracting
    # it again rounds to an integer.
    LARGE = dtype(1.5 * 2.0 ** np.finfo(dtype).nmant)

    @device
    def quantised(h, steps, max_code):
        code = (steps * h + LARGE) - LARGE
        # Comparisons, not min and max, which would replace a NaN.
        if code > max_code:
            code = max_code
        if code < -max_code:
            code = -max_code
        return code / steps

    return quantised


@cuda_kernel
def quantise(dtype, threads):
    """Kernel: quantise H, by `quantiser_of`, in the columns from `first` to `last`."""
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, jit

    quantised = quantiser_of(np.dtype(dtype).type)

    @jit(threads)
    def kernel(H, first, last, scale, max_code):
        # H (rows, units) IN OUT
        unit = first + cuda.blockIdx.x * threads + cuda.threadIdx.x
        row = cuda.blockIdx.y
        while row < H.shape[0] and unit < last:
            H[row, unit] = quantised(H[row, unit], scale, max_code)
            row += cuda.gridDim.y

    return kernel


@cuda_kernel
def look_up_activations(dtype, threads):
    """Kernel: ``H = unit * table[H]``; beyond the end of the table, its last entry.

    H contains non-negative integers, the Manhattan distances of bytes; the table, of `dtype`, the
    quantised activation at each distance. In the columns from `first` to `last`.
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, jit

    @jit(threads)
    def kernel(H, table, first, last, unit):
        # H (rows, units) IN OUT, table IN
        column = first + cuda.blockIdx.x * threads + cuda.threadIdx.x
        row = cuda.blockIdx.y
        while row < H.shape[0] and column < last:
            entry = min(np.int32(H[row, column]), np.int32(table.shape[0] - 1))
            H[row, column] = unit * np.float32(table[entry])
            row += cuda.gridDim.y

    return kernel


@cuda_kernel
def add_products(threads):
    """Kernel: ``A[j, i] += factor * products[j, i] + shifts[first + i] + shifts[begin + j]``.

    It adds integer dot products of shifted codes to a Gram matrix; `shifts` undoes the shift (see
    `engines.cuda.integers`).
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, jit

    @jit(threads)
    def kernel(A, products, shifts, first, begin, factor):
        # A (n, m) IN OUT, products (at least n, at least m) IN, shifts IN: those of the columns
        # of A from `first` on, those of its rows from `begin` on
        i = cuda.blockIdx.x * threads + cuda.threadIdx.x
        j = cuda.blockIdx.y
        while j < A.shape[0] and i < A.shape[1]:
            A[j, i] += factor * products[j, i] + shifts[first + i] + shifts[begin + j]
            j += cuda.gridDim.y

    return kernel
