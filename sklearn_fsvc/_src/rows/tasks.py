"""What a task of Dask does with blocks: functions that go anywhere by pickle."""

import threading
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from ..engines import get_engine
from ..engines.workers import dask_worker
from .job import Job
from .sources.base import check_finite
from .validation import to_host


@dataclass(frozen=True)
class Place:
    """How work is done where a block is."""

    # As the user gave them; they hold for each task.
    device: str
    max_memory: int | str | None

    @contextmanager
    def job(self, n_synapses):
        """A `Job` for so much work in all."""
        with limited(), get_engine(self.device, n_synapses) as engine:
            yield Job(engine, self.max_memory)


def limited():
    """Context in which a task takes its share of the threads.

    Threads of Dask's own pool work side by side: one each. Tasks of a worker, and those of a
    scheduler that has no pool, take what their process may.
    """
    is_of_pool = threading.current_thread() is not threading.main_thread()
    is_alone = dask_worker() is not None or not is_of_pool
    return nullcontext() if is_alone else threadpool_limits(1, "openmp")


def task(function, *known):
    """What makes tasks of a function, some of whose arguments are known; Dask looks into none."""
    from dask import delayed

    return delayed(partial(function, *known), pure=False)


def constant(value):
    """A value that several tasks want, once in the graph."""
    from dask import delayed

    return delayed(value, pure=False, traverse=False)


def node(state):
    return state if hasattr(state, "__dask_graph__") else constant(state)


def check(dtype, shape, first, rows, block):
    """A block, or some of its rows, as clean rows."""
    block = np.asarray(to_host(block))
    if block.shape != shape:
        raise ValueError(
            f"The block of X that begins at row {first} has shape {block.shape}, and by its chunks "
            f"it has {shape}; call X.compute_chunk_sizes(), or make X anew."
        )
    if rows is not None:
        block, first = block[rows], first + np.asarray(rows)
    check_finite(block, first)
    return np.require(block, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def work_on(place, n_synapses, samples, rows, work, *blocks):
    X = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    with place.job(n_synapses) as job:
        there, job = replace(samples, X=X).on_device(job)
        return work.to_host(work(job, there, rows))


def call(place, n_synapses, function, block, state, *shared):
    with place.job(n_synapses) as job:
        return function(job, block, state, *shared)


def add(add, some, more):
    """The sum of two results, neither of which is changed: Dask may need them again."""
    return add(deepcopy(some), more)
