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

from ..data.streaming import Consumer, stream
from ..engines.algebra import HOST
from ..engines.threads import at_most
from ..utils.callbacks import NO_CALLBACKS
from .cross_validation import search
from .ensemble_weights import squared_errors
from .linear import Posterior, score_uncovered
from .packed_symmetric import WIDTH, PackedSymmetric
from .statistics import RidgeStatistics

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


# Scores of the training rows by readouts that have not seen them.


class PressScorer:
    """Scores of the training rows by readouts that have not seen them, for some penalties.

    A row that is left out changes its own score alone, and by a known amount: see
    `leave_one_out`. Rows that are equal are one row to the equations, of the sum of their weights
    and the mean of their targets: with these for w and y it is the score without all of them. The
    hidden layer stays as it is, centres among the rows too.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all rows.
    alphas : sequence of float
    dtype : dtype
        In which rows are whitened.

    Attributes
    ----------
    solutions : list of Solution
    errors : array of shape (n_alphas,)
        See `PressResult`; of the rows so far. Infinite where the score of a row is not known.
    noise, noise_weight : arrays of shape (n_alphas, n_outputs) and (n_alphas,)
        Sums over the rows so far of ``w (1 - s) e^2``, of their residuals e, and of
        ``w (1 - s)^2``: their quotient estimates the variance of the noise, see `posterior`.
    """

    def __init__(self, statistics, alphas, dtype):
        self.algebra, self.dtype = statistics.algebra, np.dtype(dtype)
        self.solutions, self._bases = [], []
        for whitening in statistics.whiten(alphas):
            solutions, basis = _readouts_in(whitening, statistics, self.dtype)
            self.solutions += solutions
            self._bases.append(basis)
        self.alphas = self.xp.asarray(np.array(alphas, np.float64))
        self._n, self._mean_y = statistics.n, statistics.y / statistics.n
        self._mean_h = statistics.mean.astype(dtype)
        self.errors = self.xp.zeros(len(alphas))
        self.noise = self.xp.zeros((len(alphas), len(statistics.y)))
        self.noise_weight = self.xp.zeros(len(alphas))

    @property
    def xp(self):
        """Namespace of the arrays."""
        return self.algebra.xp

    def on(self, algebra):
        """Return the same where another algebra has its arrays, for other rows."""
        result = object.__new__(type(self))  # `copy` would ask how it travels
        vars(result).update(vars(self))
        result.algebra, result.solutions = algebra, None
        for name in ("_mean_y", "_mean_h", "alphas"):
            setattr(result, name, algebra.here(getattr(self, name)))
        result._bases = [basis.map(algebra.here) for basis in self._bases]
        result.errors = algebra.xp.zeros(self.errors.shape)
        result.noise = algebra.xp.zeros(self.noise.shape)
        result.noise_weight = algebra.xp.zeros(self.noise_weight.shape)
        return result

    def __getstate__(self):
        """Return the state in arrays of the host, wherever they are."""
        arrays = {name: self._to_host(value) for name, value in vars(self).items()}
        bases = [basis.map(self._to_host) for basis in self._bases]
        return arrays | {"algebra": HOST, "solutions": None, "_bases": bases}

    def _to_host(self, value):
        return self.algebra.to_host(value) if isinstance(value, self.xp.ndarray) else value

    def take_in(self, found):
        """Take in the sums of rows that others have scored."""
        self.errors += self.algebra.here(found.errors)
        self.noise += self.algebra.here(found.noise)
        self.noise_weight += self.algebra.here(found.noise_weight)

    @staticmethod
    def nbytes(n_units, itemsize, algebra, n_bases=1):
        """Bytes that it takes on the engine at most."""
        whitening = RidgeStatistics.whitening_bytes(n_units, algebra)
        return whitening + (n_bases + 2 * (algebra.n_parts - 1)) * n_units**2 * itemsize

    @staticmethod
    def row_bytes(n_units, n_outputs, itemsize, algebra, n_alphas):
        """Bytes that `scores` takes for a row."""
        of_outputs = 8 * (8 * n_outputs + 6) * n_alphas
        return (2 * algebra.n_parts + 1) * n_units * itemsize + of_outputs

    @at_most(1)
    def scores(self, H, Y, weight=None, together=None):
        """Scores (rows, n_alphas, n_outputs) of rows, each without itself, in float64.

        Adds to `errors`. H is overwritten. With `together`, the weights and mean targets of the
        rows that are equal to each, scores are those without all of them; errors are as before.
        """
        xp = self.xp
        H = H.astype(self.dtype, copy=False)
        H -= self._mean_h
        norms = (H * H).sum(axis=1).astype(np.float64)
        least = least_remainder(self.dtype, norms[:, None], self.alphas)
        scores, leverage = self._by_all_rows(H, Y.shape[1])
        without = None
        if together is not None:
            weights, means = together
            remainder = 1 - leverage * weights[:, None]
            without, _ = leave_out(xp, means[:, None], scores, remainder, least, self._mean_y)
        if weight is not None:
            leverage *= xp.asarray(weight)[:, None]
        Y, remainder = Y[:, None, :], 1 - leverage
        left, is_unknown = leave_out(xp, Y, scores, remainder, least, self._mean_y)
        weight = xp.ones(len(H)) if weight is None else xp.asarray(weight)
        self.errors += xp.tensordot(weight, ((Y - left) ** 2).sum(axis=2), 1) / self._n
        self.errors += xp.where(is_unknown.any(axis=0), np.inf, 0.0)
        self.noise += xp.tensordot(weight, remainder[:, :, None] * (Y - scores) ** 2, 1)
        self.noise_weight += xp.tensordot(weight, remainder**2, 1)
        return left if without is None else without

    def _by_all_rows(self, H, n_outputs):
        """Scores (rows, n_alphas, n_outputs) and leverages (rows, n_alphas) of centred rows."""
        xp, H = self.xp, self.algebra.split(H)
        U, found = xp.empty(H[0].shape, self.dtype), []
        for basis in self._bases:
            basis.transform(H, U, self.algebra)
            scores = self.algebra.multiply(U, basis.readouts).astype(np.float64)
            scores = scores.reshape(len(U), -1, n_outputs)
            found.append((scores, (xp.multiply(U, U, out=U) @ basis.scale).astype(np.float64)))
        scores, leverage = (xp.concatenate(each, axis=1) for each in zip(*found, strict=True))
        scores += self._mean_y
        leverage += 1 / self._n
        return scores, leverage

    def posterior(self, k):
        """The `Posterior` at penalty k, by all rows.

        Without row i, the variance of what is predicted of it is that of the noise over
        ``1 - s``: the noise makes the squared leave-one-out residuals, each in units of its own
        variance, 1 on average. Rows count for ``(1 - s)^2``: new rows are hardly ever as near to a
        unit as the row that it is centred on, whose residual tells of the unit, not of the noise.
        """
        noise = self.xp.sqrt(self.noise[k] / self.noise_weight[k])
        for basis in self._bases:
            if k < basis.scale.shape[1]:
                root = basis.vectors * self.xp.sqrt(basis.scale[:, k])
                return Posterior(root, self._mean_h, self._n, noise)
            k -= basis.scale.shape[1]


@dataclass(frozen=True, eq=False)
class _Basis:
    """A `Whitening` in the dtype of H, and the readouts of its penalties in this basis."""

    vectors: Any  # (n_units, n_directions)
    scale: Any  # (n_directions, n_penalties)
    readouts: Any  # (n_directions, n_penalties * n_outputs)
    is_triangular: bool  # whether `vectors` has only zeros below the diagonal

    def map(self, function):
        """Return the same with a function of each array in its place."""
        arrays = {name: function(getattr(self, name)) for name in ("vectors", "scale", "readouts")}
        return replace(self, **arrays)

    def transform(self, H, U, algebra):
        """Write rows in this basis into U; H is what `algebra.split` gives for them."""
        vectors, m = algebra.split(self.vectors), U.shape[1]
        width = WIDTH if self.is_triangular else m
        for first in range(0, m, width):
            columns = slice(first, first + width)
            used = slice(columns.stop if self.is_triangular else None)
            algebra.gemm_split(
                U.T[columns], [v[used, columns].T for v in vectors], [h[:, used].T for h in H]
            )


def _readouts_in(whitening, statistics, dtype):
    """The solutions for the penalties of a `Whitening`, and it as a `_Basis`."""
    vectors, scale, problems, is_triangular = whitening
    target = vectors.T @ statistics.right
    solutions = [
        statistics._solution(vectors @ (scale[:, [k]] * target), problem)
        for k, problem in enumerate(problems)
    ]
    readouts = (scale[:, :, None] * target[:, None, :]).reshape(len(target), -1)
    arrays = (statistics.xp.ascontiguousarray(a, dtype) for a in (vectors, scale, readouts))
    return solutions, _Basis(*arrays, is_triangular)
