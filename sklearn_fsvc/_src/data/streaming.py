"""Streaming of samples through a hidden layer, in tiles that fit into memory.

A tile is some rows of X. It is loaded, uploaded to the device of the engine and evaluated there;
the result H, the activations of its samples, is passed to a consumer that runs on the same
device. Then the memory is reused: nothing that grows with the number of samples is kept. The
public functions are `stream` (one layer), `stream_layers` (several layers on the same units, whose
distances are computed once) and `stream_into` (H itself is the result).

The rows of a tile are planned from the memory limit. The engine evaluates a tile in parts of the
size that is fastest on the device, see `TileShape`.
"""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.utils import gen_batches

from ..engines.base import BufferSink, Engine, Sink
from ..engines.host import cut_rows
from ..engines.patches import make_evaluator
from ..layers import LinearLayer, PatchLayer
from .job import Job, Progress
from .memory_plan import TileShape, evaluate, rows_per_tile, tile_shape_for
from .rows import ShardedRows, preprocess_block, row_blocks, take_rows
from .sources import Source, SparseSource, is_evaluated_sparse
from .validation import NaNOutputError, check_hidden, explain_overflow, find_largest

# Samples x units, and bytes of units, up to which no tile is planned: H takes a few MB, and the
# layer as much as it has already. For few samples, planning would take longer than evaluation.
_SMALL_H, _SMALL_LAYER = 2**16, 2**24
# Number of units up to which the Gram matrix fits into the memory of any one GPU.
_MAX_UNITS_OF_ONE_GPU = 2**15
# Elements of X that are searched at a time for the cause of an overflow.
_SEARCHED_ELEMENTS = 2**20


@dataclass(frozen=True)
class Consumer:
    """A function that processes tiles of H, and the memory that it allocates."""

    # ``take(part, H)``: `part` is the slice of the rows of the tile, `H` an array of ``engine.xp``
    # that the next tile overwrites. It must either complete, or raise MemoryError before it has
    # changed anything: then the tile is halved and evaluated again.
    take: Callable[..., None] | None
    # Bytes that it allocates where H is, in all and for each row of a tile.
    fixed_bytes: int = 0
    row_bytes: int = 0
    tile_rows: int | None = None  # preferred rows of a tile; None for those of a `TileShape`
    keeps_hidden: bool = False  # whether H itself is the result: then it must not hold a NaN


# H is the result: the sink has it already, and nothing else is done.
_KEEP_HIDDEN = Consumer(None, keeps_hidden=True)


def stream(
    job: Job, layer: Any, X: Any, consumer: Consumer, rows: npt.NDArray[np.intp] | None = None
) -> None:
    """Evaluate the layer on rows of X, tile by tile, and pass each tile of H to the consumer.

    Parameters
    ----------
    job : Job
        Its memory limit holds for all that is allocated here and by the consumer.
    layer : RBFLayer, TanhLayer, PatchLayer or another layer
    X : array-like of shape (n_rows, n_features)
        NumPy array or memmap, an array of ``engine.xp``, or a `Source`. Only the rows of one
        tile are copied, and only if they are not C-ordered. They are uploaded in the dtype of X.
        Of a source, two tiles are in memory, because the next one is prefetched.
    consumer : Consumer
    rows : ndarray of int, optional
        Row numbers in the order of evaluation; by default all rows in order.
    """
    sink = _ConsumerSink(job.engine.xp, layer, consumer)
    _open_stream(job, layer, X, rows).run(sink, consumer)


def stream_into(job: Job, layer: Any, X: Any, out: Any) -> None:
    """Evaluate the layer on X as `stream` does, and write H to `out`.

    `out` is an array of the host or of ``engine.xp``. It does not count as memory of the job.
    """
    _open_stream(job, layer, X).run(job.engine.sink(out), _KEEP_HIDDEN)


def stream_layers(
    job: Job,
    layers: Sequence[Any],
    X: Any,
    consumer: Consumer,
    rows: npt.NDArray[np.intp] | None = None,
) -> None:
    """Run `stream` for several layers: ``consumer.take(i, part, H)`` with H of ``layers[i]``.

    More than one must be RBF layers with the same units and the same feature weights: their
    distances are computed once. ``consumer.row_bytes`` is what it allocates for one layer.
    """
    take = consumer.take
    assert take is not None
    if len(layers) == 1:
        single = replace(consumer, take=lambda part, H: take(0, part, H))
        return stream(job, layers[0], X, single, rows)
    distances = layers[0].distances
    hidden_bytes = distances.n_units * distances.hidden_dtype.itemsize
    shared = replace(
        consumer,
        take=_DistanceConsumer(layers, take, job.engine),
        row_bytes=consumer.row_bytes + hidden_bytes,
    )
    stream(job, distances, X, shared, rows)


def compute_dtype(unit_dtype: npt.DTypeLike, X_dtype: npt.DTypeLike) -> np.dtype:
    """Return the dtype of the computation: uint8 only if both are, else the wider float."""
    return np.result_type(unit_dtype, X_dtype)


def cast_layer(layer: Any, X: Any) -> Any:
    """Return the layer, with C-ordered units, in the dtype in which it is evaluated on X."""
    dtype = compute_dtype(layer.units.dtype, X.dtype)
    is_unchanged = layer.units.dtype == dtype and layer.units.flags.c_contiguous
    return layer if is_unchanged else layer.astype(dtype)


def count_operations(X: Any, n_units: int | None) -> int:
    """Return samples x units x features of a job on X, before X is validated.

    Of a sparse matrix only the stored values count. 0 if X has no two-dimensional shape.
    """
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2:
        return 0
    n_values = X.nnz if issparse(X) else shape[0] * shape[1]
    return n_values * (shape[0] if n_units is None else n_units)


def work_of_fit(X: Any, n_units: int | None) -> tuple[int, float]:
    """Return `count_operations`, and the samples per unit.

    The latter are infinite if there are so many units that a fit may need several devices.
    """
    work = count_operations(X, n_units)
    is_small = work and n_units is not None and n_units <= _MAX_UNITS_OF_ONE_GPU
    return work, X.shape[0] / n_units if is_small else math.inf


def is_batch_invariant(engine: Engine, layer: Any) -> bool:
    """Return whether the activations of a sample have the same bits in every tile.

    Then sums of quantised activations have the same bits in any order of samples. A linear map and
    the whitening of patches are matrix products by BLAS on every engine, whose summation order
    depends on the shape of the tile.
    """
    is_exact = layer.table is not None or engine.is_tile_invariant(layer)
    return is_exact and not (layer.is_mapped or isinstance(layer, PatchLayer))


def raise_overflow(job: Job, layer: Any, X: Any, rows: npt.NDArray | None) -> NoReturn:
    """Raise ValueError for rows whose activations are not finite; name their largest element."""
    n_rows = len(X if rows is None else rows)
    parts = list(gen_batches(n_rows, max(1, _SEARCHED_ELEMENTS // X.shape[1])))
    largest = (
        find_largest(job.engine.to_host(block), part.start if rows is None else rows[part])
        for part, block in zip(parts, row_blocks(X, rows, parts), strict=True)
    )
    raise ValueError(explain_overflow(layer, *max(largest)))


# A pass over the samples.


def _open_stream(
    job: Job, layer: Any, X: Any, rows: npt.NDArray[np.intp] | None = None
) -> "_Stream":
    """Return the `_Stream`; without the features that are 0 in all rows of a sparse matrix."""
    if isinstance(X, SparseSource):
        layer, X = X.drop_empty_features(layer)
    return _Stream(job, layer, X, rows)


@dataclass(frozen=True)
class _Stream:
    """One pass of samples through a layer."""

    job: Job
    layer: Any
    X: Any
    rows: npt.NDArray[np.intp] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.X if self.rows is None else self.rows)

    @cached_property
    def sparse_evaluator(self) -> Any:
        """Return the engine's evaluator of CSR rows; None if rows are evaluated as dense ones.

        It computes products of samples and units: other layers raise TypeError.
        """
        if not is_evaluated_sparse(self.X):
            return None
        if not isinstance(self.layer, LinearLayer):
            raise TypeError(
                f"X is sparse, and a {type(self.layer).__name__} is evaluated on dense samples "
                "only; convert them with X.take(rows)."
            )
        return self.job.engine.sparse_evaluator()

    def run(self, sink: Sink, consumer: Consumer) -> None:
        """Evaluate all rows, and pass each tile of H to the sink.

        If a tile raises MemoryError, the buffers are released and the pass continues from
        the first row that was not consumed, with tiles of half the size. The planned size is an
        estimate: other processes allocate memory too, and allocators fragment it.
        """
        engine, layer = self.job.engine, self.layer
        is_small = self._is_small(consumer.tile_rows)
        if is_small and self._run_in_one_tile(sink, consumer):
            return
        evaluator = self.sparse_evaluator or make_evaluator(
            engine, layer, self._patch_bytes(consumer)
        )
        shape = tile_shape_for(engine, layer, self.sparse_evaluator is not None)
        tile_rows = self._plan_tile_rows(evaluator, shape, sink.n_buffers, consumer)
        if is_small:  # there was no memory for all rows in one tile
            tile_rows = max(1, self.n_rows // 2)
        evaluate_block = partial(evaluate, evaluator, evaluator.prepare(layer), shape)
        progress = self.job.progress(self.n_rows, tile_rows)
        start = 0
        while start < self.n_rows:
            try:
                with closing(self._blocks(start, tile_rows)) as blocks:
                    for part, block in blocks:
                        self.job.check_stop()
                        self._process(part, block, evaluate_block, sink, consumer, progress)
                        del block  # before the next rows are allocated
                        progress.advance(part.stop - part.start)
                        start = part.stop
            except MemoryError as error:
                if tile_rows == 1 or isinstance(error, _PartlyConsumed):
                    raise
                tile_rows //= 2
                sink.free()
        sink.close()
        progress.close()

    def _is_small(self, tile_rows: int | None) -> bool:
        """Return whether the rows are one tile, whatever was measured and whatever memory is free.

        Then no tile is planned, which would take longer than the prediction of one sample. Only
        where the result does not depend on the tile: a BLAS may round another tile otherwise.
        """
        job, layer, n_rows = self.job, self.layer, self.n_rows
        return (
            n_rows * max(layer.n_units, layer.n_features) <= _SMALL_H
            and layer.units.nbytes <= _SMALL_LAYER
            and job.max_memory is None
            and (tile_rows is None or n_rows <= tile_rows)
            and isinstance(self.X, np.ndarray)
            and job.engine.xp is np
            and is_batch_invariant(job.engine, layer)
        )

    def _run_in_one_tile(self, sink: Sink, consumer: Consumer) -> bool:
        """Evaluate few rows as one tile; return False if there is no memory for it."""
        job, layer, n_rows = self.job, self.layer, self.n_rows
        part = slice(0, n_rows)
        job.check_stop()
        progress = job.progress(n_rows, n_rows)
        try:
            selected = take_rows(self.X, part if self.rows is None else self.rows)
            block = preprocess_block(job.engine, layer, selected)
            evaluate_block = partial(job.engine.hidden, job.engine.prepare_cached(layer))
            self._process(part, block, evaluate_block, sink, consumer, progress)
        except _PartlyConsumed:
            raise
        except MemoryError:
            sink.free()
            return False
        progress.advance(n_rows)
        sink.close()
        progress.close()
        return True

    def _process(
        self,
        part: slice,
        block: Any,
        evaluate_block: Callable[[Any, Any], Any],
        sink: Sink,
        consumer: Consumer,
        progress: Progress,
    ) -> None:
        """Evaluate H of one tile into a buffer of the sink, and hand it over.

        `block` are the preprocessed rows. A NaN in the result is an error of the input: it is
        reported with the largest value of the tile, which is the likely cause.
        """
        engine, layer = self.job.engine, self.layer
        progress.time_stage("copy in")
        H = sink.buffer(part)
        evaluate_block(block, H)
        progress.time_stage("layer")
        try:
            if consumer.keeps_hidden:
                check_hidden(layer, H, engine.xp)
            sink.put(part)
        except NaNOutputError:
            block = block.toarray() if issparse(block) else engine.to_host(block)
            numbers = part.start if self.rows is None else self.rows[part]
            raise ValueError(explain_overflow(layer, *find_largest(block, numbers))) from None
        progress.time_stage(sink.stage)

    def _blocks(self, start: int, tile_rows: int) -> Generator[tuple[slice, Any], None, None]:
        """Yield (part, preprocessed rows) from row `start` on."""
        X, engine = self.X, self.job.engine
        parts = cut_rows(slice(start, self.n_rows), tile_rows)
        if self.sparse_evaluator:
            blocks = X.tiles(self.rows, parts, self.layer.units.dtype)
            yield from zip(parts, blocks, strict=True)
            return
        with closing(row_blocks(X, self.rows, parts)) as selected:
            is_on_device = isinstance(X, (engine.xp.ndarray, ShardedRows))
            blocks = selected if is_on_device else engine.iter_uploads(selected)
            for part, block in zip(parts, blocks, strict=True):
                yield part, preprocess_block(engine, self.layer, block)

    # The size of tiles.

    def _plan_tile_rows(
        self, evaluator: Any, shape: TileShape, n_buffers: int, consumer: Consumer
    ) -> int:
        """Return the rows of a tile: the preferred size, or fewer if the memory limit needs it."""
        job, layer = self.job, self.layer
        hidden_bytes = layer.n_units * layer.hidden_dtype.itemsize
        row_bytes = n_buffers * hidden_bytes + self._input_bytes() + evaluator.row_bytes(layer)
        fixed_bytes = evaluator.prepared_bytes(layer) + consumer.fixed_bytes
        if self._is_read_ahead:
            fixed_bytes += self.X.read_bytes
        if layer.is_mapped:
            fixed_bytes += layer.weights.nbytes
        # What is reserved counts as needed, so that an error names the limit that the user gave.
        return rows_per_tile(
            self.n_rows,
            row_bytes + consumer.row_bytes,
            fixed_bytes + job.reserved,
            job.memory_limit + job.reserved,
            self._preferred_rows(shape, n_buffers, consumer),
        )

    def _preferred_rows(self, shape: TileShape, n_buffers: int, consumer: Consumer) -> int:
        """Return the consumer's size, or the rows of one `TileShape` for all buffers together."""
        if consumer.tile_rows is not None:
            return consumer.tile_rows
        preferred = max(1, shape.rows // max(1, n_buffers))
        return min(preferred, self.X.tile_rows) if self._is_dense_source else preferred

    def _input_bytes(self) -> int:
        """Return the bytes that one row of X takes on the device: as it is, cast and mapped."""
        layer, itemsize = self.layer, self.layer.units.itemsize
        if self.sparse_evaluator is not None:
            # As stored, cast, and the copies of the engine's threads.
            return 3 * self.X.row_bytes(layer.units.dtype)
        n_uploaded = self.job.engine.n_prefetch + self._is_read_ahead
        n_bytes = layer.n_features_in * (n_uploaded * self.X.dtype.itemsize + itemsize)
        if layer.is_mapped:  # the mapped row, and a mask of its NaNs
            n_bytes += layer.n_features * (itemsize + 1)
        return n_bytes

    def _patch_bytes(self, consumer: Consumer) -> int:
        """Return the bytes for patches of images: their evaluator needs them before the plan."""
        if not isinstance(self.layer, PatchLayer):
            return 0
        return max(1, self.job.memory_limit - consumer.fixed_bytes)

    @property
    def _is_dense_source(self) -> bool:
        return isinstance(self.X, Source) and self.sparse_evaluator is None

    @property
    def _is_read_ahead(self) -> bool:
        """Whether the next tile of a source is in the memory that is planned."""
        return self._is_dense_source and self.job.engine.xp is np


class _ConsumerSink(BufferSink):
    """Passes each tile to a consumer."""

    stage = "readout"

    def __init__(self, xp: Any, layer: Any, consumer: Consumer) -> None:
        super().__init__(xp, layer.n_units, layer.hidden_dtype)
        self._consumer = consumer

    def put(self, part: slice) -> None:
        assert self._consumer.take is not None
        self._consumer.take(part, self.buffer(part))


class _DistanceConsumer:
    """Consumes tiles of distances: computes H of each layer from them, and passes it on."""

    def __init__(self, layers: Sequence[Any], take: Callable[..., None], engine: Engine) -> None:
        self._layers, self._take, self._engine = layers, take, engine
        self._buffer: Any = None

    def __call__(self, part: slice, D: Any) -> None:
        if self._buffer is None or len(self._buffer) < len(D):
            self._buffer = self._engine.xp.empty(D.shape, D.dtype)
        for i in range(len(self._layers)):
            self._consume_layer(i, part, D)

    def _consume_layer(self, i: int, part: slice, D: Any) -> None:
        """Pass H of layer `i` on; after a MemoryError in two halves, recursively.

        A MemoryError of the first layer is raised: `_Stream` halves the tile then. That is no
        longer possible once the first layer has consumed the whole tile, since it must not
        receive these samples twice.
        """
        try:
            H = self._engine.activate_distances(self._layers[i], D, self._buffer[: len(D)])
            self._take(i, part, H)
        except MemoryError:
            if i == 0:
                raise
            if len(D) == 1:
                raise _PartlyConsumed from None
            half = len(D) // 2
            self._consume_layer(i, slice(part.start, part.start + half), D[:half])
            self._consume_layer(i, slice(part.start + half, part.stop), D[half:])


class _PartlyConsumed(MemoryError):
    """There is no memory for one row, and some layers have consumed the tile: no retry."""
