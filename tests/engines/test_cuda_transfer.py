"""Copies of tiles from a GPU, with NumPy in place of the GPU."""

import time
from concurrent.futures import wait
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_fsvc._src.engines.cuda import transfer
from sklearn_fsvc._src.engines.threads import submit_all


class Array(np.ndarray):
    def get(self, stream, out, blocking):
        out[...] = self


class Buffer:
    """Replaces pinned memory."""

    def __init__(self):
        self._numbers = np.empty(10_000, np.float32)

    def array(self, shape, dtype):
        return self._numbers[: shape[0] * shape[1]].reshape(shape)


def make_sink(xp, out, copy=transfer.start_copy):
    return transfer.PinnedSink(xp, out, copy, Buffer)


def do_nothing(*args, **options):
    return None


@pytest.fixture
def xp():
    """A GPU that completes all work at once."""
    stream = SimpleNamespace(record=do_nothing, wait_event=do_nothing)
    event = SimpleNamespace(record=do_nothing, synchronize=do_nothing)
    return SimpleNamespace(
        empty=lambda size, dtype: np.empty(size, dtype).view(Array),
        cuda=SimpleNamespace(
            Stream=lambda non_blocking: stream, Event=lambda: event,
            get_current_stream=lambda: stream,
        ),
    )  # fmt: skip


def send(sink, n_rows, step, start=0):
    for i in range(start, n_rows, step):
        part = slice(i, min(i + step, n_rows))
        sink.buffer(part)[...] = np.arange(part.start, part.stop)[:, None]
        sink.put(part)


def assert_rows_are_counted(out):
    np.testing.assert_array_equal(out, np.broadcast_to(np.arange(len(out))[:, None], out.shape))


@pytest.mark.parametrize("n_rows", [1, 9, 10, 200, 203])
def test_every_tile_is_copied(xp, n_rows):
    out = np.full((n_rows, 7), np.nan, np.float32)
    sink = make_sink(xp, out)
    send(sink, n_rows, 10)
    sink.close()
    assert_rows_are_counted(out)


def test_pinned_memory_is_not_overwritten_before_slow_copies_end(xp):
    def slow_copy(target, source):
        return submit_all([lambda: (time.sleep(0.01), np.copyto(target, source))])

    out = np.full((200, 7), np.nan, np.float32)
    sink = make_sink(xp, out, slow_copy)
    send(sink, 200, 10)
    sink.close()
    assert_rows_are_counted(out)


def test_smaller_tiles_after_memory_was_freed(xp):
    out = np.full((100, 7), np.nan, np.float32)
    sink = make_sink(xp, out)
    send(sink, 60, 20)
    sink.free()
    assert all(slot.memory is None for slot in sink._slots)
    send(sink, 100, 10, start=60)
    sink.close()
    assert_rows_are_counted(out)


def test_close_raises_the_error_of_a_copy(xp):
    def fail():
        raise OSError("disk")

    out = np.empty((10, 7), np.float32)
    sink = make_sink(xp, out, lambda target, source: submit_all([fail]))
    send(sink, 10, 10)
    with pytest.raises(OSError, match="disk"):
        sink.close()


@pytest.mark.parametrize("n", [1, 2**21, 3 * 2**23 + 5])
def test_copies_are_complete(n):
    source = np.random.default_rng(0).integers(0, 256, (n, 1), np.uint8)
    for shift in (0, 1, 4096):
        target = np.zeros(n + shift, np.uint8)[shift:].reshape(n, 1)
        wait(transfer.start_copy(target, source))
        np.testing.assert_array_equal(target, source)
