"""What all engines on the host share: their arrays, and rows that threads divide up."""

import platform
import time
from collections import defaultdict
from contextlib import suppress
from functools import cache, partial

import numpy as np

from ..version import __version__
from . import gradients
from .base import Engine, Sink, Stopwatch, in_steps
from .memory import host_memory
from .pool import is_part, share
from .threads import n_cores, n_threads

# Slopes that one thread makes at a time, few enough for its cache.
_SLOPES = 2**15
# Squared gradients of fewer synapses than these are worth no second thread.
_SERIAL = 2**21
# Outputs that one thread adds up at a time, for its cache, and how many are worth a second one.
_OUTPUTS, _SERIAL_SUMS = 2**16, 2**17


@cache
def processor():
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        if platform.machine() in ("aarch64", "arm64"):  # Linux and macOS say no more than that
            with suppress(ImportError):
                from llvmlite.binding import get_host_cpu_name

                return get_host_cpu_name()
        return platform.processor() or platform.machine()


def host_identity(engine, compiler):
    """What a measurement on this host depends on: see `Engine.identity`."""
    return {
        "engine": engine,
        "device": processor(),
        "cores": str(n_cores()),
        "compiler": compiler,
        "package": __version__,
    }


def far_away():
    """A context without NumPy's warnings of rows that are far from everything.

    Their distances are infinite, and what expands to infinity less infinity is computed again.
    """
    return np.errstate(over="ignore", invalid="ignore")


def map_rows(function, n_rows, n_threads, multiple=1, most_parts=None):
    """Call ``function(rows)`` on slices that cover the rows, on `n_threads` threads.

    The calling thread works too, and each thread takes the next slice when it is free: four
    for each thread, fewer where `most_parts` says so.
    """
    if is_part():
        return function(slice(0, n_rows))
    each = 1 if n_threads == 1 else 4
    if most_parts is not None:
        each = max(1, min(each, most_parts // n_threads))
    n_parts = each * n_threads
    if n_parts == 1:
        return function(slice(0, n_rows))
    step = max(1, -(-n_rows // (n_parts * multiple))) * multiple
    parts = [slice(i, min(i + step, n_rows)) for i in range(0, n_rows, step)]
    share(function, parts, n_threads)


class HostEngine(Engine):
    """An engine whose arrays are NumPy's."""

    def memory(self):
        return host_memory()

    def statistics_dtype(self, layer):
        return layer.hidden_dtype

    def row_bytes(self, layer):
        return 0

    # `gradients.square` without the namespace.
    _square_gradients = staticmethod(partial(gradients.square, xp=np))

    def squared_gradients(self, layer, X, D, W):
        units, W = self._for_gradients(layer, D, W)
        out, step = np.empty(X.shape), max(1, _SLOPES // layer.n_units)

        def evaluate(rows):
            for start in range(rows.start, rows.stop, step):
                block = slice(start, min(start + step, rows.stop))
                slopes = gradients.slopes(layer, D[block], np)
                is_manhattan = layer.metric == "manhattan"
                self._square_gradients(is_manhattan, X[block], units, slopes, W, out[block])

        is_small = D.size * layer.n_features <= _SERIAL
        map_rows(evaluate, len(X), 1 if is_small else n_threads())
        return out

    def to_device(self, array):
        return array

    def to_host(self, array):
        return array

    def upload_if_fits(self, X, limit):
        return X

    def uploads(self, blocks):
        return blocks

    def sink(self, out):
        return DirectSink(out)

    def stopwatch(self):
        return HostStopwatch()

    def activity(self, prepared, X):
        H = self.hidden(prepared, X)
        total, step = np.empty(len(X)), max(1, _OUTPUTS // H.shape[1])

        def add(rows):
            for start in range(rows.start, rows.stop, step):
                block = slice(start, min(start + step, rows.stop))
                in_steps(H[block], np).sum(axis=1, out=total[block])

        map_rows(add, len(X), 1 if H.size <= _SERIAL_SUMS else n_threads())
        return total

    def novel(self, layer, X, activity, threshold):
        outputs, kept = self.outputs_by_unit(layer, X), []
        for i in range(len(X)):
            if activity[i] < threshold:
                kept.append(i)
                activity += outputs[i]
        return np.array(kept, np.intp)


class DirectSink(Sink):
    """The engine writes where H is to stay."""

    n_buffers = 0

    def __init__(self, out):
        self.out = out

    def buffer(self, part):
        return self.out[part]

    def put(self, part):
        pass

    def free(self):
        pass

    def close(self):
        pass


class HostStopwatch(Stopwatch):
    def __init__(self):
        self._totals, self._last = defaultdict(float), time.perf_counter()

    def lap(self, stage):
        now = time.perf_counter()
        self._totals[stage] += now - self._last
        self._last = now

    def totals(self):
        return dict(self._totals)
