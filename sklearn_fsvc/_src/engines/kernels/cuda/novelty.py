"""The sequential rule of novelty, by one block of threads for each group of rows."""

import numpy as np

from ..deferred import deferred

SETTLE_THREADS = 1024


@deferred
def settle(dtype):
    """Kernel: the sequential rule of novelty among the rows of each group.

    In order, a row whose activity is still under the threshold is kept and adds its own
    outputs, rounded by adding `shift` and taking it away, to the activities of the rows after it.
    A block of SETTLE_THREADS for each group.

    Parameters
    ----------
    dtype : dtype
        Of the outputs.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    THREADS_ = SETTLE_THREADS

    @jit(THREADS_)
    def kernel(K, activity, threshold, shift, starts, kept):
        # starts (groups + 1,) IN: the first row of each group, and the end. K (units, rows of the
        # largest group) IN: unit i is row i. activity (rows,) IN OUT. kept (groups + rows,) OUT:
        # of each group how many, and which of its rows
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
            mine = after + (thread - after) % THREADS_
            while mine < n and not activity[begin + mine] < threshold:
                mine += THREADS_
            if mine < first[0]:
                cuda.atomic.min(first, 0, np.int32(mine))
            cuda.syncthreads()
            row = first[0]
            if row >= n:
                break
            count += 1
            if thread == 0:
                kept[place + count] = row
            after = row + 1
            j = after + (thread - after) % THREADS_
            while j < n:
                activity[begin + j] += (np.float64(K[begin + row, j]) + shift) - shift
                j += THREADS_
            cuda.syncthreads()
        if thread == 0:
            kept[place] = count

    return kernel
