"""Products of integers with themselves: sums over rows of what two units answered, exactly.

`pack` lays activations of 8 bits out in groups of units. One word is what an instruction multiplies
and adds up in one step, in integers of 32 bits:

    words (groups, rows / 4, units of a group)      the bytes of four rows: vpdpbusd, udot
    words (groups, rows / 2, units of a group)      integers of 16 bits of two rows: pmaddwd

The first instruction (AVX-512 VNNI, AVX-VNNI) takes bytes without a sign times bytes with one. Ours
have none, so that one side is read less 128. What this takes away is put back from the sums of the
units. The second (dot products of Arm) takes bytes without a sign on both sides. The third is what
other x86 processors have (SSE2, AVX2, AVX-512).

Activations of 15 bits are two bytes, 128 times the high one and the low one of 7 bits, each packed
for itself: four products of bytes.
"""

from itertools import product

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from . import terms
from .compiling import FLOATS, jit, named
from .target import BYTES, TARGET
from .terms import I32

I64 = ir.IntType(64)
# Whether there is an instruction for bytes, and what it reads one side less; the rows of a word,
# and the bits of each.
HAS_BYTES = TARGET.uint8 in BYTES
LESS = 128 if TARGET.uint8 == "vnni" else 0
EACH, BITS = (4, 8) if HAS_BYTES else (2, 16)
MASK = 2**BITS - 1
# Columns and vectors of units whose sums are in registers together: 16 of 32, or 8 of 16.
COLUMNS, VECTORS = (8, 2) if TARGET.registers == 32 else (4, 2)
LANES = TARGET.width // 4
GROUP = VECTORS * LANES
# Groups that stay in the second cache while columns meet them.
_BLOCK = 8
# The sign bits of four bytes: without it, a byte is 128 less and has a sign.
_SIGNS = -(2**31) + 0x808080


class Products:
    """The sums of a group of units times some columns, while the code is emitted."""

    def __init__(self, b, words, group, columns, other, first):
        self.b, self.words, self.columns = b, words, columns
        self.group, self.other, self.first = group, other, first
        self.n_words = b.extract_value(words.shape, 1)
        self.vector = ir.VectorType(I32, LANES)

    def _word(self, words, group, k, unit):
        """Pointer to the word of a unit."""
        b = self.b
        step = b.add(b.mul(group, self.n_words), k)
        return b.gep(words.data, [b.add(b.mul(step, I64(GROUP)), unit)])

    def _vector(self, pointer):
        return self.b.load(self.b.bitcast(pointer, self.vector.as_pointer()), align=4)

    def _units(self, k, v):
        """The words of a vector of units, bytes less `LESS`."""
        b, pointer = self.b, self._word(self.words, self.group, k, I64(v * LANES))
        vector = self._vector(pointer)
        return b.xor(vector, ir.Constant(self.vector, [_SIGNS] * LANES)) if LESS else vector

    def _columns(self, k):
        """The word of each column, in all lanes: for `udot` a lane of a vector, else a load."""
        b, first = self.b, self._word(self.columns, self.other, k, self.first)
        for c in range(COLUMNS):
            place = b.gep(first, [I64(c)])
            if TARGET.uint8 != "udot":
                yield terms.splat(b, self.vector, b.load(place))
                continue
            if c % LANES == 0:
                vector = self._vector(place)
            lanes = ir.Constant(ir.VectorType(I32, LANES), [c % LANES] * LANES)
            yield b.shuffle_vector(vector, vector, lanes)

    def into(self, out):
        """Put them into an array (columns, units) of 32-bit integers."""
        b, grid = self.b, tuple(product(range(COLUMNS), range(VECTORS)))
        multiply = terms.bytes_product if HAS_BYTES else terms.pairs_product
        zero = ir.Constant(self.vector, None)
        sums = {g: cgutils.alloca_once_value(b, zero) for g in grid}
        for g in grid:  # alloca_once_value stores only once in a function
            b.store(zero, sums[g])
        with cgutils.for_range(b, self.n_words) as loop:
            units = [self._units(loop.index, v) for v in range(VECTORS)]
            for c, column in enumerate(self._columns(loop.index)):
                for v in range(VECTORS):
                    b.store(multiply(b, b.load(sums[c, v]), column, units[v]), sums[c, v])
        for c, v in grid:
            place = b.gep(out.data, [I64(c * GROUP + v * LANES)])
            b.store(b.load(sums[c, v]), b.bitcast(place, self.vector.as_pointer()), align=4)


@intrinsic
def _products(context, words, group, columns, other, first, out):
    """Sums over all rows of the words of a group times those of columns of another."""
    signature = types.void(words, group, columns, other, first, out)

    def codegen(context, b, signature, args):
        arrays = [
            make_array(kind)(context, b, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, args, strict=True)
        ]
        Products(b, *arrays[:5]).into(arrays[5])
        return context.get_dummy_value()

    return signature, codegen


@jit
def add_products(words, origin, begin, end, of_units, of_columns, scale, out):
    """Add ``scale * (products + of_units[i] + of_columns[j])`` to a symmetric matrix.

    To ``out[j - origin, i - origin]``, for the columns j from `begin`, a multiple of `GROUP`, to
    `end`, and all units i from the group of the column on.
    """
    n_units = origin + out.shape[1]
    sums = np.empty((COLUMNS, GROUP), np.int32)
    for low in range(begin // GROUP, words.shape[0], _BLOCK):
        for j in range(begin, end, COLUMNS):
            other = j // GROUP
            for i in range(max(low, other), min(low + _BLOCK, words.shape[0])):
                _products(words, i, words, other, j % GROUP, sums)
                first = i * GROUP
                for c in range(min(COLUMNS, end - j)):
                    more = of_columns[j + c]
                    for u in range(min(GROUP, n_units - first)):
                        total = np.float64(sums[c, u]) + of_units[first + u] + more
                        out[j + c - origin, first + u - origin] += scale * total


@jit
def add_split_products(high, low, origin, begin, end, of_units, of_columns, scale, out):
    """`add_products` of words in two slices: 128 times the high one, and the low one."""
    n_units = origin + out.shape[1]
    top, cross, across, rest = np.empty((4, COLUMNS, GROUP), np.int32)
    for start in range(begin // GROUP, high.shape[0], _BLOCK // 2):
        for j in range(begin, end, COLUMNS):
            other, at = j // GROUP, j % GROUP
            for i in range(max(start, other), min(start + _BLOCK // 2, high.shape[0])):
                _products(high, i, high, other, at, top)
                _products(high, i, low, other, at, cross)
                _products(low, i, high, other, at, across)
                _products(low, i, low, other, at, rest)
                first = i * GROUP
                for c in range(min(COLUMNS, end - j)):
                    more = of_columns[j + c]
                    for u in range(min(GROUP, n_units - first)):
                        middle = np.float64(cross[c, u]) + np.float64(across[c, u])
                        total = 16384.0 * top[c, u] + 128.0 * middle + rest[c, u]
                        total += of_units[first + u] + more
                        out[j + c - origin, first + u - origin] += scale * total


def _pack(H, steps, zero, begin, end, words, totals):
    """The integers ``H * steps + zero`` of the groups `begin` to `end`, and their sums less `zero`.

    Rows and units that are missing are as if H were 0.
    """
    n_rows, n_units = H.shape
    sums = np.zeros((end - begin, GROUP), np.int32)
    for k in range(words.shape[1]):
        row = k * EACH
        for g in range(begin, end):
            first = g * GROUP
            is_whole = first + GROUP <= n_units and row + EACH <= n_rows
            for u in range(GROUP):
                word = np.int32(0)
                for r in range(EACH):
                    q = np.int32(0)
                    if is_whole or (first + u < n_units and row + r < n_rows):
                        q = np.int32(H[row + r, first + u] * steps)
                    word |= np.int32(((q + zero) & MASK) << (BITS * r))
                    sums[g - begin, u] += q
                words[g, k, u] = word
    for g in range(begin, end):
        for u in range(min(GROUP, n_units - g * GROUP)):
            totals[g * GROUP + u] = sums[g - begin, u]


pack_float32, pack_float64 = (jit(named(_pack, f"pack_{t}")) for t in FLOATS)


def _split(H, steps, zero, begin, end, high, low, totals):
    """`_pack` for numbers ``H * steps + zero`` of 15 bits: their high 8 and their low 7.

    Rows and units that are missing are all 0. `totals` (2, units) are sums of both.
    """
    n_rows, n_units = H.shape
    sums = np.zeros((2, end - begin, GROUP), np.int32)
    for k in range(high.shape[1]):
        row = k * EACH
        for g in range(begin, end):
            first = g * GROUP
            is_whole = first + GROUP <= n_units and row + EACH <= n_rows
            for u in range(GROUP):
                top, rest = np.int32(0), np.int32(0)
                for r in range(EACH):
                    q = np.int32(0)
                    if is_whole or (first + u < n_units and row + r < n_rows):
                        q = np.int32(H[row + r, first + u] * steps) + zero
                    top |= np.int32((q >> 7) << (BITS * r))
                    rest |= np.int32((q & 127) << (BITS * r))
                    sums[0, g - begin, u] += q >> 7
                    sums[1, g - begin, u] += q & 127
                high[g, k, u], low[g, k, u] = top, rest
    for g in range(begin, end):
        for u in range(min(GROUP, n_units - g * GROUP)):
            totals[0, g * GROUP + u] = sums[0, g - begin, u]
            totals[1, g * GROUP + u] = sums[1, g - begin, u]


split_float32, split_float64 = (jit(named(_split, f"split_{t}")) for t in FLOATS)
