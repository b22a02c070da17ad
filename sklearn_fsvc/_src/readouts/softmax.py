"""Multinomial logistic regression on H, which is evaluated again in each pass and never stored.

It minimises ``sum w log-loss + alpha / 2 |W|^2`` from the ridge's solution on. A pass over the rows
is dear, for it evaluates the layer; so each tells the loss and its gradient at several points of a
line. Between passes it goes down a model: the log-loss of some rows, whose H is kept, with the
gradient of all of them, by Newton's steps that are solved by conjugate gradients (Newton-CG). The
kept rows are those that the readout is least sure of, for the others have next to no curvature.
What they leave out, the gradients of earlier passes tell, once one step is enough (L-BFGS around
that model).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ..data.streaming import Consumer, stream
from .calibration import fit_temperature
from .leave_one_out import SampledLOO
from .linear import Solution
from .log_loss import LogLoss, LossSums, compute_losses
from .newton import CachedRows, Coordinates, History, Model
from .ridge import gather
from .sample import draw
from .statistics import RidgeStatistics

# Rows whose H is kept: so many for each unit, or so many numbers if that is more; and the part of
# the memory that they may take.
_KEPT_PER_UNIT, _KEPT_NUMBERS, _KEPT = 4, 2**24, 1 / 4
# Bytes for each score of a kept row: nine arrays in float64, and one of the layer's dtype.
_OF_SCORES = 80
# Rows by which the length of the first readout is found.
_FIRST_ROWS = 4096
# Steps along a direction that one pass tries, shorter ones where none of them helps, and those
# where it must go on all the same.
_STEPS, _SHORT, _SHORTEST = (0.25, 0.5, 1, 2), (1 / 64, 1 / 16), (2**-14, 2**-12, 2**-10, 2**-8)
# Where H of all rows is kept, steps are cheap, and it goes on until this part of the tolerance.
_WHERE_KEPT = 0.1
# Where conjugate gradients end before that is believed: rows that are surely wrong have next to no
# curvature, so that most of what the objective should fall by comes out last.
_FINAL_CG = 1e-3, 200
# Steps after which other rows are kept, and gradients that are remembered.
_KEEP_FOR, _MEMORY = 3, 10
# What each row counts for, beside its own spread, as it is drawn: a part of the mean.
_LEAST_SPREAD = 0.02
# The curvature of rows that are not kept: this part of what they have.
_OF_OTHERS = 0.01
# The mean curvature that the first coordinates are made for, and how far from the truth it may be.
_CURVATURE, _FAR = 1 / 16, 4.0
# Steps of conjugate gradients from which it is worth to make coordinates of the unsure rows, and
# the part of the spread that they may leave out.
_SLOW, _LEFT_OUT = 15, 1e-3
# Rows that are added to their sums at a time.
_AT_A_TIME = 1024
# Below this mean curvature, as of rows that are all predicted surely, the penalty is all there is.
_FLAT = 1e-12
# Readouts that are in memory at a time: steps, gradients, points of a line, conjugate gradients.
_N_POINTS = 2 * _MEMORY + 4 * len(_STEPS) + 8
# And those of them that stay between two penalties: where it is drawn to, and where it has been.
_N_LASTING = 16


class SoftmaxResult(NamedTuple):
    """What `train_softmax` finds.

    Attributes
    ----------
    solution : Solution
        W and b with a row for each class; of two classes, they are opposite.
    loss : float
        The objective.
    gap : float
        By how much of itself it would still fall, by its model: half the squared length of the
        gradient in coordinates that the Hessian whitens.
    n_iter : int
        Steps that were taken.
    n_passes : int
        How often H of all rows was evaluated, with the pass of the ridge.
    """

    solution: Any
    loss: float
    gap: float
    n_iter: int
    n_passes: int


def train_softmax(
    job, layer, samples, alpha, tol=1e-4, max_iter=100, statistics=None, ridge_alpha=None,
    start=None,
):  # fmt: skip
    """A readout that minimises ``sum w log-loss + alpha / 2 |W|^2``.

    Of two classes W is one vector, as it is in scikit-learn's `LogisticRegression`; several
    outputs, or labels, have a log-loss each.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or TanhLayer
    samples : Samples
        With targets that are classes.
    alpha : float
        Above 0; 1 / C of `LogisticRegression`.
    tol : float
        It ends where the objective would fall by no more than this part of itself.
    max_iter : int
        Steps at most, each of which is a pass over the rows.
    statistics : RidgeStatistics, optional
        Of the samples, where they are known.
    ridge_alpha : float, optional
        Where it is given, W is drawn to the ridge's solution at that penalty, calibrated, and not
        to 0: the penalty is ``alpha / 2 |W - W_ridge|^2``.
    start : ndarray of shape (n_units + 1, n_scores), optional
        A readout to begin with; that of the ridge by default.

    Returns
    -------
    Found
        With a `Solution.problem` where it did not converge.
    """
    training = SoftmaxTraining(job, layer, samples, statistics, ridge_alpha, start)
    return training.run(alpha, tol, max_iter)


def sampled(spread, n, random):
    """Numbers of `n` rows, and the probability with which each was drawn.

    It is proportional to the spread, and 1 for the largest: sums over the rows drawn, each over its
    probability, are those over all rows, on average.
    """
    size = spread + _LEAST_SPREAD * spread.mean(dtype=float)
    size = size.astype(float)
    certain = np.zeros(len(size), bool)
    while True:
        share = (n - certain.sum()) / size[~certain].sum()
        more = ~certain & (size * share >= 1)
        if not more.any():
            break
        certain |= more
    share = np.where(certain, 1.0, size * share)
    ends = np.cumsum(share) * (n / share.sum())
    rows = np.searchsorted(ends, np.arange(n) + random.random()).clip(max=len(size) - 1)
    return rows, share[rows]


def lasting_bytes(algebra, layer, n_rows, n_scores):
    """What a `SoftmaxTraining` on so many rows keeps between two penalties, at most."""
    m = layer.n_units
    hidden = min(n_rows, _wanted(m)) * m * layer.hidden_dtype.itemsize
    return _matrix_bytes(m, algebra) + hidden + 8 * _N_LASTING * (m + 1) * n_scores


def _matrix_bytes(n_units, algebra):
    """Sums, and the factor of a normal matrix."""
    return 2 * RidgeStatistics.nbytes(n_units) + (8 * n_units**2 if algebra.inverts else 0)


def _wanted(n_units):
    """How many rows of H are kept, if there is room."""
    return max(_KEPT_PER_UNIT * n_units, _KEPT_NUMBERS // n_units)


class SoftmaxTraining:
    """`train_softmax` for one penalty after another.

    Parameters
    ----------
    job, layer, samples, statistics, ridge_alpha, start
        As of `train_softmax`.

    Attributes
    ----------
    point : array of shape (n_units + 1, n_scores) or None
        The readout so far, from which the next penalty begins; None to begin with.
    """

    def __init__(self, job, layer, samples, statistics=None, ridge_alpha=None, start=None):
        self.n_passes, self.layer, self.samples, self.point = 0, layer, samples, None
        self.log_loss = LogLoss.of(samples.targets)
        self._weights = len(samples) if samples.weight is None else float(samples.weight.sum())
        if statistics is None:
            (statistics,) = gather(job, [layer], samples)
            self.n_passes += 1
        self.statistics, self.algebra = statistics, job.engine.algebra
        self._take_memory(job.named(f"{job.what}, softmax"))
        self._coordinates, self._random = None, np.random.default_rng(0)
        self._n_steps, self._weighs = 0, start is not None
        self._prior, self._start = None, start
        if ridge_alpha is not None:
            self._prior = calibrated_ridge(
                self.job, layer, samples, self.statistics, ridge_alpha, self.log_loss
            )

    def _take_memory(self, job):
        """Reserve what is there beside each pass: two matrices, kept rows, and readouts."""
        m, dtype = self.layer.n_units, self.layer.hidden_dtype
        points = 8 * _N_POINTS * (m + 1) * self.log_loss.n_scores
        job = job.reserving(_matrix_bytes(m, self.algebra) + points)
        row_bytes = m * dtype.itemsize + _OF_SCORES * self.log_loss.n_scores
        room = max(1, int(_KEPT * job.memory_limit) // row_bytes)
        self.n_kept = min(len(self.samples.present), _wanted(m), room)
        self.job = job.reserving(self.n_kept * row_bytes)
        weighing = RidgeStatistics.nbytes(m) + 2 * _AT_A_TIME * m * dtype.itemsize
        is_all = self.n_kept == len(self.samples.present)
        self._may_weigh = is_all and 2 * weighing < self.job.memory_limit
        if self._may_weigh:
            self.job = self.job.reserving(weighing)

    def _set_coordinates(self, curvature, spread=None):
        """Coordinates that suit rows of this mean curvature, if the present ones do not.

        Where H of all rows is kept and they were too slow, they are of the unsure rows: each
        counts as much as it is curved. Of two classes, their normal matrix is the Hessian.
        """
        penalty = self.alpha / max(curvature, _FLAT)
        now = self._coordinates and self._coordinates.penalty
        may_weigh = spread is not None and self._may_weigh
        is_slow = may_weigh and self._n_steps > _SLOW
        self._weighs |= is_slow
        if now is None or is_slow or not 1 / _FAR < penalty / now < _FAR:
            self._coordinates = None  # before there is another one
            weighs = may_weigh and self._weighs and curvature > _FLAT
            of = self._of_the_unsure(spread / (2 * curvature)) if weighs else self.statistics
            self._coordinates = Coordinates(of, penalty)

    def _of_the_unsure(self, weight):
        """Statistics of the rows that are kept, but for those of next to no weight."""
        kept, statistics = self._kept, RidgeStatistics.zeros(self.layer.n_units, 0, self.algebra)
        order = np.argsort(weight)
        rows = order[np.cumsum(weight[order], dtype=float) > _LEFT_OUT * weight.sum(dtype=float)]
        for start in range(0, len(rows), _AT_A_TIME):
            part = rows[start : start + _AT_A_TIME]
            H = kept.H[self.algebra.xp.asarray(part)]
            statistics.update(H, self.algebra.xp.zeros((len(part), 0)), weight[part].astype(float))
        return statistics

    def run(self, alpha, tol, max_iter, is_guess=False):
        """`SoftmaxResult` for a penalty; convergence of a guess is not confirmed."""
        self.alpha = alpha
        T = self._begin() if self.point is None else self.point
        loss, G, spread = self._at([T])[0]
        history, problem, n_iter, is_far = History(_MEMORY), "", 0, True
        while True:
            if is_far or n_iter % _KEEP_FOR == 0:
                self._keep_the_unsure(spread)
            D, gap, is_far = self._direction(T, G, spread, history)
            end = tol * loss * (_WHERE_KEPT if self._keeps_all else 1)
            if self._keeps_all and gap <= end and not is_guess:
                D, gap, is_far = self._direction(T, G, spread, history, _FINAL_CG)
            is_enough = gap <= tol * loss
            if gap <= end or loss == 0:
                break
            if n_iter == max_iter:
                problem = "" if is_enough else _not_converged(max_iter, tol, gap / loss)
                break
            found = self._best_step(T, D, loss, is_enough)
            if found is None and len(history):
                history.clear()
                continue
            if found is None:
                dtype = self.layer.hidden_dtype
                problem = "" if is_enough else _at_rounding(tol, gap / loss, dtype)
                break
            new, (loss, slope, spread) = found
            if is_far:
                history.clear()
            elif not self._keeps_all:  # else the Hessian leaves nothing out
                history.add(new - T, slope - G)
            T, G, n_iter = new, slope, n_iter + 1
        self.point = T
        part = gap / loss if loss > 0 else 0.0
        return SoftmaxResult(self._solution(T, problem), loss, part, n_iter, self.n_passes)

    def _begin(self):
        rows = self.samples.present
        if self.n_kept < len(rows):
            n = min(self.n_kept, _FIRST_ROWS)
            rows = np.sort(self._random.choice(rows, n, replace=False))
        self._keep(rows)
        if self._start is not None:
            return self.algebra.here(self._start)
        return self._first_point(rows) if self._prior is None else self._prior

    def _first_point(self, rows):
        """The ridge's solution, as long as the log-loss of some rows wants it."""
        self._set_coordinates(_CURVATURE)
        c, xp = self._coordinates, self.algebra.xp
        right = xp.concatenate([self.statistics.right, xp.zeros((1, len(self.statistics.y)))])
        z = c.gradient(right)
        T = c.point(z)
        T[-1] += self.statistics.y / self.statistics.n
        T = xp.stack(self.log_loss.of_scores(T.T)).T
        scores, squared = self.algebra.to_host(self._kept.scores(T)), float((T[:-1] ** 2).sum())
        wanted = self.log_loss.wanted(self.samples.targets, rows, np)
        weight = np.ones(len(rows)) if self.samples.weight is None else self.samples.weight[rows]
        times = self._weights / weight.sum()

        def objective(log_length):
            length = np.exp(log_length)
            S = length * scores
            own = (S * wanted).sum(axis=1)
            losses = self.log_loss.probabilities(S, np) - own
            return times * (weight @ losses) + self.alpha / 2 * length**2 * squared

        return float(np.exp(minimize_scalar(objective, bounds=(-5, 10), method="bounded").x)) * T

    def _keep(self, rows, share=1.0):
        """Keep H of some rows, each of which stands for 1 / `share` of them."""
        self._kept = None
        job, dtype = self.job, self.layer.hidden_dtype
        H = job.engine.xp.empty((len(rows), self.layer.n_units), dtype)

        def take(part, tile):
            H[part] = tile

        stream(job, self.layer, self.samples.X, Consumer(take), rows)
        weight = 1.0 if self.samples.weight is None else self.samples.weight[rows]
        self._kept = CachedRows(self.algebra, rows, H, weight / share * np.ones(len(rows)))

    @property
    def _keeps_all(self):
        return len(self._kept.rows) == len(self.samples.present)

    def _keep_the_unsure(self, spread):
        """Keep the rows of the largest spread, and some that stand for the others."""
        if not self._keeps_all:
            self._keep(*sampled(spread, self.n_kept, self._random))

    def _at(self, points):
        """(objective, gradient, spread of each row) of each of some readouts."""
        host = np.stack([self.algebra.to_host(T) for T in points])
        found = self._tally_kept(host) if self._keeps_all else self._tally(host)
        return [
            self._with_penalty(T, *each)
            for T, each in zip(points, zip(*found, strict=True), strict=True)
        ]

    def _tally(self, points):
        self.n_passes += 1
        return compute_losses(self.job, self.layer, self.samples, self.log_loss, points)

    def _tally_kept(self, points):
        kept = self._kept
        sums = LossSums(self.algebra, self.log_loss, points, kept.H.dtype)
        wanted = self.log_loss.wanted(self.samples.targets, kept.rows, self.algebra.xp)
        sums.add(kept.H, wanted, kept.weight)
        return sums.found()

    def _with_penalty(self, T, loss, gradient, spread):
        G, W = self.algebra.here(gradient).copy(), T[:-1]
        W = W if self._prior is None else W - self._prior[:-1]
        G[:-1] += self.alpha * W
        return float(loss) + self.alpha / 2 * float((W**2).sum()), G, spread

    def _direction(self, T, G, spread, history, ends=None):
        """Where to go, by how much the objective should fall, and if one Newton step is too few."""
        total = float(spread.sum(dtype=float))
        self._set_coordinates(total / 2 / self._weights, spread)
        others = 0.0 if self._keeps_all else total - float(spread[self._kept.rows].sum(dtype=float))
        of_others = _OF_OTHERS * max(0.0, others) / 2 / self._weights
        model = Model(self._coordinates, self.log_loss, self._kept, T, self.alpha, of_others, ends)
        D = -history.times(G, model.solve)
        self._n_steps = model.n_steps
        gap = -float((G * D).sum()) / 2
        if gap <= 0 and len(history):
            history.clear()
            return self._direction(T, G, spread, history, ends)
        return D, gap, model.n_newton > 1

    def _best_step(self, T, D, loss, is_enough):
        """A lower point on the way and what is known there; None where none is found."""
        for steps in (_STEPS, _SHORT) if is_enough else (_STEPS, _SHORT, _SHORTEST):
            points = [T + step * D for step in steps]
            found = self._at(points)
            best = min(range(len(steps)), key=lambda i: found[i][0])
            if found[best][0] < loss:
                return points[best], found[best]
        return None

    def _solution(self, T, problem):
        W = self.algebra.xp.stack(self.log_loss.of_classes(T.T))
        return Solution(W[:, :-1], W[:, -1], problem)


def _not_converged(max_iter, tol, gap):
    return (
        f"The softmax readout has not converged in {max_iter} steps: its objective would "
        f"fall by {gap:.1e} of itself, and is to fall by {tol:g} at most. Raise alpha, or "
        "max_memory, so that H of more rows is kept; or use fewer hidden units."
    )


def _at_rounding(tol, gap, dtype):
    return (
        f"The softmax readout has not converged to tol={tol:g}: no step lowers its objective, "
        f"which should fall by {gap:.1e} of itself. {dtype} rounds too much; raise tol or alpha, "
        "or give X in float64."
    )


# Where a softmax readout is drawn to: the ridge's solution, scaled by leave-one-out scores.


def calibrated_ridge(job, layer, samples, statistics, alpha, log_loss):
    """The readout (n_units + 1, n_scores) of a ridge, each output divided by its temperature.

    Parameters
    ----------
    job, layer, samples
        As of `train_softmax`.
    statistics : RidgeStatistics
        Of the samples; they stay.
    alpha : float
        The ridge penalty.
    log_loss : LogLoss
    """
    loo, xp = SampledLOO(job, layer, draw(job, samples), statistics), statistics.xp
    solution, left_out = loo.solve(alpha)
    scores = left_out.scores
    T = xp.concatenate([solution.W, solution.b[:, None]], axis=1)
    lengths, ends = [], np.cumsum(log_loss.sizes)
    for size, end in zip(log_loss.sizes, ends, strict=True):
        own, sums = (each[:, end - size : end] for each in (scores, loo.sample.rows.sums))
        own = np.diff(own, axis=1) if size == 2 else own
        rows, codes = np.nonzero(sums)
        inverse = 1 / fit_temperature(own[rows], codes, sums[rows, codes])
        lengths += [inverse] * (1 if size == 2 else size)
    return xp.stack(log_loss.of_scores(T)).T * xp.asarray(lengths)
