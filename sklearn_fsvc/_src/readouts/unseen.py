"""Scores of a sample of the rows by readouts that have not seen them, from a ridge's own factor.

With the factor L of the normal matrix, which the ridge has anyway, the leverage of a row is
``w (1 / n + |L^-1 (h - mean)|^2)``: one triangular solve for the sample, and no other pass over the
rows. The formula is that of `left_out.PressScorer`.
"""

from dataclasses import replace

import numpy as np

from ..callbacks import UNHEARD
from ..rows.streaming import Consumer, stream
from .held_out import search
from .mixing import squared_errors
from .packed_symmetric import PackedSymmetric
from .statistics import RidgeStatistics

# 1 - leverage under which a row is taken to be fitted exactly.
_LEAST = 1e-5
# Rows that choose a penalty: on 26 tables these choose as well as 4000 do.
_JUDGES = 512


class Unseen:
    """The scores of a sample, each row without itself and all that are equal to it.

    Parameters
    ----------
    job : Job
    layer : object
    sample : Sample
    statistics : RidgeStatistics, optional
        Of all rows; `score` needs none.

    Attributes
    ----------
    found : dict
        Number of units, of which the readout has the first -> (scores of shape (n_rows,
        n_outputs), numbers of the rows of which H is 0).
    """

    def __init__(self, job, layer, sample, statistics=None):
        self.job, self.layer, self.sample, self._statistics = job, layer, sample, statistics
        self.found = {}

    def take(self, whiten, half, sizes=()):
        """Find them; `RidgeStatistics` calls it ``also``."""
        s, engine, m = self._statistics, self.job.engine, len(half)
        algebra, sizes = s.algebra, sizes or (m,)
        # Sums that were rounded to float32 have no more digits, nor has a factor in float32.
        dtype = np.float32 if s.is_coarse else half.dtype
        half, mean_h = half.astype(dtype), s.mean[:m].astype(dtype)
        mean_y = algebra.to_host(s.y / s.n)

        def scored(H):
            H = H if engine.algebra is algebra else engine.to_host(H)
            H = H.astype(dtype, copy=False)
            H -= mean_h
            Z = whiten(H.T)
            scores = [algebra.to_host(algebra.cross(Z[:k], half[:k])) + mean_y for k in sizes]
            Z *= Z
            for k, own in zip(sizes, scores, strict=True):
                yield own, 1 / s.n + algebra.to_host(Z[:k].sum(axis=0)).astype(np.float64)

        self._score(scored, sizes, self._beside())

    def score(self, scored):
        """Find them by ``scored(H)``: scores, and leverages for a weight of 1. H may be lost."""
        job = replace(self.job, task=UNHEARD, verbose=0)
        self._score(lambda H: [scored(H)], (self.layer.n_units,), job)

    def _score(self, scored, sizes, job):
        sample, m, engine = self.sample, max(sizes), self.job.engine
        Y, n_rows = sample.mean, len(sample.rows.hashes)
        scores = {size: np.empty(Y.shape) for size in sizes}
        is_outside = {size: np.empty(n_rows, bool) for size in sizes}

        def take(part, H):
            for size in sizes:  # before H is overwritten
                is_outside[size][part] = ~engine.algebra.any(H[:, :size], axis=1)
            for size, (found, leverage) in zip(sizes, scored(H[:, :m]), strict=True):
                rest = np.maximum(1 - leverage * sample.rows.weight[part], _LEAST)[:, None]
                scores[size][part] = Y[part] - (Y[part] - found) / rest

        consumer = Consumer(take, fixed_bytes=PackedSymmetric.strip_bytes(m), row_bytes=32 * m)
        stream(job, self.layer, sample.rows.X, consumer)
        self.found |= {size: (scores[size], np.flatnonzero(is_outside[size])) for size in sizes}

    def error(self):
        """The mean over the sample of ``|y - score|^2``, of readouts of all units."""
        scores, _ = self.found[self.layer.n_units]
        (error,) = squared_errors([scores], self.sample.mean, self.sample.rows.weight)
        return float(error)

    def _beside(self):
        """The job beside the factor, and the sums where they are not in its place.

        Nobody hears of so few rows.
        """
        s, job = self._statistics, self.job
        n_bytes = RidgeStatistics.nbytes(self.layer.n_units) * (1 + (s.gram is not None))
        job = replace(job, task=UNHEARD, verbose=0)
        return job if s.algebra is not job.engine.algebra else job.reserving(n_bytes)


def search_unseen(job, layer, sample, statistics, start):
    """The penalty with the least leave-one-out error of a sample, downhill from `start`.

    It tells more than rows that are held out: all units are judged, trained on all other rows. A
    factor of all units is made for each penalty, in memory beside the statistics; without that,
    it is `start`.
    """
    if not statistics.may_be_copied:
        return start
    sample = sample.leading(_JUDGES)

    def error_of(alpha):
        unseen = Unseen(job, layer, sample, statistics)
        solution = statistics.solve_well(alpha, also=unseen.take, is_compared=True)
        return np.inf if solution is None else unseen.error()

    return search(error_of, statistics.n, layer.n_units, start).alpha
