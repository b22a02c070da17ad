"""Kernels of novelty selection, which chooses centres among the samples, and of row hashes."""

import numpy as np

from .kernel import cuda_kernel

# Threads that share a row of `sum_row_bits`, and rows of a block.
LANES, LINES = 32, 8


@cuda_kernel
def select_novel(dtype, threads):
    """Kernel: the sequential rule of novelty selection within each group of samples.

    In order, a sample whose activity is below the threshold is selected, and adds its own
    activations at all later samples to their activities. Activations are rounded to multiples of
    2^-40 first, by adding `shift` and subtracting it again, so that the sums are exact.

    One block of threads per group. It repeats two steps: the threads search for the
    next sample below the threshold, each in its own residue class of indices, and the minimum is
    taken by an atomic operation; then they update the activities, again by residue class.

    Parameters
    ----------
    dtype : dtype
        Of the activations.
    threads : int
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, jit

    @jit(threads)
    def kernel(K, activity, threshold, shift, starts, selected):
        # starts (groups + 1,) IN: the first sample of each group, and their number.
        # K (samples, size of the largest group) IN: K[i, j] is the activation of sample i, as a
        # unit, at sample j of its group. activity (samples,) IN OUT.
        # selected (groups + samples,) OUT: for each group a count, then indices within the group
        group = cuda.blockIdx.x
        begin = starts[group]
        place = begin + group
        first = cuda.shared.array(1, np.int32)
        thread = cuda.threadIdx.x
        n = starts[group + 1] - begin
        count = 0
        after = 0
        while True:
            if thread == 0:
                first[0] = n
            cuda.syncthreads()
            mine = after + (thread - after) % threads
            while mine < n and not activity[begin + mine] < threshold:
                mine += threads
            if mine < first[0]:
                cuda.atomic.min(first, 0, np.int32(mine))
            cuda.syncthreads()
            row = first[0]
            if row >= n:
                break
            count += 1
            if thread == 0:
                selected[place + count] = row
            after = row + 1
            j = after + (thread - after) % threads
            while j < n:
                activity[begin + j] += (np.float64(K[begin + row, j]) + shift) - shift
                j += threads
            cuda.syncthreads()
        if thread == 0:
            selected[place] = count

    return kernel


@cuda_kernel
def sum_row_bits():
    """Kernel: for each row, the sum of mixed float64 bits times random factors, modulo 2^64.

    Rows with equal sums are candidates for duplicates. Launched with a block of LANES x LINES
    threads for LINES rows.
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, jit

    LANES_, LINES_ = LANES, LINES

    @jit(LANES * LINES)
    def kernel(X, factors, sums):
        # X (rows, columns) IN: the bits of float64. factors (columns,) IN, sums (rows,) OUT
        parts = cuda.shared.array((LINES_, LANES_), np.uint64)
        lane, line = cuda.threadIdx.x, cuda.threadIdx.y
        row = cuda.blockIdx.x * LINES_ + line
        total = np.uint64(0)
        if row < X.shape[0]:
            k = lane
            while k < X.shape[1]:
                bits = X[row, k]
                if bits == np.uint64(1 << 63):  # -0 equals 0, so both hash alike
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
