"""The statistics of ridge readouts, gathered while the rows of layers stream by."""

import numpy as np

from ..rows.streaming import Consumer, stream_all
from .panels import Panels
from .statistics import RidgeStatistics

# Elements of a tile, so that offsets in it stay in the range of 32 bits.
_MOST_ELEMENTS = 2**31 - 1


def gather(job, layers, samples, rows=None, dtype=None):
    """The statistics of each of `layers` over the samples, in one pass.

    Parameters
    ----------
    job : Job
    layers : list
        As for `stream_all`.
    samples : Samples
        With targets.
    rows : ndarray of int, optional
        Row numbers; all by default.
    dtype : dtype, optional
        In which H is multiplied with itself; what is fastest on the engine by default.

    Returns
    -------
    list of RidgeStatistics
    """
    algebra, m, n_outputs = job.engine.algebra, layers[0].n_units, samples.targets.n_outputs
    dtype = np.dtype(dtype or job.engine.statistics_dtype(layers[0]))
    fixed_bytes = len(layers) * RidgeStatistics.nbytes(m)
    statistics = []

    def add(i, part, H):
        if i == len(statistics):
            statistics.append(RidgeStatistics(m, n_outputs, algebra, dtype))
            statistics[i].room = job.memory_limit - fixed_bytes
        part = part if rows is None else rows[part]
        statistics[i].update(H, samples.targets.matrix(part, algebra.xp), samples.weight_of(part))

    widened = m * dtype.itemsize if dtype != layers[0].hidden_dtype else 0
    consumer = Consumer(
        add,
        fixed_bytes=fixed_bytes + Panels.gram_bytes(m, dtype),
        row_bytes=40 * n_outputs + widened,
        # As tall as four times the units: a product adds to all of the statistics, so its
        # rows should outnumber theirs.
        tile_rows=max(1024, min(4 * m, _MOST_ELEMENTS // m)),
    )
    stream_all(job, layers, samples.X, consumer, rows)
    return statistics
