"""Penalties of softmax readouts by the log-loss of held-out samples."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.memory_plan import count_fitting
from ..data.rows import ShardedRows
from ..data.samples import Samples, draw_ascending
from ..data.sources import ArraySource, Source
from .cross_validation import draw_parts, draw_split, select_folds
from .log_loss import LogLoss, compute_losses
from .penalty_search import PenaltySearchResult, downhill
from .softmax import SoftmaxTraining, lasting_bytes

# Penalties are powers of _STEP with exponents between these; and the first one.
_STEP, _MIN_POWER, _MAX_POWER, _FIRST_POWER = 10.0, -5, 6, 0
# Samples outside the most frequent class up to which all parts are held out, one after the other:
# one part has so few of them that its log-loss is too noisy. Measured for 7 to 240 of 3000.
_MAX_RARE = 300
# A fold is trained at the same time as others if memory holds this many times what each keeps.
_TRAININGS = 3
# Precision and maximum number of steps of each readout on the path.
_TOL, _MAX_ITER = 5e-2, 30
# Samples that validate a penalty: the larger one of two limits, per unit and by the elements of
# their H.
_ROWS_PER_UNIT, _HIDDEN_ELEMENTS = 4, 2**24
# Part of the memory for copies of samples.
_COPIED_SHARE = 1 / 4


def search_softmax_penalty(
    job: Job,
    layer: Any,
    samples: Samples,
    random: np.random.Generator,
    ridge_alpha: float | None = None,
) -> tuple[PenaltySearchResult, npt.NDArray]:
    """Return the penalty with the least log-loss on held-out samples.

    Descends by factors of _STEP from 1 on; each readout starts at that of the last penalty. Between
    the best penalty and its neighbours, the minimum of a parabola through their losses is chosen.
    Of many samples a subset validates, whose H fits in memory. The penalty is not scaled with the
    number of samples: it acts on the sum of the losses, as the precision of a prior does.

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
    found : PenaltySearchResult
        Errors are log-losses, summed over the outputs.
    point : ndarray of shape (n_units + 1, n_scores)
        The mean of the readouts of the folds at the best power of _STEP: a start for the final
        readout.
    """
    n_rows = max(_ROWS_PER_UNIT * layer.n_units, _HIDDEN_ELEMENTS // layer.n_units)
    job, samples, rows, parts = _draw_parts(job, samples, n_rows, random)
    parts = list(select_folds(parts, layer.n_units))
    n_folds, job = _plan_folds(job, layer, samples.targets, len(rows), len(parts))
    parts = parts[:n_folds]
    is_subset = len(rows) < len(samples)
    n_copied = (len(parts) + is_subset) * len(rows)
    take, job = _plan_copies(job, samples.X, n_copied)
    subset = take(samples, rows) if is_subset else samples
    folds = [
        _Fold(job, layer, subset, train, validation, ridge_alpha, take)
        for train, validation in _split(subset, parts)
    ]
    tried: dict[float, float] = {}

    def error_at(power):
        alpha = float(_STEP**power)
        if alpha not in tried:
            tried[alpha] = float(np.mean([fold.log_loss(alpha) for fold in folds]))
        return tried[alpha]

    best = downhill(error_at, _FIRST_POWER, _MIN_POWER, _MAX_POWER)
    point = np.mean([fold.points[float(_STEP**best)] for fold in folds], axis=0)
    alpha = float(_STEP ** (best + _vertex(best, tried)))
    return PenaltySearchResult(alpha, error_at(best), layer.n_units, tried), point


def _vertex(best, tried):
    """Return where a parabola through the errors at -1, 0 and 1 is least; 0 at an end."""
    below, at_best, above = (tried.get(float(_STEP ** (best + step))) for step in (-1, 0, 1))
    if below is None or above is None:
        return 0.0
    curvature = below - 2 * at_best + above
    return (below - above) / (2 * curvature) if curvature > 0 else 0.0


def _draw_parts(job, samples, n_rows, random):
    """Return samples, up to `n_rows` row numbers of them, and which of these rows are held out.

    The last are lists of indices of these rows, one for each fold. With given validation samples,
    the samples are as of `draw_split`, and so is the remaining job.
    """
    if samples.validation is not None:
        job, samples, _, validation = draw_split(job, samples, n_rows, random)
        return job, samples, np.arange(len(samples)), [validation]
    rows = draw_ascending(samples.rows_with_weight, n_rows, random)
    groups, is_noisy = samples.groups_of(rows), _has_rare_classes(samples.targets, rows)
    return job, samples, rows, draw_parts(np.arange(len(rows)), random, groups, is_noisy)


def _has_rare_classes(targets, rows):
    """Return whether few of the rows are not of the most frequent class of an output."""
    n_frequent = [np.bincount(codes[rows]).max() for codes in targets.codes.T]
    return len(rows) * len(n_frequent) - sum(n_frequent) <= _MAX_RARE


def _plan_folds(job, layer, targets, n_rows, n_folds):
    """Return how many folds fit in memory at the same time, and the job of each."""
    n_scores = LogLoss(targets.n_classes).n_scores
    lasting = lasting_bytes(job.engine.algebra, layer, n_rows, n_scores)
    n_others = count_fitting(job.memory_limit, lasting, _TRAININGS * lasting, maximum=n_folds - 1)
    return n_others + 1, job.reserve(n_others * lasting)


def _plan_copies(job, X, n_rows):
    """Return ``take(samples, rows)``, for `n_rows` in total, and the remaining job.

    Rows are copied if there is memory; otherwise each pass gathers them, tile by tile.
    """
    n_bytes = n_rows * X.shape[1] * X.dtype.itemsize
    if n_bytes <= _COPIED_SHARE * job.memory_limit:
        return Samples.taken, job.reserve(n_bytes)

    def take(samples, rows):
        X = samples.X.whole if isinstance(samples.X, ShardedRows) else samples.X
        X = X if isinstance(X, Source) else ArraySource(job.engine.to_host(X))
        return samples.with_rows(X.part(rows), rows)

    return take, job


def _split(samples, parts):
    """Return (training rows, held-out rows) for each part of the rows.

    If all training rows are of one class, rows of other classes are not held out: without them, the
    more confident the training the better, so that it has no optimum.
    """
    rows, pairs = np.arange(len(samples)), []
    for part in parts:
        train, validation = np.setdiff1d(rows, part), part
        for codes in samples.targets.codes.T:
            if np.ptp(codes[train]) == 0:
                validation = validation[codes[validation] == codes[train[0]]]
        if len(validation):
            pairs.append((np.setdiff1d(rows, validation), validation))
    if not pairs:
        raise ValueError(
            'alpha="auto" of the softmax readout is validated on held-out samples, and without '
            f"any of the n_samples={len(rows)} the others are of one class. Give more samples of "
            "each class, or set alpha to a number."
        )
    return pairs


class _Fold:
    """Training samples with their readouts, and held-out samples."""

    def __init__(
        self, job: Job, layer: Any, samples: Samples, train: npt.NDArray, validation: npt.NDArray,
        ridge_alpha: float | None, take: Callable[[Samples, npt.NDArray], Samples],
    ):  # fmt: skip
        self._validation = take(samples, validation)
        job = job.named(f"{job.description}, held out")
        self._training = SoftmaxTraining(job, layer, take(samples, train), None, ridge_alpha)
        self._job, self._layer = self._training.job, layer
        self.points: dict[float, npt.NDArray] = {}  # readouts of the penalties

    def log_loss(self, alpha: float) -> float:
        """Train the readout of a penalty; return its mean loss over the held-out samples."""
        self._training.run(alpha, _TOL, _MAX_ITER, is_estimate=True)
        self.points[alpha] = point = self._training.algebra.to_host(self._training.point)
        losses = compute_losses(
            self._job, self._layer, self._validation, self._training.log_loss, point[None]
        ).losses
        return float(losses[0]) / self._validation.total_weight
