"""Multinomial logistic regression on H, which is evaluated again in each pass and never stored.

Minimises ``sum w log-loss + alpha / 2 |W|^2``, starting at the ridge solution. A pass over the rows
is expensive, since it evaluates the layer. So each pass evaluates the loss and its gradient at
several points of a line search. Between passes, the step is computed from a model: the log-loss of
some rows whose H is cached, with the gradient of all of them, minimised by Newton-CG (see
`newton.py`). Cached are the rows of which the readout is least certain, since the others have
hardly any curvature. Close to the optimum, where one Newton step is sufficient, L-BFGS corrects the
model by the gradients of earlier passes.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from ..data.job import Job
from ..data.memory_plan import count_fitting
from ..data.samples import Samples, draw_ascending
from ..data.streaming import Consumer, stream
from .calibration import Calibration, fit_temperature
from .draw_sample import sample_unique
from .gather_statistics import gather
from .leave_one_out import SampledLOO
from .linear import Solution
from .log_loss import LogLoss, LossSums, compute_losses
from .matrix_scaling import fit_matrix_scaling
from .newton import (
    CachedRows,
    CGStop,
    LBFGSHistory,
    LocalModel,
    WhitenedCoordinates,
    sample_by_uncertainty,
)
from .statistics import RidgeStatistics


class SoftmaxSettings(NamedTuple):
    """Settings of the solver, which change its speed and not the optimum."""

    # Cached rows: the larger one of two limits, per unit and by the elements of their H.
    cached_per_unit: int = 4
    cached_elements: int = 2**24
    # Rows that scale the first readout.
    first_rows: int = 4096
    # Coordinates by the uncertain rows need another factorisation, which takes as long as a number
    # of conjugate-gradient steps proportional to the number of units. It pays above this number of
    # steps: `slow_cg`, or one for each `units_per_slow_cg` units if that is more. The coordinates
    # may omit rows with this fraction of the total uncertainty.
    slow_cg: int | float = 15
    units_per_slow_cg: int = 256
    omitted_uncertainty: float = 1e-3
    max_newton_steps: int = 4  # on the model, in each pass


# Part of the memory for cached rows, and bytes for each score of one: nine float64 arrays, and one
# of the layer's dtype.
_CACHE_SHARE, _SCORE_BYTES = 1 / 4, 80
# Steps along a direction that one pass evaluates; smaller ones if none of these reduces the
# objective; and those if the optimum is not near enough to stop.
_STEPS, _SMALL_STEPS = (0.25, 0.5, 1, 2), (1 / 64, 1 / 16)
_SMALLEST_STEPS = (2**-14, 2**-12, 2**-10, 2**-8)
# If H of all rows is cached, steps are cheap: continue to this fraction of the tolerance.
_CACHED_TOLERANCE = 0.1
# More precise conjugate gradients, which confirm convergence: confidently misclassified rows have
# hardly any curvature, so that most of the possible decrease comes last.
_FINAL_CG = CGStop(1e-3, 200)
# Steps after which other rows are cached, and gradients that L-BFGS stores.
_CACHE_STEPS, _MAX_PAIRS = 3, 10
# Curvature of rows that are not cached, as a fraction of their uncertainty.
_OTHER_CURVATURE = 0.01
# Mean curvature of the first coordinates, and the factor by which it may be wrong.
_FIRST_CURVATURE, _MAX_CURVATURE_RATIO = 1 / 16, 4.0
# Rows that are added to the statistics at a time: their minimum, and their number per unit. Each
# time, the whole Gram matrix is read and written.
_BLOCK_ROWS, _BLOCK_ROWS_PER_UNIT = 1024, 1 / 2
# Mean curvature below which rows are all predicted with certainty: only the penalty is left.
_MIN_CURVATURE = 1e-12
# Readouts in memory at a time: steps, gradients, points of a line, conjugate gradients; and those
# that stay between two penalties: the prior and the points.
_N_READOUTS = 2 * _MAX_PAIRS + 4 * len(_STEPS) + 8
_N_LASTING_READOUTS = 16


class SoftmaxResult(NamedTuple):
    """A softmax readout.

    Attributes
    ----------
    solution : Solution
        W and b with a row for each class; those of two classes are opposite. With a
        `Solution.problem` if it has not converged.
    loss : float
        The objective.
    gap : float
        Predicted decrease to the optimum, relative to the objective: half the squared norm of the
        gradient, by the inverse Hessian of the model (half the squared Newton decrement).
    n_iter : int
        Steps.
    n_passes : int
        Evaluations of H of all rows, including that of the ridge.
    """

    solution: Solution
    loss: float
    gap: float
    n_iter: int
    n_passes: int


def train_softmax(
    job: Job,
    layer: Any,
    samples: Samples,
    alpha: float,
    tol: float = 1e-4,
    max_iter: int = 100,
    statistics: RidgeStatistics | None = None,
    ridge_alpha: float | None = None,
    start: npt.NDArray | None = None,
    settings: SoftmaxSettings | None = None,
) -> SoftmaxResult:
    """Return a readout that minimises ``sum w log-loss + alpha / 2 |W|^2``.

    For two classes W is one vector, as in scikit-learn's `LogisticRegression`; each of several
    outputs has a log-loss of its own.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or TanhLayer
    samples : Samples
        With class targets.
    alpha : float
        Above 0; 1 / C of `LogisticRegression`.
    tol : float
        Stops if the predicted decrease is less than this fraction of the objective.
    max_iter : int
        Maximum number of steps, each of which is a pass over the rows.
    statistics : RidgeStatistics, optional
        Of the samples; gathered by default.
    ridge_alpha : float, optional
        If given, W is shrunk towards the calibrated ridge solution at that penalty instead of 0:
        the penalty is ``alpha / 2 |W - W_ridge|^2``.
    start : ndarray of shape (n_units + 1, n_scores), optional
        The first readout; that of the ridge by default.
    """
    training = SoftmaxTraining(job, layer, samples, statistics, ridge_alpha, start, settings)
    return training.run(alpha, tol, max_iter)


def lasting_bytes(algebra: Any, layer: Any, n_rows: int, n_scores: int) -> int:
    """Return the bytes that a `SoftmaxTraining` keeps between two penalties, at most."""
    m = layer.n_units
    n_cached = min(n_rows, _rows_to_cache(m, SoftmaxSettings()))
    hidden = n_cached * m * (layer.hidden_dtype.itemsize + algebra.half_bytes)
    return _matrix_bytes(m, algebra) + hidden + 8 * _N_LASTING_READOUTS * (m + 1) * n_scores


def _matrix_bytes(n_units, algebra):
    """Return the bytes of the statistics and of the factor of a normal matrix."""
    inverse_bytes = 4 * n_units**2 if algebra.prefers_inverse else 0
    return 2 * RidgeStatistics.nbytes(n_units) + inverse_bytes


def _rows_to_cache(n_units, settings):
    """Return how many rows of H are cached if memory allows."""
    return max(settings.cached_per_unit * n_units, settings.cached_elements // n_units)


class SoftmaxTraining:
    """`train_softmax` for several penalties, each of which starts at the readout of the last.

    Parameters
    ----------
    job, layer, samples, statistics, ridge_alpha, start, settings
        As of `train_softmax`.

    Attributes
    ----------
    point : array of shape (n_units + 1, n_scores) or None
        The readout so far; None before the first penalty.
    n_passes : int
    n_cg : int
        Steps of conjugate gradients in the last Newton step.
    """

    def __init__(
        self,
        job: Job,
        layer: Any,
        samples: Samples,
        statistics: RidgeStatistics | None = None,
        ridge_alpha: float | None = None,
        start: npt.NDArray | None = None,
        settings: SoftmaxSettings | None = None,
    ):
        self.layer, self.samples = layer, samples
        self.point: Any = None
        self.n_passes = self.n_cg = 0
        self._settings = settings or SoftmaxSettings()
        self.log_loss = LogLoss(samples.targets.n_classes)
        self._total_weight = samples.total_weight
        if statistics is None:
            (statistics,) = gather(job, [layer], samples)
            self.n_passes += 1
        self.statistics, self.algebra = statistics, job.engine.algebra
        self._reserve(job.named(f"{job.description}, softmax"))
        self._coordinates: Any = None  # WhitenedCoordinates
        self._cached: Any = None  # CachedRows
        self._random = np.random.default_rng(0)
        # Whether coordinates are by the uncertain rows. With a good start, they are worth it.
        self._uses_uncertain = start is not None
        self._prior: Any = None
        self._start = start
        if ridge_alpha is not None:
            self._prior = calibrated_ridge(
                self.job, layer, samples, self.statistics, ridge_alpha, self.log_loss
            )

    @property
    def _block_rows(self):
        return max(_BLOCK_ROWS, int(_BLOCK_ROWS_PER_UNIT * self.layer.n_units))

    @property
    def _slow_cg(self):
        settings = self._settings
        return max(settings.slow_cg, self.layer.n_units / settings.units_per_slow_cg)

    def _reserve(self, job):
        """Reserve memory during each pass: two matrices, readouts, and cached rows."""
        m, dtype = self.layer.n_units, self.layer.hidden_dtype
        n_present = len(self.samples.rows_with_weight)
        readouts = 8 * _N_READOUTS * (m + 1) * self.log_loss.n_scores
        job = job.reserve(_matrix_bytes(m, self.algebra) + readouts)
        hidden_bytes = dtype.itemsize + self.algebra.half_bytes
        row_bytes = m * hidden_bytes + _SCORE_BYTES * self.log_loss.n_scores
        n_fitting = max(1, count_fitting(_CACHE_SHARE * job.memory_limit, row_bytes))
        self._n_cached = min(n_present, _rows_to_cache(m, self._settings), n_fitting)
        self.job = job.reserve(self._n_cached * row_bytes)
        weighted_bytes = RidgeStatistics.nbytes(m) + 2 * self._block_rows * m * dtype.itemsize
        is_all = self._n_cached == n_present
        self._may_use_uncertain = is_all and 2 * weighted_bytes < self.job.memory_limit
        if self._may_use_uncertain:
            self.job = self.job.reserve(weighted_bytes)

    def _set_coordinates(self, curvature, uncertainty=None):
        """Set coordinates that suit rows of this mean curvature, unless the present ones do.

        If H of all rows is cached and conjugate gradients were slow, coordinates are by the
        uncertain rows, weighted by their curvature. For two classes, their normal matrix is the
        Hessian.
        """
        penalty = self.alpha / max(curvature, _MIN_CURVATURE)
        present = self._coordinates and self._coordinates.penalty
        may_use_uncertain = uncertainty is not None and self._may_use_uncertain
        is_slow = may_use_uncertain and self.n_cg > self._slow_cg
        self._uses_uncertain |= is_slow
        ratio = _MAX_CURVATURE_RATIO
        if present is None or is_slow or not 1 / ratio < penalty / present < ratio:
            self._coordinates = None  # release the factor before there is another one
            statistics = self.statistics
            if may_use_uncertain and self._uses_uncertain and curvature > _MIN_CURVATURE:
                statistics = self._weighted_statistics(uncertainty / (2 * curvature))
            self._coordinates = WhitenedCoordinates(statistics, penalty)

    def _weighted_statistics(self, weight):
        """Return statistics of the cached rows, except those that have hardly any weight."""
        statistics = RidgeStatistics.zeros(self.layer.n_units, 0, self.algebra)
        order = np.argsort(weight)
        omitted = self._settings.omitted_uncertainty * weight.sum(dtype=float)
        rows = order[np.cumsum(weight[order], dtype=float) > omitted]
        for start in range(0, len(rows), self._block_rows):
            part = rows[start : start + self._block_rows]
            H = self._cached.H[self.algebra.xp.asarray(part)]
            no_targets = self.algebra.xp.zeros((len(part), 0))
            statistics.update(H, no_targets, weight[part].astype(float))
        return statistics

    def run(
        self, alpha: float, tol: float, max_iter: int, is_estimate: bool = False
    ) -> SoftmaxResult:
        """Return the result for a penalty; convergence is not confirmed if it `is_estimate`.

        Each iteration computes a direction and the predicted decrease by the model, and then
        evaluates the objective at several steps along the direction.
        """
        self.alpha = alpha
        T = self._first_readout() if self.point is None else self.point
        loss, G, uncertainty = self._evaluate([T])[0]
        history, n_iter, is_far, problem = LBFGSHistory(_MAX_PAIRS), 0, True, ""
        while True:
            if is_far or n_iter % _CACHE_STEPS == 0:
                self._cache_uncertain(uncertainty)
            D, gap, is_far = self._direction(T, G, uncertainty, history)
            end = tol * loss * (_CACHED_TOLERANCE if self._caches_all else 1)
            if self._caches_all and gap <= end and not is_estimate:
                D, gap, is_far = self._direction(T, G, uncertainty, history, _FINAL_CG)
            is_converged = gap <= tol * loss
            if gap <= end or loss == 0:
                break
            if n_iter == max_iter:
                problem = _not_converged(max_iter, tol, gap / loss)
                break
            best = self._best_step(T, D, loss, is_converged)
            if best is None:
                if len(history):
                    # The corrections of earlier steps may be wrong here: try the model alone.
                    history.clear()
                    continue
                problem = _at_rounding(tol, gap / loss, self.layer.hidden_dtype)
                break
            T_new, (loss, G_new, uncertainty) = best
            if is_far:
                history.clear()
            elif not self._caches_all:  # otherwise the model omits nothing
                history.add(T_new - T, G_new - G)
            T, G, n_iter = T_new, G_new, n_iter + 1
        self.point = T
        relative_gap = gap / loss if loss > 0 else 0.0
        solution = self._solution(T, "" if is_converged else problem)
        return SoftmaxResult(solution, loss, relative_gap, n_iter, self.n_passes)

    def _first_readout(self):
        """Cache the first rows, and return the first readout: `start`, the prior, or the ridge."""
        rows = self.samples.rows_with_weight
        if self._n_cached < len(rows):
            n = min(self._n_cached, self._settings.first_rows)
            rows = draw_ascending(rows, n, self._random)
        self._cache(rows)
        if self._start is not None:
            return self.algebra.to_device(self._start)
        return self._scaled_ridge(rows) if self._prior is None else self._prior

    def _scaled_ridge(self, rows):
        """Return the ridge solution, scaled to minimise the objective of the cached rows."""
        self._set_coordinates(_FIRST_CURVATURE)
        c, xp = self._coordinates, self.algebra.xp
        right = xp.concatenate([self.statistics.right, xp.zeros((1, len(self.statistics.y)))])
        T = c.point(c.gradient(right))
        T[-1] += self.statistics.y / self.statistics.n
        T = xp.stack(self.log_loss.to_scores(T.T)).T
        scores = self.algebra.to_host(self._cached.scores(T))
        squared_norm = float((T[:-1] ** 2).sum())
        targets = self.log_loss.target_probabilities(self.samples.targets, rows, np)
        weight = self.samples.weight_or_ones(rows)
        rows_represented = self._total_weight / weight.sum()

        def objective(log_scale):
            scale = np.exp(log_scale)
            S = scale * scores
            target_scores = (S * targets).sum(axis=1)
            losses = self.log_loss.normalise(S, np) - target_scores
            return rows_represented * (weight @ losses) + self.alpha / 2 * scale**2 * squared_norm

        return float(np.exp(minimize_scalar(objective, bounds=(-5, 10), method="bounded").x)) * T

    def _cache(self, rows, probability=1.0):
        """Cache H of some rows, each of which represents 1 / `probability` rows."""
        self._cached = None  # release the memory first
        job, dtype = self.job, self.layer.hidden_dtype
        H = job.engine.xp.empty((len(rows), self.layer.n_units), dtype)

        def consume(part, tile):
            H[part] = tile

        stream(job, self.layer, self.samples.X, Consumer(consume), rows)
        weight = self.samples.weight_or_ones(rows) / probability
        self._cached = CachedRows(self.algebra, rows, H, weight)

    @property
    def _caches_all(self):
        return len(self._cached.rows) == len(self.samples.rows_with_weight)

    def _cache_uncertain(self, uncertainty):
        """Cache the rows of the largest uncertainty, and a sample of the others."""
        if not self._caches_all:
            self._cache(*sample_by_uncertainty(uncertainty, self._n_cached, self._random))

    def _evaluate(self, points):
        """Return (objective, gradient, uncertainty of each row) of each of several readouts."""
        host = np.stack([self.algebra.to_host(T) for T in points])
        losses = self._losses_of_cached(host) if self._caches_all else self._losses(host)
        return [
            self._with_penalty(T, *loss)
            for T, loss in zip(points, zip(*losses, strict=True), strict=True)
        ]

    def _losses(self, points):
        self.n_passes += 1
        return compute_losses(self.job, self.layer, self.samples, self.log_loss, points)

    def _losses_of_cached(self, points):
        cached, xp = self._cached, self.algebra.xp
        sums = LossSums(self.algebra, self.log_loss, points, cached.H.dtype)
        targets = self.log_loss.target_probabilities(self.samples.targets, cached.rows, xp)
        sums.add(cached.H, targets, cached.weight)
        return sums.result()

    def _with_penalty(self, T, loss, gradient, uncertainty):
        G, W = self.algebra.to_device(gradient).copy(), T[:-1]
        W = W if self._prior is None else W - self._prior[:-1]
        G[:-1] += self.alpha * W
        return float(loss) + self.alpha / 2 * float((W**2).sum()), G, uncertainty

    def _direction(self, T, G, uncertainty, history, cg_stop=None):
        """Return a direction, the predicted decrease, and whether one Newton step is too few."""
        total = float(uncertainty.sum(dtype=float))
        self._set_coordinates(total / 2 / self._total_weight, uncertainty)
        of_others = 0.0
        if not self._caches_all:
            of_others = total - float(uncertainty[self._cached.rows].sum(dtype=float))
        model = LocalModel(
            self._coordinates, self.log_loss, self._cached, T, self.alpha,
            _OTHER_CURVATURE * max(0.0, of_others) / 2 / self._total_weight, total / 2, cg_stop,
            self._settings.max_newton_steps,
        )  # fmt: skip
        D = -history.inverse_product(G, model.solve)
        self.n_cg = model.n_cg
        gap = -float((G * D).sum()) / 2
        if gap <= 0 and len(history):
            # Not a direction of descent: L-BFGS has been misled by rounding.
            history.clear()
            return self._direction(T, G, uncertainty, history, cg_stop)
        return D, gap, model.n_newton > 1

    def _best_step(self, T, D, loss, is_converged):
        """Return the best of several points along D and its evaluation; None if none is better."""
        lists = (_STEPS, _SMALL_STEPS) if is_converged else (_STEPS, _SMALL_STEPS, _SMALLEST_STEPS)
        for steps in lists:
            points = [T + step * D for step in steps]
            values = self._evaluate(points)
            best = min(range(len(steps)), key=lambda i: values[i][0])
            if values[best][0] < loss:
                return points[best], values[best]
        return None

    def _solution(self, T, problem):
        W = self.algebra.xp.stack(self.log_loss.to_classes(T.T))
        return Solution(W[:, :-1], W[:, -1], problem)


def _not_converged(max_iter, tol, gap):
    return (
        f"The softmax readout has not converged in {max_iter} steps: its objective may still "
        f"decrease by {gap:.1e} of its value, and {tol:g} is the limit. Increase alpha, or "
        "max_memory, so that H of more samples is cached; or use fewer hidden units."
    )


def _at_rounding(tol, gap, dtype):
    return (
        f"The softmax readout has not converged: its objective may still decrease by {gap:.1e} of "
        f"its value, and {tol:g} is the limit, but no step reduces it, because of rounding to "
        f"{dtype}. Increase alpha, or pass X as float64."
    )


def calibrated_ridge(
    job: Job,
    layer: Any,
    samples: Samples,
    statistics: RidgeStatistics,
    alpha: float,
    log_loss: LogLoss,
) -> Any:
    """Return the readout (n_units + 1, n_scores) of a ridge, each output over its temperature.

    Temperatures, and the maps of masked classes, are fitted to leave-one-out scores of a sample.

    Parameters
    ----------
    job, layer, samples
        As of `train_softmax`.
    statistics : RidgeStatistics
        Of the samples; not changed.
    alpha : float
        The ridge penalty.
    log_loss : LogLoss
    """
    loo, xp = SampledLOO(job, layer, sample_unique(job, samples), statistics), statistics.xp
    solution, left_out = loo.solve(alpha)
    T = xp.concatenate([solution.W, solution.b[:, None]], axis=1)
    readouts, ends = [], np.cumsum(log_loss.sizes)
    for size, end in zip(log_loss.sizes, ends, strict=True):
        scores = left_out.scores[:, end - size : end]
        class_weights = loo.sample.rows.sums[:, end - size : end]
        scores = np.diff(scores, axis=1) if size == 2 else scores
        rows, codes = np.nonzero(class_weights)
        output = scores[rows], codes, class_weights[rows, codes]
        temperature, readout = fit_temperature(*output), T[end - size : end]
        scaling = fit_matrix_scaling(Calibration(temperature), *output)
        if scaling is not None:
            matrix = xp.asarray(scaling.matrix)
            temperature = fit_temperature(scaling.scores, *output[1:])
            readout = matrix[:, :-1] @ readout
            readout[:, -1] += matrix[:, -1]
        readouts.append(readout / temperature)
    return xp.stack(log_loss.to_scores(xp.concatenate(readouts))).T
