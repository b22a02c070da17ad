import numpy as np
import pytest

from fake_sources import ChunkFunction
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.rows import take_rows
from sklearn_fsvc._src.data.sources import open_source
from sklearn_fsvc.engines import get_engine


def test_reserved_memory_reduces_the_limit():
    engine = get_engine("jit")
    whole = Job(engine, "1MB")
    reduced = whole.reserve(1000).reserve(200).named("a part")
    assert (whole.memory_limit, reduced.memory_limit) == (10**6, 10**6 - 1200)
    assert reduced.max_memory == "1MB"  # as given
    half = engine.memory()[0] // 2
    assert Job(engine).memory_limit == pytest.approx(half, rel=0.2)


def test_prefetching_takes_a_quarter_of_the_memory(rng):
    """A quarter of the memory holds prefetched rows, group by group; each buffer is one pass."""
    X, groups, order = rng.random((100, 4)), np.arange(100) % 2, rng.permutation(100)
    chunks, job = ChunkFunction(X), Job(get_engine("jit"), 4 * 50 * 32)
    source, reduced_job = job.prefetch(open_source(chunks, None)[0], order, groups)
    assert reduced_job.memory_limit == 3 * 50 * 32
    for group in (0, 1):
        rows = order[groups[order] == group]
        for part in (rows[:20], rows[20:]):
            np.testing.assert_array_equal(take_rows(source, part), X[part])
    assert chunks.calls == 1 + 2
    array, unchanged_job = job.prefetch(X, order)
    assert array is X
    assert unchanged_job is job
