"""One NVIDIA GPU: kernels of this package for differences, cuBLAS through CuPy for products.

CuPy allocates arrays, multiplies and solves. Importing it and creating a context on the GPU is left
to the first call of `CudaEngine.why_unavailable`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...layers import BELOW_MEAN, LinearLayer
from ...version import __version__
from ..base import MAX_AUTOMATIC_UNITS_OF_GPU, SHIFT, Engine, Sink
from ..host import DirectSink
from ..kernels.cuda import manhattan, patches, selection
from ..kernels.cuda.kernel import BlockSizes, CudaKernel
from ..threads import n_workers, worker_index
from . import integers, launch, transfer
from .algebra import CuPyAlgebra
from .availability import why_unavailable
from .launch import MAX_BLOCKS, ceil_div
from .layers import LAYERS, CudaLayer, activate_distances, item_of, pack_rows, transpose

# From this nominal ratio of float32 to float64 throughput on, float32 activations are multiplied in
# float32. Data centre GPUs have a ratio of 2, others of 32 or 64.
_SLOW_FLOAT64 = 8


class CudaEngine(Engine):
    """An NVIDIA GPU.

    Parameters
    ----------
    index : int or None
        Its number. None is the first one; in the workers of joblib, GPUs are distributed
        round-robin.

    Attributes
    ----------
    block_sizes : BlockSizes
    tiles : dict
        dtype of an item -> tiles of the Manhattan kernel, the default first.
    features_per_sum : int
        float32 distances over more features are summed in parts, which are then added.
    """

    name = "cuda"
    algebra = CuPyAlgebra()
    n_prefetch = 2
    block_rows, round_rows, chunk_units, group_bytes = 65_536, 2048, 1024, 2**33
    max_automatic_units = MAX_AUTOMATIC_UNITS_OF_GPU
    # A second or more on two cores; the first use of a GPU in a process takes seconds.
    auto_work = 10**11
    # With fewer images at a time, the GPU would be idle between launches.
    patch_bytes = 2**31
    # benchmarks/device_groups.py: the speed-up by two GPUs is 1.0 at 2e11, 1.3 to 1.4 at 8e11.
    group_work = 10**12
    is_numbered = True
    dlpack_types = (2,)
    packages = ("cupy-cuda13x", "cupy-cuda12x")
    block_sizes = BlockSizes()
    tiles = manhattan.TILES
    features_per_sum = 1024

    def __init__(self, index: int | None = None) -> None:
        self._index, self._active = index, ExitStack()
        # id of a host array -> (the array, its copy on the GPU): see `cache_upload`.
        self._cached_uploads: dict[int, tuple[npt.NDArray[Any], Any]] = {}

    @classmethod
    def count(cls) -> int:
        import cupy

        return cupy.cuda.runtime.getDeviceCount()

    def enable_peer_access(self, engines: Sequence[Any]) -> None:
        """Enable each GPU to read the memory of the others, where they are linked."""
        runtime = self.xp.cuda.runtime
        for here in engines:
            with self.xp.cuda.Device(here.index):
                for there in engines:
                    _enable_peer(runtime, here.index, there.index)

    @property
    def index(self) -> int:
        """Number of the GPU."""
        if self._index is not None:
            return self._index
        worker = worker_index()
        return 0 if worker is None else worker % self.count()

    @property
    def xp(self) -> Any:
        import cupy

        return cupy

    def __enter__(self) -> Self:
        index = self.index
        self.name = f"cuda:{index}"
        self._active.enter_context(self.xp.cuda.Device(index))
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        self._cached_uploads.clear()
        self._active.close()

    @classmethod
    def is_installed(cls) -> bool:
        return find_spec("cupy") is not None

    def describe(self) -> str:
        """Return a line for each GPU."""
        runtime = self.xp.cuda.runtime
        driver = runtime.driverGetVersion()
        lines = [f"CUDA {driver // 1000}.{driver % 1000 // 10} by the driver"]
        for index in range(self.count()):
            with CudaEngine(index) as engine:
                free, total = (f"{n / 2**30:.1f} GiB" for n in engine.memory())
                device = engine.identity()["device"]
            lines.append(f"{engine.name} {device}, {free} free of {total}")
        return "\n".join(lines)

    def why_unavailable(self) -> str | None:
        return why_unavailable(type(self), self._index)

    def check_kernel(self) -> str | None:
        """Run a kernel; return None if the result is right, else a sentence."""
        with self:
            one = self.to_device(np.ones((1, 1), np.float32))
            packed = self.to_host(pack_rows(self, one, one.dtype, multiple=128, step=8))
        if packed[0, 0] != 1 or packed.sum() != 1:
            return f"a kernel gives wrong results on GPU {self.index}"
        return None

    def memory(self) -> tuple[int, int]:
        free, total = self.xp.cuda.Device().mem_info
        free += self.xp.get_default_memory_pool().free_bytes()
        return free // n_workers(), total

    def identity(self) -> dict[str, str]:
        return {
            "engine": CudaEngine.name,
            "device": _name_of(self.index),
            "compiler": f"CuPy {self.xp.__version__}",
            "package": __version__,
        }

    def tunables(self, layer: Any) -> dict[str, tuple[Any, ...]]:
        tunables: dict[str, tuple[Any, ...]] = {"M": (8192, 4096, 2048), "asymmetry": (1, 2, 4)}
        if layer.reduction == "manhattan":
            tunables["tile"] = self.tiles[item_of(layer)]
        if layer.hidden_dtype == np.float32:
            precisions = "float64", "float32"
            tunables["statistics"] = precisions if self._is_float64_fast() else precisions[::-1]
        return tunables

    def statistics_dtype(self, layer: Any) -> np.dtype:
        return np.dtype(self.settings(layer).get("statistics", np.float64))

    def _is_float64_fast(self) -> bool:
        ratio = self.xp.cuda.Device().attributes["SingleToDoublePrecisionPerfRatio"]
        return ratio < _SLOW_FLOAT64

    def is_tile_invariant(self, layer: Any) -> bool:
        # cuBLAS chooses the order of its sums by the shape of a product.
        return layer.reduction == "manhattan"

    def prepared_bytes(self, layer: Any) -> int:
        return LAYERS[layer.reduction].prepared_bytes(self, layer)

    def row_bytes(self, layer: Any) -> int:
        return LAYERS[layer.reduction].row_bytes(self, layer)

    def prepare(self, layer: Any) -> CudaLayer:
        return LAYERS[layer.reduction](self, layer)

    def hidden(
        self, prepared: CudaLayer, X: Any, out: Any = None, units: slice | None = None
    ) -> Any:
        layer = prepared.layer
        if out is None:
            out = self.xp.empty((len(X), layer.n_units), layer.hidden_dtype)
        units = units or slice(0, layer.n_units)
        prepared.hidden(X, out, units)
        if layer.quantizer is not None and layer.table is None and not prepared.is_rounding:
            integers.round_columns(self, out, units, layer.quantizer)
        return out

    def accepts_uint8(self, layer: Any) -> bool:
        return isinstance(layer, LinearLayer) and layer.units.dtype == np.float32

    def activate_distances(self, layer: Any, D: Any, out: Any) -> Any:
        return activate_distances(self, layer, D, out)

    def sparse_evaluator(self) -> Any:
        return CudaSparseEvaluator(self)

    def to_device(self, array: npt.NDArray[Any]) -> Any:
        _, on_device = self._cached_uploads.get(id(array), (array, None))
        return transfer.to_device(self.xp, array) if on_device is None else on_device

    def cache_upload(self, array: npt.NDArray[Any], on_device: Any) -> None:
        self._cached_uploads[id(array)] = array, on_device

    @staticmethod
    def sparse_to_device(X: Any) -> Any:
        """Return a ``csr_array`` of SciPy as one of CuPy, with the 32-bit indices of cuSPARSE."""
        from cupy import asarray
        from cupyx.scipy.sparse import csr_matrix

        indices, indptr = (asarray(a.astype(np.int32, copy=False)) for a in (X.indices, X.indptr))
        return csr_matrix((asarray(X.data), indices, indptr), shape=X.shape)

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        return transfer.to_host(self.xp, array)

    def upload_if_fits(self, X: Any, limit: int) -> Any:
        is_sliced = hasattr(X, "__getitem__") and not isinstance(X, self.xp.ndarray)
        if not is_sliced or getattr(X, "nbytes", np.inf) > limit:
            return X
        return transfer.upload(self.xp, X)

    def iter_uploads(self, blocks: Iterable[npt.NDArray[Any]]) -> Iterator[Any]:
        return transfer.uploads(self.xp, blocks)

    def sink(self, out: Any) -> Sink:
        is_host = isinstance(out, np.ndarray)
        return transfer.PinnedSink(self.xp, out) if is_host else DirectSink(out)

    def stopwatch(self) -> transfer.EventStopwatch:
        return transfer.EventStopwatch(self.xp)

    def select_novel(
        self, layer: Any, X: Any, activity: Any, threshold: float
    ) -> npt.NDArray[np.int32]:
        return self._select_novel([layer], X, activity, threshold)[0]

    def select_novel_by_group(
        self, layers: Sequence[Any], threshold: float
    ) -> list[npt.NDArray[np.int32]]:
        n_rows = sum(layer.n_units for layer in layers)
        return self._select_novel(layers, None, self.xp.zeros(n_rows), threshold)

    def _select_novel(self, layers, X, activity, threshold):
        """Return the selected samples of each group, the units of a layer, by one launch.

        X is the samples if there is one group; None if they are the units of each layer.
        """
        sizes = [layer.n_units for layer in layers]
        K, end = self.xp.empty((sum(sizes), max(sizes)), layers[0].hidden_dtype), 0
        for layer, n in zip(layers, sizes, strict=True):
            H = self.hidden(self.prepare(layer), layer.units if X is None else X)
            transpose(self, H, K[end : end + n])
            end += n
        starts = np.cumsum([0, *sizes], dtype=np.int32)
        selected = self.xp.empty(len(activity) + len(sizes), np.int32)
        threads = self.block_sizes.select_threads
        self.launch(
            selection.select_novel(K.dtype, threads), len(sizes), threads, K, activity,
            np.float64(threshold), np.float64(SHIFT), self.to_device(starts), selected,
        )  # fmt: skip
        # Each group has written a count, then the indices: see the kernel.
        selected, counts_at = self.to_host(selected), starts[:-1] + np.arange(len(sizes))
        return [selected[at + 1 : at + 1 + selected[at]] for at in counts_at]

    def unfold(self, layer: Any, X: Any) -> Any:
        xp, grid, dtype, threads = self.xp, layer.grid, X.dtype, self.block_sizes.threads
        images = X.reshape(len(X), grid.image[0], -1)
        line, is_normalised = grid.size[1] * grid.image[2], layer.floor is not None
        positions = *grid.output_shape, grid.stride, grid.stride * grid.image[2]
        P = xp.empty((len(X) * grid.n_positions, grid.n_inputs), dtype)
        means, factors = xp.empty((2, len(P) if is_normalised else 1), dtype)
        if is_normalised:
            self.launch(
                patches.patch_moments(dtype.str, threads), ceil_div(len(P), threads), threads,
                images, *positions, grid.size[0], line, dtype.type(layer.floor), means, factors,
            )  # fmt: skip
        self.launch(
            patches.unfold(dtype.str, is_normalised, threads), ceil_div(P.size, threads), threads,
            images, *positions, line, means, factors, P,
        )  # fmt: skip
        return P

    def average_pool(self, layer: Any, A: Any, H: Any) -> None:
        grid, dtype, threads = layer.grid, A.dtype, self.block_sizes.threads
        means = A.mean(axis=1) if layer.response == BELOW_MEAN else self.xp.empty(1, dtype)
        blocks = ceil_div(A.shape[1], threads), grid.n_cells, min(len(H), MAX_BLOCKS)
        self.launch(
            patches.average_cells(dtype.str, layer.response, threads), blocks, threads, A, means,
            *grid.output_shape, *grid.pool, dtype.type(layer.threshold), H,
        )  # fmt: skip

    def launch(
        self,
        kernel: CudaKernel,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *args: Any,
    ) -> None:
        """Launch a kernel on the current stream: see `launch.launch`."""
        launch.launch(self.index, kernel, grid, block, *args)


class CudaSparseEvaluator:
    """Evaluation of sparse samples by cuSPARSE: see `engines.host.SparseEvaluator`.

    The layer is prepared as for dense samples.
    """

    def __init__(self, engine: CudaEngine) -> None:
        self._engine = engine

    def prepare(self, layer: Any) -> CudaLayer:
        return self._engine.prepare(layer)

    def prepared_bytes(self, layer: Any) -> int:
        return self._engine.prepared_bytes(layer)

    def row_bytes(self, layer: Any) -> int:
        # cuSPARSE writes in column-major order: a second array, until it is copied to H.
        return layer.n_units * layer.units.itemsize

    def hidden(self, prepared: CudaLayer, X: Any, out: Any, units: slice | None = None) -> Any:
        """Return H of a ``csr_array`` X, in `out`, in all columns."""
        return self._engine.hidden(prepared, self._engine.sparse_to_device(X), out)


@cache
def _name_of(index: int) -> str:
    """Return the name of a GPU; cached, since the CUDA call takes a millisecond."""
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()


def _enable_peer(runtime: Any, here: int, there: int) -> None:
    """Let copies between two GPUs use their link, in this process."""
    if here == there or not runtime.deviceCanAccessPeer(here, there):
        return
    try:
        runtime.deviceEnablePeerAccess(there)
    except runtime.CUDARuntimeError as error:
        if "AlreadyEnabled" not in str(error):
            raise
