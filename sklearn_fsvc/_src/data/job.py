"""Job: where a computation runs, how much memory it may take, and who is notified of it.

One object replaces four arguments of nearly every function. It is immutable: a step that keeps
arrays goes on with ``job.reserve(n_bytes)``.
"""

import math
import time
from copy import copy
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..engines.base import Engine
from ..engines.device_group import WorkCancelled
from ..utils.callbacks import NO_CALLBACKS, FitTask
from .memory_plan import check_fits, parse_memory
from .rows import ShardedRows
from .sources import PrefetchedSource, Source


@dataclass(frozen=True)
class Job:
    """An entered engine, its memory limit, and what reports the progress."""

    engine: Engine
    max_memory: int | str | None = None  # as the user gave it
    verbose: int = 0  # 0 prints nothing
    description: str = ""  # the estimator and the phase, such as "RBFClassifier fit"
    reserved: int = 0  # bytes of `max_memory` that are in use already
    stop: Event | None = None  # set when another device of the group has failed
    task: FitTask = NO_CALLBACKS  # the parent of the callback tasks of each pass
    started: float = field(default_factory=lambda: time.perf_counter())

    @property
    def memory_limit(self) -> int:
        """Return the bytes that may be allocated now."""
        return parse_memory(self.max_memory, self.engine.memory()[0]) - self.reserved

    def reserve(self, n_bytes: int) -> Self:
        """Return the job with `n_bytes` less of memory."""
        return replace(self, reserved=self.reserved + n_bytes)

    def reserve_host(self, n_bytes: int) -> Self:
        """Return the job with `n_bytes` of host memory reserved, if it computes on the host."""
        # Without a limit of the user's, the limit follows the free memory, which counts them.
        if not n_bytes or self.engine.xp is not np or self.max_memory is None:
            return self
        check_fits("a copy of y", n_bytes, self.memory_limit, "pass fewer rows at a time")
        return self.reserve(n_bytes)

    def single_device(self) -> Self:
        """Return the job on the first device only, if several share the work."""
        engine = copy(self.engine)
        engine.device_group = None
        return replace(self, engine=engine)

    def on_host(self, engine: Engine) -> Self:
        """Return the job with an engine of the host, of whose memory nothing is in use."""
        return replace(self, engine=engine, reserved=0)

    def named(self, description: str) -> Self:
        """Return the job with another description of the work."""
        return replace(self, description=description)

    def silent(self) -> Self:
        """Return the job without progress: nothing is printed, and no callback is notified."""
        return replace(self, task=NO_CALLBACKS, verbose=0)

    def algebra_of(self, X: Any) -> Any:
        """Return the linear algebra for rows of X: that of the device where they are."""
        engine = self.engine
        return engine.algebra if isinstance(X, ShardedRows) else engine.algebra_of(X)

    def check_stop(self) -> None:
        """Raise `WorkCancelled` if another device has failed."""
        if self.stop is not None and self.stop.is_set():
            raise WorkCancelled

    def upload(self, X: Any) -> tuple[Any, Self]:
        """Return X on the device, if a quarter of the memory holds it, and the remaining job.

        Samples that are read in several passes are then transferred once. Else X itself is
        returned.
        """
        on_device = self.engine.upload_if_fits(X, self.memory_limit // 4)
        # Without a limit of the user's, the limit follows the free memory, which counts X.
        is_counted = on_device is not X and self.max_memory is not None
        return on_device, self.reserve(X.nbytes) if is_counted else self

    def prefetch(
        self, X: Any, order: npt.NDArray[np.intp], groups: npt.NDArray[Any] | None = None
    ) -> tuple[Any, Self]:
        """Return X for reading its rows in a known order, and the remaining job.

        A source reads many of them at a time, into a quarter of the memory. With the groups of
        all rows, they are read group by group. Other X are returned as they are.
        """
        if not isinstance(X, Source) or X.is_remote or X.is_in_memory:
            return X, self
        if groups is not None:
            order = order[np.argsort(groups[order], kind="stable")]
        X = PrefetchedSource(X, order, self.memory_limit // 4)
        return X, self.reserve(X.buffer_bytes)

    def progress(self, n_rows: int, tile_rows: int) -> "Progress":
        """Return the `Progress` of a pass over `n_rows` in tiles of `tile_rows`."""
        return Progress(self, n_rows, tile_rows)

    def print_progress(self, text: str, details: str | None = None) -> None:
        """Print a line of progress, if the computation is a long one and `verbose`.

        That is a second after its start or the last line. With ``verbose=2``, a line that has
        `details` is printed at once, with these.
        """
        if not self.verbose:
            return
        is_detailed = self.verbose > 1 and details is not None
        if is_detailed or time.perf_counter() - max(_last_line, self.started) >= _PAUSE:
            estimator, _, phase = self.description.partition(", ")
            phases = [_PHASES.get(part, part) for part in phase.split(", ") if part]
            text = ": ".join([*phases, text])
            print_line(estimator, f"{text}{details}" if is_detailed else text)


class Progress:
    """Counts the rows of one pass, notifies callbacks, and prints the time of each stage.

    Parameters
    ----------
    job : Job
        With ``verbose=1`` it prints one line per second, with 2 the end of each pass too, with the
        time of its stages.
    total : int
        Rows of the pass.
    tile_rows : int
        Planned rows of a tile.
    """

    def __init__(self, job: Job, total: int, tile_rows: int) -> None:
        self._job, self.total = job, total
        self._pass_task = PassTask(job.task, job.description, total, tile_rows)
        self.done = self.tiles = 0
        self.start = time.perf_counter()
        self._stopwatch = job.engine.stopwatch() if job.verbose else None

    def time_stage(self, stage: str) -> None:
        """Add the time since the last lap to `stage`."""
        if self._stopwatch is not None:
            self._stopwatch.time_stage(stage)

    def advance(self, rows: int) -> None:
        """Count a tile of that many rows."""
        self.done += rows
        self.tiles += 1
        self._pass_task.advance(self.done)
        if self._stopwatch is not None and self.done < self.total:
            self._print()

    def close(self) -> None:
        """End the pass."""
        self._pass_task.end()
        if self._stopwatch is not None:
            stages = self._stopwatch.totals()
            tiles = f", {self.tiles} tile{'s' if self.tiles != 1 else ''}: "
            times = ", ".join(f"{k} {v:.3g} s" for k, v in stages.items())
            self._print(tiles + times)

    def _print(self, details: str | None = None) -> None:
        rate = self.done / max(time.perf_counter() - self.start, 1e-9)
        self._job.print_progress(
            f"{self.done:,} of {self.total:,} rows, {rate:,.0f} rows/s", details
        )


class PassTask:
    """A pass over the samples as a task of scikit-learn's callbacks, with a subtask per tile.

    The number of tiles is the planned one. A planned tile that was halved for lack of memory
    ends when all of its rows are done. The name of the task is `description` without the estimator
    and without "fit".
    """

    def __init__(self, task: FitTask, description: str, total: int, tile_rows: int) -> None:
        self._total, self._tile_rows = total, tile_rows
        n_tiles = -(-total // tile_rows)
        name = description.partition(" ")[2].removeprefix("fit").removeprefix(", ") or "pass"
        # A single tile would only repeat the pass.
        self._task = task.subtask(name, n_tiles if n_tiles > 1 else 0).begin()
        self._stop = 0 if n_tiles > 1 else total
        self._begin_tile()

    def _begin_tile(self) -> None:
        self._tile = None
        if self._stop < self._total:
            self._tile = self._task.subtask("tile").begin()
            self._stop += self._tile_rows

    def advance(self, done: int) -> None:
        """End all tiles of the first `done` rows."""
        while self._tile is not None and done >= min(self._stop, self._total):
            self._tile.end()
            self._begin_tile()

    def end(self) -> None:
        """End the task of the pass."""
        self._task.end()


# Seconds between two lines of progress.
_PAUSE = 1.0
# The phases of a fit as they are printed.
_PHASES = {
    "choice": "selecting kernel, width and weights",
    "weights": "selecting feature weights",
    "held out": "selecting the penalty",
    "left out": "leave-one-out scores",
}
_last_line = -math.inf  # when it was printed


def print_line(description: str, text: str) -> None:
    """Print a line of an estimator and a phase, such as "RBFClassifier fit"."""
    global _last_line
    _last_line = time.perf_counter()
    print(f"[{description}] {text}", flush=True)  # pipes and files are read during the fit
