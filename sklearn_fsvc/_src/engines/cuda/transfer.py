"""Copies between host and GPU through pinned buffers, which overlap with kernels.

The driver copies pageable memory in small steps, at a fraction of the bandwidth of the link. So the
cores of the host copy rows into pinned (page-locked) memory first, from where they are copied to
the GPU on a stream of their own; and results in the opposite direction.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import cycle, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import Sink, Stopwatch
from ..host import cut_rows
from ..threads import n_threads, parallel_for, submit_all

HostArray = npt.NDArray[Any]

# Threads copy parts of this size, which end at boundaries of huge pages of the target: if two
# threads touched the same new page first, both would wait until the operating system cleared it.
_PART, _PAGE = 2**23, 2**21
# Smallest array in bytes that is copied through pinned buffers, and sizes of a buffer for uploads
# and for downloads.
_LARGE, _IN, _OUT = 2**22, 2**26, 2**24
# Size of the parts of a copy into pinned memory, whose pages are already mapped.
_STAGED = 2**21


def start_copy(target: HostArray, source: HostArray) -> list[Future[None]]:
    """Begin ``target[:] = source`` on all cores; return futures of its parts."""
    return submit_all([partial(np.copyto, *part) for part in _cut(target, source, _PART)])


def _copy(target: HostArray, source: HostArray) -> None:
    """Compute ``target[:] = source`` on all cores, including the calling thread."""
    parallel_for(lambda part: np.copyto(*part), _cut(target, source, _STAGED), n_threads())


def _cut(target: HostArray, source: HostArray, size: int) -> list[tuple[HostArray, HostArray]]:
    """Return both as pairs of byte ranges; the first ends at a page boundary of the target."""
    target, source = (a.reshape(-1).view(np.uint8) for a in (target, source))
    first = -target.ctypes.data % _PAGE or size
    edges = [0, *range(first, len(target), size), len(target)]
    return [(target[i:j], source[i:j]) for i, j in pairwise(edges)]


class PinnedBuffer:
    """Pinned host memory, which is slow to allocate and so is reused."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> HostArray:
        """Return an array in this memory, which grows as needed; earlier ones become invalid."""
        import cupyx

        size = int(np.prod(shape)) * dtype.itemsize
        if len(self._bytes) < size:
            self._bytes = cupyx.empty_pinned(size, np.uint8)
        return self._bytes[:size].view(dtype).reshape(shape)


def to_device(xp: Any, array: HostArray) -> Any:
    """Return a host array as an array of `xp`."""
    return upload(xp, array) if _is_large_matrix(array, np.ndarray) else xp.asarray(array)


def to_host(xp: Any, array: Any) -> HostArray:
    """Return an array of `xp` as a new host array."""
    return _download(xp, array) if _is_large_matrix(array, xp.ndarray) else xp.asnumpy(array)


def _is_large_matrix(array: Any, kind: Any) -> bool:
    is_matrix = isinstance(array, kind) and array.ndim == 2 and array.flags.c_contiguous
    return is_matrix and array.nbytes >= _LARGE


def upload(xp: Any, rows: Any) -> Any:
    """Return rows of the host, of any type that can be sliced, as an array of `xp`."""
    result, uploader = xp.empty(rows.shape, rows.dtype), _Uploader(xp)
    try:
        for part in _parts(rows, _IN):
            uploader.start(np.ascontiguousarray(rows[part]), result[part])
    finally:
        uploader.finish()
    return result


def _download(xp: Any, array: Any) -> HostArray:
    """Return a host array; all cores touch its new pages, which is slow for a single core."""
    out = np.empty(array.shape, array.dtype)
    sink = PinnedSink(xp, out)
    for part in _parts(array, _OUT):
        sink.put_array(part, array[part])
    sink.close()
    return out


def _parts(rows: Any, n_bytes: int) -> list[slice]:
    row_bytes = max(1, rows.nbytes // len(rows))
    return cut_rows(slice(0, len(rows)), max(1, n_bytes // row_bytes))


class _Uploader:
    """Two pinned buffers, used alternately, and the stream that copies them to the GPU."""

    def __init__(self, xp: Any) -> None:
        self._xp, self._copying = xp, xp.cuda.Stream(non_blocking=True)
        self._slots = cycle([(PinnedBuffer(), xp.cuda.Event()) for _ in range(2)])

    def start(self, block: HostArray, array: Any) -> Any:
        """Begin to copy a host block to an array of the GPU; return the event of its end."""
        pinned, copied = next(self._slots)
        copied.synchronize()
        staged = pinned.array(block.shape, block.dtype)
        _copy(staged, block)
        # The memory of `array` may have been freed by an array that queued kernels still read.
        self._copying.wait_event(self._xp.cuda.get_current_stream().record())
        array.set(staged, stream=self._copying)
        copied.record(self._copying)
        return copied

    def finish(self) -> None:
        self._copying.synchronize()


def uploads(xp: Any, blocks: Iterable[HostArray]) -> Iterator[Any]:
    """Yield host blocks as arrays of `xp`; while one is in use, the next is being copied."""
    uploader, previous = _Uploader(xp), None
    try:
        for block in blocks:
            array = xp.empty(block.shape, block.dtype)
            started = array, uploader.start(block, array)
            if previous is not None:
                yield _after_copy(xp, *previous)
            previous = started
        if previous is not None:
            yield _after_copy(xp, *previous)
    finally:
        uploader.finish()


def _after_copy(xp: Any, array: Any, copied: Any) -> Any:
    """Return the array after making the current stream wait for its copy."""
    xp.cuda.get_current_stream().wait_event(copied)
    return array


class PinnedSink(Sink):
    """Copies tiles of H to a host array, in a pipeline of four slots.

    One tile is computed, one is copied to pinned memory, and two are copied to `out`.

    Parameters
    ----------
    xp : module
    out : array of the host
    copy : callable
        Begins a copy on the host: see `start_copy`.
    make_buffer : callable
        Returns a `PinnedBuffer`.
    """

    n_buffers = 4

    def __init__(
        self,
        xp: Any,
        out: HostArray,
        copy: Callable[[HostArray, HostArray], list[Future[Any]]] = start_copy,
        make_buffer: Callable[[], Any] = PinnedBuffer,
    ) -> None:
        self._copying = xp.cuda.Stream(non_blocking=True)
        self._slots = deque(_Slot(xp, out, copy, make_buffer()) for _ in range(self.n_buffers))

    def buffer(self, part: slice) -> Any:
        return self._slots[0].buffer(part)

    def put_array(self, part: slice, H: Any) -> None:
        """Copy a tile that is not in a buffer of the sink, and does not change until `close`."""
        self._slots[0].clear()
        self._slots[0].H = H
        self.put(part)

    def put(self, part: slice) -> None:
        self._slots[0].send(part, self._copying)
        self._slots[-1].store()  # the previous tile
        self._slots.rotate(-1)

    def free(self) -> None:
        self.close()
        for slot in self._slots:
            slot.memory = slot.H = None

    def close(self) -> None:
        for slot in self._slots:
            slot.clear()


class _Slot:
    """One tile at a time: computed in `H`, sent to pinned memory, stored in `out`."""

    def __init__(self, xp: Any, out: HostArray, copy: Callable[..., Any], pinned: Any) -> None:
        self.xp, self.out = xp, out
        self.memory: Any = None  # of the GPU, at least as large as H
        self.H: Any = None
        self._copy, self._pinned, self._sent = copy, pinned, xp.cuda.Event()
        self._part: slice | None = None  # rows that were sent and are not stored
        self._copies: list[Future[Any]] = []

    def buffer(self, part: slice) -> Any:
        """Return an array of the GPU for the rows `part` of H."""
        self.clear()
        shape = part.stop - part.start, self.out.shape[1]
        size = shape[0] * shape[1]
        if self.memory is None or self.memory.size < size:
            self.memory = self.H = None  # freed before the new array is allocated
            self.memory = self.xp.empty(size, self.out.dtype)
        self.H = self.memory[:size].reshape(shape)
        return self.H

    def send(self, part: slice, copying: Any) -> None:
        """Queue the copy to pinned memory, after the kernels that compute the tile."""
        copying.wait_event(self.xp.cuda.get_current_stream().record())
        self._staged = self._pinned.array(self.H.shape, self.H.dtype)
        self.H.get(stream=copying, out=self._staged, blocking=False)
        self._sent.record(copying)
        self._part = part

    def store(self) -> None:
        """If a tile has been sent, wait until it is in pinned memory and begin to store it."""
        if self._part is not None:
            self._sent.synchronize()
            self._copies = self._copy(self.out[self._part], self._staged)
            self._part = None

    def clear(self) -> None:
        """Wait until the tile is stored; an error of its copies is raised."""
        self.store()
        for copy in self._copies:
            copy.result()
        self._copies = []


class EventStopwatch(Stopwatch):
    """Measures stages with CUDA events, without synchronising before the end."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self._laps: list[tuple[str, Any]] = [("", self._now())]

    def _now(self) -> Any:
        return self.xp.cuda.get_current_stream().record()

    def time_stage(self, stage: str) -> None:
        self._laps.append((stage, self._now()))

    def totals(self) -> dict[str, float]:
        self._laps[-1][1].synchronize()
        totals: dict[str, float] = {}
        for (_, start), (stage, end) in pairwise(self._laps):
            seconds = self.xp.cuda.get_elapsed_time(start, end) / 1000
            totals[stage] = totals.get(stage, 0.0) + seconds
        return totals
