"""Functions of the outputs while they are in registers, as LLVM vector code."""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import numpy as np
from llvmlite import ir
from numpy.polynomial import Chebyshev, Polynomial

from .terms import multiply_add


@dataclass(frozen=True)
class _Format:
    """A floating-point format, and how far the series of exp goes in it.

    Attributes
    ----------
    bits, mantissa : int
        Of a number, and of its fraction.
    degree : int
        Of the polynomial that stands for exp of ``|r| <= ln(2) / 2`` to the last bit or two.
    n_terms : int
        Of the one that stands for the logarithm of what is within a factor of 2 ** 0.5 of 1.
    """

    bits: int
    mantissa: int
    degree: int
    n_terms: int

    @property
    def bias(self):
        return 2 ** (self.bits - self.mantissa - 2) - 1

    @property
    def coefficients(self):
        """Of ``(exp(r) - 1) / r``, the constant first, by interpolation at Chebyshev's points."""
        half = np.log(2) / 2
        fit = Chebyshev.interpolate(
            lambda r: np.expm1(r) / r, self.degree - 1, domain=(-half, half)
        )  # fmt: skip
        return fit.convert(kind=Polynomial, domain=(-1, 1)).coef.tolist()

    @property
    def of_log(self):
        """Of ``artanh(s) / s`` as a polynomial of ``s^2``, where s is as large as it becomes."""
        most = ((2**0.5 - 1) / (2**0.5 + 1)) ** 2
        fit = Chebyshev.interpolate(
            lambda t: np.arctanh(np.sqrt(t)) / np.sqrt(t), self.n_terms - 1, domain=(0, most)
        )  # fmt: skip
        return fit.convert(kind=Polynomial, domain=(-1, 1)).coef.tolist()

    @property
    def ln2(self):
        """ln 2 in two parts; the first times an exponent is exact."""
        digits = self.mantissa + 1 - (self.bits - self.mantissa)
        ln2 = Decimal(2).ln()
        high = Decimal(round(ln2 * 2**digits)) / 2**digits
        return float(high), float(ln2 - high)


_FORMATS = {
    ir.FloatType(): _Format(32, 23, degree=6, n_terms=5),
    ir.DoubleType(): _Format(64, 52, degree=12, n_terms=11),
}


def _filled(vector, value):
    return ir.Constant(vector, [value] * vector.count)


def exp(b, x):
    """exp of a vector: ``2^k`` times exp of what is left.

    k is the nearest whole number of ``x / ln 2``; added to 1.5 times 2 to the number of
    bits of the fraction, it stands in the last bits of the sum. x is cut to where k is no
    smaller than the exponent of 0 and no larger than that of infinity.
    """
    vector, form = x.type, _FORMATS[x.type.element]
    integers = ir.VectorType(ir.IntType(form.bits), vector.count)
    number, whole = partial(_filled, vector), partial(_filled, integers)

    high, low = form.ln2
    smallest, largest = number(-form.bias * high), number((form.bias + 1) * high)
    x = b.select(b.fcmp_ordered("<", x, smallest), smallest, x)
    x = b.select(b.fcmp_ordered(">", x, largest), largest, x)
    magic = number(1.5 * 2**form.mantissa)
    shifted = multiply_add(b, x, number(float(1 / Decimal(2).ln())), magic)
    k = b.fsub(shifted, magic)
    r = multiply_add(b, k, number(-low), multiply_add(b, k, number(-high), x))
    *lower, series = map(number, form.coefficients)
    for coefficient in reversed(lower):
        series = multiply_add(b, series, r, coefficient)
    series = multiply_add(b, series, r, number(1.0))
    # 2^k, by its exponent: the last bits of `shifted` are k, and those of the bias are added.
    exponent = b.add(b.bitcast(shifted, integers), whole(form.bias))
    power = b.bitcast(b.shl(exponent, whole(form.mantissa)), vector)
    return b.fmul(series, power)


def log(b, x):
    """The logarithm of a vector of numbers from 0 on; of 0 that of the smallest numbers.

    ``x = 2^k m`` with m between the roots of 1/2 and of 2; ``log m = 2 artanh((m - 1) / (m + 1))``.
    """
    vector, form = x.type, _FORMATS[x.type.element]
    integers = ir.VectorType(ir.IntType(form.bits), vector.count)
    number, whole = partial(_filled, vector), partial(_filled, integers)

    kind = np.dtype(f"f{form.bits // 8}")
    root = int(np.array(0.5**0.5, kind).view(f"i{form.bits // 8}"))
    bits = b.bitcast(x, integers)
    k = b.ashr(b.sub(bits, whole(root)), whole(form.mantissa))
    m = b.bitcast(b.sub(bits, b.shl(k, whole(form.mantissa))), vector)
    s = b.fdiv(b.fsub(m, number(1.0)), b.fadd(m, number(1.0)))
    square = b.fmul(s, s)
    *lower, series = map(number, form.of_log)
    for coefficient in reversed(lower):
        series = multiply_add(b, series, square, coefficient)
    k, (high, low) = b.sitofp(k, vector), form.ln2
    of_m = b.fmul(b.fmul(s, number(2.0)), series)
    found = multiply_add(b, k, number(high), multiply_add(b, k, number(low), of_m))
    return b.select(b.fcmp_unordered("uno", x, x), x, found)


def powered(b, x, exponent):
    """``-(-x)^exponent`` for a vector of numbers up to 0."""
    zero = _filled(x.type, 0.0)
    power = exp(b, b.fmul(exponent, log(b, b.fsub(zero, x))))
    return b.fsub(zero, power)
