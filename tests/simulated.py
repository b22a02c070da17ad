"""The CUDA engine on numba's simulator: its kernels and its launches, without a GPU.

Arrays are NumPy's, and products are those of the host. Kernels run with a Python thread for each
CUDA thread, so blocks and tiles are small.
"""

from typing import ClassVar

import numpy as np

from sklearn_fsvc._src.engines.cuda import CudaEngine, launch
from sklearn_fsvc._src.engines.kernels.cuda import build
from sklearn_fsvc._src.engines.kernels.cuda.kernel import BlockSizes
from sklearn_fsvc._src.engines.kernels.cuda.manhattan import Tile
from sklearn_fsvc.engines import HostEngine


def without_block_sizes(kernel):
    """Return the properties of a kernel, except block sizes and tiles."""
    kinds = (argument for argument in kernel.arguments if type(argument) not in (int, Tile))
    return kernel.module, kernel.factory.__name__, *kinds


BUILT = {(*without_block_sizes(kernel), types) for kernel, types in build.all_kernels()}


class SimulatedCuda(CudaEngine):
    xp = np
    block_sizes = BlockSizes(threads=8, square=16, lines=8, select_threads=8)
    tiles: ClassVar = {
        np.dtype(np.float32): (Tile(16, 16, 8, 8, 8, 1), Tile(32, 16, 8, 4, 16, 1)),
        np.dtype(np.float64): (Tile(16, 16, 8, 4, 8, 1), Tile(16, 16, 4, 4, 8, 1)),
        np.dtype(np.uint32): (Tile(16, 16, 8, 8, 8, 1), Tile(32, 16, 8, 4, 16, 1)),
    }
    features_per_sum = 32
    __enter__, __exit__ = HostEngine.__enter__, HostEngine.__exit__
    algebra, upload_if_fits = HostEngine.algebra, HostEngine.upload_if_fits
    memory, to_host = HostEngine.memory, HostEngine.to_host
    iter_uploads, sink, stopwatch = HostEngine.iter_uploads, HostEngine.sink, HostEngine.stopwatch

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
        """Run a kernel, which must be one of those that a wheel contains."""
        types = launch.typed(args)[1]
        assert (*without_block_sizes(kernel), types) in BUILT, (kernel.name, types)
        kernel.definition[grid, block](*args)


class TunesTilesOnly(SimulatedCuda):
    """All tiles; the other settings have their defaults, since they change no kernel."""

    def tunables(self, layer):
        tunables = super().tunables(layer).items()
        return {name: values if name == "tile" else values[:1] for name, values in tunables}
