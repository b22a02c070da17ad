"""Gradients of the answers of an RBF network with respect to its rows, over any namespace `xp`.

For ``f_o(x) = sum_j W_oj phi(d(x, c_j))`` the chain rule gives ``df_o / dx_k =
sum_j W_oj s_j t_jk``: what `slopes` makes of the distance, and the step ``t_jk``, which is
``sign(x_k - c_jk)`` for the Manhattan distance and ``x_k - c_jk`` for the others. Steps are
made of differences, feature by feature: an expanded product would cancel where rows are
close to centres.
"""

import numpy as np

from .blas_threads import at_most

# Steps of a block of rows that are made at a time, where those of one feature are fewer: each call
# has its price, and wide tables have many features.
_STEPS = 2**13
# Outputs are taken together as long as their steps are this part of the slopes of all units.
_OUTER = 4


def slopes(layer, D, xp):
    """``phi'(d)``, over d for the Euclidean distance (0 where d is) and twice for its square."""
    slopes = layer.kernel.derivative(D, layer.radius, xp).astype(D.dtype, copy=False)
    if layer.metric == "euclidean":
        slopes /= xp.where(D > 0, D, D.dtype.type(np.inf))
    elif layer.metric == "sqeuclidean":
        slopes *= 2
    return slopes


@at_most(1)
def square(is_manhattan, X, units, slopes, W, out, xp):
    """out[i, k] = sum over outputs of the squared gradient of row i in feature k, in float64.

    With `is_manhattan` a step is the sign of a difference. X (rows, n_features), units (n_features,
    n_units), slopes (rows, n_units) and W (n_outputs, n_units) are C-ordered and of one dtype.
    """
    W, ones = xp.ascontiguousarray(W.T), xp.ones(len(W))
    n_at_a_time = max(1, _STEPS // slopes.size)
    for k in range(0, X.shape[1], n_at_a_time):
        some = slice(k, k + n_at_a_time)
        steps = X[:, some, None] - units[some]
        if is_manhattan:
            xp.sign(steps, out=steps)
        steps *= slopes[:, None]
        gradients = (steps.reshape(-1, len(W)) @ W).astype(np.float64, copy=False)
        out[:, some] = ((gradients * gradients) @ ones).reshape(len(X), -1)


def outer(X, units, slopes, W, weight, algebra):
    """The sum over rows and outputs of the outer product of the gradient with itself.

    For steps ``x - c`` alone: Euclidean distances and their squares. All outputs are products
    of matrices, which cancel where rows lie far from 0: let the mean of the rows be 0.

    X (rows, n_features), units (n_units, n_features), slopes (rows, n_units) and W (n_outputs,
    n_units) are of one dtype, arrays of the algebra; `weight` (rows,) may be None. Returns
    (n_features, n_features) in float64.
    """
    xp, (n_units, n) = algebra.xp, units.shape
    total = xp.zeros((n, n))
    n_at_a_time = max(1, n_units // (_OUTER * n))
    for first in range(0, len(W), n_at_a_time):
        w = W[first : first + n_at_a_time].T
        towards = algebra.multiply(slopes, (w[:, :, None] * units[:, None]).reshape(n_units, -1))
        steps = X[:, None] * algebra.multiply(slopes, w)[:, :, None]
        steps -= towards.reshape(steps.shape)
        gradients = steps.astype(np.float64, copy=False)
        weighted = gradients if weight is None else gradients * weight[:, None, None]
        total += algebra.cross(weighted.reshape(-1, n), gradients.reshape(-1, n))
    return total


def row_bytes(layer, n_outputs):
    """Bytes that a row takes, at most: slopes and steps with what they are made of, and answers."""
    item = layer.hidden_dtype.itemsize
    return layer.n_units * (5 * item + 2) + 24 * n_outputs + 8 * layer.n_features


def fixed_bytes(layer, n_outputs):
    """Bytes that units and readout take, at most: where they are needed, and turned."""
    return 3 * (layer.n_features + n_outputs) * layer.n_units * 8
