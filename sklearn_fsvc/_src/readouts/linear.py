"""A linear readout at work: from tiles of H to outputs."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..data.streaming import Consumer, stream
from ..data.validation import check_numbers
from ..utils.user_warnings import warn

# What the equations of a ridge readout give, and a warning where they were bad.


class Solution(NamedTuple):
    """A ridge readout."""

    W: Any  # (n_outputs, n_units)
    b: Any  # (n_outputs,)
    problem: str = ""  # what was wrong with the equations, "" if nothing


class Whitening(NamedTuple):
    """A basis in which the normal matrices of several penalties are diagonal.

    ``(A + alpha_k I)^-1 = basis diag(scale[:, k]) basis'`` for the centred ``A`` of the
    statistics.
    """

    basis: Any  # (n_units, n_directions)
    scale: Any  # (n_directions, n_penalties)
    problems: list[str]  # for each penalty, as `Solution.problem`
    is_triangular: bool = False  # whether the basis has only zeros below its diagonal


def warn_of(problem):
    """Warn of a `Solution.problem`, if there is one."""
    if problem:
        warn(problem, ConvergenceWarning)


# Rows of a tile whose activations are summed by NumPy.
_FEW = 8


class LinearReadout:
    """Outputs ``H W' + b`` of tiles of H, of a dtype, and the rows that no unit covers.

    W in a wider dtype is multiplied with H in units of its own, so that it may be of any size.
    `finds_uncovered` says whether rows that no unit covers are looked for.
    """

    def __init__(self, engine, W, b, dtype, finds_uncovered):
        dtype = np.dtype(dtype)
        self._b = b.astype(max(b.dtype, dtype), copy=False)
        self._unit = None
        if W.dtype > dtype:
            unit = np.abs(W).max(axis=1)
            self._unit = np.where(unit > 0, unit, 1.0)
            W = W / self._unit[:, None]
        self._engine, self._W = engine, W.astype(dtype, copy=False)
        self._finds_uncovered, self._least = finds_uncovered, least_activity(dtype)
        self._uncovered = [np.empty(0, np.intp)]

    @property
    def row_bytes(self):
        """Bytes that a row of H takes: its outputs, with room for copies in float64."""
        return 24 * (len(self._b) + 1)

    @cached_property
    def _columns(self):
        """W' on the device; one more column sums the activities."""
        ones = np.ones(self._W.shape[1], self._W.dtype)
        columns = np.column_stack([self._W.T, ones]) if self._finds_uncovered else self._W.T
        return self._engine.to_device(columns)

    @property
    def uncovered(self):
        """The rows so far that no unit covers."""
        return np.concatenate(self._uncovered)

    def scores(self, part, H):
        """Outputs (rows, n_outputs) for a tile that stands for the rows `part`, on the host.

        Raises `NotNumbers` where the outputs of the units are none.
        """
        columns, activity = self._products(H)
        if self._finds_uncovered:
            self._uncovered.append(part.start + np.flatnonzero(activity <= self._least))
        scores = (columns if self._unit is None else columns * self._unit) + self._b
        check_numbers(scores)
        return scores

    def _products(self, H):
        """``H W'`` and the sums of the activations, on the host, as one product."""
        multiply = self._engine.algebra.multiply
        if self._engine.xp is np and len(H) <= _FEW:  # to make the columns would take longer
            return multiply(H, self._W.T), H.sum(axis=1) if self._finds_uncovered else None
        columns = self._engine.to_host(multiply(H, self._columns))
        return (columns[:, :-1], columns[:, -1]) if self._finds_uncovered else (columns, None)


# Samples that no unit covers: their activations are 0, or too small for engines to agree on.
#
# A readout gives them its intercept. Those of classifiers may take the nearest unit instead.

# Engines flush activations to 0 at different distances; all of them compute those whose sum is
# more than this many times the smallest normal number.
_MARGIN = 64


def least_activity(dtype):
    """Return the sum of activations of a dtype up to which a sample is not covered."""
    return _MARGIN * float(np.finfo(dtype).tiny)


def shrink_to_intercept(targets, intercept, alpha):
    """Return the scores of uncovered samples, by the targets of the nearest unit's own sample.

    By the factor that a ridge of this penalty has for a sample that alone activates its unit.
    """
    return intercept + (targets - intercept) / (1 + alpha)


def find_nearest_units(job, layer, X, rows, take, row_bytes=0):
    """Call ``take(rows, units)`` with the nearest unit of each of some rows of X."""

    def nearest(part, D):
        take(rows[part], job.engine.to_host(D.argmin(axis=1)))

    if len(rows):
        stream(job, layer.distances, X, Consumer(nearest, row_bytes=24 + row_bytes), rows)


def score_uncovered(job, layer, X, rows, nearest_scores, consume):
    """Call ``consume(rows, scores)`` for uncovered rows, with the scores of their nearest unit.

    `nearest_scores` has shape (n_units, n_scores); None where the intercept stays.
    """
    if nearest_scores is None:
        return

    def take(rows, units):
        consume(rows, nearest_scores[units])

    find_nearest_units(job, layer, X, rows, take, 24 * nearest_scores.shape[1])


# How sure a ridge readout is of its outputs.


class Posterior(NamedTuple):
    """The distribution of a ridge readout, as that of a Bayesian linear model of H.

    With noise of variance ``v`` and weights of variance ``v / alpha`` a priori, an output for
    h is normal around that of the readout, with the variance
    ``v (1 + 1 / n + (h - mean)' (A + alpha I)^-1 (h - mean))``, where ``A`` is the centred
    H'H of the rows (C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
    Learning", MIT Press 2006, section 2.1; 1 / n is the intercept, which has no prior).
    """

    root: Any  # (n_units, n_directions): ``(A + alpha I)^-1 = root root'``
    mean: Any  # (n_units,): of H
    n: float  # sum of the weights of the rows
    noise: Any  # (n_outputs,): standard deviation of the noise


class Deviations:
    """Standard deviations of the outputs of tiles of H, by a `Posterior` of the host."""

    def __init__(self, engine, posterior, dtype):
        self._engine, self._posterior, self._dtype = engine, posterior, dtype
        self._root, self._mean = (
            engine.to_device(a.astype(dtype, copy=False)) for a in (posterior.root, posterior.mean)
        )

    @property
    def fixed_bytes(self):
        return self._posterior.root.size * self._dtype.itemsize

    @property
    def row_bytes(self):
        """Bytes that a row of H takes."""
        return sum(self._posterior.root.shape) * self._dtype.itemsize + 24

    def of(self, H):
        """Standard deviations (rows, n_outputs) on the host, in float64. H is overwritten."""
        xp, known = self._engine.xp, self._posterior
        H -= self._mean
        U = self._engine.algebra.multiply(H, self._root)
        spread = self._engine.to_host(xp.einsum("ij,ij->i", U, U)).astype(np.float64)
        return np.sqrt(1 + 1 / known.n + spread)[:, None] * known.noise
