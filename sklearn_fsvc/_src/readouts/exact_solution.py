"""Ridge readouts of exact sums that do not depend on rounding.

Sums of quantised activations and of classes are integers times a power of two. With ``G = sum h
h'``, ``h = sum h``, ``c = sum h y'``, ``s = sum y`` and the number n of samples, the equations

    (G + alpha I) W' + h b' = c
    h' W' + n b' = s

have one exact solution. `solve_exactly` returns it, each number rounded once, so that its bits
depend neither on the processor, BLAS, threads or device, nor on the precision of the factor.

It is computed as by long division. Each step solves the equations for the remainder, in floats,
appends the leading digits of that to the solution, and subtracts their products with the equations
from the remainder: iterative refinement with exact residuals. The digits are multiplied in slices
of so few bits that no sum of products is rounded, by whatever BLAS it is computed (K. Ozaki, T.
Ogita, S. Oishi and S. M. Rump 2012, "Error-free transformations of matrix multiplication by using
fast routines of matrix multiplication and its applications").
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.algebra import HOST
from .linear import Solution

# Bits of the significand of a float64, and of numbers into which others are split.
_SIGNIFICAND, _SHORT = 53, 24
# Bits that a step appends, at most: products with `_SHORT` bits are exact. And how many more than
# are likely to be right.
_MAX_DIGITS, _MORE_DIGITS = 26, 4
# Bits of a slice of the digits, at least. If elements of G have too many bits, they are split, too.
_MIN_SLICE = 4
# Steps before the equations count as too ill-conditioned. Each has to reduce the remainder by the
# factor, at most.
_MAX_STEPS, _MAX_CONTRACTION = 40, 1 / 4
# How many times the estimate of the error is allowed for.
_SAFETY = 8
# Rows that are subtracted at a time, so that the arrays stay in the cache.
_BLOCK = 1024
# Numbers below this fraction of the largest one of their output are 0: no number of digits could
# tell them from 0.
_TINY = 2.0**-64

Array = npt.NDArray[np.float64]


def solve_exactly(
    statistics: Any, alpha: float, solve: Callable[[Array], Array]
) -> Solution | None:
    """Return the exact solution of the ridge equations, each number rounded once.

    To the dtype of the products of H, float32 or float64; the arrays are float64.

    Parameters
    ----------
    statistics : RidgeStatistics
        With exact sums (`Moments.is_exact`).
    alpha : float
    solve : callable
        ``solve(right)`` returns the solution of the centred equations for an array (n_units,
        n_outputs) on the host, in float64, up to rounding.

    Returns
    -------
    solution : Solution or None
        None if the equations are so ill-conditioned that steps hardly reduce the remainder.
    """
    equations = _Equations(statistics, alpha, solve)
    dtype = np.dtype(np.float32 if statistics.dtype == np.float32 else np.float64)
    remainder, solution = _Pair(equations.right), _Pair(np.zeros_like(equations.right))
    n_digits, contraction, previous = _MAX_DIGITS, 0.0, None
    for _ in range(_MAX_STEPS):
        digits = _leading(equations.solve(remainder.high), n_digits)
        solution.add(digits)
        change = np.abs(digits).max(axis=0)
        if previous is not None:
            ratio = np.divide(change, previous, out=np.zeros_like(change), where=previous > 0)
            contraction = max(contraction, 2.0**-n_digits, float(ratio.max()))
            if not contraction <= _MAX_CONTRACTION:
                return None
            n_digits = min(_MAX_DIGITS, _n_bits(1 / contraction) + _MORE_DIGITS)
            rounded = _round_if_certain(solution, _SAFETY * contraction * change, dtype)
            if rounded is not None:
                to_device = statistics.algebra.to_device
                return Solution(to_device(rounded[:-1].T.copy()), to_device(rounded[-1]))
        for rows, product in equations.products(digits):
            remainder.subtract(product, rows)
        remainder.normalise()
        previous = change
    return None


class _Equations:
    """The equations in the columns ``[W'; b']``, on the host except for G."""

    def __init__(self, statistics, alpha, solve):
        self._gram, self._algebra, self._solve = statistics.gram, statistics.algebra, solve
        self._h, hy, y = map(self._algebra.to_host, (statistics.h, statistics.hy, statistics.y))
        self.right, self._n = np.vstack([hy, y]), statistics.n
        # In units of one step of the quantiser for each factor, G and h are integers. No element of
        # G is larger than the largest of the diagonal, and none of h: codes are integers.
        scale = statistics.quantizer.scale
        self._units = scale**-2.0, 1.0 / scale
        # One bit at least: all activations may be rounded to 0.
        n_bits = max(1, _n_bits(float(self._gram.diagonal().max()) * scale**2))
        # Bits that a product may have, so that sums over all units are exact.
        available = _SIGNIFICAND - _n_bits(len(self._h)) - 1
        self._n_parts = -(-n_bits // (available - _MIN_SLICE))
        self._width = -(-n_bits // self._n_parts)
        self._slice = min(_MAX_DIGITS, available - self._width)
        self._alphas, self._counts = list(_short_parts(alpha)), list(_short_parts(self._n))

    def solve(self, right: Array) -> Array:
        """Return the solution for a right-hand side, up to rounding."""
        h, of_b = self._h[:, None], right[-1]
        W = self._solve(right[:-1] - h * (of_b / self._n))
        return np.vstack([W, (of_b - HOST.multiply(h.T, W)[0]) / self._n])

    def products(self, digits: Array) -> Iterator[tuple[slice, Array]]:
        """Yield rows of the equations, and a term of their products with some digits, all exact."""
        of_W, of_b = slice(None, -1), slice(-1, None)
        slices = list(_slices(digits, self._slice))
        if not slices:  # all digits are zero, as for a constant y
            return
        W = np.hstack([part[:-1] for part in slices])
        on_device = self._algebra.xp.asarray(W, order="F")
        for k in range(self._n_parts):
            of_gram = self._algebra.to_host(self._gram.multiply(on_device, self._part_of_gram(k)))
            h = self._part(self._h, k, self._units[1])[:, None]
            for rows, products in (of_W, of_gram), (of_b, HOST.multiply(h.T, W)):
                yield from ((rows, product) for product in np.hsplit(products, len(slices)))
            yield from ((of_W, h * part[-1]) for part in slices)
        yield from ((of_W, alpha * digits[:-1]) for alpha in self._alphas)
        yield from ((of_b, count * digits[-1:]) for count in self._counts)

    def _part_of_gram(self, k):
        if self._n_parts == 1:
            return None
        return lambda block: self._part(block, k, self._units[0])

    def _part(self, array, k, unit):
        """Return part k of the elements of an array, from the lowest bits on."""
        for i in range(k + 1):
            if i == self._n_parts - 1:
                return array
            rest = _round_to_multiples(array, unit * 2.0 ** ((i + 1) * self._width))
            array = array - rest if i == k else rest
        return array


class _Pair:
    """An array of sums, each as two float64 numbers (compensated summation)."""

    def __init__(self, array: Array):
        self.high, self.low = array, np.zeros_like(array)

    def add(self, array: Array) -> None:
        """Add an array, with the rounding error of the sum to `low` (D. E. Knuth's TwoSum)."""
        self.subtract(-array, slice(None))

    def subtract(self, array: Array, rows: slice) -> None:
        """Subtract an array from some rows, with the rounding error of the difference."""
        high, low = self.high[rows], self.low[rows]
        for start in range(0, len(array), _BLOCK):
            block = slice(start, start + _BLOCK)
            a, b = high[block], array[block]
            total = a - b
            subtracted = a - total
            low[block] += (a - (total + subtracted)) + (subtracted - b)
            high[block] = total

    def normalise(self) -> None:
        """Make `high` the sum, rounded, and `low` the rest (T. J. Dekker's FastTwoSum)."""
        total = self.high + self.low
        self.low -= total - self.high
        self.high = total


def _round_if_certain(solution, error, dtype):
    """Return the numbers of a dtype that a solution rounds to; None if its error may change one.

    In float64, whatever the dtype.
    """
    solution.normalise()
    high, low = solution.high, solution.low
    is_zero = np.abs(high) + error < _TINY * np.abs(high).max(axis=0)
    below, above = ((high + (low + e)).astype(dtype) for e in (-error, error))
    if not (is_zero | (below == above)).all():
        return None
    return np.where(is_zero, 0.0, below).astype(np.float64)


def _round_to_multiples(array, unit):
    """Return the elements rounded to multiples of a power of two, of up to 2^51 times that."""
    shift = 1.5 * 2.0 ** (_SIGNIFICAND - 1) * unit
    return (array + shift) - shift


def _leading(array, n_bits):
    """Return the elements, rounded to a number of bits of the largest of their column."""
    return _round_to_multiples(array, 2.0**-n_bits * _power_above(array))


def _slices(array, n_bits):
    """Yield arrays whose sum is an array, of `n_bits` bits each, in units of their column."""
    unit = _power_above(array)
    while array.any():
        unit = unit * 2.0**-n_bits
        part = _round_to_multiples(array, unit)
        yield part
        array = array - part


def _power_above(array):
    """Return the powers of two above the absolute values of the elements of each column."""
    return np.ldexp(1.0, np.frexp(np.abs(array).max(axis=0))[1])


def _short_parts(number):
    """Yield numbers of few bits whose sum is a number."""
    while number:
        part = float(_leading(np.array([number]), _SHORT)[0])
        yield part
        number -= part


def _n_bits(number):
    """Return the bits of the integer part of a number."""
    return int(np.frexp(number)[1])
