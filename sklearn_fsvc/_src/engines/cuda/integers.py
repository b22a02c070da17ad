"""Exact sums of products of rounded activations: of bytes, which a GPU adds up in 32 bits.

An activation is an integer times a power of two. Without its middle, so that 0 is in the middle
of what bytes hold, it is one byte, or ``128 a + b`` of two. The products of bytes are those of
cuBLAS, which wants them unit by unit.
"""

import numpy as np

from ..integers import MOST_ROWS
from ..kernels.cuda.integers import (
    LINES,
    SQUARE,
    THREADS,
    add_products,
    look_up,
    pack_bytes,
    round_rows,
)
from .launch import n_parts, over_rows, round_up

# Units and words of four rows are padded to multiples: cuBLAS asks for 16 bytes.
_UNITS, _WORDS = 32, 4
# Columns of sums at a time, at least.
_LEAST_STRIP = 64
# For each number of bytes: which are multiplied with which, and what a product stands for.
_PRODUCTS = {
    1: ((((0, 0),), 1),),
    2: ((((0, 0),), 128 * 128), (((0, 1), (1, 0)), 128), (((1, 1),), 1)),
}


def round_columns(engine, H, units, steps):
    """H in steps, in place, in a slice of its columns."""
    item = H.dtype.type
    engine.launch(
        round_rows(H.dtype), _grid(H, units), THREADS,
        H, units.start, units.stop, item(steps.scale), item(steps.most),
    )  # fmt: skip


def look_up_columns(engine, H, units, table, steps):
    """Outputs of the distances in H, in place, in a slice of its columns: see `RBFLayer.table`."""
    engine.launch(
        look_up(table.dtype), _grid(H, units), THREADS,
        H, table, units.start, units.stop, H.dtype.type(1 / steps.scale),
    )  # fmt: skip


def _grid(H, units):
    return over_rows(units.stop - units.start, len(H), THREADS)


def add_gram(blocks, H, steps, xp, launch, multiply):
    """Add H'H to the lower triangle of a matrix, as `..integers.add_gram` does on a host.

    Parameters
    ----------
    blocks, H, steps
        As there, of any number of rows.
    xp : module
    launch : callable
        As of the engine.
    multiply : callable
        ``multiply(A, B, sums, keep)`` puts B A' into `sums`, or adds it: for lines of words.
    """
    for start in range(0, len(H), MOST_ROWS):
        rows = H[start : start + MOST_ROWS]
        Bytes(rows, steps, xp, launch, multiply).add_to(blocks)


class Bytes:
    """Rows of H as bytes, unit by unit.

    Parameters
    ----------
    H, steps, xp, launch, multiply
        As of `add_gram`; of `MOST_ROWS` rows at most.
    """

    def __init__(self, H, steps, xp, launch, multiply):
        self.steps, self.xp, self.launch, self.multiply = steps, xp, launch, multiply
        (self.n_rows, n_units), n = H.shape, 2 if steps.bits > 8 else 1
        # What is taken from an activation in steps.
        self.shift = 0 if steps.is_signed else 2 ** (steps.bits - 1)
        padded, words = round_up(n_units, _UNITS), round_up(n_parts(self.n_rows, 4), _WORDS)
        packed = xp.empty((n * padded, words), "u4")
        grid = n_parts(words, SQUARE), n_parts(padded, SQUARE)
        self.launch(
            pack_bytes(H.dtype, n == 2), grid, (SQUARE, LINES),
            H, packed, H.dtype.type(steps.scale), self.shift,
        )  # fmt: skip
        self.planes = [packed[i * padded : (i + 1) * padded] for i in range(n)]
        self.unit = 1 / steps.scale**2

    def add_to(self, blocks):
        """Add the products to panels of a lower triangle."""
        nothing, lift = self.xp.zeros(len(self.planes[0])), self._lift()
        strip = min(max(_LEAST_STRIP, self.n_rows // 64 * 64), len(self.planes[0]))
        for first, block in blocks:
            for start in range(0, block.shape[1], strip):
                columns = block.T[start : start + strip]
                for i, (pairs, factor) in enumerate(_PRODUCTS[len(self.planes)]):
                    sums = self._sums(pairs, first, first + start, len(columns))
                    self._add(columns, sums, nothing if i else lift, first, start, factor)

    def _sums(self, pairs, first, begin, n):
        """Of products of the units from `first` on with those from `begin` on, and `n` or more."""
        end = begin + round_up(n, _UNITS)
        sums = self.xp.empty((end - begin, len(self.planes[0]) - first), "i4")
        for i, (a, b) in enumerate(pairs):
            self.multiply(self.planes[a][first:], self.planes[b][begin:end], sums, i > 0)
        return sums

    def _lift(self):
        """What the shift of each unit adds to its products, half of what both shifts add.

        ``(r + s)(t + s)`` is ``r t + s r + s t + s s``, summed over the rows.
        """
        # Made on the host, where nothing has to be compiled for it.
        of_both = self.shift**2 / 2 * self.n_rows * self.unit
        lift = self.xp.asarray(np.full(len(self.planes[0]), of_both))
        if self.shift:
            nothing, n = self.xp.zeros(len(lift)), len(self.planes)
            ones = self.xp.asarray(np.full((_UNITS, self.planes[0].shape[1]), 0x01010101, "u4"))
            for i, plane in enumerate(self.planes):
                sums = self.xp.empty((_UNITS, len(lift)), "i4")
                self.multiply(plane, ones, sums, False)
                factor = self.shift * 128 ** (n - 1 - i)
                self._add(lift[None], sums, nothing, 0, 0, factor)
        return lift

    def _add(self, A, sums, lift, first, start, factor):
        grid = over_rows(A.shape[1], len(A), THREADS, each=1)
        self.launch(
            add_products(), grid, THREADS,
            A, sums, lift, first, first + start, np.float64(factor * self.unit),
        )  # fmt: skip
