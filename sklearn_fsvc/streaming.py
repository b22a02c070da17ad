"""Rows flow: X -> tile -> engine -> H of the tile -> consumer -> forgotten."""

import numpy as np

from .progress import Progress
from .tiling import parse_memory, rows_per_tile

# Bytes of H in a tile where nothing is gained by more.
TILE_BYTES = 2**24


def compute_dtype(unit_dtype, X_dtype):
    """dtype in which a layer meets rows: uint8 only if both are, else the wider float."""
    return np.result_type(unit_dtype, X_dtype)


def take_rows(X, rows, dtype):
    """Rows of X (a slice or an index array) as a C-ordered, aligned array of `dtype`."""
    return np.require(X[rows], dtype, ["C_CONTIGUOUS", "ALIGNED"])


def budget(engine, max_memory):
    """Bytes that one call may take on this engine."""
    return parse_memory(max_memory, engine.memory()[0])


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
        NumPy array or memmap. Only the rows of one tile are copied, and only if they are
        not C-ordered and of the layer's dtype already.
    consume : callable
        ``consume(part, H)`` with the slice of `rows` the tile stands for and H, an array
        of ``engine.xp`` that is overwritten by the next tile. It must either finish, or
        raise MemoryError before it has changed anything: then the tile is halved.
    out : array of ``engine.xp`` of shape (n_rows, n_units), optional
        Where H is to stay, instead of being consumed; not counted in `max_memory`.
    max_memory : int, str or None
        Bytes for everything that is allocated here and by the consumer.
    rows : ndarray of int, optional
        Row numbers in the order in which they flow; all rows in order by default.
    tile_rows : int, optional
        Rows that suit the consumer; by default what `TILE_BYTES` hold.
    consumer_bytes, consumer_row_bytes : int
        What the consumer allocates, in all and for each row of a tile.
    what, verbose
        See `Progress`.
    """
    n_rows = len(X) if rows is None else len(rows)
    row_bytes = layer.n_units * layer.hidden_dtype.itemsize
    if tile_rows is None:
        tile_rows = max(1, TILE_BYTES // row_bytes)
    row_bytes += layer.n_features * layer.units.itemsize + consumer_row_bytes
    fixed = layer.units.nbytes + engine.loaded_bytes(layer) + consumer_bytes
    tile = rows_per_tile(n_rows, row_bytes, fixed, budget(engine, max_memory), tile_rows)

    loaded = engine.load(layer)
    progress = Progress(what, n_rows, verbose)
    buffer, start = None, 0
    while start < n_rows:
        part = slice(start, min(start + tile, n_rows))
        try:
            picked = part if rows is None else rows[part]
            block = engine.to_device(take_rows(X, picked, layer.units.dtype))
            if out is not None:
                engine.hidden(loaded, block, out=out[part])
            else:
                if buffer is None:
                    buffer = engine.xp.empty((tile, layer.n_units), layer.hidden_dtype)
                consume(part, engine.hidden(loaded, block, out=buffer[: len(block)]))
        except MemoryError:
            if tile == 1:
                raise
            buffer, tile = None, tile // 2
            continue
        progress.advance(part.stop - part.start)
        start = part.stop
