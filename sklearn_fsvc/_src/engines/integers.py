"""Exact sums of products of activations that are rounded to steps.

Activations in steps of 2^-8 are integers of 8 bits times a number that changes no digit. Sums of
their products are exact: in integers, by an instruction for bytes (those of 15 bits are two bytes)
or for pairs of 16 bits; in floats, for as many rows as the digits of the float can hold.
"""

import sys
from functools import cache, partial

import numpy as np

from .pool import share
from .threads import n_threads

# Rows whose products are added up in 32 bits: 255 * 255 * 32,768 < 2^31.
MOST_ROWS = 32_768
# Rows that are worth a product of their own.
_FEW_ROWS = 64
# Groups of units that a thread packs at a time, and columns that it adds up.
_PACKED, _COLUMNS = 8, 64


def exact_sums(steps, dtype):
    """How many integers add up without rounding in a float type."""
    return 2 ** (np.finfo(dtype).nmant + 1) // steps.most


def exact_products(steps, dtype):
    """A float type, this one or float64, and of how many rows it adds up products exactly."""
    n_rows = exact_sums(steps, dtype) // steps.most
    if n_rows < _FEW_ROWS:
        dtype, n_rows = np.dtype(np.float64), exact_sums(steps, np.float64) // steps.most
    return dtype, n_rows


@cache
def _instruction():
    """What this processor has for bytes, as `target.Target` says; None without compiled loops."""
    try:
        from numba import config

        from .kernels.target import TARGET
    except ImportError:
        return None
    return None if config.DISABLE_JIT else TARGET.uint8


def has_bytes():
    """Whether products of bytes are much faster than those of floats here.

    Apple's processors multiply bytes as well, but its library has a unit of its own for matrices of
    floats, beside which nobody has measured them.
    """
    return _multiplies_bytes() and sys.platform != "darwin"


def _multiplies_bytes():
    return _instruction() in ("vnni", "udot")


def has_integers(steps):
    """Whether there is a loop for such integers that is faster than exact products of floats."""
    return _multiplies_bytes() or (steps.bits == 8 and _instruction() == "sad")


def add_gram(blocks, H, steps):
    """Add H'H to the lower triangle of a matrix, by products of integers.

    Parameters
    ----------
    blocks : list of (int, ndarray)
        As those of `PackedSymmetric`: number of the first column, which is a multiple of 64,
        and the panel in float64.
    H : ndarray of shape (rows, units)
        Rounded to 8 or 15 bits by `steps`.
    steps : Steps
    """
    for start in range(0, len(H), MOST_ROWS):
        _add_gram(blocks, H[start : start + MOST_ROWS], steps)


def _add_gram(blocks, H, steps):
    from .kernels import integers

    if steps.bits == 8:
        zero = steps.zero if integers.HAS_BYTES else 0
        (words,), (totals,) = _packed(H, steps, zero, integers, "pack", 1)
        # Sums of the products of q, made of those of q + zero - LESS and q + zero.
        other, n_rows = zero - integers.LESS, words.shape[1] * integers.EACH
        more = -zero * totals - n_rows * zero * other, -other * totals
        multiply = partial(integers.add_products, words)
    else:
        (high, low), (of_high, of_low) = _packed(H, steps, steps.zero, integers, "split", 2)
        # Sums of the products of q, made of those of q + zero.
        less = -steps.zero * (128 * of_high + of_low)
        lost = integers.LESS * (128 + 1) * (128 * of_high + of_low) + steps.zero**2 * len(H)
        more, multiply = (less, less + lost), partial(integers.add_split_products, high, low)

    def add(part):
        begin, first, block = part
        end = min(begin + _COLUMNS, first + block.shape[1])
        multiply(first, begin, end, *more, steps.scale**-2, block.T)

    parts = [
        (begin, first, block)
        for first, block in blocks
        for begin in range(first, first + block.shape[1], _COLUMNS)
    ]
    share(add, parts, n_threads())


def _packed(H, steps, zero, integers, how, n):
    """(`n` arrays of words, sums of the units of each): see `kernels.integers`."""
    n_rows, n_units = H.shape
    n_groups = -(-n_units // integers.GROUP)
    shape = n_groups, -(-n_rows // integers.EACH), integers.GROUP
    packed, totals = [np.empty(shape, np.int32) for _ in range(n)], np.zeros((n, n_units))
    pack, sums = getattr(integers, f"{how}_{H.dtype}"), totals[0] if n == 1 else totals

    def fill(begin):
        end = min(begin + _PACKED, n_groups)
        pack(H, H.dtype.type(steps.scale), zero, begin, end, *packed, sums)

    share(fill, range(0, n_groups, _PACKED), n_threads())
    return packed, totals
