"""Where a softmax readout is drawn to: the ridge's solution, scaled by leave-one-out scores."""

import numpy as np

from .calibration import fit_temperature
from .leave_one_out import SampledLOO
from .sample import draw


def calibrated_ridge(job, layer, samples, statistics, alpha, log_loss):
    """The readout (n_units + 1, n_scores) of a ridge, each output divided by its temperature.

    Parameters
    ----------
    job, layer, samples
        As of `train_softmax`.
    statistics : RidgeStatistics
        Of the samples; they stay.
    alpha : float
        The ridge penalty.
    log_loss : LogLoss
    """
    loo = SampledLOO(job, layer, draw(job, samples), statistics)
    solution, xp = statistics.solve(alpha, also=loo.take), statistics.xp
    scores = loo.left_out().scores
    T = xp.concatenate([solution.W, solution.b[:, None]], axis=1)
    lengths, ends = [], np.cumsum(log_loss.sizes)
    for size, end in zip(log_loss.sizes, ends, strict=True):
        own, sums = (each[:, end - size : end] for each in (scores, loo.sample.rows.sums))
        own = np.diff(own, axis=1) if size == 2 else own
        rows, codes = np.nonzero(sums)
        inverse = 1 / fit_temperature(own[rows], codes, sums[rows, codes])
        lengths += [inverse] * (1 if size == 2 else size)
    return xp.stack(log_loss.of_scores(T)).T * xp.asarray(lengths)
