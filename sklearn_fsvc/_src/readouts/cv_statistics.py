"""Sums of rows as they come: of all of them, and of those that judge the penalty.

Which rows are held out is said by the rows themselves, so that a row that goes is taken out of
the sums that it came into, whenever that is and in whichever model.
"""

from dataclasses import dataclass

import numpy as np

from ..rows.hashes import row_hashes
from .held_out import FEW, PARTS, folds_of, n_validation_units
from .statistics import RidgeStatistics

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
