"""Compiled Gram matrices of integers: exact sums over samples of products of two activations.

`pack` arranges activations of 8 bits in groups of units. One word of 32 bits has the activations of
one unit for several samples, which one instruction multiplies and adds:

=====================================  ==================================================
words (groups, samples / 4, group)     4 bytes: vpdpbusd (AVX-512 VNNI, AVX-VNNI), or udot (Arm)
words (groups, samples / 2, group)     2 integers of 16 bits: pmaddwd (SSE2, AVX2, AVX-512)
=====================================  ==================================================

vpdpbusd multiplies unsigned with signed bytes, and activations are unsigned. So 128 is subtracted
from one operand when it is loaded, and the sums are corrected by the sum of each unit. udot
multiplies unsigned bytes.

Activations of 15 bits are split into two bytes, ``128 * high + low`` with 7 bits in the low one,
which are packed separately: four products of bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiling import FLOATS, jit, named
from .target import Target
from .vector_ops import I32, I64, VectorOps, unpack_arguments

# Number of groups whose words stay in the L2 cache while all columns are multiplied with them.
_CACHED_GROUPS = 8
# XOR with the sign bit of each byte subtracts 128 from an unsigned byte, and makes it signed.
_SIGN_BITS = -(2**31) + 0x808080
# Vectors of units in a group.
_VECTORS = 2

# Placeholders: `integer_loops` sets them in its copies of the functions below, to the values of a
# `WordLayout` and the intrinsic of `_make_products`.
PER_WORD, BITS, COLUMNS, GROUP = 4, 8, 8, 32
PRODUCTS: Any = None


@dataclass(frozen=True)
class WordLayout:
    """How activations are packed for a processor.

    Attributes
    ----------
    per_word, bits : int
        Samples in a word of 32 bits, and bits of each.
    sign_offset : int
        What is subtracted from one operand of the products to make it signed: 128 or 0.
    columns : int
        Columns that a group of units is multiplied with at a time: their sums occupy half of the
        vector registers.
    lanes, group : int
        Units in a vector and in a group.
    """

    target: Target

    @property
    def has_bytes(self) -> bool:
        return self.target.multiplies_bytes

    @property
    def per_word(self) -> int:
        return 4 if self.has_bytes else 2

    @property
    def bits(self) -> int:
        return 32 // self.per_word

    @property
    def sign_offset(self) -> int:
        return 128 if self.target.byte_instruction == "vnni" else 0

    @property
    def columns(self) -> int:
        return 8 if self.target.n_registers == 32 else 4

    @property
    def lanes(self) -> int:
        return self.target.width // 4

    @property
    def group(self) -> int:
        return _VECTORS * self.lanes


@dataclass(frozen=True)
class IntegerLoops:
    """The compiled loops for one processor, and their layout."""

    layout: WordLayout
    add_products: Any
    add_split_products: Any
    pack: dict[str, Any]  # dtype -> loop
    split: dict[str, Any]


@cache
def integer_loops(target: Target, ops: type[VectorOps] = VectorOps) -> IntegerLoops:
    """Return the loops for a processor; `ops` emits its instructions."""
    layout = WordLayout(target)
    constants = {
        "PER_WORD": layout.per_word, "BITS": layout.bits, "COLUMNS": layout.columns,
        "GROUP": layout.group, "PRODUCTS": _make_products(layout, ops),
    }  # fmt: skip

    def compiled(function, name):
        return jit(named(function, f"{name}_{target.tag}", **constants))

    return IntegerLoops(
        layout,
        compiled(_add_products, "add_products"),
        compiled(_add_split_products, "add_split_products"),
        {dtype: compiled(_pack, f"pack_{dtype}") for dtype in FLOATS},
        {dtype: compiled(_split, f"split_{dtype}") for dtype in FLOATS},
    )


class ProductEmitter:
    """Appends the code of the products of a group of units with some columns.

    `group` is the index of the group of units, `other` that of the group of the columns, which
    begin at the unit `first` of it.
    """

    def __init__(
        self, ops: VectorOps, layout: WordLayout, words: Any, group: Any, columns: Any, other: Any,
        first: Any,
    ) -> None:  # fmt: skip
        self.ops, self.b, self.layout = ops, ops.builder, layout
        self.words, self.columns = words, columns
        self.group, self.other, self.first = group, other, first
        self.n_words = self.b.extract_value(words.shape, 1)
        self.vector = ir.VectorType(I32, layout.lanes)

    def store(self, out: Any) -> None:
        """Write the products to an array (columns, units) of 32-bit integers."""
        b, layout = self.b, self.layout
        grid = tuple(product(range(layout.columns), range(_VECTORS)))
        multiply = self.ops.bytes_product if layout.has_bytes else self.ops.pairs_product
        zero = ir.Constant(self.vector, None)
        sums = {g: cgutils.alloca_once_value(b, zero) for g in grid}
        for g in grid:  # alloca_once_value initialises at the entry of the function only
            b.store(zero, sums[g])
        with cgutils.for_range(b, self.n_words) as loop:
            units = [self._unit_words(loop.index, v) for v in range(_VECTORS)]
            for c, column in enumerate(self._column_words(loop.index)):
                for v in range(_VECTORS):
                    b.store(multiply(b.load(sums[c, v]), column, units[v]), sums[c, v])
        for c, v in grid:
            pointer = b.gep(out.data, [I64(c * layout.group + v * layout.lanes)])
            b.store(b.load(sums[c, v]), b.bitcast(pointer, self.vector.as_pointer()), align=4)

    def _unit_words(self, k, v):
        """Load the words k of vector v of the units, less the sign offset of each byte."""
        b = self.b
        pointer = self._word_pointer(self.words, self.group, k, I64(v * self.layout.lanes))
        vector = self._load_vector(pointer)
        if not self.layout.sign_offset:
            return vector
        return b.xor(vector, ir.Constant(self.vector, [_SIGN_BITS] * self.layout.lanes))

    def _column_words(self, k):
        """Yield the word k of each column, in all lanes.

        udot takes one lane of a register as an operand, so columns are loaded as vectors for it.
        """
        b, lanes = self.b, self.layout.lanes
        first = self._word_pointer(self.columns, self.other, k, self.first)
        for c in range(self.layout.columns):
            pointer = b.gep(first, [I64(c)])
            if self.layout.target.byte_instruction != "udot":
                yield self.ops.splat(self.vector, b.load(pointer))
                continue
            if c % lanes == 0:
                vector = self._load_vector(pointer)
            mask = ir.Constant(ir.VectorType(I32, lanes), [c % lanes] * lanes)
            yield b.shuffle_vector(vector, vector, mask)

    def _word_pointer(self, words, group, k, unit):
        b = self.b
        step = b.add(b.mul(group, self.n_words), k)
        return b.gep(words.data, [b.add(b.mul(step, I64(self.layout.group)), unit)])

    def _load_vector(self, pointer):
        return self.b.load(self.b.bitcast(pointer, self.vector.as_pointer()), align=4)


def _make_products(layout: WordLayout, ops: type[VectorOps]) -> Callable:
    """Return the intrinsic of the products of a group of units with some columns."""

    @intrinsic
    def products(context, words, group, columns, other, first, out):
        signature = types.void(words, group, columns, other, first, out)

        def codegen(context, b, signature, args):
            *operands, out = unpack_arguments(context, b, signature, args)
            ProductEmitter(ops(b, layout.target), layout, *operands).store(out)
            return context.get_dummy_value()

        return signature, codegen

    return products


def _add_products(words, origin, begin, end, unit_terms, column_terms, scale, out):
    """Add ``scale * (products + unit_terms[i] + column_terms[j])`` to a symmetric matrix.

    To ``out[j - origin, i - origin]``, for the columns j from `begin`, a multiple of `GROUP`, to
    `end`, and all units i from the group of the column on.
    """
    n_units = origin + out.shape[1]
    sums = np.empty((COLUMNS, GROUP), np.int32)
    for cached in range(begin // GROUP, words.shape[0], _CACHED_GROUPS):
        for j in range(begin, end, COLUMNS):
            other = j // GROUP
            for i in range(max(cached, other), min(cached + _CACHED_GROUPS, words.shape[0])):
                PRODUCTS(words, i, words, other, j % GROUP, sums)
                first = i * GROUP
                for c in range(min(COLUMNS, end - j)):
                    column_term = column_terms[j + c]
                    for u in range(min(GROUP, n_units - first)):
                        total = np.float64(sums[c, u]) + unit_terms[first + u] + column_term
                        out[j + c - origin, first + u - origin] += scale * total


def _add_split_products(high, low, origin, begin, end, unit_terms, column_terms, scale, out):
    """`_add_products` for ``128 * high + low``: ``16384 hh' + 128 (hl' + lh') + ll'``."""
    n_units = origin + out.shape[1]
    high_high, high_low, low_high, low_low = np.empty((4, COLUMNS, GROUP), np.int32)
    for cached in range(begin // GROUP, high.shape[0], _CACHED_GROUPS // 2):
        for j in range(begin, end, COLUMNS):
            other, at = j // GROUP, j % GROUP
            for i in range(max(cached, other), min(cached + _CACHED_GROUPS // 2, high.shape[0])):
                PRODUCTS(high, i, high, other, at, high_high)
                PRODUCTS(high, i, low, other, at, high_low)
                PRODUCTS(low, i, high, other, at, low_high)
                PRODUCTS(low, i, low, other, at, low_low)
                first = i * GROUP
                for c in range(min(COLUMNS, end - j)):
                    column_term = column_terms[j + c]
                    for u in range(min(GROUP, n_units - first)):
                        mixed = np.float64(high_low[c, u]) + np.float64(low_high[c, u])
                        total = 16384.0 * high_high[c, u] + 128.0 * mixed + low_low[c, u]
                        total += unit_terms[first + u] + column_term
                        out[j + c - origin, first + u - origin] += scale * total


def _pack(H, scale, zero, begin, end, words, totals):
    """Pack the integers ``q + zero``, with ``q = H * scale``, of the groups `begin` to `end`.

    `totals` (units,) are the sums of q over the samples. Missing samples and units have q = 0.
    """
    n_rows, n_units = H.shape
    mask = 2**BITS - 1
    sums = np.zeros((end - begin, GROUP), np.int32)
    for k in range(words.shape[1]):
        row = k * PER_WORD
        for g in range(begin, end):
            first = g * GROUP
            is_whole = first + GROUP <= n_units and row + PER_WORD <= n_rows
            for u in range(GROUP):
                word = np.int32(0)
                for r in range(PER_WORD):
                    q = np.int32(0)
                    if is_whole or (first + u < n_units and row + r < n_rows):
                        q = np.int32(H[row + r, first + u] * scale)
                    word |= np.int32(((q + zero) & mask) << (BITS * r))
                    sums[g - begin, u] += q
                words[g, k, u] = word
    for g in range(begin, end):
        for u in range(min(GROUP, n_units - g * GROUP)):
            totals[g * GROUP + u] = sums[g - begin, u]


def _split(H, scale, zero, begin, end, high, low, totals):
    """Pack the high 8 and the low 7 bits of the integers ``H * scale + zero`` of 15 bits.

    `totals` (2, units) are the sums of both. Missing samples and units are 0.
    """
    n_rows, n_units = H.shape
    sums = np.zeros((2, end - begin, GROUP), np.int32)
    for k in range(high.shape[1]):
        row = k * PER_WORD
        for g in range(begin, end):
            first = g * GROUP
            is_whole = first + GROUP <= n_units and row + PER_WORD <= n_rows
            for u in range(GROUP):
                high_word, low_word = np.int32(0), np.int32(0)
                for r in range(PER_WORD):
                    q = np.int32(0)
                    if is_whole or (first + u < n_units and row + r < n_rows):
                        q = np.int32(H[row + r, first + u] * scale) + zero
                    high_word |= np.int32((q >> 7) << (BITS * r))
                    low_word |= np.int32((q & 127) << (BITS * r))
                    sums[0, g - begin, u] += q >> 7
                    sums[1, g - begin, u] += q & 127
                high[g, k, u], low[g, k, u] = high_word, low_word
    for g in range(begin, end):
        for u in range(min(GROUP, n_units - g * GROUP)):
            totals[0, g * GROUP + u] = sums[0, g - begin, u]
            totals[1, g * GROUP + u] = sums[1, g - begin, u]
