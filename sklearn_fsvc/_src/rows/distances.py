"""One tile of distances for several layers."""


class OfDistances:
    """Takes tiles of distances, and hands over the outputs of each layer for them."""

    def __init__(self, layers, take, xp):
        self._layers, self._take, self._xp = layers, take, xp
        self._memory = None

    def __call__(self, part, D):
        if self._memory is None or len(self._memory) < len(D):
            self._memory = self._xp.empty(D.shape, D.dtype)
        for i in range(len(self._layers)):
            self._hand_over(i, part, D)

    def _hand_over(self, i, part, D):
        try:
            H = self._layers[i].of_distances(D, self._memory[: len(D)], self._xp)
            self._take(i, part, H)
        except MemoryError:
            if i == 0:
                raise
            # The whole tile cannot be taken back once the first layer has had it.
            if len(D) == 1:
                raise TileIsLost from None
            half = len(D) // 2
            self._hand_over(i, slice(part.start, part.start + half), D[:half])
            self._hand_over(i, slice(part.start + half, part.stop), D[half:])


class TileIsLost(MemoryError):
    """There is no memory, and part of the work on a tile cannot be undone."""
