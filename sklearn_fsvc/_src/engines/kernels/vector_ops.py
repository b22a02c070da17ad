"""Vector operations as LLVM IR: one step of each sum, products of integers, exp and log.

`VectorOps` appends instructions to the basic block of an IR builder. Operands are SSA values of a
vector type such as ``<16 x float>``, one lane for each unit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import llvm_version_info
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array
from numpy.polynomial import Chebyshev, Polynomial

from .target import Target

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def unpack_arguments(context: Any, builder: Any, signature: Any, args: Any) -> list:
    """Return the arguments of an intrinsic: arrays with `data` and `shape`, tuples as lists."""

    def unpack(kind, value):
        is_tuple, is_array = (isinstance(kind, t) for t in (types.BaseTuple, types.Array))
        if is_tuple:
            values = cgutils.unpack_tuple(builder, value)
            return [unpack(*pair) for pair in zip(kind, values, strict=True)]
        return make_array(kind)(context, builder, value) if is_array else value

    return [unpack(*pair) for pair in zip(signature.args, args, strict=True)]


@dataclass(frozen=True)
class VectorOps:
    """Emits the operations that a processor has.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    target : Target
    """

    builder: Any
    target: Target

    # The accumulation steps. Each returns `acc` with the next item added; `one` is a vector of
    # ones, or None for bytes.

    def minimum(self, acc: Any, x: Any, c: Any, one: Any) -> Any:
        """Add min(x, c): distances are sums of |x - c| = x + c - 2 min(x, c)."""
        if self.target.is_arm:  # one instruction, where a comparison and a select are two
            smaller = self._intrinsic(f"llvm.minimum.{_suffix(acc)}", acc.type, x, c)
        else:
            b = self.builder
            smaller = b.select(b.fcmp_ordered("<", x, c), x, c)
        # min and add share execution ports, while the multiply-add unit is idle: an addition as
        # ``min * 1 + acc`` runs there, with the same rounding. `one` is an argument of the kernel
        # because LLVM would fold a constant.
        if self.target.fma:
            return self._fma(smaller, one, acc)
        return self.builder.fadd(acc, smaller)

    def difference(self, acc: Any, x: Any, c: Any, one: Any) -> Any:
        """Add |x - c|."""
        b = self.builder
        d = self._fma(x, one, b.fneg(c)) if self.target.fma else b.fsub(x, c)
        return b.fadd(acc, self._intrinsic(f"llvm.fabs.{_suffix(acc)}", acc.type, d))

    def square(self, acc: Any, x: Any, c: Any, one: Any) -> Any:
        """Add (x - c)^2."""
        d = self.builder.fsub(x, c)
        return self.multiply_add(d, d, acc)

    def product(self, acc: Any, x: Any, c: Any, one: Any) -> Any:
        """Add x c."""
        return self.multiply_add(x, c, acc)

    def bytes_min(self, acc: Any, x: Any, c: Any, one: Any) -> Any:
        """Add min(x, c) of 4 bytes in each lane: their dot product with ones."""
        b = self.builder
        x, c = self._as_bytes(x), self._as_bytes(c)
        smaller = b.select(b.icmp_unsigned("<", x, c), x, c)
        return self.bytes_product(acc, smaller, ir.Constant(x.type, [1] * self.target.width))

    def bytes_sad(self, acc: Any, x: Any, c: Any, one: Any) -> Any:
        """Add |x - c| of 8 bytes in each lane (psadbw: SSE2, AVX2, AVX-512)."""
        names = {64: "avx512.psad.bw.512", 32: "avx2.psad.bw", 16: "sse2.psad.bw"}
        name = f"llvm.x86.{names[self.target.width]}"
        sad = self._intrinsic(name, acc.type, self._as_bytes(x), self._as_bytes(c))
        return self.builder.add(acc, sad)

    # Products of integers.

    def bytes_product(self, acc: Any, x: Any, c: Any) -> Any:
        """Add the products of 4 bytes in each lane: x is unsigned, c signed on x86."""
        if self.target.byte_instruction == "udot":
            name = "llvm.aarch64.neon.udot.v4i32.v16i8"
            # The second operand may be one lane of a register, which is x in the callers.
            return self._intrinsic(name, acc.type, acc, self._as_bytes(c), self._as_bytes(x))
        # Before LLVM 22 the operands were declared as vectors of 32-bit integers.
        is_old = llvm_version_info[0] < 22
        kind = acc.type if is_old else ir.VectorType(I8, self.target.width)
        x, c = self.builder.bitcast(x, kind), self.builder.bitcast(c, kind)
        name = f"llvm.x86.avx512.vpdpbusd.{self.target.width * 8}"
        return self._intrinsic(name, acc.type, acc, x, c)

    def pairs_product(self, acc: Any, x: Any, c: Any) -> Any:
        """Add the products of 2 signed 16-bit integers in each lane (pmaddwd of x86)."""
        names = {64: "avx512.pmaddw.d.512", 32: "avx2.pmadd.wd", 16: "sse2.pmadd.wd"}
        pairs = ir.VectorType(ir.IntType(16), self.target.width // 2)
        b = self.builder
        x, c = b.bitcast(x, pairs), b.bitcast(c, pairs)
        name = f"llvm.x86.{names[self.target.width]}"
        return b.add(acc, self._intrinsic(name, acc.type, x, c))

    # General operations.

    def multiply_add(self, x: Any, y: Any, z: Any) -> Any:
        """Return x y + z, fused where the processor can."""
        b = self.builder
        return self._fma(x, y, z) if self.target.fma else b.fadd(z, b.fmul(x, y))

    def splat(self, vector: Any, item: Any) -> Any:
        """Return a vector of the type `vector` with an item in every lane."""
        undefined = ir.Constant(vector, ir.Undefined)
        lane = self.builder.insert_element(undefined, item, I32(0))
        mask = ir.Constant(ir.VectorType(I32, vector.count), None)
        return self.builder.shuffle_vector(lane, undefined, mask)

    def exp(self, x: Any) -> Any:
        """Return exp(x) to the last bit or two, by argument reduction (Cody & Waite, 1980).

        ``exp(x) = 2^k exp(r)`` with k the integer nearest to ``x / ln 2``. Adding 1.5 * 2^(bits of
        the mantissa) rounds to an integer, which then is in the last bits of the sum. x is clamped
        to the range from exp(x) = 0 to infinity.
        """
        b, vector, form = self.builder, x.type, _FORMATS[x.type.element]
        number, integer = _constants(vector, form)

        high, low = form.ln2
        smallest, largest = number(-form.bias * high), number((form.bias + 1) * high)
        x = b.select(b.fcmp_ordered("<", x, smallest), smallest, x)
        x = b.select(b.fcmp_ordered(">", x, largest), largest, x)
        magic = number(1.5 * 2**form.mantissa)
        shifted = self.multiply_add(x, number(float(1 / Decimal(2).ln())), magic)
        k = b.fsub(shifted, magic)
        # r = x - k ln 2, with ln 2 in two parts so that the first product is exact.
        r = self.multiply_add(k, number(-low), self.multiply_add(k, number(-high), x))
        series = self._polynomial(form.exp_coefficients, r, number)
        series = self.multiply_add(series, r, number(1.0))
        # 2^k is the floating-point number with the exponent bits k + bias.
        exponent = b.add(b.bitcast(shifted, integer(0).type), integer(form.bias))
        power = b.bitcast(b.shl(exponent, integer(form.mantissa)), vector)
        return b.fmul(series, power)

    def log(self, x: Any) -> Any:
        """Return log(x) for x >= 0; log(0) is finite, -127 ln 2 in float32.

        ``x = 2^k m`` with m in [sqrt(1/2), sqrt(2)), and with ``s = (m - 1) / (m + 1)``
        ``log m = 2 artanh(s)``, an odd polynomial.
        """
        b, vector, form = self.builder, x.type, _FORMATS[x.type.element]
        number, integer = _constants(vector, form)

        size = form.bits // 8
        root = int(np.array(0.5**0.5, f"f{size}").view(f"i{size}"))
        # As integers, floating-point numbers are ordered as their values: subtracting the bits of
        # sqrt(1/2) leaves k in the exponent bits.
        bits = b.bitcast(x, integer(0).type)
        k = b.ashr(b.sub(bits, integer(root)), integer(form.mantissa))
        m = b.bitcast(b.sub(bits, b.shl(k, integer(form.mantissa))), vector)
        s = b.fdiv(b.fsub(m, number(1.0)), b.fadd(m, number(1.0)))
        series = self._polynomial(form.log_coefficients, b.fmul(s, s), number)
        k, (high, low) = b.sitofp(k, vector), form.ln2
        log_m = b.fmul(b.fmul(s, number(2.0)), series)
        log = self.multiply_add(k, number(high), self.multiply_add(k, number(low), log_m))
        return b.select(b.fcmp_unordered("uno", x, x), x, log)  # NaN stays NaN

    def negative_power(self, x: Any, exponent: Any) -> Any:
        """Return ``-(-x)^exponent`` for x <= 0."""
        zero = ir.Constant(x.type, [0.0] * x.type.count)
        b = self.builder
        power = self.exp(b.fmul(exponent, self.log(b.fsub(zero, x))))
        return b.fsub(zero, power)

    def _polynomial(self, coefficients: Sequence[float], x: Any, number: Callable) -> Any:
        """Return a polynomial, the constant coefficient first, by Horner's rule."""
        *lower, value = map(number, coefficients)
        for coefficient in reversed(lower):
            value = self.multiply_add(value, x, coefficient)
        return value

    def _fma(self, x, y, z):
        return self._intrinsic(f"llvm.fma.{_suffix(z)}", z.type, x, y, z)

    def _intrinsic(self, name, result, *args):
        signature = ir.FunctionType(result, [a.type for a in args])
        function = cgutils.get_or_insert_function(self.builder.module, signature, name)
        return self.builder.call(function, args)

    def _as_bytes(self, vector):
        return self.builder.bitcast(vector, ir.VectorType(I8, self.target.width))


def _suffix(vector):
    """Return the part of an intrinsic's name that stands for a vector of floats: "v8f64"."""
    bits = {ir.FloatType(): 32, ir.DoubleType(): 64}[vector.type.element]
    return f"v{vector.type.count}f{bits}"


@dataclass(frozen=True)
class _Format:
    """A floating-point format, and the polynomials of exp and log that suit its precision.

    Attributes
    ----------
    bits, mantissa : int
        Of a number, and of its fraction.
    exp_degree : int
        Degree of the polynomial of exp(r) for ``|r| <= ln(2) / 2``.
    n_log_terms : int
        Terms of the polynomial of log(m) for m between sqrt(1/2) and sqrt(2).
    """

    bits: int
    mantissa: int
    exp_degree: int
    n_log_terms: int

    @property
    def bias(self):
        return 2 ** (self.bits - self.mantissa - 2) - 1

    @property
    def exp_coefficients(self):
        """Of ``(exp(r) - 1) / r``, the constant first, interpolated at Chebyshev nodes."""
        half = np.log(2) / 2
        return _interpolate(lambda r: np.expm1(r) / r, self.exp_degree - 1, (-half, half))

    @property
    def log_coefficients(self):
        """Of ``artanh(s) / s`` as a polynomial of ``t = s^2``, for s at ``m = sqrt(2)`` at most."""
        largest = ((2**0.5 - 1) / (2**0.5 + 1)) ** 2
        return _interpolate(
            lambda t: np.arctanh(np.sqrt(t)) / np.sqrt(t), self.n_log_terms - 1, (0, largest)
        )

    @property
    def ln2(self):
        """ln 2 as a sum of two numbers; the first has so few bits that k times it is exact."""
        digits = self.mantissa + 1 - (self.bits - self.mantissa)
        ln2 = Decimal(2).ln()
        high = Decimal(round(ln2 * 2**digits)) / 2**digits
        return float(high), float(ln2 - high)


def _interpolate(function, degree, domain):
    polynomial = Chebyshev.interpolate(function, degree, domain=domain)
    return polynomial.convert(kind=Polynomial, domain=(-1, 1)).coef.tolist()


_FORMATS = {
    ir.FloatType(): _Format(32, 23, exp_degree=6, n_log_terms=5),
    ir.DoubleType(): _Format(64, 52, exp_degree=12, n_log_terms=11),
}


def _constants(vector, form):
    """Return functions that make constant vectors of numbers, and of integers of their size."""
    integers = ir.VectorType(ir.IntType(form.bits), vector.count)

    def number(value):
        return ir.Constant(vector, [value] * vector.count)

    def integer(value):
        return ir.Constant(integers, [value] * vector.count)

    return number, integer
