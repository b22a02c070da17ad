"""Receptive fields: each unit sees a random rectangle of the image."""

from dataclasses import dataclass
from math import prod

import numpy as np

from ...images import read_image_shape
from ...parameters import check_whole_numbers


def read_fields(image_shape, patch_size):
    """Both in ints of Python, or None; raises for what cannot be used."""
    if image_shape is None:
        if patch_size is not None:
            raise ValueError(
                f"patch_size={patch_size!r} needs to know the shape of the images; give "
                "image_shape=(rows, columns) too."
            )
        return None, None
    image_shape = read_image_shape(image_shape)
    if patch_size is None:
        return image_shape, None
    size_means = "(low, high), the smallest and largest side"
    low, high = check_whole_numbers("patch_size", patch_size, size_means, (2,))
    sides = image_shape[:2]
    if low > high:
        raise ValueError(f"patch_size={patch_size!r} must be (low, high) with low <= high.")
    if low > min(sides) or high > max(sides):
        raise ValueError(
            f"patch_size={patch_size!r} does not fit in images of {sides[0]} x {sides[1]}; low "
            f"may be {min(sides)} at most, and high {max(sides)}."
        )
    return image_shape, (low, high)


def sides_of(image_shape, patch_size):
    """(low, high): `patch_size`, or from a fifth to three fifths of the shorter side.

    >>> sides_of((28, 28), None)
    (6, 17)
    """
    if patch_size is not None:
        return patch_size
    side = min(image_shape[:2])
    return max(1, round(0.2 * side)), max(1, round(0.6 * side))


# Fields that are drawn in any case: those that others look at, whatever the number of units.
_FIRST = 8


@dataclass(frozen=True)
class Fields:
    """A rectangle of the image for each unit.

    Height, width and place are uniform: among the sizes that `patch_size` allows and the
    image holds, and among the places where the rectangle lies within the image. It has all
    channels of its pixels.
    """

    image_shape: tuple[int, ...]
    # int, (n_fields, 2): first row and column, height and width; of 8 fields or more.
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def draw(cls, n_units, image_shape, patch_size, seed):
        """Unit by unit: fewer fields with the same seed are a prefix."""
        low, high = sides_of(image_shape, patch_size)
        sides = np.array(image_shape[:2])
        chance = np.random.default_rng(seed).random((max(n_units, _FIRST), 2, 2))
        lengths = low + (chance[:, 0] * (np.minimum(high, sides) - low + 1)).astype(np.intp)
        starts = (chance[:, 1] * (sides - lengths + 1)).astype(np.intp)
        return cls(image_shape, starts, lengths)

    def n_inputs(self, n_units):
        """Features that each of the first units sees."""
        n_channels = prod(self.image_shape[2:])
        return n_channels * self.lengths[:n_units].prod(axis=1)

    def first(self):
        """The features that each of some first fields holds."""
        for j in range(_FIRST):
            inside = np.zeros(self.image_shape, bool)
            (top, left), (height, width) = self.starts[j], self.lengths[j]
            inside[top : top + height, left : left + width] = True
            yield np.flatnonzero(inside)

    def mask(self, W, xp):
        """Set the weights outside each unit's rectangle to 0, in place."""
        images = W.reshape(len(W), *self.image_shape[:2], -1)
        for axis in (0, 1):
            pixels = np.arange(self.image_shape[axis], dtype=np.int32)
            start, length = (
                a[: len(W), [axis]].astype(np.int32) for a in (self.starts, self.lengths)
            )
            inside = (pixels >= start) & (pixels < start + length)
            images *= xp.asarray(np.expand_dims(inside, (2 - axis, 3)))
