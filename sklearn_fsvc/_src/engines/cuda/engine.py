"""One NVIDIA GPU: our kernels for differences, cuBLAS through CuPy for products.

CuPy holds the arrays, multiplies and solves. It is imported when the first engine is asked
whether it works, and a context is made on the GPU then, never before.
"""

from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec

import numpy as np

from ...layers import BELOW_MEAN
from ...version import __version__
from ..base import SHIFT, Engine
from ..host import DirectSink
from ..kernels.cuda import manhattan, novelty, patches
from ..threads import n_workers, worker_number
from . import integers, launch, transfer
from .algebra import CuPyAlgebra
from .availability import why_unavailable
from .launch import n_parts
from .layers import LAYERS, item_of, outputs, pack_rows, transpose

# Products that are this many times slower in float64, on paper, are made in float32 where H
# is. Cards for computing are 2 times slower; others 32 or 64.
_SLOW = 8
# Blocks of a grid across its third side, at most.
_DEEPEST = 65_535


class CudaEngine(Engine):
    """An NVIDIA GPU.

    Parameters
    ----------
    index : int or None
        Which one. None is the first, and in workers of joblib each worker's own: GPUs are
        sharded in turn.
    """

    name = "cuda"
    algebra = CuPyAlgebra()
    n_ahead = 2
    block_rows, round_rows, chunk_units, group_bytes = 65_536, 2048, 1024, 2**33
    # A second or more of two cores; the first use of a GPU in a process costs seconds.
    auto_work = 10**11
    # A few images at a time would be over before the next are launched.
    patch_bytes = 2**31
    # benchmarks/teams.py, fits as made: two gain 1.0 at 2e11, 1.3 to 1.4 at 8e11, more beyond.
    team_work = 10**12
    is_numbered = True
    dlpack_type = 2
    # Under the names that their wheels have.
    packages = ("cupy-cuda13x", "cupy-cuda12x")

    def __init__(self, index=None):
        self._index, self._active, self._kept = index, ExitStack(), {}

    @classmethod
    def count(cls):
        import cupy

        return cupy.cuda.runtime.getDeviceCount()

    def connect(self, members):
        """Let each GPU read the memory of the others, where they are linked."""
        runtime = self.xp.cuda.runtime
        for here in members:
            with self.xp.cuda.Device(here.index):
                for there in members:
                    _enable_peer(runtime, here.index, there.index)

    @property
    def index(self):
        if self._index is not None:
            return self._index
        worker = worker_number()
        return 0 if worker is None else worker % self.count()

    @property
    def xp(self):
        import cupy

        return cupy

    def __enter__(self):
        index = self.index
        self.name = f"cuda:{index}"
        self._active.enter_context(self.xp.cuda.Device(index))
        return super().__enter__()

    def __exit__(self, *exception):
        self._kept.clear()
        self._active.close()

    @classmethod
    def is_installed(cls):
        return find_spec("cupy") is not None

    def details(self):
        """A line for each GPU."""
        runtime = self.xp.cuda.runtime
        driver = runtime.driverGetVersion()
        lines = [f"CUDA {driver // 1000}.{driver % 1000 // 10} by the driver"]
        for index in range(self.count()):
            with CudaEngine(index) as engine:
                free, total = (f"{n / 2**30:.1f} GiB" for n in engine.memory())
                device = engine.identity()["device"]
            lines.append(f"{engine.name} {device}, {free} free of {total}")
        return "\n".join(lines)

    def why_unavailable(self):
        return why_unavailable(type(self), self._index)

    def try_a_kernel(self):
        """Load one and launch it; None if it gives what it should, else a sentence."""
        with self:
            one = self.to_device(np.ones((1, 1), np.float32))
            packed = self.to_host(pack_rows(self, one, one.dtype, 128, 8))
        if packed[0, 0] != 1 or packed.sum() != 1:
            return f"a kernel gives wrong results on GPU {self.index}"
        return None

    def memory(self):
        free, total = self.xp.cuda.Device().mem_info
        free += self.xp.get_default_memory_pool().free_bytes()
        return free // n_workers(), total

    def identity(self):
        return {
            "engine": CudaEngine.name,
            "device": _name_of(self.index),
            "compiler": f"CuPy {self.xp.__version__}",
            "package": __version__,
        }

    def tunables(self, layer):
        tunables = {"M": (8192, 4096, 2048), "asymmetry": (1, 2, 4)}
        if layer.accumulation == "manhattan":
            tunables["tile"] = manhattan.TILES[item_of(layer)]
        if layer.hidden_dtype == np.float32:
            precisions = "float64", "float32"
            tunables["statistics"] = precisions if self._is_float64_fast() else precisions[::-1]
        return tunables

    def statistics_dtype(self, layer):
        return np.dtype(self.settings(layer).get("statistics", np.float64))

    def _is_float64_fast(self):
        ratio = self.xp.cuda.Device().attributes["SingleToDoublePrecisionPerfRatio"]
        return ratio < _SLOW

    def is_tile_exact(self, layer):
        # Only our own kernel of distances takes pair by pair; a product is cut by its shape.
        return layer.accumulation == "manhattan"

    @staticmethod
    def _kind(layer):
        return LAYERS[layer.accumulation]

    def prepared_bytes(self, layer):
        return self._kind(layer).prepared_bytes(self, layer)

    def row_bytes(self, layer):
        return self._kind(layer).row_bytes(self, layer)

    def prepare(self, layer):
        return self._kind(layer)(self, layer)

    def hidden(self, prepared, X, out=None, units=None):
        layer = prepared.layer
        if out is None:
            out = self.xp.empty((len(X), layer.n_units), layer.hidden_dtype)
        units = units or slice(0, layer.n_units)
        prepared.hidden(X, out, units)
        if layer.steps is not None and layer.table is None:
            integers.round_columns(self, out, units, layer.steps)
        return out

    def outputs(self, layer, D, out):
        return outputs(self, layer, D, out)

    def sparse_evaluator(self):
        return CudaSparsePlace(self)

    def to_device(self, array):
        _, there = self._kept.get(id(array), (array, None))
        return transfer.to_device(self.xp, array) if there is None else there

    def keep(self, array, there):
        self._kept[id(array)] = array, there

    @staticmethod
    def sparse_to_device(X):
        """A ``csr_array`` of SciPy as CuPy's; cuSPARSE has numbers of 32 bits for places."""
        from cupy import asarray
        from cupyx.scipy.sparse import csr_matrix

        indices, indptr = (asarray(a.astype(np.int32, copy=False)) for a in (X.indices, X.indptr))
        return csr_matrix((asarray(X.data), indices, indptr), shape=X.shape)

    def to_host(self, array):
        return transfer.to_host(self.xp, array)

    def upload_if_fits(self, X, limit):
        is_sliced = hasattr(X, "__getitem__") and not isinstance(X, self.xp.ndarray)
        if not is_sliced or getattr(X, "nbytes", np.inf) > limit:
            return X
        return transfer.upload(self.xp, X)

    def uploads(self, blocks):
        return transfer.uploads(self.xp, blocks)

    def sink(self, out):
        is_host = isinstance(out, np.ndarray)
        return transfer.PinnedSink(self.xp, out) if is_host else DirectSink(out)

    def stopwatch(self):
        return transfer.EventStopwatch(self.xp)

    def novel(self, layer, X, activity, threshold):
        return self._settle([layer], X, activity, threshold)[0]

    def novel_in_each(self, layers, threshold):
        n_rows = sum(layer.n_units for layer in layers)
        return self._settle(layers, None, self.xp.zeros(n_rows), threshold)

    def _settle(self, layers, X, activity, threshold):
        """The rows that are kept of groups, each the units of a layer, by one launch."""
        sizes = [layer.n_units for layer in layers]
        K, end = self.xp.empty((sum(sizes), max(sizes)), layers[0].hidden_dtype), 0
        for layer, n in zip(layers, sizes, strict=True):
            H = self.hidden(self.prepare(layer), layer.units if X is None else X)
            transpose(self, H, K[end : end + n])
            end += n
        starts = np.cumsum([0, *sizes], dtype=np.int32)
        found = self.xp.empty(len(activity) + len(sizes), np.int32)
        numbers = (
            K,
            activity,
            np.float64(threshold),
            np.float64(SHIFT),
            self.to_device(starts),
            found,
        )
        self.launch(novelty.settle(K.dtype), len(sizes), novelty.SETTLE_THREADS, *numbers)
        places, found = starts[:-1] + np.arange(len(sizes)), self.to_host(found)
        return [found[place + 1 : place + 1 + found[place]] for place in places]

    def unfold(self, layer, X):
        xp, grid, dtype = self.xp, layer.grid, X.dtype
        images = X.reshape(len(X), grid.image[0], -1)
        line, is_normalised = grid.size[1] * grid.image[2], layer.floor is not None
        places = *grid.places, grid.stride, grid.stride * grid.image[2]
        P = xp.empty((len(X) * grid.n_places, grid.n_inputs), dtype)
        means, factors = xp.empty((2, len(P) if is_normalised else 1), dtype)
        if is_normalised:
            self.launch(
                patches.moments(dtype.str), n_parts(len(P), patches.THREADS), patches.THREADS,
                images, *places, grid.size[0], line, dtype.type(layer.floor), means, factors,
            )  # fmt: skip
        self.launch(
            patches.unfold(dtype.str, is_normalised), n_parts(P.size, patches.THREADS),
            patches.THREADS, images, *places, line, means, factors, P,
        )  # fmt: skip
        return P

    def average(self, layer, A, H):
        grid, dtype = layer.grid, A.dtype
        means = A.mean(axis=1) if layer.response == BELOW_MEAN else self.xp.empty(1, dtype)
        blocks = n_parts(A.shape[1], patches.THREADS), grid.n_cells, min(len(H), _DEEPEST)
        self.launch(
            patches.average(dtype.str, layer.response), blocks, patches.THREADS, A, means,
            *grid.places, *grid.pool, dtype.type(layer.threshold), H,
        )  # fmt: skip

    def launch(self, kernel, grid, block, *args):
        """Launch a `Kernel` on the stream of the moment: see `programs.launch`."""
        launch.launch(self.index, kernel, grid, block, *args)


class CudaSparsePlace:
    """The part of an engine that sparse rows need (`engines.sparse.SparsePlace`), by cuSPARSE.

    The layer lies on the GPU as for dense rows.
    """

    def __init__(self, engine):
        self._engine = engine

    def prepare(self, layer):
        return self._engine.prepare(layer)

    def prepared_bytes(self, layer):
        return self._engine.prepared_bytes(layer)

    def row_bytes(self, layer):
        # cuSPARSE gives columns; they are beside H until they are its rows.
        return layer.n_units * layer.units.itemsize

    def hidden(self, prepared, X, out, units=None):
        return self._engine.hidden(prepared, self._engine.sparse_to_device(X), out)


@cache
def _name_of(index):
    """The name of a GPU; CUDA takes a millisecond to look up all its properties."""
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()


def _enable_peer(runtime, here, there):
    """Copies between two GPUs go over their link, once this is said in a process."""
    if here == there or not runtime.deviceCanAccessPeer(here, there):
        return
    try:
        runtime.deviceEnablePeerAccess(there)
    except runtime.CUDARuntimeError as error:
        if "AlreadyEnabled" not in str(error):
            raise
