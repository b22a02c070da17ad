"""Sums of the bits of rows, from which their hashes are made."""

import numpy as np

from ..deferred import deferred

# Threads that share a row, and rows of a block.
LANES, LINES = 32, 8


@deferred
def sum_bits():
    """Kernel: sums over each row of mixed bits times factors, modulo 2^64.

    Launched with a block of LANES x LINES threads for LINES rows.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    LANES_, LINES_ = LANES, LINES

    @jit(LANES * LINES)
    def kernel(X, factors, sums):
        # X (rows, n) IN: the bits of float64. factors (n,) IN, sums (rows,) OUT
        parts = cuda.shared.array((LINES_, LANES_), np.uint64)
        lane, line = cuda.threadIdx.x, cuda.threadIdx.y
        row = cuda.blockIdx.x * LINES_ + line
        total = np.uint64(0)
        if row < X.shape[0]:
            k = lane
            while k < X.shape[1]:
                bits = X[row, k]
                if bits == np.uint64(1 << 63):  # -0, which is 0
                    bits = np.uint64(0)
                total += (bits ^ (bits >> np.uint64(32))) * factors[k]
                k += LANES_
        parts[line, lane] = total
        cuda.syncthreads()
        if lane == 0 and row < X.shape[0]:
            for i in range(1, LANES_):
                total += parts[line, i]
            sums[row] = total

    return kernel
