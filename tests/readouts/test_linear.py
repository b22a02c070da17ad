"""Scores of tiles of H, and the queue of scores that are still on a device."""

from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_fsvc._src.engines.algebra import HOST
from sklearn_fsvc._src.readouts import linear
from sklearn_fsvc._src.readouts.linear import LinearPredictor, ScoreQueue

ENGINE = SimpleNamespace(xp=None, algebra=HOST, to_device=np.asarray, to_host=np.asarray)


def make_queue(max_bytes, W, finds_uncovered=False):
    readout = LinearPredictor(ENGINE, W, np.ones(len(W)), np.float64, finds_uncovered)
    consumed = []

    def raise_overflow(part):
        raise ValueError(f"rows from {part.start}")

    def consume(part, scores):
        consumed.append((part, scores))

    return ScoreQueue(readout, consume, raise_overflow, max_bytes), readout, consumed


@pytest.mark.parametrize("max_bytes", [0, 2**20])
def test_scores_of_all_tiles(max_bytes, rng):
    W, H = rng.random((3, 5)), rng.random((100, 5))
    H[42] = 0
    queue, readout, consumed = make_queue(max_bytes, W, finds_uncovered=True)
    for start in range(0, 100, 20):
        queue.put(slice(start, start + 20), H[start : start + 20])
    assert len(consumed) == (0 if max_bytes else 5)
    queue.flush()
    assert [part.start for part, _ in consumed] == [0, 20, 40, 60, 80]
    np.testing.assert_allclose(np.concatenate([s for _, s in consumed]), H @ W.T + 1, rtol=1e-14)
    assert readout.uncovered.tolist() == [42]
    queue.flush()
    assert len(consumed) == 5


def test_scores_on_the_device_are_limited(monkeypatch, rng):
    W, H = rng.random((3, 5)), rng.random((10, 5))
    queue, _, consumed = make_queue(700, W)
    for n in range(1, 7):  # 240 bytes each, so that the limit is exceeded after every second tile
        queue.put(slice(0, 10), H)
        assert len(consumed) == n // 2 * 2
    monkeypatch.setattr(linear, "_MAX_QUEUE_TILES", 3)
    queue, _, consumed = make_queue(2**20, W)
    for n in range(1, 7):
        queue.put(slice(0, 10), H)
        assert len(consumed) == n // 3 * 3


def test_an_overflow_is_reported_for_its_tile():
    queue, _, consumed = make_queue(2**20, np.ones((1, 2)))
    with np.errstate(invalid="ignore"):
        queue.put(slice(0, 2), np.ones((2, 2)))
        queue.put(slice(2, 4), np.full((2, 2), [np.inf, -np.inf]))
        queue.put(slice(4, 6), np.ones((2, 2)))
        with pytest.raises(ValueError, match="rows from 2"):
            queue.flush()
    assert len(consumed) == 1
