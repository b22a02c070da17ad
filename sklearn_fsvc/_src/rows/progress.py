"""What `verbose` prints and what callbacks hear: long work is seen to move."""

import math
import time

# Seconds between two lines where `verbose` is 1.
_PAUSE = 1.0
# What phases of a fit are called where people read.
_PHASES = {
    "choice": "choosing kernel, width and weights",
    "weights": "choosing feature weights",
    "held out": "choosing the penalty",
    "left out": "scores of rows, each without itself",
}
_last = -math.inf


def say(what, text, verbose, details=""):
    """Print a line: where `verbose` is 1, one a second at most, and no details.

    `what` is who works and at what, such as "RBFClassifier fit, choice".
    """
    global _last
    now = time.perf_counter()
    if verbose > 1 or now - _last >= _PAUSE:
        _last = now
        who, _, phase = what.partition(", ")
        phases = [_PHASES.get(part, part) for part in phase.split(", ") if part]
        # Whoever reads a pipe or a file wants it now, too.
        text = ": ".join([*phases, text]) + (details if verbose > 1 else "")
        print(f"[{who}] {text}", flush=True)


class Progress:
    """Counts rows of one phase of the work, prints how far it is and where the time goes.

    That is a line a second, and one at the end of each phase. `what` is the estimator and the
    phase, such as "RBFClassifier fit". A `verbose` of 0 prints nothing, 1 a line a second, 2 the
    end of each pass, too, and where its time went. `stopwatch` makes a `Stopwatch`, and `passing`
    is the `Pass` that callbacks hear of.
    """

    def __init__(self, what, total, verbose, stopwatch, passing):
        self.what, self.total, self.verbose = what, total, verbose
        self.done = self.tiles = 0
        self.start = time.perf_counter()
        self._stopwatch = stopwatch() if verbose else None
        self._passing = passing

    def lap(self, stage):
        """What was done since the last lap was `stage`."""
        if self.verbose:
            self._stopwatch.lap(stage)

    def advance(self, rows):
        """Count a tile of that many rows."""
        self.done += rows
        self.tiles += 1
        self._passing.advance(self.done)
        if self.verbose and self.done < self.total:
            self._print(1)

    def close(self):
        self._passing.end()
        if self.verbose:
            stages = self._stopwatch.totals()
            tiles = f", {self.tiles} tile{'s' if self.tiles != 1 else ''}: "
            times = ", ".join(f"{k} {v:.3g} s" for k, v in stages.items())
            self._print(self.verbose, tiles + times)

    def _print(self, verbose, details=""):
        rate = self.done / max(time.perf_counter() - self.start, 1e-9)
        text = f"{self.done:,} of {self.total:,} rows, {rate:,.0f} rows/s"
        say(self.what, text, verbose, details)


class Pass:
    """A pass over rows as callbacks hear of it: a task with a part for each tile.

    Its tiles are those that were planned. Where one is halved for want of memory, it is done
    when all of its rows are. Of `what`, as of `Progress`, all after its first word, and after the
    fit, is the name of the pass.
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
