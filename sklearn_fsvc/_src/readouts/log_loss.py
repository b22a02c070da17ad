"""The log-loss of several readouts and its gradients, in one pass over the rows.

Evaluating the layer is expensive, whereas products of a tile of H with a few more columns are
cheap: so one pass evaluates all candidate readouts of a line search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.map_reduce import MapReduce, map_reduce
from ..data.samples import Samples
from ..data.streaming import Consumer, stream


class LogLoss:
    """The log-loss of scores as a function of these: value, gradient and Hessian, row by row.

    Each output has a group of scores: a softmax over its classes or, of two classes, one score
    whose logistic function is the probability of the second class.

    Parameters
    ----------
    sizes : sequence of int
        Number of classes of each output.
    """

    def __init__(self, sizes: Sequence[int]):
        self.sizes = tuple(sizes)
        # (columns of the scores, whether they are logistic). Consecutive outputs of two classes are
        # one group, whose logistic functions are evaluated together.
        self._groups, start = [], 0
        for is_pair, group in groupby(self.sizes, key=lambda size: size == 2):
            for width in [len(list(group))] if is_pair else group:
                self._groups.append((slice(start, start + width), is_pair))
                start += width
        self.n_scores = start
        first = np.cumsum([0, *self.sizes[:-1]])
        # Columns of one-hot targets that are the target probabilities of the scores.
        self._columns = np.concatenate(
            [[f + 1] if size == 2 else np.arange(f, f + size)
             for f, size in zip(first, self.sizes, strict=True)]
        )  # fmt: skip

    def target_probabilities(self, targets: Any, rows: Any, xp: Any) -> Any:
        """Return the true probabilities of some rows, (n_rows, n_scores)."""
        return targets.matrix(rows, xp)[:, xp.asarray(self._columns)]

    def normalise(self, S: Any, xp: Any) -> Any:
        """Replace scores by probabilities, and return the log-partition function (n_rows,).

        The loss is the log-partition function minus the scores times the true probabilities.

        Parameters
        ----------
        S : array of shape (n_rows, n_scores), float64
            Overwritten.
        """
        total = xp.zeros(len(S))
        for part, is_pair in self._groups:
            total += (_logistic if is_pair else _softmax)(S[:, part], xp)
        return total

    def uncertainty(self, P: Any, xp: Any) -> Any:
        """Return the sum over the outputs of ``1 - sum p^2`` (n_rows,): the trace of the Hessian.

        For a logistic score, twice the trace.
        """
        total = xp.zeros(len(P))
        for part, is_pair in self._groups:
            p = P[:, part]
            total += (2 * p * (1 - p)).sum(axis=1) if is_pair else 1 - (p * p).sum(axis=1)
        return total

    def hessian_product(self, P: Any, U: Any) -> Any:
        """Return the Hessian by the scores, ``diag(p) - p p'``, times U, in the memory of U."""
        for part, is_pair in self._groups:
            p, u = P[:, part], U[:, part]
            u *= p
            u -= p * (u if is_pair else u.sum(axis=1, keepdims=True))
        return U

    def to_classes(self, W: Any) -> list[Any]:
        """Return a row for each class, given a row for each score: for two classes, half each."""
        rows: list[Any] = []
        for part, is_pair in self._groups:
            w = W[part]
            rows += [half for row in w for half in (-row / 2, row / 2)] if is_pair else list(w)
        return rows

    def to_scores(self, W: Any) -> list[Any]:
        """Return a row for each score, given a row for each class."""
        starts = np.cumsum([0, *self.sizes[:-1]]).tolist()
        rows = []
        for start, size in zip(starts, self.sizes, strict=True):
            of_classes = [W[start + i] for i in range(size)]
            rows += [of_classes[1] - of_classes[0]] if size == 2 else of_classes
        return rows


def _softmax(S, xp):
    """Replace scores by their softmax; return log sum exp, computed without overflow."""
    largest = S.max(axis=1, keepdims=True)
    S -= largest
    xp.exp(S, out=S)
    total = S.sum(axis=1, keepdims=True)
    S /= total
    return (largest + xp.log(total))[:, 0]


def _logistic(S, xp):
    """Replace scores by their logistic functions; return the sum of log(1 + exp(score))."""
    small = xp.exp(-xp.abs(S))
    loss = (xp.maximum(S, 0) + xp.log1p(small)).sum(axis=1)
    S[...] = xp.where(S >= 0, 1.0, small) / (1 + small)
    return loss


class LossAndGradient(NamedTuple):
    """The log-loss of several readouts, in host arrays.

    Attributes
    ----------
    losses : ndarray of shape (n_points,)
        Weighted sums over the rows.
    gradients : ndarray of shape (n_points, n_units + 1, n_scores)
    uncertainties : ndarray of shape (n_points, n_rows), float32
        `LogLoss.uncertainty` of each row, times its weight.
    """

    losses: npt.NDArray
    gradients: npt.NDArray
    uncertainties: npt.NDArray


def compute_losses(
    job: Job, layer: Any, samples: Samples, log_loss: LogLoss, points: npt.NDArray
) -> LossAndGradient:
    """Return the loss of readouts (n_points, n_units + 1, n_scores), intercepts last."""
    return map_reduce(job, samples, _LossPass(layer, log_loss, points))


@dataclass(frozen=True, eq=False)
class _LossPass(MapReduce):
    """The pass over the rows of `compute_losses`."""

    layer: Any
    log_loss: LogLoss
    points: npt.NDArray

    def __call__(self, job, samples, rows=None):
        sums = LossSums(job.engine.algebra, self.log_loss, self.points, self.layer.hidden_dtype)

        def consume(part, H):
            part = part if rows is None else rows[part]
            targets = self.log_loss.target_probabilities(samples.targets, part, job.engine.xp)
            sums.add(H, targets, samples.weight_of(part))

        n_columns = self.points[:, 0].size
        consumer = Consumer(consume, fixed_bytes=3 * self.points.nbytes, row_bytes=40 * n_columns)
        stream(job, self.layer, samples.X, consumer, rows)
        return sums.result()

    @staticmethod
    def add(first, second):
        """Return the sums of losses and gradients; rows are concatenated."""
        uncertainties = np.concatenate([first.uncertainties, second.uncertainties], axis=1)
        return LossAndGradient(
            first.losses + second.losses, first.gradients + second.gradients, uncertainties
        )


class LossSums:
    """Accumulates the `LossAndGradient` of several readouts over tiles of H, on the device."""

    def __init__(self, algebra: Any, log_loss: LogLoss, points: npt.NDArray, dtype: Any):
        xp = algebra.xp
        # The readouts are concatenated to one of n_points * n_scores columns.
        readouts = points.swapaxes(0, 1).reshape(points.shape[1], -1)
        self._W = xp.asarray(readouts[:-1].astype(dtype))
        self._b = xp.asarray(readouts[-1])
        self._algebra, self._log_loss, self._shape = algebra, log_loss, points.shape
        self._losses, self._gradients = xp.zeros(len(points)), xp.zeros(readouts.shape)
        self._uncertainties: list[npt.NDArray] = []

    def add(self, H: Any, targets: Any, weight: npt.NDArray | None) -> None:
        """Add a tile: H (n_rows, n_units), target probabilities, host weights or None."""
        xp, log_loss = self._algebra.xp, self._log_loss
        weight = xp.ones(len(H)) if weight is None else xp.asarray(weight)
        S = self._algebra.multiply(H, self._W).astype(np.float64)
        S += self._b
        uncertainties = xp.empty((self._shape[0], len(H)), np.float32)
        # The scores of each readout, a view, become probabilities and then derivatives.
        for i, U in enumerate(xp.split(S, self._shape[0], axis=1)):
            target_scores = (U * targets).sum(axis=1)
            self._losses[i] += weight @ (log_loss.normalise(U, xp) - target_scores)
            uncertainties[i] = weight * log_loss.uncertainty(U, xp)
            U -= targets
            U *= weight[:, None]
        self._gradients[:-1] += self._algebra.multiply_transposed(H, S.astype(H.dtype))
        self._gradients[-1] += xp.ones(len(S)) @ S
        self._uncertainties.append(self._algebra.to_host(uncertainties))

    def result(self) -> LossAndGradient:
        """Return the sums so far."""
        n_points, *shape = self._shape
        gradients = self._algebra.to_host(self._gradients).reshape(shape[0], n_points, shape[1])
        losses = self._algebra.to_host(self._losses)
        return LossAndGradient(
            losses, gradients.swapaxes(0, 1), np.concatenate(self._uncertainties, axis=1)
        )
