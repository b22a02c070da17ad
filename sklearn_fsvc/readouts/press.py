"""Leave-one-out errors of ridge readouts, by PRESS, without training any of them again.

PRESS is the predicted residual error sum of squares (D. M. Allen 1974, "The relationship
between variable selection and data augmentation and a method for prediction").
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..rows.streaming import Consumer, stream
from ..rows.tiling import check_fits
from .posterior import Posterior
from .ridge import gather
from .statistics import RidgeStatistics
from .twins import find_twins

# 1 - leverage under which a row is taken to be fitted exactly: nothing can be said of it
# without it. Of the order of the rounding of a leverage.
_LEAST = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}


class PressResult(NamedTuple):
    """What `press` finds.

    Attributes
    ----------
    solutions : list of Solution
        One for each penalty.
    errors : ndarray of shape (n_alphas,)
        Mean squared leave-one-out error, over rows with their weights, summed over outputs.
    scorer : PressScorer or None
        That has met all rows.
    scores : ndarray of shape (n_alphas, n_rows, n_outputs) or None
        Outputs for each row without itself and the rows equal to it, in the dtype of H.
    outside : ndarray of int
        Rows of which H is 0, where `scores` were asked for.
    """

    solutions: list
    errors: np.ndarray
    scorer: Any
    scores: np.ndarray | None
    outside: np.ndarray


class Chosen(NamedTuple):
    """The penalty of the least leave-one-out error.

    Attributes
    ----------
    alpha : float
    solution : Solution
    errors : ndarray of shape (n_alphas,)
        Of all penalties.
    posterior : Posterior or None
    scores : ndarray of shape (n_rows, n_outputs) or None
    outside : ndarray of int
        As of `PressResult`, at this penalty.
    """

    alpha: float
    solution: Any
    errors: np.ndarray
    posterior: Posterior | None
    scores: np.ndarray | None
    outside: np.ndarray


def choose_penalty(job, layer, samples, alphas, keep_scores=False, keep_posterior=False):
    """The ridge readout with the penalty of the least leave-one-out error.

    Two passes over the rows; three where the scores of so many penalties found no room.
    With its leave-one-out scores, or its `Posterior`, if they are to be kept.

    Returns
    -------
    Chosen
    """
    # A leverage is worth what H'H is worth in the directions of least variance.
    (statistics,) = gather(job, [layer], samples, dtype=float)
    job = job.named(f"{job.what}, left out")
    found = press(job, layer, samples, statistics, alphas, keep_scores)
    best = int(found.errors.argmin())
    posterior = found.scorer.posterior(best) if keep_posterior else None
    found = found._replace(scorer=None)  # which is as large as the statistics
    of_best, k = found, best
    if keep_scores and found.scores is None:
        of_best, k = press(job, layer, samples, statistics, [alphas[best]], True), 0
    scores = of_best.scores[k] if keep_scores else None
    solution, errors = found.solutions[best], found.errors
    return Chosen(alphas[best], solution, errors, posterior, scores, of_best.outside)


def press(job, layer, samples, statistics, alphas, keep_scores):
    """Ridge readouts and their leave-one-out errors, in one more pass over the rows.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all rows.
    keep_scores : bool
        Whether to keep the scores too: always for one penalty, and for several if a quarter
        of the memory holds them.

    Returns
    -------
    PressResult
    """
    engine, m, dtype = job.engine, layer.n_units, layer.hidden_dtype
    needed = PressScorer.nbytes(m, dtype.itemsize, engine.algebra)
    limit = job.memory_limit
    check_fits("leave-one-out", needed, limit)
    scorer = PressScorer(statistics, alphas, dtype)
    shape = len(alphas), len(samples), samples.targets.n_outputs
    if len(alphas) > 1:
        kept_bytes = dtype.itemsize * math.prod(shape)
        keep_scores = keep_scores and kept_bytes <= limit // 4
        needed += keep_scores * kept_bytes
    kept = _Kept(engine, shape, dtype) if keep_scores else None
    twins = find_twins(engine, samples) if keep_scores else None

    def score(part, H):
        is_outside = ~H.any(axis=1) if keep_scores else None  # before H is overwritten
        Y = samples.targets.matrix(part, engine.xp)
        together = twins and twins.of(part, engine.xp)
        scores = scorer.scores(H, Y, samples.weight_of(part), together)
        if keep_scores:
            kept.add(part, scores, is_outside)

    row_bytes = m * dtype.itemsize + 8 * (6 * shape[2] + 3) * len(alphas)
    stream(job, layer, samples.X, Consumer(score, needed, row_bytes))
    errors = engine.to_host(scorer.errors)
    if not keep_scores:
        return PressResult(scorer.solutions, errors, scorer, None, np.empty(0, np.intp))
    outside = np.concatenate(kept.outside)
    return PressResult(scorer.solutions, errors, scorer, kept.scores, outside)


class _Kept:
    """Scores of all rows on the host, and the numbers of rows of which H is 0."""

    def __init__(self, engine, shape, dtype):
        self._engine, self.scores = engine, np.empty(shape, dtype)
        self.outside = [np.empty(0, np.intp)]

    def add(self, part, scores, is_outside):
        self.scores[:, part] = self._engine.to_host(scores).swapaxes(0, 1)
        self.outside.append(part.start + np.flatnonzero(self._engine.to_host(is_outside)))


class PressScorer:
    """Scores of the training rows by readouts that have not seen them, for some penalties.

    A row that is left out changes its own score alone, and by a known amount: with the
    leverage ``s = w (1 / n + (h - mean)' (A + alpha I)^-1 (h - mean))`` the score without
    it is ``y - (y - score) / (1 - s)`` (the PRESS formula). Rows that are equal are one row
    to the equations, of the sum of their weights and the mean of their targets: with these for w
    and y it is the score without all of them. The hidden layer stays as it is, centres among
    the rows too.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all rows.
    alphas : sequence of float
    dtype : dtype
        Of H.

    Attributes
    ----------
    solutions : list of Solution
    errors : array of shape (n_alphas,)
        See `PressResult`; of the rows so far.
    noise : array of shape (n_alphas, n_outputs)
        Mean over the rows so far of ``w e e_left``, of their residuals with and without
        themselves: an estimate of the variance of the noise, see `posterior`.
    """

    def __init__(self, statistics, alphas, dtype):
        self.xp, self.dtype = statistics.xp, np.dtype(dtype)
        basis, scale, problems = statistics.whiten(alphas)
        target = basis.T @ statistics.right
        self.solutions = [
            statistics._solution(basis @ (scale[:, [k]] * target), problem)
            for k, problem in enumerate(problems)
        ]
        readouts = scale[:, :, None] * target[:, None, :]
        self._basis, self._scale, self._readouts = (
            self.xp.ascontiguousarray(a, dtype=dtype)
            for a in (basis, scale, readouts.reshape(len(target), -1))
        )
        self._n, self._mean_y = statistics.n, statistics.y / statistics.n
        self._mean_h = statistics.mean.astype(dtype)
        self.errors = self.xp.zeros(len(alphas))
        self.noise = self.xp.zeros((len(alphas), len(statistics.y)))

    @staticmethod
    def nbytes(n_units, itemsize, algebra):
        """Bytes that it takes on the engine at most."""
        whitening = RidgeStatistics.whitening_bytes(n_units, algebra)
        return whitening + n_units * n_units * itemsize

    def scores(self, H, Y, weight=None, together=None):
        """Scores (rows, n_alphas, n_outputs) of rows, each without itself, in float64.

        Adds to `errors`. H is overwritten. With `together`, the weights and mean targets of the
        rows that are equal to each, scores are those without all of them; errors are as before.
        """
        xp = self.xp
        H -= self._mean_h
        U = H @ self._basis
        scores = (U @ self._readouts).astype(np.float64).reshape(len(H), -1, Y.shape[1])
        scores += self._mean_y
        leverage = (xp.multiply(U, U, out=U) @ self._scale).astype(np.float64) + 1 / self._n
        without = None
        if together is not None:
            weights, means = together
            left = xp.maximum(1 - leverage * weights[:, None], _LEAST[self.dtype])
            without = means[:, None, :] - (means[:, None, :] - scores) / left[:, :, None]
        if weight is not None:
            leverage *= xp.asarray(weight)[:, None]
        left = xp.maximum(1 - leverage, _LEAST[self.dtype])
        kept = xp.subtract(Y[:, None, :], scores, out=scores)
        residual = kept / left[:, :, None]
        kept *= residual
        weight = xp.ones(len(H)) if weight is None else xp.asarray(weight)
        self.noise += xp.tensordot(weight, kept, 1) / self._n
        self.errors += xp.tensordot(weight, (residual**2).sum(axis=2), 1) / self._n
        return xp.subtract(Y[:, None, :], residual, out=residual) if without is None else without

    def posterior(self, k):
        """The `Posterior` at penalty k, by all rows.

        Without row i, the variance of what is foretold of it is that of the noise over
        ``1 - s``: with the noise that makes the squared leave-one-out residuals, each in
        units of its own variance, 1 on average, the bands are as wide as they must be.
        """
        root = self._basis * self.xp.sqrt(self._scale[:, k])
        return Posterior(root, self._mean_h, self._n, self.xp.sqrt(self.noise[k]))
