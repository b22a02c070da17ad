"""Engines whose arrays are NumPy's, and the memory of the host."""

import math
import os
import platform
import time
from collections import defaultdict
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import numpy as np

from ..version import __version__
from . import base
from .base import Engine, Sink, Stopwatch, in_steps
from .threads import is_part, n_cores, n_threads, share

# What all engines on the host share: their arrays, and rows that threads divide up.

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
    _square_gradients = staticmethod(partial(base.square, xp=np))

    def squared_gradients(self, layer, X, D, W):
        units, W = self._for_gradients(layer, D, W)
        out, step = np.empty(X.shape), max(1, _SLOPES // layer.n_units)

        def evaluate(rows):
            for start in range(rows.start, rows.stop, step):
                block = slice(start, min(start + step, rows.stop))
                slopes = base.distance_slopes(layer, D[block], np)
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


# How much memory the host has, and how much of it this process may still take.

# Where the system does not say how much memory it has.
_ASSUMED_TOTAL = 4 * 2**30
# Where Linux tells of memory, and of the control groups that bound it.
_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
# Limit, use, and what of the use is files that Linux gives up when memory is wanted: the names
# in the first version of control groups, and in the second.
_FIRST = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
_SECOND = "memory.max", "memory.current", "inactive_file"


def host_memory():
    """(free, total) bytes. Free is what may be taken without swapping, where known.

    A container or a batch job may have less than the machine: its control group has a limit, and
    so may each group around it. The least of what they leave is free.
    """
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = _ASSUMED_TOTAL
    available = _available()
    free = total // 2 if available is None else available
    for limit, group, names in _limits(os.getpid(), total):
        total, free = min(total, limit), min(free, max(0, limit - _used(group, names)))
    return free, total


def _available():
    """Bytes that may be taken without swapping; None where Linux does not say.

    Each `predict` asks for it. It is one of the first lines, so only those are read.
    """
    try:
        with open(_MEMINFO, "rb", buffering=0) as lines:
            _, found, rest = lines.read(512).partition(b"MemAvailable:")
    except OSError:
        return None
    return 1024 * int(rest.split(maxsplit=1)[0]) if found else None


@cache
def _limits(process, total):
    """(limit, folder, names of files) of its control groups that may take less than `total` bytes.

    They are looked for once, which takes a third of the time in which one row is answered.
    """
    limits = ((_limit(group, names), group, names) for group, names in _own_groups())
    return tuple(found for found in limits if found[0] < total)


def _own_groups():
    """(folder, names of files) of the control groups of this process, and of those around them."""
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, names = _GROUPS, _SECOND
        elif "memory" in controllers.split(","):
            root, names = _GROUPS / "memory", _FIRST
        else:
            continue
        own = root / path.strip("/")
        yield from ((g, names) for g in (own, *own.parents) if g.is_relative_to(root))


def _limit(group, names):
    """Bytes; infinity where there is no limit, or the folder is not to be seen from here."""
    try:
        text = (group / names[0]).read_text().strip()
    except OSError:
        return math.inf
    return math.inf if text == "max" else int(text)


def _used(group, names):
    """Bytes that are taken, without those of files that Linux gives up."""
    _, used, files = names
    try:
        used = int((group / used).read_text())
    except OSError:
        return 0
    return used - int(_fields(group / "memory.stat").get(files, 0))


def _fields(path):
    """Name -> value of a file of lines such as "name 5" or "name 5 kB"; {} where there is none."""
    try:
        return dict(line.split()[:2] for line in path.read_text().splitlines())
    except OSError:
        return {}


# Sums of products that are no numbers, on the host: made again in float64.
#
# Where the products of a row with the weights of a unit are infinite, the first of them decides the
# sign of the sum, or the sum is NaN. tanh would hide both.

# Sums that are looked at as fast as what else says that they are numbers, in one thread of a BLAS.
_FEW = 2**13
# Weights that are copied at a time.
_AT_A_TIME = 2**18


def may_overflow(layer, X, n_sums):
    """Whether so many sums for rows X may be no numbers: a look at X, where that is the smaller."""
    if layer.accumulation != "product":
        return False
    if n_sums < _FEW or X.size > n_sums:
        return True
    return not (-layer.most < X.min() and X.max() < layer.most)


def mend(layer, X, sums, units=slice(None)):
    """Make sums of products finite that are not, or infinite with the sign they have, in place.

    `sums` (rows, units) hold their biases, X may be a ``csr_array``, and `units` are those of the
    layer that the sums are of.
    """
    if sums.size <= _FEW and np.vdot(sums, sums) < np.inf:  # one call is less than two
        return
    if -np.inf < sums.min() and sums.max() < np.inf:  # False of NaN
        return
    layer = layer.part(units)
    for row in np.flatnonzero(~np.isfinite(sums).all(axis=1)):
        x = X[row] if isinstance(X, np.ndarray) else X[[row]].toarray()[0]
        columns = np.flatnonzero(~np.isfinite(sums[row]))
        step = max(1, _AT_A_TIME // len(x))
        for start in range(0, len(columns), step):
            some = columns[start : start + step]
            sums[row, some] = _exact(x, layer.units[some]) + layer.bias[some]


def _exact(x, W):
    """``W @ x`` in float64, of numbers of any size."""
    x, x_power = _near_one(x[None])
    W, powers = _near_one(W)
    return np.ldexp(np.einsum("ij,j->i", W, x[0]), powers + x_power)


def _near_one(rows):
    """Rows over powers of two, so that they are at most 1, and the powers."""
    powers = np.frexp(np.abs(rows).max(axis=1).astype(np.float64))[1]
    return np.ldexp(rows.astype(np.float64), -powers[:, None]), powers
