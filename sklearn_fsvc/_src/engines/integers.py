"""Exact Gram matrices of rounded activations, by products of integers on the host.

Activations that are rounded to b bits are integers times a constant power of two
(`formulas.Quantizer`). The sums of their products are exact, hence the same bits in every order
of the samples: in integer arithmetic, by an instruction for bytes (15 bits are two bytes) or for
pairs of 16-bit integers; in floating point, for as many samples as the mantissa can hold.
"""

import sys
from collections.abc import Iterable
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..formulas import Quantizer
from .threads import n_threads, parallel_for

# Samples whose products are added in 32 bits: 255 * 255 * 32,768 < 2^31.
MAX_ROWS = 32_768
# Fewer samples than these are not worth a floating-point product of their own.
_MIN_ROWS = 64
# Groups of units that a thread packs at a time, and columns that it adds.
_PACKED_GROUPS, _COLUMNS = 8, 64


def max_exact_terms(quantizer: Quantizer, dtype: npt.DTypeLike) -> int:
    """Return how many integers a float type sums without rounding."""
    return 2 ** (np.finfo(dtype).nmant + 1) // quantizer.max_code


def exact_product_dtype(quantizer: Quantizer, dtype: npt.DTypeLike) -> tuple[np.dtype, int]:
    """Return a float type, and for how many samples it sums products without rounding.

    That is `dtype`, or float64 if `dtype` holds too few of them.
    """
    dtype = np.dtype(dtype)
    n_rows = max_exact_terms(quantizer, dtype) // quantizer.max_code
    if n_rows < _MIN_ROWS:
        dtype = np.dtype(np.float64)
        n_rows = max_exact_terms(quantizer, dtype) // quantizer.max_code
    return dtype, n_rows


@cache
def compiled_target() -> Any:
    """Return the `kernels.target.Target` of this process; None if numba cannot compile."""
    try:
        from numba import config

        from .kernels.target import host_target
    except ImportError:
        return None
    return None if config.DISABLE_JIT else host_target()  # type: ignore[attr-defined]


def fast_bits(target: Any, platform: str = sys.platform) -> tuple[int, ...]:
    """Return the bits of activations for which bytes are much faster than floats.

    Apple's processors are excluded, although they multiply bytes: their BLAS has a matrix unit for
    floats, with which the loops for bytes have not been compared.
    """
    is_fast = target is not None and target.multiplies_bytes and platform != "darwin"
    return (8,) if is_fast else ()


def has_integer_loop(quantizer: Quantizer, target: Any) -> bool:
    """Return whether a loop of integers is faster than exact products of floats."""
    if target is None:
        return False
    return target.multiplies_bytes or (quantizer.bits == 8 and target.byte_instruction == "sad")


def add_gram(
    blocks: Iterable[tuple[int, np.ndarray]], H: np.ndarray, quantizer: Quantizer, loops: Any = None
) -> None:
    """Add H'H to the lower triangle of a matrix, by products of integers.

    Parameters
    ----------
    blocks : list of (int, ndarray)
        As those of `PackedSymmetric`: index of the first column, which is a multiple of 64,
        and the panel in float64.
    H : ndarray of shape (rows, units)
        Rounded to 8 or 15 bits by `quantizer`.
    quantizer : Quantizer
    loops : kernels.integers.IntegerLoops, optional
        Those of this processor by default.
    """
    if loops is None:
        from .kernels.integers import integer_loops

        loops = integer_loops(compiled_target())
    for start in range(0, len(H), MAX_ROWS):
        _add_gram(blocks, H[start : start + MAX_ROWS], quantizer, loops)


def _add_gram(blocks, H, quantizer, loops):
    """`add_gram` for so few samples that the sums fit into 32 bits.

    The products P that the loops compute are not those of the integers q of H: packed integers are
    q + zero (unsigned), and the sign offset of the layout is subtracted from one operand. For 8
    bits, with the sums s of q over n samples, n rounded up to whole words:

        P_ij = sum (q_i + zero - offset) (q_j + zero)
             = sum q_i q_j + zero s_i + (zero - offset) s_j + n zero (zero - offset)

    For 15 bits it is subtracted from both bytes, and s are the sums of the packed integers
    a = q + zero:

        P_ij = sum (a_i - 129 offset) a_j
             = sum q_i q_j + zero s_i + zero s_j - n zero^2 - 129 offset s_j

    What P has in excess is subtracted as one term for each unit and one for each column.
    """
    layout = loops.layout
    if quantizer.bits == 8:
        zero = quantizer.zero if layout.has_bytes else 0
        (words,), (sums,) = _packed(H, quantizer, zero, loops, loops.pack, 1)
        other, n_rows = zero - layout.sign_offset, words.shape[1] * layout.per_word
        terms = -zero * sums - n_rows * zero * other, -other * sums
        multiply = partial(loops.add_products, words)
    else:
        # q + zero = 128 high + low, in unsigned bytes; missing samples are 0 here.
        (high, low), (high_sums, low_sums) = _packed(
            H, quantizer, quantizer.zero, loops, loops.split, 2
        )
        sums = 128 * high_sums + low_sums
        shift = -quantizer.zero * sums
        lost = layout.sign_offset * (128 + 1) * sums + quantizer.zero**2 * len(H)
        terms, multiply = (shift, shift + lost), partial(loops.add_split_products, high, low)

    def add(part):
        begin, first, block = part
        end = min(begin + _COLUMNS, first + block.shape[1])
        multiply(first, begin, end, *terms, quantizer.scale**-2, block.T)

    parts = [
        (begin, first, block)
        for first, block in blocks
        for begin in range(first, first + block.shape[1], _COLUMNS)
    ]
    parallel_for(add, parts, n_threads())


def _packed(H, quantizer, zero, loops, pack, n):
    """Return (`n` arrays of words, their sums over the samples for each unit)."""
    layout, (n_rows, n_units) = loops.layout, H.shape
    n_groups = -(-n_units // layout.group)
    shape = n_groups, -(-n_rows // layout.per_word), layout.group
    packed, totals = [np.empty(shape, np.int32) for _ in range(n)], np.zeros((n, n_units))
    loop, sums = pack[str(H.dtype)], totals[0] if n == 1 else totals

    def fill(begin):
        end = min(begin + _PACKED_GROUPS, n_groups)
        loop(H, H.dtype.type(quantizer.scale), zero, begin, end, *packed, sums)

    parallel_for(fill, range(0, n_groups, _PACKED_GROUPS), n_threads())
    return packed, totals
