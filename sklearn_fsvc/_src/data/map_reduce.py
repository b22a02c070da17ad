"""One result of all rows: of one engine's, of several that share them, or of workers elsewhere."""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import reduce
from itertools import pairwise

import numpy as np

from .sources import Source, some_rows

# Rows that are sharded to the engines of a team.


class Sharded:
    """Rows of which each engine of a team has a share.

    Whoever takes some rows gets them on the device of the thread that asks: work that is not
    shared stays on the device of the engine that does it. `parts` are the shares by their first
    rows, each where the engine computes that has it, or on the host; `whole` is where they came
    from.
    """

    def __init__(self, whole, parts, algebra):
        self.whole, self._parts, self._algebra = whole, parts, algebra
        self.shape, self.dtype = tuple(whole.shape), next(iter(parts.values())).dtype

    def __len__(self):
        return self.shape[0]

    def part(self, share):
        """The rows of a share that was sharded."""
        return self._parts[share.start]

    def take(self, rows, dtype=None):
        """Return some rows (a slice or an index array) as an array where this thread computes."""
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        xp = self._algebra.xp
        taken = xp.empty((len(rows), self.shape[1]), dtype or self.dtype)
        for first, part in self._parts.items():
            places = np.flatnonzero((rows >= first) & (rows < first + len(part)))
            if len(places):
                taken[xp.asarray(places)] = self._here(part, rows[places] - first)
        return taken

    def _here(self, part, rows):
        with self._algebra.at(part):
            some = part[rows]
            self._algebra.finish()  # before another device reads them
        return self._algebra.here(some)


class MapReduce(ABC):
    """What is asked of rows; it goes to other processes by pickle, and so do results."""

    @abstractmethod
    def __call__(self, job, samples, rows=None):
        """Return the result of samples, or of those with the numbers `rows`."""

    @staticmethod
    @abstractmethod
    def add(some, more):
        """Return the result of rows and of those that follow them; it may change `some`."""

    @staticmethod
    def to_host(found):
        """Return a result in arrays of the host, where it is by default."""
        return found


def map_reduce(job, samples, work, rows=None):
    """The result of some work on all rows.

    Parameters
    ----------
    work : Work
    rows : ndarray of int, optional
        Row numbers in any order; all by default.
    """
    if isinstance(samples.X, Source) and samples.X.is_remote:
        return samples.X.map_reduce(samples, work, rows)
    shares = shares_of(job.engine.team, len(samples))
    if len(shares) == 1:
        return work(job, samples, rows)

    def work_on(job, share):
        own = samples.share(share)
        if rows is None:
            return work(job, own, None)
        here = rows[(rows >= share.start) & (rows < share.stop)]
        return work(job, own, here - share.start) if len(here) else None

    found = run_parallel(job, shares, work_on)
    return reduce(work.add, [result for result in found if result is not None])


def shares_of(team, n_rows):
    """Slices of the rows, one for each engine of a team that may be None."""
    n = 1 if team is None else min(len(team.members), n_rows)
    if n < 2:
        return [slice(0, n_rows)]
    ends = np.linspace(0, n_rows, n + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def run_parallel(job, shares, work):
    """``work(job of a member, its share)`` of all, in threads; the results in their order."""
    if len(shares) == 1:
        return [work(job, shares[0])]

    def work_of(member, share, stop):
        return work(replace(job, engine=member, stop=stop), share)

    return job.engine.team.each(work_of, shares)


def part_of(X, share):
    """Return a slice of the rows of an array or a source, or a share of `Sharded`: not copied."""
    if isinstance(X, Sharded):
        return X.part(share)
    if isinstance(X, Source):
        return some_rows(X, np.arange(share.start, share.stop))
    return X[share]
