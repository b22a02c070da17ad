"""The steps that a layer's formula is made of, over any array namespace `xp`.

``H = function(max(floor, scale * sum ** power + offset))``: the middle is `Affine`, the
outside a `Function`. Engines fuse as much of it as they can.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


def finite(value: float, dtype: np.dtype) -> Any:
    """`value` as the nearest number of `dtype` that is finite, and zero only where it is.

    A product with it is then no NaN, neither of a zero nor of an infinite distance.
    """
    if 1e-30 < abs(value) < 1e30 or value == 0:
        return dtype.type(value)
    numbers = np.finfo(dtype)
    size = min(max(abs(value), float(numbers.smallest_subnormal)), float(numbers.max))
    return dtype.type(math.copysign(size, value))


@dataclass(frozen=True)
class Affine:
    """``max(floor, scale * a + offset)``; `offset` is a number or one per unit."""

    scale: float = 1.0
    offset: float | np.ndarray = 0.0
    floor: float = -np.inf

    def apply(self, A: Any, xp: Any, out: Any = None) -> Any:
        """The step on `A`, in `out` or in place, without the parts that do nothing."""
        out = A if out is None else out
        if self.scale != 1:
            xp.multiply(A, finite(self.scale, A.dtype), out=out)
        elif out is not A:
            out[...] = A
        if np.any(self.offset):
            out += self.offset
        if self.floor > -np.inf:
            xp.maximum(out, out.dtype.type(self.floor), out=out)
        return out


@dataclass(frozen=True)
class Steps:
    """Rounding of activations to multiples of a power of two: they are integers times it."""

    bits: int  # of the integers
    # Whether activations lie between -1 and 1, else between 0 and 1. The ends are one step nearer
    # to 0.
    is_signed: bool

    @property
    def scale(self) -> int:
        """How many steps make 1."""
        return 1 << (self.bits - self.is_signed)

    @property
    def most(self) -> int:
        """The largest integer."""
        return self.scale - 1

    @property
    def zero(self) -> int:
        """What stands for 0 where integers are stored without a sign."""
        return self.scale if self.is_signed else 0

    @property
    def dtype(self) -> np.dtype:
        """Of the integers, where they are never negative."""
        return np.dtype(np.uint8 if self.bits == 8 else np.uint16)

    def apply(self, A: Any, xp: Any) -> Any:
        """Round in place: to the nearest step, from halfway to the even one."""
        item = A.dtype.type
        A *= item(self.scale)
        xp.rint(A, out=A)
        xp.minimum(A, item(self.most), out=A)
        if self.is_signed:
            xp.maximum(A, item(-self.most), out=A)
        A *= item(1 / self.scale)
        return A


@dataclass(frozen=True)
class Function:
    """An elementwise function.

    Attributes
    ----------
    name : str
    apply : callable
        ``apply(A, xp)`` puts the function of A in its place.
    slope : callable
        ``slope(H, xp)`` is its derivative, of its own values H: a new array.
    exponent : float
        q where it is ``exp(-(-a)^q)`` for all a up to 0, which engines fuse; else 0.
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
    """``exp(-(-a)^exponent)`` for all a up to 0."""

    def apply(A: Any, xp: Any) -> Any:
        xp.negative(A, out=A)
        _raise_by_logarithms(A, exponent, xp)
        xp.negative(A, out=A)
        return xp.exp(A, out=A)

    def slope(H: Any, xp: Any) -> Any:
        with np.errstate(divide="ignore"):  # of what is far away
            steep = -xp.log(H)
        is_steep = xp.isfinite(steep) & (steep > 0)
        steep = xp.where(is_steep, steep, steep.dtype.type(1))
        _raise_by_logarithms(steep, 1 - 1 / exponent, xp)
        return steep * (H * H.dtype.type(exponent)) * is_steep

    return Function("powered exp", apply, slope, exponent)


def looked_up(table: np.ndarray, steps: Steps) -> Function:
    """The output of a whole number by a table of integers: the last one beyond its end."""

    def apply(A: Any, xp: Any) -> Any:
        entries = xp.minimum(A, A.dtype.type(len(table) - 1)).astype(np.int32)
        xp.multiply(xp.asarray(table)[entries], A.dtype.type(1 / steps.scale), out=A)
        return A

    return Function("table", apply, slope=lambda H, xp: xp.zeros_like(H))


def _raise_by_logarithms(A: Any, exponent: float, xp: Any) -> None:
    """``A ** exponent`` in place for A from 0 on, many times as fast as by ``xp.power``."""
    with np.errstate(divide="ignore", over="ignore"):
        xp.log(A, out=A)
        A *= A.dtype.type(exponent)
        xp.exp(A, out=A)


def raise_to(A: Any, power: float, xp: Any, out: Any = None) -> Any:
    """``A ** power`` for a power of 1/2, 1 or 2, in `out` or in place."""
    out = A if out is None else out
    if power == 2:
        xp.multiply(A, A, out=out)
    elif power == 0.5:
        xp.sqrt(A, out=out)
    elif out is not A:
        out[...] = A
    return out
