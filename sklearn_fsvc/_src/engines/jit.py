"""The jit engine: compiled loops on the CPU, by numba and LLVM."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.metadata import version
from typing import Any

import numpy as np

from ..formulas import as_finite
from ..layers import RESPONSES
from .host import (
    HostEngine,
    SparseEvaluator,
    cut_rows,
    host_identity,
    ignore_overflow,
    map_rows,
    may_overflow,
    repair_overflow,
)
from .panels import as_items, by_panel, cached_panels, make_panels, packed_bytes
from .threads import allowed_threads, n_threads, thread_choices

# More cores than these need larger tiles, since waking their threads takes longer.
_FEW_CORES = 4
# Operations (rows x units x features) below which a second thread costs more than it saves.
_SERIAL = 2**21
# Work of a slice of rows at least: between two slices a thread waits for the GIL.
_SLICE_WORK = 2**26
# Units x features up to which gradients are computed by NumPy, and features up to which row sums
# are: compiling the loop would take longer than a small fit.
_UNCOMPILED_SIZE, _UNCOMPILED_FEATURES = 2**10, 64
# Elements of H whose function is applied while they are still in the cache.
_FINISH = 2**17
# A distance below this fraction of sum |x| + sum |c| has cancelled, and is summed again from the
# differences. Above it, cancellation costs at most three bits.
SUM_CANCELLATION = 0.125
# Bounds for the estimate of memory: lanes of a vector, and bytes that do not depend on the layer.
_MAX_LANES, _FIXED_BYTES = 64, 2**13


@dataclass(frozen=True)
class _PreparedLoops:
    """A layer in the layout of its kernel, and all arguments of the kernel but the rows.

    Attributes
    ----------
    layer : RBFLayer or LinearLayer
    panels : ndarray of shape (n_panels, items, lanes)
    kernel : compiled function
    tile : tuple of int
        Rows, panels and items of a tile.
    totals_shape : tuple of int
        Of the buffer for the sums of blocks whose items are not all summed.
    threads : int
        The largest number of threads.
    row_sums : callable
        ``row_sums(X)`` returns the values for each row that the kernel needs.
    unit_sums : tuple of ndarrays of shape (n_panels, lanes)
        The same for the units.
    epilogue : tuple
        one, scale, offset (n_panels, lanes), floor, exponent: see `kernels.simd`.
    finish : callable or None
        ``finish(H, units)`` applies what the kernel leaves of the formula, in place.
    """

    layer: Any
    panels: np.ndarray
    kernel: Any
    tile: tuple[int, int, int]
    totals_shape: tuple[int, int, int]
    threads: int
    row_sums: Callable
    unit_sums: tuple
    epilogue: tuple
    finish: Callable | None


class JitEngine(HostEngine):
    """Register-blocked loops over tiles, with threads over rows; bytes in integers, exactly.

    Parameters
    ----------
    target : kernels.target.Target, optional
        The processor for which code is emitted. The host by default; a test may emit the
        instructions of another one that the host can execute.
    """

    name = "jit"
    packages = ("numba",)
    # Enough for a few classes of some hundred samples; larger groups are faster in rounds.
    group_bytes = 2**25
    _target: Any = None

    def __init__(self, target: Any = None) -> None:
        self._target = target

    @property
    def target(self) -> Any:
        """The processor for which code is emitted."""
        return _host_target() if self._target is None else self._target

    def why_unavailable(self):
        try:
            import numba  # imported here because it takes 0.2 s
        except ImportError as error:
            return f"numba cannot be imported ({error}); pip install --upgrade numba"
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return (
                "NUMBA_DISABLE_JIT turns numba's compiler off; unset the variable before Python "
                'starts, or use device="blas"'
            )
        try:
            _try_a_kernel()
        except RuntimeError as error:
            return str(error).rstrip(".")
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            return f"numba does not work here ({why}); pip install --upgrade numba"
        return None

    def describe(self):
        target = self.target
        how = {
            "vnni": "minima of 4 bytes a lane, VNNI",
            "udot": "minima of 4 bytes a lane, udot",
            "sad": "absolute differences of 8 bytes a lane, psadbw",
            "portable": "a portable loop",
        }[target.byte_instruction]
        fma = ", FMA" if target.fma else ""
        return f"vectors of {target.width} bytes{fma}; uint8 by {how}"

    def identity(self):
        return host_identity(self.name, _compiler())

    def tunables(self, layer):
        has_short_terms = layer.units.dtype == np.uint8 or layer.reduction == "product"
        return _tunables(self.target, has_short_terms, layer.n_features, thread_choices())

    def is_tile_invariant(self, layer):
        return True

    def prepared_bytes(self, layer):
        item, n_vectors = self._item(layer), self.settings(layer)["block"][1]
        packed = packed_bytes(layer.units, item, self.target.lanes(item, n_vectors))
        # Besides the panels: sums, limits and offsets of the units.
        padded_units = layer.n_units + n_vectors * _MAX_LANES
        return layer.nbytes + packed + 32 * padded_units + _FIXED_BYTES

    def prepare(self, layer):
        return self._prepare(layer, make_panels)

    def prepare_cached(self, layer):
        return self._prepare(layer, cached_panels)

    def _prepare(self, layer, make_panels):
        from .kernels import cpu

        item, settings = self._item(layer), self.settings(layer)
        dtype = layer.hidden_dtype.type
        affine = layer.affine_of_sum
        n_rows, n_vectors = settings["block"]
        kernel, row_sums = self._choose_kernel(layer, item, settings["block"])
        lanes = self.target.lanes(item, n_vectors)
        panels, unit_sums = make_panels(layer.units, item, lanes, row_sums)
        offset = by_panel(affine.offset, panels, dtype, layer.n_units)
        one = panels.dtype.type(1)
        is_fused = kernel is not cpu.bytes_portable and layer.power == 1
        exponent = dtype(layer.function.exponent if is_fused else 0)
        scale = as_finite(affine.scale, layer.hidden_dtype)
        epilogue = (one, scale, offset, dtype(affine.floor), exponent)
        finish = _remaining_finish(layer, is_done=exponent != 0 or not layer.has_finish)
        tile = settings["tile_rows"], settings["tile_units"] // panels.shape[2], settings["step"]
        # A slot for each block of rows of a tile, or one if a call sums all items.
        n_slots = 1 if panels.shape[1] <= settings["step"] else -(-tile[0] // n_rows)
        return _PreparedLoops(
            layer, panels, kernel, tile, (n_slots, n_rows, panels.shape[2]), settings["threads"],
            row_sums, unit_sums, epilogue, finish,
        )  # fmt: skip

    def _item(self, layer):
        """Return the dtype of an item: a float, or the bytes that a lane sums in a step."""
        return self.target.byte_item if layer.units.dtype == np.uint8 else layer.units.dtype

    def _choose_kernel(self, layer, item, shape):
        """Return the kernel of a layer, and the function of the sums of rows that it needs."""
        from .kernels import cpu

        if item == np.uint8:
            return cpu.bytes_portable, _no_sums
        if item == np.uint64:
            return cpu.kernel("bytes_sad", item, shape, self.target), _no_sums
        if item == np.uint32:
            return cpu.kernel("bytes_min", item, shape, self.target), _byte_sums
        row_sums = _sums_and_limits if layer.reduction == "manhattan" else _no_sums
        return cpu.kernel(layer.reduction, item, shape, self.target), row_sums

    def hidden(self, prepared, X, out=None, units=None):
        layer = prepared.layer
        if out is None:
            out = np.empty((len(X), layer.n_units), layer.hidden_dtype)
        step = max(1, len(X))
        if prepared.finish:
            step = max(64, _FINISH // layer.n_units)
        units = units or slice(0, layer.n_units)

        def evaluate(rows):
            n_sums = (rows.stop - rows.start) * layer.n_units
            is_checked = prepared.finish is not None and may_overflow(layer, X[rows], n_sums)
            for tile in cut_rows(rows, step):
                _run(prepared, X[tile], out[tile], units)
                if prepared.finish:
                    with ignore_overflow():
                        if is_checked:
                            repair_overflow(layer, X[tile], out[tile, units], units)
                        prepared.finish(out[tile], units)

        work = len(X) * (units.stop - units.start) * layer.n_features
        threads = self.n_threads_for(prepared, work)
        map_rows(evaluate, len(X), threads, multiple=8, max_parts=work // _SLICE_WORK)
        return out

    def n_threads_for(self, prepared: _PreparedLoops, work: int) -> int:
        """Return the number of threads for so many operations: the setting, within the limits."""
        return allowed_threads(prepared.threads) if work > _SERIAL else 1

    def sparse_evaluator(self):
        return SparseEvaluator(np)

    @property
    def patch_threads(self):
        return n_threads()

    def map_slices(self, function, n_rows):
        map_rows(function, n_rows, self.patch_threads)

    def unfold(self, layer, X):
        from .kernels import cpu

        grid, item = layer.grid, X.dtype.type
        images = X.reshape(len(X), grid.image[0], -1)
        P = np.empty((len(X), *grid.output_shape, grid.n_inputs), X.dtype)
        n_channels, is_normalised = grid.image[2], layer.floor is not None
        _call(
            getattr(cpu, f"unfold_{X.dtype}"), _read_only(images), grid.size[1] * n_channels,
            is_normalised, item(layer.floor or 0), (grid.stride, grid.stride * n_channels), P,
        )  # fmt: skip
        return P.reshape(-1, grid.n_inputs)

    def average_pool(self, layer, A, H):
        from .kernels import cpu

        grid, item = layer.grid, A.dtype.type
        A = A.reshape(-1, *grid.output_shape, A.shape[1])
        _call(
            getattr(cpu, f"average_{A.dtype}"), A, RESPONSES.index(layer.response),
            item(layer.threshold), *map(np.array, grid.edges), H,
        )  # fmt: skip

    def _square_gradients(self, is_manhattan, X, units, slopes, W, out):
        if units.size <= _UNCOMPILED_SIZE:
            return super()._square_gradients(is_manhattan, X, units, slopes, W, out)
        from .kernels import cpu

        square = getattr(cpu, f"square_gradients_{X.dtype}")
        W = np.pad(W, ((0, -len(W) % 4), (0, 0)))
        buffer = np.empty((2, W.shape[1]), X.dtype)
        _call(square, is_manhattan, *map(_read_only, (X, units, slopes, W)), buffer, out)

    def _sum_differences(self, X, units, M, out):
        if units.size <= _UNCOMPILED_SIZE:
            return super()._sum_differences(X, units, M, out)
        from .kernels import cpu

        _call(getattr(cpu, f"sum_differences_{X.dtype}"), *map(_read_only, (X, units, M)), out)


@cache
def _host_target():
    from .kernels.target import host_target  # imports numba, which takes 0.2 s

    return host_target()


@lru_cache(maxsize=256)
def _tunables(target, has_short_terms, n_features, threads):
    from .kernels.target import CHUNK

    cores = threads[0]
    return {
        "M": (2048, 1024, 4096) if cores <= _FEW_CORES else (4096, 2048, 8192),
        "asymmetry": (1, 2, 4),
        "block": target.block_shapes(has_short_terms, n_features),
        "tile_rows": (128, 32, 64, 256),
        "tile_units": (2048, 256, 512, 8192),
        "step": (CHUNK, 4 * CHUNK, 16 * CHUNK),
        "threads": threads,
    }


@cache
def _compiler():
    return f"numba {version('numba')}, llvmlite {version('llvmlite')}"


@cache
def _try_a_kernel():
    """Compile or load a kernel and run it, as each fit and predict will; once in a process."""
    _byte_sums(np.zeros((1, 1), np.uint8))


def _remaining_finish(layer, is_done):
    """Return what is left to do for columns of H; `is_done`: whether the function is applied."""
    if layer.table is not None:
        return partial(_look_up, layer.table, 1 / layer.quantizer.scale)
    finish = layer.finish if not is_done else layer.round if layer.quantizer else None
    return finish and (lambda H, units: finish(H[:, units], np))


def _look_up(table, step, H, units):
    """`formulas.lookup_function`, compiled: twice as fast."""
    from .kernels import cpu

    look_up = getattr(cpu, f"look_up_{table.dtype}")
    _call(look_up, table, H.dtype.type(step), units.start, units.stop, H)


def _run(prepared, X, out, units):
    lanes = prepared.panels.shape[2]
    totals = np.empty(prepared.totals_shape, prepared.panels.dtype)
    _call(
        prepared.kernel, _read_only(as_items(X, prepared.panels.dtype)), prepared.panels,
        units.start // lanes, -(-units.stop // lanes), prepared.row_sums(X), prepared.unit_sums,
        prepared.epilogue, out, prepared.tile, totals,
    )  # fmt: skip


def _call(kernel, *args):
    """Call a compiled function. It raises nothing itself, but compiling or loading it may."""
    try:
        kernel(*args)
    except MemoryError:
        raise
    except Exception as error:
        folder = kernel.stats.cache_path
        remedy = f" If the cache is corrupt, delete {folder}." if folder else ""
        raise RuntimeError(
            f"a kernel of the jit engine cannot be compiled or read from numba's cache "
            f"({type(error).__name__}: {error}).{remedy}"
        ) from error


# Sums of rows that kernels need. Their identity is part of the key of cached panels.


def _no_sums(X):
    return ()


def _byte_sums(X):
    from .kernels import cpu

    sums = np.empty(len(X), np.int32)
    _call(cpu.byte_sums, _read_only(X), sums)
    return (sums,)


def _sums_and_limits(X):
    """Return the sum of each row, and its share of the limit for cancelled distances."""
    if X.shape[1] <= _UNCOMPILED_FEATURES:
        with ignore_overflow():
            sums, limits = _sums_in_order(X), _sums_in_order(np.abs(X))
    else:
        from .kernels import cpu

        sums, limits = np.empty((2, len(X)), X.dtype)
        _call(getattr(cpu, f"sums_{X.dtype}"), _read_only(X), sums, limits)
    limits *= X.dtype.type(SUM_CANCELLATION)
    return sums, limits


def _sums_in_order(X):
    """Return the sum of each row in the order of the features, rounded as the kernels do."""
    if len(X) <= X.shape[1]:
        return np.add.accumulate(X, axis=1)[:, -1].copy()
    sums = X[:, 0].copy()
    for k in range(1, X.shape[1]):
        sums += X[:, k]
    return sums


def _read_only(X):
    """Return a read-only view: numba has a type, hence a signature, for each kind of access."""
    X = X.view()
    X.flags.writeable = False
    return X
