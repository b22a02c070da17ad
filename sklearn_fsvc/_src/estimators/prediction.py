"""Rows that are answered: tiles of H to scores, and scores to what a method says."""

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from ..readouts.uncovered import score_uncovered
from ..rows.job import Job
from ..rows.map_reduce import part_of, run_parallel, shares_of
from ..rows.out import write
from ..rows.streaming import Consumer, stream
from .parts import Parts

_NOTHING = Consumer(None)


@dataclass(frozen=True, eq=False)
class PredictionRun:
    """Clean rows that are to be answered, and what answers them."""

    parts: Parts  # of a fitted estimator
    job: Job | None
    layer: Any  # as it meets the rows
    X: Any = None

    def empty_output(self, method):
        """What a method says of no rows: the dtypes and shapes of its answers."""
        readout = self.parts.readout
        dtype = np.result_type(readout.intercept.dtype, self.layer.hidden_dtype)
        return self.parts.task.format_output(
            method, np.empty((0, len(readout.coef)), dtype), readout
        )

    def answers(self, method, out=None, also=None):
        """What a method says, in new arrays or in `out`; for `also` see `scores`."""
        task, readout, answers = self.parts.task, self.parts.readout, Answers(len(self.X), out)
        if out is not None:
            task.check_out(out, (len(self.X), *self.empty_output(method).shape[1:]))
        self.scores(
            lambda part, own: answers.take(part, task.format_output(method, own, readout)), also
        )
        return answers.all

    def scores(self, consume, also=None):
        """``consume(rows, scores)`` until all rows have their scores (rows, n_scores).

        `also` makes a `Consumer` for a job, which meets each tile of H in the end.
        """
        lock, X = Lock(), self.X

        def answer(job, share):
            return share.start + self._share(job, part_of(X, share), share, lock, consume, also)

        found = run_parallel(self.job, shares_of(self.job.engine.team, len(X)), answer)
        uncovered = np.concatenate(found)
        if len(uncovered):
            nearest = self.parts.nearest_scores
            score_uncovered(self.job, self.layer, X, uncovered, nearest, consume)

    def _share(self, job, X, share, lock, consume, also):
        """`scores` of a share of the rows; those of them that no unit covers, if they matter."""
        finds_uncovered = self.parts.uses_nearest_unit
        readout = self.parts.readout.make_predictor(
            job.engine, self.layer.hidden_dtype, finds_uncovered
        )
        others = _NOTHING if also is None else also(job)

        def take(part, H):
            scores = readout.scores(part, H)
            rows = slice(share.start + part.start, share.start + part.stop)
            with lock:  # a file takes from one thread at a time
                consume(rows, scores)
            if also is not None:
                others.take(rows, H)

        row_bytes = readout.row_bytes + others.row_bytes
        stream(job, self.layer, X, Consumer(take, others.fixed_bytes, row_bytes))
        return readout.uncovered


class Answers:
    """Answers to all rows, as those to some of them come: in `out`, or in new arrays."""

    def __init__(self, n_rows, out=None):
        self._n_rows, self._places, self._is_list = n_rows, None if out is None else [out], False

    def take(self, part, answers):
        """Write the answers to a slice of the rows; the first say what arrays there are to be."""
        found, self._is_list = as_list(answers), isinstance(answers, list)
        if self._places is None:
            self._places = [np.empty((self._n_rows, *own.shape[1:]), own.dtype) for own in found]
        for place, own in zip(self._places, found, strict=True):
            write(place, part, own)

    @property
    def all(self):
        """An array, or of several outputs a list of them."""
        return self._places if self._is_list else self._places[0]


def as_list(answers):
    """Return a list of the answers; of several outputs there is one already."""
    return answers if isinstance(answers, list) else [answers]
