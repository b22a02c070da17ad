"""Leave-one-out errors of ridge readouts, by PRESS, without training any of them again.

PRESS is the predicted residual error sum of squares (D. M. Allen 1974, "The relationship
between variable selection and data augmentation and a method for prediction").
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..data.map_reduce import MapReduce, map_reduce
from ..data.samples import exact_hashes
from ..data.streaming import Consumer, row_blocks, stream
from ..data.tiling import check_fits
from .cross_validation import folds_of, hold_out, n_validation_units, search_penalty
from .leave_one_out import PressScorer
from .linear import Posterior, Solution, score_uncovered
from .ridge import gather
from .statistics import FEW, RidgeStatistics

# Units up to which eigenvectors, and with them the errors of all penalties, cost little.
FEW_UNITS = 2000


class PressResult(NamedTuple):
    """What `press` finds."""

    alphas: Sequence[float]
    solutions: list[Solution]  # one for each penalty
    # (n_alphas,): mean squared leave-one-out error, over rows with their weights, summed over
    # outputs.
    errors: np.ndarray
    scorer: PressScorer | None  # that has met all rows
    # (n_alphas, n_rows, n_outputs): outputs for each row without itself and the rows equal to it,
    # in the dtype of H.
    scores: np.ndarray | None
    uncovered: np.ndarray  # the rows of which H is 0, where `scores` were asked for


class Chosen(NamedTuple):
    """The penalty of the least leave-one-out error."""

    alpha: float
    solution: Solution
    alphas: tuple[float, ...]  # the penalties that were tried
    errors: np.ndarray  # (n_alphas,): theirs
    posterior: Posterior | None
    scores: np.ndarray | None  # (n_rows, n_outputs)


def choose_penalty(
    job,
    layer,
    samples,
    alphas,
    keep_scores=False,
    keep_posterior=False,
    rows=None,
    start=None,
    nearest=None,
) -> Chosen:
    """The ridge readout with the penalty of the least leave-one-out error.

    Two passes over the rows; three where the scores of so many penalties found no room, or
    are kept of some rows alone.
    With its leave-one-out scores, or its `Posterior`, if they are to be kept.

    Parameters
    ----------
    rows : ndarray of int, optional
        The rows whose scores are kept, ascending; all by default.
    start : (numpy.random.Generator, float), optional
        Where it is given, `alphas` ascend, and of many units only those on the way downhill are
        tried. It begins at the penalty of the least held-out error, which is searched from the
        number on.
    nearest : callable, optional
        ``nearest(intercept, alpha)`` gives outputs (n_units, n_outputs) of uncovered rows, by their
        nearest unit; None for those of the formula.
    """
    # A leverage is worth what H'H is worth in the directions of least variance.
    (statistics,) = gather(job, [layer], samples, dtype=float)
    job = job.named(f"{job.what}, left out")
    keeps_all = keep_scores and rows is None

    def tried(alphas, n_kept=0):
        kept = job.reserving(n_kept * layer.hidden_dtype.itemsize * layer.n_units**2)
        return press(kept, layer, samples, statistics, alphas, keeps_all, None)

    if start is None or layer.n_units <= FEW_UNITS:
        found = tried(alphas)
        best, errors = _best(found.alphas, found.errors), found.errors
    else:
        first = _held_out(job, layer, samples, statistics, *start)
        n = _n_together(job, layer)
        alphas, errors, found, best = _downhill(tried, alphas, first, n)
    posterior = found.scorer.posterior(best) if keep_posterior else None
    found = found._replace(scorer=None)  # which is as large as the statistics
    of_best, k = found, best
    if keep_scores and found.scores is None:
        alpha = found.alphas[best]
        of_best, k = press(job, layer, samples, statistics, [alpha], True, rows), 0
    scores = of_best.scores[k] if keep_scores else None
    alpha, solution = found.alphas[best], found.solutions[best]
    if keep_scores and nearest is not None:

        def take(numbers, outputs):
            scores[numbers if rows is None else np.searchsorted(rows, numbers)] = outputs

        outputs = nearest(job.engine.to_host(solution.b), alpha)
        score_uncovered(job, layer, samples.X, of_best.uncovered, outputs, take)
    return Chosen(alpha, solution, tuple(alphas), errors, posterior, scores)


def _best(alphas, errors):
    """The number of the penalty of the least error; the largest one where none is known."""
    return min(range(len(errors)), key=lambda i: (errors[i], -alphas[i]))


def _held_out(job, layer, samples, statistics, random, start):
    """The penalty of the least error on rows that are held out, of a half of the units."""
    judges, (_, held) = (
        layer.part(slice(n_validation_units(layer.n_units))),
        hold_out(samples.present, random),
    )
    job = job.reserving(3 * RidgeStatistics.nbytes(judges.n_units))
    of_held = gather(job, [judges], samples, held)
    return search_penalty(folds_of(statistics, of_held, judges.n_units), start).alpha


def _n_together(job, layer):
    """Penalties that are tried in one pass on the way downhill."""
    of_unit = layer.n_units, layer.hidden_dtype.itemsize, job.engine.algebra
    return FEW if PressScorer.nbytes(*of_unit, 2 * FEW) <= job.memory_limit // 2 else 1


def _downhill(tried, alphas, start, n_together):
    """The penalties that were tried until both neighbours of the best one are worse.

    Parameters
    ----------
    tried : callable
        ``tried(alphas, n_kept)`` is their `PressResult`, while those of so many more are kept.
    alphas : sequence of float
        Ascending.
    start : float
        What they are begun near to.

    Returns
    -------
    alphas : list of float
        Ascending.
    errors : ndarray
        Theirs.
    found : PressResult
        One with the best of them, which is number `best` there.
    best : int
    """
    at, errors, found, best = int(np.abs(np.log(np.divide(alphas, start))).argmin()), {}, None, 0
    # Of penalties whose errors are not known the largest is the best.
    while more := [i for i in (at, at - 1, at + 1) if 0 <= i < len(alphas) and i not in errors]:
        more = more[:n_together]
        n_kept = 0 if found is None else len(found.alphas)
        others = tried([alphas[i] for i in more], n_kept)
        errors |= dict(zip(more, others.errors.tolist(), strict=True))
        at = min(errors, key=lambda i: (errors[i], -i))
        if at in more:
            found, best = others, more.index(at)
    numbers = sorted(errors)
    return [alphas[i] for i in numbers], np.array([errors[i] for i in numbers]), found, best


def press(job, layer, samples, statistics, alphas, keep_scores, rows=None) -> PressResult:
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
    """
    # Leverages of few rows are near 1.
    m, is_few = layer.n_units, len(samples) < layer.n_units
    dtype = np.dtype(np.float64) if is_few else layer.hidden_dtype
    n_bases = len(alphas) if len(alphas) <= FEW else 1
    needed = PressScorer.nbytes(m, dtype.itemsize, job.engine.algebra, n_bases)
    limit = job.memory_limit
    check_fits("leave-one-out", needed, limit)
    scorer, n_rows = PressScorer(statistics, alphas, dtype), len(samples if rows is None else rows)
    kept_bytes = dtype.itemsize * len(alphas) * n_rows * samples.targets.n_outputs
    keep_scores = keep_scores and (len(alphas) == 1 or kept_bytes <= limit // 4)
    if keep_scores:
        duplicates = find_duplicates(job, samples, rows)
        needed += kept_bytes + (0 if duplicates is None else duplicates.mean.nbytes)
        samples = replace(samples, duplicates=duplicates)
    found = map_reduce(job, samples, _LeaveOneOut(layer, scorer, keep_scores, needed), rows)
    scorer.take_in(found)
    uncovered = found.uncovered if rows is None else rows[found.uncovered]
    return PressResult(alphas, scorer.solutions, found.errors, scorer, found.scores, uncovered)


@dataclass
class _LeftOut:
    """What rows say that were left out one by one; of several parts of the rows it adds up."""

    errors: np.ndarray
    noise: np.ndarray
    noise_weight: np.ndarray
    scores: np.ndarray | None
    uncovered: np.ndarray
    n_rows: int


@dataclass(frozen=True, eq=False)
class _LeaveOneOut(MapReduce):
    """The pass of `press` as work for `map_reduce`."""

    layer: Any
    scorer: PressScorer
    keep_scores: bool
    needed: int

    def __call__(self, job, samples, rows=None):
        engine, m, dtype = job.engine, self.layer.n_units, self.scorer.dtype
        scorer, keep_scores = self.scorer.on(engine.algebra), self.keep_scores
        n_alphas, n_outputs = len(scorer.errors), samples.targets.n_outputs
        n_rows = len(samples if rows is None else rows)
        kept = _Kept(engine, (n_alphas, n_rows, n_outputs), dtype) if keep_scores else None

        def score(at, H):
            part = at if rows is None else rows[at]
            # Before H is overwritten.
            is_uncovered = ~engine.algebra.any(H, axis=1) if keep_scores else None
            Y = samples.targets.matrix(part, engine.xp)
            together = samples.duplicates and samples.duplicates.of(part, engine.xp)
            scores = scorer.scores(H, Y, samples.weight_of(part), together)
            if keep_scores:
                kept.add(at, scores, is_uncovered)

        row_bytes = scorer.row_bytes(m, n_outputs, dtype.itemsize, engine.algebra, n_alphas)
        stream(job, self.layer, samples.X, Consumer(score, self.needed, row_bytes), rows)
        sums = map(engine.to_host, (scorer.errors, scorer.noise, scorer.noise_weight))
        if not keep_scores:
            return _LeftOut(*sums, None, np.empty(0, np.intp), n_rows)
        return _LeftOut(*sums, kept.scores, np.concatenate(kept.uncovered), n_rows)

    @staticmethod
    def add(some, more):
        """What both parts of the rows say, one after the other."""
        scores = None
        if some.scores is not None:
            scores = np.concatenate([some.scores, more.scores], axis=1)
        uncovered = np.concatenate([some.uncovered, some.n_rows + more.uncovered])
        sums = (
            getattr(some, name) + getattr(more, name)
            for name in ("errors", "noise", "noise_weight")
        )
        return _LeftOut(*sums, scores, uncovered, some.n_rows + more.n_rows)


class _Kept:
    """Scores of all rows on the host, and the numbers of rows of which H is 0."""

    def __init__(self, engine, shape, dtype):
        self._engine, self.scores = engine, np.empty(shape, dtype)
        self.uncovered = [np.empty(0, np.intp)]

    def add(self, part, scores, is_uncovered):
        self.scores[:, part] = self._engine.to_host(scores).swapaxes(0, 1)
        self.uncovered.append(part.start + np.flatnonzero(is_uncovered))


# Rows that are equal: a readout has not seen one of them as long as it has seen another.

# Numbers of X that are looked at in one go.
_NUMBERS = 2**16


class Duplicates(NamedTuple):
    """Groups of equal rows."""

    group: np.ndarray  # int, (n_rows,): the number of the group that each row is in
    weight: np.ndarray  # (n_groups,): sum of the weights
    # (n_groups, n_outputs): weighted mean of the targets; 0 where there is no weight.
    mean: np.ndarray

    def taken(self, rows):
        """Return those of some rows alone."""
        used, group = np.unique(self.group[rows], return_inverse=True)
        return Duplicates(group, self.weight[used], self.mean[used])

    def of(self, part, xp):
        """Weights (rows,) and mean targets (rows, n_outputs) of the groups of some rows."""
        group = self.group[part]
        return xp.asarray(self.weight[group]), xp.asarray(self.mean[group])


def find_duplicates(job, samples, rows=None):
    """The `Duplicates` among the samples; None where all rows differ.

    With the numbers of some rows, of these: all that none of them is equal to are one group.
    """
    different, group = np.unique(map_reduce(job, samples, _Hashes()), return_inverse=True)
    n_groups = len(different)
    if n_groups == len(group):
        return None
    if rows is not None:
        used = np.unique(group[rows])
        place = np.full(n_groups, len(used))
        place[used] = np.arange(len(used))
        group, n_groups = place[group], len(used) + 1
    weight = np.ones(len(group)) if samples.weight is None else samples.weight
    weights, sums = np.zeros(n_groups), np.zeros((n_groups, samples.targets.n_outputs))
    np.add.at(weights, group, weight)
    for part in _parts(len(group), sums.shape[1]):
        targets = samples.targets.matrix(part, np)
        np.add.at(sums, group[part], weight[part, None] * targets)
    sums /= np.where(weights > 0, weights, 1)[:, None]
    return Duplicates(group, weights, sums)


class _Hashes(MapReduce):
    """`exact_hashes` of all rows, as work for `map_reduce`."""

    def __call__(self, job, samples, rows=None):
        blocks = row_blocks(samples.X, None, _parts(*samples.X.shape))
        return np.concatenate([exact_hashes(job.engine.to_host(block)) for block in blocks])

    @staticmethod
    def add(some, more):
        return np.concatenate([some, more])


def _parts(n_rows, n_columns):
    step = max(1, _NUMBERS // n_columns)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
