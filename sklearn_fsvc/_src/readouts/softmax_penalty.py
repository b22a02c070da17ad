"""Penalties of softmax readouts by the log-loss of rows that are held out."""

import numpy as np

from ..data.map_reduce import Sharded
from ..data.samples import Samples
from ..data.sources import InMemory, Source
from ..data.tiling import count_fitting
from .cross_validation import PenaltySearchResult, downhill, folds_for, parts_to_hold_out
from .log_loss import LogLoss, compute_losses
from .softmax import SoftmaxTraining, lasting_bytes

# Penalties that are tried are powers of STEP between these; the first one.
STEP, _LEAST, _MOST, _START = 10.0, -5, 6, 0
# Rows of each unit by which they are judged, and numbers of H, whichever is more.
_PER_UNIT, _NUMBERS = 4, 2**24
# The part of the memory that copies of rows may take.
_COPIED = 1 / 4
# So many times what a training keeps is there for it, while others keep what they have.
_ALONE = 3
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
    parts = folds_for(parts_to_hold_out(np.arange(len(rows)), random), layer.n_units)
    parts, job = _with_room(job, layer, samples.targets, len(rows), parts)
    is_part = len(rows) < len(samples)
    n_copied = (len(parts) + is_part) * len(rows)
    taken, job = _how_to_take(job, samples.X, n_copied)
    some = taken(samples, rows) if is_part else samples
    folds = [_Fold(job, layer, some, *pair, ridge_alpha, taken) for pair in _judged(some, parts)]
    tried = {}

    def error_at(power):
        alpha = float(STEP**power)
        if alpha not in tried:
            tried[alpha] = float(np.mean([fold.log_loss(alpha) for fold in folds]))
        return tried[alpha]

    best = downhill(error_at, _START, _LEAST, _MOST)
    point = np.mean([fold.points[float(STEP**best)] for fold in folds], axis=0)
    alpha = float(STEP ** (best + _vertex(best, tried)))
    return PenaltySearchResult(alpha, error_at(best), layer.n_units, tried), point


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


def _with_room(job, layer, targets, n_rows, parts):
    """The parts whose trainings fit into the memory side by side, and the job of each of them."""
    n_scores = LogLoss.of(targets).n_scores
    lasting = lasting_bytes(job.engine.algebra, layer, n_rows, n_scores)
    n_others = count_fitting(job.memory_limit, lasting, _ALONE * lasting, at_most=len(parts) - 1)
    return parts[: n_others + 1], job.reserving(n_others * lasting)


def _how_to_take(job, X, n_rows):
    """``taken(samples, rows)``, for so many rows in all, and the job that is left.

    They are copied if there is room: else each pass gathers them, a tile at a time.
    """
    n_bytes = n_rows * X.shape[1] * X.dtype.itemsize
    if n_bytes <= _COPIED * job.memory_limit:
        return Samples.taken, job.reserving(n_bytes)

    def taken(samples, rows):
        X = samples.X.whole if isinstance(samples.X, Sharded) else samples.X
        X = X if isinstance(X, Source) else InMemory(job.engine.to_host(X))
        return samples.with_rows(X.part(rows), rows)

    return taken, job


def _judged(samples, parts):
    """(rows that are trained on, rows that are held out) of each part of the rows.

    Where all others are of one class, rows of another class are not held out: by training without
    them it is the surer the better, to no end.
    """
    rows, pairs = np.arange(len(samples)), []
    for part in parts:
        others, held = np.setdiff1d(rows, part), part
        for codes in samples.targets.all_codes.T:
            if np.ptp(codes[others]) == 0:
                held = held[codes[held] == codes[others[0]]]
        if len(held):
            pairs.append((np.setdiff1d(rows, held), held))
    if not pairs:
        raise ValueError(
            'alpha="auto" of the softmax readout is judged on rows that are held out, and without '
            f"any of the n_samples={len(rows)} rows the others are of one class. Give more rows of "
            "each class, or set alpha to a number."
        )
    return pairs


class _Fold:
    """Rows that are trained on and rows that are held out."""

    def __init__(self, job, layer, samples, kept, held, ridge_alpha, taken):
        self._held = taken(samples, held)
        job = job.named(f"{job.what}, held out")
        self._training = SoftmaxTraining(job, layer, taken(samples, kept), None, ridge_alpha)
        self._job, self._layer, self.points = self._training.job, layer, {}

    def log_loss(self, alpha):
        """Mean over the held-out rows, by the readout of a penalty."""
        self._training.run(alpha, _TOL, _MAX_ITER, is_guess=True)
        self.points[alpha] = point = self._training.algebra.to_host(self._training.point)
        found = compute_losses(
            self._job, self._layer, self._held, self._training.log_loss, point[None]
        )
        weight = self._held.weight
        return float(found.losses[0]) / (len(self._held) if weight is None else weight.sum())
