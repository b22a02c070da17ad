"""The log-loss of several readouts and its gradients, in one pass over the rows.

To evaluate the layer is dear, and products of a tile of H with a few columns more are cheap.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ..data.map_reduce import MapReduce, map_reduce
from ..data.streaming import Consumer, stream

# The log-loss of scores of classes: its value, slope and curvature, row by row.
#
# A group of scores belongs to one output: a softmax over all of its classes, or, of two classes,
# one score whose logistic function is the probability of the second.


class LogLoss:
    """Of several groups side by side.

    Parameters
    ----------
    sizes : sequence of int
        Classes of each output.
    """

    def __init__(self, sizes):
        self.sizes = tuple(sizes)
        self._groups, start = [], 0
        for is_pair, group in groupby(self.sizes, key=lambda size: size == 2):
            # Logistic functions of all neighbours are taken in one go.
            for width in [len(list(group))] if is_pair else group:
                self._groups.append((slice(start, start + width), is_pair))
                start += width
        self.n_scores = start
        first = np.cumsum([0, *self.sizes[:-1]])
        self.columns = np.concatenate(
            [[f + 1] if size == 2 else np.arange(f, f + size)
             for f, size in zip(first, self.sizes, strict=True)]
        )  # fmt: skip

    @classmethod
    def of(cls, targets):
        """For `ClassTargets`, or several of them."""
        return cls([part.n_outputs for part in getattr(targets, "parts", (targets,))])

    def wanted(self, targets, rows, xp):
        """What the probabilities of some rows should be, (rows, n_scores)."""
        return targets.matrix(rows, xp)[:, xp.asarray(self.columns)]

    def probabilities(self, S, xp):
        """The losses of rows but for the scores that are wanted, and the probabilities.

        Parameters
        ----------
        S : array of shape (rows, n_scores), float64
            Overwritten by the probabilities.

        Returns
        -------
        array of shape (rows,)
        """
        total = xp.zeros(len(S))
        for part, is_pair in self._groups:
            total += (_logistic if is_pair else _softmax)(S[:, part], xp)
        return total

    def spread(self, P, xp):
        """How unsure each row is, (rows,): the sum over the outputs of ``1 - sum p^2``."""
        total = xp.zeros(len(P))
        for part, is_pair in self._groups:
            p = P[:, part]
            total += (2 * p * (1 - p)).sum(axis=1) if is_pair else 1 - (p * p).sum(axis=1)
        return total

    def curve(self, P, U):
        """The second derivative by the scores times U, in the place of U."""
        for part, is_pair in self._groups:
            p, u = P[:, part], U[:, part]
            u *= p
            u -= p * (u if is_pair else u.sum(axis=1, keepdims=True))
        return U

    def of_classes(self, W):
        """A row for each class of a W with a row for each score: of two classes, half each."""
        rows = []
        for part, is_pair in self._groups:
            w = W[part]
            rows += [half for row in w for half in (-row / 2, row / 2)] if is_pair else list(w)
        return rows

    def of_scores(self, W):
        """The other way round: a row for each score."""
        ends = np.cumsum(self.sizes)[:-1].tolist()
        starts = [0, *ends]
        rows = []
        for start, size in zip(starts, self.sizes, strict=True):
            own = [W[start + i] for i in range(size)]
            rows += [own[1] - own[0]] if size == 2 else own
        return rows


def _softmax(S, xp):
    most = S.max(axis=1, keepdims=True)
    S -= most
    xp.exp(S, out=S)
    total = S.sum(axis=1, keepdims=True)
    S /= total
    return (most + xp.log(total))[:, 0]


def _logistic(S, xp):
    small = xp.exp(-xp.abs(S))
    loss = (xp.maximum(S, 0) + xp.log1p(small)).sum(axis=1)
    S[...] = xp.where(S >= 0, 1.0, small) / (1 + small)
    return loss


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
