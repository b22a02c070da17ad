"""Layers of image patches on any engine: patch extraction, evaluation of the units, pooling.

The units are evaluated by the engine as those of any layer. Extraction (`unfold`) and pooling
(`average`) are written here for any array namespace `xp`; an engine may override them with loops
of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod
from typing import Any

from ..images import PatchGrid
from ..layers import BELOW_MEAN, TWO_SIDED, LinearLayer, PatchLayer

# Images that are evaluated at a time.
IMAGES = 1024
# The fraction of the memory limit that a batch of images may take, and the fraction of that for
# the pixels, patches and activations of a tile.
_FRACTION = 4


def make_evaluator(engine: Any, layer: Any, memory_limit: int) -> Any:
    """Return what evaluates a layer: the engine, or a `PatchEvaluator` for a layer of patches."""
    return PatchEvaluator(engine, memory_limit) if isinstance(layer, PatchLayer) else engine


@dataclass(frozen=True)
class _PreparedPatches:
    layer: PatchLayer
    whitening: Any
    inner: Any


class PatchEvaluator:
    """Evaluates layers of patches. It has the methods of `Engine` that streaming calls.

    Parameters
    ----------
    engine : Engine
    memory_limit : int
        In bytes. An image that needs more than its fraction of it is evaluated in tiles.
    """

    def __init__(self, engine: Any, memory_limit: int) -> None:
        self._engine = engine
        self._max_bytes = memory_limit // (_FRACTION * engine.patch_threads)
        self._batch_bytes = min(engine.patch_bytes, self._max_bytes)

    def prepare(self, layer: PatchLayer) -> _PreparedPatches:
        whitening, inner = parts(layer)
        prepare = self._engine.prepare
        return _PreparedPatches(layer, whitening and prepare(whitening), prepare(inner))

    def prepared_bytes(self, layer: PatchLayer) -> int:
        engine, image_bytes = self._engine, self._image_bytes(layer)
        n_bytes = self._batch_size(layer) * image_bytes
        if image_bytes > self._max_bytes:
            n_bytes = self._tiled_bytes(layer)
        unit_bytes = sum(engine.prepared_bytes(part) for part in parts(layer) if part)
        return engine.patch_threads * n_bytes + unit_bytes

    def row_bytes(self, layer: PatchLayer) -> int:
        return 0

    def hidden(
        self, prepared: _PreparedPatches, X: Any, out: Any, units: slice | None = None
    ) -> Any:
        """Write H of images X to `out`; all columns are computed, whatever `units` is."""
        layer = prepared.layer
        step = self._batch_size(layer)
        is_whole = self._image_bytes(layer) <= self._max_bytes
        evaluate_batch = self._evaluate if is_whole else self._evaluate_tiles

        def evaluate(rows):
            for start in range(rows.start, rows.stop, step):
                batch = slice(start, min(start + step, rows.stop))
                evaluate_batch(prepared, X[batch], out[batch])

        self._engine.map_slices(evaluate, len(X))
        return out

    # Memory.

    def _batch_size(self, layer):
        """Return the number of images that are evaluated at a time in a thread."""
        return max(1, self._batch_bytes // self._image_bytes(layer))

    def _image_bytes(self, layer):
        """Return the bytes of an image: patches and activations, two copies each, and pooling."""
        grid, inner, item = layer.grid, layer.inner, layer.hidden_dtype.itemsize
        per_cell = grid.pool[0] * grid.output_shape[1] + (1 + layer.n_sides) * grid.n_cells
        per_position = grid.n_positions * (2 * grid.n_inputs + 2 * inner.n_units + 4)
        n_elements = per_position + per_cell * inner.n_units
        return item * n_elements + grid.n_positions * self._engine.row_bytes(inner)

    def _tile_shape(self, layer):
        """Return the positions of a tile, down and across: whole lines, or a part of one."""
        limit, across = self._max_bytes // _FRACTION, layer.grid.output_shape[1]
        line_bytes = self._tile_bytes(layer, (1, across))
        if line_bytes <= limit:
            return limit // line_bytes, across
        return 1, max(1, limit // self._tile_bytes(layer, (1, 1)))

    def _tiled_bytes(self, layer):
        """Return the bytes of an image that is evaluated in tiles: the largest tile, and H."""
        of_hidden = layer.inner.n_units * layer.n_columns_of_unit * layer.hidden_dtype.itemsize
        return of_hidden + self._tile_bytes(layer, self._tile_shape(layer))

    def _tile_bytes(self, layer, shape):
        """Return the bytes of a tile of so many positions, including its pixels."""
        positions = [
            slice(0, min(pair)) for pair in zip(shape, layer.grid.output_shape, strict=True)
        ]
        grid = layer.grid.part(positions, (1, min(layer.grid.pool[1], positions[1].stop)))
        pixel_bytes = grid.n_features * layer.hidden_dtype.itemsize
        return pixel_bytes + self._image_bytes(replace(layer, grid=grid))

    # Evaluation.

    def _evaluate(self, prepared, X, out):
        layer, xp = prepared.layer, self._engine.xp
        shape = _shape(layer, X)
        if out.shape[1] == layer.inner.n_units * layer.n_columns_of_unit:
            self._pool(prepared, layer, X, out.reshape(shape))
            return
        # A part of the columns of the last unit only: compute all of them, and copy.
        H = xp.empty(shape, out.dtype)
        self._pool(prepared, layer, X, H)
        out[...] = H.reshape(len(X), -1)[:, : out.shape[1]]

    def _evaluate_tiles(self, prepared, X, out):
        """Evaluate images tile by tile; a cell is the weighted mean of its parts in the tiles."""
        layer, xp = prepared.layer, self._engine.xp
        grid, images = layer.grid, X.reshape(len(X), *layer.grid.image)
        H = xp.zeros((*_shape(layer, X)[:3], *grid.pool), out.dtype)
        for positions, cells, weight in tiles(grid, self._tile_shape(layer)):
            target = H[..., *cells]
            tile = replace(layer, grid=grid.part(positions, target.shape[3:]))
            pixels = xp.ascontiguousarray(images[:, *grid.pixels(positions)]).reshape(len(X), -1)
            means = xp.empty(_shape(tile, X), out.dtype)
            self._pool(prepared, tile, pixels, means)
            means *= out.dtype.type(weight)
            target += means.reshape(target.shape)
        out[...] = H.reshape(len(X), -1)[:, : out.shape[1]]

    def _pool(self, prepared, layer, X, H):
        """Write the pooled responses to H (images, units, sides, cells)."""
        engine = self._engine
        P = engine.unfold(layer, X)
        if prepared.whitening is not None:
            P = engine.hidden(prepared.whitening, P)
        engine.average_pool(layer, engine.hidden(prepared.inner, P), H)


def parts(layer: PatchLayer) -> tuple[LinearLayer | None, Any]:
    """Return the layer that whitens patches, or None, and the layer of the units.

    The whitening of linear units is multiplied into their weights: ``W (A p + b) + c``.
    """
    inner = layer.inner
    if layer.whitening is None:
        return None, inner
    shift: Any = layer.shift  # not None, as there is a whitening
    whitening = LinearLayer(layer.whitening.T.copy(), -shift)
    if not isinstance(inner, LinearLayer):
        return whitening, inner
    bias = inner.bias + inner.units @ whitening.bias
    return None, type(inner)(inner.units @ whitening.units, bias)


def tiles(grid: PatchGrid, shape: Sequence[int]) -> Iterator[tuple[tuple, tuple, float]]:
    """Cut an image into tiles of at most so many positions of patches, down and across.

    Yields
    ------
    positions, cells : tuple of two slices
        The positions in the tile, and the pooling cells that contain them: one, or a whole line.
    weight : float
        The fraction that they are of all positions of each cell.
    """
    down = _runs(grid.edges[0], shape[0])
    across = [(slice(0, grid.output_shape[1]), slice(0, grid.pool[1]), 1.0)]
    if shape[1] < grid.output_shape[1]:
        across = list(_runs(grid.edges[1], shape[1]))
    for pair in product(down, across):
        positions, cells, weights = zip(*pair, strict=True)
        yield positions, cells, prod(weights)


def _runs(edges, max_length):
    """Yield (positions, cell, fraction of the cell) of runs of positions inside one cell each."""
    for cell, (first, stop) in enumerate(pairwise(edges)):
        for start in range(first, stop, max_length):
            end = min(start + max_length, stop)
            yield slice(start, end), slice(cell, cell + 1), (end - start) / (stop - first)


def _shape(layer, X):
    return len(X), layer.inner.n_units, layer.n_sides, layer.grid.n_cells


# The default implementations of `Engine.unfold` and `Engine.average_pool`.


def unfold(layer: PatchLayer, X: Any, xp: Any) -> Any:
    """Return the patches of images X, normalised if the layer is, (rows * positions, n_inputs)."""
    P = layer.grid.unfold(X, xp)
    if layer.floor is not None:
        normalise(P, layer.floor, xp)
    return P


def normalise(P: Any, floor: float, xp: Any) -> None:
    """Subtract from patches (n, n_inputs) their mean and divide by ``sqrt(variance + floor)``."""
    P -= P.mean(axis=1, keepdims=True)
    variance = xp.einsum("ij,ij->i", P, P)
    variance /= P.shape[1]
    variance += P.dtype.type(floor)
    # Both may be 0; then the patch is constant, and all 0 now.
    variance[variance == 0] = 1
    xp.sqrt(variance, out=variance)
    P /= variance[:, None]


def average_pool(layer: PatchLayer, A: Any, H: Any, xp: Any) -> None:
    """Write the average pooling of the responses to A (rows * positions, units) to H.

    H has the shape (rows, units, sides, cells); A is overwritten.
    """
    grid = layer.grid
    if layer.response == TWO_SIDED:
        # mean(max(0, a - t)) = mean(max(a, t)) - t, and the same for -a.
        t = A.dtype.type(layer.threshold)
        H[:, :, 0] = _means(grid, xp.maximum(A, t), xp) - t
        H[:, :, 1] = -t - _means(grid, xp.minimum(A, -t, out=A), xp)
        return
    if layer.response == BELOW_MEAN:
        xp.subtract(A.mean(axis=1, keepdims=True), A, out=A)
        xp.maximum(A, 0, out=A)
    H[:, :, 0] = _means(grid, A, xp)


def _means(grid, A, xp):
    """Return the means (rows, units, cells) of A (rows * positions, units) over each cell."""
    down, across = grid.cells
    A = A.reshape(-1, *grid.output_shape, A.shape[1])
    strips = xp.stack([A[:, cell].sum(axis=1) for cell in down], axis=1)
    sums = xp.stack([strips[:, :, cell].sum(axis=2) for cell in across], axis=2)
    height, width = (
        xp.asarray([cell.stop - cell.start for cell in cells], A.dtype) for cells in grid.cells
    )
    sums /= (height[:, None] * width)[:, :, None]
    return sums.reshape(len(A), -1, A.shape[3]).transpose(0, 2, 1)
