"""Layers of patches, on any engine: unfolded, normalised, met by units, averaged, forgotten.

What is written here over the namespace `xp` is the same for all engines; the units
themselves are evaluated by the engine, which knows nothing of images. A few images are on
their way at a time, as many as fit where the engine is fast (`Engine.patch_bytes`).
"""

from dataclasses import dataclass, replace
from typing import Any

from ..layers import BELOW_MEAN, TWO_SIDED, PatchLayer


def place_of(engine, layer):
    """Where a layer is evaluated: the engine, or for a layer of patches what stands before it."""
    return PatchPlace(engine) if isinstance(layer, PatchLayer) else engine


@dataclass(frozen=True)
class _Prepared:
    layer: PatchLayer
    inner: Any
    whitening: Any
    shift: Any


class PatchPlace:
    """The part of `Engine` that layers of patches need, in the words of the engine.

    Parameters
    ----------
    engine : Engine
    """

    def __init__(self, engine):
        self._engine = engine

    def settings(self, layer):
        return self._engine.settings(layer.inner)

    def prepare(self, layer):
        engine, layer = self._engine, folded(layer)
        there = (a if a is None else engine.to_device(a) for a in (layer.whitening, layer.shift))
        return _Prepared(layer, engine.prepare(layer.inner), *there)

    def prepared_bytes(self, layer):
        inner, engine = layer.inner, self._engine
        whitening = 0 if layer.whitening is None else layer.whitening.nbytes + layer.shift.nbytes
        at_a_time = engine.n_patch_threads * self._images(layer) * self._image_bytes(layer)
        return engine.prepared_bytes(inner) + whitening + at_a_time

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
        return max(1, self._engine.patch_bytes // self._image_bytes(layer))

    def _image_bytes(self, layer):
        """Bytes that an image takes: its patches, twice, outputs, twice, and what is averaged."""
        grid, inner, item = layer.grid, layer.inner, layer.hidden_dtype.itemsize
        strips = grid.pool[0] * grid.places[1] + (1 + layer.n_sides) * grid.n_cells
        of_places = 2 * grid.n_inputs + 2 * inner.n_units + 4
        numbers = grid.n_places * of_places + strips * inner.n_units
        return item * numbers + grid.n_places * self._engine.row_bytes(inner)

    def _evaluate(self, prepared, X, out):
        layer, xp, engine = prepared.layer, self._engine.xp, self._engine
        P = layer.grid.unfold(X, xp)
        if layer.floor is not None:
            normalise(P, layer.floor, xp)
        if layer.whitening is not None:
            P = P @ prepared.whitening
            P -= prepared.shift
        A = engine.hidden(prepared.inner, P)
        whole = (len(X), layer.inner.n_units, layer.n_sides, layer.grid.n_cells)
        is_whole = out.shape[1] == whole[1] * layer.n_columns_of_unit
        H = out.reshape(whole) if is_whole else xp.empty(whole, out.dtype)
        for side, averaged in enumerate(responses(layer, A, xp)):
            H[:, :, side] = averaged
        if not is_whole:
            out[...] = H.reshape(len(X), -1)[:, : out.shape[1]]


def folded(layer):
    """The same layer with the whitening in its units, where these are linear."""
    inner, whitening = layer.inner, layer.whitening
    if whitening is None or inner.accumulation != "product":
        return layer
    units, bias = inner.units @ whitening.T, inner.bias - inner.units @ layer.shift
    return replace(layer, inner=replace(inner, units=units, bias=bias), whitening=None, shift=None)


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


def responses(layer, A, xp):
    """What is averaged of outputs A (rows * places, units), for each side: (rows, units, cells).

    A is overwritten.
    """
    if layer.response == TWO_SIDED:
        t = A.dtype.type(layer.threshold)
        yield average(layer.grid, xp.maximum(A, t), xp) - t
        yield -average(layer.grid, xp.minimum(A, -t, out=A), xp) - t
        return
    if layer.response == BELOW_MEAN:
        xp.subtract(A.mean(axis=1, keepdims=True), A, out=A)
        xp.maximum(A, 0, out=A)
    yield average(layer.grid, A, xp)


def average(grid, A, xp):
    """Means of A (rows * places, units) over each cell, (rows, units, cells)."""
    down, across = grid.cells
    A = A.reshape(-1, *grid.places, A.shape[1])
    strips = xp.stack([A[:, cell].sum(axis=1) for cell in down], axis=1)
    sums = xp.stack([strips[:, :, cell].sum(axis=2) for cell in across], axis=2)
    height, width = ([cell.stop - cell.start for cell in cells] for cells in grid.cells)
    n = xp.asarray(height)[:, None] * xp.asarray(width)
    sums /= n[:, :, None].astype(A.dtype)
    return sums.reshape(len(A), -1, A.shape[3]).transpose(0, 2, 1)
