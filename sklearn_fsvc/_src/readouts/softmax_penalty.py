"""Penalties of softmax readouts by the log-loss of rows that are held out."""

from dataclasses import replace

import numpy as np

from .held_out import Found, downhill, parts_to_hold_out, that_judge
from .softmax import Training
from .tally import tally

# Penalties that are tried are powers of STEP between these; the first one.
STEP, _LEAST, _MOST, _START = 10.0, -5, 6, 0
# Rows of each unit by which they are judged, and numbers of H, whichever is more.
_PER_UNIT, _NUMBERS = 4, 2**24
# How well and in how many steps each readout on the path is trained.
_TOL, _MAX_ITER = 5e-2, 30


def search_softmax_penalty(job, layer, samples, random, ridge_alpha=None):
    """The penalty with the least log-loss on held-out rows.

    Downhill from 1 on, by steps of STEP; each readout begins where its neighbour ended. A parabola
    through the least of them and its neighbours says where between them it is. Of many
    rows a sample judges, whose H fits into the memory: a penalty on the sum of the losses is worth
    as much whatever the number of rows, as the precision of a prior is.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or TanhLayer
    samples : Samples
    random : numpy.random.Generator
    ridge_alpha : float, optional
        As of `train_softmax`.

    Returns
    -------
    found : Found
        With log-losses, of several outputs their sum, for errors.
    point : ndarray of shape (n_units + 1, n_scores)
        A readout near that of the penalty: the mean of those that were held out from.
    """
    rows = _sample(samples.present, layer.n_units, random)
    some = replace(samples, X=samples.X) if len(rows) == len(samples) else samples.taken(rows)
    parts = that_judge(parts_to_hold_out(np.arange(len(some)), random), layer.n_units)
    folds = [_Fold(job, layer, some, held, ridge_alpha) for held in parts]
    tried = {}

    def error_at(power):
        alpha = float(STEP**power)
        if alpha not in tried:
            tried[alpha] = float(np.mean([fold.log_loss(alpha) for fold in folds]))
        return tried[alpha]

    best = downhill(error_at, _START, _LEAST, _MOST)
    point = np.mean([fold.points[float(STEP**best)] for fold in folds], axis=0)
    alpha = float(STEP ** (best + _vertex(best, tried)))
    return Found(alpha, error_at(best), layer.n_units, tried), point


def _vertex(best, tried):
    """Where a parabola through three errors is least, from the one in the middle; 0 at an end."""
    below, least, above = (tried.get(float(STEP ** (best + step))) for step in (-1, 0, 1))
    if below is None or above is None:
        return 0.0
    bent = below - 2 * least + above
    return (below - above) / (2 * bent) if bent > 0 else 0.0


def _sample(rows, n_units, random):
    most = max(_PER_UNIT * n_units, _NUMBERS // n_units)
    if len(rows) <= most:
        return rows
    return np.sort(random.choice(rows, most, replace=False))


class _Fold:
    """Rows that are trained on and rows that are held out."""

    def __init__(self, job, layer, samples, held, ridge_alpha):
        kept = np.setdiff1d(np.arange(len(samples)), held)
        self._held = samples.taken(held)
        job = job.named(f"{job.what}, held out")
        self._training = Training(job, layer, samples.taken(kept), None, ridge_alpha)
        self._job, self._layer, self.points = self._training.job, layer, {}

    def log_loss(self, alpha):
        """Mean over the held-out rows, by the readout of a penalty."""
        self._training.run(alpha, _TOL, _MAX_ITER, is_guess=True)
        self.points[alpha] = point = self._training.algebra.to_host(self._training.point)
        found = tally(self._job, self._layer, self._held, self._training.log_loss, point[None])
        weight = self._held.weight
        return float(found.losses[0]) / (len(self._held) if weight is None else weight.sum())
