"""The two layers: what is computed, without a word about where.

A layer is a frozen bundle of arrays with its formula. The formula has three
parts, so that an engine may fuse as much of it as it likes:

1. ``accumulation``: what is summed over the features for one row and one unit,
   ``"manhattan"`` sum |x - c|, ``"sqeuclidean"`` sum (x - c)^2 or
   ``"product"`` sum x w;
2. ``affine``: the numbers of ``max(floor, scale * sum + offset)``;
3. ``finish``: what elementwise function is left, applied in place.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

# Half the base of the triangle is K * radius. With K = sqrt(2 pi) to four decimals the
# triangle and the Gaussian of the same radius have equal area (Dogaru & Dogaru 2017).
K = 2.5066

METRICS = ("manhattan", "euclidean", "sqeuclidean")
KERNELS = ("triangular", "gaussian", "distance")

# Input dtypes that layers take as they are.
DTYPES = (np.float64, np.float32, np.uint8)


def hidden_dtype(dtype):
    """dtype of H for input of `dtype`: float64 for float64, else float32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


@dataclass(frozen=True)
class Affine:
    """``max(floor, scale * sum + offset)``; `offset` is a number or one per unit."""

    scale: float = 1.0
    offset: float | np.ndarray = 0.0
    floor: float = -np.inf

    def apply(self, A, xp):
        """Apply to the accumulated sums `A`, in place, without the steps that do nothing."""
        if self.scale != 1:
            A *= A.dtype.type(self.scale)
        if np.any(self.offset):
            A += self.offset
        if self.floor > -np.inf:
            xp.maximum(A, A.dtype.type(self.floor), out=A)
        return A


class _Layer:
    """What both layers share: sizes and dtypes, read off `units` (m, n)."""

    @property
    def n_units(self):
        return self.units.shape[0]

    @property
    def n_features(self):
        return self.units.shape[1]

    @property
    def hidden_dtype(self):
        return hidden_dtype(self.units.dtype)

    @property
    def kind(self):
        """Formula and dtype: all that the speed of a layer depends on, but its size."""
        return f"{self.formula} {self.units.dtype}"


@dataclass(frozen=True, eq=False)
class RBFLayer(_Layer):
    """H[i, j] = phi(d(x_i, c_j)).

    Parameters
    ----------
    units : ndarray of shape (m, n), uint8, float32 or float64
        The centres. uint8 only with the Manhattan metric.
    radius : float
        In units of the distance `metric` returns.
    metric : {"manhattan", "euclidean", "sqeuclidean"}
    kernel : {"triangular", "gaussian", "distance"}
        ``max(0, 1 - d / (K radius))``, ``exp(-d^2 / (2 radius^2))``, or ``d`` itself.
    """

    units: np.ndarray
    radius: float = 1.0
    metric: str = "manhattan"
    kernel: str = "triangular"

    @property
    def formula(self):
        return f"{self.metric} {self.kernel}"

    @property
    def accumulation(self):
        return accumulation_of(self.metric)

    @cached_property
    def affine(self):
        if self.kernel == "triangular" and self.metric != "euclidean":
            return self.triangle
        if self.kernel == "gaussian" and self.metric == "euclidean":
            return Affine(scale=-0.5 / self.radius**2)
        return Affine()

    @property
    def triangle(self):
        return Affine(scale=-1.0 / (K * self.radius), offset=1.0, floor=0.0)

    @property
    def is_finished(self):
        """Whether the affine step already gives H."""
        root = self.metric == "euclidean"
        return not root if self.kernel in ("triangular", "distance") else False

    def finish(self, A, xp):
        """What the affine step leaves to do, in place on `A`."""
        if self.kernel == "gaussian":
            if self.metric != "euclidean":
                A *= A
                A *= A.dtype.type(-0.5 / self.radius**2)
            return xp.exp(A, out=A)
        if self.metric == "euclidean":
            xp.sqrt(A, out=A)
            if self.kernel == "triangular":
                self.triangle.apply(A, xp)
        return A

    @property
    def distances(self):
        """The layer whose outputs are the distances behind this one's."""
        return RBFLayer(self.units, metric=self.metric, kernel="distance")

    def of_distances(self, D, out, xp):
        """The outputs for distances `D`, in `out`: what layers on the same units share is D."""
        if self.kernel == "triangular":
            scale = D.dtype.type(self.triangle.scale)
            return xp.maximum(xp.add(xp.multiply(D, scale, out=out), 1, out=out), 0, out=out)
        xp.multiply(D, D, out=out)
        xp.multiply(out, D.dtype.type(-0.5 / self.radius**2), out=out)
        return xp.exp(out, out=out)

    def part(self, units):
        """The layer of a slice of the units."""
        return replace(self, units=self.units[units])

    def astype(self, dtype):
        return replace(self, units=np.ascontiguousarray(self.units, dtype=dtype))


@dataclass(frozen=True, eq=False)
class TanhLayer(_Layer):
    """H[i, j] = tanh(x_i . w_j + b_j).

    Parameters
    ----------
    units : ndarray of shape (m, n), float32 or float64
        The weights, a row for each unit.
    bias : ndarray of shape (m,)
    """

    units: np.ndarray
    bias: np.ndarray

    formula = "tanh"
    accumulation = "product"
    is_finished = False

    @cached_property
    def affine(self):
        return Affine(offset=self.bias)

    def finish(self, A, xp):
        return xp.tanh(A, out=A)

    def part(self, units):
        """The layer of a slice of the units."""
        return replace(self, units=self.units[units], bias=self.bias[units])

    def astype(self, dtype):
        units = np.ascontiguousarray(self.units, dtype=dtype)
        return replace(self, units=units, bias=self.bias.astype(dtype, copy=False))


def accumulation_of(metric):
    """The sum behind a metric: the Euclidean distance is the root of another one's sum."""
    return "manhattan" if metric == "manhattan" else "sqeuclidean"
