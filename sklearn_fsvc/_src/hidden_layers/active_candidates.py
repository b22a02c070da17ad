"""The living set of rows in blocks elsewhere: what is fetched are proposals, no more."""

from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from ..data.map_reduce import shares_of

# The living set: rows that may still become centres.
#
# No unit answers less than 0, so the activity of a row only grows as centres are found. A row
# that has reached the threshold is dead: no centre that is found later can make it novel, and
# none needs to meet it.


class _Centers:
    """Centres found so far, prepared in chunks: a full chunk is prepared once."""

    def __init__(self, engine, rule):
        self._engine, self._rule = engine, rule
        self._full, self._rest = [], None

    def add(self, units):
        if self._rest is not None:
            units = self._engine.xp.concatenate([self._rest, units])
        size = self._engine.chunk_units
        while len(units) >= size:
            self._full.append(self.prepare(units[:size]))
            units = units[size:]
        self._rest = units

    def chunks(self):
        yield from self._full
        if self._rest is not None and len(self._rest):
            yield self.prepare(self._rest)

    def prepare(self, units):
        return self._engine.prepare(self._rule.layer(self._engine.xp.ascontiguousarray(units)))


class ActiveCandidates:
    """The living rows of one worker, of these ranks in the order of presentation, ascending.

    A window holds the first of them: ranks, rows as they are compared, and activities in all
    centres so far. Rows behind the window are not read before they are needed, `block_rows` in one
    go; then they meet all centres so far, and only the living ones stay.
    """

    def __init__(self, shown, rule, ranks, block_rows):
        self._shown, self._rule, self._unread, self._block_rows = shown, rule, ranks, block_rows
        self._engine, self._xp = shown.engine, shown.engine.xp
        self._centers = _Centers(self._engine, rule)
        self._window = self._next()

    def next_candidates(self, n):
        """Ranks, rows and activities of the first `n` living rows, fewer if there are no more."""
        while len(self._window[0]) < n and len(self._unread):
            pairs = zip(self._window, self._next(), strict=True)
            self._window = tuple(self._xp.concatenate(pair) for pair in pairs)
        return tuple(part[:n] for part in self._window)

    def add_centers(self, centers, first_undecided):
        """These rows are centres, and all ranks below the horizon are settled."""
        self._centers.add(centers)
        ranks = self._window[0]  # ascending
        n_settled = int(self._xp.searchsorted(ranks, self._xp.asarray([first_undecided]))[0])
        rest = tuple(part[n_settled:] for part in self._window)
        self._window = survivors(self._engine, self._rule, rest, [self._centers.prepare(centers)])

    def _next(self):
        """The living ones of the next rows by rank."""
        n = self._block_rows
        ranks, self._unread = self._unread[:n], self._unread[n:]
        activity = self._xp.zeros(len(ranks))
        window = self._engine.to_device(ranks), self._shown.block(ranks), activity
        return survivors(self._engine, self._rule, window, self._centers.chunks())


class LivingTeam:
    """`ActiveCandidates` rows of which each engine has its share."""

    def __init__(self, shown, rule, block_rows):
        self._team, self._algebra = shown.engine.team, shown.engine.algebra

        def begin(member, share, stop):
            X, order = shown.X.part(share), shown.order
            own = replace(shown, engine=member, X=X, order=order - share.start)
            ranks = np.flatnonzero((order >= share.start) & (order < share.stop))
            return ActiveCandidates(own, rule, ranks, block_rows)

        self._living = self._team.each(begin, shares_of(self._team, len(shown.X)))

    def next_candidates(self, n):
        """Ranks, rows and activities of the first `n` living rows, fewer if there are no more."""
        here, xp = self._algebra.here, self._algebra.xp
        proposed = self._team.each(lambda _, living, stop: living.next_candidates(n), self._living)
        parts = [xp.concatenate(list(map(here, some))) for some in zip(*proposed, strict=True)]
        first = xp.argsort(parts[0])[:n]
        return tuple(part[first] for part in parts)

    def add_centers(self, centers, first_undecided):
        """These rows are centres, and all ranks below the horizon are settled."""

        def tell(member, living, stop):
            living.add_centers(member.algebra.here(centers), first_undecided)

        self._team.each(tell, self._living)


def survivors(engine, rule, window, chunks):
    """Return what is left of some rows when they have met chunks of centres.

    `window` holds whatever belongs to the rows, the rows, and their activities, which are changed;
    `chunks` are centres as the engine prepares them.
    """
    for chunk in chunks:
        *_, rows, activity = window
        if not len(rows):
            break
        activity += engine.activity(chunk, rows)
        living = engine.xp.flatnonzero(activity < rule.overlap)
        if len(living) < len(rows):
            window = tuple(part[living] for part in window)
    return window


def living_bytes(engine, n_rows, n_features, itemsize):
    """Bytes of so many rows of a window, as they are read, put in order and meet a chunk."""
    return n_rows * (4 * n_features * itemsize + (2 * engine.chunk_units + 6) * 8)


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
