"""What the user asks of a layer of patches."""

from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

import numpy as np

from ...images import PatchGrid, check_image, read_image_shape
from ...kernels import DISTANCE, KERNELS, METRICS, Kernel, kernel_of
from ...layers import AS_THEY_ARE, BELOW_MEAN, TWO_SIDED
from ...parameters import (
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_positive_or_auto,
    check_whole_numbers,
    is_word,
)

SELECTIONS = ("random", "global")
# Kernels that are more than a function of a distance, and what they make of the units' outputs.
RESPONSES = {"soft_threshold": TWO_SIDED, "below_mean": BELOW_MEAN}

# Squares of fewer features, and other numbers of features up to this, need not be images.
_LEAST_IMAGE, _NO_IMAGE = 16, 64
# The side of patches: this part of the shorter side of an image, within bounds.
_PART_OF_SIDE, _LEAST_SIDE, _MOST_SIDE = 0.25, 3, 8


@dataclass(frozen=True, eq=False, kw_only=True)
class PatchRequest:
    """What the user asked of a layer of patches: parameters of `PatchProjector`."""

    size_name: str  # name of the parameter that `n_units` is
    n_units: int
    image_shape: Any
    patch_size: Any
    stride: int
    pool: Any
    kernel: Any
    metric: str
    radius: float | str
    threshold: float
    contrast: bool | str
    whitening: float | None
    selection: str
    random_state: Any

    def check(self):
        """Raise for what cannot be used."""
        check_count(self.size_name, self.n_units)
        check_count("stride", self.stride)
        self._image(None)
        for name, meaning in _PAIRS.items():
            if getattr(self, name) is not None or name == "pool":
                _pair(name, getattr(self, name), meaning)
        if not isinstance(self.kernel, Kernel):
            check_choice("kernel", self.kernel, (*RESPONSES, *KERNELS), "a Kernel of your own")
        check_choice("metric", self.metric, METRICS)
        check_positive_or_auto("radius", self.radius)
        check_positive("threshold", self.threshold, or_zero=True)
        if not is_word(self.contrast, "auto"):
            check_flag("contrast", self.contrast)
        if self.whitening is not None:
            check_positive("whitening", self.whitening)
        check_choice("selection", self.selection, SELECTIONS)

    @property
    def response(self):
        """What becomes of the outputs of the units, as of `PatchLayer`."""
        return RESPONSES.get(self.kernel, AS_THEY_ARE)

    @property
    def n_columns_of_unit(self):
        """Columns of H of one unit, where images have places for all cells."""
        return (1 + (self.response == TWO_SIDED)) * prod(_pair("pool", self.pool, _PAIRS["pool"]))

    @property
    def is_prefix(self):
        """Whether fewer units are a prefix of more, and answer the same."""
        return self.selection == "random" and self.response != BELOW_MEAN

    @property
    def inner_kernel(self):
        """The kernel of units that are places among patches."""
        return DISTANCE if self.response == BELOW_MEAN else kernel_of(self.kernel)

    def normalises(self, grid):
        """Whether patches are normalised: by themselves those of images, which have rows."""
        return grid.image[0] > 1 if is_word(self.contrast, "auto") else bool(self.contrast)

    def grid(self, n_features):
        """The `PatchGrid` of images of so many features."""
        image = self._image(n_features)
        sides, size = image[:2], self.patch_size
        if size is None:
            # Features that are no image have one patch.
            most = _usual_side(sides) if self.image_shape or sides[0] > 1 else sides[1]
            size = tuple(min(most, side) for side in sides)
        height, width = _pair("patch_size", size, _PAIRS["patch_size"])
        if height > sides[0] or width > sides[1]:
            raise ValueError(
                f"patch_size={self.patch_size!r} does not fit in images of {sides[0]} x {sides[1]}."
            )
        grid = PatchGrid(image, (height, width), self.stride, (1, 1))
        return grid.pooled(_pair("pool", self.pool, _PAIRS["pool"]))

    def _image(self, n_features):
        """(rows, columns, channels)."""
        if self.image_shape is not None:
            shape = read_image_shape(self.image_shape)
            if n_features is not None:
                check_image(shape, n_features)
            return (*shape, 1)[:3]
        if n_features is None:
            return None
        side = isqrt(n_features)
        if side * side == n_features >= _LEAST_IMAGE:
            return side, side, 1
        if n_features > _NO_IMAGE:
            raise ValueError(
                f"image_shape=None, and {n_features} features are no square of gray pixels; give "
                "image_shape=(rows, columns) or (rows, columns, channels)."
            )
        return 1, n_features, 1


# What parameters of one number or two may be.
_PAIRS = {
    "patch_size": "the side of squares, or (height, width)",
    "pool": "the cells on a side, or (down, across)",
}


def _pair(name, value, meaning):
    """Two whole numbers; one stands for both."""
    if np.iterable(value):
        return check_whole_numbers(name, value, meaning, (2,))
    return (check_count(name, value),) * 2


def _usual_side(sides):
    """The side of patches where nobody gave one."""
    shorter = min((side for side in sides if side > 1), default=1)
    return min(max(round(_PART_OF_SIDE * shorter), _LEAST_SIDE), _MOST_SIDE)
