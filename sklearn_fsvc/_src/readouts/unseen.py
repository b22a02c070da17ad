"""Scores of a sample of the rows by readouts that have not seen them, from a ridge's own factor.

With the factor L of the normal matrix, which the ridge has anyway, the leverage of a row is
``w (1 / n + |L^-1 (h - mean)|^2)``: one triangular solve for the sample, and no other pass over the
rows. The formula is that of `left_out.PressScorer`. For rows that are left out together, the block
of the leverages of all pairs of them takes the place of one leverage.
"""

from dataclasses import replace

import numpy as np

from ..callbacks import UNHEARD
from ..engines.blas_threads import at_most
from ..rows.streaming import Consumer, stream
from .statistics import RidgeStatistics

# 1 - leverage under which a row is taken to be fitted exactly.
_LEAST = 1e-5


class Unseen:
    """The scores of a sample, each row without itself and all that are equal to it.

    Parameters
    ----------
    job : Job
    layer : object
    sample : Sample
        With `n_folds`, scores of each fold without the whole of it are found, too.
    statistics : RidgeStatistics, optional
        Of all rows; `score` needs none.

    Attributes
    ----------
    found : dict
        Number of units, of which the readout has the first -> (scores of shape (n_rows,
        n_outputs), numbers of the rows of which H is 0).
    apart : dict
        Number of units -> scores of rows without their fold.
    """

    def __init__(self, job, layer, sample, statistics=None):
        self.job, self.layer, self.sample, self._statistics = job, layer, sample, statistics
        self.found, self.apart = {}, {}

    def told(self, n_units):
        """Return the scores (1 or 2, n_rows, n_outputs): `found`, and where it is there `apart`."""
        apart = [self.apart[n_units]] if self.apart else []
        return np.stack([self.found[n_units][0], *apart])

    def take(self, whiten, half, sizes=()):
        """Find them; `RidgeStatistics` calls it ``also``."""
        s, engine, m = self._statistics, self.job.engine, len(half)
        algebra, sizes = s.algebra, sizes or (m,)
        mean_h, mean_y = s.mean[:m], algebra.to_host(s.y / s.n)

        def scored(H, are_together):
            H = H if engine.algebra is algebra else engine.to_host(H)
            Z = whiten((H - mean_h).T)
            for z, own in ((Z[:size], half[:size]) for size in sizes):
                products = algebra.cross(z, z) if are_together else (z * z).sum(axis=0)
                leverages = 1 / s.n + algebra.to_host(products)
                yield algebra.to_host(algebra.cross(z, own)) + mean_y, leverages

        self._score(scored, sizes, self._beside())

    def score(self, scored):
        """Find them by ``scored(H, are_together)``: scores, and leverages for a weight of 1.

        If rows are left out together, of all pairs of them.
        """
        job = replace(self.job, task=UNHEARD, verbose=0)
        self._score(lambda *rows: [scored(*rows)], (self.layer.n_units,), job)

    def _score(self, scored, sizes, job):
        sample, m, to_host = self.sample, max(sizes), self.job.engine.to_host
        Y, weight, n_rows = sample.mean, sample.rows.weight, len(sample.rows.hashes)
        scores = {size: np.empty(Y.shape) for size in sizes}
        apart = {size: np.empty(Y.shape) for size in sizes if sample.n_folds}
        is_outside = {size: np.empty(n_rows, bool) for size in sizes}

        def take(part, H):
            w = weight[part]
            for size, (found, leverages) in zip(sizes, scored(H[:, :m], bool(apart)), strict=True):
                is_outside[size][part] = to_host(~H[:, :size].any(axis=1))
                rest = Y[part] - found
                if apart:
                    apart[size][part] = Y[part] - _without(leverages * w, rest)
                    leverages = leverages.diagonal()
                scores[size][part] = Y[part] - rest / np.maximum(1 - leverages * w, _LEAST)[:, None]

        for fold in self._folds(n_rows):
            take(fold, self._hidden(fold, job, m))
        if not apart:
            stream(job, self.layer, sample.rows.X, Consumer(take, row_bytes=32 * m))
        self.found |= {size: (scores[size], np.flatnonzero(is_outside[size])) for size in sizes}
        self.apart |= apart

    def _hidden(self, rows, job, n_units):
        """H of some rows of the sample, all at once."""
        blocks = []
        consumer = Consumer(lambda part, H: blocks.append(H.copy()), row_bytes=32 * n_units)
        stream(job, self.layer, self.sample.rows.X, consumer, rows)
        return self.job.engine.xp.concatenate(blocks)

    def _folds(self, n_rows):
        """Numbers of the rows of each fold: they come in the order of their hashes, by chance."""
        n_folds = min(self.sample.n_folds, n_rows)
        return [np.arange(k, n_rows, n_folds) for k in range(n_folds)]

    def _beside(self):
        """The job beside the factor, and the sums where they are not in its place.

        Nobody hears of so few rows.
        """
        s, job = self._statistics, self.job
        n_bytes = RidgeStatistics.nbytes(self.layer.n_units) * (1 + (s.gram is not None))
        job = replace(job, task=UNHEARD, verbose=0)
        return job if s.algebra is not job.engine.algebra else job.reserving(n_bytes)


@at_most(1)
def _without(leverages, rest):
    """What is left of targets less scores, by a readout that has seen none of these rows.

    By the leverages of all pairs of rows, times the weights of the second ones.
    """
    system = -leverages
    system.flat[:: len(system) + 1] += 1 + _LEAST
    return np.linalg.solve(system, rest)
