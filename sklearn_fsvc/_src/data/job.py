"""Where work is done, and with how much memory: one object instead of four arguments."""

import math
import time
from copy import copy
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Self

import numpy as np

from ..engines.base import Engine
from ..engines.device_group import Stopped
from ..utils.callbacks import NO_CALLBACKS, FitTask
from .map_reduce import Sharded
from .sources import PrefetchedSource, Source
from .tiling import check_fits, parse_memory

# What `verbose` prints and what callbacks hear: long work is seen to move.

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


@dataclass(frozen=True)
class Job:
    """An engine that was entered, the memory it may take, and who hears of the work."""

    engine: Engine
    max_memory: int | str | None = None  # as the user gave it
    verbose: int = 0  # 0 prints nothing
    what: str = ""  # who works and at what, such as "RBFClassifier fit", for people to read
    reserved: int = 0  # bytes of `max_memory` that are taken already
    stop: Event | None = None  # set where others that share the work have failed
    task: FitTask = NO_CALLBACKS  # who hears of each pass over the rows

    @property
    def memory_limit(self) -> int:
        """Return the bytes that may be taken now."""
        return parse_memory(self.max_memory, self.engine.memory()[0]) - self.reserved

    def single_device(self) -> Self:
        """Return the job of the engine that leads, where several share the work."""
        engine = copy(self.engine)
        engine.team = None
        return replace(self, engine=engine)

    def algebra_of(self, X: Any) -> Any:
        """Return the algebra for rows that were taken from X: where they lie."""
        engine = self.engine
        return engine.algebra if isinstance(X, Sharded) else engine.algebra_of(X)

    def named(self, what: str) -> Self:
        """Return the job with another description of the work."""
        return replace(self, what=what)

    def reserving(self, n_bytes: int) -> Self:
        """Return the job with so much less memory."""
        return replace(self, reserved=self.reserved + n_bytes)

    def reserve_host(self, n_bytes: int) -> Self:
        """Return the job beside so many bytes of the host, which count where it computes there."""
        # Without a limit of the user's, what is free says by itself how much is left.
        if not n_bytes or self.engine.xp is not np or self.max_memory is None:
            return self
        check_fits("a copy of y", n_bytes, self.memory_limit, "give fewer rows at a time")
        return self.reserving(n_bytes)

    def check_stop(self) -> None:
        """Raise `Stopped` if nobody waits for this work any more."""
        if self.stop is not None and self.stop.is_set():
            raise Stopped

    def with_rows_on_device(self, X: Any) -> tuple[Any, Self]:
        """Return X where the engine computes, if a quarter of the memory holds it; the job left.

        Rows that are met in several passes then travel once. Else X itself comes back.
        """
        there = self.engine.upload_if_fits(X, self.memory_limit // 4)
        # Without a limit of the user's, what is free says by itself how much is left.
        is_counted = there is not X and self.max_memory is not None
        return there, self.reserving(X.nbytes) if is_counted else self

    def prefetching(
        self, X: Any, order: np.ndarray, groups: np.ndarray | None = None
    ) -> tuple[Any, Self]:
        """Return X for work that asks for its rows in an order, and the job that is left.

        A source reads many of them at a time, and a quarter of the memory is for those that
        wait. With the groups of all rows, they are asked for group by group.
        """
        if not isinstance(X, Source) or X.is_remote or X.is_in_memory:
            return X, self
        if groups is not None:
            order = order[np.argsort(groups[order], kind="stable")]
        X = PrefetchedSource(X, order, self.memory_limit // 4)
        return X, self.reserving(X.waiting_bytes)

    def progress(self, n_rows: int, tile_rows: int) -> Progress:
        """Return what counts the rows of this work, prints, and tells callbacks."""
        passing = Pass(self.task, self.what, n_rows, tile_rows)
        return Progress(self.what, n_rows, self.verbose, self.engine.stopwatch, passing)
