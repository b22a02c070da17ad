"""The engine of the GPU on numba's simulator: its kernels and its launches, without a GPU.

Arrays are NumPy's and products the host's; everything that is ours runs as it is, a
thread of Python for each thread of CUDA. Tiles are small, for a simulated thread is slow.
"""

import numpy as np

from sklearn_fsvc.engines.cuda import CudaEngine
from sklearn_fsvc.engines.host import DirectSink, HostStopwatch, host_memory
from sklearn_fsvc.engines.kernels import cuda as kernels

TILES = {
    np.dtype(np.float32): kernels.Tile(rows=16, units=16),
    np.dtype(np.float64): kernels.Tile(rows=16, units=16, thread_units=4),
    np.dtype(np.uint32): kernels.Tile(rows=16, units=16),
}


class SimulatedCuda(CudaEngine):
    xp = np

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def why_unavailable(self):
        return None

    def memory(self):
        return host_memory()

    def to_host(self, array):
        return array

    def keep(self, X, limit):
        return X

    def uploads(self, blocks):
        return blocks

    def sink(self, out):
        return DirectSink(out)

    def stopwatch(self):
        return HostStopwatch()

    def _launch(self, kernel, grid, block, *args):
        kernel[grid, block](*args)
