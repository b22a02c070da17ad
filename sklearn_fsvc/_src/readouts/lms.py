"""Readouts that are no ridge: LMS, and no training at all."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.job import Job
from ..data.samples import Samples
from ..data.streaming import Consumer, stream
from ..engines.algebra import HOST

# Rows of H that the LMS recursion settles in one triangular solve.
LMS_BLOCK = 256
# The largest step that is taken by itself.
_MOST_RATE = 1 / 16


def untrained(targets, rows):
    """Return W: W[k, j] is output k of the target of row j, on which a unit stands.

    For classes, each adds up the activities of its centres.
    """
    return np.ascontiguousarray(targets.matrix(rows, np).T)


def lms_update(W, H, Y, rate, weight=None, algebra=HOST):
    """The LMS rule over the rows of a tile, in order, in place on W.

    For each row i: e = y_i - W h_i;  W += rate * w_i * e h_i'. In blocks the recursion is
    a unit lower triangular system, for e_i depends on the earlier rows only through
    h_i . h_j: (I + rate L) E = Y - H W', L the part of H H' below the diagonal. The
    solution is the same as row by row, to rounding.

    Parameters
    ----------
    W : array of shape (outputs, units), float64
    H : (rows, units); Y : (rows, outputs); weight : (rows,) or None
    rate : float
        eta. Stable for about rate < 2 / max |h_i|^2.
    """
    xp = algebra.xp
    for start in range(0, len(H), LMS_BLOCK):
        rows = slice(start, start + LMS_BLOCK)
        h = H[rows].astype(np.float64)
        step = xp.full(len(h), rate) if weight is None else rate * weight[rows]
        system = xp.tril(algebra.multiply(h, h.T), -1) * step
        E = Y[rows] - algebra.multiply(h, W.T)
        algebra.solve_lower(system, E, unit=True)
        W += algebra.cross(E * step[:, None], h)


@dataclass(frozen=True)
class LmsTrainer:
    """The LMS rule over samples that stream through a layer, in their order, several times."""

    job: Job
    layer: Any  # RBFLayer or TanhLayer
    samples: Samples  # with targets and an order

    def train(self, W, rate, n_passes):
        """Apply the rule to W (n_outputs, n_units), float64, an array of the engine, in place.

        A rate of "auto" is `stable_rate`.
        """
        algebra = self.job.engine.algebra
        xp = algebra.xp
        rate = self.stable_rate() if isinstance(rate, str) else rate

        def learn(part, H):
            rows = self.samples.order[part]
            Y, weight = self.samples.targets.matrix(rows, xp), self.samples.weight_of(rows)
            lms_update(W, H, Y, rate, None if weight is None else xp.asarray(weight), algebra)

        for i in range(n_passes):
            self._pass(learn, f"lms pass {i + 1} of {n_passes}")

    def stable_rate(self):
        """1/16, or ``1 / max w |h|^2`` over the samples where that is smaller."""
        engine, largest = self.job.engine, 0.0

        def measure(part, H):
            nonlocal largest
            steps = engine.to_host(engine.xp.einsum("ij,ij->i", H, H))
            weight = self.samples.weight_of(self.samples.order[part])
            largest = max(largest, float((steps if weight is None else steps * weight).max()))

        self._pass(measure, "lms step")
        return min(_MOST_RATE, 1 / max(largest, 1e-300))

    def _pass(self, take, what):
        n_outputs, m = self.samples.targets.n_outputs, self.layer.n_units
        fixed_bytes = 8 * (n_outputs * m + LMS_BLOCK * (m + 3 * LMS_BLOCK))
        consumer = Consumer(take, fixed_bytes, row_bytes=40 * n_outputs)
        job = self.job.named(f"{self.job.what}, {what}")
        stream(job, self.layer, self.samples.X, consumer, self.samples.order)
