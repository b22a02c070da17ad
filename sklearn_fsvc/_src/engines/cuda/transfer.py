"""Between host and GPU: pinned buffers in turn, so that copies overlap with kernels.

A copy from ordinary memory is done in steps by the driver, at a fraction of what the link
can do. So rows are first copied into pinned memory by the cores of the host, and travel
from there on a stream of their own.
"""

from collections import deque
from concurrent.futures import wait
from functools import partial
from itertools import pairwise

import numpy as np

from ..base import Sink, Stopwatch
from ..pool import submit

# Threads copy parts of this size that end where the target's huge pages do: two threads
# that touch the same new page for the first time would both wait for it to be cleared.
_PART, _PAGE = 2**23, 2**21


def start_copy(target, source):
    """Begin ``target[:] = source`` on all cores; the futures to wait for."""
    target, source = (a.reshape(-1).view(np.uint8) for a in (target, source))
    first = -target.ctypes.data % _PAGE or _PART
    edges = [0, *range(first, len(target), _PART), len(target)]
    parts = [slice(*edge) for edge in pairwise(edges)]
    return submit([partial(np.copyto, target[part], source[part]) for part in parts])


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


def uploads(xp, blocks):
    """Arrays of `xp` for host arrays; the next is on its way while one is worked on."""
    copying = xp.cuda.Stream(non_blocking=True)
    slots = [(_Pinned(), xp.cuda.Event()) for _ in range(2)]

    def start(i, block):
        pinned, copied = slots[i % 2]
        copied.synchronize()
        staged = pinned.array(block.shape, block.dtype)
        wait(start_copy(staged, block))
        array = xp.empty(block.shape, block.dtype)
        # Its memory may have been another array's, which queued kernels still read.
        copying.wait_event(xp.cuda.get_current_stream().record())
        array.set(staged, stream=copying)
        copied.record(copying)
        return array, copied

    try:
        before = None
        for i, block in enumerate(blocks):
            started = start(i, block)
            if before is not None:
                yield _arrived(xp, *before)
            before = started
        if before is not None:
            yield _arrived(xp, *before)
    finally:
        copying.synchronize()


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
            slot.store()
            slot.finish()


class _Slot:
    """The way of one tile: computed in `H`, sent to pinned memory, stored in `out`."""

    def __init__(self, xp, out):
        self.xp, self.out, self.memory, self.H = xp, out, None, None
        self._pinned, self._arrived = _Pinned(), xp.cuda.Event()
        self._part, self._copies = None, []

    def buffer(self, part):
        self.store()
        self.finish()
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

    def finish(self):
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
