"""Prediction: samples are scored tile by tile, on one device or several, and formatted.

Predictions of Dask arrays are Dask arrays, whose blocks are computed later: see `lazy_on_dask`.
"""

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial, wraps
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.dask_blocks import (
    as_dask_array,
    check_dense,
    is_dask_collection,
    limit_task_threads,
    shared_node,
)
from ..data.job import Job
from ..data.map_reduce import run_parallel
from ..data.rows import slice_rows, split_into_shares, write_rows
from ..data.streaming import Consumer, raise_overflow, stream
from ..data.validation import check_no_overlap, to_host
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
            output.write(rows, target.format_output(method, scores, readout, **options))

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

    def write(self, rows: Any, output: Any) -> None:
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


def lazy_on_dask(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that maps Dask arrays to Dask arrays, and others as `method` does.

    The estimator declares dtype and shape of its result by ``_empty_output(name, dtype)``.
    """

    @wraps(method)
    def predict(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_dask_collection(X):
            return method(self, X, *args, **options)
        options = dict(inspect.signature(method).bind(self, X, *args, **options).arguments)
        if options.pop("out", None) is not None:
            raise TypeError(
                f"{method.__name__} of a Dask array takes no out; use dask.array.store, or to_zarr "
                "of the result."
            )
        del options["self"], options["X"]
        return _lazy(self, method.__name__, X, options)

    return predict


def _lazy(model: Any, name: str, X: Any, options: dict[str, Any]) -> Any:
    """Return the Dask array of a method, or a list or tuple of them for several results."""
    check_is_fitted(model)
    array, names = as_dask_array(X)
    validate_data(model, array if names is None else names, skip_check_array=True, reset=False)
    empty = model._empty_output(name, array.dtype, **options)
    model_on_blocks = copy(model)
    if hasattr(model_on_blocks, "feature_names_in_"):
        del model_on_blocks.feature_names_in_  # blocks are arrays without names
    model_node = shared_node(model_on_blocks)
    if isinstance(empty, np.ndarray):
        return _mapped(array, model_node, name, options, empty)
    return type(empty)(
        _mapped(array, model_node, name, options, e, number) for number, e in enumerate(empty)
    )


def _mapped(
    array: Any,
    model_node: Any,
    name: str,
    options: dict[str, Any],
    empty: npt.NDArray[Any],
    number: int | None = None,
) -> Any:
    columns = [(size,) for size in empty.shape[1:]]
    return array.map_blocks(
        _predict_block, model=model_node, method=name, options=options, empty=empty,
        number=number, dtype=empty.dtype, chunks=(array.chunks[0], *columns), meta=empty,
        drop_axis=[1] if empty.ndim == 1 else None, new_axis=[2] if empty.ndim == 3 else None,
    )  # fmt: skip


def _predict_block(
    block: Any,
    model: Any,
    method: str,
    options: dict[str, Any],
    empty: npt.NDArray[Any],
    number: int | None,
) -> Any:
    """Return the result of a method for one block, or one of its results."""
    if not len(check_dense(block)):
        return empty
    with limit_task_threads():
        result = getattr(model, method)(to_host(block), **options)
    return result if number is None else result[number]
