"""Gradients of RBF networks with respect to their input, over any array namespace `xp`.

For ``f_o(x) = sum_j W_oj phi(d(x, c_j))`` the chain rule gives
``df_o / dx_k = sum_j W_oj s_j t_jk`` with two factors for each unit j: the slope ``s_j``
(`distance_slopes`), and the direction ``t_jk``, which is ``sign(x_k - c_jk)`` for the Manhattan
distance and ``x_k - c_jk`` for the Euclidean distance and its square. The directions are computed
as differences, feature by feature: in an expanded product they would cancel near the centres.
"""

from typing import Any

import numpy as np

from ..layers import RBFLayer
from .threads import limit_blas_threads

# Elements of the differences that are computed at a time by an engine that is not of the host.
_DIFFERENCES = 2**24
# Elements of the directions of a block of samples that are computed at a time: NumPy's overhead
# for each call is amortised, and wide data fits into the cache.
CACHED_DIRECTIONS = 2**13
# Outputs are processed together as long as their gradients of one sample have no more elements
# than this fraction of n_units.
_OUTER = 4


def distance_slopes(layer: Any, D: Any, xp: Any) -> Any:
    """Return the slopes of a layer at distances `D` (rows, n_units), a new array.

    That is ``phi'(d)`` for the Manhattan distance, ``phi'(d) / d`` for the Euclidean distance (0
    for a distance of 0) and ``2 phi'(d)`` for its square.
    """
    slopes = layer.kernel.derivative(D, layer.radius, xp).astype(D.dtype, copy=False)
    if layer.metric == "euclidean":
        slopes /= xp.where(D > 0, D, D.dtype.type(np.inf))
    elif layer.metric == "sqeuclidean":
        slopes *= 2
    return slopes


@limit_blas_threads(1)
def squared_gradients(
    is_manhattan: bool, X: Any, units: Any, slopes: Any, W: Any, out: Any, xp: Any
) -> None:
    """Write the squared gradients, summed over the outputs, to `out` (rows, n_features), float64.

    X (rows, n_features), units (n_features, n_units), slopes (rows, n_units) and W (n_outputs,
    n_units) are C-ordered and of one dtype.
    """
    W, ones = xp.ascontiguousarray(W.T), xp.ones(len(W))
    n_at_a_time = max(1, CACHED_DIRECTIONS // slopes.size)
    for k in range(0, X.shape[1], n_at_a_time):
        features = slice(k, k + n_at_a_time)
        directions = X[:, features, None] - units[features]  # (rows, features, n_units)
        if is_manhattan:
            xp.sign(directions, out=directions)
        directions *= slopes[:, None]
        # Squared in float64: in float32 gradients above 1e19 would overflow.
        gradients = (directions.reshape(-1, len(W)) @ W).astype(np.float64, copy=False)
        out[:, features] = ((gradients * gradients) @ ones).reshape(len(X), -1)


def difference_sums(
    X: Any, units: Any, M: Any, out: Any, xp: Any, size: int = _DIFFERENCES
) -> None:
    """Write ``sum_j M_ij |x_ik - c_jk|`` to `out` (rows, n_features), float64.

    X (rows, n_features), units (n_features, n_units) and M (rows, n_units) are of one dtype. About
    `size` differences are computed at a time.
    """
    n_at_a_time = max(1, size // M.size)
    for k in range(0, X.shape[1], n_at_a_time):
        features = slice(k, k + n_at_a_time)
        differences = X[:, features, None] - units[features]  # (rows, features, n_units)
        xp.abs(differences, out=differences)
        differences *= M[:, None]
        out[:, features] = differences.sum(axis=2)


def gradient_outer_product(
    X: Any, units: Any, slopes: Any, W: Any, weight: Any, algebra: Any
) -> Any:
    """Return the sum over samples and outputs of the outer product of the gradient with itself.

    Only for directions ``x - c``, hence not for the Manhattan distance. As they are linear in x,
    the sum over the units is split: ``sum_j W_oj s_j (x - c_j) = x (W_o s) - (W_o s) C``, two
    matrix products. They cancel for samples far from the origin, so X and the units should be
    centred first.

    Parameters
    ----------
    X, units, slopes, W : arrays of the algebra, of one dtype
        (rows, n_features), (n_units, n_features), (rows, n_units) and (n_outputs, n_units).
    weight : array of shape (rows,) or None
        Sample weights.
    algebra : Algebra

    Returns
    -------
    array of shape (n_features, n_features), float64
    """
    xp, (n_units, n) = algebra.xp, units.shape
    total = xp.zeros((n, n))
    n_at_a_time = max(1, n_units // (_OUTER * n))
    for first in range(0, len(W), n_at_a_time):
        w = W[first : first + n_at_a_time].T
        centers = algebra.multiply(slopes, (w[:, :, None] * units[:, None]).reshape(n_units, -1))
        gradients = X[:, None] * algebra.multiply(slopes, w)[:, :, None]
        gradients -= centers.reshape(gradients.shape)
        gradients = gradients.astype(np.float64, copy=False)
        weighted = gradients if weight is None else gradients * weight[:, None, None]
        total += algebra.multiply_transposed(weighted.reshape(-1, n), gradients.reshape(-1, n))
    return total


def row_bytes(layer: RBFLayer, n_outputs: int) -> int:
    """Return an upper bound of the temporary memory for each sample."""
    item = layer.hidden_dtype.itemsize
    return layer.n_units * (5 * item + 2) + 24 * n_outputs + 8 * layer.n_features


def fixed_bytes(layer: RBFLayer, n_outputs: int) -> int:
    """Return an upper bound of the memory for copies of the centres and the output weights."""
    return 3 * (layer.n_features + n_outputs) * layer.n_units * 8
