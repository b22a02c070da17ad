"""Rows with what belongs to them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .streaming import take_rows


@dataclass(frozen=True, eq=False)
class Samples:
    """Clean rows, with their targets and weights.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        An array of the host or of an engine's namespace.
    targets : object, optional
        What the rows should be answered with: ``targets.n_outputs``,
        ``targets.matrix(rows, xp)``, an array of `xp` of shape (rows, n_outputs) in float64,
        and ``targets.taken(rows)``, those of some rows alone.
    weight : ndarray of shape (n_rows,), optional
        On the host. Rows of weight 0 are as good as absent.
    order : ndarray of int, optional
        Row numbers in the order in which they are presented, where there is one.
    """

    X: Any
    targets: Any = None
    weight: np.ndarray | None = None
    order: np.ndarray | None = None

    def __len__(self):
        return len(self.X)

    @property
    def present(self):
        """The numbers of the rows with a weight."""
        return np.arange(len(self)) if self.weight is None else np.flatnonzero(self.weight)

    def weight_of(self, rows):
        """The weights of some rows, or None."""
        return None if self.weight is None else self.weight[rows]

    def in_order(self, order):
        """The samples as they are presented."""
        return replace(self, order=order)

    def taken(self, rows, dtype=None):
        """Some of the samples alone, their rows copied, in that of X or another dtype."""
        targets = None if self.targets is None else self.targets.taken(rows)
        return Samples(take_rows(self.X, rows, dtype), targets, self.weight_of(rows))

    def on_device(self, job):
        """The samples with their rows where the job computes, and the job that is left.

        See `Job.with_rows_on_device`.
        """
        X, job = job.with_rows_on_device(self.X)
        return replace(self, X=X), job
