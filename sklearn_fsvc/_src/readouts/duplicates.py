"""Rows that are equal: a readout has not seen one of them as long as it has seen another."""

from typing import NamedTuple

import numpy as np

from ..rows.hashes import exact_hashes
from ..rows.map_reduce import MapReduce, map_reduce
from ..rows.streaming import row_blocks

# Numbers of X that are looked at in one go.
_NUMBERS = 2**16


class Duplicates(NamedTuple):
    """Groups of equal rows."""

    group: np.ndarray  # int, (n_rows,): the number of the group that each row is in
    weight: np.ndarray  # (n_groups,): sum of the weights
    # (n_groups, n_outputs): weighted mean of the targets; 0 where there is no weight.
    mean: np.ndarray

    def taken(self, rows):
        """Return those of some rows alone."""
        used, group = np.unique(self.group[rows], return_inverse=True)
        return Duplicates(group, self.weight[used], self.mean[used])

    def of(self, part, xp):
        """Weights (rows,) and mean targets (rows, n_outputs) of the groups of some rows."""
        group = self.group[part]
        return xp.asarray(self.weight[group]), xp.asarray(self.mean[group])


def find_duplicates(job, samples, rows=None):
    """The `Duplicates` among the samples; None where all rows differ.

    With the numbers of some rows, of these: all that none of them is equal to are one group.
    """
    different, group = np.unique(map_reduce(job, samples, _Hashes()), return_inverse=True)
    n_groups = len(different)
    if n_groups == len(group):
        return None
    if rows is not None:
        used = np.unique(group[rows])
        place = np.full(n_groups, len(used))
        place[used] = np.arange(len(used))
        group, n_groups = place[group], len(used) + 1
    weight = np.ones(len(group)) if samples.weight is None else samples.weight
    weights, sums = np.zeros(n_groups), np.zeros((n_groups, samples.targets.n_outputs))
    np.add.at(weights, group, weight)
    for part in _parts(len(group), sums.shape[1]):
        targets = samples.targets.matrix(part, np)
        np.add.at(sums, group[part], weight[part, None] * targets)
    sums /= np.where(weights > 0, weights, 1)[:, None]
    return Duplicates(group, weights, sums)


class _Hashes(MapReduce):
    """`exact_hashes` of all rows, as work for `map_reduce`."""

    def __call__(self, job, samples, rows=None):
        blocks = row_blocks(samples.X, None, _parts(*samples.X.shape))
        return np.concatenate([exact_hashes(job.engine.to_host(block)) for block in blocks])

    @staticmethod
    def add(some, more):
        return np.concatenate([some, more])


def _parts(n_rows, n_columns):
    step = max(1, _NUMBERS // n_columns)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
