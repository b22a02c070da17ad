"""The steps of a layer's formula, for any array namespace `xp`.

``H = function(max(floor, scale * sum ** power + offset))``: the argument of the function is an
`Affine`, the function a `Function`. Engines fuse as many steps as possible with the summation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


def as_finite(value: float, dtype: np.dtype) -> Any:
    """Return the nearest finite number of `dtype`; it is zero only if `value` is.

    Products with it are never NaN, neither of zero nor of an infinite distance.
    """
    if 1e-30 < abs(value) < 1e30 or value == 0:
        return dtype.type(value)
    limits = np.finfo(dtype)
    magnitude = min(max(abs(value), float(limits.smallest_subnormal)), float(limits.max))
    return dtype.type(math.copysign(magnitude, value))


@dataclass(frozen=True)
class Affine:
    """``max(floor, scale * a + offset)``; `offset` is a number, or an array with one per unit."""

    scale: float = 1.0
    offset: float | np.ndarray = 0.0
    floor: float = -np.inf

    def apply(self, A: Any, xp: Any, out: Any = None) -> Any:
        """Apply the step to `A`, in `out` or in place. Identity operations are skipped."""
        out = A if out is None else out
        if self.scale != 1:
            xp.multiply(A, as_finite(self.scale, A.dtype), out=out)
        elif out is not A:
            out[...] = A
        if np.any(self.offset):
            out += self.offset
        if self.floor > -np.inf:
            xp.maximum(out, out.dtype.type(self.floor), out=out)
        return out


@dataclass(frozen=True)
class Quantizer:
    """Quantisation of activations to ``code / scale``, for integer codes and a power of two.

    The range of codes is symmetric, or starts at 0; so 1 itself is rounded to ``1 - 1 / scale``.
    """

    bits: int  # of the codes
    is_signed: bool  # whether activations are between -1 and 1; otherwise between 0 and 1

    @property
    def scale(self) -> int:
        """The number of steps from 0 to 1."""
        return 1 << (self.bits - self.is_signed)

    @property
    def max_code(self) -> int:
        """The largest code."""
        return self.scale - 1

    @property
    def zero(self) -> int:
        """The unsigned integer that represents the code 0."""
        return self.scale if self.is_signed else 0

    @property
    def dtype(self) -> np.dtype:
        """The dtype of codes as unsigned integers."""
        return np.dtype(np.uint8 if self.bits == 8 else np.uint16)

    def apply(self, A: Any, xp: Any) -> Any:
        """Round in place to the nearest step, and half-way cases to the even one."""
        item = A.dtype.type
        A *= item(self.scale)
        xp.rint(A, out=A)
        xp.minimum(A, item(self.max_code), out=A)
        if self.is_signed:
            xp.maximum(A, item(-self.max_code), out=A)
        A *= item(1 / self.scale)
        return A


@dataclass(frozen=True)
class Function:
    """An elementwise function.

    Attributes
    ----------
    name : str
    apply : callable
        ``apply(A, xp)`` replaces A by the function of A, in place.
    slope : callable
        ``slope(H, xp)`` returns the derivative as a function of the values H, in a new array.
    exponent : float
        q if the function is ``exp(-(-a)^q)`` for all a <= 0, which engines fuse; otherwise 0.
    """

    name: str
    apply: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any], Any]
    exponent: float = 0.0


IDENTITY = Function("identity", lambda A, xp: A, lambda H, xp: xp.ones_like(H))
EXP = Function("exp", lambda A, xp: xp.exp(A, out=A), lambda H, xp: H.copy(), 1.0)
TANH = Function("tanh", lambda A, xp: xp.tanh(A, out=A), lambda H, xp: 1 - H * H)


@cache
def powered_exp(exponent: float) -> Function:
    """Return the function ``exp(-(-a)^exponent)`` for a <= 0."""

    def apply(A: Any, xp: Any) -> Any:
        xp.negative(A, out=A)
        _raise_by_logarithms(A, exponent, xp)
        xp.negative(A, out=A)
        return xp.exp(A, out=A)

    def slope(H: Any, xp: Any) -> Any:
        with np.errstate(divide="ignore"):  # H underflows to 0 at large distances
            steep = -xp.log(H)
        is_regular = xp.isfinite(steep) & (steep > 0)
        steep = xp.where(is_regular, steep, steep.dtype.type(1))
        _raise_by_logarithms(steep, 1 - 1 / exponent, xp)
        return steep * (H * H.dtype.type(exponent)) * is_regular

    return Function("powered exp", apply, slope, exponent)


def lookup_function(table: np.ndarray, quantizer: Quantizer) -> Function:
    """Return the function that looks up codes by an integer; the last one beyond the end."""

    def apply(A: Any, xp: Any) -> Any:
        entries = xp.minimum(A, A.dtype.type(len(table) - 1)).astype(np.int32)
        xp.multiply(xp.asarray(table)[entries], A.dtype.type(1 / quantizer.scale), out=A)
        return A

    return Function("table", apply, slope=lambda H, xp: xp.zeros_like(H))


def _raise_by_logarithms(A: Any, exponent: float, xp: Any) -> None:
    """Compute ``A ** exponent`` in place for A >= 0, many times as fast as ``xp.power``."""
    with np.errstate(divide="ignore", over="ignore"):
        xp.log(A, out=A)
        A *= A.dtype.type(exponent)
        xp.exp(A, out=A)


def raise_to(A: Any, power: float, xp: Any, out: Any = None) -> Any:
    """Compute ``A ** power`` for a power of 1/2, 1 or 2, in `out` or in place."""
    out = A if out is None else out
    if power == 2:
        xp.multiply(A, A, out=out)
    elif power == 0.5:
        xp.sqrt(A, out=out)
    elif out is not A:
        out[...] = A
    return out
