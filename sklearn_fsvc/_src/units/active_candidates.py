"""The living set: rows that may still become centres.

No unit answers less than 0, so the activity of a row only grows as centres are found. A row
that has reached the threshold is dead: no centre that is found later can make it novel, and
none needs to meet it.
"""

from dataclasses import replace

import numpy as np

from ..rows.map_reduce import shares_of


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
