"""Layers of patches, on any engine: unfolded, met by units, averaged, forgotten.

The units are evaluated by the engine as those of any layer, and it knows nothing of images.
What comes before and after is written here over the namespace `xp`, for all engines; an engine
may have loops of its own for it.
"""

from dataclasses import dataclass
from typing import Any

from ..layers import BELOW_MEAN, TWO_SIDED, LinearLayer, PatchLayer

# Images that are evaluated in one go.
IMAGES = 1024


# The part of the memory that may be on its way.
_PART = 4


def place_of(engine, layer, memory_limit):
    """Where a layer is evaluated: the engine, or for a layer of patches what stands before it."""
    return PatchPlace(engine, memory_limit) if isinstance(layer, PatchLayer) else engine


class PatchSteps:
    """What an engine does around the units of a layer of patches, and may do in its own way.

    Attributes
    ----------
    patch_bytes : int
        Bytes of patches, and of what units answer to them, that are on their way at a time in
        each thread: few enough to stay where the engine is fast.
    patch_threads : int
        Threads that `divide` takes.
    """

    patch_bytes, patch_threads = 2**20, 1

    def divide(self, function, n_rows):
        """Call ``function(rows)`` on slices that cover the rows, on the threads."""
        function(slice(0, n_rows))

    def unfold(self, layer, X):
        """The patches of images X as units or their whitening meet them, (places, inputs)."""
        return unfold(layer, X, self.xp)

    def average(self, layer, A, H):
        """The means over cells of what becomes of outputs A, in `H`: see `average`."""
        average(layer, A, H, self.xp)


@dataclass(frozen=True)
class _Prepared:
    layer: PatchLayer
    whitening: Any
    inner: Any


class PatchPlace:
    """The part of `Engine` that layers of patches need, in the words of the engine.

    Parameters
    ----------
    engine : Engine
    memory_limit : int
        Bytes that may be taken in all.
    """

    def __init__(self, engine, memory_limit):
        self._engine = engine
        self._bytes = min(engine.patch_bytes, memory_limit // (_PART * engine.patch_threads))

    def prepare(self, layer):
        whitening, inner = parts(layer)
        prepare = self._engine.prepare
        return _Prepared(layer, whitening and prepare(whitening), prepare(inner))

    def prepared_bytes(self, layer):
        engine = self._engine
        at_a_time = engine.patch_threads * self._images(layer) * self._image_bytes(layer)
        return at_a_time + sum(engine.prepared_bytes(part) for part in parts(layer) if part)

    def row_bytes(self, layer):
        return 0

    def hidden(self, prepared, X, out, units=None):
        """H of images X in `out`; always in all columns."""
        step = self._images(prepared.layer)

        def evaluate(rows):
            for start in range(rows.start, rows.stop, step):
                few = slice(start, min(start + step, rows.stop))
                self._evaluate(prepared, X[few], out[few])

        self._engine.divide(evaluate, len(X))
        return out

    def _images(self, layer):
        """Images on their way at a time."""
        return max(1, self._bytes // self._image_bytes(layer))

    def _image_bytes(self, layer):
        """Bytes that an image takes: its patches, twice, outputs, twice, and what is averaged."""
        grid, inner, item = layer.grid, layer.inner, layer.hidden_dtype.itemsize
        of_cells = grid.pool[0] * grid.places[1] + (1 + layer.n_sides) * grid.n_cells
        of_places = grid.n_places * (2 * grid.n_inputs + 2 * inner.n_units + 4)
        numbers = of_places + of_cells * inner.n_units
        return item * numbers + grid.n_places * self._engine.row_bytes(inner)

    def _evaluate(self, prepared, X, out):
        layer, engine = prepared.layer, self._engine
        P = engine.unfold(layer, X)
        if prepared.whitening is not None:
            P = engine.hidden(prepared.whitening, P)
        A = engine.hidden(prepared.inner, P)
        shape = (len(X), layer.inner.n_units, layer.n_sides, layer.grid.n_cells)
        if out.shape[1] == layer.inner.n_units * layer.n_columns_of_unit:
            engine.average(layer, A, out.reshape(shape))
            return
        H = engine.xp.empty(shape, out.dtype)
        engine.average(layer, A, H)
        out[...] = H.reshape(len(X), -1)[:, : out.shape[1]]


def parts(layer):
    """The layer that whitens patches, None where there is none, and that of the units.

    Units that are linear are whitened themselves instead, once for all patches.
    """
    inner = layer.inner
    if layer.whitening is None:
        return None, inner
    whitening = LinearLayer(layer.whitening.T.copy(), -layer.shift)
    if not isinstance(inner, LinearLayer):
        return whitening, inner
    bias = inner.bias + inner.units @ whitening.bias
    return None, type(inner)(inner.units @ whitening.units, bias)


def unfold(layer, X, xp):
    """The patches of images X as units or their whitening meet them, (rows * places, inputs)."""
    P = layer.grid.unfold(X, xp)
    if layer.floor is not None:
        normalise(P, layer.floor, xp)
    return P


def normalise(P, floor, xp):
    """Patches (n, inputs) less their mean, over ``sqrt(variance + floor)``, in place."""
    P -= P.mean(axis=1, keepdims=True)
    variance = xp.einsum("ij,ij->i", P, P)
    variance /= P.shape[1]
    variance += P.dtype.type(floor)
    # Floor and variance may both be 0: then so is all that is divided.
    variance[variance == 0] = 1
    xp.sqrt(variance, out=variance)
    P /= variance[:, None]


def average(layer, A, H, xp):
    """Means over cells of what becomes of outputs A, which is overwritten.

    Parameters
    ----------
    A : array of shape (rows * places, units)
    H : array of shape (rows, units, sides, cells)
        Where they go.
    """
    grid = layer.grid
    if layer.response == TWO_SIDED:
        t = A.dtype.type(layer.threshold)
        H[:, :, 0] = _means(grid, xp.maximum(A, t), xp) - t
        H[:, :, 1] = -t - _means(grid, xp.minimum(A, -t, out=A), xp)
        return
    if layer.response == BELOW_MEAN:
        xp.subtract(A.mean(axis=1, keepdims=True), A, out=A)
        xp.maximum(A, 0, out=A)
    H[:, :, 0] = _means(grid, A, xp)


def _means(grid, A, xp):
    """Of A (rows * places, units) over each cell, (rows, units, cells)."""
    down, across = grid.cells
    A = A.reshape(-1, *grid.places, A.shape[1])
    strips = xp.stack([A[:, cell].sum(axis=1) for cell in down], axis=1)
    sums = xp.stack([strips[:, :, cell].sum(axis=2) for cell in across], axis=2)
    height, width = (
        xp.asarray([cell.stop - cell.start for cell in cells], A.dtype) for cells in grid.cells
    )
    sums /= (height[:, None] * width)[:, :, None]
    return sums.reshape(len(A), -1, A.shape[3]).transpose(0, 2, 1)
