"""Prediction: samples are scored tile by tile, on one device or several, and formatted."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.map_reduce import run_parallel
from ..data.rows import slice_rows, split_into_shares, write_rows
from ..data.streaming import Consumer, raise_overflow, stream
from ..data.validation import check_no_overlap
from ..parts.composition import Parts
from ..readouts.linear import ScoreQueue
from ..readouts.uncovered import score_uncovered

# Part of the memory of a device for scores that are not copied to the host yet.
_QUEUE_SHARE = 32


@dataclass(frozen=True, eq=False)
class PredictionRun:
    """One call of `predict` or another method: validated samples, and the fitted parts."""

    parts: Parts
    job: Job
    layer: Any  # in the dtype in which it processes the samples
    X: Any

    def output(
        self,
        method: str,
        out: Any = None,
        make_consumer: Callable[[Job], Consumer] | None = None,
        **options: Any,
    ) -> Any:
        """Return the output of a method, in new arrays or in `out`; see `scores`."""
        target, readout = self.parts.target, self.parts.readout
        output = OutputBuffer(len(self.X), out)
        if out is not None:
            empty = empty_output(self.parts, self.layer, method)
            target.check_out(out, (len(self.X), *empty.shape[1:]))
            check_no_overlap(out, self.X)

        def write_output(rows, scores):
            output.take(rows, target.format_output(method, scores, readout, **options))

        self.scores(write_output, make_consumer)
        return output.result

    def scores(
        self,
        consume: Callable[[Any, npt.NDArray[Any]], None],
        make_consumer: Callable[[Job], Consumer] | None = None,
    ) -> None:
        """Call ``consume(rows, scores)`` for all samples, with scores (n_rows, n_scores).

        ``make_consumer(job)`` returns a `Consumer` that processes each tile of H after that.
        """
        job, X, lock = self.job, self.X, Lock()

        def consume_part(rows, scores):
            with lock:  # files are written by one thread at a time
                consume(rows, scores)

        score = partial(self._score_share, consume_part, make_consumer)
        shares = split_into_shares(job.engine.device_group, len(X))
        uncovered = np.concatenate(run_parallel(job, shares, score))
        if len(uncovered):
            score_uncovered(job, self.layer, X, uncovered, self.parts.nearest_scores, consume)

    def _score_share(self, consume, make_consumer, job, share):
        """Score the samples of one engine; return the rows that no unit covers."""
        predictor = self.parts.readout.make_predictor(
            job.engine, self.layer.hidden_dtype, self.parts.uses_nearest_unit
        )
        other = None if make_consumer is None else make_consumer(job)
        fixed_bytes, row_bytes = 0, predictor.row_bytes
        if other is not None:
            fixed_bytes, row_bytes = other.fixed_bytes, row_bytes + other.row_bytes

        def rows_of(part):
            return slice(share.start + part.start, share.start + part.stop)

        def explain(part):
            rows = rows_of(part)
            raise_overflow(job, self.layer, self.X, np.arange(rows.start, rows.stop))

        # Another consumer may use the scores of the same tile. On a host none are queued, and
        # reading the free memory would take a large part of the time of one sample.
        is_queued = other is None and job.engine.xp is not np
        max_bytes = job.memory_limit // _QUEUE_SHARE if is_queued else 0
        queue = ScoreQueue(
            predictor, lambda part, scores: consume(rows_of(part), scores), explain, max_bytes
        )

        def take(part, H):
            queue.put(part, H)
            if other is not None and other.take is not None:
                other.take(rows_of(part), H)

        consumer = Consumer(take, fixed_bytes + queue.nbytes, row_bytes)
        stream(job, self.layer, slice_rows(self.X, share), consumer)
        queue.flush()
        return share.start + predictor.uncovered


class OutputBuffer:
    """The output for all samples, written part by part into `out` or into new arrays.

    It is one array, or a list of arrays for the probabilities or scores of several outputs.
    """

    def __init__(self, n_rows: int, out: Any = None):
        self._n_rows, self._is_list = n_rows, False
        self._arrays: list[Any] = [] if out is None else [out]

    def take(self, rows: Any, output: Any) -> None:
        """Write the output for some rows; the first call decides on shapes and dtypes."""
        parts, self._is_list = as_array_list(output), isinstance(output, list)
        if not self._arrays:
            self._arrays = [np.empty((self._n_rows, *each.shape[1:]), each.dtype) for each in parts]
        for array, part in zip(self._arrays, parts, strict=True):
            write_rows(array, rows, part)

    @property
    def result(self) -> Any:
        return self._arrays if self._is_list else self._arrays[0]


def as_array_list(output: Any) -> list[Any]:
    """Return the arrays of an output; of several columns of y it is a list already."""
    return output if isinstance(output, list) else [output]


def empty_output(parts: Parts, layer: Any, method: str, **options: Any) -> Any:
    """Return the output of a method for no samples, in the right dtype and shape."""
    readout = parts.readout
    dtype = np.result_type(readout.readout_intercept_.dtype, layer.hidden_dtype)
    scores = np.empty((0, len(readout.readout_coef_)), dtype)
    return parts.target.format_output(method, scores, readout, **options)
