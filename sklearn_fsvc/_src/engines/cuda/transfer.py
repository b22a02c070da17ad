"""Between host and GPU: pinned buffers in turn, so that copies overlap with kernels.

A copy from ordinary memory, or to it, is done in steps by the driver, at a fraction of what the
link can do. So rows are first copied into pinned memory by the cores of the host, and travel
from there on a stream of their own; and on their way back the same.
"""

from collections import deque
from functools import partial
from itertools import cycle, pairwise

import numpy as np

from ..base import Sink, Stopwatch
from ..threads import n_threads, share, submit

# Threads copy parts of this size that end where the target's huge pages do: two threads
# that touch the same new page for the first time would both wait for it to be cleared.
_PART, _PAGE = 2**23, 2**21
# Bytes from which an array is worth buffers of its own, and those of a block on its way in and out.
_LARGE, _IN, _OUT = 2**22, 2**26, 2**24
# Parts of what is copied into pinned memory, whose pages are there.
_STAGED = 2**21


def start_copy(target, source):
    """Begin ``target[:] = source`` on all cores; the futures to wait for."""
    return submit([partial(np.copyto, *part) for part in _cut(target, source, _PART)])


def _copy(target, source):
    """``target[:] = source`` on all cores; the thread that calls is one of them."""
    share(lambda part: np.copyto(*part), _cut(target, source, _STAGED), n_threads())


def _cut(target, source, size):
    """Parts of the bytes of both, the first of which ends where a page of the target does."""
    target, source = (a.reshape(-1).view(np.uint8) for a in (target, source))
    first = -target.ctypes.data % _PAGE or size
    edges = [0, *range(first, len(target), size), len(target)]
    return [(target[i:j], source[i:j]) for i, j in pairwise(edges)]


class _Pinned:
    """Pinned host memory that is made once and used again."""

    def __init__(self):
        self._bytes = np.empty(0, np.uint8)

    def array(self, shape, dtype):
        import cupyx

        size = int(np.prod(shape)) * dtype.itemsize
        if len(self._bytes) < size:
            self._bytes = cupyx.empty_pinned(size, np.uint8)
        return self._bytes[:size].view(dtype).reshape(shape)


def to_device(xp, array):
    """An array of `xp` for one of the host."""
    return upload(xp, array) if _is_large(array, np.ndarray) else xp.asarray(array)


def to_host(xp, array):
    """A new array of the host for one of `xp`."""
    return _download(xp, array) if _is_large(array, xp.ndarray) else xp.asnumpy(array)


def _is_large(array, kind):
    is_matrix = isinstance(array, kind) and array.ndim == 2 and array.flags.c_contiguous
    return is_matrix and array.nbytes >= _LARGE


def upload(xp, rows):
    """An array of `xp` for rows of the host, of whatever gives slices of them."""
    there, way = xp.empty(rows.shape, rows.dtype), _WayIn(xp)
    try:
        for part in _parts(rows, _IN):
            way.send(np.ascontiguousarray(rows[part]), there[part])
    finally:
        way.finish()
    return there


def _download(xp, array):
    """All cores touch the pages of the new array, which takes one of them several times as long."""
    out = np.empty(array.shape, array.dtype)
    sink = PinnedSink(xp, out)
    for part in _parts(array, _OUT):
        sink.take(part, array[part])
    sink.close()
    return out


def _parts(rows, n_bytes):
    step = max(1, n_bytes // max(1, rows.nbytes // len(rows)))
    return [slice(i, min(i + step, len(rows))) for i in range(0, len(rows), step)]


class _WayIn:
    """Pinned buffers, and the stream on which what is in them travels."""

    def __init__(self, xp):
        self._xp, self._copying = xp, xp.cuda.Stream(non_blocking=True)
        self._slots = cycle([(_Pinned(), xp.cuda.Event()) for _ in range(2)])

    def send(self, block, array):
        """Begin to copy a block of the host to an array; the event of its arrival."""
        pinned, copied = next(self._slots)
        copied.synchronize()
        staged = pinned.array(block.shape, block.dtype)
        _copy(staged, block)
        # Its memory may have been another array's, which queued kernels still read.
        self._copying.wait_event(self._xp.cuda.get_current_stream().record())
        array.set(staged, stream=self._copying)
        copied.record(self._copying)
        return copied

    def finish(self):
        self._copying.synchronize()


def uploads(xp, blocks):
    """Arrays of `xp` for host arrays; the next is on its way while one is worked on."""
    way, before = _WayIn(xp), None
    try:
        for block in blocks:
            array = xp.empty(block.shape, block.dtype)
            started = array, way.send(block, array)
            if before is not None:
                yield _arrived(xp, *before)
            before = started
        if before is not None:
            yield _arrived(xp, *before)
    finally:
        way.finish()


def _arrived(xp, array, copied):
    xp.cuda.get_current_stream().wait_event(copied)
    return array


class PinnedSink(Sink):
    """Tiles of H to a host array: one is computed, one travels, two are stored."""

    n_buffers = 4

    def __init__(self, xp, out):
        self._copying = xp.cuda.Stream(non_blocking=True)
        self._slots = deque(_Slot(xp, out) for _ in range(self.n_buffers))

    def buffer(self, part):
        return self._slots[0].buffer(part)

    def take(self, part, H):
        """Take a tile that lies somewhere else, and stays there until the end."""
        self._slots[0].clear()
        self._slots[0].H = H
        self.put(part)

    def put(self, part):
        self._slots[0].send(part, self._copying)
        self._slots[-1].store()  # the tile before this one
        self._slots.rotate(-1)

    def free(self):
        self.close()
        for slot in self._slots:
            slot.memory = slot.H = None

    def close(self):
        for slot in self._slots:
            slot.clear()


class _Slot:
    """The way of one tile: computed in `H`, sent to pinned memory, stored in `out`."""

    def __init__(self, xp, out):
        self.xp, self.out, self.memory, self.H = xp, out, None, None
        self._pinned, self._arrived = _Pinned(), xp.cuda.Event()
        self._part, self._copies = None, []

    def buffer(self, part):
        self.clear()
        shape = part.stop - part.start, self.out.shape[1]
        size = shape[0] * shape[1]
        if self.memory is None or self.memory.size < size:
            self.memory = self.H = None
            self.memory = self.xp.empty(size, self.out.dtype)
        self.H = self.memory[:size].reshape(shape)
        return self.H

    def send(self, part, copying):
        copying.wait_event(self.xp.cuda.get_current_stream().record())
        self._staged = self._pinned.array(self.H.shape, self.H.dtype)
        self.H.get(stream=copying, out=self._staged, blocking=False)
        self._arrived.record(copying)
        self._part = part

    def store(self):
        """Wait for the tile to arrive and begin to store it, if one is on its way."""
        if self._part is not None:
            self._arrived.synchronize()
            self._copies = start_copy(self.out[self._part], self._staged)
            self._part = None

    def clear(self):
        """Wait until the tile is stored."""
        self.store()
        for copy in self._copies:
            copy.result()
        self._copies = []


class EventStopwatch(Stopwatch):
    """Times stages on the GPU's own clock, without waiting for it before the end."""

    def __init__(self, xp):
        self.xp = xp
        self._laps = [(None, self._now())]

    def _now(self):
        return self.xp.cuda.get_current_stream().record()

    def lap(self, stage):
        self._laps.append((stage, self._now()))

    def totals(self):
        self._laps[-1][1].synchronize()
        totals = {}
        for (_, start), (stage, end) in pairwise(self._laps):
            seconds = self.xp.cuda.get_elapsed_time(start, end) / 1000
            totals[stage] = totals.get(stage, 0.0) + seconds
        return totals
