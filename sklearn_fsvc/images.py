"""Images as rows of X: where their patches lie, and over which of them is averaged."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod


@dataclass(frozen=True)
class PatchGrid:
    """The places of patches in an image, and the cells that they are averaged over.

    Parameters
    ----------
    image : tuple (rows, columns, channels)
    size : tuple (height, width)
        Of a patch, which has all channels.
    stride : int
        Pixels from one place to the next.
    pool : tuple (down, across)
        Cells. No more than there are places.
    """

    image: tuple
    size: tuple
    stride: int
    pool: tuple

    @property
    def n_features(self):
        return prod(self.image)

    @property
    def n_inputs(self):
        """Numbers in a patch."""
        return prod(self.size) * self.image[2]

    @cached_property
    def places(self):
        """(down, across)"""
        pairs = zip(self.image, self.size, strict=False)
        return tuple((side - size) // self.stride + 1 for side, size in pairs)

    @property
    def n_places(self):
        return prod(self.places)

    @property
    def n_cells(self):
        return prod(self.pool)

    @cached_property
    def edges(self):
        """The first places of each cell, and the end: down, and across."""
        pairs = zip(self.places, self.pool, strict=True)
        return tuple([k * n // parts for k in range(parts + 1)] for n, parts in pairs)

    @property
    def cells(self):
        """Slices of the places: those of each cell down, and across."""
        return tuple([slice(*ends) for ends in pairwise(edges)] for edges in self.edges)

    def pooled(self, pool):
        """With that many cells down and across, where there are so many places."""
        return replace(self, pool=tuple(map(min, pool, self.places)))

    def windows(self, X, xp):
        """The patches of rows X as a view, (rows, down, across, height, width, channels)."""
        images = X.reshape(len(X), *self.image)
        views = xp.lib.stride_tricks.sliding_window_view(images, self.size, axis=(1, 2))
        return views[:, :: self.stride, :: self.stride].transpose(0, 1, 2, 4, 5, 3)

    def unfold(self, X, xp):
        """The patches of rows X one below the other, (rows * places, inputs), a new array."""
        return self.windows(X, xp).copy(order="C").reshape(-1, self.n_inputs)
