"""Ridge penalties by leave-one-out error.

`select_from_loo_grid` serves ``alpha="loo"`` and lists of penalties, `search_loo` serves
``alpha="auto"`` for up to a few thousand samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from .cross_validation import HeldOut, n_validation_units
from .draw_sample import sample_unmerged
from .dual import DualLOO, DualProblem
from .gather_statistics import gather
from .leave_one_out import SampledLOO
from .linear import Posterior, Solution
from .penalty_search import (
    ALPHA_STEP,
    MAX_ALPHA,
    PenaltySearchResult,
    SearchHistory,
    grid_power,
    minimise_over_alpha,
    search_penalty,
    search_with_float64_fallback,
)
from .press import LOOScorer, PressResult, compute_press
from .row_sample import mean_and_error, squared_deviation
from .statistics import MAX_FACTORS, RidgeStatistics

# Units up to which eigenvectors, and with them the errors of all penalties, cost little.
FEW_UNITS = 2000
# Samples up to which leave-one-out errors choose a better penalty than held-out samples, which are
# few then. For 12,000 samples of eight datasets they were no better, and took a fifth of the time
# of an ensemble.
MAX_LOO_ROWS = 6000
# Samples by which `search_loo` chooses. On 15 datasets of 4000 samples, 512 were worse by 0.1
# points of accuracy.
_PENALTY_SAMPLES = 1000
# Number of units above which half of them are validated.
MIN_HALVED_UNITS = 1000
# Maximum increase of the squared error for a larger penalty.
_TOLERANCE = 0.02


class LOOPenalty(NamedTuple):
    """The penalty of the least leave-one-out error."""

    alpha: float
    solution: Solution
    alphas: tuple[float, ...]  # the penalties that were evaluated
    errors: npt.NDArray  # (n_alphas,): their errors
    posterior: Posterior | None
    scores: npt.NDArray | None  # (n_rows, n_outputs): leave-one-out scores


def select_from_loo_grid(
    job: Job,
    layer: Any,
    samples: Any,
    alphas: Any,
    keep_scores: bool = False,
    keep_posterior: bool = False,
    rows: npt.NDArray | None = None,
    start: tuple[np.random.Generator, float] | None = None,
    center_outputs: npt.NDArray | None = None,
) -> LOOPenalty:
    """Return the ridge readout with the penalty of the least leave-one-out error.

    Two passes over the rows; three if the scores are kept, and those of all penalties do not fit in
    memory or only those of some rows are needed.

    Parameters
    ----------
    keep_scores, keep_posterior : bool
        Whether to return the leave-one-out scores, and the `Posterior`.
    rows : ndarray of int, optional
        The rows whose scores are kept, ascending; all by default.
    start : (numpy.random.Generator, float), optional
        If given, `alphas` ascend, and for more than `FEW_UNITS` units only a descent is evaluated.
        It begins at the penalty of the least held-out error, which is searched from the number on.
    center_outputs : ndarray of shape (n_units, n_outputs), optional
        As of `compute_press`.
    """
    # Leverages are as precise as H'H in the directions of least variance: sum in float64.
    (statistics,) = gather(job, [layer], samples, dtype=float)
    job = job.named(f"{job.description}, left out")
    keeps_all = keep_scores and rows is None

    def evaluate(alphas, n_kept=0):
        kept = job.reserve(n_kept * layer.hidden_dtype.itemsize * layer.n_units**2)
        return compute_press(
            kept, layer, samples, statistics, alphas, keeps_all, center_outputs=center_outputs
        )

    if start is None or layer.n_units <= FEW_UNITS:
        result = evaluate(alphas)
        best, errors = _best(result.errors, result.alphas), result.errors
    else:
        first = _held_out_penalty(job, layer, samples, statistics, *start)
        n_together = _penalties_per_pass(job, layer)
        alphas, errors, result, best = _descend(evaluate, alphas, first, n_together)
    alpha, solution = result.alphas[best], result.solutions[best]
    posterior = result.posterior(best) if keep_posterior else None
    result = result._replace(posterior=None)  # release the scorer: as large as the statistics
    scores = None
    if keep_scores:
        if result.scores is None:
            result = compute_press(
                job, layer, samples, statistics, [alpha], True, rows, center_outputs
            )
            best = 0
        scores = result.scores[best]
    return LOOPenalty(alpha, solution, tuple(alphas), errors, posterior, scores)


def _best(errors, alphas):
    """Return the index of the least error; of equal ones, as of unknown ones, the largest alpha."""
    return min(range(len(errors)), key=lambda i: (errors[i], -alphas[i]))


def _held_out_penalty(job, layer, samples, statistics, random, start):
    """Return the penalty of the least held-out error, of the first half of the units."""
    units = layer.part(slice(n_validation_units(layer.n_units)))
    job = job.reserve(3 * RidgeStatistics.nbytes(units.n_units))
    folds = HeldOut.draw(samples, random).gather_folds(gather, job, units, statistics)
    return search_penalty(folds, start).alpha


def _penalties_per_pass(job, layer):
    """Return how many penalties a pass of the descent evaluates: 1 if memory is short."""
    n_bytes = LOOScorer.nbytes(
        layer.n_units, layer.hidden_dtype.itemsize, job.engine.algebra, 2 * MAX_FACTORS
    )
    return MAX_FACTORS if n_bytes <= job.memory_limit // 2 else 1


def _descend(
    evaluate: Callable[[list[float], int], PressResult],
    alphas: Sequence[float],
    start: float,
    n_together: int,
) -> tuple[list[float], npt.NDArray, PressResult, int]:
    """Descend along ascending penalties until both neighbours of the best one are worse.

    The error is close to unimodal in log alpha. Each pass evaluates up to `n_together` of the best
    penalty so far and its neighbours.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(alphas, n_kept)`` returns their `PressResult`, while the results of `n_kept`
        penalties stay in memory.
    start : float
        The nearest penalty is the first one.

    Returns
    -------
    alphas : list of float
        Those that were evaluated, ascending.
    errors : ndarray
    result : PressResult
        That contains the best penalty.
    best : int
        Its index in `result`.
    """
    at = int(np.abs(np.log(np.divide(alphas, start))).argmin())
    errors: dict[int, float] = {}
    best_result: Any = None
    best = 0
    while True:
        neighbours = (i for i in (at, at - 1, at + 1) if 0 <= i < len(alphas))
        missing = [i for i in neighbours if i not in errors][:n_together]
        if not missing:
            break
        n_kept = 0 if best_result is None else len(best_result.alphas)
        result = evaluate([alphas[i] for i in missing], n_kept)
        errors |= dict(zip(missing, result.errors.tolist(), strict=True))
        # Of penalties with unknown (infinite) errors, the largest is the best.
        at = min(errors, key=lambda i: (errors[i], -i))
        if at in missing:
            best_result, best = result, missing.index(at)
    numbers = sorted(errors)
    found = [alphas[i] for i in numbers], np.array([errors[i] for i in numbers])
    return *found, best_result, best


def suits_loo(samples: Any, units: Any, is_stacked: bool) -> bool:
    """Return whether `search_loo` selects a penalty, and not an error on held-out samples.

    Random units of a single network gain nothing from it. The leave-one-out error is optimistic for
    groups, which are held out as a whole.
    """
    may_gain = is_stacked or units.support is not None
    is_small = len(samples.rows_with_weight) <= MAX_LOO_ROWS
    return may_gain and is_small and samples.may_leave_one_out


def draw_penalty_sample(job: Job, samples: Any) -> Any:
    """Return the `RowSample` by which `search_loo` selects a penalty.

    It does not depend on the memory limit, as the penalty, and with it the model, must not.
    """
    return sample_unmerged(job, samples, _PENALTY_SAMPLES, is_exact=True)


@dataclass(frozen=True, eq=False)
class LOOCriterion:
    """The leave-one-out error by which penalties are compared.

    For units that are centred at samples it is more precise than held-out rows, and not biased by
    units that are centred at these. Half of more than 1000 find the penalty of all, which half of
    random units do not.

    Parameters
    ----------
    sample : RowSample
        The rows that are left out.
    units : Units
        Those that are centred at rows of the sample are left out with the rows.
    center_outputs : ndarray of shape (n_units, n_outputs), optional
        As of `LeaveOneOut`.
    prefers_large : bool
        Select the largest penalty whose error is within one standard error of the least, and 2 %
        of it. In classification, it has fewer errors.
    """

    sample: Any
    units: Any
    center_outputs: npt.NDArray | None = None
    prefers_large: bool = False

    def compared_units(self, layer: Any) -> Any:
        """Return the layer of those units whose readouts are compared."""
        is_half = self.units.support is not None and layer.n_units > MIN_HALVED_UNITS
        return layer.part(slice(n_validation_units(layer.n_units))) if is_half else layer

    @property
    def loo_arguments(self) -> dict[str, Any]:
        """Return the arguments of `LeaveOneOut` about the sample and the units."""
        sample = self.sample.leading(_PENALTY_SAMPLES)
        return {"sample": sample, "units": self.units, "center_outputs": self.center_outputs}


def gather_and_search_loo(
    job: Job, layer: Any, samples: Any, criterion: LOOCriterion, history: SearchHistory
) -> tuple[PenaltySearchResult, RidgeStatistics]:
    """Return the result of `search_loo`, and the statistics of all samples.

    `history` gives the first penalty, and records those that are evaluated.
    """

    def search_from(gather_rows, _, statistics, start):
        return search_loo(job, layer, statistics, criterion, start)

    return search_with_float64_fallback(job, layer, samples, history, search_from)


def search_loo(
    job: Job, layer: Any, statistics: RidgeStatistics, criterion: LOOCriterion, start: float
) -> PenaltySearchResult:
    """Return the penalty of the least leave-one-out error.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all samples.
    criterion : LOOCriterion
    start : float
        The first penalty.
    """
    job = job.reserve(RidgeStatistics.nbytes(layer.n_units))
    layer = criterion.compared_units(layer)
    leading = statistics.leading(layer.n_units)
    loo = SampledLOO(job, layer, statistics=leading, **criterion.loo_arguments)

    def scores_of(alpha):
        equations = leading.try_cholesky(alpha, is_compared=True)
        return None if equations is None else loo.score(equations)[0]

    return _search_scores(loo, scores_of, statistics.n, start, criterion.prefers_large)


def search_dual_loo(
    job: Job,
    layer: Any,
    samples: Any,
    problem: DualProblem,
    criterion: LOOCriterion,
    start: float,
) -> PenaltySearchResult:
    """`search_loo` by the `DualProblem` of all samples."""
    layer = criterion.compared_units(layer)
    leading = problem.leading(layer.n_units)
    loo = DualLOO(job, layer, samples=samples, **criterion.loo_arguments)

    def scores_of(alpha):
        _, dual = leading.try_solve(alpha)
        return None if dual is None else loo.score(dual, leading)

    return _search_scores(loo, scores_of, problem.weight.sum(), start, criterion.prefers_large)


def _search_scores(loo, scores_of, n, start, prefers_large):
    """Return the search of a penalty, given ``scores_of(alpha)``: `HeldOutScores`, or None."""
    losses: dict[float, Any] = {}

    def error_of(alpha):
        scores = scores_of(alpha)
        if scores is None:
            return np.inf
        losses[alpha], error = loo.losses(scores)
        return error

    weight = loo.sample.rows.weight
    mean_error = squared_deviation(loo.sample.targets, weight, weight / n)
    found = minimise_over_alpha(error_of, n, loo.layer.n_units, start, mean_error)._replace(
        is_loo=True
    )
    if prefers_large:
        return _within_standard_error(found, error_of, losses, weight)
    return found


def _within_standard_error(found, error_of, losses, weight):
    """Return the largest penalty whose paired difference to the best is one standard error.

    And `_TOLERANCE` of the least error at most: the standard error of few samples is large. (The
    one-standard-error rule of L. Breiman et al. 1984, "Classification and Regression Trees", with a
    paired difference.)
    """
    tried, best = found.tried, found.alpha
    tolerance = _TOLERANCE * found.error
    if not np.isfinite(found.error):
        return found
    for power in count(round(grid_power(best)) + 1):
        alpha = float(ALPHA_STEP**power)
        if alpha > MAX_ALPHA:
            break
        if alpha not in tried:
            tried[alpha] = error_of(alpha)
        if not np.isfinite(tried[alpha]):
            break
        mean, standard_error = mean_and_error(losses[alpha] - losses[best], weight)
        if mean > min(standard_error, tolerance):
            break
        found = found._replace(alpha=alpha, error=tried[alpha])
    return found
