"""Leave-one-out scores of ridge readouts in closed form, of all samples or of some.

With the leverage ``s = w (1 / n + (h - mean)' (A + alpha I)^-1 (h - mean))`` of a sample of weight
w, the score of a readout that was trained without it is ``y - (y - score) / (1 - s)`` (PRESS: D. M.
Allen 1974, "The relationship between variable selection and data augmentation and a method for
prediction"). Several samples F are left out together by ``(I - S_FF)^-1`` in the place of
``1 / (1 - s)``, where S_FF is their block of the hat matrix.

With the factor L of the normal matrix, which a ridge has anyway, the leverage is
``w (1 / n + |L^-1 (h - mean)|^2)``: one triangular solve for the samples, no other pass over the
rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve

from ..callbacks import NO_CALLBACKS
from ..rows.streaming import Consumer, stream
from .ensemble_weights import squared_errors
from .held_out import search
from .packed_symmetric import PackedSymmetric
from .statistics import RidgeStatistics
from .uncovered import score_uncovered

# How many times its rounding 1 - leverage must be: then the error is known to a tenth.
_MARGIN = 10
# Samples that choose a penalty: on 26 datasets these choose as well as 4000 do.
_PENALTY_SAMPLES = 512


def least_remainder(dtype, squared_norm, alpha):
    """Return the smallest 1 - leverage of which rounding in the dtype leaves digits.

    Rounding moves ``|L^-1 h|^2`` by about ``eps |h| / sqrt(alpha)``, for no eigenvalue of the
    normal matrix is less than alpha, nor than the rounding of float64 beside its trace. Measured on
    float32 factors of 60 to 1000 rows: by twice as much at most.

    Parameters
    ----------
    squared_norm : array
        ``|h - mean|^2`` of each row.
    alpha : float or array
    """
    fine = np.finfo(np.float64)
    ratio = squared_norm / (alpha + float(fine.eps) * squared_norm + float(fine.tiny))
    return _MARGIN * float(np.finfo(dtype).eps) * (1 + ratio**0.5)


def leave_out(xp, targets, scores, remainder, least, mean):
    """Return the scores of samples without themselves, and where nothing is known of these.

    Where 1 - leverage is no more than its rounding, the sample alone decides its own score. What
    the others say of it is lost; the mean of the targets stands in for it. Dividing by a floor
    instead would shrink the residuals that are known least.

    Parameters
    ----------
    targets, scores : arrays of shape (n_rows, ..., n_outputs)
    remainder, least : arrays of shape (n_rows, ...)
        1 - leverage, and `least_remainder`.
    mean : array of shape (n_outputs,)
        Of the targets.
    """
    is_unknown = remainder <= least
    remainder = xp.where(is_unknown, 1.0, remainder)[..., None]
    left = targets - (targets - scores) / remainder
    return xp.where(is_unknown[..., None], mean, left), is_unknown


def leave_fold_out(targets, residuals, remainder, root):
    """Return the scores of samples that are left out together.

    Parameters
    ----------
    targets : ndarray of shape (n_rows, n_outputs)
    residuals : ndarray of shape (n_rows, n_outputs)
        Of the readout of all rows, times `root`.
    remainder : ndarray of shape (n_rows, n_rows)
        Their block of I - S, for rows that are multiplied by `root`. Residuals and remainder may
        both have one more factor.
    root : ndarray of shape (n_rows, 1)
        Square roots of the weights.
    """
    return targets - solve(remainder, residuals, assume_a="pos") / root


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out scores of the rows of a `Sample`."""

    scores: np.ndarray  # (n_rows, n_outputs)
    uncovered: np.ndarray  # the rows that no unit covers
    is_known: np.ndarray  # (n_rows,): False where the mean of the targets stands in for the score
    # (n_rows, n_outputs): scores without all rows of a row's fold, where there are folds.
    fold_scores: Any = None


class SampledLOO:
    """Scores of a sample of the rows, each without itself and all that are equal to it.

    Parameters
    ----------
    job : Job
    layer : object
    sample : Sample
    statistics : RidgeStatistics, optional
        Of all rows; `of_dual` needs none.
    folds : ndarray of int of shape (n_rows,), optional
        The fold of each row of the sample: those of a fold are left out together, too, for
        `LeftOut.fold_scores`.

    Attributes
    ----------
    found : dict
        Number of units, of which the readout has the first -> `LeftOut`.
    """

    def __init__(self, job, layer, sample, statistics=None, folds=None):
        self.job, self.layer, self.sample, self._statistics = job, layer, sample, statistics
        self._folds, self.found = None, {}
        if folds is not None:
            self._folds = [np.flatnonzero(folds == number) for number in np.unique(folds)]

    def take(self, whiten, half, alpha, sizes=()):
        """Find the scores; `RidgeStatistics` calls it ``also``."""
        whitened = _Whitened(self._statistics, self.job.engine, whiten, half)
        job = self._job_beside_factor()
        if self._folds is not None:
            self.found[len(half)] = self._by_folds(job, whitened, alpha)
        else:
            self.found |= self._by_tiles(job, whitened, alpha, sizes or (len(half),))

    def _by_tiles(self, job, whitened, alpha, sizes):
        Y, weight, mean = self.sample.mean, self.sample.rows.weight, whitened.mean_y
        scores = {size: np.empty(Y.shape) for size in sizes}
        is_uncovered = {size: np.empty(len(Y), bool) for size in sizes}
        is_known = {size: np.empty(len(Y), bool) for size in sizes}

        def take(part, H):
            for size in sizes:  # before H is overwritten
                is_uncovered[size][part] = ~job.engine.algebra.any(H[:, :size], axis=1)
            Z, least = whitened.rows(H, alpha)
            leverages = whitened.leverages(Z, sizes)
            for size, leverage in zip(sizes, leverages, strict=True):
                by_all, remainder = whitened.scores(Z, size), 1 - leverage * weight[part]
                scores[size][part], is_lost = leave_out(np, Y[part], by_all, remainder, least, mean)
                is_known[size][part] = ~is_lost

        self._stream(job, take, max(sizes))
        return {
            size: LeftOut(scores[size], np.flatnonzero(is_uncovered[size]), is_known[size])
            for size in sizes
        }

    def _by_folds(self, job, whitened, alpha):
        """The same of all units, and the scores without all rows of a fold, fold by fold."""
        Y, weight, m = self.sample.mean, self.sample.rows.weight, whitened.n_units
        scores, of_folds = np.empty(Y.shape), np.empty(Y.shape)
        is_uncovered, is_lost = np.empty(len(Y), bool), np.empty(len(Y), bool)
        for folds in self._groups_of_folds(m * whitened.dtype.itemsize, job.memory_limit):
            rows = np.concatenate(folds)
            Z = whitened.algebra.xp.empty((m, len(rows)), whitened.dtype, order="F")
            least = np.empty(len(rows))

            def take(part, H, rows=rows, Z=Z, least=least):
                is_uncovered[rows[part]] = ~job.engine.algebra.any(H, axis=1)
                Z[:, part], least[part] = whitened.rows(H, alpha)

            self._stream(job.reserving(Z.nbytes), take, m, rows)
            ends = np.cumsum([len(fold) for fold in folds])
            for fold, end in zip(folds, ends, strict=True):
                part = slice(end - len(fold), end)
                by_all, hat = whitened.scores(Z[:, part], m), whitened.hat(Z[:, part])
                remainder = 1 - hat.diagonal() * weight[fold]
                scores[fold], is_lost[fold] = leave_out(
                    np, Y[fold], by_all, remainder, least[part], whitened.mean_y
                )
                root = np.sqrt(weight[fold])[:, None]
                remainder = np.eye(len(fold)) - root * hat * root.T
                of_folds[fold] = leave_fold_out(Y[fold], root * (Y[fold] - by_all), remainder, root)
        return LeftOut(scores, np.flatnonzero(is_uncovered), ~is_lost, of_folds)

    def _groups_of_folds(self, row_bytes, limit):
        """Lists of folds whose rows take a quarter of the memory, or of one fold.

        Each stream of rows converts the factor to the dtype of H: few streams are faster.
        """
        groups = [[]]
        for fold in self._folds:
            n_rows = sum(map(len, groups[-1])) + len(fold)
            if groups[-1] and n_rows * row_bytes > limit // 4:
                groups.append([])
            groups[-1].append(fold)
        return groups

    def _stream(self, job, take, m, rows=None):
        consumer = Consumer(take, fixed_bytes=PackedSymmetric.strip_bytes(m), row_bytes=40 * m)
        stream(job, self.layer, self.sample.rows.X, consumer, rows)

    def of_dual(self, dual, rows, places):
        """Find the scores by the equations of few rows, a `dual.Dual`.

        Its `rows` are equal to the rows `places` of the sample.
        """
        Y, root = self.sample.mean, np.sqrt(self.sample.rows.weight)[:, None]
        residuals, remainder = dual.left_out(rows, places, root)
        scores, of_folds = Y - residuals / (remainder.diagonal()[:, None] * root), None
        if self._folds is not None:
            of_folds = np.empty(Y.shape)
            for fold in self._folds:
                block = remainder[np.ix_(fold, fold)]
                of_folds[fold] = leave_fold_out(Y[fold], residuals[fold], block, root[fold])
        uncovered = np.unique(places[dual.is_uncovered[rows]])
        is_known = np.ones(len(Y), bool)
        self.found[self.layer.n_units] = LeftOut(scores, uncovered, is_known, of_folds)

    def left_out(self, nearest=None, n_units=None):
        """Return the `LeftOut` scores of a readout of the first units, of all by default.

        Uncovered rows have the outputs of their `nearest` unit, (n_units, n_outputs), if any.
        """
        n_units = n_units or self.layer.n_units
        found = self.found[n_units]

        def take(rows, outputs):
            for scores in (found.scores, found.fold_scores):
                if scores is not None:
                    scores[rows] = outputs

        layer, job = self.layer.part(slice(n_units)), self._silent(self.job)
        score_uncovered(job, layer, self.sample.rows.X, found.uncovered, nearest, take)
        return found

    def error(self):
        """Return the mean over the sample of ``|y - score|^2``, of readouts of all units.

        Infinite where a score is not known.
        """
        found = self.found[self.layer.n_units]
        if not found.is_known.all():
            return np.inf
        (error,) = squared_errors([found.scores], self.sample.mean, self.sample.rows.weight)
        return float(error)

    @staticmethod
    def _silent(job):
        """The job without progress: the rows are few."""
        return replace(job, task=NO_CALLBACKS, verbose=0)

    def _job_beside_factor(self):
        """The job beside the factor, and the sums where they are not in its place."""
        s, job = self._statistics, self._silent(self.job)
        n_bytes = RidgeStatistics.nbytes(self.layer.n_units) * (1 + (s.gram is not None))
        return job if s.algebra is not job.engine.algebra else job.reserving(n_bytes)


class _Whitened:
    """Rows of H as ``L^-1 (h - mean)``, for the factor L of the normal matrix."""

    def __init__(self, statistics, engine, whiten, half):
        s = statistics
        self.algebra, self._engine, self._whiten, self._n = s.algebra, engine, whiten, s.n
        # Sums that were rounded to float32 have no more digits, nor has a factor in float32.
        self.dtype = np.dtype(np.float32 if s.is_coarse else half.dtype)
        self.n_units, self._half = len(half), half.astype(self.dtype)
        self._mean_h = s.mean[: self.n_units].astype(self.dtype)
        self.mean_y = self.algebra.to_host(s.y / s.n)

    def rows(self, H, alpha):
        """Return a tile of rows (n_units, n_rows), and their `least_remainder` on the host."""
        H = H if self._engine.algebra is self.algebra else self._engine.to_host(H)
        H = H[:, : self.n_units].astype(self.dtype, copy=False)
        H -= self._mean_h
        norms = self.algebra.to_host((H * H).sum(axis=1)).astype(np.float64)
        return self._whiten(H.T), least_remainder(self.dtype, norms, alpha)

    def scores(self, Z, size):
        """Return scores (n_rows, n_outputs) by the first units, in float64 on the host."""
        found = self.algebra.to_host(self.algebra.cross(Z[:size], self._half[:size]))
        return found.astype(np.float64) + self.mean_y

    def leverages(self, Z, sizes):
        """Return leverages (n_rows,) for a weight of 1, by the first units of each size."""
        squares = Z * Z
        for size in sizes:
            own = self.algebra.to_host(squares[:size].sum(axis=0)).astype(np.float64)
            yield own + 1 / self._n

    def hat(self, Z):
        """Return the block of the hat matrix (n_rows, n_rows) for a weight of 1."""
        return self.algebra.to_host(self.algebra.cross(Z, Z)).astype(np.float64) + 1 / self._n


def search_loo_penalty(job, layer, sample, statistics, start):
    """The penalty with the least leave-one-out error of a sample, downhill from `start`.

    It tells more than rows that are held out: all units are judged, trained on all other rows. A
    factor of all units is made for each penalty, in memory beside the statistics; without that,
    it is `start`.
    """
    if not statistics.may_be_copied:
        return start
    sample = sample.leading(_PENALTY_SAMPLES)

    def error_of(alpha):
        loo = SampledLOO(job, layer, sample, statistics)
        solution = statistics.solve_well(alpha, also=loo.take, is_compared=True)
        return np.inf if solution is None else loo.error()

    return search(error_of, statistics.n, layer.n_units, start).alpha
