"""What estimators on patches of images share: parameters, and the choice."""

import numpy as np

from ..images import PatchGrid
from ..layers import TWO_SIDED, LinearLayer, PatchLayer, RBFLayer
from ..units.patches.fit import fit_layer
from ..units.patches.request import PatchRequest


class PatchUnits:
    """A mixin: the layer is units on patches of images, averaged over the cells of a grid."""

    layer = _lender = None  # none is given
    _unit_attributes = ("components_", "patches_")
    _first_alpha = 1.0
    _rows_may_be_outside = False
    _layer_needs_rows, _meets_rows_again = True, False

    @property
    def _shared_parameters(self):
        return {"n_hidden", "alpha"} if self._request.is_prefix else {"alpha"}

    @property
    def _width(self):
        return self._size * self._request.n_columns_of_unit

    @property
    def _request(self):
        return PatchRequest(
            self._size_name, self._size, self.image_shape, self.patch_size, self.stride, self.pool,
            self.kernel, self.metric, self.radius, self.threshold, self.contrast, self.whitening,
            self.selection, self.random_state,
        )  # fmt: skip

    def _check_layer(self):
        self._request.check()

    def _why_classes(self):
        return None

    def _choose_layer(self, job, samples, trials):
        layer, self.patches_ = fit_layer(self._request, job, samples)
        inner, grid = layer.inner, layer.grid
        self.components_, self.image_shape_, self.pool_ = inner.units, grid.image, grid.pool
        self.radius_ = getattr(inner, "radius", None)
        self.threshold_ = layer.threshold if layer.response == TWO_SIDED else None
        self.floor_, self.whitening_, self.shift_ = layer.floor, layer.whitening, layer.shift
        return layer

    def _layer(self):
        grid = PatchGrid(self.image_shape_, self.patches_.shape[1:3], self.stride, self.pool_)
        units, response = self.components_, self._request.response
        if response == TWO_SIDED:
            inner = LinearLayer(units, np.zeros(len(units), units.dtype))
        else:
            inner = RBFLayer(units, self.radius_, self.metric, self._request.inner_kernel)
        return PatchLayer(
            grid, inner, response, self.threshold_ or 0.0, self.floor_, self.whitening_, self.shift_
        )

    def _leading(self, n_columns):
        """A copy with the first columns of the layer, for another readout."""
        return super()._leading(n_columns // self._layer().n_columns_of_unit)
