"""What `verbose` prints: a line a second, so that long work is seen to move."""

import time


class Progress:
    """Counts rows of one phase of the work, prints how far it is and where the time goes.

    Parameters
    ----------
    what : str
        Estimator and phase, such as "RBFClassifier fit".
    total : int
        Rows in all.
    verbose : int
        0 prints nothing.
    stopwatch : callable
        Makes an ``engines.base.Stopwatch``.
    """

    def __init__(self, what, total, verbose, stopwatch):
        self.what, self.total, self.verbose = what, total, verbose
        self.done = self.tiles = 0
        self.start = self.last = time.perf_counter()
        self._stopwatch = stopwatch() if verbose else None

    def lap(self, stage):
        """What was done since the last lap was `stage`."""
        if self.verbose:
            self._stopwatch.lap(stage)

    def advance(self, rows):
        """A tile of that many rows is done."""
        self.done += rows
        self.tiles += 1
        now = time.perf_counter()
        if self.verbose and now - self.last > 1 and self.done < self.total:
            self.last = now
            self._print()

    def close(self):
        if self.verbose:
            stages = self._stopwatch.totals()
            self._print(": " + ", ".join(f"{k} {v:.3g} s" for k, v in stages.items()))

    def _print(self, more=""):
        rate = self.done / max(time.perf_counter() - self.start, 1e-9)
        tiles = f"{self.tiles} tile{'s' if self.tiles != 1 else ''}"
        print(
            f"[{self.what}] {self.done:,} of {self.total:,} rows, {tiles}, {rate:,.0f} rows/s{more}"
        )
