"""Hidden layers on a GPU: one class for each way to accumulate over the features.

An instance holds the arrays of a layer on the GPU and computes H. The static methods return memory
requirements, before anything is allocated.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ...formulas import IDENTITY, Affine, Function, as_finite
from ..algebra import SPLIT_COPIES
from ..base import SQUARE_CANCELLATION
from ..kernels.cuda.elementwise import FUNCTIONS, apply_function, expand_distances
from ..kernels.cuda.manhattan import Tile, manhattan
from ..kernels.cuda.packing import pack_features
from .integers import column_grid, look_up_columns
from .launch import ceil_div, round_up


class CudaLayer(ABC):
    """A layer in the memory of the current GPU of an engine.

    Attributes
    ----------
    is_rounding : bool
        Whether `hidden` quantises activations of a layer that has a quantizer.
    """

    is_rounding = False

    def __init__(self, engine: Any, layer: Any) -> None:
        self.engine, self.layer, self.xp = engine, layer, engine.xp
        # Exponent of the exponential that the distance kernels apply, 0 for none.
        self.exponent = layer.function.exponent if layer.power != 2 else 0.0

    @staticmethod
    @abstractmethod
    def prepared_bytes(engine: Any, layer: Any) -> int:
        """See `Engine.prepared_bytes`."""

    @staticmethod
    @abstractmethod
    def row_bytes(engine: Any, layer: Any) -> int:
        """See `Engine.row_bytes`."""

    @abstractmethod
    def hidden(self, X: Any, out: Any, units: slice) -> None:
        """Write the activations of `units` for the samples X to these columns of `out`."""

    def _multiply(self, X: Any, W: Any, out: Any, units: slice) -> None:
        """Write ``X W[units]'`` to these columns of `out`; X may be sparse."""
        if isinstance(X, self.xp.ndarray):
            self.engine.algebra.gemm(out[:, units].T, W[units], X.T, beta=0.0)
        else:
            out[:, units] = X @ W[units].T

    def _finish_distances(self, H: Any, units: slice) -> None:
        """Apply the steps that the distance kernel left out: all of them if it is squared."""
        layer = self.layer
        if layer.power == 2:
            _finish(self.engine, H, units, layer.affine, layer.function, is_squared=True)
        elif not (layer.function is IDENTITY or self.exponent):
            _finish(self.engine, H, units, Affine(), layer.function)


class Manhattan(CudaLayer):
    """Sums of |x - c|, by a kernel of this package on packed units."""

    def __init__(self, engine: Any, layer: Any) -> None:
        super().__init__(engine, layer)
        self.item, self.tile = item_of(layer), _tile(engine, layer)
        if self.item == np.float64 and self.exponent != 1:
            self.exponent = 0.0  # the float64 kernel has no powers
        units = engine.to_device(layer.units)
        self.table = None if layer.table is None else self.xp.array(layer.table)
        self.units = pack_rows(engine, units, self.item, self.tile.units, self.tile.step)

    @staticmethod
    def prepared_bytes(engine: Any, layer: Any) -> int:
        # The units, as they are and packed in whole tiles; and padding of one tile of samples.
        (m, n), item, tile = layer.units.shape, item_of(layer), _tile(engine, layer)
        items = round_up(_n_items(n, item), tile.step)
        return layer.nbytes + items * item.itemsize * (round_up(m, tile.units) + tile.rows)

    @staticmethod
    def row_bytes(engine: Any, layer: Any) -> int:
        item, step = item_of(layer), _tile(engine, layer).step
        return round_up(_n_items(layer.n_features, item), step) * item.itemsize

    def hidden(self, X: Any, out: Any, units: slice) -> None:
        item, tile, affine = self.item, self.tile, self.layer.affine_of_sum
        rows = pack_rows(self.engine, X, item, tile.rows, tile.step)
        first = units.start // tile.units
        grid = rows.shape[1] // tile.rows, ceil_div(units.stop, tile.units) - first
        n_items = _n_items(X.shape[1], item)
        # A long running sum in float32 loses digits of small terms.
        part = self.engine.features_per_sum if item == np.float32 else n_items
        for begin in range(0, n_items, part):
            end = min(begin + part, n_items)
            is_last = end == n_items
            self.engine.launch(
                manhattan(item, tile), grid, tile.threads, rows, self.units, out, first, begin,
                end, *_affine_arguments(affine if is_last else Affine(), out.dtype),
                out.dtype.type(self.exponent if is_last else 0),
            )  # fmt: skip
        if self.table is None:
            self._finish_distances(out, units)
        else:
            look_up_columns(self.engine, out, units, self.table, self.layer.quantizer)


class SquaredEuclidean(CudaLayer):
    """Sums of (x - c)^2, expanded to ``|x|^2 + |c|^2 - 2 x.c`` for cuBLAS."""

    def __init__(self, engine: Any, layer: Any) -> None:
        super().__init__(engine, layer)
        units = engine.to_device(layer.units)
        # Samples and units are centred at the mean of the units, so that less cancels.
        centre = units.mean(axis=0, dtype=np.float64).astype(units.dtype)
        is_finite = engine.algebra.is_finite(centre)
        self.centre = centre if is_finite else self.xp.zeros_like(centre)
        self.units = units - self.centre
        self.norms = _squared_norms(self.xp, self.units)

    @staticmethod
    def prepared_bytes(engine: Any, layer: Any) -> int:
        m, n = layer.units.shape  # the units as they are and centred
        return (2 * m * n + n + 2 * m) * layer.units.itemsize

    @staticmethod
    def row_bytes(engine: Any, layer: Any) -> int:
        # In addition the centred sample, and its squares.
        return Product.row_bytes(engine, layer) + (2 * layer.n_features + 1) * layer.units.itemsize

    def hidden(self, X: Any, out: Any, units: slice) -> None:
        layer, X = self.layer, X - self.centre
        self._multiply(X, self.units, out, units)
        # The kernel takes a square root first; a square is left to `_finish_distances`.
        is_root = layer.power < 1
        affine = layer.affine if is_root else layer.affine_of_sum
        threads = self.engine.block_sizes.threads
        self.engine.launch(
            expand_distances(out.dtype, threads), column_grid(self.engine, out, units), threads,
            out, X, self.units,
            _squared_norms(self.xp, X), self.norms, units.start, units.stop,
            out.dtype.type(SQUARE_CANCELLATION[out.dtype]), *_affine_arguments(affine, out.dtype),
            is_root, out.dtype.type(self.exponent),
        )  # fmt: skip
        self._finish_distances(out, units)


class Product(CudaLayer):
    """Sums of x w by cuBLAS or cuSPARSE, and a bias."""

    def __init__(self, engine: Any, layer: Any) -> None:
        super().__init__(engine, layer)
        self.units, self.bias = engine.to_device(layer.units), engine.to_device(layer.bias)[None]
        self.parts = engine.algebra.split(self.units)
        self.is_rounding = layer.function in FUNCTIONS

    @staticmethod
    def prepared_bytes(engine: Any, layer: Any) -> int:
        n_copies = (
            engine.algebra.n_split_terms + SPLIT_COPIES if layer.units.dtype == np.float32 else 0
        )
        return (1 + n_copies) * layer.units.nbytes + 2 * layer.n_units * layer.units.itemsize

    @staticmethod
    def row_bytes(engine: Any, layer: Any) -> int:
        # Products of a part of the units are in memory at the same time as H.
        settings = engine.settings(layer)
        part = settings["M"] // settings["asymmetry"]
        n_copies = (
            engine.algebra.n_split_terms + SPLIT_COPIES if layer.units.dtype == np.float32 else 1
        )
        n_numbers = min(part, layer.n_units) + n_copies * layer.n_features
        return n_numbers * layer.units.itemsize

    def hidden(self, X: Any, out: Any, units: slice) -> None:
        algebra, dtype = self.engine.algebra, self.units.dtype
        if isinstance(X, self.xp.ndarray):
            # TF32 represents bytes exactly.
            rows = (X.astype(dtype),) if X.dtype == np.uint8 else algebra.split(X)
            weights = [part[units] for part in self.parts]
            algebra.gemm_split(out[:, units].T, weights, [part.T for part in rows], True)
        else:
            self._multiply(X, self.units, out, units)
        layer, quantizer = self.layer, self.layer.quantizer if self.is_rounding else None
        _finish(
            self.engine, out, units, layer.affine, layer.function, bias=self.bias,
            quantizer=quantizer,
        )  # fmt: skip


# By `reduction` of a layer.
LAYERS: dict[str, type[CudaLayer]] = {
    "manhattan": Manhattan,
    "sqeuclidean": SquaredEuclidean,
    "product": Product,
}


def activate_distances(engine: Any, layer: Any, D: Any, out: Any) -> Any:
    """See `Engine.activate_distances`.

    By one kernel where possible: CuPy would compile a kernel of its own for each operation.
    """
    kernel, (factor, affine) = layer.kernel, layer.kernel.scaled_affine(layer.radius)
    if layer.table is not None or factor != 1 or kernel.function not in FUNCTIONS:
        return layer.from_distances(D, out, engine.xp)
    engine.xp.copyto(out, D)  # CuPy contains this kernel compiled
    units = slice(0, D.shape[1])
    _finish(engine, out, units, affine, kernel.function, is_squared=kernel.power == 2)
    return layer.round(out, engine.xp)


def _finish(
    engine: Any,
    H: Any,
    units: slice,
    affine: Affine,
    function: Function,
    is_squared: bool = False,
    bias: Any = None,
    quantizer: Any = None,
) -> None:
    """Compute ``H = function(affine(H))``, or of the square of H, in place in some columns.

    One kernel computes all of it, and quantises the result if a quantizer is given, except
    functions that it does not have: those are left to CuPy.
    """
    width = 16 // H.itemsize if H.shape[1] % (16 // H.itemsize) == 0 else 1
    if bias is None:
        bias = engine.to_device(np.full((1, H.shape[1]), affine.offset, H.dtype))
    fused = function if function in FUNCTIONS else IDENTITY
    threads, item = engine.block_sizes.threads, H.dtype.type
    steps, max_code = (0, 0) if quantizer is None else (quantizer.scale, quantizer.max_code)
    engine.launch(
        apply_function(fused.name, is_squared, H.dtype, width, threads),
        column_grid(engine, H, units, width), threads, H, bias, units.start, units.stop,
        as_finite(affine.scale, H.dtype), item(affine.floor), item(steps), item(max_code),
    )  # fmt: skip
    if fused is not function:
        function.apply(H[:, units], engine.xp)


def pack_rows(engine: Any, X: Any, item: np.dtype, multiple: int, step: int) -> Any:
    """Return X transposed, (items, rows): see `kernels.cuda.packing.pack_features`.

    Rows are padded to a multiple of `multiple`, items to a multiple of `step`.
    """
    items = round_up(_n_items(X.shape[1], item), step)
    packed = engine.xp.empty((items, round_up(len(X), multiple)), item)
    transpose(engine, X, packed)
    return packed


def transpose(engine: Any, X: Any, out: Any) -> None:
    """Write X' to `out`, padded with zeros."""
    side, lines = engine.block_sizes.square, engine.block_sizes.lines
    grid = tuple(ceil_div(size, side) for size in out.shape[::-1])
    engine.launch(pack_features(out.dtype, side, lines), grid, (side, lines), X, out)


def item_of(layer: Any) -> np.dtype:
    """Return the dtype that a thread processes at a time: that of a feature, or four bytes."""
    return np.dtype(np.uint32) if layer.units.dtype == np.uint8 else layer.units.dtype


def _affine_arguments(affine: Affine, dtype: np.dtype) -> tuple[Any, Any, Any]:
    return as_finite(affine.scale, dtype), dtype.type(affine.offset), dtype.type(affine.floor)


def _tile(engine: Any, layer: Any) -> Tile:
    return Tile(*engine.settings(layer)["tile"])


def _n_items(n_features: int, item: np.dtype) -> int:
    return ceil_div(n_features, 4) if item == np.uint32 else n_features


def _squared_norms(xp: Any, X: Any) -> Any:
    return xp.einsum("ij,ij->i", X, X)
