"""What the engines on the host share: NumPy arrays, threads over rows, sparse input, overflow."""

import platform
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from ..layers import LinearLayer
from ..version import __version__
from . import gradients
from .base import Engine, Sink, Stopwatch, round_activations
from .host_memory import host_memory
from .threads import in_parallel_call, n_cores, n_threads, parallel_for

# Slopes, and activations, that one thread processes at a time, so that they stay in its cache.
_SLOPES, _ACTIVATIONS = 2**15, 2**16
# Less work than this does not gain by a second thread: operations (rows x units x features) whose
# gradients are squared, and activations that are summed.
_SERIAL_GRADIENTS, _SERIAL_SUMS = 2**21, 2**17
# Activations of sparse samples that all threads together compute at a time, and the bounds for one
# thread: few enough to be finished in its cache, and enough to amortise a call of SciPy.
_SPARSE_TOTAL, _SPARSE_MAX, _SPARSE_MIN = 2**18, 2**17, 2**13
# Sums up to this number are checked for overflow as fast as their operands are.
_FEW_SUMS = 2**13
# Weights that are copied at a time to recompute sums.
_REPAIRED_WEIGHTS = 2**18


class HostEngine(Engine):
    """An engine whose arrays are NumPy's."""

    def memory(self):
        return host_memory()

    def statistics_dtype(self, layer):
        return layer.hidden_dtype

    def row_bytes(self, layer):
        return 0

    # Overridden where there is a compiled loop.
    _square_gradients = staticmethod(partial(gradients.squared_gradients, xp=np))

    def squared_gradients(self, layer, X, D, W):
        units, W = self._for_gradients(layer, D, W)
        is_manhattan, out = layer.metric == "manhattan", np.empty(X.shape)

        def evaluate(block):
            slopes = gradients.distance_slopes(layer, D[block], np)
            self._square_gradients(is_manhattan, X[block], units, slopes, W, out[block])

        _map_gradient_blocks(evaluate, X, layer.n_units)
        return out

    # Overridden where there is a compiled loop.
    _sum_differences = staticmethod(
        partial(gradients.difference_sums, xp=np, size=gradients.CACHED_DIRECTIONS)
    )

    def difference_sums(self, X, units, M):
        units, M = np.ascontiguousarray(units.T), np.ascontiguousarray(M)
        out = np.empty(X.shape)

        def evaluate(block):
            self._sum_differences(X[block], units, M[block], out[block])

        _map_gradient_blocks(evaluate, X, M.shape[1])
        return out

    def to_device(self, array):
        return array

    def to_host(self, array):
        return array

    def upload_if_fits(self, X, limit):
        return X

    def iter_uploads(self, blocks):
        return blocks

    def sink(self, out):
        return DirectSink(out)

    def stopwatch(self):
        return HostStopwatch()

    def sum_activations(self, prepared, X):
        H = self.hidden(prepared, X)
        total, step = np.empty(len(X)), max(1, _ACTIVATIONS // H.shape[1])

        def add(rows):
            for block in cut_rows(rows, step):
                round_activations(H[block], np).sum(axis=1, out=total[block])

        map_rows(add, len(X), 1 if H.size <= _SERIAL_SUMS else n_threads())
        return total

    def select_novel(self, layer, X, activity, threshold):
        return select_in_order(self.hidden_transposed(layer, X), activity, threshold)


def select_in_order(H: np.ndarray, activity: np.ndarray, threshold: float) -> np.ndarray:
    """Return `Engine.select_novel` for the activations H, as of `Engine.hidden_transposed`."""
    selected = []
    for i in range(len(H)):
        if activity[i] < threshold:
            selected.append(i)
            activity += H[i]
    return np.array(selected, np.intp)


class DirectSink(Sink):
    """The sink of an engine that writes H to its destination: there is nothing to copy."""

    n_buffers = 0

    def __init__(self, out: Any) -> None:
        self.out = out

    def buffer(self, part):
        return self.out[part]

    def put(self, part):
        pass


class HostStopwatch(Stopwatch):
    """Wall-clock times."""

    def __init__(self) -> None:
        self._totals: dict[str, float] = defaultdict(float)
        self._last = time.perf_counter()

    def time_stage(self, stage):
        now = time.perf_counter()
        self._totals[stage] += now - self._last
        self._last = now

    def totals(self):
        return dict(self._totals)


def host_identity(engine: str, compiler: str) -> dict[str, str]:
    """Return what a measurement on this host depends on: see `Engine.identity`."""
    return {
        "engine": engine,
        "device": processor_name(),
        "cores": str(n_cores()),
        "compiler": compiler,
        "package": __version__,
    }


@cache
def processor_name() -> str:
    """Return the name of the processor of the host."""
    return read_processor_name("/proc/cpuinfo", platform.machine(), platform.processor())


def read_processor_name(cpuinfo: str, machine: str, description: str) -> str:
    """Return the model name in a file as Linux has it, else LLVM's name or the description."""
    try:
        with open(cpuinfo) as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        if machine in ("aarch64", "arm64"):  # there, `description` is empty or "arm"
            with suppress(ImportError):
                from llvmlite.binding import get_host_cpu_name

                return get_host_cpu_name()
        return description or machine


def _map_gradient_blocks(function: Callable[[slice], object], X: Any, n_units: int) -> None:
    """Call a function of samples, features and units on blocks of rows, which stay in the cache."""
    step, is_small = max(1, _SLOPES // n_units), X.size * n_units <= _SERIAL_GRADIENTS

    def evaluate(rows):
        for block in cut_rows(rows, step):
            function(block)

    # Blocks are the same for every number of threads, since products are rounded by their shape.
    map_rows(evaluate, len(X), 1 if is_small else n_threads(), multiple=step)


def map_rows(
    function: Callable[[slice], object], n_rows: int, n_threads: int, multiple: int = 1,
    max_parts: int | None = None,
) -> None:  # fmt: skip
    """Call ``function(rows)`` on slices that cover the rows, on `n_threads` threads.

    There are four slices for each thread, which takes the next one when it is free.

    Parameters
    ----------
    function : callable
    n_rows, n_threads : int
    multiple : int
        Slices begin at multiples of it.
    max_parts : int, optional
        Bound of the number of slices, but not below one for each thread.
    """
    per_thread = 1 if n_threads == 1 else 4
    if max_parts is not None:
        per_thread = max(1, min(per_thread, max_parts // n_threads))
    n_parts = per_thread * n_threads
    if n_parts == 1 or in_parallel_call():
        function(slice(0, n_rows))
        return
    step = max(1, -(-n_rows // (n_parts * multiple))) * multiple
    parallel_for(function, cut_rows(slice(0, n_rows), step), n_threads)


def cut_rows(rows: slice, step: int) -> list[slice]:
    """Return slices of `step` rows, the last one of fewer, which cover a slice."""
    return [slice(i, min(i + step, rows.stop)) for i in range(rows.start, rows.stop, step)]


# Sparse input.


@dataclass(frozen=True)
class _PreparedSparse:
    layer: LinearLayer
    weights: np.ndarray  # (n_features, n_units): a nonzero of X is multiplied with one row


class SparseEvaluator:
    """Evaluates layers of products on sparse samples: only nonzeros are multiplied.

    It has the methods of `Engine` that the streaming of samples calls. X is a
    ``scipy.sparse.csr_array`` in the dtype of the layer; SciPy multiplies it without the GIL.

    Parameters
    ----------
    functions : namespace
        Its elementwise functions are called by `layer.finish`.
    """

    def __init__(self, functions: Any) -> None:
        self._functions = functions

    def prepare(self, layer: LinearLayer) -> _PreparedSparse:
        return _PreparedSparse(layer, np.ascontiguousarray(layer.units.T))

    def prepared_bytes(self, layer: LinearLayer) -> int:
        product = max(self._block_size(), layer.n_units) * layer.units.itemsize
        return 2 * layer.units.nbytes + n_threads() * product

    def row_bytes(self, layer: LinearLayer) -> int:
        return 0

    def hidden(
        self, prepared: _PreparedSparse, X: Any, out: np.ndarray, units: slice | None = None
    ) -> np.ndarray:
        """Write H of the samples X to `out`; all columns are computed, whatever `units` is."""
        step = max(1, self._block_size() // out.shape[1])

        def evaluate(rows):
            for block in cut_rows(rows, step):
                self._evaluate(prepared, X[block], out[block])

        map_rows(evaluate, len(out), n_threads() if out.size > _SPARSE_MAX else 1)
        return out

    @staticmethod
    def _block_size():
        """Return the number of activations that a thread computes at a time."""
        return max(_SPARSE_MIN, min(_SPARSE_MAX, _SPARSE_TOTAL // n_threads()))

    def _evaluate(self, prepared, X, out):
        layer = prepared.layer
        with ignore_overflow():
            out[...] = X @ prepared.weights
            layer.affine_of_sum.apply(out, np)
            repair_overflow(layer, X, out)
            layer.finish(out, self._functions)


# Overflow.


def ignore_overflow() -> np.errstate:
    """Return a context without NumPy's warnings of overflow.

    Samples far from all centres have infinite distances, which is correct; where infinity minus
    infinity occurs, the engine computes the sum again.
    """
    return np.errstate(over="ignore", invalid="ignore")


def may_overflow(layer: Any, X: np.ndarray, n_sums: int) -> bool:
    """Return whether `n_sums` products of samples X with weights may be infinite or NaN.

    X is inspected only if it is smaller than the sums; otherwise the caller inspects them.
    """
    if layer.reduction != "product":
        return False
    if n_sums < _FEW_SUMS or X.size > n_sums:
        return True
    return not (-layer.max_input < X.min() and X.max() < layer.max_input)


def repair_overflow(
    layer: LinearLayer, X: Any, sums: np.ndarray, units: slice = slice(None)
) -> None:
    """Recompute sums of products that have overflowed, in place: finite, or of the right sign.

    When products of a sample with the weights of a unit are infinite, the sum has the sign of the
    first of them, or is NaN, and tanh would hide the error.

    Parameters
    ----------
    layer : LinearLayer
    X : ndarray or csr_array of shape (rows, n_features)
    sums : ndarray of shape (rows, units)
        With the biases.
    units : slice
        The units of the layer that the sums belong to.
    """
    if sums.size <= _FEW_SUMS and np.vdot(sums, sums) < np.inf:  # one call is faster than two
        return
    if -np.inf < sums.min() and sums.max() < np.inf:  # False for NaN
        return
    layer = layer.part(units)
    for row in np.flatnonzero(~np.isfinite(sums).all(axis=1)):
        x = X[row] if isinstance(X, np.ndarray) else X[[row]].toarray()[0]
        columns = np.flatnonzero(~np.isfinite(sums[row]))
        step = max(1, _REPAIRED_WEIGHTS // len(x))
        for start in range(0, len(columns), step):
            block = columns[start : start + step]
            sums[row, block] = _scaled_product(layer.units[block], x) + layer.bias[block]


def _scaled_product(W, x):
    """Return ``W @ x`` in float64, scaled by powers of two so that no product overflows."""
    x, x_exponent = _scale_rows(x[None])
    W, exponents = _scale_rows(W)
    return np.ldexp(np.einsum("ij,j->i", W, x[0]), exponents + x_exponent)


def _scale_rows(A):
    """Return the rows of A, scaled by powers of two to at most 1, and the exponents."""
    exponents = np.frexp(np.abs(A).max(axis=1).astype(np.float64))[1]
    return np.ldexp(A.astype(np.float64), -exponents[:, None]), exponents
