"""Rows flow: X -> tile -> engine -> H of the tile -> consumer -> forgotten."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..engines.base import Sink
from ..engines.patches import IMAGES, evaluator_of
from ..layers import PatchLayer
from .job import Job
from .map_reduce import Sharded
from .sources import Source, SparseRows, are_sparse, read_ahead
from .tiling import TileShape, rows_per_tile
from .validation import NotNumbers, check_hidden, explain_overflow, largest_of

# Numbers of H and bytes of units that need no plan: a few MB, all in all, and of units as much as
# they have.
_SMALL_TILE, _SMALL_LAYER = 2**16, 2**24


def compute_dtype(unit_dtype, X_dtype):
    """dtype in which a layer meets rows: uint8 only if both are, else the wider float."""
    return np.result_type(unit_dtype, X_dtype)


def cast_layer(layer, X):
    """The layer in the dtype in which it meets rows X."""
    dtype = compute_dtype(layer.units.dtype, X.dtype)
    is_as_it_is = layer.units.dtype == dtype and layer.units.flags.c_contiguous
    return layer if is_as_it_is else layer.astype(dtype)


def n_synapses(X, n_units):
    """rows x units x features of a job on X, which nobody has looked at yet.

    Of a sparse matrix only the numbers that it holds count.
    """
    shape = getattr(X, "shape", ())
    if len(shape) != 2:
        return 0
    numbers = X.nnz if issparse(X) else shape[0] * shape[1]
    return numbers * (shape[0] if n_units is None else n_units)


def take_rows(X, rows, dtype=None):
    """Rows of X (a slice or an index array) as a C-ordered, aligned array of `dtype`.

    X may be an array of the host or of an engine's namespace; so is what comes back. Of a
    source it is one of the host, gathered slice by slice, and of `Sharded` rows one of the engine.
    """
    if isinstance(X, Sharded):
        return X.take(rows, dtype)
    if isinstance(X, Source):
        return X.take(np.arange(*rows.indices(len(X))) if isinstance(rows, slice) else rows, dtype)
    if isinstance(X, np.ndarray):
        return np.require(X[rows], dtype, ["C_CONTIGUOUS", "ALIGNED"])
    return X[rows].astype(dtype or X.dtype, order="C", copy=False)


def take_in_any_order(X, rows, dtype=None):
    """`take_rows` for row numbers in any order: X itself is read in ascending order."""
    if (np.diff(rows) > 0).all():
        return take_rows(X, rows, dtype)
    ascending = np.argsort(rows)
    back = np.empty_like(ascending)
    back[ascending] = np.arange(len(rows))
    return take_rows(X, rows[ascending], dtype)[back]


def weigh(engine, block, weights, dtype):
    """Rows on the device times the weights of their features, or a linear map, in `dtype`.

    A new array. `block` is never written to: it may be the user's own.
    """
    weights = engine.to_device(weights.astype(dtype, copy=False))
    if weights.ndim == 2:
        return _mapped(engine, block.astype(dtype, copy=False), weights)
    rows = block.astype(dtype, order="K", copy=True)  # in its own place: no thread buffers it
    rows *= weights
    return rows


def _mapped(engine, rows, A):
    rows, xp = engine.algebra.multiply(rows, A), engine.xp
    rows[xp.isnan(rows)] = xp.inf  # infinity less infinity: so far away is such a row
    return rows


def preprocess_block(engine, layer, block):
    """Rows on the device as they meet the units: in the layer's dtype, times its weights or map."""
    dtype = layer.units.dtype
    if layer.weights is None:
        return take_rows(block, slice(None), dtype)
    return weigh(engine, block, layer.weights, dtype)


def is_row_exact(engine, layer):
    """Return whether a row of H has the same bits wherever it stands, whatever stands beside it.

    Then sums of rounded outputs have the same bits in any order of rows. A linear map and the
    whitening of patches are products, which a BLAS makes on every engine.
    """
    is_exact = layer.table is not None or engine.is_tile_exact(layer)
    return is_exact and not (layer.is_mapped or isinstance(layer, PatchLayer))


def row_blocks(X, rows, parts):
    """Rows of X part by part; of a source in one pass, the next ones read ahead.

    Parameters
    ----------
    X : array-like or Source
    rows : ndarray of int or None
        Row numbers; None for all rows in order.
    parts : list of slice
        Of the row numbers, one after the other, all but the last of one length.

    Yields
    ------
    array
        As of `take_rows`, in the dtype of X.
    """
    if isinstance(X, Source) and parts:
        wanted = range(len(X)) if rows is None else rows
        wanted = wanted[parts[0].start : parts[-1].stop]
        if rows is None or (np.diff(wanted) > 0).all():
            blocks = X.blocks(wanted, parts[0].stop - parts[0].start)
            yield from read_ahead(blocks) if len(parts) > 1 else blocks
            return
    for part in parts:
        yield take_rows(X, part if rows is None else rows[part])


@dataclass(frozen=True)
class Consumer:
    """What becomes of tiles of H, and the memory that it takes."""

    # ``take(part, H)`` with the slice of the rows that the tile stands for and H, an array of
    # ``engine.xp`` that is overwritten by the next tile. It must either finish, or raise
    # MemoryError before it has changed anything: then the tile is halved.
    take: Callable
    # What it allocates where H is, in all and for each row of a tile.
    fixed_bytes: int = 0
    row_bytes: int = 0
    tile_rows: int | None = None  # rows that suit it; by default those of a basic layer
    keeps_hidden: bool = False  # whether H itself is the answer: then a NaN in it is refused


# Where H stays, nobody takes it.
_NOBODY = Consumer(None, keeps_hidden=True)


class _ConsumerSink(Sink):
    """A sink that hands each tile over and uses its memory again."""

    n_buffers, stage = 1, "readout"

    def __init__(self, xp, layer, consumer):
        self._xp, self._layer, self._consumer = xp, layer, consumer
        self._memory = self._H = None

    def buffer(self, part):
        n_rows = part.stop - part.start
        if self._memory is None or len(self._memory) < n_rows:
            self._memory = None
            self._memory = self._xp.empty((n_rows, self._layer.n_units), self._layer.hidden_dtype)
        self._H = self._memory[:n_rows]
        return self._H

    def put(self, part):
        self._consumer.take(part, self._H)

    def free(self):
        self._memory = self._H = None

    def close(self):
        pass


class _OfDistances:
    """Takes tiles of distances, and hands over the outputs of each layer for them."""

    def __init__(self, layers, take, engine):
        self._layers, self._take, self._engine = layers, take, engine
        self._memory = None

    def __call__(self, part, D):
        if self._memory is None or len(self._memory) < len(D):
            self._memory = self._engine.xp.empty(D.shape, D.dtype)
        for i in range(len(self._layers)):
            self._hand_over(i, part, D)

    def _hand_over(self, i, part, D):
        try:
            H = self._engine.outputs(self._layers[i], D, self._memory[: len(D)])
            self._take(i, part, H)
        except MemoryError:
            if i == 0:
                raise
            # The whole tile cannot be taken back once the first layer has had it.
            if len(D) == 1:
                raise _TileIsLost from None
            half = len(D) // 2
            self._hand_over(i, slice(part.start, part.start + half), D[:half])
            self._hand_over(i, slice(part.start + half, part.stop), D[half:])


class _TileIsLost(MemoryError):
    """There is no memory, and part of the work on a tile cannot be undone."""


def stream(job, layer, X, consumer, rows=None):
    """Evaluate the layer on rows of X, tile by tile, and hand each tile of H over.

    Parameters
    ----------
    job : Job
        Its memory is for all that is allocated here and by the consumer.
    X : array-like of shape (n_rows, n_features)
        NumPy array or memmap, an array of ``engine.xp``, or a `Source`. Only the rows of one
        tile are copied, and only if they are not C-ordered. They travel in their own dtype.
        Of a source, the rows of two tiles are in memory: the next one is read meanwhile.
    rows : ndarray of int, optional
        Row numbers in the order in which they flow; all rows in order by default.
    """
    sink = _ConsumerSink(job.engine.xp, layer, consumer)
    _flow(job, layer, X, rows).into(sink, consumer)


def stream_into(job, layer, X, out):
    """Evaluate the layer on X as `stream` does, and leave H in `out`.

    `out` is of the host or of ``engine.xp``, and not counted in the memory of the job.
    """
    _flow(job, layer, X).into(job.engine.sink(out))


def stream_all(job, layers, X, consumer, rows=None):
    """`stream` for several layers: ``consumer.take(i, part, H)`` with H of ``layers[i]``.

    More than one must be RBF layers on the same units, with the same weights of the features:
    their distances are computed once.
    ``consumer.row_bytes`` is what it allocates for one layer.
    """
    if len(layers) == 1:
        alone = replace(consumer, take=lambda part, H: consumer.take(0, part, H))
        return stream(job, layers[0], X, alone, rows)
    distances = layers[0].distances
    hidden_bytes = distances.n_units * distances.hidden_dtype.itemsize
    shared = replace(
        consumer,
        take=_OfDistances(layers, consumer.take, job.engine),
        row_bytes=consumer.row_bytes + hidden_bytes,
    )
    stream(job, distances, X, shared, rows)


def basic_layer(engine, layer, has_all_units=False):
    """The basic layer that was measured to be best here, or the engine's default."""
    if isinstance(layer, PatchLayer):  # cut by images alone, and then again
        return TileShape(IMAGES, layer.n_units)
    settings, n_units = engine.settings(layer), layer.n_units
    if has_all_units:
        return TileShape(max(1, settings["M"] ** 2 // n_units), n_units)
    return TileShape.of(settings["M"], settings["asymmetry"], n_units)


def evaluate(engine, prepared, basic, X, H):
    """H of the rows X, one basic layer after the other."""
    for rows, units in basic.parts(*H.shape):
        engine.hidden(prepared, X[rows], out=H[rows], units=units)


def _flow(job, layer, X, rows=None):
    """The `_Flow`, without the features that no sparse row has."""
    if isinstance(X, SparseRows):
        layer, X = X.narrowed(layer)
    return _Flow(job, layer, X, rows)


@dataclass(frozen=True)
class _Flow:
    """Rows on their way through a layer."""

    job: Job
    layer: Any
    X: Any
    rows: np.ndarray | None = None

    @property
    def n_rows(self):
        return len(self.X if self.rows is None else self.rows)

    @cached_property
    def sparse_evaluator(self):
        """What multiplies the rows as sparse ones; None where they are met as dense ones."""
        return self.job.engine.sparse_evaluator() if are_sparse(self.X) else None

    def into(self, sink, consumer=_NOBODY):
        """Evaluate all rows, tile by tile; a tile that finds no memory is halved."""
        engine, layer = self.job.engine, self.layer
        is_small = self._is_small(consumer.tile_rows)
        if is_small and self._at_once(sink, consumer):
            return
        place = self.sparse_evaluator or evaluator_of(engine, layer, self._patch_bytes(consumer))
        basic = basic_layer(engine, layer, self.sparse_evaluator is not None)
        tile = self._tile_rows(place, basic, sink.n_buffers, consumer)
        if is_small:
            tile = max(1, self.n_rows // 2)
        prepared = place.prepare(layer)
        progress = self.job.progress(self.n_rows, tile)
        start = 0
        while start < self.n_rows:
            try:
                with closing(self._blocks(start, tile)) as blocks:
                    for part, block in blocks:
                        self.job.check_stop()
                        progress.lap("copy in")
                        H = sink.buffer(part)
                        evaluate(place, prepared, basic, block, H)
                        progress.lap("layer")
                        H = H if consumer.keeps_hidden else None
                        self._hand_over(sink, part, block, H)
                        del block, H  # before the next rows take as much
                        progress.lap(sink.stage)
                        progress.advance(part.stop - part.start)
                        start = part.stop
            except MemoryError as error:
                if tile == 1 or isinstance(error, _TileIsLost):
                    raise
                tile //= 2
                sink.free()
        sink.close()
        progress.close()

    def _at_once(self, sink, consumer):
        """Evaluate few rows as one tile; False where there is no memory for it."""
        job, layer, n_rows = self.job, self.layer, self.n_rows
        part = slice(0, n_rows)
        job.check_stop()
        progress = job.progress(n_rows, n_rows)
        try:
            picked = take_rows(self.X, part if self.rows is None else self.rows)
            block, H = preprocess_block(job.engine, layer, picked), sink.buffer(part)
            progress.lap("copy in")
            job.engine.hidden(job.engine.prepare_for_few(layer), block, out=H)
            progress.lap("layer")
            H = H if consumer.keeps_hidden else None
            self._hand_over(sink, part, block, H)
        except _TileIsLost:
            raise
        except MemoryError:
            sink.free()
            return False
        progress.lap(sink.stage)
        progress.advance(n_rows)
        sink.close()
        progress.close()
        return True

    def _hand_over(self, sink, part, block, H):
        """Give a tile to the sink, and refuse answers that are no numbers; also H, if it is given.

        `block` are the rows of the tile.
        """
        engine, layer = self.job.engine, self.layer
        try:
            if H is not None:
                check_hidden(layer, H, engine.xp)
            sink.put(part)
        except NotNumbers:
            block = block.toarray() if issparse(block) else engine.to_host(block)
            numbers = part.start if self.rows is None else self.rows[part]
            raise ValueError(explain_overflow(layer, *largest_of(block, numbers))) from None

    def _patch_bytes(self, consumer):
        """What patches of images may take: only they are to know it before a tile is planned."""
        if not isinstance(self.layer, PatchLayer):
            return 0
        return max(1, self.job.memory_limit - consumer.fixed_bytes)

    def _is_small(self, tile_rows):
        """Whether the rows are one tile whatever was measured, and however little memory there is.

        To plan takes longer than to answer one row. Where a BLAS multiplies, another tile might
        round otherwise.
        """
        job, layer, n_rows = self.job, self.layer, self.n_rows
        return (
            n_rows * max(layer.n_units, layer.n_features) <= _SMALL_TILE
            and layer.units.nbytes <= _SMALL_LAYER
            and job.max_memory is None
            and (tile_rows is None or n_rows <= tile_rows)
            and isinstance(self.X, np.ndarray)
            and job.engine.xp is np
            and is_row_exact(job.engine, layer)
        )

    def _tile_rows(self, place, basic, n_buffers, consumer):
        """Rows of a tile: what suits the consumer, or a basic layer for all buffers together."""
        engine, layer = self.job.engine, self.layer
        preferred, is_sparse = consumer.tile_rows, self.sparse_evaluator is not None
        is_source = isinstance(self.X, Source) and not is_sparse
        if preferred is None:
            preferred = max(1, basic.rows // max(1, n_buffers))
            if is_source:
                preferred = min(preferred, self.X.tile_rows)
        # Rows wait in their own dtype, the next ones too, and are widened or weighted.
        n_ahead, read_bytes = engine.n_ahead, 0
        if is_source and engine.xp is np:  # else they wait elsewhere
            n_ahead, read_bytes = n_ahead + 1, self.X.read_bytes
        ahead_bytes = n_ahead * self.X.dtype.itemsize
        input_bytes = layer.n_features_in * (ahead_bytes + layer.units.itemsize)
        if layer.is_mapped:  # once more, and where they are no numbers
            input_bytes += layer.n_features * (layer.units.itemsize + 1)
        if is_sparse:  # as they are, widened, and those that threads take
            input_bytes = 3 * self.X.row_bytes(layer.units.dtype)
        hidden_bytes = layer.n_units * layer.hidden_dtype.itemsize
        row_bytes = n_buffers * hidden_bytes + input_bytes + place.row_bytes(layer)
        reserved = self.job.reserved  # of both, so that an error names what the user gave
        fixed_bytes = place.prepared_bytes(layer) + consumer.fixed_bytes + read_bytes
        fixed_bytes += layer.weights.nbytes if layer.is_mapped else 0
        return rows_per_tile(
            self.n_rows, row_bytes + consumer.row_bytes, fixed_bytes + reserved,
            self.job.memory_limit + reserved, preferred,
        )  # fmt: skip

    def _blocks(self, start, tile):
        """(part, rows of X as they meet the units) from `start` on."""
        X, engine, stop = self.X, self.job.engine, self.n_rows
        parts = [slice(i, min(i + tile, stop)) for i in range(start, stop, tile)]
        if self.sparse_evaluator:
            blocks = X.tiles(self.rows, parts, self.layer.units.dtype)
            yield from zip(parts, blocks, strict=True)
            return
        with closing(row_blocks(X, self.rows, parts)) as picked:
            are_there = isinstance(X, (engine.xp.ndarray, Sharded))
            blocks = picked if are_there else engine.uploads(picked)
            for part, block in zip(parts, blocks, strict=True):
                yield part, preprocess_block(engine, self.layer, block)


# Answers that go where the user says: into an array, a memmap, or a data set of a file.


def check_out(out, shape, dtype=None):
    """Raise if answers of a shape, floats of a dtype if one is given, do not fit into `out`."""
    if not hasattr(out, "shape") or not hasattr(out, "__setitem__"):
        raise TypeError(
            f"out is a {type(out).__name__}; give an array, a numpy.memmap, or a data set of h5py "
            "or zarr."
        )
    if tuple(out.shape) != tuple(shape):
        raise ValueError(f"out has shape {tuple(out.shape)}, and the result has {tuple(shape)}.")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out cannot be written to: it is read-only.")
    if dtype is not None and out.dtype.kind != "f":
        raise ValueError(
            f"out has dtype {out.dtype}, and the result is {np.dtype(dtype)}; give floats."
        )


def check_holds(out, values):
    """Raise if not every one of some values would be the same in `out`."""
    try:
        is_held = np.array_equal(values.astype(out.dtype), values)
    except (TypeError, ValueError):
        is_held = False
    if not is_held:
        raise ValueError(f"out has dtype {out.dtype}, which cannot hold all of {values}.")


def write(out, rows, values):
    """Do ``out[rows] = values``; of a file, in slices. Row numbers ascend."""
    if isinstance(rows, slice) or isinstance(out, np.ndarray):
        out[rows] = values
        return
    edges = [0, *np.flatnonzero(np.diff(rows) != 1) + 1, len(rows)]
    for start, stop in pairwise(edges):
        if stop > start:
            out[int(rows[start]) : int(rows[stop - 1]) + 1] = values[start:stop]
