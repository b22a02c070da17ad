"""The living set of rows that several engines share."""

from dataclasses import replace

import numpy as np

from ..rows.fold import shares_of
from .living import Living


class LivingTeam:
    """As `Living`: of all rows, of which each engine has its share.

    Parameters
    ----------
    shown : Presentation
        With shares that were sharded.
    rule, block_rows
        As of `Living`.
    """

    def __init__(self, shown, rule, block_rows):
        self._team, self._algebra = shown.engine.team, shown.engine.algebra

        def begin(member, share, stop):
            X, order = shown.X.part(share), shown.order
            own = replace(shown, engine=member, X=X, order=order - share.start)
            ranks = np.flatnonzero((order >= share.start) & (order < share.stop))
            return Living(own, rule, ranks, block_rows)

        self._living = self._team.each(begin, shares_of(self._team, len(shown.X)))

    def propose(self, n):
        """Ranks, rows and activities of the first `n` living rows, fewer if there are no more."""
        here, xp = self._algebra.here, self._algebra.xp
        proposed = self._team.each(lambda _, living, stop: living.propose(n), self._living)
        parts = [xp.concatenate(list(map(here, some))) for some in zip(*proposed, strict=True)]
        first = xp.argsort(parts[0])[:n]
        return tuple(part[first] for part in parts)

    def announce(self, centers, horizon):
        """These rows are centres, and all ranks below the horizon are settled."""

        def tell(member, living, stop):
            living.announce(member.algebra.here(centers), horizon)

        self._team.each(tell, self._living)
