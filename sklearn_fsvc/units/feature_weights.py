"""Weights of the features, learned from targets: what the targets depend on counts for more.

A ridge network on few rows is asked how much its outputs change with each feature; the
features are weighted by that, and the next network is made of weighted rows. This is the
recursive feature machine of Radhakrishnan et al. (Science 383, 2024) with a diagonal
matrix, as in xRFM (Beaglehole et al., arXiv 2508.10053): the weights are the root of the
diagonal of the average gradient outer product.
"""

import numpy as np
from sklearn.utils import check_random_state

from ..layers import RBFLayer, hidden_dtype
from ..readouts.ridge import gather
from ..rows.tiling import check_fits
from .gradients import mean_squared_gradients
from .novelty import Presentation
from .radius import typical_distance, typical_distance_bytes

# Networks that are asked one after the other, their rows, and the most centres.
_ROUNDS, _ROWS, _CENTERS = 3, 4000, 600
_ALPHA = 0.1


def learn(job, samples, metric, kernel, random_state, rows=None):
    """The weights of the features under which an RBF network answers with the targets.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets. Rows of weight 0 are as good as absent.
    metric : {"manhattan", "euclidean", "sqeuclidean"}
    kernel : Kernel
    random_state : int, RandomState instance or None
        For the rows that are looked at.
    rows : ndarray of int, optional
        Those from which they are drawn; all by default.

    Returns
    -------
    ndarray of shape (n_features,), float64
        The largest is 1, none is negative. All are 1 where no feature changes an output.
    """
    job, drawn = _draw(job, samples, random_state, samples.present if rows is None else rows)
    check_fits("the natural radius", typical_distance_bytes(drawn.X), job.memory_limit)
    weights = np.ones(drawn.X.shape[1])
    for _ in range(_ROUNDS):
        layer = _layer(job.engine, drawn, weights, metric, kernel)
        (statistics,) = gather(job, [layer], drawn)
        W = statistics.solve(_ALPHA).W
        del statistics
        squares = weights**2 * mean_squared_gradients(job, layer, W, drawn)
        if not 0 < squares.max() < np.inf:
            break
        weights = np.sqrt(squares / squares.max())
    return weights


def _draw(job, samples, random_state, rows):
    """Random rows in random order, copied to where the job computes, and the job that is left."""
    rows = check_random_state(random_state).permutation(rows)[:_ROWS]
    drawn = samples.taken(rows, hidden_dtype(samples.X.dtype))
    if isinstance(drawn.X, job.engine.xp.ndarray):
        job = job.reserving(drawn.X.nbytes)
    drawn, job = drawn.on_device(job)
    return job, drawn


def _layer(engine, drawn, weights, metric, kernel):
    """The first rows as centres, at the natural radius of weighted rows."""
    weights = weights.astype(drawn.X.dtype)
    shown = Presentation(engine, drawn.X, np.arange(len(drawn)), weights=weights)
    radius = float(kernel.natural_radius(typical_distance(shown, metric)))
    n_units = max(1, min(_CENTERS, len(drawn) // 2))
    return RBFLayer(shown.block(slice(n_units)), radius, metric, kernel, weights)
