"""Between host and GPU: pinned buffers in turn, so that copies overlap with kernels.

A copy from ordinary memory is done in steps by the driver, at a fraction of what the link
can do. So rows are first copied into pinned memory by the cores of the host, and travel
from there on a stream of their own.
"""

from collections import deque

import numpy as np

from .base import Sink, Stopwatch
from .host import map_rows, n_threads

# Bytes under which a second thread does not help to copy.
_SERIAL = 2**21


def copy_rows(target, source):
    """target[:] = source, by all cores."""
    threads = n_threads() if source.nbytes > _SERIAL else 1

    def copy(rows):
        np.copyto(target[rows], source[rows])

    map_rows(copy, len(source), threads)


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
        copy_rows(staged, block)
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
    """Tiles of H to a host array: one is computed, one travels, one is stored."""

    n_buffers = 3

    def __init__(self, xp, out):
        self.out = out
        self._copying = xp.cuda.Stream(non_blocking=True)
        self._slots = deque(_Slot(xp) for _ in range(self.n_buffers))

    def buffer(self, part):
        slot = self._slots[0]
        slot.store(self.out)
        return slot.buffer((part.stop - part.start, self.out.shape[1]), self.out.dtype)

    def put(self, part):
        self._slots[0].copy(part, self._copying)
        self._slots.rotate(-1)
        self._slots[0].store(self.out)

    def free(self):
        self.close()
        for slot in self._slots:
            slot.memory = slot.H = None

    def close(self):
        for slot in self._slots:
            slot.store(self.out)


class _Slot:
    """One tile on its way out."""

    def __init__(self, xp):
        self.xp, self._pinned, self._copied = xp, _Pinned(), xp.cuda.Event()
        self.memory, self.H, self._part = None, None, None

    def buffer(self, shape, dtype):
        size = shape[0] * shape[1]
        if self.memory is None or self.memory.size < size:
            self.memory = None
            self.memory = self.xp.empty(size, dtype)
        self.H = self.memory[:size].reshape(shape)
        return self.H

    def copy(self, part, copying):
        H, self._part = self.H, part
        copying.wait_event(self.xp.cuda.get_current_stream().record())
        self._staged = self._pinned.array(H.shape, H.dtype)
        H.get(stream=copying, out=self._staged, blocking=False)
        self._copied.record(copying)

    def store(self, out):
        if self._part is None:
            return
        self._copied.synchronize()
        copy_rows(out[self._part], self._staged)
        self._part = None


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
        for (_, start), (stage, end) in zip(self._laps, self._laps[1:], strict=False):
            seconds = self.xp.cuda.get_elapsed_time(start, end) / 1000
            totals[stage] = totals.get(stage, 0.0) + seconds
        return totals
