"""What `verbose` prints and what callbacks hear: long work is seen to move."""

import time


class Progress:
    """Counts rows of one phase of the work, prints how far it is and where the time goes.

    That is a line a second, and one at the end of each phase.

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
    passing : Pass
        What callbacks hear.
    """

    def __init__(self, what, total, verbose, stopwatch, passing):
        self.what, self.total, self.verbose = what, total, verbose
        self.done = self.tiles = 0
        self.start = self.last = time.perf_counter()
        self._stopwatch = stopwatch() if verbose else None
        self._passing = passing

    def lap(self, stage):
        """What was done since the last lap was `stage`."""
        if self.verbose:
            self._stopwatch.lap(stage)

    def advance(self, rows):
        """A tile of that many rows is done."""
        self.done += rows
        self.tiles += 1
        self._passing.advance(self.done)
        now = time.perf_counter()
        if self.verbose and now - self.last > 1 and self.done < self.total:
            self.last = now
            self._print()

    def close(self):
        self._passing.end()
        if self.verbose:
            stages = self._stopwatch.totals()
            self._print(": " + ", ".join(f"{k} {v:.3g} s" for k, v in stages.items()))

    def _print(self, more=""):
        rate = self.done / max(time.perf_counter() - self.start, 1e-9)
        tiles = f"{self.tiles} tile{'s' if self.tiles != 1 else ''}"
        print(
            f"[{self.what}] {self.done:,} of {self.total:,} rows, {tiles}, {rate:,.0f} rows/s{more}"
        )


class Pass:
    """A pass over rows as callbacks hear of it: a task with a part for each tile.

    Its tiles are those that were planned. Where one is halved for want of memory, it is done
    when all of its rows are.

    Parameters
    ----------
    task : FitTask
        What the pass is a part of.
    what : str
        As of `Progress`; all after its first word, and after the fit, is the name of the pass.
    total, tile_rows : int
        Rows in all, and of a tile.
    """

    def __init__(self, task, what, total, tile_rows):
        self._total, self._tile_rows = total, tile_rows
        n_tiles = -(-total // tile_rows)
        name = what.partition(" ")[2].removeprefix("fit").removeprefix(", ") or "pass"
        # One tile is no more than the pass itself.
        self._task = task.part(name, n_tiles if n_tiles > 1 else 0).begin()
        self._stop = 0 if n_tiles > 1 else total
        self._begin_tile()

    def _begin_tile(self):
        self._tile = None
        if self._stop < self._total:
            self._tile, self._stop = self._task.part("tile").begin(), self._stop + self._tile_rows

    def advance(self, done):
        """So many rows are done."""
        while self._tile is not None and done >= min(self._stop, self._total):
            self._tile.end()
            self._begin_tile()

    def end(self):
        self._task.end()
