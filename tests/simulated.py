"""The engine of the GPU on numba's simulator: its kernels and its launches, without a GPU.

Arrays are NumPy's and products the host's; everything that is ours runs as it is, a
thread of Python for each thread of CUDA. Tiles are small, for a simulated thread is slow.
"""

import re

import numpy as np

from sklearn_fsvc._src.engines.cuda import CudaEngine, launch
from sklearn_fsvc._src.engines.kernels.cuda import build
from sklearn_fsvc._src.engines.kernels.cuda.manhattan import Tile
from sklearn_fsvc.engines import HostEngine

TILES = {
    np.dtype(np.float32): (Tile(16, 16, 8, 8, 8, 1), Tile(32, 16, 8, 4, 16, 1)),
    np.dtype(np.float64): (Tile(16, 16, 8, 4, 8, 1), Tile(16, 16, 4, 4, 8, 1)),
    np.dtype(np.uint32): (Tile(16, 16, 8, 8, 8, 1), Tile(32, 16, 8, 4, 16, 1)),
}


def _but_tile(kernel):
    return re.sub(r" [\dx]+x\d+$", "", kernel.name)


# What travels with the package: tiles are others here, and all else is the same.
TRAVEL = {(_but_tile(kernel), types) for kernel, types in build.kernels()}


class SimulatedCuda(CudaEngine):
    xp = np
    __enter__, __exit__ = HostEngine.__enter__, HostEngine.__exit__
    algebra, upload_if_fits = HostEngine.algebra, HostEngine.upload_if_fits
    memory, to_host = HostEngine.memory, HostEngine.to_host
    uploads, sink, stopwatch = HostEngine.uploads, HostEngine.sink, HostEngine.stopwatch

    @staticmethod
    def sparse_to_device(X):
        return X

    def why_unavailable(self):
        return None

    def identity(self):
        return {"engine": "cuda", "device": "simulator", "compiler": "numba", "package": "0"}

    def _is_float64_fast(self):
        return True

    def launch(self, kernel, grid, block, *args):
        types = launch.typed(args)[1]
        if kernel.module.startswith(build.__package__):
            assert (_but_tile(kernel), types) in TRAVEL, (kernel.name, types)
        kernel.code[grid, block](*args)
