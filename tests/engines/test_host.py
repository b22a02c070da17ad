import builtins
import threading

import pytest
from llvmlite.binding import get_host_cpu_name

from sklearn_fsvc._src.engines.host import map_rows, processor


@pytest.mark.parametrize(
    ("machine", "said", "name"),
    [
        ("aarch64", "", get_host_cpu_name()),
        ("AMD64", "Family 25", "Family 25"),
        ("s390x", "", "s390x"),
    ],
)
def test_the_name_of_a_processor_without_a_model_name(monkeypatch, machine, said, name):
    """Those of Arm differ, and what was measured on one says little of another."""

    def nothing(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.setattr(builtins, "open", nothing)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.processor", lambda: said)
    assert processor.__wrapped__() == name


@pytest.mark.parametrize("n_rows", [1, 7, 64, 1000])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("most_parts", "most"), [(None, 12), (0, 3), (8, 6)])
def test_every_row_comes_once(n_rows, n_threads, most_parts, most):
    parts = []
    map_rows(parts.append, n_rows, n_threads, multiple=8, most_parts=most_parts)
    parts.sort(key=lambda part: part.start)
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(n_rows))
    assert all(part.start % 8 == 0 for part in parts)
    assert len(parts) <= (most if n_threads > 1 else 1)


def test_all_threads_work():
    together = threading.Barrier(3, timeout=10)
    map_rows(lambda part: together.wait(), 24, 3, multiple=8, most_parts=0)


def test_an_error_in_a_thread_is_raised():
    def fail(part):
        raise ValueError(part.start)

    with pytest.raises(ValueError, match=r"\d"):
        map_rows(fail, 100, 3)


def test_parts_of_a_part_take_no_more_threads():
    """All threads are at work; then they may again be divided up."""
    threads, lengths = set(), []

    def outer(part):
        own = threading.get_ident()

        def inner(rows):
            threads.add(own == threading.get_ident())
            lengths.append(rows.stop - rows.start)

        map_rows(inner, 10, 3)

    map_rows(outer, 12, 3)
    assert threads == {True}
    assert set(lengths) == {10}
    together = threading.Barrier(3, timeout=10)
    map_rows(lambda part: together.wait(), 24, 3, multiple=8, most_parts=0)
