"""Panels of a matrix that several devices have, factorised where they are."""

from threading import Event

from ..engines.team import Stopped

# Seconds after which a thread that waits for a panel looks whether others have failed.
_LOOK = 0.1


class Factorisation:
    """`PackedSymmetric.factorise` of panels on several devices: panel j is on device j modulo n.

    Each device rids its own panels of the parts of those before. Who has the next panel does
    that one first and factorises it, so that nobody waits long for it.
    """

    def __init__(self, panels):
        self._panels, self._blocks = panels, list(panels)
        self._n = len(panels.team.members)
        self._done, self._is_possible = [Event() for _ in self._blocks], True

    def run(self):
        """Whether there is a factor."""
        self._panels.team.each(self._work, list(range(self._n)))
        return self._is_possible

    def _work(self, member, number, stop):
        if number == 0:
            self._factorise(0)
        for i, (first, block) in enumerate(self._blocks):
            own = [j for j in range(i + 1, len(self._blocks)) if j % self._n == number]
            self._wait_for(i, stop)
            if not self._is_possible:
                return
            if not own:
                continue
            start = self._blocks[own[0]][0] - first
            below = (block if i % self._n == number else self._panels.algebra.here(block))[start:]
            for j in own:
                later, other = self._blocks[j]
                self._panels.subtract(other, below[later - first - start :])
                if j == i + 1:
                    self._factorise(j)

    def _factorise(self, i):
        if not self._panels.factorise_panel(self._blocks[i][1]):
            self._is_possible = False
        self._panels.algebra.finish()
        self._done[i].set()

    def _wait_for(self, i, stop):
        while self._is_possible and not self._done[i].wait(_LOOK):
            if stop.is_set():
                raise Stopped
