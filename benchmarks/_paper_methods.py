"""Implementations of a layer, to be timed: ours, the paper's, and other libraries.

``prepare(kind, N, m, n)`` of a method returns a function that evaluates a random layer of that
kind once, and the number of synapses (samples x units x features) that it processes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec

import numpy as np

import _paper_2017 as paper
from sklearn_fsvc._src.engines.host import HostStopwatch
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.kernels import K
from sklearn_fsvc._src.tuning import example, medians
from sklearn_fsvc._src.utils.availability import install_command

# Synapses of one call of the paper's loop, which limit its number of samples.
LOOP_SYNAPSES = 4e7


class Refused(Exception):
    """A cell of a table cannot be measured, for the reason in the message."""


@dataclass(frozen=True)
class Method:
    """An implementation that is timed.

    Attributes
    ----------
    name : str
    prepare : callable
        ``prepare(kind, N, m, n)`` returns (function, synapses), or raises `Refused`.
    stopwatch : callable
        Passed to `tuning.medians`.
    calls : int
        Calls timed as one.
    """

    name: str
    prepare: Callable
    stopwatch: Callable = HostStopwatch
    calls: int = 1

    def t_syn(self, kind, N, m, n, quick=False, timer=medians):
        """Return the seconds per synapse: the median of calls within about a second."""
        function, synapses = self.prepare(kind, N, m, n)
        repeats, seconds = (3, 0.5) if quick else (9, 1)
        times = timer({"": function}, repeats, seconds, self.stopwatch, self.calls)
        return times[""] / synapses


def ours(engine, name=None, threads=None, **settings):
    """Return the layer by one of our engines, with the given settings."""

    def prepare(kind, N, m, n):
        itemsize = np.dtype(kind.split()[-1]).itemsize
        _check_memory(engine, 3 * (N + m) * n * itemsize + 2 * N * m * max(4, itemsize))
        X, layer = example(kind, N, m, n)
        before = engine.tuned
        try:
            engine.tuned = {kind: {**engine.settings(layer), **settings}}
            prepared = engine.prepare(layer)
        finally:
            engine.tuned = before
        if threads:
            prepared = replace(prepared, threads=threads)
        X, H = engine.to_device(X), engine.xp.empty((N, m), layer.hidden_dtype)
        return lambda: engine.hidden(prepared, X, H), N * m * n

    calls = 1 if engine.xp is np else 4
    return Method(name or engine.name, prepare, engine.stopwatch, calls)


def paper_loop(max_synapses=LOOP_SYNAPSES):
    """Return the paper's @jit loop, one thread of the host."""

    def prepare(kind, N, m, n):
        *formula, dtype = kind.split()
        n_rows = min(N, max(1, int(max_synapses / (m * n))))
        X, units, parameter = _by_features(kind, N, m, n)
        H = np.empty((n_rows, m), np.float64 if dtype == "float64" else np.float32)
        loop = paper.loop(formula[0], "int" in dtype)
        return lambda: loop(X, units, H, parameter, n_rows), n_rows * m * n

    return Method("paper @jit", prepare)


def paper_kernel(engine, block):
    """Return the paper's kernel on the GPU, with blocks of `block` x `block` threads."""

    def prepare(kind, N, m, n):
        *formula, dtype = kind.split()
        if block**2 > paper.MAX_THREADS:
            raise Refused("too many threads")
        itemsize = np.dtype(dtype).itemsize
        _check_memory(engine, 2 * (N + m) * n * itemsize + N * m * max(4, itemsize))
        if find_spec("numba_cuda_mlir") is None:
            raise Refused(f"needs the compiler: {install_command('cuda-kernels')}")
        from _paper_kernel import kernel as make

        kernel, grid = make(formula[0], "int" in dtype), (-(-N // block), -(-m // block))
        X, units, parameter = _by_features(kind, N, m, n)
        H = engine.xp.empty((N, m), np.float64 if dtype == "float64" else np.float32)
        arguments = engine.to_device(X), engine.to_device(units), H, np.float64(parameter)
        return partial(engine.launch, kernel, grid, (block, block), *arguments), N * m * n

    return Method(f"paper kernel, B = {block}", prepare, engine.stopwatch, calls=2)


def scipy_cdist():
    def prepare(kind, N, m, n):
        from scipy.spatial.distance import cdist

        if kind.startswith("tanh"):
            raise Refused("no product")
        N, m = min(N, 1024), min(m, 1024)
        X, layer = example(kind, N, m, n)
        return lambda: cdist(X, layer.units, "cityblock"), N * m * n

    return Method("SciPy cdist", prepare)


def numpy_product():
    def prepare(kind, N, m, n):
        if not kind.startswith("tanh"):
            raise Refused("no distance")
        X, layer = example(kind, N, m, n)
        return lambda: np.tanh(X @ layer.units.T + layer.bias), N * m * n

    return Method(f"NumPy, {n_threads()} threads", prepare)


def _by_features(kind, N, m, n):
    """Return X (n, N), units (n, m) and the parameter: the base of the triangle, or 0."""
    X, layer = example(kind, N, m, n)
    parameter = 0.0 if kind.startswith("tanh") else K * layer.radius
    return np.ascontiguousarray(X.T), np.ascontiguousarray(layer.units.T), parameter


def _check_memory(engine, n_bytes):
    if n_bytes > engine.memory()[0]:
        raise Refused("too little memory")
