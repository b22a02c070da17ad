"""One result of all samples: from one engine, from several devices, or from remote workers.

A computation over samples is a `MapReduce`: a function of a share of the samples, and the sum
of two of its results. `map_reduce` runs it where the samples are. With several devices each one
has a contiguous share of the rows, `ShardedRows`, and computes in a separate thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .sources import Source, select_rows


class MapReduce(ABC):
    """A computation over samples whose partial results can be added.

    The object and its results are pickled if other processes compute.
    """

    @abstractmethod
    def __call__(self, job: Any, samples: Any, rows: npt.NDArray[np.intp] | None = None) -> Any:
        """Return the result of the samples, or of those with the numbers `rows`."""

    @staticmethod
    @abstractmethod
    def add(some: Any, more: Any) -> Any:
        """Return the sum of a result and that of the samples that follow; it may modify `some`."""

    @staticmethod
    def to_host(result: Any) -> Any:
        """Return a result in arrays of the host; by default it is there already."""
        return result


def map_reduce(
    job: Any, samples: Any, work: MapReduce, rows: npt.NDArray[np.intp] | None = None
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

    def compute_share(job: Any, share: slice) -> Any:
        shared = samples.share(share)
        if rows is None:
            return work(job, shared, None)
        in_share = rows[(rows >= share.start) & (rows < share.stop)]
        return work(job, shared, in_share - share.start) if len(in_share) else None

    results = run_parallel(job, shares, compute_share)
    return reduce(work.add, [result for result in results if result is not None])


def split_into_shares(device_group: Any, n_rows: int) -> list[slice]:
    """Return a contiguous slice of the rows for each device of a group, which may be None."""
    n_shares = 1 if device_group is None else min(len(device_group.members), n_rows)
    if n_shares < 2:
        return [slice(0, n_rows)]
    edges = np.linspace(0, n_rows, n_shares + 1).astype(int)
    return [slice(int(start), int(stop)) for start, stop in pairwise(edges)]


def run_parallel(job: Any, shares: list[slice], work: Callable[[Any, slice], Any]) -> list[Any]:
    """Return ``work(job of a device, its share)`` for all shares, computed in threads."""
    if len(shares) == 1:
        return [work(job, shares[0])]

    def run_on_device(engine: Any, share: slice, stop: Any) -> Any:
        return work(replace(job, engine=engine, stop=stop), share)

    return job.engine.device_group.map(run_on_device, shares)


def slice_rows(X: Any, share: slice) -> Any:
    """Return a slice of the rows of an array, a source or `ShardedRows` rows, without a copy."""
    if isinstance(X, ShardedRows):
        return X.part(share)
    if isinstance(X, Source):
        return select_rows(X, np.arange(share.start, share.stop))
    return X[share]


class ShardedRows:
    """Rows that are distributed over the devices of a group, one contiguous share each.

    `take` returns rows on the device of the calling thread: work that is not shared stays on
    the device of its engine.

    Parameters
    ----------
    whole : array-like
        All rows, where they came from.
    parts : dict of int to array
        The shares by their first row, each on the device of its engine, or on the host.
    algebra : Algebra
        That of the engines.
    """

    def __init__(self, whole: Any, parts: dict[int, Any], algebra: Any) -> None:
        self.whole, self._parts, self._algebra = whole, parts, algebra
        self.shape, self.dtype = tuple(whole.shape), next(iter(parts.values())).dtype

    def __len__(self) -> int:
        return self.shape[0]

    def part(self, share: slice) -> Any:
        """Return one of the shares."""
        return self._parts[share.start]

    def take(self, rows: Any, dtype: Any = None) -> Any:
        """Return rows (a slice or an index array) on the device of the calling thread."""
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        xp = self._algebra.xp
        result = xp.empty((len(rows), self.shape[1]), dtype or self.dtype)
        for first, part in self._parts.items():
            positions = np.flatnonzero((rows >= first) & (rows < first + len(part)))
            if len(positions):
                result[xp.asarray(positions)] = self._fetch(part, rows[positions] - first)
        return result

    def _fetch(self, part: Any, rows: npt.NDArray[np.intp]) -> Any:
        with self._algebra.device_of(part):
            selected = part[rows]
            self._algebra.synchronize()  # before another device reads them
        return self._algebra.to_device(selected)
