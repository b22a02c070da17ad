"""The living set of rows in blocks elsewhere: what is fetched are proposals, no more."""

from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from .active_candidates import survivors

# Rows by rank that are looked at first, for each row of a round, and how much farther each time
# that too few of them live.
_FIRST, _FARTHER = 8, 4
# Living rows that should be known, and that are proposed, for each row of a round.
_KNOWN, _PROPOSED = 2, 2


@dataclass(frozen=True, eq=False)
class _State:
    """What is known of the rows of a block."""

    # Of those that live, or were not looked at: ranks, ascending, and numbers in the block.
    ranks: np.ndarray
    rows: np.ndarray
    # (n_known,), float64: of the first of them, which were looked at.
    activity: np.ndarray = field(default_factory=lambda: np.empty(0))
    # How many live, how many were not looked at; ranks, rows and activities of those that are
    # proposed.
    told: tuple = ()


@dataclass(frozen=True)
class _Step:
    """What is to be done in all blocks."""

    n_new: int  # the last centres, which rows that were looked at have not met
    first_undecided: int  # ranks below are settled
    # Rows of ranks below the first are looked at, living ones below the second proposed.
    until: int
    upto: int
    n: int  # no block proposes more


class LivingBlocks:
    """As `ActiveCandidates`: of all rows of a `OrderedRows` whose X has blocks elsewhere.

    A step goes to all blocks with rows that may be proposed. There rows meet centres, and those
    that live and come next by rank are proposed.
    """

    def __init__(self, shown, rule):
        self._shown, self._rule, self._X, self._engine = shown, rule, shown.X, shown.engine
        self._states, self._counts = {}, {}
        owner, rows = self._X.owners(shown.order)
        small = np.int32 if len(owner) < 2**31 else np.int64
        for i in map(int, np.unique(owner)):
            ranks = np.flatnonzero(owner == i)
            self._states[i] = _State(ranks.astype(small), rows[ranks].astype(small))
            self._counts[i] = 0, len(ranks)
        self._centers, self._n_new = [], 0
        self._n_seen = self._horizon = self._n_living = 0

    def next_candidates(self, n):
        """Ranks, rows and activities of living rows, `n` at most; none if none lives."""
        proposed, n_rows = None, len(self._shown)
        while proposed is None:
            until = self._n_seen
            if self._n_living < _KNOWN * n:
                until = min(n_rows, max(_FIRST * n, _FARTHER * until))
            proposed = self._look(n, until)
            if proposed is None and self._n_living:
                proposed = self._look(n, until, upto=until)
            elif proposed is None and until == n_rows:
                shape = 0, self._X.shape[1]
                proposed = np.empty(0, int), np.empty(shape, self._X.dtype), np.empty(0)
        self._n_living -= len(proposed[0])
        return tuple(map(self._engine.to_device, proposed))

    def add_centers(self, centers, first_undecided):
        """These rows are centres, and all ranks below the horizon are settled."""
        if len(centers):
            self._centers.append(self._engine.to_host(centers))
        self._n_new, self._horizon = len(centers), first_undecided

    def _look(self, n, until, upto=None):
        """Take a step; the first `n` by rank of the rows that are proposed, None if none is."""
        if upto is None:
            share = self._n_living / max(1, self._n_seen - self._horizon)
            upto = self._horizon + int(_PROPOSED * n / (share or 1)) + 1
        step = _Step(self._n_new, self._horizon, until, upto, n)
        self._take(step, is_wider=until > self._n_seen)
        self._n_seen, self._n_new = until, 0
        self._n_living = sum(living for living, _ in self._counts.values())
        proposals = [told for told in self._proposals if len(told[0])]
        if not proposals:
            return None
        parts = [np.concatenate(some) for some in zip(*proposals, strict=True)]
        first = np.argsort(parts[0])[:n]
        return tuple(part[first] for part in parts)

    def _take(self, step, is_wider):
        """A step in all blocks that it concerns; sets `_counts` and `_proposals`."""
        states = {
            i: self._states[i]
            for i, (living, unread) in self._counts.items()
            if living or (unread and is_wider)
        }
        centers = self._centers if is_wider else self._centers[-1:] if step.n_new else []
        units = np.concatenate(centers) if centers else None
        shown = replace(self._shown, engine=None, X=None, order=None)
        found = self._X.each(take_step, self._n_units(), states, shown, self._rule, units, step)
        self._states |= found
        told = self._X.fetch(found, attrgetter("told"))
        self._counts |= {i: counts for i, (counts, _) in told.items()}
        self._proposals = [proposal for _, proposal in told.values()]

    def _n_units(self):
        return sum(map(len, self._centers))


def take_step(job, block, state, shown, rule, units, step):
    """A `_Step` in one block."""
    engine, k = job.engine, len(state.activity)
    shown = replace(shown, engine=engine, X=block)
    known = np.flatnonzero(state.ranks[:k] >= step.first_undecided)
    activity = state.activity[known]
    if step.n_new:
        known, activity = _meet(shown, rule, state, known, activity, units[-step.n_new :])
    stop = int(np.searchsorted(state.ranks, step.until))
    new = np.arange(k, max(k, stop))
    new, of_new = _meet(shown, rule, state, new, np.zeros(len(new)), units)
    rest = np.arange(max(k, stop), len(state.ranks))
    activity, living = np.concatenate([activity, of_new]), np.concatenate([known, new])
    left = np.concatenate([living, rest])
    ranks, rows = state.ranks[left], state.rows[left]
    first = slice(min(step.n, int(np.searchsorted(ranks[: len(living)], step.upto))))
    proposal = ranks[first], _rows(shown, rows[first]), activity[first]
    return _State(ranks, rows, activity, ((len(living), len(rest)), proposal))


def _rows(shown, rows):
    """Rows of the block on the host, as they are compared."""
    return shown.engine.to_host(replace(shown, order=rows).block(slice(None)))


def _meet(shown, rule, state, numbers, activity, units):
    """Return which of some rows live on once they have met the units, and their activities."""
    if units is None or not len(numbers):
        return numbers, activity
    engine, shown = shown.engine, replace(shown, order=state.rows[numbers])
    size, n = engine.chunk_units, engine.block_rows
    chunks = [
        engine.prepare(rule.layer(engine.to_device(units[i : i + size])))
        for i in range(0, len(units), size)
    ]
    found = []
    for start in range(0, len(numbers), n):
        part = slice(start, start + n)
        own = engine.to_device(numbers[part]), shown.block(part), engine.to_device(activity[part])
        living, _, left = survivors(engine, rule, own, chunks)
        found.append((engine.to_host(living), engine.to_host(left)))
    return tuple(map(np.concatenate, zip(*found, strict=True)))
