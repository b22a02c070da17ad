"""Where tiles of H go that somebody takes."""

from ..engines.base import Sink


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
