"""Where work is done, and with how much memory: one object instead of four arguments."""

from copy import copy
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Self

import numpy as np

from ..callbacks import NO_CALLBACKS, FitTask
from ..engines.base import Engine
from ..engines.team import Stopped
from .progress import Pass, Progress
from .sharded import Sharded
from .sources import PrefetchedSource, Source
from .tiling import check_fits, parse_memory


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
