"""The readouts of FSVC: the LMS rule, and target values of the centres without any training."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.streaming import Consumer, stream
from ..engines.algebra import HOST

# Rows of H whose LMS recursion is one triangular solve.
LMS_BLOCK = 256
# Upper bound of the automatic learning rate.
_MAX_RATE = 1 / 16
# Larger coefficients have diverged: targets and W at the start are at most 1, and so is the
# activation of a unit at its own centre.
_MAX_COEFFICIENT = 1e6


def untrained(targets: Any, rows: npt.NDArray) -> npt.NDArray:
    """Return W (n_outputs, n_units): the targets of `rows`, the centres of the units.

    Each class thus sums the activations of its own centres.
    """
    return np.ascontiguousarray(targets.matrix(rows, np).T)


def lms_update(
    W: Any, H: Any, Y: Any, rate: float, weight: Any = None, algebra: Any = HOST
) -> None:
    """Apply the LMS rule (B. Widrow and M. E. Hoff 1960) to the rows of a tile, in place on W.

    For each row i in order: ``e_i = y_i - W h_i; W += rate * w_i * e_i h_i'``. In blocks: e_i
    depends on earlier rows only through the products h_i . h_j. So the errors are the solution of
    the unit lower triangular system ``(I + rate L) E = Y - H W'``, where L is the part of H H'
    below the diagonal. The result is the same as row by row, up to rounding.

    Parameters
    ----------
    W : array of shape (n_outputs, n_units), float64
    H, Y : arrays of shape (n_rows, n_units) and (n_rows, n_outputs)
    rate : float
        Learning rate. Stable for about rate < 2 / max |h_i|^2.
    weight : array of shape (n_rows,), optional
    """
    xp = algebra.xp
    for start in range(0, len(H), LMS_BLOCK):
        rows = slice(start, start + LMS_BLOCK)
        h = H[rows].astype(np.float64)
        step = xp.full(len(h), rate) if weight is None else rate * weight[rows]
        system = xp.tril(algebra.multiply(h, h.T), -1) * step
        E = Y[rows] - algebra.multiply(h, W.T)
        algebra.solve_lower(system, E, unit=True)
        W += algebra.multiply_transposed(E * step[:, None], h)


def has_diverged(W: npt.NDArray) -> bool:
    """Return whether W (n_outputs, n_units), trained on one-hot targets, has diverged."""
    return not np.abs(W).max() <= _MAX_COEFFICIENT  # nan has, too


@dataclass(frozen=True)
class LmsTrainer:
    """The LMS rule for samples that stream through a layer in their order, several times."""

    job: Job
    layer: Any  # RBFLayer or TanhLayer
    samples: Any  # `Samples` with targets and an order

    def train(self, W: Any, rate: float | str, n_passes: int) -> None:
        """Apply the rule to W (n_outputs, n_units), a float64 array of the engine, in place.

        The rate "auto" is `stable_rate`.
        """
        algebra = self.job.engine.algebra
        xp = algebra.xp
        eta = self.stable_rate() if isinstance(rate, str) else rate

        def update(part, H):
            rows = self.samples.order[part]
            Y, weight = self.samples.targets.matrix(rows, xp), self.samples.weight_of(rows)
            lms_update(W, H, Y, eta, None if weight is None else xp.asarray(weight), algebra)

        # A rate that is too large makes W overflow; the caller checks `has_diverged`.
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(n_passes):
                self._pass(update, f"lms pass {i + 1} of {n_passes}")

    def stable_rate(self) -> float:
        """Return ``1 / max w |h|^2`` over the samples, or 1/16 if that is smaller."""
        engine, largest = self.job.engine, 0.0

        def measure(part, H):
            nonlocal largest
            squared_norms = engine.to_host(engine.xp.einsum("ij,ij->i", H, H))
            weight = self.samples.weight_of(self.samples.order[part])
            weighted = squared_norms if weight is None else squared_norms * weight
            largest = max(largest, float(weighted.max()))

        self._pass(measure, "lms step")
        return min(_MAX_RATE, 1 / max(largest, 1e-300))

    def _pass(self, consume, what):
        n_outputs, m = self.samples.targets.n_outputs, self.layer.n_units
        fixed_bytes = 8 * (n_outputs * m + LMS_BLOCK * (m + 3 * LMS_BLOCK))
        consumer = Consumer(consume, fixed_bytes, row_bytes=40 * n_outputs)
        job = self.job.named(f"{self.job.description}, {what}")
        stream(job, self.layer, self.samples.X, consumer, self.samples.order)
