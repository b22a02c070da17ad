"""Scores of a sample of the rows by readouts that have not seen them, from a ridge's own factor.

To calibrate one number takes few rows. With the factor L of the normal matrix, which the ridge has
anyway, the leverage of a row is ``w (1 / n + |L^-1 (h - mean)|^2)``: one triangular solve for the
sample, and no other pass over the rows. The formula is that of `left_out`.
"""

import numpy as np

from ..rows.streaming import Consumer, stream
from .newton import Coordinates
from .twins import find_twins

# 1 - leverage under which a row is taken to be fitted exactly.
_LEAST = 1e-5


def sample_left_out(job, layer, samples, statistics, alpha, rows):
    """Scores (rows, n_outputs) of some rows, each without itself and those equal to it.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or TanhLayer
    samples : Samples
        With targets.
    statistics : RidgeStatistics
        Of all rows.
    alpha : float
    rows : ndarray of int
        Ascending.

    Returns
    -------
    ndarray of shape (n_rows, n_outputs), float64
    """
    coordinates, algebra = Coordinates(statistics, alpha), statistics.algebra
    xp, found = algebra.xp, np.empty((len(rows), samples.targets.n_outputs))
    W = coordinates.whiten(statistics.right)
    mean_y, n = statistics.y / statistics.n, statistics.n
    twins = find_twins(job, samples, rows)

    def take(part, H):
        own = rows[part]
        Z = coordinates.whiten((H - statistics.mean).T)
        scores = algebra.cross(Z, W) + mean_y
        leverage = 1 / n + (Z * Z).sum(axis=0)
        Y, weight = samples.targets.matrix(own, xp), samples.weight_of(own)
        weight = xp.ones(len(own)) if weight is None else xp.asarray(weight)
        if twins is not None:
            weight, Y = twins.of(own, xp)
        left = xp.maximum(1 - leverage * weight, _LEAST)[:, None]
        found[part] = algebra.to_host(Y - (Y - scores) / left)

    row_bytes = 24 * layer.n_units + 40 * samples.targets.n_outputs
    stream(job, layer, samples.X, Consumer(take, W.nbytes, row_bytes), rows)
    return found
