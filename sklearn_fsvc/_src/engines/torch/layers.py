"""Hidden layers on PyTorch's tensors: one function for each way to accumulate over the features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..base import CANCELLATION
from .arrays import Array, Namespace, allocating

# Bytes of the differences that are in memory at a time: on a GPU they stay in its cache.
_DIFFERENCES = 2**24
# Features whose differences are summed at a time.
_FEATURES = 16


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
    if layer.accumulation == "manhattan":
        return TorchLayer(layer, units, method)
    if layer.accumulation == "product":
        return TorchLayer(layer, units, bias=xp.asarray(layer.bias).tensor)
    # Samples and units are centred at the mean of the units, so that less cancels.
    centre = units.mean(dim=0)
    centre = centre if bool(torch.isfinite(centre).all()) else torch.zeros_like(centre)
    units = units - centre
    return TorchLayer(layer, units, centre=centre, norms=_squared_norms(units))


def hidden(prepared: TorchLayer, X: Array, out: Array, units: slice) -> None:
    """Write the activations of some units for the samples X to these columns of `out`."""
    layer, xp = prepared.layer, out.xp
    rows = X.tensor.to(out.tensor.device, out.tensor.dtype)
    H = out[:, units]
    allocating(_SUMS[layer.accumulation], prepared, rows, H.tensor, units)
    if prepared.bias is None:
        layer.affine_of_sum.apply(H, xp)
    else:
        H.tensor.add_(prepared.bias[units])
    layer.finish(H, xp)


def prepared_bytes(layer: Any) -> int:
    """Return the bytes of a `TorchLayer`, and of differences."""
    m, n = layer.units.shape
    return layer.nbytes + (2 * m * n + n + m) * layer.hidden_dtype.itemsize + 2 * _DIFFERENCES


def row_bytes(layer: Any, n_units: int) -> int:
    """Return the bytes of `hidden` for each sample: cast, centred, and temporary arrays like H."""
    masks = 3 * layer.hidden_dtype.itemsize + 1
    return (3 * layer.n_features + 1) * layer.hidden_dtype.itemsize + n_units * masks


# Distances and products.


def _manhattan(prepared, X, H, units):
    METHODS[prepared.method](X, prepared.units[units], H)


def _all_at_once(X, C, H):
    """Write Manhattan distances by PyTorch's function."""
    H.copy_(torch.cdist(X, C, p=1))


def _by_differences(X, C, H):
    """Write Manhattan distances: sums of absolute differences, a few features at a time."""
    n_rows = max(1, _DIFFERENCES // (_FEATURES * len(C) * X.element_size()))
    features = C.T.contiguous()[:, None]
    for start in range(0, len(X), n_rows):
        rows = slice(start, start + n_rows)
        columns, total = X[rows].T.contiguous()[:, :, None], None
        for k in range(0, X.shape[1], _FEATURES):
            part = slice(k, k + _FEATURES)
            distances = torch.linalg.vector_norm(columns[part] - features[part], ord=1, dim=0)
            total = distances if total is None else total.add_(distances)
        H[rows] = total


# By the setting "manhattan".
METHODS: dict[str, Callable[..., None]] = {
    "cdist": _all_at_once,
    "differences": _by_differences,
}


def _squared_euclidean(prepared, X, H, units):
    """Write squared distances by the expanded product; those that cancel, from differences."""
    X, C = X - prepared.centre, prepared.units[units]
    x_norms, c_norms = _squared_norms(X)[:, None], prepared.norms[units]
    torch.mm(X, C.T, out=H)
    H.mul_(-2).add_(x_norms).add_(c_norms)
    limit = CANCELLATION[np.dtype(str(H.dtype).removeprefix("torch."))]
    # "not >=" rather than "<": NaN, from infinite norms, counts as cancelled.
    i, j = (~(limit * (x_norms + c_norms) <= H)).nonzero(as_tuple=True)
    step = max(1, _DIFFERENCES // (2 * X.element_size() * X.shape[1]))
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        H[i[part], j[part]] = _squared_norms(X[i[part]] - C[j[part]])


def _product(prepared, X, H, units):
    torch.mm(X, prepared.units[units].T, out=H)


_SUMS = {"manhattan": _manhattan, "sqeuclidean": _squared_euclidean, "product": _product}


def _squared_norms(X):
    return torch.linalg.vector_norm(X, dim=1).square_()
