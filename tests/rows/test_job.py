import pytest

from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.rows.job import Job


def test_a_job_with_less_memory():
    engine = get_engine("jit")
    whole = Job(engine, "1MB")
    less = whole.reserving(1000).reserving(200).named("a part")
    assert (whole.memory_limit, less.memory_limit) == (10**6, 10**6 - 1200)
    assert less.max_memory == "1MB"  # as the user wrote it
    half = engine.memory()[0] // 2
    assert Job(engine).memory_limit == pytest.approx(half, rel=0.2)
