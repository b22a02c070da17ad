"""The sequential rule of novelty, by one block of threads."""

import numpy as np

from ..deferred import deferred

SETTLE_THREADS = 1024


@deferred
def settle():
    """Kernel: the sequential rule of novelty among the rows of one block.

    In order, a row whose activity is still under the threshold is kept and adds its own
    outputs to the activities of the rows after it. One block of SETTLE_THREADS.
    """
    global cuda  # where the simulator looks for it
    from ..language import cuda, jit

    THREADS_ = SETTLE_THREADS

    @jit(THREADS_)
    def kernel(K, activity, threshold, kept):
        # K (units, rows) IN: unit i is row i. activity (rows,) IN OUT, kept (1 + rows,) OUT:
        # how many, which
        first = cuda.shared.array(1, np.int32)
        thread = cuda.threadIdx.x
        n = activity.shape[0]
        count = 0
        after = 0
        while True:
            if thread == 0:
                first[0] = n
            cuda.syncthreads()
            mine = after + (thread - after) % THREADS_
            while mine < n and not activity[mine] < threshold:
                mine += THREADS_
            if mine < first[0]:
                cuda.atomic.min(first, 0, np.int32(mine))
            cuda.syncthreads()
            row = first[0]
            if row >= n:
                break
            count += 1
            if thread == 0:
                kept[count] = row
            after = row + 1
            j = after + (thread - after) % THREADS_
            while j < n:
                activity[j] += K[row, j]
                j += THREADS_
            cuda.syncthreads()
        if thread == 0:
            kept[0] = count

    return kernel
