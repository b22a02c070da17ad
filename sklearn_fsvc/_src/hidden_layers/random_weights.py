"""Random weights of tanh units, and random rectangles of an image as their inputs.

They are always drawn on the host, so that every device has the same ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from ..engines.host import map_rows
from ..engines.threads import limit_blas_threads, n_threads
from ..images import read_image_shape
from ..utils.parameters import check_positive_integers

# Units that share a stream of random numbers. Each group has its own stream, so that threads can
# draw in parallel, and the weights of a unit do not depend on the number of units after it.
_GROUP_UNITS = 256
# Random numbers that a thread draws at a time, in float64.
_BLOCK_ELEMENTS = 2**16
# Receptive fields that are drawn at least, so that the estimate of the scale does not depend on the
# number of units.
_MIN_FIELDS = 8


def draw_gaussian(
    n_units: int, n_features: int, seed: int, dtype: npt.DTypeLike = np.float64
) -> npt.NDArray:
    """Return independent standard normal weights, (n_units, n_features)."""
    W, step = np.empty((n_units, n_features), dtype), max(1, _BLOCK_ELEMENTS // n_features)

    def draw(units):
        # One buffer per thread: allocations of several threads would serialise on page faults.
        buffer = np.empty((step, n_features))
        for start in range(units.start, units.stop, _GROUP_UNITS):
            stream = np.random.default_rng([seed, start // _GROUP_UNITS])
            stop = min(start + _GROUP_UNITS, units.stop)
            for i in range(start, stop, step):
                n = min(step, stop - i)
                W[i : i + n] = stream.standard_normal(out=buffer[:n])

    map_rows(draw, n_units, n_threads(), multiple=_GROUP_UNITS)
    return W


@limit_blas_threads(1)
def draw_orthogonal(
    n_units: int, n_features: int, seed: int, dtype: npt.DTypeLike = np.float64
) -> npt.NDArray:
    """Return Gaussian weights with orthogonal directions within each group of n_features units.

    Their lengths are those of `draw_gaussian` (Yu et al. 2016, "Orthogonal Random Features"). The
    directions are the Q of a QR decomposition, with signs such that R has a positive diagonal.
    Column j of Q depends on the first j columns only, so the units of a smaller layer are, up to
    rounding, the first ones of a larger layer.
    """
    W = draw_gaussian(n_units, n_features, seed)
    for start in range(0, n_units, n_features):
        group = W[start : start + n_features]
        Q, R = linalg.qr(group.T, mode="economic", check_finite=False)
        signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
        group[:] = (Q * signs).T * np.linalg.norm(group, axis=1)[:, None]
    return W.astype(dtype, copy=False)


def orthogonal_bytes(n_units: int, n_features: int) -> int:
    """Return the peak memory of `draw_orthogonal`: all weights, and the QR of one group."""
    n_of_group = min(n_units, n_features)
    return 8 * n_features * (n_units + 4 * n_of_group)


def read_fields(
    image_shape: Any, patch_size: Any
) -> tuple[tuple[int, ...] | None, tuple[int, int] | None]:
    """Return both parameters as tuples of int, or None; raise for invalid values."""
    if image_shape is None:
        if patch_size is not None:
            raise ValueError(
                f"patch_size={patch_size!r} requires the shape of the images; pass "
                "image_shape=(rows, columns) too."
            )
        return None, None
    image_shape = read_image_shape(image_shape)
    if patch_size is None:
        return image_shape, None
    size_means = "(low, high), the smallest and largest side"
    low, high = check_positive_integers("patch_size", patch_size, size_means, (2,))
    sides = image_shape[:2]
    if low > high:
        raise ValueError(f"patch_size={patch_size!r} must be (low, high) with low <= high.")
    if low > min(sides) or high > max(sides):
        raise ValueError(
            f"patch_size={patch_size!r} does not fit in images of {sides[0]} x {sides[1]}; low "
            f"may be {min(sides)} at most, and high {max(sides)}."
        )
    return image_shape, (low, high)


def field_sides(
    image_shape: tuple[int, ...], patch_size: tuple[int, int] | None
) -> tuple[int, int]:
    """Return the minimum and maximum side: `patch_size`, or 1/5 to 3/5 of the shorter image side.

    >>> field_sides((28, 28), None)
    (6, 17)
    """
    if patch_size is not None:
        return patch_size
    side = min(image_shape[:2])
    return max(1, round(0.2 * side)), max(1, round(0.6 * side))


@dataclass(frozen=True)
class ReceptiveFields:
    """A random rectangle of the image for each unit, with all channels.

    Height, width and position are uniformly distributed: over the sizes between the sides of
    `patch_size` that fit in the image, and over the positions within the image.
    """

    image_shape: tuple[int, ...]
    # int, (n_fields, 2): first row and column, height and width; at least 8 fields.
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def draw(
        cls,
        n_units: int,
        image_shape: tuple[int, ...],
        patch_size: tuple[int, int] | None,
        seed: int,
    ) -> "ReceptiveFields":
        """Draw a field for each unit; with the same seed, fewer fields are a prefix of more."""
        low, high = field_sides(image_shape, patch_size)
        sides = np.array(image_shape[:2])
        uniform = np.random.default_rng(seed).random((max(n_units, _MIN_FIELDS), 2, 2))
        lengths = low + (uniform[:, 0] * (np.minimum(high, sides) - low + 1)).astype(np.intp)
        starts = (uniform[:, 1] * (sides - lengths + 1)).astype(np.intp)
        return cls(image_shape, starts, lengths)

    def n_inputs(self, n_units: int) -> npt.NDArray:
        """Return the number of features in the field of each of the first units."""
        n_channels = prod(self.image_shape[2:])
        return n_channels * self.lengths[:n_units].prod(axis=1)

    def first_features(self) -> Iterator[npt.NDArray]:
        """Yield the features in each of the first fields."""
        for j in range(_MIN_FIELDS):
            inside = np.zeros(self.image_shape, bool)
            (top, left), (height, width) = self.starts[j], self.lengths[j]
            inside[top : top + height, left : left + width] = True
            yield np.flatnonzero(inside)

    def mask(self, W: Any, xp: Any) -> None:
        """Set the weights outside the field of each unit to 0, in place."""
        images = W.reshape(len(W), *self.image_shape[:2], -1)
        for axis in (0, 1):
            pixels = np.arange(self.image_shape[axis], dtype=np.int32)
            start, length = (
                a[: len(W), [axis]].astype(np.int32) for a in (self.starts, self.lengths)
            )
            inside = (pixels >= start) & (pixels < start + length)
            # One mask of rows and one of columns: their product is the rectangle.
            images *= xp.asarray(np.expand_dims(inside, (2 - axis, 3)))
