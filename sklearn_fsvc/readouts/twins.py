"""Rows that are equal: a readout has not seen one of them as long as it has seen another."""

from typing import NamedTuple

import numpy as np

from ..rows.streaming import row_blocks

# Numbers of X that are looked at in one go.
_NUMBERS = 2**20


class Twins(NamedTuple):
    """Groups of equal rows.

    Attributes
    ----------
    group : ndarray of int of shape (n_rows,)
        The number of the group that each row is in.
    weight : ndarray of shape (n_groups,)
        Sum of the weights.
    mean : ndarray of shape (n_groups, n_outputs)
        Weighted mean of the targets; 0 where there is no weight.
    """

    group: np.ndarray
    weight: np.ndarray
    mean: np.ndarray

    def of(self, part, xp):
        """Weights (rows,) and mean targets (rows, n_outputs) of the groups of some rows."""
        group = self.group[part]
        return xp.asarray(self.weight[group]), xp.asarray(self.mean[group])


def find_twins(engine, samples):
    """The `Twins` among the samples; None where all rows differ."""
    group, n_groups = _groups(engine, samples.X)
    if n_groups == len(group):
        return None
    weight = np.ones(len(group)) if samples.weight is None else samples.weight
    weights, sums = np.zeros(n_groups), np.zeros((n_groups, samples.targets.n_outputs))
    np.add.at(weights, group, weight)
    for part in _parts(len(group), sums.shape[1]):
        targets = samples.targets.matrix(part, np)
        np.add.at(sums, group[part], weight[part, None] * targets)
    return Twins(group, weights, sums / np.where(weights > 0, weights, 1)[:, None])


def _groups(engine, X):
    """A number for each row, the same for equal rows, and how many there are.

    By 64 bits of each row: of a million rows two that differ are taken for equal once in ten
    million times.
    """
    digests = np.empty(len(X), np.int64)
    parts = _parts(*X.shape)
    for part, block in zip(parts, row_blocks(X, None, parts), strict=True):
        rows = engine.to_host(block) + X.dtype.type(0)  # -0 is 0
        digests[part] = [hash(row.tobytes()) for row in rows]
    different, group = np.unique(digests, return_inverse=True)
    return group, len(different)


def _parts(n_rows, n_columns):
    step = max(1, _NUMBERS // n_columns)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
