"""Layers that lie on a GPU: one class for each thing that is summed over the features.

Each says what it takes before it is made, is made of an engine that was entered and a
layer, and evaluates rows.
"""

from abc import ABC, abstractmethod

import numpy as np

from ...formulas import IDENTITY, Affine, finite
from ..base import CANCELLATION
from ..kernels.cuda.elementwise import FUNCTIONS, THREADS, expand, map_rows
from ..kernels.cuda.manhattan import SQUARE, Tile, manhattan, pack
from .integers import look_up_columns
from .launch import n_parts, over_rows, round_up

# float32 sums of more features than this are added up from parts: adding ever smaller
# numbers to an ever larger sum loses digits.
PART = 1024


class CudaLayer(ABC):
    """A layer on the GPU of an engine."""

    def __init__(self, engine, layer):
        self.engine, self.layer, self.xp = engine, layer, engine.xp
        # Then kernels of distances apply it themselves.
        self.exponent = layer.function.exponent if layer.power != 2 else 0.0

    @staticmethod
    @abstractmethod
    def prepared_bytes(engine, layer):
        """As of `Engine`."""

    @staticmethod
    @abstractmethod
    def row_bytes(engine, layer):
        """As of `Engine`."""

    @abstractmethod
    def hidden(self, X, out, units):
        """H of the rows X in the columns `units` of `out`."""

    def _multiply(self, X, W, out, units):
        """out[:, units] = X W[units]', also for sparse rows."""
        if isinstance(X, self.xp.ndarray):
            self.engine.algebra.gemm(out[:, units].T, W[units], X.T, keep=0.0)
        else:
            out[:, units] = X @ W[units].T

    def _finish_distances(self, H, units):
        """What our kernels of distances leave to do: all, if a square comes first."""
        layer = self.layer
        if layer.power == 2:
            _finish(self.engine, H, units, layer.affine, layer.function, is_squared=True)
        elif not (layer.function is IDENTITY or self.exponent):
            _finish(self.engine, H, units, Affine(), layer.function)


class Manhattan(CudaLayer):
    """Sums of |x - c|, by our own kernel, on units that are packed."""

    def __init__(self, engine, layer):
        super().__init__(engine, layer)
        self.item, self.tile = item_of(layer), _tile(engine, layer)
        if self.item == np.float64 and self.exponent != 1:
            self.exponent = 0.0  # which the kernel does not take
        units = engine.to_device(layer.units)
        self.table = None if layer.table is None else self.xp.array(layer.table)
        self.units = pack_rows(engine, units, self.item, self.tile.units, self.tile.step)

    @staticmethod
    def prepared_bytes(engine, layer):
        # The units and, once packed, padded to whole tiles; and what one tile of rows takes.
        (m, n), item, tile = layer.units.shape, item_of(layer), _tile(engine, layer)
        items = round_up(_n_items(n, item), tile.step)
        return layer.nbytes + items * item.itemsize * (round_up(m, tile.units) + tile.rows)

    @staticmethod
    def row_bytes(engine, layer):
        item, step = item_of(layer), _tile(engine, layer).step
        return round_up(_n_items(layer.n_features, item), step) * item.itemsize

    def hidden(self, X, out, units):
        item, tile, affine = self.item, self.tile, self.layer.on_sums
        rows = pack_rows(self.engine, X, item, tile.rows, tile.step)
        first = units.start // tile.units
        grid = rows.shape[1] // tile.rows, n_parts(units.stop, tile.units) - first
        n_items = _n_items(X.shape[1], item)
        part = PART if item == np.float32 else n_items
        for begin in range(0, n_items, part):
            end = min(begin + part, n_items)
            is_last = end == n_items
            self.engine.launch(
                manhattan(item, tile), grid, tile.threads, rows, self.units, out, first, begin,
                end, *_numbers(affine if is_last else Affine(), out.dtype),
                out.dtype.type(self.exponent if is_last else 0),
            )  # fmt: skip
        if self.table is None:
            self._finish_distances(out, units)
        else:
            look_up_columns(self.engine, out, units, self.table, self.layer.steps)


class SquaredEuclidean(CudaLayer):
    """Sums of (x - c)^2, expanded into products."""

    def __init__(self, engine, layer):
        super().__init__(engine, layer)
        units = engine.to_device(layer.units)
        # Taken from rows and units, so that products cancel less.
        centre = units.mean(axis=0, dtype=np.float64).astype(units.dtype)
        is_finite = engine.algebra.is_finite(centre)
        self.centre = centre if is_finite else self.xp.zeros_like(centre)
        self.units = units - self.centre
        self.norms = _squares(self.xp, self.units)

    @staticmethod
    def prepared_bytes(engine, layer):
        m, n = layer.units.shape  # and the units less their mean
        return (2 * m * n + n + 2 * m) * layer.units.itemsize

    @staticmethod
    def row_bytes(engine, layer):
        # And the row less the mean, and squared.
        return Product.row_bytes(engine, layer) + (2 * layer.n_features + 1) * layer.units.itemsize

    def hidden(self, X, out, units):
        layer, X = self.layer, X - self.centre
        self._multiply(X, self.units, out, units)
        # The kernel takes a root, if one comes first; a square is left to do.
        is_root = layer.power < 1
        affine = layer.affine if is_root else layer.on_sums
        self.engine.launch(
            expand(out.dtype), _grid(out, units, 1), THREADS, out, X, self.units,
            _squares(self.xp, X), self.norms, units.start, units.stop,
            out.dtype.type(CANCELLATION[out.dtype]), *_numbers(affine, out.dtype), is_root,
            out.dtype.type(self.exponent),
        )  # fmt: skip
        self._finish_distances(out, units)


class Product(CudaLayer):
    """Sums of x w, and a bias."""

    def __init__(self, engine, layer):
        super().__init__(engine, layer)
        self.units, self.bias = engine.to_device(layer.units), engine.to_device(layer.bias)[None]
        self.parts = engine.algebra.split(self.units)

    @staticmethod
    def prepared_bytes(engine, layer):
        n_split = engine.algebra.n_parts if layer.units.dtype == np.float32 else 0
        return (1 + n_split) * layer.units.nbytes + 2 * layer.n_units * layer.units.itemsize

    @staticmethod
    def row_bytes(engine, layer):
        # Products of a part of the units are made beside H.
        settings = engine.settings(layer)
        part = settings["M"] // settings["asymmetry"]
        n_rows = engine.algebra.n_parts if layer.units.dtype == np.float32 else 1
        n_numbers = min(part, layer.n_units) + n_rows * layer.n_features
        return n_numbers * layer.units.itemsize

    def hidden(self, X, out, units):
        algebra = self.engine.algebra
        if isinstance(X, self.xp.ndarray):
            rows, weights = algebra.split(X), [part[units] for part in self.parts]
            algebra.gemm_split(out[:, units].T, weights, [part.T for part in rows])
        else:
            self._multiply(X, self.units, out, units)
        affine, function = self.layer.affine, self.layer.function
        _finish(self.engine, out, units, affine, function, bias=self.bias)


def outputs(engine, layer, D, out):
    """As of `Engine`, by one kernel where it can: CuPy would compile one for each step."""
    kernel, (factor, affine) = layer.kernel, layer.kernel.scaled_affine(layer.radius)
    if layer.table is not None or factor != 1 or kernel.function not in FUNCTIONS:
        return layer.of_distances(D, out, engine.xp)
    engine.xp.copyto(out, D)  # which CuPy compiles nothing for
    units = slice(0, D.shape[1])
    _finish(engine, out, units, affine, kernel.function, is_squared=kernel.power == 2)
    return layer.round(out, engine.xp)


def _finish(engine, H, units, affine, function, is_squared=False, bias=None):
    """``H = function(affine(H or its square))`` in place, in some columns.

    By one kernel; a function that the kernel does not know is CuPy's to apply.
    """
    width = 16 // H.itemsize if H.shape[1] % (16 // H.itemsize) == 0 else 1
    if bias is None:
        bias = engine.to_device(np.full((1, H.shape[1]), affine.offset, H.dtype))
    fused = function if function in FUNCTIONS else IDENTITY
    engine.launch(
        map_rows(fused.name, is_squared, H.dtype, width), _grid(H, units, width), THREADS,
        H, bias, units.start, units.stop,
        finite(affine.scale, H.dtype), H.dtype.type(affine.floor),
    )  # fmt: skip
    if fused is not function:
        function.apply(H[:, units], engine.xp)


LAYERS = {"manhattan": Manhattan, "sqeuclidean": SquaredEuclidean, "product": Product}


def pack_rows(engine, X, item, multiple, step):
    """Rows feature by feature, padded: see `kernels.cuda.manhattan.pack`."""
    items = round_up(_n_items(X.shape[1], item), step)
    packed = engine.xp.empty((items, round_up(len(X), multiple)), item)
    transpose(engine, X, packed)
    return packed


def transpose(engine, X, out):
    """Rows to the columns of `out`, and zeros where it has more."""
    grid = tuple(n_parts(size, SQUARE) for size in out.shape[::-1])
    engine.launch(pack(out.dtype), grid, (SQUARE, 8), X, out)


def item_of(layer):
    """dtype of what a thread takes at a time: a number, or four bytes."""
    return np.dtype(np.uint32) if layer.units.dtype == np.uint8 else layer.units.dtype


def _numbers(affine, dtype):
    """What a kernel is handed of an affine step."""
    return finite(affine.scale, dtype), dtype.type(affine.offset), dtype.type(affine.floor)


def _tile(engine, layer):
    return Tile(*engine.settings(layer)["tile"])


def _grid(H, units, width):
    """Of a kernel that visits some columns of H, `width` of them a thread."""
    return over_rows(units.stop - units.start, len(H), THREADS * width)


def _n_items(n_features, item):
    return n_parts(n_features, 4) if item == np.uint32 else n_features


def _squares(xp, X):
    return xp.einsum("ij,ij->i", X, X)
