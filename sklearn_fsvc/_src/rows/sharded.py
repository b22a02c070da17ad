"""Rows that are sharded to the engines of a team."""

import numpy as np


class Sharded:
    """Rows of which each engine of a team has a share.

    Whoever takes some rows gets them on the device of the thread that asks: work that is not
    shared stays on the device of the engine that does it. `parts` are the shares by their first
    rows, each where the engine computes that has it, or on the host; `whole` is where they came
    from.
    """

    def __init__(self, whole, parts, algebra):
        self.whole, self._parts, self._algebra = whole, parts, algebra
        self.shape, self.dtype = tuple(whole.shape), next(iter(parts.values())).dtype

    def __len__(self):
        return self.shape[0]

    def part(self, share):
        """The rows of a share that was sharded."""
        return self._parts[share.start]

    def take(self, rows, dtype=None):
        """Return some rows (a slice or an index array) as an array where this thread computes."""
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        xp = self._algebra.xp
        taken = xp.empty((len(rows), self.shape[1]), dtype or self.dtype)
        for first, part in self._parts.items():
            places = np.flatnonzero((rows >= first) & (rows < first + len(part)))
            if len(places):
                taken[xp.asarray(places)] = self._here(part, rows[places] - first)
        return taken

    def _here(self, part, rows):
        with self._algebra.at(part):
            some = part[rows]
            self._algebra.finish()  # before another device reads them
        return self._algebra.here(some)
