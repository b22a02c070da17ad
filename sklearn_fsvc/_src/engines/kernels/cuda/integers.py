"""Activations in steps: rounded in place, packed as bytes, and what becomes of sums of products."""

import numpy as np

from ..deferred import deferred

# Threads of a block that goes along rows of H or of a panel; side of a square of packed words.
THREADS, SQUARE = 256, 32
# Lines of a square that a block of SQUARE threads a line moves at a time.
LINES = 8


@deferred
def round_rows(dtype):
    """Kernel: H to the nearest multiples of 1 / scale, from halfway to the even one, in place.

    From -most / scale to most / scale, in the columns from `first` to `last`. Launched as
    `elementwise.map_rows` with a width of 1.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    STEP = THREADS
    dtype = np.dtype(dtype).type
    # Next to this number, neighbours in the dtype are 1 apart: adding it rounds.
    LARGE = dtype(1.5 * 2.0 ** np.finfo(dtype).nmant)

    @jit(THREADS)
    def kernel(H, first, last, scale, most):
        # H (rows, units) IN OUT
        unit = first + cuda.blockIdx.x * STEP + cuda.threadIdx.x
        row = cuda.blockIdx.y
        while row < H.shape[0] and unit < last:
            h = (scale * H[row, unit] + LARGE) - LARGE
            # Written so that NaN stays.
            if h > most:
                h = most
            if h < -most:
                h = -most
            H[row, unit] = h / scale
            row += cuda.gridDim.y

    return kernel


@deferred
def look_up(dtype):
    """Kernel: ``H = unit * table[H]``, in place; the last entry for numbers beyond its end.

    H holds whole numbers from 0 on, and the table is of that dtype. In the columns from `first` to
    `last`. Launched as `elementwise.map_rows` with a width of 1.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    STEP = THREADS

    @jit(THREADS)
    def kernel(H, table, first, last, unit):
        # H (rows, units) IN OUT, table IN
        column = first + cuda.blockIdx.x * STEP + cuda.threadIdx.x
        row = cuda.blockIdx.y
        while row < H.shape[0] and column < last:
            entry = min(np.int32(H[row, column]), np.int32(table.shape[0] - 1))
            H[row, column] = unit * np.float32(table[entry])
            row += cuda.gridDim.y

    return kernel


@deferred
def pack_bytes(dtype, is_split):
    """Kernel: activations as bytes, unit by unit, four rows a word.

    An activation is the integer ``r = scale * h - shift``, from -128 to 127; or, where it
    `is_split`, 128 times such a number and another one from 0 to 127, which lies in the second
    half of the lines. Rows and units there are none of are 0. Launched with a block of
    SQUARE x LINES threads for each square of SQUARE x SQUARE words, ``grid = (words / SQUARE,
    units / SQUARE)`` rounded up.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, device, jit

    SIDE, LINES_ = SQUARE, LINES
    PITCH = SQUARE + 1  # an odd pitch spreads a column over all banks
    PLANES = 2 if is_split else 1
    dtype = np.dtype(dtype).type

    @device
    def byte(r, plane):
        if is_split:
            r = r >> np.int32(7) if plane == 0 else r & np.int32(127)
        return np.uint32(r & np.int32(255))

    @jit(SQUARE * LINES)
    def kernel(H, packed, scale, shift):
        # H (rows, units) IN, packed (planes * padded units, words) OUT
        square = cuda.shared.array((SIDE, PITCH), np.uint32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        word0, unit0 = cuda.blockIdx.x * SIDE, cuda.blockIdx.y * SIDE
        units = packed.shape[0] // PLANES
        for plane in range(PLANES):
            for j in range(SIDE // LINES_):
                i = y + j * LINES_
                word = np.uint32(0)
                for k in range(4):
                    row = 4 * (word0 + i) + k
                    if row < H.shape[0] and unit0 + x < H.shape[1]:
                        r = np.int32(scale * H[row, unit0 + x]) - np.int32(shift)
                        word |= byte(r, plane) << np.uint32(8 * k)
                square[i, x] = word
            cuda.syncthreads()
            for j in range(SIDE // LINES_):
                i = y + j * LINES_
                if unit0 + i < units and word0 + x < packed.shape[1]:
                    packed[plane * units + unit0 + i, word0 + x] = square[x, i]
            cuda.syncthreads()

    return kernel


@deferred
def add_products():
    """Kernel: ``A[j, i] += factor * products[j, i] + lift[first + i] + lift[first + j]``.

    Launched with THREADS threads a block, ``grid = (columns of A / THREADS, rows)`` rounded up;
    fewer rows of blocks go round again.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    STEP = THREADS

    @jit(THREADS)
    def kernel(A, products, lift, first, begin, factor):
        # A (n, m) IN OUT, products (n or more, m or more) IN, lift IN: of row 0 from `begin` on,
        # and of column 0 from `first` on
        i = cuda.blockIdx.x * STEP + cuda.threadIdx.x
        j = cuda.blockIdx.y
        while j < A.shape[0] and i < A.shape[1]:
            A[j, i] += factor * products[j, i] + lift[first + i] + lift[begin + j]
            j += cuda.gridDim.y

    return kernel
