"""Leave-one-out errors of ridge readouts, by PRESS, without training any of them again.

PRESS is the predicted residual error sum of squares (D. M. Allen 1974, "The relationship
between variable selection and data augmentation and a method for prediction").
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..rows.fold import fold
from ..rows.streaming import Consumer, stream
from ..rows.tiling import check_fits
from .left_out import PressScorer
from .posterior import Posterior
from .ridge import gather
from .twins import find_twins


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
        The rows of which H is 0, where `scores` were asked for.
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


def choose_penalty(job, layer, samples, alphas, keep_scores=False, keep_posterior=False, rows=None):
    """The ridge readout with the penalty of the least leave-one-out error.

    Two passes over the rows; three where the scores of so many penalties found no room, or
    are kept of some rows alone.
    With its leave-one-out scores, or its `Posterior`, if they are to be kept.

    Parameters
    ----------
    rows : ndarray of int, optional
        The rows whose scores are kept, ascending; all by default.

    Returns
    -------
    Chosen
    """
    # A leverage is worth what H'H is worth in the directions of least variance.
    (statistics,) = gather(job, [layer], samples, dtype=float)
    job = job.named(f"{job.what}, left out")
    found = press(job, layer, samples, statistics, alphas, keep_scores and rows is None)
    best = int(found.errors.argmin())
    posterior = found.scorer.posterior(best) if keep_posterior else None
    found = found._replace(scorer=None)  # which is as large as the statistics
    of_best, k = found, best
    if keep_scores and found.scores is None:
        of_best, k = press(job, layer, samples, statistics, [alphas[best]], True, rows), 0
    scores = of_best.scores[k] if keep_scores else None
    solution, errors = found.solutions[best], found.errors
    return Chosen(alphas[best], solution, errors, posterior, scores, of_best.outside)


def press(job, layer, samples, statistics, alphas, keep_scores, rows=None):
    """Ridge readouts and their leave-one-out errors, in one more pass over the rows.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all rows.
    keep_scores : bool
        Whether to keep the scores too: always for one penalty, and for several if a quarter
        of the memory holds them.
    rows : ndarray of int, optional
        The rows that are left out, ascending; all by default.

    Returns
    -------
    PressResult
    """
    m, dtype = layer.n_units, layer.hidden_dtype
    needed = PressScorer.nbytes(m, dtype.itemsize, job.engine.algebra)
    limit = job.memory_limit
    check_fits("leave-one-out", needed, limit)
    scorer, n_rows = PressScorer(statistics, alphas, dtype), len(samples if rows is None else rows)
    kept_bytes = dtype.itemsize * len(alphas) * n_rows * samples.targets.n_outputs
    keep_scores = keep_scores and (len(alphas) == 1 or kept_bytes <= limit // 4)
    if keep_scores:
        twins = find_twins(job, samples, rows)
        needed += kept_bytes + (0 if twins is None else twins.mean.nbytes)
        samples = replace(samples, twins=twins)
    found = fold(job, samples, _LeaveOut(layer, scorer, keep_scores, needed), rows)
    scorer.take_in(found)
    scores, outside = (found.scores, found.outside) if keep_scores else (None, np.empty(0, np.intp))
    outside = outside if rows is None else rows[outside]
    return PressResult(scorer.solutions, found.errors, scorer, scores, outside)


@dataclass
class _LeftOut:
    """What rows say that were left out one by one; of several parts of the rows it adds up."""

    errors: np.ndarray
    noise: np.ndarray
    scores: np.ndarray | None
    outside: np.ndarray
    n_rows: int


@dataclass(frozen=True, eq=False)
class _LeaveOut:
    """The pass of `press` as work for `fold`."""

    layer: Any
    scorer: "PressScorer"
    keep_scores: bool
    needed: int

    def __call__(self, job, samples, rows=None):
        engine, m, dtype = job.engine, self.layer.n_units, self.layer.hidden_dtype
        scorer, keep_scores = self.scorer.on(engine.algebra), self.keep_scores
        n_alphas, n_outputs = len(scorer.errors), samples.targets.n_outputs
        n_rows = len(samples if rows is None else rows)
        kept = _Kept(engine, (n_alphas, n_rows, n_outputs), dtype) if keep_scores else None

        def score(at, H):
            part = at if rows is None else rows[at]
            is_outside = ~H.any(axis=1) if keep_scores else None  # before H is overwritten
            Y = samples.targets.matrix(part, engine.xp)
            together = samples.twins and samples.twins.of(part, engine.xp)
            scores = scorer.scores(H, Y, samples.weight_of(part), together)
            if keep_scores:
                kept.add(at, scores, is_outside)

        row_bytes = m * dtype.itemsize + 8 * (6 * n_outputs + 3) * n_alphas
        stream(job, self.layer, samples.X, Consumer(score, self.needed, row_bytes), rows)
        sums = engine.to_host(scorer.errors), engine.to_host(scorer.noise)
        if not keep_scores:
            return _LeftOut(*sums, None, None, n_rows)
        return _LeftOut(*sums, kept.scores, np.concatenate(kept.outside), n_rows)

    @staticmethod
    def to_host(found):
        return found

    @staticmethod
    def add(some, more):
        """What both parts of the rows say, one after the other."""
        scores = outside = None
        if some.scores is not None:
            scores = np.concatenate([some.scores, more.scores], axis=1)
            outside = np.concatenate([some.outside, some.n_rows + more.outside])
        errors, noise = some.errors + more.errors, some.noise + more.noise
        return _LeftOut(errors, noise, scores, outside, some.n_rows + more.n_rows)


class _Kept:
    """Scores of all rows on the host, and the numbers of rows of which H is 0."""

    def __init__(self, engine, shape, dtype):
        self._engine, self.scores = engine, np.empty(shape, dtype)
        self.outside = [np.empty(0, np.intp)]

    def add(self, part, scores, is_outside):
        self.scores[:, part] = self._engine.to_host(scores).swapaxes(0, 1)
        self.outside.append(part.start + np.flatnonzero(self._engine.to_host(is_outside)))
