"""Units that are patches of images, averaged over the cells of a grid: parameters and choice."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..images import PatchGrid
from ..layers import TWO_SIDED, LinearLayer, PatchLayer, RBFLayer
from ..units.patches.fit import fit_layer
from ..units.patches.request import PatchRequest
from .parts import Sharing, Units


@dataclass(frozen=True, eq=False, kw_only=True)
class Patches(PatchRequest, Units):
    """Units on patches."""

    first_alpha = 1.0
    of_units = ("components_", "patches_")
    attributes = (
        *of_units, "image_shape_", "pool_", "radius_", "threshold_", "floor_", "whitening_",
        "shift_",
    )  # fmt: skip

    @property
    def width(self):
        return self.n_units * self.n_columns_of_unit

    def fit(self, job, samples, history):
        layer, patches = fit_layer(self, job, samples)
        inner, grid = layer.inner, layer.grid
        threshold = layer.threshold if layer.response == TWO_SIDED else None
        return self.with_fitted(
            components_=inner.units, patches_=patches, image_shape_=grid.image, pool_=grid.pool,
            radius_=getattr(inner, "radius", None), threshold_=threshold, floor_=layer.floor,
            whitening_=layer.whitening, shift_=layer.shift,
        )  # fmt: skip

    @cached_property
    def layer(self):
        found = self.found
        units, size = found["components_"], found["patches_"].shape[1:3]
        if self.response == TWO_SIDED:
            inner = LinearLayer(units, np.zeros(len(units), units.dtype))
        else:
            inner = RBFLayer(units, found["radius_"], self.metric, self.inner_kernel)
        return PatchLayer(
            PatchGrid(found["image_shape_"], size, self.stride, found["pool_"]), inner,
            self.response, found["threshold_"] or 0.0, found["floor_"], found["whitening_"],
            found["shift_"],
        )  # fmt: skip

    def leading(self, n_columns):
        return super().leading(n_columns // self.layer.n_columns_of_unit)

    @property
    def sharing(self):
        return Sharing(frozenset({"n_hidden", "alpha"} if self.is_prefix else {"alpha"}))
