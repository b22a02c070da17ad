"""One result of all samples: from one engine, from several devices, or from remote workers.

A computation over samples is a `MapReduce`: a function of a share of the samples, and the sum
of two of its results. `map_reduce` runs it where the samples are. With several devices each one
has a contiguous share of the rows (see `ShardedRows`), and computes in a separate thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from .job import Job
from .rows import split_into_shares
from .sources import Source


class MapReduce(ABC):
    """A computation over samples whose partial results can be added.

    The object and its results are pickled if other processes compute.
    """

    @abstractmethod
    def __call__(self, job: Job, samples: Any, rows: npt.NDArray[np.intp] | None = None) -> Any:
        """Return the result of the samples, or of those with the numbers `rows`."""

    @staticmethod
    @abstractmethod
    def add(first: Any, second: Any) -> Any:
        """Return the sum of a result and that of the samples that follow; it may modify `first`."""

    @staticmethod
    def to_host(result: Any) -> Any:
        """Return a result in arrays of the host; by default it is there already."""
        return result


def map_reduce(
    job: Job, samples: Any, work: MapReduce, rows: npt.NDArray[np.intp] | None = None
) -> Any:
    """Return the result of `work` for all samples, or for those with the numbers `rows`.

    Parameters
    ----------
    job : Job
    samples : Samples
    work : MapReduce
    rows : ndarray of int, optional
        Row numbers in any order.
    """
    if isinstance(samples.X, Source) and samples.X.is_remote:
        return samples.X.map_reduce(samples, work, rows)
    shares = split_into_shares(job.engine.device_group, len(samples))
    if len(shares) == 1:
        return work(job, samples, rows)

    def compute_share(job: Job, share: slice) -> Any:
        shared = samples.share(share)
        if rows is None:
            return work(job, shared, None)
        in_share = rows[(rows >= share.start) & (rows < share.stop)]
        return work(job, shared, in_share - share.start) if len(in_share) else None

    results = run_parallel(job, shares, compute_share)
    return reduce(work.add, [result for result in results if result is not None])


def run_parallel(job: Job, shares: list[slice], work: Callable[[Any, slice], Any]) -> list[Any]:
    """Return ``work(job of a device, its share)`` for all shares, computed in threads."""
    if len(shares) == 1:
        return [work(job, shares[0])]

    def run_on_device(engine: Any, share: slice, stop: Any) -> Any:
        return work(replace(job, engine=engine, stop=stop), share)

    return job.engine.device_group.map(run_on_device, shares)
