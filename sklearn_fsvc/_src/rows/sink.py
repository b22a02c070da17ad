"""Where tiles of H go that somebody takes."""

from scipy.sparse import issparse

from ..engines.base import Sink
from .overflow import NotNumbers, check_hidden, largest_of, why_no_numbers


def hand_over(engine, layer, sink, part, block, H, rows):
    """Give a tile to the sink, and refuse answers that are no numbers; also H, if it is given.

    `block` are the rows of the tile, and `rows` the row numbers of all tiles, None for all rows.
    """
    try:
        if H is not None:
            check_hidden(layer, block, H, engine.xp)
        sink.put(part)
    except NotNumbers:
        block = block.toarray() if issparse(block) else engine.to_host(block)
        numbers = part.start if rows is None else rows[part]
        raise ValueError(why_no_numbers(layer, *largest_of(block, numbers))) from None


class ConsumerSink(Sink):
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
