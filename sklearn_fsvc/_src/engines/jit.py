"""Compiled loops on the CPU, by numba."""

from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.metadata import version

import numpy as np

from ..formulas import finite
from ..layers import RESPONSES
from .host import HostEngine, far_away, host_identity, map_rows, may_overflow, mend
from .integers import by_panel, items_of_rows, laid_out, lay_out, packed_bytes
from .sparse import SparsePlace
from .threads import allowed_threads, n_cores, n_threads, thread_choices

# More cores than these want larger layers, for it takes longer to wake their threads.
_FEW_CORES = 4
# Work under which a second thread costs more than it brings, in synapses.
_SERIAL = 2**21
# Numbers of units whose gradients NumPy takes: to compile the loop takes longer than a small fit.
_NOT_COMPILED = 2**10
# Work that is worth a slice of its own: between slices threads wait for the interpreter.
_PART = 2**26
# Elements of H finished while they are still in cache, where a function is left to apply.
_FINISH = 2**17
# A distance under this part of sum |x| + sum |c| is summed again from the differences.
# What cancellation costs above it is at most three bits.
CANCELLATION = 0.125
# Features whose sums NumPy makes in the same order: to compile the loop takes longer than a small
# fit.
_FEW_FEATURES = 64
# Lanes of a vector, at most; and what a call takes whatever the layer.
_MOST_LANES, _FEW_BYTES = 64, 2**13


@dataclass(frozen=True)
class _PreparedLoops:
    layer: object
    panels: np.ndarray  # (n_panels, items, lanes)
    kernel: object
    tile: tuple  # rows, panels, items
    waiting: tuple  # the shape of the sums that wait
    threads: int  # at most
    row_sums: object  # X -> the per-row arrays the kernel wants
    unit_sums: tuple  # the same of the units, each (n_panels, lanes)
    epilogue: tuple  # one, scale, offset (n_panels, lanes), floor, whether exp follows
    rest: object  # of the formula, which the kernel has not done: (H, units) -> None, or None


class JitEngine(HostEngine):
    """Register-blocked loops, threads over row tiles; uint8 in integers, exactly."""

    name = "jit"
    packages = ("numba",)
    group_bytes = 2**25  # some classes of some hundred rows; larger ones take longer than in rounds

    def why_unavailable(self):
        try:
            import numba  # here because it takes 0.2 s
        except ImportError as error:
            return f"numba cannot be imported ({error}); pip install --upgrade numba"
        if numba.config.DISABLE_JIT:
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

    def details(self):
        from .kernels.target import TARGET

        how = {
            "vnni": "minima of 4 bytes a lane, VNNI",
            "udot": "minima of 4 bytes a lane, udot",
            "sad": "absolute differences of 8 bytes a lane, psadbw",
            "portable": "a portable loop",
        }[TARGET.uint8]
        fma = ", FMA" if TARGET.fma else ""
        return f"vectors of {TARGET.width} bytes{fma}; uint8 by {how}"

    def identity(self):
        return host_identity(self.name, _compiler())

    def tunables(self, layer):
        is_short = layer.units.dtype == np.uint8 or layer.accumulation == "product"
        return _knobs(is_short, layer.n_features, n_cores(), thread_choices())

    def is_tile_exact(self, layer):
        return True

    def prepared_bytes(self, layer):
        # And what rows and units add to the panels: sums, limits, offsets.
        vectors = self.settings(layer)["block"][1]
        packed = packed_bytes(layer.units, _item(layer), vectors)
        return layer.nbytes + packed + 32 * (layer.n_units + vectors * _MOST_LANES) + _FEW_BYTES

    def prepare(self, layer):
        return self._prepare(layer, lay_out)

    def prepare_for_few(self, layer):
        return self._prepare(layer, laid_out)

    def _prepare(self, layer, lay_out):
        from .kernels import cpu

        item, settings = _item(layer), self.settings(layer)
        dtype = layer.hidden_dtype.type
        affine = layer.on_sums
        kernel, row_sums = _choose(cpu, layer, item, settings["block"])
        panels, unit_sums = lay_out(layer.units, item, settings["block"][1], row_sums)
        offset = by_panel(affine.offset, panels, dtype, layer.n_units)
        one = panels.dtype.type(1)
        is_fused = kernel is not cpu.bytes_portable and layer.power == 1
        exponent = dtype(layer.function.exponent if is_fused else 0)
        scale = finite(affine.scale, layer.hidden_dtype)
        epilogue = (one, scale, offset, dtype(affine.floor), exponent)
        rest = _rest(layer, is_done=exponent != 0 or not layer.has_finish)
        tile = settings["tile_rows"], settings["tile_units"] // panels.shape[2], settings["step"]
        n_rows = settings["block"][0]
        n_slots = 1 if panels.shape[1] <= settings["step"] else -(-tile[0] // n_rows)
        return _PreparedLoops(
            layer, panels, kernel, tile, (n_slots, n_rows, panels.shape[2]), settings["threads"],
            row_sums, unit_sums, epilogue, rest,
        )  # fmt: skip

    def hidden(self, prepared, X, out=None, units=None):
        layer = prepared.layer
        if out is None:
            out = np.empty((len(X), layer.n_units), layer.hidden_dtype)
        step = max(1, len(X))
        if prepared.rest:
            step = max(64, _FINISH // layer.n_units)
        units = units or slice(0, layer.n_units)

        def evaluate(rows):
            n_sums = (rows.stop - rows.start) * layer.n_units
            is_watched = prepared.rest is not None and may_overflow(layer, X[rows], n_sums)
            for start in range(rows.start, rows.stop, step):
                tile = slice(start, min(start + step, rows.stop))
                _run(prepared, X[tile], out[tile], units)
                if prepared.rest:
                    with far_away():
                        if is_watched:
                            mend(layer, X[tile], out[tile, units], units)
                        prepared.rest(out[tile], units)

        work = len(X) * (units.stop - units.start) * layer.n_features
        threads = allowed_threads(prepared.threads) if work > _SERIAL else 1
        map_rows(evaluate, len(X), threads, multiple=8, most_parts=work // _PART)
        return out

    def sparse_evaluator(self):
        return SparsePlace(np)

    @property
    def patch_threads(self):
        return n_threads()

    def divide(self, function, n_rows):
        map_rows(function, n_rows, self.patch_threads)

    def unfold(self, layer, X):
        from .kernels import cpu

        grid, item = layer.grid, X.dtype.type
        images = X.reshape(len(X), grid.image[0], -1)
        P = np.empty((len(X), *grid.places, grid.n_inputs), X.dtype)
        n_channels, is_normalised = grid.image[2], layer.floor is not None
        _call(
            getattr(cpu, f"unfold_{X.dtype}"), _read_only(images), grid.size[1] * n_channels,
            is_normalised, item(layer.floor or 0), (grid.stride, grid.stride * n_channels), P,
        )  # fmt: skip
        return P.reshape(-1, grid.n_inputs)

    def average(self, layer, A, H):
        from .kernels import cpu

        grid, item = layer.grid, A.dtype.type
        A = A.reshape(-1, *grid.places, A.shape[1])
        _call(
            getattr(cpu, f"average_{A.dtype}"), A, RESPONSES.index(layer.response),
            item(layer.threshold), *map(np.array, grid.edges), H,
        )  # fmt: skip

    def _square_gradients(self, is_manhattan, X, units, slopes, W, out):
        if units.size <= _NOT_COMPILED:
            return super()._square_gradients(is_manhattan, X, units, slopes, W, out)
        from .kernels import cpu

        square = getattr(cpu, f"square_{X.dtype}")
        W = np.pad(W, ((0, -len(W) % 4), (0, 0)))
        steps = np.empty((2, W.shape[1]), X.dtype)
        _call(square, is_manhattan, *map(_read_only, (X, units, slopes, W)), steps, out)


@lru_cache(maxsize=256)
def _knobs(is_short, n_features, cores, threads):
    from .kernels.target import CHUNK, shapes

    return {
        "M": (2048, 1024, 4096) if cores <= _FEW_CORES else (4096, 2048, 8192),
        "asymmetry": (1, 2, 4),
        "block": shapes(is_short, n_features),
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
    """Do once in a process what every fit and predict does: compile or load, and run."""
    _byte_sums(np.zeros((1, 1), np.uint8))


def _rest(layer, is_done):
    """What is left to do for some columns of H, where the function is done or not."""
    if layer.table is not None:
        return partial(_look_up, layer.table, 1 / layer.steps.scale)
    rest = layer.finish if not is_done else layer.round if layer.steps else None
    return rest and (lambda H, units: rest(H[:, units], np))


def _look_up(table, step, H, units):
    """`formulas.looked_up`, compiled: in half the time."""
    from .kernels import cpu

    look_up = getattr(cpu, f"look_up_{table.dtype}")
    _call(look_up, table, H.dtype.type(step), units.start, units.stop, H)


def _run(prepared, X, out, units):
    lanes = prepared.panels.shape[2]
    _call(
        prepared.kernel, _read_only(items_of_rows(X, prepared.panels.dtype)), prepared.panels,
        units.start // lanes, -(-units.stop // lanes), prepared.row_sums(X), prepared.unit_sums,
        prepared.epilogue, out, prepared.tile, np.empty(prepared.waiting, prepared.panels.dtype),
    )  # fmt: skip


def _call(kernel, *args):
    """Call a compiled function; it raises nothing itself, but its way from the cache may."""
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


def uint8_instruction():
    """How bytes are summed on this processor: "vnni", "udot", "sad" or "portable"."""
    from .kernels.target import TARGET

    return TARGET.uint8


def _item(layer):
    """dtype of one kernel item: a float, or the bytes that one lane adds up in a step."""
    if layer.units.dtype != np.uint8:
        return layer.units.dtype
    items = {"vnni": "u4", "udot": "u4", "sad": "u8", "portable": "u1"}
    return np.dtype(items[uint8_instruction()])


def _choose(cpu, layer, item, shape):
    """The kernel for this layer, and the function that sums rows for it."""
    if item == np.uint8:
        return cpu.bytes_portable, _no_sums
    if item == np.uint64:
        return cpu.kernel("bytes_sad", item, shape), _no_sums
    if item == np.uint32:
        return cpu.kernel("bytes_min", item, shape), _byte_sums
    row_sums = _sums_and_limits if layer.accumulation == "manhattan" else _no_sums
    return cpu.kernel(layer.accumulation, item, shape), row_sums


def _no_sums(X):
    return ()


def _byte_sums(X):
    from .kernels import cpu

    sums = np.empty(len(X), np.int32)
    _call(cpu.byte_sums, _read_only(X), sums)
    return (sums,)


def _sums_and_limits(X):
    """Sum of each row, and its part of the distance under which cancellation shows."""
    if X.shape[1] <= _FEW_FEATURES:
        with far_away():
            sums, limits = _last_sums(X), _last_sums(np.abs(X))
            limits *= X.dtype.type(CANCELLATION)
        return sums, limits
    from .kernels import cpu

    sums, limits = np.empty((2, len(X)), X.dtype)
    function = cpu.sums_float64 if X.dtype == np.float64 else cpu.sums_float32
    _call(function, _read_only(X), sums, limits)
    limits *= X.dtype.type(CANCELLATION)
    return sums, limits


def _last_sums(X):
    """Sum of each row, added up in the order of the features."""
    if len(X) <= X.shape[1]:
        return np.add.accumulate(X, axis=1)[:, -1].copy()
    sums = X[:, 0].copy()
    for k in range(1, X.shape[1]):
        sums += X[:, k]
    return sums


def _read_only(X):
    """A view that numba takes for one type, whether or not X may be written to."""
    X = X.view()
    X.flags.writeable = False
    return X
