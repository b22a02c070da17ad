"""Ridge penalties by held-out error, from the statistics of two sets of rows.

The squared error of a readout on rows is a quadratic form in their statistics: no row is
met again, whatever is tried.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from ..data.samples import row_hashes
from ..data.validation import cast_if_safe
from .ridge import gather, gather_coarse
from .statistics import RidgeStatistics

# One row in so many is held out, and no more rows than these.
PARTS, _MOST_HELD = 6, 5000
# Units from which sums in float32 save time.
_MANY = 500
# Outputs for which it is worth to compile loops in float32, too.
_NARROW = 2**22
# Rows and units up to which all parts are held out, one after the other: it costs nothing.
FEW = 1000
# Penalties are powers of this.
STEP = 10**0.5
# What is tried lies between these powers of STEP.
_LEAST, _MOST = -8, 10


class PenaltySearchResult(NamedTuple):
    """The penalty of the least held-out error."""

    alpha: float
    error: float  # mean over the held-out rows of ``|y - score|^2``
    n_units: int  # units of the readouts that were tried
    # Penalty -> error, in the order in which they were tried; infinite where the equations were too
    # ill-conditioned.
    tried: dict

    @property
    def is_cut(self):
        """Whether a lesser penalty was too ill-conditioned to be tried."""
        return any(alpha < self.alpha and np.isinf(error) for alpha, error in self.tried.items())


@dataclass
class SearchHistory:
    """What was tried, a row for each readout."""

    start: float  # the penalty that is tried first
    rows: list[dict] = field(default_factory=list)
    n_rows: int | None = None  # that small networks were trained on; None where there were none

    def add(self, layer, found):
        """Take in what a search for the penalty has tried with a layer."""
        how = layer.traits | {"n_units": found.n_units}
        self.rows += [how | {"alpha": a, "error": error} for a, error in found.tried.items()]

    def best_alpha(self, layer):
        """The penalty of the least error so far; where there is none, one to begin with.

        Of the networks that are most like the layer: other kernels want other penalties.
        """
        traits = layer.traits.items()

        def rank(row):
            return sum(row[name] != value for name, value in traits), row["error"]

        return min(self.rows, key=rank)["alpha"] if self.rows else self.start

    def first_alpha(self, layer):
        """The penalty to begin with for a whole layer, whose units want no less than few do."""
        return max(self.best_alpha(layer), self.start)

    @property
    def table(self):
        """What is in ``search_results_``: name -> a value for each readout. None for none."""
        if not self.rows:
            return None
        return {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]}


def hold_out(rows, random):
    """Return most of the rows, of which there must be two, and those held out, both ascending."""
    if len(rows) < 2:
        raise ValueError(
            f'What is "auto" is judged on rows that are held out, and n_samples={len(rows)} of '
            "positive weight. Give two rows or more, of a stream in the first call of partial_fit; "
            'or set what is "auto" to values.'
        )
    shuffled = random.permutation(rows)
    n_held = max(1, min(len(rows) // PARTS, _MOST_HELD))
    return np.sort(shuffled[n_held:]), np.sort(shuffled[:n_held])


def parts_to_hold_out(rows, random):
    """Return the sets of rows, ascending, by which a penalty is judged, each in its turn.

    One, as of `hold_out`. Where there are few rows, so that one would tell little, all parts.
    """
    _, held = hold_out(rows, random)
    if len(rows) > FEW:
        return [held]
    others = random.permutation(np.setdiff1d(rows, held))
    n_others = min(PARTS, len(rows)) - 1
    return [held, *(np.sort(part) for part in np.array_split(others, n_others))]


def folds_for(parts, n_units):
    """Return the parts that judge a layer: many units are judged by the first alone."""
    return parts if n_units <= FEW else parts[:1]


def search_penalty(folds, start, skip_above=np.inf) -> PenaltySearchResult:
    """The ridge penalty with the least error on held-out rows: downhill, by steps of STEP.

    A step down ends where the rounding of H'H in float32 would rival the penalty, on every
    device at the same one.

    Parameters
    ----------
    folds : list of (RidgeStatistics, RidgeStatistics)
        Of the rows that are trained on, and of those held out.
    start : float
        A penalty to begin with.
    hopeless : float
        Where its error is above this, no other penalty is tried.
    """
    n, n_units = max(kept.n for kept, _ in folds), len(folds[0][0].h)
    return search(lambda alpha: _error_of(folds, alpha), n, n_units, start, skip_above)


def search(error_of, n, n_units, start, skip_above=np.inf):
    """`search_penalty` for an error at any penalty, of readouts of rows of a weight `n`."""
    least = max(_LEAST, int(np.ceil(np.log(_rounding(n)) / np.log(STEP))))
    tried = {}

    def error_at(power):
        alpha = float(STEP**power)
        if alpha not in tried:
            tried[alpha] = error_of(alpha)
        return tried[alpha]

    best = int(np.clip(round(np.log(start) / np.log(STEP)), least, _MOST))
    if error_at(best) < skip_above or np.isinf(error_at(best)):
        best = downhill(error_at, best, least, _MOST)
    return PenaltySearchResult(float(STEP**best), error_at(best), n_units, tried)


def downhill(error_at, best, least, most):
    """The whole number where an error is least, beside which it is more: up first, else down."""
    for step in (1, -1):
        first = best
        # From an infinite error there is nothing to lose.
        while least <= best + step <= most and (
            error_at(best + step) < error_at(best) or (step > 0 and np.isinf(error_at(best)))
        ):
            best += step
        if best != first:
            break
    return best


def _rounding(n):
    """The penalty that the rounding of H'H in float32 rivals, for rows of so much weight."""
    return n * np.finfo(np.float32).eps


def n_validation_units(n_units):
    """How many units of a layer, the first, judge its penalties: a half.

    The same penalty suits both (measured on 24 tables), in an eighth of the time.
    """
    return -(-n_units // 2)


def folds_of(statistics, of_held, n_units):
    """Return statistics of the first units for `search_penalty`.

    From those of all rows, and of each set of rows that is held out in its turn.
    """
    everything = statistics.leading(n_units)
    held = [part.leading(n_units) for part in of_held]
    return [(everything - part, part) for part in held]


def _error_of(folds, alpha):
    """Mean over the held-out rows of all folds."""
    total = n = 0.0
    for kept, held in folds:
        solution = kept.try_solve(alpha, is_compared=True)
        if solution is None:
            return np.inf
        total += held.n * squared_error(held, solution)
        n += held.n
    return total / n


def squared_error(statistics, solution):
    """Mean of ``|y - W h - b|^2`` over the rows of the statistics, with their weights."""
    s, W = statistics, solution.W
    b = solution.b + W @ s.origin  # for H less its origin
    of_targets = float(s.yy.sum()) - 2 * float(b @ s.y) + s.n * float(b @ b)
    crossed = s.algebra.inner(W.T, s.hy) - float(b @ (W @ s.h))
    total = of_targets - 2 * crossed + s.gram.quadratic(W)
    return max(total / s.n, 0.0)


def train_held_out(job, layer, samples, random, history):
    """Return the `PenaltySearchResult` of the least held-out error, and the statistics of all rows.

    `history` says where to begin, and records what is tried.
    """
    how, seen, float64_fallback = gather, layer, partial(gather, dtype=float)
    # No penalty is tried that the rounding of float32 would rival.
    if layer.hidden_dtype == np.float64 and layer.n_units > _MANY:
        how, seen = gather_coarse, _narrowed(layer, samples)
    parts = folds_for(parts_to_hold_out(samples.present, random), layer.n_units)

    def judge(how, seen, start):
        return _judged(
            job, seen, samples, parts, how, start, partial(float64_fallback, job, [layer], samples)
        )

    found, statistics = judge(how, seen, history.first_alpha(layer))
    if found.is_cut and statistics.has_float64_fallback:
        del statistics
        found, statistics = judge(float64_fallback, layer, found.alpha)
    history.add(layer, found)
    return found, statistics


def _judged(job, layer, samples, parts, how, start, float64_fallback):
    """Return the `PenaltySearchResult` of a layer, and the statistics that `how` gathers.

    `parts` are the sets of rows that are held out.
    """
    n_units = n_validation_units(layer.n_units)
    (statistics,) = how(job, [layer], samples)
    statistics.float64_fallback = float64_fallback
    # The other sets of rows, the difference of each, and a factor.
    taken = 2 * len(parts) * RidgeStatistics.nbytes(n_units)
    taken += RidgeStatistics.nbytes(layer.n_units)
    held_job = job.named(f"{job.what}, held out").reserving(taken)
    judges = layer.part(slice(n_units))
    of_held = [how(held_job, [judges], samples, part)[0] for part in parts]
    return search_penalty(folds_of(statistics, of_held, n_units), start), statistics


def scouted_alpha(job, layer, samples, random, start):
    """The penalty of the least held-out error of a quarter of the units: it tells what to expect.

    Of all rows, in a sixteenth of the time that the products of all units take.
    """
    scouts = layer.part(slice(n_validation_units(n_validation_units(layer.n_units))))
    held = hold_out(samples.present, random)[1]
    (of_all,) = gather(job, [scouts], samples)
    (of_held,) = gather(job, [scouts], samples, held)
    return search_penalty(folds_of(of_all, [of_held], scouts.n_units), start).alpha


def _narrowed(layer, samples):
    """The layer in float32 where its outputs are many, and the same."""
    is_worth = len(samples) * layer.n_units >= _NARROW
    return cast_if_safe(layer, samples.X) if is_worth else layer


# Sums of rows as they come: of all of them, and of those that judge the penalty.
#
# Which rows are held out is said by the rows themselves, so that a row that goes is taken out of
# the sums that it came into, whenever that is and in whichever model.

# Of sums, what rounding may leave of them once they are taken away.
ROUNDING = 1e-9


def n_parts(n_units, n_rows=0):
    """How many parts of the rows are held out in their turn: of many rows or units, the first."""
    return PARTS if max(n_units, n_rows) <= FEW else 1


def held_rows(samples, n):
    """The numbers of the rows in each of the first `n` parts."""
    part = (row_hashes(samples.X) >> np.uint64(32)) % np.uint64(PARTS) if n else ()
    return [np.flatnonzero(part == i) for i in range(n)]


@dataclass(frozen=True, eq=False)
class CVStatistics:
    """Statistics of rows; they add up, subtract and fade together."""

    total: RidgeStatistics  # of all of them
    # Of each part that is held out, of the units that judge; None where it has no rows.
    held: tuple[RidgeStatistics | None, ...] = ()

    def __add__(self, more):
        return CVStatistics(self.total + more.total, _each(_plus, self.held, more.held))

    def __sub__(self, gone):
        return CVStatistics(self.total - gone.total, _each(_minus, self.held, gone.held))

    def scaled(self, factor):
        """Return the sums with all weights multiplied by a factor."""
        held = tuple(part and part.scaled(factor) for part in self.held)
        return CVStatistics(self.total.scaled(factor), held)

    def folds(self):
        """What `search_penalty` asks for; none as long as there is nothing to be judged.

        That is, as long as all rows have the same y, or none is held out.
        """
        total, n = self.total, n_validation_units(len(self.total.h))
        spread = total.yy - total.y**2 / total.n
        if not float((spread - ROUNDING * total.yy.max()).max()) > 0:
            return []
        folds = folds_of(total, [part for part in self.held if part is not None], n)
        return [(kept, held) for kept, held in folds if kept.n > ROUNDING * total.n]


def _each(operation, some, others):
    """Part by part; where one has fewer of them, there are so few."""
    return tuple(operation(a, b) for a, b in zip(some, others, strict=False))


def _plus(a, b):
    return (a or b) if a is None or b is None else a + b


def _minus(a, b):
    if a is None or b is None:
        return a
    left = a - b
    return left if left.n > ROUNDING * a.n else None
