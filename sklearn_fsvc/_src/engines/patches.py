"""Layers of patches, on any engine: unfolded, met by units, averaged, forgotten.

The units are evaluated by the engine as those of any layer, and it knows nothing of images.
What comes before and after is written here over the namespace `xp`, for all engines; an engine
may have loops of its own for it.
"""

from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod
from typing import Any

from ..layers import BELOW_MEAN, TWO_SIDED, LinearLayer, PatchLayer

# Images that are evaluated in one go.
IMAGES = 1024
# The part of the memory that may be on its way, and the part of that which a piece may be.
_PART = 4


def evaluator_of(engine, layer, memory_limit):
    """Where a layer is evaluated: the engine, or for a layer of patches what stands before it."""
    return PatchEvaluator(engine, memory_limit) if isinstance(layer, PatchLayer) else engine


@dataclass(frozen=True)
class _PreparedPatches:
    layer: PatchLayer
    whitening: Any
    inner: Any


class PatchEvaluator:
    """The part of `Engine` that layers of patches need, in the words of the engine.

    Images that take too much of `memory_limit`, in bytes, are evaluated piece by piece.
    """

    def __init__(self, engine, memory_limit):
        self._engine = engine
        self._most = memory_limit // (_PART * engine.patch_threads)
        self._bytes = min(engine.patch_bytes, self._most)

    def prepare(self, layer):
        whitening, inner = parts(layer)
        prepare = self._engine.prepare
        return _PreparedPatches(layer, whitening and prepare(whitening), prepare(inner))

    def prepared_bytes(self, layer):
        engine, of_image = self._engine, self._image_bytes(layer)
        at_a_time = self._images(layer) * of_image
        if of_image > self._most:
            at_a_time = self._pieces_bytes(layer)
        of_units = sum(engine.prepared_bytes(part) for part in parts(layer) if part)
        return engine.patch_threads * at_a_time + of_units

    def row_bytes(self, layer):
        return 0

    def hidden(self, prepared, X, out, units=None):
        """H of images X in `out`; always in all columns."""
        layer = prepared.layer
        step = self._images(layer)
        is_whole = self._image_bytes(layer) <= self._most
        evaluate_some = self._evaluate if is_whole else self._evaluate_pieces

        def evaluate(rows):
            for start in range(rows.start, rows.stop, step):
                few = slice(start, min(start + step, rows.stop))
                evaluate_some(prepared, X[few], out[few])

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

    def _piece_sides(self, layer):
        """Places of a piece, down and across: whole rows of them, or else a part of one."""
        most, across = self._most // _PART, layer.grid.places[1]
        of_row = self._piece_bytes(layer, (1, across))
        if of_row <= most:
            return most // of_row, across
        return 1, max(1, most // self._piece_bytes(layer, (1, 1)))

    def _pieces_bytes(self, layer):
        """Bytes that an image takes in pieces: the largest of these, and H."""
        of_hidden = layer.inner.n_units * layer.n_columns_of_unit * layer.hidden_dtype.itemsize
        return of_hidden + self._piece_bytes(layer, self._piece_sides(layer))

    def _piece_bytes(self, layer, sides):
        """Bytes of a piece of so many places: those of its pixels, too."""
        sides = [slice(0, min(pair)) for pair in zip(sides, layer.grid.places, strict=True)]
        grid = layer.grid.part(sides, (1, min(layer.grid.pool[1], sides[1].stop)))
        of_pixels = grid.n_features * layer.hidden_dtype.itemsize
        return of_pixels + self._image_bytes(replace(layer, grid=grid))

    def _evaluate(self, prepared, X, out):
        layer, xp = prepared.layer, self._engine.xp
        shape = _shape(layer, X)
        if out.shape[1] == layer.inner.n_units * layer.n_columns_of_unit:
            self._average(prepared, layer, X, out.reshape(shape))
            return
        H = xp.empty(shape, out.dtype)
        self._average(prepared, layer, X, H)
        out[...] = H.reshape(len(X), -1)[:, : out.shape[1]]

    def _evaluate_pieces(self, prepared, X, out):
        layer, xp = prepared.layer, self._engine.xp
        grid, images = layer.grid, X.reshape(len(X), *layer.grid.image)
        H = xp.zeros((*_shape(layer, X)[:3], *grid.pool), out.dtype)
        for places, cells, share in pieces(grid, self._piece_sides(layer)):
            into = H[..., *cells]
            piece = replace(layer, grid=grid.part(places, into.shape[3:]))
            pixels = xp.ascontiguousarray(images[:, *grid.pixels(places)]).reshape(len(X), -1)
            means = xp.empty(_shape(piece, X), out.dtype)
            self._average(prepared, piece, pixels, means)
            means *= out.dtype.type(share)
            into += means.reshape(into.shape)
        out[...] = H.reshape(len(X), -1)[:, : out.shape[1]]

    def _average(self, prepared, layer, X, H):
        """H (images, units, sides, cells) of images X as the layer has them."""
        engine = self._engine
        P = engine.unfold(layer, X)
        if prepared.whitening is not None:
            P = engine.hidden(prepared.whitening, P)
        engine.average(layer, engine.hidden(prepared.inner, P), H)


def _shape(layer, X):
    return len(X), layer.inner.n_units, layer.n_sides, layer.grid.n_cells


def pieces(grid, sides):
    """Pieces of an image of at most so many places, down and across.

    Yields
    ------
    places, cells : tuple of two slices
        The places of the piece, and the cells that these are in: one, or a whole row of cells.
    share : float
        The part that they are of all places of each cell.
    """
    down = _runs(grid.edges[0], sides[0])
    across = [(slice(0, grid.places[1]), slice(0, grid.pool[1]), 1.0)]
    if sides[1] < grid.places[1]:
        across = _runs(grid.edges[1], sides[1])
    for pair in product(down, across):
        places, cells, shares = zip(*pair, strict=True)
        yield places, cells, prod(shares)


def _runs(edges, most):
    """(places, cell, share of the cell) of runs of places that are each in one cell."""
    for cell, (first, stop) in enumerate(pairwise(edges)):
        for start in range(first, stop, most):
            end = min(start + most, stop)
            yield slice(start, end), slice(cell, cell + 1), (end - start) / (stop - first)


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
    """Write means over cells of what becomes of outputs A (rows * places, units) into H.

    A is overwritten; H has the shape (rows, units, sides, cells).
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
    """Return the means (rows, units, cells) of A (rows * places, units) over each cell."""
    down, across = grid.cells
    A = A.reshape(-1, *grid.places, A.shape[1])
    strips = xp.stack([A[:, cell].sum(axis=1) for cell in down], axis=1)
    sums = xp.stack([strips[:, :, cell].sum(axis=2) for cell in across], axis=2)
    height, width = (
        xp.asarray([cell.stop - cell.start for cell in cells], A.dtype) for cells in grid.cells
    )
    sums /= (height[:, None] * width)[:, :, None]
    return sums.reshape(len(A), -1, A.shape[3]).transpose(0, 2, 1)
