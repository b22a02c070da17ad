"""Prefetching of the next tile in a thread, which ends with the pass."""

import threading

import numpy as np
import pytest

from fake_sources import ChunkFunction, SliceableFile
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.sources import open_source, read_ahead
from sklearn_fsvc._src.data.streaming import Consumer, stream
from sklearn_fsvc._src.layers import TanhLayer
from sklearn_fsvc.engines import get_engine

X = np.random.default_rng(0).random((100, 4))
LAYER = TanhLayer(np.ones((3, 4)), np.zeros(3))
SOON = 10  # seconds


def readers():
    return [t for t in threading.enumerate() if t.name.startswith("sklearn_fsvc_reader")]


def test_one_block_is_read_ahead():
    begun = [threading.Event() for _ in range(4)]

    def read():
        for i in range(4):
            begun[i].set()
            yield np.full((1, 1), i)

    blocks = read_ahead(read())
    assert next(blocks) == 0
    assert begun[1].wait(SOON)  # while the first one is in use
    assert not begun[2].wait(0.05)
    assert next(blocks) == 1
    assert begun[2].wait(SOON)
    assert not begun[3].wait(0.05)
    assert [int(block[0, 0]) for block in blocks] == [2, 3]
    assert not readers()


def test_the_reader_is_closed_at_once():
    """By `close`, not by the garbage collector."""
    reading = (np.full((1, 1), i) for i in range(4))
    blocks = read_ahead(reading)
    next(blocks)
    blocks.close()
    assert reading.gi_frame is None


def test_blocks_are_read_in_another_thread():
    threads = []

    def read():
        for _ in range(2):
            threads.append(threading.current_thread())
            yield X

    list(read_ahead(read()))
    assert threading.current_thread() not in threads


class BrokenFile(SliceableFile):
    def __getitem__(self, key):
        if key.start >= 60:
            raise OSError("the disk is gone")
        return super().__getitem__(key)


def test_errors_of_the_reader_are_raised():
    source = open_source(BrokenFile(X), 16 * 32 * 10)[0]
    with pytest.raises(OSError, match="the disk is gone"):
        stream(Job(get_engine("jit")), LAYER, source, Consumer(lambda part, H: None, tile_rows=20))
    assert not readers()


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_errors_of_the_consumer_end_the_reader(error):
    tap = ChunkFunction(X, chunk=10)
    source = open_source(tap, None)[0]

    def interrupt(part, H):
        if part.start >= 40:
            assert readers()
            raise error

    with pytest.raises(error):
        stream(Job(get_engine("jit")), LAYER, source, Consumer(interrupt, tile_rows=20))
    assert not readers()
    assert tap.closed == tap.calls == 2


def test_a_memory_error_of_the_reader_halves_the_tile():
    """MemoryError in the thread of the reader; samples before it are evaluated once."""
    source, blocks = open_source(SliceableFile(X), None)[0], []
    read = source.blocks

    def few(rows, n):
        for block in read(rows, n):
            if len(block) > 12:
                raise MemoryError
            yield block

    source.blocks = few
    consumer = Consumer(lambda part, H: blocks.append(H.copy()), tile_rows=50)
    stream(Job(get_engine("jit")), LAYER, source, consumer)
    H = np.concatenate(blocks)
    np.testing.assert_allclose(H, np.tanh(X.sum(axis=1))[:, None] * np.ones(3))
    assert len(blocks[0]) == 12


def test_arrays_are_read_without_a_thread():
    def look(part, H):
        assert not readers()

    stream(Job(get_engine("jit")), LAYER, X, Consumer(look, tile_rows=20))


def test_tiles_of_a_source_are_small_enough_to_overlap():
    """A layer of few units would prefer one tile of all rows, without any overlap."""
    wide, sizes = np.zeros((40, 2**18), np.float32), []
    layer = TanhLayer(np.ones((3, 2**18), np.float32), np.zeros(3, np.float32))
    source = open_source(SliceableFile(wide), "1GB")[0]
    stream(Job(get_engine("jit")), layer, source, Consumer(lambda part, H: sizes.append(len(H))))
    assert sizes == [8] * 5


def test_prefetched_tiles_count_as_memory():
    """Two tiles of rows, and two slices of the file, in addition to the memory for an array."""
    engine = get_engine("jit")
    job = Job(engine, engine.prepared_bytes(LAYER) + 10 * (3 * 8 + 2 * 4 * 8))

    def largest_tile(given):
        sizes = []
        stream(job, LAYER, given, Consumer(lambda part, H: sizes.append(len(H))))
        return max(sizes)

    assert largest_tile(X) == 10
    assert largest_tile(open_source(SliceableFile(X), 16 * 32)[0]) == (10 * 88 - 2 * 32) // (
        88 + 32
    )
