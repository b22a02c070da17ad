"""One NVIDIA GPU: our kernels for differences, cuBLAS through CuPy for products.

CuPy holds the arrays, multiplies and solves; numba-cuda-mlir compiles the kernels. Both
are imported when the first engine is asked whether it works, and a context is made on the
GPU then, never before.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

from ..formulas import IDENTITY, Affine
from ..version import __version__
from . import transfer
from .algebra import CuPyAlgebra
from .base import CANCELLATION, Engine
from .host import DirectSink
from .workers import n_workers, worker_number

# float32 sums of more features than this are added up from parts: adding ever smaller
# numbers to an ever larger sum loses digits.
PART = 1024
# Bytes of the blocks in which rows that are kept travel.
_UPLOAD = 2**26
# Rows that one block of a finishing kernel visits.
_FINISH_ROWS = 4
# Products that are this many times slower in float64, on paper, are made in float32 where H
# is. Cards for computing are 2 times slower; others 32 or 64.
_SLOW = 8
_REMEDY = "pip install 'sklearn-fsvc[cuda13]', or [cuda12] for an older driver"


@dataclass(frozen=True)
class _Prepared:
    layer: object
    units: object  # packed for differences, else as they are
    bias: object = None  # (1, units)
    tile: object = None  # of the kernel for differences
    norms: object = None  # |c - centre|^2
    centre: object = None  # subtracted from rows and units, so that products cancel less


class CudaEngine(Engine):
    """An NVIDIA GPU.

    Parameters
    ----------
    index : int or None
        Which one. None is the first, and in workers of joblib each worker's own: GPUs are
        dealt in turn.
    """

    name = "cuda"
    algebra = CuPyAlgebra()
    n_ahead = 2
    block_rows = 8192
    # A second or more of two cores; the first use of a GPU in a process costs seconds.
    auto_work = 10**11
    is_numbered = True
    dlpack_type = 2
    # Under the names that their wheels have.
    packages = ("numba-cuda-mlir", "cupy-cuda13x", "cupy-cuda12x")

    def __init__(self, index=None):
        self._asked, self._active = index, ExitStack()

    @property
    def index(self):
        if self._asked is not None:
            return self._asked
        worker = worker_number()
        return 0 if worker is None else worker % self.xp.cuda.runtime.getDeviceCount()

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
        self._active.close()

    @classmethod
    def is_installed(cls):
        return all(map(find_spec, ("cupy", "numba_cuda_mlir")))

    def details(self):
        """A line for each GPU."""
        runtime = self.xp.cuda.runtime
        driver = runtime.driverGetVersion()
        lines = [f"CUDA {driver // 1000}.{driver % 1000 // 10} by the driver"]
        for index in range(runtime.getDeviceCount()):
            with CudaEngine(index) as engine:
                free, total = (f"{n / 2**30:.1f} GiB" for n in engine.memory())
                device = engine.identity()["device"]
            lines.append(f"{engine.name} {device}, {free} free of {total}")
        return "\n".join(lines)

    def why_unavailable(self):
        key = os.getpid(), self._asked
        if key not in _WORKING:
            reason = _why_unavailable(self._asked)
            if reason:
                return reason
            _WORKING.add(key)
        return None

    def memory(self):
        free, total = self.xp.cuda.Device().mem_info
        free += self.xp.get_default_memory_pool().free_bytes()
        return free // n_workers(), total

    def identity(self):
        device = self.xp.cuda.runtime.getDeviceProperties(self.index)["name"].decode()
        return {
            "engine": "cuda",
            "device": device,
            "compiler": f"numba-cuda-mlir {version('numba-cuda-mlir')}, CuPy {self.xp.__version__}",
            "package": __version__,
        }

    def knobs(self, layer):
        knobs = {"M": (8192, 4096, 2048), "asymmetry": (1, 2, 4)}
        if layer.accumulation == "manhattan":
            from .kernels.cuda import TILES

            knobs["tile"] = TILES[_item(layer)]
        if layer.hidden_dtype == np.float32:
            precisions = "float64", "float32"
            knobs["statistics"] = precisions if self._is_float64_fast() else precisions[::-1]
        return knobs

    def statistics_dtype(self, layer):
        return np.dtype(self.settings(layer).get("statistics", np.float64))

    def _is_float64_fast(self):
        ratio = self.xp.cuda.Device().attributes["SingleToDoublePrecisionPerfRatio"]
        return ratio < _SLOW

    def prepared_bytes(self, layer):
        m, n, size = *layer.units.shape, layer.units.itemsize
        if layer.accumulation == "product":
            return (m * n + 2 * m) * size
        if layer.accumulation == "sqeuclidean":  # and the units less their mean
            return (2 * m * n + n + 2 * m) * size
        # The units and, once packed, padded to whole tiles; and what one tile of rows takes.
        item, tile = _item(layer), self._tile(layer)
        items = _round_up(_n_items(n, item), tile.step)
        return m * n * size + items * item.itemsize * (_round_up(m, tile.units) + tile.rows)

    def row_bytes(self, layer):
        n, size = layer.n_features, layer.units.itemsize
        if layer.accumulation == "manhattan":
            item = _item(layer)
            return _round_up(_n_items(n, item), self._tile(layer).step) * item.itemsize
        # Products of a part of the units are made beside H.
        settings = self.settings(layer)
        products = settings["M"] // settings["asymmetry"] * size
        if layer.accumulation == "product":
            return products
        return products + (2 * n + 1) * size  # the row less the mean, and squared

    def prepare(self, layer):
        xp = self.xp
        units = self.to_device(layer.units)
        if layer.accumulation == "manhattan":
            tile = self._tile(layer)
            packed = self._pack(units, _item(layer), tile.units, tile.step)
            return _Prepared(layer, packed, tile=tile)
        if layer.accumulation == "product":
            return _Prepared(layer, units, bias=self.to_device(layer.bias)[None])
        centre = units.mean(axis=0, dtype=np.float64).astype(units.dtype)
        if not bool(xp.isfinite(centre).all()):
            centre = xp.zeros_like(centre)
        units = units - centre
        return _Prepared(layer, units, norms=_squares(xp, units), centre=centre)

    def _tile(self, layer):
        from .kernels.cuda import Tile

        return Tile(*self.settings(layer)["tile"])

    def hidden(self, prepared, X, out=None, units=None):
        layer = prepared.layer
        if out is None:
            out = self.xp.empty((len(X), layer.n_units), layer.hidden_dtype)
        units = units or slice(0, layer.n_units)
        if layer.accumulation == "manhattan":
            self._manhattan(prepared, X, out, units)
        elif layer.accumulation == "product":
            self._multiply(X, prepared.units, out, units)
            self._finish(out, units, layer.affine, layer.function, bias=prepared.bias)
        else:
            self._sqeuclidean(prepared, X, out, units)
        return out

    def _multiply(self, X, W, out, units):
        """out[:, units] = X W[units]'"""
        if units.stop - units.start == out.shape[1]:
            self.xp.matmul(X, W.T, out=out)
        else:
            out[:, units] = self.xp.matmul(X, W[units].T)

    def to_device(self, array):
        return self.xp.asarray(array)

    def to_host(self, array):
        return self.xp.asnumpy(array)

    def upload_if_fits(self, X, limit):
        if not isinstance(X, np.ndarray) or X.nbytes > limit:
            return X
        kept = self.xp.empty(X.shape, X.dtype)
        step = max(1, _UPLOAD // max(1, X.nbytes // len(X)))
        starts = range(0, len(X), step)
        blocks = (np.ascontiguousarray(X[i : i + step]) for i in starts)
        for i, block in zip(starts, self.uploads(blocks), strict=True):
            kept[i : i + step] = block
        return kept

    def uploads(self, blocks):
        return transfer.uploads(self.xp, blocks)

    def sink(self, out):
        is_host = isinstance(out, np.ndarray)
        return transfer.PinnedSink(self.xp, out) if is_host else DirectSink(out)

    def stopwatch(self):
        return transfer.EventStopwatch(self.xp)

    def novel(self, layer, X, activity, threshold):
        from .kernels import cuda as kernels

        K = self.hidden(self.prepare(layer), X)
        kept = self.xp.empty(len(X) + 1, np.int32)
        threshold = np.float64(threshold)
        self._launch(kernels.settle(), 1, kernels.SETTLE_THREADS, K, activity, threshold, kept)
        kept = self.to_host(kept)
        return kept[1 : kept[0] + 1]

    def _manhattan(self, prepared, X, out, units):
        from .kernels import cuda as kernels

        layer, hidden = prepared.layer, out.dtype.type
        item, tile = _item(layer), prepared.tile
        kernel = kernels.manhattan(item, tile)
        rows = self._pack(X, item, tile.rows, tile.step)
        n_items, affine = _n_items(X.shape[1], item), layer.on_sums
        first = units.start // tile.units
        grid = rows.shape[1] // tile.rows, _n_parts(units.stop, tile.units) - first
        part = PART if item == np.float32 else n_items
        for begin in range(0, n_items, part):
            end = min(begin + part, n_items)
            numbers = affine.scale, affine.offset, affine.floor
            if end < n_items:
                numbers = 1, 0, -np.inf
            self._launch(
                kernel, grid, tile.threads, rows, prepared.units, out, first, begin, end,
                *map(hidden, numbers),
            )  # fmt: skip
        self._finish_distances(out, units, layer)

    def _pack(self, X, item, multiple, step):
        from .kernels import cuda as kernels

        items = _round_up(_n_items(X.shape[1], item), step)
        side = kernels.SQUARE
        packed = self.xp.empty((items, _round_up(len(X), multiple)), item)
        grid = tuple(_n_parts(size, side) for size in packed.shape[::-1])
        self._launch(kernels.pack(item), grid, (side, 8), X, packed)
        return packed

    def _sqeuclidean(self, prepared, X, out, units):
        from .kernels import cuda as kernels

        layer, dtype = prepared.layer, out.dtype.type
        X = X - prepared.centre
        self._multiply(X, prepared.units, out, units)
        # The kernel takes a root, if one comes first; a square is left to do.
        affine = layer.affine if layer.power < 1 else layer.on_sums
        numbers = CANCELLATION[out.dtype], affine.scale, affine.offset, affine.floor
        self._launch(
            kernels.expand(out.dtype), self._finish_grid(out, units, 1), kernels.THREADS,
            out, X, prepared.units, _squares(self.xp, X), prepared.norms, units.start, units.stop,
            *map(dtype, numbers), layer.power < 1,
        )  # fmt: skip
        self._finish_distances(out, units, layer)

    def _finish_distances(self, H, units, layer):
        """What comes after the affine step, or after the root; or all, if a square comes first."""
        if layer.power == 2:
            self._finish(H, units, layer.affine, layer.function, is_squared=True)
        elif layer.function is not IDENTITY:
            self._finish(H, units, Affine(), layer.function)

    def _finish(self, H, units, affine, function, is_squared=False, bias=None):
        """``H = function(affine(H or its square))`` in place, in some columns.

        By one kernel; a function that the kernel does not know is CuPy's to apply.
        """
        from .kernels import cuda as kernels

        width = 16 // H.itemsize if H.shape[1] % (16 // H.itemsize) == 0 else 1
        if bias is None:
            bias = self.xp.full((1, H.shape[1]), affine.offset, H.dtype)
        fused = function if function in kernels.FUNCTIONS else IDENTITY
        kernel = kernels.map_rows(fused.name, is_squared, H.dtype, width)
        self._launch(
            kernel, self._finish_grid(H, units, width), kernels.THREADS, H, bias, units.start,
            units.stop, H.dtype.type(affine.scale), H.dtype.type(affine.floor),
        )  # fmt: skip
        if fused is not function:
            function.apply(H[:, units], self.xp)

    def _finish_grid(self, H, units, width):
        from .kernels import cuda as kernels

        across = _n_parts(units.stop - units.start, kernels.THREADS * width)
        return across, min(_n_parts(len(H), _FINISH_ROWS), 65_535)

    def _launch(self, kernel, grid, block, *args):
        """Launch on the stream of the moment."""
        stream = self.xp.cuda.get_current_stream().ptr
        args = [_Unsynchronised(a) if isinstance(a, self.xp.ndarray) else a for a in args]
        kernel[grid, block, stream](*args)


class _Unsynchronised:
    """An array of CuPy for a launch on CuPy's own stream.

    Without the name of the stream, at whose end the launcher would wait.
    """

    def __init__(self, array):
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": None}
        self.shape, self.dtype, self.strides = array.shape, array.dtype, array.strides


# (process, GPU) on which a kernel has run.
_WORKING = set()


def _why_unavailable(index):
    """Nothing counts but a kernel that was compiled, launched and gave the right answer."""
    if any(process != os.getpid() for process, _ in _WORKING):
        return (
            "this process was forked from one that has used the GPU, which CUDA does not "
            "survive. Start workers as joblib does, or by multiprocessing's spawn"
        )
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); {_REMEDY}"
    try:
        from .kernels import language  # noqa: F401
    except ImportError as error:
        return (
            f"numba-cuda-mlir, which compiles the kernels, cannot be imported ({error}); {_REMEDY}"
        )
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return (
            f"no NVIDIA GPU can be reached ({error}). It needs an NVIDIA GPU, and its driver at "
            "least as new as the CUDA that CuPy was built for"
        )
    if (index or 0) >= n_devices:
        return f"there {'is 1 GPU' if n_devices == 1 else f'are {n_devices} GPUs'}, numbered from 0"
    try:
        return _try(cupy, index or 0)
    except Exception as error:  # whatever the compiler or the driver raises is the reason
        if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
            return (
                f"too little memory is free on GPU {index or 0} ({error}); end what else is there"
            )
        return (
            f"a kernel cannot be compiled and run with NumPy {np.__version__}, CuPy "
            f"{cupy.__version__} and numba-cuda-mlir {version('numba-cuda-mlir')} "
            f"({type(error).__name__}: {error}). Update the driver and these; {_REMEDY}"
        )


def _try(cupy, index):
    with cupy.cuda.Device(index), CudaEngine(index) as engine:
        packed = engine._pack(cupy.ones((1, 1), np.float32), np.dtype(np.float32), 128, 8)
        if packed[0, 0] != 1 or packed.sum() != 1:
            return f"a kernel gives wrong results on GPU {index}"
    return None


def _item(layer):
    return np.dtype(np.uint32) if layer.units.dtype == np.uint8 else layer.units.dtype


def _n_items(n_features, item):
    return _n_parts(n_features, 4) if item == np.uint32 else n_features


def _n_parts(n, size):
    return -(-n // size)


def _round_up(n, multiple):
    return _n_parts(n, multiple) * multiple


def _squares(xp, X):
    return xp.einsum("ij,ij->i", X, X)
