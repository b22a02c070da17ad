"""Functions of the outputs while they are in registers, as LLVM vector code."""

from dataclasses import dataclass
from decimal import Decimal
from math import factorial

from llvmlite import ir

from .terms import multiply_add


@dataclass(frozen=True)
class _Format:
    """A floating-point format, and how far the series of exp goes in it.

    Attributes
    ----------
    bits, mantissa : int
        Of a number, and of its fraction.
    smallest, largest : float
        Below the one exp is 0, from the other on infinite.
    terms : int
        Of the series ``sum r^k / k!`` for ``|r| <= ln(2) / 2``: the next one is under the
        rounding of 1.
    """

    bits: int
    mantissa: int
    smallest: float
    largest: float
    terms: int

    @property
    def bias(self):
        return 2 ** (self.bits - self.mantissa - 2) - 1

    @property
    def ln2(self):
        """ln 2 in two parts; the first times an exponent is exact."""
        digits = self.mantissa + 1 - (self.bits - self.mantissa)
        ln2 = Decimal(2).ln()
        high = Decimal(round(ln2 * 2**digits)) / 2**digits
        return float(high), float(ln2 - high)


_FORMATS = {
    ir.FloatType(): _Format(32, 23, -87.0, 89.0, 8),
    ir.DoubleType(): _Format(64, 52, -708.0, 710.0, 14),
}


def exp(b, x):
    """exp of a vector: ``2^k`` times the series of what is left, in one rounding or two.

    k is the nearest whole number of ``x / ln 2``; added to 1.5 times 2 to the number of
    bits of the fraction, it stands in the last bits of the sum.
    """
    vector, form = x.type, _FORMATS[x.type.element]
    integers = ir.VectorType(ir.IntType(form.bits), vector.count)

    def number(value):
        return ir.Constant(vector, [value] * vector.count)

    def whole(value):
        return ir.Constant(integers, [value] * vector.count)

    too_small = b.fcmp_ordered("<", x, number(form.smallest))
    x = b.select(too_small, number(form.smallest), x)
    x = b.select(b.fcmp_ordered(">", x, number(form.largest)), number(form.largest), x)
    magic = number(1.5 * 2**form.mantissa)
    shifted = multiply_add(b, x, number(float(1 / Decimal(2).ln())), magic)
    k = b.fsub(shifted, magic)
    high, low = form.ln2
    r = multiply_add(b, k, number(-low), multiply_add(b, k, number(-high), x))
    series = number(1 / factorial(form.terms - 1))
    for i in reversed(range(form.terms - 1)):
        series = multiply_add(b, series, r, number(1 / factorial(i)))
    # 2^k, by its exponent: the last bits of `shifted` are k, and those of the bias are added.
    exponent = b.add(b.bitcast(shifted, integers), whole(form.bias))
    power = b.bitcast(b.shl(exponent, whole(form.mantissa)), vector)
    return b.select(too_small, number(0.0), b.fmul(series, power))
