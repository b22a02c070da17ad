"""Metrics and kernels of RBF units: the activation of a unit at a distance from its centre.

A kernel is one object. All that the package knows of it stands there once: engines,
selection and the search ask the object and never its name.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .formulas import EXP, IDENTITY, Affine, Function, finite, powered_exp, raise_to
from .utils.parameters import check_choice, check_positive

# Half the base of the triangle is K * radius. With K = sqrt(2 pi) to four decimals the
# triangle and the Gaussian of the same radius have equal area (Dogaru & Dogaru 2017).
K = 2.5066
# Radii outside of 2 to the power of minus and plus this many are brought to 1 before a square:
# that of 1e30 is no number of float32. A power of two changes no digit.
_NEAR_ONE = 20


class Metric(NamedTuple):
    """A distance between a row and a centre."""

    # What an engine sums over the features: "manhattan", ``|x - c|``, or "sqeuclidean",
    # ``(x - c)^2``.
    sum: str
    power: int  # of the distance that the sum is


METRICS = {
    "manhattan": Metric("manhattan", 1),
    "euclidean": Metric("sqeuclidean", 2),
    "sqeuclidean": Metric("sqeuclidean", 1),
}


class Kernel(ABC):
    """``phi(d) = function(affine(d ** power))``, for a radius.

    A kernel of your own is a subclass; an object of it is the ``kernel`` of an estimator.
    The radius is the unit of the distance: phi depends on ``d / radius`` alone.
    Novelty selection takes kernels that are never negative; with random centres any will do.

    Attributes
    ----------
    name : str
    power : {1, 2}
        Power of the distance that the affine step is made of.
    function : Function
        What is left after the affine step. Engines fuse those they know and apply the
        others to finished sums.
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

    # Equal are kernels of one class with the same numbers in them.
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
        """Return the radius to begin with, for rows that are typically at this distance."""

    def steps(self, radius: float) -> tuple[float, Affine]:
        """Return ``(factor, affine)``: ``phi(d) = function(affine((factor * d) ** power))``.

        The factor is a power of two, and 1 but for a square of what is very far from 1.
        """
        exponent = math.frexp(radius)[1]
        if self.power == 1 or abs(exponent) <= _NEAR_ONE:
            return 1.0, self.affine(radius)
        return math.ldexp(1.0, -exponent), self.affine(math.ldexp(radius, -exponent))

    @property
    def has_edge(self) -> bool:
        """Whether the activation is 0 beyond some distance."""
        return self.affine(1.0).floor > float("-inf")

    def outputs(self, D: Any, radius: float, xp: Any, out: Any = None) -> Any:
        """Compute phi of distances `D`, an array of `xp`, in `out` or in place."""
        factor, affine = self.steps(radius)
        powers = D if self.power == 1 else self._powers(D, factor, xp, D if out is None else out)
        return self.function.apply(affine.apply(powers, xp, out), xp)

    def _powers(self, D: Any, factor: float, xp: Any, out: Any) -> Any:
        """``(factor * D) ** power`` in `out`."""
        if factor != 1:
            D = xp.multiply(D, finite(factor, D.dtype), out=out)
        with np.errstate(over="ignore"):  # of what is far away
            return raise_to(D, self.power, xp, out)

    def derivative(self, D: Any, radius: float, xp: Any) -> Any:
        """Compute d phi / d d at distances `D`, a new array; it is 0 where the floor holds."""
        factor, affine = self.steps(radius)
        before = affine.apply(self._powers(D, factor, xp, xp.empty_like(D)), xp)
        inside = before > affine.floor
        slope = self.function.slope(self.function.apply(before, xp), xp)
        slope *= finite(affine.scale * self.power * factor, D.dtype)
        slope *= inside
        return slope if self.power == 1 else xp.multiply(slope, factor * D, out=slope)


class Triangular(Kernel):
    """``max(0, 1 - d / (K radius))``, the kernel of the paper."""

    __module__ = "sklearn_fsvc.kernels"  # for pickles, whatever file it is in

    # Few units want 1.0, many 0.85: what suits them both is between.
    name, widths = "triangular", (0.9, 0.7, 1.3)

    def affine(self, radius: float) -> Affine:
        return Affine(scale=-1.0 / (K * radius), offset=1.0, floor=0.0)

    def natural_radius(self, distance: float) -> float:
        return distance / K


class Gaussian(Kernel):
    """``exp(-d^2 / (2 radius^2))``."""

    __module__ = "sklearn_fsvc.kernels"  # for pickles, whatever file it is in

    name, power, function = "gaussian", 2, EXP
    widths = (1.5, 0.75, 3.0)

    def affine(self, radius: float) -> Affine:
        return Affine(scale=-0.5 / radius**2)

    def natural_radius(self, distance: float) -> float:
        return distance / K


class Laplacian(Kernel):
    """``exp(-d / radius)``."""

    __module__ = "sklearn_fsvc.kernels"  # for pickles, whatever file it is in

    name, function = "laplacian", EXP

    def affine(self, radius: float) -> Affine:
        return Affine(scale=-1.0 / radius)

    def natural_radius(self, distance: float) -> float:
        return 0.7 * distance


class PoweredExponential(Kernel):
    """``exp(-(d / radius)^exponent)``, a kernel of geostatistics.

    With an exponent of 1 it is the Laplacian. Smaller ones are steeper near the centre and have
    longer tails: they suit steps and noise. It is positive definite up to 1 for Manhattan
    distances, and up to 2 for Euclidean ones.

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

    __module__ = "sklearn_fsvc.kernels"  # for pickles, whatever file it is in

    name = "powered_exponential"

    def __init__(self, exponent: float = 0.7):
        self.exponent = check_positive("exponent", exponent)
        if self.exponent > 2:
            raise ValueError(
                f"exponent={exponent!r} must be at most 2, beyond which units cancel each other; "
                "2 is a Gaussian."
            )

    @property
    def function(self) -> Function:  # type: ignore[override]
        return powered_exp(self.exponent)

    def affine(self, radius: float) -> Affine:
        return Affine(scale=-1.0 / radius)

    def natural_radius(self, distance: float) -> float:
        return float(0.7 ** (1 / self.exponent) * distance)  # as high as Laplacian units there


class Distance(Kernel):
    """d itself: what units of the same centres share, whatever their kernel and radius."""

    __module__ = "sklearn_fsvc.kernels"  # for pickles, whatever file it is in

    name = "distance"

    def affine(self, radius: float) -> Affine:
        return Affine()

    def natural_radius(self, distance: float) -> float:
        return distance


DISTANCE = Distance()
TRIANGULAR, LAPLACIAN = Triangular(), Laplacian()
# Those that estimators know by name.
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel for kernel in (TRIANGULAR, Gaussian(), LAPLACIAN, PoweredExponential())
}


def check_kernel(kernel: Any) -> None:
    """Raise for what is no kernel of units."""
    if not isinstance(kernel, Kernel):
        check_choice("kernel", kernel, KERNELS, "a Kernel of your own")


def check_non_negative(kernel: Kernel | str) -> None:
    """Raise for a kernel under which activities do not only grow as centres are found."""
    if isinstance(named(kernel_of(kernel)), str):  # ours never are, and each call would look
        return
    distances = np.append(0.0, np.geomspace(1e-3, 1e3, 601))
    with np.errstate(all="ignore"):
        outputs = kernel_of(kernel).outputs(distances.copy(), 1.0, np)
    negative = outputs < 0
    if negative.any():
        raise ValueError(
            f"kernel={kernel!r} is {outputs[negative][0]:.3g} at a distance of "
            f"{distances[negative][0]:.3g} with radius 1: novelty selection takes kernels that are "
            'never negative. Give another kernel, or selection="random".'
        )


def kernel_of(kernel: Kernel | str) -> Kernel:
    """The `Kernel` that a name stands for; a `Kernel` stands for itself."""
    if isinstance(kernel, Kernel):
        return kernel
    if kernel == DISTANCE.name:
        return DISTANCE
    check_kernel(kernel)
    return KERNELS[kernel]


def named(kernel: Kernel) -> Kernel | str:
    """The name of a kernel that estimators know by it; another one itself."""
    return kernel.name if KERNELS.get(kernel.name) == kernel else kernel
