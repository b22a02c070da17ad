"""Ridge readouts of exact sums that do not depend on rounding.

Sums of quantised activations and of classes are integers times a power of two. With ``G = sum h
h'``, ``h = sum h``, ``c = sum h y'``, ``s = sum y`` and the number n of samples, the equations

    (G + alpha I) W' + h b' = c
    h' W' + n b' = s

have one exact solution. `solve_exactly` returns it, each number rounded once, so that its bits
depend neither on the processor, BLAS, threads or device, nor on the precision of the factor.

It is computed as by long division. Each step solves the equations for the remainder, in floats,
appends the leading digits of that to the solution, and subtracts their products with the equations
from the remainder: iterative refinement with exact residuals. G is split into integers of so few
bits that no sum of such products is rounded, by whatever BLAS it is computed (K. Ozaki, T. Ogita,
S. Oishi and S. M. Rump 2012, "Error-free transformations of matrix multiplication by using fast
routines of matrix multiplication and its applications").
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.algebra import HOST
from .linear import Solution

# Bits of a float64, and of a float32.
_MANTISSA, _SHORT_MANTISSA = 53, 24
# Binary digits that a step appends: at least, where G is split into so many parts, and at most,
# so that products with 24 bits of alpha are exact.
_MIN_DIGITS, _MAX_DIGITS = 20, _MANTISSA - _SHORT_MANTISSA - 3
# Steps before the equations count as too ill-conditioned. Each has to reduce the remainder by the
# factor, at most.
_MAX_STEPS, _MAX_CONTRACTION = 40, 1 / 4
# How many times the estimate of the error that is allowed for.
_SAFETY = 64
# Numbers below this part of the largest one of their output are 0: an exact 0 could be told from
# a tiny number by no number of digits.
_TINY = 2.0**-80

Array = npt.NDArray[np.float64]


def solve_exactly(statistics: Any, alpha: float, solve: Callable[[Any], Any]) -> Solution | None:
    """Return the exact solution of the ridge equations, rounded to float64.

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
    remainder, solution = _Pair(equations.right), _Pair(np.zeros_like(equations.right))
    previous, contraction = np.inf, 0.0
    for step in range(_MAX_STEPS):
        digits = equations.leading_digits(remainder.high)
        solution.add(digits)
        change = np.abs(digits).max(axis=0)
        if step:
            ratio = np.divide(change, previous, out=np.zeros_like(change), where=previous > 0)
            contraction = max(contraction, 2.0**-equations.n_digits, float(ratio.max()))
            if not contraction <= _MAX_CONTRACTION:
                return None
            rounded = _round(solution, _SAFETY * contraction * change)
            if rounded is not None:
                to_device = statistics.algebra.to_device
                return Solution(to_device(rounded[:-1].T.copy()), to_device(rounded[-1]))
        for product in equations.products(digits):
            remainder.add(-product)
        remainder.normalise()
        solution.normalise()
        previous = change
    return None


class _Equations:
    """The equations in the columns ``[W'; b']``, as integers in parts of a few bits."""

    def __init__(self, statistics, alpha, solve):
        self._gram, self._algebra, self._solve = statistics.gram, statistics.algebra, solve
        to_host = self._algebra.to_host
        hy, y = to_host(statistics.hy), to_host(statistics.y)
        self.right = np.vstack([hy, y])
        # The last column, which belongs to the intercept; it is the last row, too.
        self._last = np.append(to_host(statistics.h), statistics.n)
        # In units of the products of two steps of the quantiser, elements of G are integers of so
        # many bits: none is larger than the largest one of the diagonal.
        unit = statistics.steps.scale**-2.0
        n_bits = _n_bits(float(self._gram.diagonal().max()) / unit)
        available = _MANTISSA - _n_bits(len(self._last))
        n_parts = -(-n_bits // (available - _MIN_DIGITS))
        width = -(-n_bits // n_parts)
        self.n_digits = min(_MAX_DIGITS, available - width - 1)
        # Adding and subtracting one of these rounds to integers times a power of two.
        powers = range(width * (n_parts - 1), 0, -width)
        self._rounders = [1.5 * 2.0 ** (_MANTISSA - 1 + power) * unit for power in powers]
        self._alphas = list(_short_parts(alpha))

    def leading_digits(self, right: Array) -> Array:
        """Return the solution for a right-hand side, rounded to `n_digits` in each column."""
        h, n, columns = self._last[:-1, None], self._last[-1], right[:-1]
        W = self._solve(columns - h * (right[-1] / n))
        b = (right[-1] - HOST.multiply(h.T, W)[0]) / n
        found = np.vstack([W, b])
        exponents = self.n_digits - np.frexp(np.abs(found).max(axis=0))[1]
        return np.ldexp(np.rint(np.ldexp(found, exponents)), -exponents)

    def products(self, digits: Array) -> Iterator[Array]:
        """Yield arrays whose sum is the product of the equations with some digits, all exact."""
        W, b = digits[:-1], digits[-1]
        on_device = self._algebra.xp.asarray(W, order="F")
        for k in range(len(self._rounders) + 1):
            product = np.empty_like(digits)
            of_gram = self._gram.multiply(on_device, lambda block, k=k: self._part(block, k))
            product[:-1] = self._algebra.to_host(of_gram)
            last = self._part(self._last, k)[:, None]
            product[-1] = HOST.multiply(last[:-1].T, W)[0]
            yield product
            yield last * b
        for alpha in self._alphas:
            yield np.vstack([alpha * W, np.zeros_like(b)])

    def _part(self, array, k):
        """Return part k of the elements of an array, from the largest part on."""
        for rounder in self._rounders[:k]:
            array = array - _rounded_by(array, rounder)
        return _rounded_by(array, self._rounders[k]) if k < len(self._rounders) else array


class _Pair:
    """An array of sums, each as two float64 numbers (compensated summation)."""

    def __init__(self, array: Array):
        self.high, self.low = array, np.zeros_like(array)

    def add(self, array: Array) -> None:
        """Add an array, with the rounding error of the sum to `low` (D. E. Knuth's TwoSum)."""
        total = self.high + array
        added = total - self.high
        self.low += (self.high - (total - added)) + (array - added)
        self.high = total

    def normalise(self) -> None:
        """Make `high` the sum, rounded, and `low` the rest (T. J. Dekker's FastTwoSum)."""
        total = self.high + self.low
        self.low -= total - self.high
        self.high = total


def _round(solution, error):
    """Return the float64 numbers that a solution rounds to; None if its error leaves some open."""
    solution.normalise()
    high, low = solution.high, solution.low
    least = _TINY * np.abs(high).max(axis=0)
    is_zero = np.abs(high) + error < least
    is_decided = is_zero | ((high + (low - error) == high) & (high + (low + error) == high))
    return np.where(is_zero, 0.0, high) if is_decided.all() else None


def _rounded_by(array, rounder):
    rounded = array + rounder
    rounded -= rounder
    return rounded


def _n_bits(number):
    """Return the bits of the integer part of a number."""
    return int(np.frexp(number)[1])


def _short_parts(number):
    """Yield numbers of 24 bits whose sum is a number of 53 bits."""
    while number:
        fraction, exponent = np.frexp(number)
        part = float(np.ldexp(np.rint(np.ldexp(fraction, _SHORT_MANTISSA)), exponent - _SHORT_MANTISSA))
        yield part
        number -= part
