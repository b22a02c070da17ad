"""Ridge penalties by held-out error, from the statistics of training and held-out samples.

The squared error of a readout on a set of samples is a quadratic form in their statistics. So no
sample is read again, whatever penalties are evaluated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..data.validation import cast_to_float32_if_safe
from ..engines.threads import limit_blas_threads
from .cross_validation import HeldOut, n_validation_units
from .gather_statistics import gather, gather_coarse
from .linear import Solution
from .statistics import RidgeStatistics

# Units from which sums in float32 save time.
MIN_FLOAT32_UNITS = 500
# Elements of H from which compiled loops for float32 are worth their compilation.
LARGE_HIDDEN = 2**22
# Penalties are powers of `ALPHA_STEP`, between these exponents; small penalties, which are not
# usual, are from the least one of all.
ALPHA_STEP = 10**0.5
_LEAST_EXPONENT, _MIN_EXPONENT, _MAX_EXPONENT = -20, -8, 10
MAX_ALPHA = ALPHA_STEP**_MAX_EXPONENT
# Maximum penalty with which a search starts. Where a network predicts nothing, the largest penalty
# is the best one, at which any other network predicts nothing, either.
_MAX_START = 100.0


class PenaltySearchResult(NamedTuple):
    """The penalty of the least held-out error."""

    alpha: float
    error: float  # mean of ``|y - score|^2`` over the held-out samples
    n_units: int  # of the readouts that were evaluated
    # Penalty -> error, in the order of evaluation; infinite if the equations were ill-conditioned.
    tried: dict[float, float]
    is_loo: bool = False  # whether errors are leave-one-out errors, not those of held-out samples

    @property
    def stopped_by_conditioning(self) -> bool:
        """Whether a lesser penalty was too ill-conditioned to be evaluated."""
        return any(alpha < self.alpha and np.isinf(error) for alpha, error in self.tried.items())


@dataclass
class SearchHistory:
    """The evaluated readouts of all searches of a fit."""

    start: float  # the penalty that is evaluated first
    rows: list[dict] = field(default_factory=list)  # one for each readout
    n_rows: int | None = None  # samples that small networks were trained on, if there were any
    n_samples: int = 0  # those of which they are a part
    alpha_scale: float = 1.0  # of `Samples.with_unit_weights`: the penalties are for such samples
    is_loo: bool = False  # as of the last `PenaltySearchResult`

    def add(self, layer: Any, found: PenaltySearchResult) -> None:
        """Append the readouts of a penalty search with a layer."""
        hyperparameters = layer.hyperparameters | {"n_units": found.n_units}
        self.rows += [
            hyperparameters | {"alpha": a, "error": error} for a, error in found.tried.items()
        ]
        self.is_loo = found.is_loo

    def add_mean(
        self, layer: Any, trained: Sequence[tuple[Any, "SearchHistory"]], errors: Sequence[float]
    ) -> None:
        """Append a layer with the mean error of similar layers, each with its own history.

        Its penalty is their geometric mean.
        """
        rows = [history._best_row(each) for each, history in trained]
        alpha = float(np.exp(np.mean([np.log(row["alpha"]) for row in rows])))
        mean = {"n_units": rows[0]["n_units"], "alpha": alpha, "error": float(np.mean(errors))}
        self.rows.append(layer.hyperparameters | mean)

    def best_alpha(self, layer: Any) -> float:
        """Return the penalty of the least error so far, or `start`.

        Of the networks that are most similar to the layer: other kernels need other penalties.
        """
        return self._best_row(layer)["alpha"] if self.rows else self.start

    def _best_row(self, layer):
        hyperparameters = layer.hyperparameters.items()

        def rank(row):
            return sum(row[name] != value for name, value in hyperparameters), row["error"]

        return min(self.rows, key=rank)

    def start_for_proxy(self, layer: Any) -> float:
        """Return the penalty with which to start a search for another small network."""
        return min(self.best_alpha(layer), _MAX_START)

    def start_for(self, layer: Any) -> float:
        """Return the first penalty for a layer: that of small networks on most of the samples.

        If these were trained on a small part, it is at least `start`: penalties grow with the
        number of samples.
        """
        is_similar = self.n_rows is not None and 2 * self.n_rows >= self.n_samples
        best = self.start_for_proxy(layer)
        return best if is_similar else max(best, self.start)

    @property
    def table(self) -> dict[str, npt.NDArray] | None:
        """Columns of ``search_results_``; None if there are none."""
        if not self.rows:
            return None
        table = {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}
        return table | {"alpha": table["alpha"] * self.alpha_scale}


def search_penalty(
    folds: list[tuple[RidgeStatistics, RidgeStatistics]],
    start: float,
    skip_above: float = np.inf,
    unit: float = 1.0,
    with_small_penalties: bool = False,
    uncovered_loss: Callable[[float], float] | None = None,
) -> PenaltySearchResult:
    """Return the ridge penalty with the least error on held-out samples.

    Parameters
    ----------
    folds : list of (RidgeStatistics, RidgeStatistics)
        Of the training samples and of the held-out samples.
    start, skip_above, unit, with_small_penalties
        As of `minimise_over_alpha`.
    uncovered_loss : callable, optional
        `SampledLOO.uncovered_loss`, which is added: the statistics do not contain the scores of
        samples that no unit covers.
    """
    n, n_units = max(train.n for train, _ in folds), len(folds[0][0].h)
    n_validation = sum(validation.n for _, validation in folds)
    mean_error = sum(
        _constant_error(validation, train.y / train.n) for train, validation in folds
    ) / n_validation  # fmt: skip

    def error_of(alpha):
        error = _error_of(folds, alpha)
        return error if uncovered_loss is None else error + uncovered_loss(alpha)

    return minimise_over_alpha(
        error_of, n, n_units, start, mean_error, skip_above, unit, with_small_penalties
    )  # fmt: skip


@limit_blas_threads(1)  # once, and not in each BLAS call
def minimise_over_alpha(
    error_of: Callable[[float], float],
    n: float,
    n_units: int,
    start: float,
    mean_error: float,
    skip_above: float = np.inf,
    unit: float = 1.0,
    with_small_penalties: bool = False,
) -> PenaltySearchResult:
    """Return the penalty at a local minimum of an error, by factors of `ALPHA_STEP`.

    The least penalty is above the rounding error of H'H in float32, whatever the dtype, so that it
    is the same on every device. With small penalties, it is above that in float64. There may be one
    minimum among the usual penalties and one below: a search of small penalties whose first penalty
    is a usual one also descends from the least, and a search of usual ones whose first penalty is
    small from the least usual one.

    Parameters
    ----------
    error_of : callable
        ``error_of(alpha)`` returns the error.
    n : float
        Weight of the training samples.
    start : float
        The first penalty.
    mean_error : float
        The error of the mean of the targets, which the largest penalty predicts. If the local
        minimum is no better, the descent is repeated from the least and the largest penalty.
    skip_above : float
        If the first error is above this, no other penalty is evaluated.
    unit : float
        The mean weight of a sample, in units of which the penalties are bounded.
    with_small_penalties : bool
        Whether H'H has been summed in float64, for units that may need such a small penalty.
    """
    first, usual = round(grid_power(start / unit)), _least_power(n / unit, np.float32)
    starts_small, lower, starts = _is_small(start / unit), usual, [first]
    if with_small_penalties or starts_small:
        lower = _least_power(n / unit, np.float64)
    if with_small_penalties != starts_small:
        starts.append(lower if with_small_penalties else usual)
    tried: dict[float, float] = {}

    def error_at(power):
        alpha = unit * float(ALPHA_STEP**power)
        if alpha not in tried:
            tried[alpha] = error_of(alpha)
        return tried[alpha]

    def descend(powers):
        return min((downhill(error_at, p, lower, _MAX_EXPONENT) for p in powers), key=error_at)

    best, *others = (int(np.clip(power, lower, _MAX_EXPONENT)) for power in starts)
    if error_at(best) < skip_above or np.isinf(error_at(best)):
        best = descend([best, *others])
        if not error_at(best) < mean_error:
            best = descend([best, lower, _MAX_EXPONENT])
    return PenaltySearchResult(unit * float(ALPHA_STEP**best), error_at(best), n_units, tried)


def _is_small(alpha):
    """Return whether a penalty is below the usual ones."""
    return round(grid_power(alpha)) < _MIN_EXPONENT


def _least_power(n, dtype):
    """Return the least power of `ALPHA_STEP` that is above the rounding error of sums over n."""
    least = _MIN_EXPONENT if dtype == np.float32 else _LEAST_EXPONENT
    return max(least, int(np.ceil(grid_power(n * np.finfo(dtype).eps))))


def grid_power(alpha: float | np.floating) -> float:
    """Return the power of `ALPHA_STEP` that a penalty is, which need not be an integer."""
    return float(np.log(alpha) / np.log(ALPHA_STEP))


def downhill(error_at: Callable[[int], float], best: int, lower: int, upper: int) -> int:
    """Return an integer in [lower, upper] where a function has a local minimum.

    Ascends from `best` while the function decreases, or else descends.
    """
    for step in (1, -1):
        first = best
        # An infinite error, of an ill-conditioned penalty, is left upwards whatever is next.
        while lower <= best + step <= upper and (
            error_at(best + step) < error_at(best) or (step > 0 and np.isinf(error_at(best)))
        ):
            best += step
        if best != first:
            break
    return best


def _error_of(folds, alpha):
    """Return the mean error over the held-out samples of all folds."""
    total = n = 0.0
    for train, validation in folds:
        solution = train.try_solve(alpha, is_compared=True)
        if solution is None:
            return np.inf
        total += validation.n * squared_error(validation, solution)
        n += validation.n
    return total / n


def squared_error(statistics: RidgeStatistics, solution: Solution) -> float:
    """Return the weighted mean of ``|y - W h - b|^2`` over the samples of the statistics.

    Expanded into sums: ``sum |y - b|^2 - 2 sum (y - b)' W h + sum h' W' W h``.
    """
    s, W = statistics, solution.W
    b = solution.b + W @ s.shift  # for h minus its shift
    target_term = _constant_error(s, b)
    cross_term = s.algebra.inner(W.T, s.hy) - float(b @ (W @ s.h))
    total = target_term - 2 * cross_term + s.gram.quadratic(W)
    return max(total / s.n, 0.0)  # rounding may make it negative


def _constant_error(statistics, b):
    """Return the sum of ``|y - b|^2`` over the samples of the statistics."""
    s = statistics
    return float(s.yy.sum()) - 2 * float(b @ s.y) + s.n * float(b @ b)


def gather_and_search(
    job: Job,
    layer: Any,
    samples: Samples,
    random: np.random.Generator,
    history: SearchHistory,
    many_units: int = MIN_FLOAT32_UNITS,
    center_rows: npt.NDArray | None = None,
) -> tuple[PenaltySearchResult, RidgeStatistics]:
    """Return the penalty of the least held-out error, and the statistics of all samples.

    Parameters
    ----------
    history : SearchHistory
        Gives the first penalty, and records those that are evaluated.
    many_units : int
        As of `search_with_float64_fallback`.
    center_rows : ndarray of int of shape (n_units,), optional
        As of `HeldOut.draw`.
    """
    held_out = HeldOut.draw(samples, random, layer.n_units, center_rows)
    n_units = n_validation_units(layer.n_units)
    # Memory of a factor, and for each part of held-out statistics and of their difference to all.
    factor_bytes = RidgeStatistics.nbytes(layer.n_units)
    fold_bytes = 2 * RidgeStatistics.nbytes(n_units)
    if factor_bytes + len(held_out.parts) * fold_bytes > job.memory_limit:
        held_out = held_out.first_fold()
    reserved = factor_bytes + len(held_out.parts) * fold_bytes

    def validate(gather_rows, layer, statistics, start):
        validation_job = job.named(f"{job.description}, held out").reserve(reserved)
        folds = held_out.gather_folds(
            gather_rows, validation_job, layer.part(slice(n_units)), statistics
        )
        return search_penalty(folds, start)

    return search_with_float64_fallback(job, layer, samples, history, validate, many_units)


def search_with_float64_fallback(
    job: Job,
    layer: Any,
    samples: Samples,
    history: SearchHistory,
    search_from: Callable[..., PenaltySearchResult],
    many_units: int = MIN_FLOAT32_UNITS,
) -> tuple[PenaltySearchResult, RidgeStatistics]:
    """Return the result of a search for a penalty, and the statistics of all samples.

    Statistics are gathered in the fastest precision. Only if that makes a lesser penalty too
    ill-conditioned, they are gathered again in float64.

    Parameters
    ----------
    history : SearchHistory
        Gives the first penalty, and records those that are evaluated.
    search_from : callable
        ``search_from(gather_rows, layer, statistics, start)`` returns a `PenaltySearchResult` from
        the statistics of all samples; ``gather_rows`` gathers others in the same precision.
    many_units : int
        For more units, float64 activations are multiplied in float32. `LARGE_HIDDEN` of them or
        more are also evaluated in float32, if that is safe.
    """
    gather_float64 = partial(gather, dtype=float)
    gather_fast: Callable = gather
    fast_layer, start = layer, history.start_for(layer)
    is_usual = not _is_small(start)  # else only sums in float64 allow that penalty
    if layer.hidden_dtype == np.float64 and layer.n_units > many_units and is_usual:
        gather_fast = gather_coarse
        if len(samples) * layer.n_units >= LARGE_HIDDEN:
            fast_layer = cast_to_float32_if_safe(layer, samples.X)
    fallback = partial(gather_float64, job, [layer], samples)

    def run(gather_rows, layer, start):
        (statistics,) = gather_rows(job, [layer], samples)
        statistics.float64_fallback = fallback
        return search_from(gather_rows, layer, statistics, start), statistics

    found, statistics = run(gather_fast, fast_layer, start)
    if found.stopped_by_conditioning and statistics.has_float64_fallback:
        del statistics  # before others are gathered
        found, statistics = run(gather_float64, layer, found.alpha)
    history.add(layer, found)
    return found, statistics


def estimate_penalty(
    job: Job,
    layer: Any,
    samples: Samples,
    random: np.random.Generator,
    start: float,
    center_rows: npt.NDArray | None = None,
) -> float:
    """Return the penalty of the least held-out error of a quarter of the units.

    A prediction of that of all units, in a sixteenth of the time of their products.
    """
    leading = layer.part(slice(n_validation_units(n_validation_units(layer.n_units))))
    held_out = HeldOut.draw(samples, random, center_rows=center_rows)
    (of_all,) = gather(job, [leading], samples)
    folds = held_out.gather_folds(gather, job, leading, of_all)
    return search_penalty(folds, start).alpha
