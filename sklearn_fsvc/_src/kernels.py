"""Metrics and kernels of RBF units: the activation of a unit at a distance from its centre.

All properties of a kernel are in one object, which engines, the selection of centres and searches
use. None of them depends on its name.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .formulas import EXP, IDENTITY, Affine, Function, as_finite, powered_exp, raise_to
from .utils.parameters import check_choice, check_positive

# Half the base of the triangle is K * radius. With K = sqrt(2 pi) to four decimals the
# triangle and the Gaussian of the same radius have equal area (Dogaru & Dogaru 2017).
K = 2.5066
# Distances are divided by a power of two near the radius before they are squared, if the exponent
# of the radius exceeds this: 1e30 squared overflows float32. A power of two is exact.
_MAX_EXPONENT = 20


class Metric(NamedTuple):
    """A distance between a sample and a centre."""

    # The terms that an engine sums over the features: "manhattan", ``|x - c|``, or "sqeuclidean",
    # ``(x - c)^2``.
    sum: str
    power: int  # the sum is this power of the distance


METRICS = {
    "manhattan": Metric("manhattan", 1),
    "euclidean": Metric("sqeuclidean", 2),
    "sqeuclidean": Metric("sqeuclidean", 1),
}


class Kernel(ABC):
    """Kernel of RBF units, ``phi(d) = function(affine(d ** power))``, for a radius.

    A custom kernel is a subclass; pass an instance as the ``kernel`` of an estimator.
    phi depends on ``d / radius`` only. Novelty selection requires a kernel that is never negative;
    random centres do not.

    Attributes
    ----------
    name : str
    power : {1, 2}
        Power of the distance to which the affine step is applied.
    function : Function
        The function that is applied to the result of the affine step. Engines fuse the predefined
        functions with the summation, and apply others afterwards.
    widths : tuple of float
        Multiples of the natural radius that ``radius="auto"`` tries first.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fsvc.kernels import Affine, Function
    >>> from sklearn_fsvc.kernels import Kernel
    >>> def reciprocal(A, xp):
    ...     return xp.divide(1, A, out=A)
    >>> class Cauchy(Kernel):
    ...     name, power = "cauchy", 2
    ...     function = Function("reciprocal", reciprocal, slope=lambda H, xp: -H * H)
    ...
    ...     def affine(self, radius):
    ...         return Affine(scale=1 / radius**2, offset=1.0)
    ...
    ...     def natural_radius(self, distance):
    ...         return distance / 2
    >>> Cauchy().outputs(np.array([0.0, 1.0, 2.0]), 1.0, np)
    array([1. , 0.5, 0.2])
    """

    name: ClassVar[str] = ""
    power: ClassVar[int] = 1
    function: ClassVar[Function] = IDENTITY
    widths: ClassVar[tuple[float, ...]] = (1.0, 0.5, 2.0)

    # Kernels are equal if they have the same class and the same parameters.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).items()))

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({numbers})"

    @abstractmethod
    def affine(self, radius: float) -> Affine:
        """Return the `Affine` step on ``d ** power``."""

    @abstractmethod
    def natural_radius(self, distance: float) -> float:
        """Return the initial radius of a search, given the median distance between samples."""

    def scaled_affine(self, radius: float) -> tuple[float, Affine]:
        """Return ``(factor, affine)`` with ``phi(d) = function(affine((factor * d) ** power))``.

        The factor is a power of two that keeps squares finite; 1 unless the radius is extreme.
        """
        exponent = math.frexp(radius)[1]
        if self.power == 1 or abs(exponent) <= _MAX_EXPONENT:
            return 1.0, self.affine(radius)
        return math.ldexp(1.0, -exponent), self.affine(math.ldexp(radius, -exponent))

    @property
    def has_compact_support(self) -> bool:
        """Whether the activation is 0 beyond some distance."""
        return self.affine(1.0).floor > float("-inf")

    def outputs(self, D: Any, radius: float, xp: Any, out: Any = None) -> Any:
        """Compute phi for distances `D`, an array of `xp`, in `out` or in place."""
        factor, affine = self.scaled_affine(radius)
        powers = D if self.power == 1 else self._powers(D, factor, xp, D if out is None else out)
        return self.function.apply(affine.apply(powers, xp, out), xp)

    def _powers(self, D: Any, factor: float, xp: Any, out: Any) -> Any:
        """``(factor * D) ** power`` in `out`."""
        if factor != 1:
            D = xp.multiply(D, as_finite(factor, D.dtype), out=out)
        with np.errstate(over="ignore"):  # very large distances
            return raise_to(D, self.power, xp, out)

    def derivative(self, D: Any, radius: float, xp: Any) -> Any:
        """Return d phi / d d at distances `D` in a new array; it is 0 at the floor."""
        factor, affine = self.scaled_affine(radius)
        A = affine.apply(self._powers(D, factor, xp, xp.empty_like(D)), xp)
        is_above_floor = affine.floor < A
        slope = self.function.slope(self.function.apply(A, xp), xp)
        slope *= as_finite(affine.scale * self.power * factor, D.dtype)
        slope *= is_above_floor
        return slope if self.power == 1 else xp.multiply(slope, factor * D, out=slope)


class Triangular(Kernel):
    """``max(0, 1 - d / (2.5066 radius))``, the kernel of Dogaru & Dogaru (2017)."""

    __module__ = "sklearn_fsvc.kernels"  # the name in pickles

    # The best first width is 1.0 for few units and 0.85 for many; this is a compromise.
    name, widths = "triangular", (0.9, 0.7, 1.3)

    def affine(self, radius: float) -> Affine:
        return Affine(scale=-1.0 / (K * radius), offset=1.0, floor=0.0)

    def natural_radius(self, distance: float) -> float:
        return distance / K


class Gaussian(Kernel):
    """``exp(-d^2 / (2 radius^2))``."""

    __module__ = "sklearn_fsvc.kernels"  # the name in pickles

    name, power, function = "gaussian", 2, EXP
    widths = (1.5, 0.75, 3.0)

    def affine(self, radius: float) -> Affine:
        return Affine(scale=-0.5 / radius**2)

    def natural_radius(self, distance: float) -> float:
        return distance / K


class Laplacian(Kernel):
    """``exp(-d / radius)``."""

    __module__ = "sklearn_fsvc.kernels"  # the name in pickles

    name, function = "laplacian", EXP

    def affine(self, radius: float) -> Affine:
        return Affine(scale=-1.0 / radius)

    def natural_radius(self, distance: float) -> float:
        return 0.7 * distance


class PoweredExponential(Kernel):
    """``exp(-(d / radius)^exponent)``, a kernel of geostatistics.

    With an exponent of 1 it is the Laplacian. Smaller exponents are steeper near the centre and
    have heavier tails: they suit discontinuous and noisy targets. The kernel is positive definite
    up to 1 for Manhattan distances, and up to 2 for Euclidean ones.

    Parameters
    ----------
    exponent : float, default=0.7
        Above 0, and at most 2.

    References
    ----------
    P. J. Diggle, P. J. Ribeiro, "Model-based Geostatistics" (Springer 2007), section 3.4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_fsvc.kernels import PoweredExponential
    >>> PoweredExponential(0.5).outputs(np.array([0.0, 1.0, 4.0]), 1.0, np).round(4)
    array([1.    , 0.3679, 0.1353])
    """

    __module__ = "sklearn_fsvc.kernels"  # the name in pickles

    name = "powered_exponential"

    def __init__(self, exponent: float = 0.7):
        self.exponent = check_positive("exponent", exponent)
        if self.exponent > 2:
            raise ValueError(
                f"exponent={exponent!r} must be at most 2; greater exponents are not positive "
                "definite. 2 is a Gaussian."
            )

    @property
    def function(self) -> Function:  # type: ignore[override]
        return powered_exp(self.exponent)

    def affine(self, radius: float) -> Affine:
        return Affine(scale=-1.0 / radius)

    def natural_radius(self, distance: float) -> float:
        # The activation at this distance is that of Laplacian units at their natural radius.
        return float(0.7 ** (1 / self.exponent) * distance)


class Distance(Kernel):
    """The distance itself, which all kernels and radii share for the same centres."""

    __module__ = "sklearn_fsvc.kernels"  # the name in pickles

    name = "distance"

    def affine(self, radius: float) -> Affine:
        return Affine()

    def natural_radius(self, distance: float) -> float:
        return distance


DISTANCE = Distance()
TRIANGULAR, GAUSSIAN, LAPLACIAN = Triangular(), Gaussian(), Laplacian()
# Kernels that have a name as a parameter of estimators.
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel for kernel in (TRIANGULAR, GAUSSIAN, LAPLACIAN, PoweredExponential())
}


def check_kernel(kernel: Any) -> None:
    """Raise ValueError for an invalid value of the parameter `kernel`."""
    if isinstance(kernel, str) and kernel == "rbf":  # the name in scikit-learn
        raise ValueError(
            "kernel='rbf' is kernel='gaussian' with metric='euclidean' here; the default metric is "
            "the Manhattan distance."
        )
    if not isinstance(kernel, Kernel):
        check_choice("kernel", kernel, KERNELS, "a custom Kernel")


def check_non_negative(kernel: Kernel | str) -> None:
    """Raise ValueError for a kernel that is negative at some distance.

    Novelty selection relies on activities that only grow as centres are added.
    """
    if isinstance(simplify_kernel(get_kernel(kernel)), str):  # predefined kernels are non-negative
        return
    distances = np.append(0.0, np.geomspace(1e-3, 1e3, 601))
    with np.errstate(all="ignore"):
        outputs = get_kernel(kernel).outputs(distances.copy(), 1.0, np)
    negative = outputs < 0
    if negative.any():
        raise ValueError(
            f"kernel={kernel!r} is {outputs[negative][0]:.3g} at a distance of "
            f"{distances[negative][0]:.3g} with radius 1: novelty selection requires kernels that "
            'are never negative. Give another kernel, or selection="random".'
        )


def get_kernel(kernel: Kernel | str) -> Kernel:
    """Return the `Kernel` of a name; a `Kernel` is returned as it is."""
    if isinstance(kernel, Kernel):
        return kernel
    if kernel == DISTANCE.name:
        return DISTANCE
    check_kernel(kernel)
    return KERNELS[kernel]


def simplify_kernel(kernel: Kernel) -> Kernel | str:
    """Return the name of a predefined kernel; a custom kernel is returned as it is."""
    return kernel.name if KERNELS.get(kernel.name) == kernel else kernel
