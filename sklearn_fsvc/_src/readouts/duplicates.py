"""Groups of equal rows, which leave-one-out leaves out together.

A readout has not been trained without a sample as long as it was trained on a copy of it.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.map_reduce import MapReduce, map_reduce
from ..data.samples import exact_hashes
from ..data.streaming import row_blocks

# Elements of X, or of the targets, that are processed at a time.
_BLOCK_SIZE = 2**16


class Duplicates(NamedTuple):
    """Groups of equal rows."""

    group: npt.NDArray  # int, (n_rows,): the group of each row
    weight: npt.NDArray  # (n_groups,): sum of the weights
    mean: npt.NDArray  # (n_groups, n_outputs): weighted mean of the targets; 0 without weight

    def taken(self, rows: npt.NDArray) -> "Duplicates":
        """Return the groups of a subset of the rows."""
        used, group = np.unique(self.group[rows], return_inverse=True)
        return Duplicates(group, self.weight[used], self.mean[used])

    def of(self, part: Any, xp: Any) -> tuple[Any, Any]:
        """Return weights (n_rows,) and mean targets (n_rows, n_outputs) of the groups of rows."""
        group = self.group[part]
        return xp.asarray(self.weight[group]), xp.asarray(self.mean[group])


def find_duplicates(
    job: Any, samples: Any, rows: npt.NDArray | None = None, block_size: int = _BLOCK_SIZE
) -> Duplicates | None:
    """Return the `Duplicates` among the samples; None if all rows are distinct.

    Rows are compared by 64-bit hashes. Given `rows`, all rows that equal none of these are one
    group.
    """
    hashes = map_reduce(job, samples, _Hashes(block_size))
    distinct, group = np.unique(hashes, return_inverse=True)
    n_groups = len(distinct)
    if n_groups == len(group):
        return None
    if rows is not None:
        used = np.unique(group[rows])
        new_group = np.full(n_groups, len(used))
        new_group[used] = np.arange(len(used))
        group, n_groups = new_group[group], len(used) + 1
    weight = np.ones(len(group)) if samples.weight is None else samples.weight
    weights, sums = np.zeros(n_groups), np.zeros((n_groups, samples.targets.n_outputs))
    np.add.at(weights, group, weight)
    for part in _blocks(len(group), sums.shape[1], block_size):
        targets = samples.targets.matrix(part, np)
        np.add.at(sums, group[part], weight[part, None] * targets)
    sums /= np.where(weights > 0, weights, 1)[:, None]
    return Duplicates(group, weights, sums)


class _Hashes(MapReduce):
    """`exact_hashes` of all rows, block by block."""

    def __init__(self, block_size):
        self.block_size = block_size

    def __call__(self, job, samples, rows=None):
        blocks = row_blocks(
            samples.X, None, _blocks(len(samples.X), samples.X.shape[1], self.block_size)
        )
        return np.concatenate([exact_hashes(job.engine.to_host(block)) for block in blocks])

    @staticmethod
    def add(some, more):
        return np.concatenate([some, more])


def _blocks(n_rows, n_columns, block_size):
    """Return slices of the rows with up to `block_size` elements each, or of one row."""
    step = max(1, block_size // n_columns)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
