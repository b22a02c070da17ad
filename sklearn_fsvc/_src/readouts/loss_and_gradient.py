"""The log-loss of several readouts and its gradients, in one pass over the rows.

To evaluate the layer is dear, and products of a tile of H with a few columns more are cheap.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..rows.map_reduce import MapReduce, map_reduce
from ..rows.streaming import Consumer, stream
from .log_loss import LogLoss


class LossAndGradient(NamedTuple):
    """What all rows say of some readouts; arrays of the host.

    Attributes
    ----------
    losses : ndarray of shape (n_points,)
        Sums over the rows with their weights.
    gradients : ndarray of shape (n_points, n_units + 1, n_scores)
    spreads : ndarray of shape (n_points, n_rows), float32
        How unsure each row is, times its weight: see `LogLoss.spread`.
    """

    losses: np.ndarray
    gradients: np.ndarray
    spreads: np.ndarray


def compute_losses(job, layer, samples, log_loss, points, rows=None):
    """`LossAndGradient` of readouts (n_points, n_units + 1, n_scores), intercepts last."""
    return map_reduce(job, samples, _Tally(layer, log_loss, points), rows)


@dataclass(frozen=True, eq=False)
class _Tally(MapReduce):
    """`compute_losses` as work for `map_reduce`."""

    layer: Any
    log_loss: LogLoss
    points: np.ndarray

    def __call__(self, job, samples, rows=None):
        sums = LossSums(job.engine.algebra, self.log_loss, self.points, self.layer.hidden_dtype)

        def take(part, H):
            part = part if rows is None else rows[part]
            wanted = self.log_loss.wanted(samples.targets, part, job.engine.xp)
            sums.add(H, wanted, samples.weight_of(part))

        n_columns = self.points[:, 0].size
        consumer = Consumer(take, fixed_bytes=3 * self.points.nbytes, row_bytes=40 * n_columns)
        stream(job, self.layer, samples.X, consumer, rows)
        return sums.found()

    @staticmethod
    def add(some, more):
        """Losses and gradients add up; rows follow one another."""
        spreads = np.concatenate([some.spreads, more.spreads], axis=1)
        return LossAndGradient(some.losses + more.losses, some.gradients + more.gradients, spreads)


class LossSums:
    """What `compute_losses` adds up over tiles of H, where they are."""

    def __init__(self, algebra, log_loss, points, dtype):
        xp = algebra.xp
        run_parallel = points.swapaxes(0, 1).reshape(points.shape[1], -1)
        self._W = xp.asarray(run_parallel[:-1].astype(dtype))
        self._b = xp.asarray(run_parallel[-1])
        self._algebra, self._log_loss, self._shape = algebra, log_loss, points.shape
        self._losses, self._gradients = xp.zeros(len(points)), xp.zeros(run_parallel.shape)
        self._spreads = []

    def add(self, H, wanted, weight):
        """Add rows: H (rows, units), wanted probabilities, weights of the host or None."""
        xp, log_loss = self._algebra.xp, self._log_loss
        weight = xp.ones(len(H)) if weight is None else xp.asarray(weight)
        S = self._algebra.multiply(H, self._W).astype(np.float64)
        S += self._b
        spreads = xp.empty((self._shape[0], len(H)), np.float32)
        for i, own in enumerate(xp.split(S, self._shape[0], axis=1)):
            of_wanted = (own * wanted).sum(axis=1)
            self._losses[i] += weight @ (log_loss.probabilities(own, xp) - of_wanted)
            spreads[i] = weight * log_loss.spread(own, xp)
            own -= wanted
            own *= weight[:, None]
        self._gradients[:-1] += self._algebra.cross(H, S.astype(H.dtype))
        self._gradients[-1] += xp.ones(len(S)) @ S
        self._spreads.append(self._algebra.to_host(spreads))

    def found(self):
        """`LossAndGradient`."""
        n_points, *shape = self._shape
        gradients = self._algebra.to_host(self._gradients).reshape(shape[0], n_points, shape[1])
        losses = self._algebra.to_host(self._losses)
        return LossAndGradient(
            losses, gradients.swapaxes(0, 1), np.concatenate(self._spreads, axis=1)
        )
