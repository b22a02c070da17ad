"""Exact sums of products of quantised activations, from 8-bit integer products of cuBLAS.

A quantised activation is an integer, its code, times a power of two. Unsigned codes are shifted by
half of their range, so that they are signed. Codes of more than 8 bits have several digits of base
256, signed bytes. cuBLAS multiplies bytes and sums the products in 32-bit integers, exactly.

Activations in float32 are rounded to codes of 23 bits: three digits, whose nine products take less
time than one product in float64 (Ozaki, Ogita, Oishi and Rump 2012).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..integers import MAX_ROWS
from ..kernels.cuda.elementwise import add_products, look_up_activations, quantise
from ..kernels.cuda.kernel import BlockSizes
from ..kernels.cuda.packing import pack_codes
from .launch import ceil_div, grid_over_rows, round_up

# Multiples to which units, and words of four samples, are padded: cuBLAS needs lines of 16 bytes.
_UNITS, _WORDS = 32, 4
# Units whose products are computed at a time, at least.
_MIN_STRIP = 64
# Base of the digits of a code.
_BASE = 256


def round_columns(engine: Any, H: Any, units: slice, quantizer: Any) -> None:
    """Quantise a slice of the columns of H, in place."""
    item, threads = H.dtype.type, engine.block_sizes.threads
    engine.launch(
        quantise(H.dtype, threads), column_grid(engine, H, units), threads,
        H, units.start, units.stop, item(quantizer.scale), item(quantizer.max_code),
    )  # fmt: skip


def look_up_columns(engine: Any, H: Any, units: slice, table: Any, quantizer: Any) -> None:
    """Replace the distances in a slice of the columns of H by activations: see `RBFLayer.table`."""
    threads = engine.block_sizes.threads
    engine.launch(
        look_up_activations(table.dtype, threads), column_grid(engine, H, units), threads,
        H, table, units.start, units.stop, H.dtype.type(1 / quantizer.scale),
    )  # fmt: skip


def column_grid(engine: Any, H: Any, units: slice, width: int = 1) -> tuple[int, int]:
    """Return the grid of an elementwise kernel on a slice of the columns of H."""
    return grid_over_rows(units.stop - units.start, len(H), width * engine.block_sizes.threads)


def add_gram(
    blocks: Sequence[tuple[int, Any]],
    H: Any,
    Y: Any,
    quantizer: Any,
    xp: Any,
    launch: Callable[..., None],
    multiply: Callable[[Any, Any, Any, bool], None],
    sizes: BlockSizes,
) -> Any:
    """Add H'H to the lower triangle of a matrix, as `..integers.add_gram` does on a host.

    Parameters
    ----------
    blocks, H, quantizer
        See `..integers.add_gram`; any number of rows.
    Y : array of shape (n_rows, n_outputs) or None
        Integers from -128 to 127, in the dtype of H.
    xp : module
    launch : callable
        See `CudaEngine.launch`.
    multiply : callable
        See `cublas.multiply_bytes`.
    sizes : BlockSizes

    Returns
    -------
    array of shape (n_units, n_outputs), float64, or None
        ``H'Y`` of the shifted codes: the shift is not added back.
    """
    total = None
    for start in range(0, len(H), MAX_ROWS):
        rows = slice(start, start + MAX_ROWS)
        codes = _PackedCodes(H[rows], quantizer, xp, launch, multiply, sizes)
        if Y is not None:
            total = codes.add_products_with(Y[rows], total)
        codes.add_gram_to(blocks)
    return None if total is None else total.T[: H.shape[1]]


def shift_of(quantizer: Any) -> int:
    """Return what is subtracted from unsigned codes."""
    return 0 if quantizer.is_signed else 2 ** (quantizer.bits - 1)


class FixedPoint(NamedTuple):
    """Quantisation of activations in float32 to ``code / scale``; as `formulas.Quantizer`."""

    scale: float  # a power of two
    bits: int = 23
    max_code: int = 2**22
    is_signed: bool = True

    @classmethod
    def of_range(cls, largest: float) -> "FixedPoint":
        """Return the finest quantisation for activations of at most this absolute value."""
        exponent = math.frexp(largest)[1]
        return cls(math.ldexp(1.0, cls._field_defaults["bits"] - 1 - exponent))


class _PackedCodes:
    """The codes of H as bytes, one line per unit: see `add_gram`; at most `MAX_ROWS` rows.

    Attributes
    ----------
    planes : list
        An array (padded units, words) for each digit, the highest one first.
    unit : float
        Value of a product of two codes of 1.
    """

    def __init__(self, H, quantizer, xp, launch, multiply, sizes):
        self.quantizer, self.xp, self.multiply = quantizer, xp, multiply
        self._launch, self._threads = launch, sizes.threads
        self._sizes, self.n_rows = sizes, len(H)
        self.shift = shift_of(quantizer)
        self.planes = self._pack(H, quantizer.scale, self.shift, ceil_div(quantizer.bits, 8))
        self.unit = 1 / quantizer.scale**2

    def _pack(self, H, scale, shift, n_planes):
        """Return the bytes of ``scale H - shift``, as lines, in `n_planes` planes."""
        padded = round_up(H.shape[1], _UNITS)
        words = round_up(ceil_div(self.n_rows, 4), _WORDS)
        packed = self.xp.empty((n_planes * padded, words), "u4")
        side, lines = self._sizes.square, self._sizes.lines
        self._launch(
            pack_codes(H.dtype, n_planes, side, lines),
            (ceil_div(words, side), ceil_div(padded, side)), (side, lines),
            H, packed, H.dtype.type(scale), shift,
        )  # fmt: skip
        return [packed[i * padded : (i + 1) * padded] for i in range(n_planes)]

    def add_products_with(self, Y, total):
        """Return Y'H of the shifted codes for integers Y, added to `total` if it is given."""
        (lines,), n_units = self._pack(Y, 1, 0, 1), len(self.planes[0])
        total = self.xp.zeros((Y.shape[1], n_units)) if total is None else total
        zeros = self.xp.zeros(max(n_units, len(total)))
        for i, plane in enumerate(reversed(self.planes)):
            products = self.xp.empty((len(lines), n_units), "i4")
            self.multiply(plane, lines, products, False)
            self._add(total, products, zeros, 0, 0, _BASE**i * self.quantizer.scale)
        return total

    def add_gram_to(self, blocks):
        """Add the products to panels of a lower triangle."""
        zeros, shifts = self.xp.zeros(len(self.planes[0])), self._shift_terms()
        strip = min(max(_MIN_STRIP, self.n_rows // 64 * 64), len(self.planes[0]))
        for first, block in blocks:
            for start in range(0, block.shape[1], strip):
                columns = block.T[start : start + strip]
                for i, (pairs, factor) in enumerate(_products_of(len(self.planes))):
                    products = self._products(pairs, first, first + start, len(columns))
                    # The shift is undone once, together with the first product.
                    self._add(columns, products, zeros if i else shifts, first, start, factor)

    def _products(self, pairs, first, begin, n):
        """Return products of the units from `first` on and at least `n` units from `begin` on.

        Summed over pairs of planes; an int32 array (units from `begin` on, units from `first` on).
        """
        end = begin + round_up(n, _UNITS)
        sums = self.xp.empty((end - begin, len(self.planes[0]) - first), "i4")
        for i, (a, b) in enumerate(pairs):
            self.multiply(self.planes[a][first:], self.planes[b][begin:end], sums, i > 0)
        return sums

    def _shift_terms(self):
        """Return a term per unit; those of two units, added to their product, undo the shift.

        For codes r, t after subtraction of s, ``(r + s)(t + s) = r t + s r + s t + s s``, summed
        over the samples. The last term is split in halves between the two units.
        """
        # On the host, since CuPy would have to compile a kernel for it.
        half_of_squares = self.shift**2 / 2 * self.n_rows * self.unit
        terms = self.xp.asarray(np.full(len(self.planes[0]), half_of_squares))
        if self.shift:
            zeros, n = self.xp.zeros(len(terms)), len(self.planes)
            # Sums of codes are products with bytes of 1.
            ones = self.xp.asarray(np.full((_UNITS, self.planes[0].shape[1]), 0x01010101, "u4"))
            for i, plane in enumerate(self.planes):
                sums = self.xp.empty((_UNITS, len(terms)), "i4")
                self.multiply(plane, ones, sums, False)
                factor = self.shift * _BASE ** (n - 1 - i)
                self._add(terms[None], sums, zeros, 0, 0, factor)
        return terms

    def _add(self, A, products, shifts, first, start, factor):
        grid = grid_over_rows(A.shape[1], len(A), self._threads, rows_per_block=1)
        self._launch(
            add_products(self._threads), grid, self._threads,
            A, products, shifts, first, first + start, np.float64(factor * self.unit),
        )  # fmt: skip


def _products_of(n):
    """Yield lists of pairs of the n digits of two codes, and the weight of their products.

    The digits i and j have the weights ``_BASE ** (n - 1 - i)`` and ``_BASE ** (n - 1 - j)``.
    """
    for total in range(2 * n - 1):
        pairs = [(i, total - i) for i in range(n) if 0 <= total - i < n]
        yield pairs, _BASE ** (2 * n - 2 - total)
