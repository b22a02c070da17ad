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
from ..data.memory_plan import check_fits
from ..data.samples import Samples, draw_without_replacement
from ..data.streaming import cast_layer
from ..data.validation import cast_to_float32_if_safe
from .linear import Solution
from .ridge import gather, gather_coarse
from .statistics import RidgeStatistics

# One sample in `PARTS` is held out, and no more than `MAX_HELD`.
PARTS, MAX_HELD = 6, 5000
# Units from which sums in float32 save time.
MANY_UNITS = 500
# Elements of H from which compiled loops for float32 are worth their compilation.
LARGE_HIDDEN = 2**22
# Samples and units up to which all parts are held out, one after the other, at little cost.
FEW = 1000
# Penalties are powers of `STEP`, between these exponents.
STEP = 10**0.5
_MIN_POWER, _MAX_POWER = -8, 10
LARGEST = STEP**_MAX_POWER
# Rounding error of sums after a subtraction, relative to the sums before.
ROUNDING = 1e-9


class PenaltySearchResult(NamedTuple):
    """The penalty of the least held-out error."""

    alpha: float
    error: float  # mean of ``|y - score|^2`` over the held-out samples
    n_units: int  # of the readouts that were evaluated
    # Penalty -> error, in the order of evaluation; infinite if the equations were ill-conditioned.
    tried: dict[float, float]

    @property
    def is_cut(self) -> bool:
        """Whether a lesser penalty was too ill-conditioned to be evaluated."""
        return any(alpha < self.alpha and np.isinf(error) for alpha, error in self.tried.items())


@dataclass
class SearchHistory:
    """The evaluated readouts of all searches of a fit."""

    start: float  # the penalty that is evaluated first
    rows: list[dict] = field(default_factory=list)  # one for each readout
    n_rows: int | None = None  # samples that small networks were trained on, if there were any

    def add(self, layer: Any, found: PenaltySearchResult) -> None:
        """Append the readouts of a penalty search with a layer."""
        traits = layer.traits | {"n_units": found.n_units}
        self.rows += [traits | {"alpha": a, "error": error} for a, error in found.tried.items()]

    def best_alpha(self, layer: Any) -> float:
        """Return the penalty of the least error so far, or `start`.

        Of the networks that are most similar to the layer: other kernels need other penalties.
        """
        traits = layer.traits.items()

        def rank(row):
            return sum(row[name] != value for name, value in traits), row["error"]

        return min(self.rows, key=rank)["alpha"] if self.rows else self.start

    def first_alpha(self, layer: Any) -> float:
        """Return the first penalty for a layer: many units need at least that of few units."""
        return max(self.best_alpha(layer), self.start)

    @property
    def table(self) -> dict[str, npt.NDArray] | None:
        """Columns of ``search_results_``; None if there are none."""
        if not self.rows:
            return None
        return {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}


def hold_out(
    rows: npt.NDArray, random: np.random.Generator, groups: npt.NDArray | None = None
) -> tuple[npt.NDArray, npt.NDArray]:
    """Return training rows and held-out rows, both ascending; of two rows or more.

    `groups` has the group of every sample, of which `rows` are some. If these are of two groups or
    more, whole groups are held out.
    """
    if len(rows) < 2:
        raise ValueError(
            'Parameters set to "auto" are validated on held-out samples, and '
            f"n_samples={len(rows)} of positive weight. Give two samples or more, also in the "
            "first call of partial_fit with a given layer; "
            'or set the parameters that are "auto" to values.'
        )
    n_held = max(1, min(len(rows) // PARTS, MAX_HELD))
    if _has_several(groups, rows):
        shuffled, n_held = _shuffle_groups(rows, random, groups, n_held)
        held = shuffled[:n_held]
    else:
        held = draw_without_replacement(rows, n_held, random)
    others = rows[np.isin(rows, held, invert=True)]
    is_ascending = (np.diff(others) > 0).all()
    return others if is_ascending else np.sort(others), np.sort(held)


def _has_several(groups, rows):
    return groups is not None and np.ptp(groups[rows]) > 0


def _shuffle_groups(rows, random, groups, n_held):
    """Return the rows, one group after the other, and how many whole groups begin with them.

    As close to `n_held` rows as possible. Groups are in random order, those of more than half of
    the rows at the end.
    """
    _, codes, sizes = np.unique(groups[rows], return_inverse=True, return_counts=True)
    order = random.permutation(len(sizes))
    order = np.concatenate(
        [order[2 * sizes[order] <= len(rows)], order[2 * sizes[order] > len(rows)]]
    )
    ends = np.cumsum(sizes[order])[:-1]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rows[np.argsort(rank[codes], kind="stable")], ends[np.abs(ends - n_held).argmin()]


def parts_to_hold_out(
    rows: npt.NDArray, random: np.random.Generator, groups: npt.NDArray | None = None
) -> list[npt.NDArray]:
    """Return the held-out sets of rows of each fold, ascending; for `groups` see `hold_out`.

    One, as of `hold_out`. If there are few rows, so that one is too noisy, all parts of a
    partition.
    """
    others, held = hold_out(rows, random, groups)
    if len(rows) > FEW:
        return [held]
    if groups is not None and _has_several(groups, rows):
        labels = random.permutation(np.unique(groups[others]))
        parts = np.array_split(labels, min(PARTS - 1, len(labels)))
        return [held, *(others[np.isin(groups[others], part)] for part in parts)]
    others = random.permutation(others)
    n_others = min(PARTS, len(rows)) - 1
    return [held, *(np.sort(part) for part in np.array_split(others, n_others))]


def draw_split(
    job: Job, samples: Samples, n_rows: int, random: np.random.Generator
) -> tuple[Job, Samples, npt.NDArray, npt.NDArray]:
    """Return samples, and training rows and validation rows of them, up to `n_rows` in all.

    Given validation samples are appended to a copy of the training rows, whose memory the job
    reserves. Otherwise some samples are held out.
    """
    subset = draw_without_replacement(samples.present, n_rows, random)
    validation = samples.validation
    if validation is None:
        training, held = hold_out(subset, random, samples.groups)
        return job, samples, training, held
    held = _draw_validation_rows(validation, random, n_rows // PARTS)
    training = np.sort(subset[: n_rows - len(held)])
    n_bytes = (len(training) + len(held)) * samples.X.shape[1] * samples.X.dtype.itemsize
    what, remedy = "the choice by validation samples", "leave out X_val"
    check_fits(what, 2 * n_bytes, job.memory_limit, remedy)
    joined = samples.taken(training).joined(validation.taken(held))
    joined, job = joined.on_device(job.reserve(n_bytes))
    training, held = np.split(np.arange(len(joined)), [len(training)])
    return job, joined, training, held


def _draw_validation_rows(validation, random, n_rows=MAX_HELD):
    return np.sort(draw_without_replacement(validation.present, n_rows, random))


def draw_validation(samples: Samples, random: np.random.Generator) -> Samples:
    """Return a copy of the given validation samples, of as many as are held out at most."""
    assert samples.validation is not None
    return samples.validation.taken(_draw_validation_rows(samples.validation, random))


def select_folds(parts: Sequence, n_units: int) -> Sequence:
    """Return the parts that validate a layer: the first alone for many units."""
    return parts if n_units <= FEW else parts[:1]


def search_penalty(
    folds: list[tuple[RidgeStatistics, RidgeStatistics]], start: float, skip_above: float = np.inf
) -> PenaltySearchResult:
    """Return the ridge penalty with the least error on held-out samples.

    Descends by factors of STEP. The least penalty is above the rounding error of H'H in float32,
    whatever the dtype, so that it is the same on every device.

    Parameters
    ----------
    folds : list of (RidgeStatistics, RidgeStatistics)
        Of the training samples and of the held-out samples.
    start : float
        The first penalty.
    skip_above : float
        If its error is above this, no other penalty is evaluated.
    """
    n, n_units = max(kept.n for kept, _ in folds), len(folds[0][0].h)
    return search(lambda alpha: _error_of(folds, alpha), n, n_units, start, skip_above)


def search(
    error_of: Callable[[float], float],
    n: float,
    n_units: int,
    start: float,
    skip_above: float = np.inf,
) -> PenaltySearchResult:
    """Minimise ``error_of(alpha)`` as `search_penalty`, for training samples of weight `n`."""
    rounding = n * np.finfo(np.float32).eps  # of H'H in float32
    least = max(_MIN_POWER, int(np.ceil(np.log(rounding) / np.log(STEP))))
    tried: dict[float, float] = {}

    def error_at(power):
        alpha = float(STEP**power)
        if alpha not in tried:
            tried[alpha] = error_of(alpha)
        return tried[alpha]

    best = int(np.clip(round(np.log(start) / np.log(STEP)), least, _MAX_POWER))
    if error_at(best) < skip_above or np.isinf(error_at(best)):
        best = downhill(error_at, best, least, _MAX_POWER)
    return PenaltySearchResult(float(STEP**best), error_at(best), n_units, tried)


def downhill(error_at: Callable[[int], float], best: int, least: int, most: int) -> int:
    """Return an integer in [least, most] where a function has a local minimum.

    Ascends from `best` while the function decreases, or else descends.
    """
    for step in (1, -1):
        first = best
        # An infinite error, of an ill-conditioned penalty, is left upwards whatever is next.
        while least <= best + step <= most and (
            error_at(best + step) < error_at(best) or (step > 0 and np.isinf(error_at(best)))
        ):
            best += step
        if best != first:
            break
    return best


def n_validation_units(n_units: int) -> int:
    """Return how many leading units of a layer validate its penalties: a half.

    The best penalty is the same (measured on 24 datasets), in an eighth of the time.
    """
    return -(-n_units // 2)


def make_folds(
    statistics: RidgeStatistics,
    of_held: Sequence[RidgeStatistics | None],
    n_units: int,
    is_included: bool = True,
    own_units: Sequence[npt.NDArray] | None = None,
) -> list[tuple[RidgeStatistics, RidgeStatistics]]:
    """Return the folds of `search_penalty`, for the leading units.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all samples.
    of_held : list of RidgeStatistics or None
        Of the held-out samples of each fold; None for a fold without samples, which is skipped.
    is_included : bool, default=True
        Whether the held-out samples are among all, so that they are subtracted from these.
    own_units : list of ndarray of int, optional
        The units that are centred at held-out samples of each fold, if these are included: they are
        left out of its readout. New samples have no unit of their own, whose coefficient no other
        sample determines. With these units, the error would grow as the penalty falls, where that
        of new samples changes little.
    """
    of_all, folds = statistics.leading(n_units), []
    for i, part in enumerate(of_held):
        if part is None:
            continue
        held = part.leading(n_units)
        kept = of_all - held if is_included else of_all
        if own_units is not None:
            kept.leave_units_out(own_units[i][own_units[i] < n_units])
        folds.append((kept, held))
    return folds


def find_own_units(
    parts: Sequence[npt.NDArray], center_rows: npt.NDArray | None
) -> list[npt.NDArray] | None:
    """Return the units whose centres are in each part, given the row of each centre; or None."""
    if center_rows is None:
        return None
    return [np.flatnonzero(np.isin(center_rows, part)) for part in parts]


@dataclass(frozen=True)
class HeldOut:
    """The rows that validate a layer: given validation samples, or samples that are held out."""

    samples: Samples  # of which the parts are rows
    parts: Sequence[npt.NDArray]  # one for each fold
    is_included: bool  # whether they are among the training samples
    own_units: Sequence[npt.NDArray] | None = None  # as of `make_folds`

    @classmethod
    def draw(
        cls,
        samples: Samples,
        random: np.random.Generator,
        n_units: int | None = None,
        center_rows: npt.NDArray | None = None,
    ) -> "HeldOut":
        """Return those of the folds of a layer with `n_units`; by default of one fold.

        `center_rows` has the row of the centre of each unit; None if units have no centres there.
        """
        if samples.validation is not None:
            validation = samples.validation
            return cls(validation, [_draw_validation_rows(validation, random)], False)
        parts = parts_to_hold_out(samples.present, random, samples.groups)
        selected = select_folds(parts, FEW + 1 if n_units is None else n_units)
        return cls(samples, selected, True, find_own_units(selected, center_rows))

    def gather_folds(
        self, gather_rows: Callable, job: Job, layer: Any, statistics: RidgeStatistics
    ) -> list[tuple[RidgeStatistics, RidgeStatistics]]:
        """Return the folds of `search_penalty` for a layer of leading units.

        ``gather_rows`` is `gather` or a variant of it, and `statistics` those of all samples.
        """
        if not self.is_included:
            layer = cast_layer(layer, self.samples.X)
        of_held = [gather_rows(job, [layer], self.samples, part)[0] for part in self.parts]
        return make_folds(statistics, of_held, layer.n_units, self.is_included, self.own_units)


def _error_of(folds, alpha):
    """Return the mean error over the held-out samples of all folds."""
    total = n = 0.0
    for kept, held in folds:
        solution = kept.try_solve(alpha, is_compared=True)
        if solution is None:
            return np.inf
        total += held.n * squared_error(held, solution)
        n += held.n
    return total / n


def squared_error(statistics: RidgeStatistics, solution: Solution) -> float:
    """Return the weighted mean of ``|y - W h - b|^2`` over the samples of the statistics.

    Expanded into sums: ``sum |y - b|^2 - 2 sum (y - b)' W h + sum h' W' W h``.
    """
    s, W = statistics, solution.W
    b = solution.b + W @ s.origin  # for h minus its origin
    target_term = float(s.yy.sum()) - 2 * float(b @ s.y) + s.n * float(b @ b)
    cross_term = s.algebra.inner(W.T, s.hy) - float(b @ (W @ s.h))
    total = target_term - 2 * cross_term + s.gram.quadratic(W)
    return max(total / s.n, 0.0)  # rounding may make it negative


def train_held_out(
    job: Any,
    layer: Any,
    samples: Samples,
    random: np.random.Generator,
    history: SearchHistory,
    many_units: int = MANY_UNITS,
    large_hidden: int = LARGE_HIDDEN,
    center_rows: npt.NDArray | None = None,
) -> tuple[PenaltySearchResult, RidgeStatistics]:
    """Return the penalty of the least held-out error, and the statistics of all samples.

    Parameters
    ----------
    history : SearchHistory
        Gives the first penalty, and records those that are evaluated.
    many_units, large_hidden : int
        As of `search_precisely`.
    center_rows : ndarray of int of shape (n_units,), optional
        As of `HeldOut.draw`.
    """
    held_out = HeldOut.draw(samples, random, layer.n_units, center_rows)

    def validate(gather_rows, layer, statistics, start):
        n_units = n_validation_units(layer.n_units)
        # Memory of the held-out statistics, of their differences to all, and of a factor.
        reserved = 2 * len(held_out.parts) * RidgeStatistics.nbytes(n_units)
        reserved += RidgeStatistics.nbytes(layer.n_units)
        held_job = job.named(f"{job.what}, held out").reserve(reserved)
        folds = held_out.gather_folds(gather_rows, held_job, layer.part(slice(n_units)), statistics)
        return search_penalty(folds, start)

    return search_precisely(job, layer, samples, history, validate, many_units, large_hidden)


def search_precisely(
    job: Any,
    layer: Any,
    samples: Samples,
    history: SearchHistory,
    search_from: Callable[..., PenaltySearchResult],
    many_units: int = MANY_UNITS,
    large_hidden: int = LARGE_HIDDEN,
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
        For more units, float64 activations are multiplied in float32.
    large_hidden : int
        Elements of H from which these are also evaluated in float32, if that is safe.
    """
    gather_float64 = partial(gather, dtype=float)
    gather_fast: Callable = gather
    fast_layer = layer
    if layer.hidden_dtype == np.float64 and layer.n_units > many_units:
        gather_fast = gather_coarse
        if len(samples) * layer.n_units >= large_hidden:
            fast_layer = cast_to_float32_if_safe(layer, samples.X)
    fallback = partial(gather_float64, job, [layer], samples)

    def run(gather_rows, layer, start):
        (statistics,) = gather_rows(job, [layer], samples)
        statistics.float64_fallback = fallback
        return search_from(gather_rows, layer, statistics, start), statistics

    found, statistics = run(gather_fast, fast_layer, history.first_alpha(layer))
    if found.is_cut and statistics.has_float64_fallback:
        del statistics  # before others are gathered
        found, statistics = run(gather_float64, layer, found.alpha)
    history.add(layer, found)
    return found, statistics


def estimate_penalty(
    job: Any,
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
