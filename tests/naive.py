"""The reference oracle: every formula as in a paper, in float64, readable and not fast."""

import numpy as np

K = 2.5066


def distances(X, C, metric):
    """Return distances, by blocks of rows, since all differences at a time may take gigabytes."""
    rows, C = X.astype(float), C.astype(float)
    step = max(1, 2**16 // max(1, C.size))
    blocks = [_distances_of(rows[i : i + step, None], C, metric) for i in range(0, len(X), step)]
    return np.concatenate(blocks) if blocks else np.empty((0, len(C)))


def _distances_of(x, C, metric):
    if metric == "manhattan":
        return np.abs(x - C).sum(axis=-1)
    squared = ((x - C) ** 2).sum(axis=-1)
    return np.sqrt(squared) if metric == "euclidean" else squared


# The activation of a unit at distance d, for the radius r.
KERNELS = {
    "triangular": lambda d, r: np.maximum(0, 1 - d / (K * r)),
    "gaussian": lambda d, r: np.exp(-(d**2) / (2 * r**2)),
    "laplacian": lambda d, r: np.exp(-d / r),
    "powered_exponential": lambda d, r: np.exp(-((d / r) ** 0.7)),
    "distance": lambda d, r: d,
    "cauchy": lambda d, r: 1 / (1 + (d / r) ** 2),
}
# Its derivative with respect to d.
SLOPES = {
    "triangular": lambda d, r: np.where(d < K * r, -1 / (K * r), 0.0),
    "gaussian": lambda d, r: -d / r**2 * np.exp(-(d**2) / (2 * r**2)),
    "laplacian": lambda d, r: -np.exp(-d / r) / r,
    "powered_exponential": lambda d, r: _powered_slope(d / r, 0.7) / r,
    "distance": lambda d, r: np.ones_like(d),
    "cauchy": lambda d, r: -2 * d / r**2 / (1 + (d / r) ** 2) ** 2,
}


def _powered_slope(u, q):
    """Return the derivative of exp(-u^q); 0 at the centre, where it does not exist."""
    u = np.where(u == 0, np.inf, u)
    return -q * u ** (q - 1) * np.exp(-(u**q))


def rbf(X, C, radius, metric="manhattan", kernel="triangular"):
    return KERNELS[kernel](distances(X, C, metric), radius)


def linear(X, W, b):
    return X.astype(float) @ W.astype(float).T + b.astype(float)


def tanh(X, W, b):
    return np.tanh(linear(X, W, b))


def hidden(layer, X):
    if layer.reduction == "product":
        formula = {"tanh": tanh, "linear": linear}[layer.formula]
        return formula(X, layer.units, layer.bias)
    return rbf(X, layer.units, layer.radius, layer.metric, layer.kernel.name)


def patch(layer, images, top, left):
    """Return the patch of each image at a position, normalised and whitened."""
    height, width = layer.grid.size
    P = images[:, top : top + height, left : left + width].astype(float).reshape(len(images), -1)
    if layer.floor is not None:
        mean, variance = P.mean(axis=1, keepdims=True), P.var(axis=1, keepdims=True)
        P = (P - mean) / np.sqrt(variance + layer.floor)
    if layer.whitening is not None:
        P = P @ layer.whitening.astype(float) - layer.shift
    return P


# Responses to the activations of all units at a position: one array, or two for two sides.
RESPONSES = {
    "as they are": lambda A, t: [A],
    "below mean": lambda A, t: [np.maximum(0, A.mean(axis=1, keepdims=True) - A)],
    "two-sided": lambda A, t: [np.maximum(0, A - t), np.maximum(0, -A - t)],
}


def patches(layer, X):
    """Return H of a layer of patches, position by position."""
    grid = layer.grid
    (down, across), parts = grid.output_shape, grid.pool
    images, sums, counts = X.reshape(-1, *grid.image), 0, np.zeros(parts)
    for y in range(down):
        for x in range(across):
            A = hidden(layer.inner, patch(layer, images, y * grid.stride, x * grid.stride))
            cell = np.zeros(parts)
            cell[_cell_of(y, down, parts[0]), _cell_of(x, across, parts[1])] = 1
            counts += cell
            sums += np.multiply.outer(RESPONSES[layer.response](A, layer.threshold), cell)
    sides_last = np.moveaxis(sums / counts, 0, 2)
    return sides_last.reshape(len(X), -1)[:, : layer.columns]


def _cell_of(position, n, parts):
    """Return the index of the cell, of `parts` nearly equal ones, that contains a position."""
    return next(k for k in range(parts) if position < (k + 1) * n // parts)


def gradients(X, C, W, radius, metric="manhattan", kernel="triangular"):
    """Return d f_o / d x_k of ``f = W phi(d)`` for each sample: (rows, outputs, features)."""
    difference = X[:, None, :].astype(float) - C[None, :, :].astype(float)
    d = distances(X, C, metric)[:, :, None]
    if metric == "manhattan":
        of_distance = np.sign(difference)
    elif metric == "sqeuclidean":
        of_distance = 2 * difference
    else:
        of_distance = difference / np.where(d == 0, 1, d)
    return np.einsum("oj,ijk->iok", W, SLOPES[kernel](d, radius) * of_distance)


def squared_gradients(layer, X, W):
    """Return the squared gradients, summed over the outputs: (rows, features)."""
    G = gradients(X, layer.units, W, layer.radius, layer.metric, layer.kernel.name)
    return (G**2).sum(axis=1)


def of_rows(layer, X):
    """Return `hidden` of samples that are not multiplied by the feature weights yet."""
    if layer.weights is None:
        return hidden(layer, X)
    return hidden(layer, X @ layer.weights if layer.weights.ndim == 2 else X * layer.weights)


def of_model(model, X):
    """Return H of a fitted estimator."""
    return of_rows(model._parts().units.layer, X)


def novel_rows(X, radius, overlap, metric="manhattan", kernel="triangular"):
    """Return the samples that sequential novelty selection makes centres."""
    centers, H = [0], rbf(X, X, radius, metric, kernel)
    for i in range(1, len(X)):
        if H[i, centers].sum() < overlap:
            centers.append(i)
    return centers


def novel_rows_by_group(X, groups, radius, overlap, metric="manhattan", kernel="triangular"):
    centers = []
    for g in np.unique(groups):
        rows = np.flatnonzero(groups == g)
        centers.extend(rows[novel_rows(X[rows], radius, overlap, metric, kernel)])
    return sorted(centers)


def lms(W, H, Y, rate, weight=None):
    W = W.copy()
    for i in range(len(H)):
        error = Y[i] - W @ H[i]
        W += rate * (1 if weight is None else weight[i]) * np.outer(error, H[i])
    return W


def logits(decision, score_scale):
    """Return the logits (n_samples, n_classes) of decision values, before the temperature."""
    decision = np.asarray(decision, float).reshape(len(decision), -1)
    if decision.shape[1] == 1:
        decision = np.hstack([0.5 - decision / 2, 0.5 + decision / 2])
    return np.arcsinh(decision / score_scale)


def ridge(H, Y, alpha, weight=None):
    """Return ridge regression as least squares with sqrt(alpha) I appended to the centred H."""
    w = np.ones(len(H)) if weight is None else weight
    h, y = np.average(H, axis=0, weights=w), np.average(Y, axis=0, weights=w)
    root = np.sqrt(w)[:, None]
    A = np.vstack([root * (H - h), np.sqrt(alpha) * np.eye(H.shape[1])])
    B = np.vstack([root * (Y - y), np.zeros((H.shape[1], Y.shape[1]))])
    W = np.linalg.lstsq(A, B, rcond=None)[0].T
    return W, y - W @ h
