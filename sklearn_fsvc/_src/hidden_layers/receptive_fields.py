"""Receptive fields of tanh units: each has a random rectangle of the image as its input."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..images import read_image_shape
from ..utils.parameters import check_positive_integers

# Receptive fields that are drawn at least, so that the estimate of the scale does not depend on the
# number of units.
_MIN_FIELDS = 8


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
