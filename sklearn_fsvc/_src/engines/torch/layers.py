"""Hidden layers on PyTorch's tensors: one function for each way to accumulate over the features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..base import SQUARE_CANCELLATION
from .arrays import Array, allocating, moved
from .namespace import Namespace

# Bytes of the differences that are in memory at a time: they fit into the cache of a device.
_OF_HOST, _OF_GPU = 2**20, 2**24
# Distances over more features are summed in parts, as a long sum in float32 loses digits.
FEATURES_PER_SUM = 1024


@dataclass(frozen=True)
class TorchLayer:
    """A layer on a device.

    Attributes
    ----------
    layer : RBFLayer or LinearLayer
    units : tensor of shape (m, n)
        In the dtype of H.
    method : str
        How Manhattan distances are computed.
    centre : tensor of shape (n,), optional
        What is subtracted from samples, and was from units, for Euclidean distances.
    norms : tensor of shape (m,), optional
        Squared norms of the units.
    bias : tensor of shape (m,), optional
    """

    layer: Any
    units: torch.Tensor
    method: str = ""
    centre: torch.Tensor | None = None
    norms: torch.Tensor | None = None
    bias: torch.Tensor | None = None


def prepare(layer: Any, xp: Namespace, method: str) -> TorchLayer:
    """Return the layer on the device of a namespace."""
    units = xp.asarray(layer.units, layer.hidden_dtype).tensor
    if layer.reduction == "manhattan":
        return TorchLayer(layer, units, method)
    if layer.reduction == "product":
        return TorchLayer(layer, units, bias=xp.asarray(layer.bias, layer.hidden_dtype).tensor)
    # Samples and units are centred at the mean of the units, so that less cancels.
    centre = units.mean(dim=0)
    centre = centre if bool(torch.isfinite(centre).all()) else torch.zeros_like(centre)
    units = units - centre
    return TorchLayer(layer, units, centre=centre, norms=_squared_norms(units))


def hidden(prepared: TorchLayer, X: Array, out: Array, units: slice) -> None:
    """Write the activations of some units for the samples X to these columns of `out`."""
    layer, xp = prepared.layer, out.xp
    rows = moved(X.tensor, out.tensor.device, out.tensor.dtype)
    H = out[:, units]
    allocating(_SUMS[layer.reduction], prepared, rows, H.tensor, units)
    if prepared.bias is None:
        layer.affine_of_sum.apply(H, xp)
    else:
        H.tensor.add_(prepared.bias[units])
    layer.finish(H, xp)


def prepared_bytes(layer: Any, device: torch.device) -> int:
    """Return the bytes of a `TorchLayer`, and of temporary arrays of a fixed size."""
    (m, n), item = layer.units.shape, layer.hidden_dtype.itemsize
    buffer = _buffer_bytes(device) + max(m, n) * item
    if layer.reduction == "manhattan":  # in the dtype of H, and feature by feature
        return (
            layer.nbytes
            + (1 + (layer.units.dtype != layer.hidden_dtype)) * m * n * item
            + 2 * buffer
        )
    if layer.reduction == "product":
        return layer.nbytes + m * item
    return layer.nbytes + (m * n + n + 2 * m) * item + 3 * buffer


def row_bytes(layer: Any, n_units: int, method: str) -> int:
    """Return the bytes of `hidden` for each sample, for so many units at a time."""
    n, item = layer.n_features, layer.hidden_dtype.itemsize
    if layer.reduction == "manhattan":
        return 2 * n * item + (n_units * item if method == "cdist" else 0)
    if layer.reduction == "product":
        return n * item
    return 3 * n * item + n_units * (2 * item + 1)  # limits, and which distances are below


def _buffer_bytes(device):
    return _OF_HOST if device.type == "cpu" else _OF_GPU


# Distances and products.


def _manhattan(prepared, X, H, units):
    # Of a device without float64, such arrays are on the host. The order of sums is the same.
    is_elsewhere = prepared.method == "triton" and H.device.type == "cpu"
    METHODS["differences" if is_elsewhere else prepared.method](X, prepared.units[units], H)


def _by_kernel(X, C, H):
    from .manhattan import manhattan

    manhattan(X, C, H, FEATURES_PER_SUM)


def _by_differences(X, C, H):
    """Add absolute differences, feature by feature, in the order of the kernel."""
    step = max(1, _buffer_bytes(H.device) // (len(C) * H.element_size()))
    C, buffers = C.T.contiguous(), H.new_empty((2, min(step, len(H)), len(C)))
    for first in range(0, len(H), step):
        rows, total = X[first : first + step].T.contiguous(), H[first : first + step].zero_()
        differences, part = buffers[:, : len(total)]
        for k in range(0, len(C), FEATURES_PER_SUM):
            sums = total if k == 0 else part.zero_()
            features = slice(k, k + FEATURES_PER_SUM)
            for x, c in zip(rows[features], C[features], strict=True):
                torch.sub(x[:, None], c, out=differences)
                sums.add_(differences.abs_())
            if k > 0:
                total.add_(part)


def _by_cdist(X, C, H):
    H.copy_(torch.cdist(X, C, p=1))


# How Manhattan distances are computed, by the setting "manhattan".
METHODS: dict[str, Callable[..., None]] = {
    "triton": _by_kernel,
    "differences": _by_differences,
    "cdist": _by_cdist,
}


def _squared_euclidean(prepared, X, H, units):
    """Write squared distances by the expanded product; those that cancel, from differences."""
    X, C = X - prepared.centre, prepared.units[units]
    x_norms, c_norms = _squared_norms(X)[:, None], prepared.norms[units]
    torch.mm(X, C.T, out=H)
    H.mul_(-2).add_(x_norms).add_(c_norms)
    limit = SQUARE_CANCELLATION[np.dtype(str(H.dtype).removeprefix("torch."))]
    # "not >=" rather than "<": NaN, from infinite norms, counts as cancelled.
    i, j = (~(limit * (x_norms + c_norms) <= H)).nonzero(as_tuple=True)
    step = max(1, _buffer_bytes(X.device) // (X.element_size() * X.shape[1]))
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        H[i[part], j[part]] = _squared_norms(X[i[part]] - C[j[part]])


def _product(prepared, X, H, units):
    torch.mm(X, prepared.units[units].T, out=H)


# By `reduction` of a layer.
_SUMS = {"manhattan": _manhattan, "sqeuclidean": _squared_euclidean, "product": _product}


def _squared_norms(X):
    return torch.linalg.vector_norm(X, dim=1).square_()
