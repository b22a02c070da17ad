"""Rows flow: X -> tile -> engine -> H of the tile -> consumer -> forgotten."""

import numpy as np

from ..engines.base import Sink
from .progress import Progress
from .tiling import BasicLayer, parse_memory, rows_per_tile


def compute_dtype(unit_dtype, X_dtype):
    """dtype in which a layer meets rows: uint8 only if both are, else the wider float."""
    return np.result_type(unit_dtype, X_dtype)


def n_synapses(X, n_units):
    """rows x units x features of a job on X, which nobody has looked at yet."""
    shape = getattr(X, "shape", ())
    if len(shape) != 2:
        return 0
    return shape[0] * shape[1] * (shape[0] if n_units is None else n_units)


def take_rows(X, rows, dtype=None):
    """Rows of X (a slice or an index array) as a C-ordered, aligned array of `dtype`.

    X may be an array of the host or of an engine's namespace; so is what comes back.
    """
    if isinstance(X, np.ndarray):
        return np.require(X[rows], dtype, ["C_CONTIGUOUS", "ALIGNED"])
    return X[rows].astype(dtype or X.dtype, order="C", copy=False)


def budget(engine, max_memory):
    """Bytes that one call may take on this engine."""
    return parse_memory(max_memory, engine.memory()[0])


def keep_rows(engine, X, max_memory):
    """X where the engine computes, if a quarter of the memory holds it, for several passes.

    Returns
    -------
    X : array-like
        An array of ``engine.xp``, or X itself.
    max_memory : int, str or None
        What is left of `max_memory`.
    """
    kept = engine.keep(X, budget(engine, max_memory) // 4)
    if kept is X or max_memory is None:
        return kept, max_memory
    return kept, parse_memory(max_memory, 0) - X.nbytes


def stream(
    engine, layer, X, consume=None, *, out=None, max_memory=None, rows=None, tile_rows=None,
    consumer_bytes=0, consumer_row_bytes=0, what="", verbose=0,
):  # fmt: skip
    """Evaluate the layer on rows of X, tile by tile, and hand each tile of H over.

    Parameters
    ----------
    engine : Engine
    layer : RBFLayer or TanhLayer
    X : array-like of shape (n_rows, n_features)
        NumPy array or memmap, or an array of ``engine.xp``. Only the rows of one tile are
        copied, and only if they are not C-ordered. They travel in their own dtype.
    consume : callable
        ``consume(part, H)`` with the slice of `rows` the tile stands for and H, an array
        of ``engine.xp`` that is overwritten by the next tile. It must either finish, or
        raise MemoryError before it has changed anything: then the tile is halved.
    out : array of shape (n_rows, n_units), of the host or of ``engine.xp``, optional
        Where H is to stay, instead of being consumed; not counted in `max_memory`.
    max_memory : int, str or None
        Bytes, where H is computed, for everything that is allocated here and by the
        consumer.
    rows : ndarray of int, optional
        Row numbers in the order in which they flow; all rows in order by default.
    tile_rows : int, optional
        Rows that suit the consumer; by default those of a basic layer, for all tiles that
        are allocated together.
    consumer_bytes, consumer_row_bytes : int
        What the consumer allocates, in all and for each row of a tile.
    what, verbose
        See `Progress`.
    """
    n_rows = len(X) if rows is None else len(rows)
    hidden_bytes = layer.n_units * layer.hidden_dtype.itemsize
    basic = basic_layer(engine, layer)
    sink = engine.sink(out) if out is not None else _Consumer(engine.xp, layer, consume)
    if tile_rows is None:
        tile_rows = max(1, basic.rows // max(1, sink.n_buffers))
    # Rows wait in their own dtype, the next ones too, and are widened.
    input_bytes = layer.n_features * (engine.n_ahead * X.dtype.itemsize + layer.units.itemsize)
    row_bytes = sink.n_buffers * hidden_bytes + input_bytes + engine.row_bytes(layer)
    fixed = engine.loaded_bytes(layer) + consumer_bytes
    tile = rows_per_tile(
        n_rows, row_bytes + consumer_row_bytes, fixed, budget(engine, max_memory), tile_rows
    )
    loaded = engine.load(layer)
    progress = Progress(what, n_rows, verbose, engine.stopwatch)
    start = 0
    while start < n_rows:
        try:
            for part, block in _blocks(engine, layer, X, rows, start, n_rows, tile):
                progress.lap("copy in")
                evaluate(engine, loaded, basic, block, sink.buffer(part))
                progress.lap("layer")
                sink.put(part)
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


def stream_all(engine, layers, X, consume, *, consumer_row_bytes=0, **how):
    """`stream` for several layers: ``consume(i, part, H)`` with H of ``layers[i]``.

    More than one must be RBF layers on the same units: their distances are computed once.

    Parameters
    ----------
    **how
        As for `stream`; `consumer_row_bytes` is what the consumer allocates for one layer.
    """
    if len(layers) == 1:
        return stream(
            engine, layers[0], X, lambda part, H: consume(0, part, H),
            consumer_row_bytes=consumer_row_bytes, **how,
        )  # fmt: skip
    memory = None

    def each(part, D):
        nonlocal memory
        if memory is None or len(memory) < len(D):
            memory = engine.xp.empty(D.shape, D.dtype)
        for i in range(len(layers)):
            one(i, part, D)

    def one(i, part, D):
        try:
            consume(i, part, layers[i].of_distances(D, memory[: len(D)], engine.xp))
        except MemoryError:
            if i == 0:
                raise
            # The whole tile cannot be taken back once the first layer has had it.
            if len(D) == 1:
                raise _TileIsLost from None
            half = len(D) // 2
            one(i, slice(part.start, part.start + half), D[:half])
            one(i, slice(part.start + half, part.stop), D[half:])

    distances = layers[0].distances
    hidden_bytes = distances.n_units * distances.hidden_dtype.itemsize
    stream(
        engine, distances, X, each, consumer_row_bytes=consumer_row_bytes + hidden_bytes, **how
    )  # fmt: skip


class _TileIsLost(MemoryError):
    """There is no memory, and part of the work on a tile cannot be undone."""


def basic_layer(engine, layer):
    """The basic layer that was measured to be best here, or the engine's default."""
    settings = engine.settings(layer)
    return BasicLayer.of(settings["M"], settings["asymmetry"], layer.n_units)


def evaluate(engine, loaded, basic, X, H):
    """H of the rows X, one basic layer after the other."""
    for rows, units in basic.parts(*H.shape):
        engine.hidden(loaded, X[rows], out=H[rows], units=units)


def _blocks(engine, layer, X, rows, start, stop, tile):
    """(part, rows of X on the device in the layer's dtype) from `start` on."""
    parts = [slice(i, min(i + tile, stop)) for i in range(start, stop, tile)]
    picked = (take_rows(X, part if rows is None else rows[part]) for part in parts)
    blocks = engine.uploads(picked) if isinstance(X, np.ndarray) else picked
    for part, block in zip(parts, blocks, strict=True):
        yield part, take_rows(block, slice(None), layer.units.dtype)


class _Consumer(Sink):
    """A sink that hands each tile over and uses its memory again."""

    n_buffers, stage = 1, "readout"

    def __init__(self, xp, layer, consume):
        self._xp, self._layer, self._consume = xp, layer, consume
        self._memory = self._H = None

    def buffer(self, part):
        n_rows = part.stop - part.start
        if self._memory is None or len(self._memory) < n_rows:
            self._memory = None
            self._memory = self._xp.empty((n_rows, self._layer.n_units), self._layer.hidden_dtype)
        self._H = self._memory[:n_rows]
        return self._H

    def put(self, part):
        self._consume(part, self._H)

    def free(self):
        self._memory = self._H = None

    def close(self):
        pass
