"""Leave-one-out scores of ridge readouts in closed form (PRESS).

The readout does not have to be trained again without each sample. With the leverage
``s = w (1 / n + (h - mean)' (A + alpha I)^-1 (h - mean))`` of a sample of weight w, the score of a
readout trained without it is ``y - (y - score) / (1 - s)`` (PRESS, the predicted residual error sum
of squares: D. M. Allen 1974, "The relationship between variable selection and data augmentation
and a method for prediction"). A set F of samples is left out together by ``(I - S_FF)^-1`` in the
place of ``1 / (1 - s)``, where S_FF is its block of the hat matrix.

If a unit is centred at a sample that is left out, the unit is left out, too: see `without_unit`.
New samples have no unit of their own. With the unit, scores would be those of a readout with a free
coefficient at the very sample, which no other sample determines: the smaller the penalty, the
larger the error of such scores, where that of new samples changes little. In all other respects
the hidden layer stays as it is.

With the Cholesky factor L of the normal matrix, which a ridge has anyway, the leverage is
``w (1 / n + |L^-1 (h - mean)|^2)``. There are two evaluations:

- `SampledLOO` scores a bounded sample of the rows by one penalty, by triangular solves. Calibration
  and stacked ensembles need no more.
- `LOOScorer` scores all rows by several penalties in one more pass over them, by products with the
  inverse factors or with eigenvectors: see `loo_penalty.py`.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve

from ..data.map_reduce import MapReduce, map_reduce
from ..data.memory import MemoryLimitError, check_fits
from ..data.streaming import Consumer, stream
from ..engines.algebra import HOST
from ..engines.threads import limit_blas_threads
from ..utils.callbacks import NO_CALLBACKS
from .linear import Posterior, Solution, score_uncovered
from .packed_symmetric import WIDTH, PackedSymmetric
from .statistics import FEW, FactoredEquations, RidgeStatistics

# 1 - leverage is known to a tenth if it is this many times its rounding error.
_MARGIN = 10


# Formulas


def min_remainder(dtype: npt.DTypeLike, squared_norm: Any, alpha: Any) -> Any:
    """Return the smallest 1 - leverage that is more than a rounding error of the dtype.

    Rounding changes ``|L^-1 h|^2`` by about ``eps |h| / sqrt(alpha)``, since no eigenvalue of the
    normal matrix is less than alpha, nor than the rounding error of its trace in float64. On
    float32 factors of 60 to 1000 units, errors were at most twice this estimate.

    Parameters
    ----------
    squared_norm : array
        ``|h - mean|^2`` of each row.
    alpha : float or array
    """
    fine = np.finfo(np.float64)
    ratio = squared_norm / (alpha + float(fine.eps) * squared_norm + float(fine.tiny))
    return _MARGIN * float(np.finfo(dtype).eps) * (1 + ratio**0.5)


def leave_out(
    xp: Any, targets: Any, scores: Any, remainder: Any, least: Any, mean: Any
) -> tuple[Any, Any]:
    """Return leave-one-out scores, and a mask of the samples whose score is unknown.

    If 1 - leverage is no more than its rounding error, the sample alone determines its score, and
    what the others predict is lost. The mean of the targets replaces it. Dividing by a floor
    instead would shrink those residuals that are least known.

    Parameters
    ----------
    targets, scores : arrays of shape (n_rows, ..., n_outputs)
    remainder, least : arrays of shape (n_rows, ...)
        1 - leverage, and `min_remainder`.
    mean : array of shape (n_outputs,)
        Of the targets.
    """
    is_unknown = remainder <= least
    remainder = xp.where(is_unknown, 1.0, remainder)[..., None]
    left_out = targets - (targets - scores) / remainder
    return xp.where(is_unknown[..., None], mean, left_out), is_unknown


def without_unit(
    scores: Any, leverage: Any, product: Any, square: Any, coefficients: Any
) -> tuple[Any, Any]:
    """Return scores and leverages of rows by readouts without one unit, another one for each row.

    The readout is trained on all rows. A coefficient of 0 for unit j is a linear constraint: with
    the inverse P of the normal matrix, it changes the score of a row h by
    ``-(P h)_j W_j / P_jj`` and its leverage by ``-(P h)_j^2 / P_jj``.

    Parameters
    ----------
    scores : array of shape (n_rows, ..., n_outputs)
    leverage : array of shape (n_rows, ...)
        Of weight 1.
    product, square : arrays of shape (n_rows, ...)
        ``(P h)_j`` and ``P_jj``; 0 for rows that keep all units.
    coefficients : array of shape (n_rows, ..., n_outputs)
        The coefficients W_j.
    """
    factor = product / (square + (square == 0))
    return scores - factor[..., None] * coefficients, leverage - factor * product


def leave_fold_out(
    targets: npt.NDArray, residuals: npt.NDArray, remainder: npt.NDArray, root: npt.NDArray
) -> npt.NDArray:
    """Return the scores of the samples of a fold by a readout trained without the fold.

    Parameters
    ----------
    targets : ndarray of shape (n_rows, n_outputs)
    residuals : ndarray of shape (n_rows, n_outputs)
        Of the readout of all samples, times `root`.
    remainder : ndarray of shape (n_rows, n_rows)
        Block of I - S, for rows that are multiplied by `root`. Residuals and remainder may have
        one more common factor.
    root : ndarray of shape (n_rows, 1)
        Square roots of the weights.
    """
    return targets - solve(remainder, residuals, assume_a="pos") / root


# A sample of the rows, one penalty


@dataclass(frozen=True, eq=False)
class LOOScores:
    """Leave-one-out scores of the rows of a `Sample`, by the readout of `n_units` units."""

    n_units: int
    scores: npt.NDArray  # (n_rows, n_outputs)
    uncovered: npt.NDArray  # indices of the rows that no unit covers
    is_known: npt.NDArray  # (n_rows,): False if the mean of the targets replaces the score
    # (n_rows, n_outputs): scores by readouts without all rows of the row's fold, given folds
    fold_scores: npt.NDArray | None = None


class SampledLOO:
    """Leave-one-out scores of a sample of the rows.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or TanhLayer
    sample : Sample
        If its rows are distinct, a row that occurs several times is one row with the sum of the
        weights and the mean of the targets, so that the formula leaves all copies out.
    statistics : RidgeStatistics, optional
        Of all rows; `score_dual` needs none.
    folds : ndarray of int of shape (n_rows,), optional
        The fold of each row of the sample, for `LOOScores.fold_scores`.
    units : Units, optional
        Those that are centred at rows of the sample are left out with the rows.
    """

    def __init__(
        self,
        job: Any,
        layer: Any,
        sample: Any,
        statistics: RidgeStatistics | None = None,
        folds: npt.NDArray | None = None,
        units: Any = None,
    ):
        self.job, self.layer, self.sample = job, layer, sample
        has_none = np.full(sample.n_rows, -1)
        self._own_units = has_none if units is None else units.own_units(sample)
        self._statistics: Any = statistics
        self._folds: Any = None
        if folds is not None:
            self._folds = [np.flatnonzero(folds == number) for number in np.unique(folds)]

    def solve(
        self, alpha: float, is_last: bool = False, n_units: int | None = None
    ) -> tuple[Solution, LOOScores]:
        """Return a readout of the statistics, and its scores.

        Parameters
        ----------
        alpha, is_last
            As of `RidgeStatistics.factorise`.
        n_units : int, optional
            Use the leading units alone.
        """
        statistics = self._statistics if n_units is None else self._statistics.leading(n_units)
        equations = statistics.factorise(alpha, is_last, needs_root=True)
        (scores,) = self.score(equations)
        return equations.solve(), scores

    def solve_plain(self, alpha: float, is_last: bool = False) -> tuple[Solution, LOOScores | None]:
        """Return the readout that `RidgeStatistics.solve` returns, and its scores.

        They may be less precise than those of `solve`, and are None where memory is short.
        """
        equations = self._statistics.factorise(alpha, is_last)
        scores = None
        with suppress(MemoryLimitError):
            (scores,) = self.score(equations)
        return equations.solve(), scores

    def solve_leading(self, alpha: float, sizes: list[int]) -> list[tuple[Solution, LOOScores]]:
        """Return readouts of the leading units of each size, and their scores."""
        pairs: list[tuple[Solution, LOOScores]] = []
        for equations in self._statistics.factorise_leading(alpha, sizes, needs_root=True):
            scores = self.score(equations)
            pairs += zip(equations.solve_sizes(), scores, strict=True)
            del equations  # before the next factor is computed
        return pairs

    def score(self, equations: FactoredEquations) -> list[LOOScores]:
        """Return the scores by the readout of each size of some equations.

        The factor of the equations is in memory meanwhile, and the statistics unless the factor has
        overwritten them.
        """
        whitened = _WhitenedRows(self._statistics, self.job.engine, equations)
        job = self._job_with_factor()
        if self._folds is not None:
            return [self._score_by_folds(job, whitened)]
        return self._score_by_tiles(job, whitened, equations.sizes)

    def _score_by_tiles(self, job, whitened, sizes):
        """Return the scores by readouts of several sizes, from tiles of H that are discarded."""
        results = {size: _Scores(self.sample, whitened.mean_y) for size in sizes}
        own_units = self._own_units_of(whitened)
        order = np.argsort(own_units, kind="stable")  # as `_OwnUnits` needs it

        def consume(part, H):
            rows = order[part]
            for size in sizes:  # before H is overwritten
                results[size].is_uncovered[rows] = ~job.engine.algebra.any(H[:, :size], axis=1)
            Z, least = whitened.whiten(H)
            leverages = list(whitened.leverages(Z, sizes))
            own = _OwnUnits(whitened, own_units[rows])
            for size, of_all in zip(sizes, leverages, strict=True):
                scores, leverage = own.removed(Z, whitened.scores(Z, size), of_all, size)
                results[size].leave_out(rows, scores, leverage, least)

        self._stream(job, consume, max(sizes), order)
        return [results[size].result(size) for size in sizes]

    def _score_by_folds(self, job, whitened):
        """Return the scores by the readout of all units, also without whole folds.

        A block of the hat matrix needs all rows of a fold at once, so that the whitened rows of a
        group of folds are kept.
        """
        Y, weight, m = self.sample.targets, self.sample.rows.weight, whitened.n_units
        result, fold_scores = _Scores(self.sample, whitened.mean_y), np.empty(Y.shape)
        own_units = self._own_units_of(whitened)
        for folds in self._groups_of_folds(m * whitened.dtype.itemsize, job.memory_limit):
            folds = [fold[np.argsort(own_units[fold], kind="stable")] for fold in folds]
            rows = np.concatenate(folds)
            Z = whitened.algebra.xp.empty((m, len(rows)), whitened.dtype, order="F")
            least = np.empty(len(rows))

            def consume(part, H, rows=rows, Z=Z, least=least):
                result.is_uncovered[rows[part]] = ~job.engine.algebra.any(H, axis=1)
                Z[:, part], least[part] = whitened.whiten(H)

            self._stream(job.reserve(Z.nbytes), consume, m, rows)
            ends = np.cumsum([len(fold) for fold in folds])
            for fold, end in zip(folds, ends, strict=True):
                part = slice(end - len(fold), end)
                of_fold = Z[:, part]
                scores, hat = whitened.scores(of_fold, m), whitened.hat(of_fold)
                own = _OwnUnits(whitened, own_units[fold])
                of_rows, leverage = own.removed(of_fold, scores, hat.diagonal(), m)
                result.leave_out(fold, of_rows, leverage, least[part])
                scores, hat = own.all_removed(of_fold, scores, hat)
                root = np.sqrt(weight[fold])[:, None]
                residuals, remainder = root * (Y[fold] - scores), np.eye(len(fold))
                remainder = remainder - root * hat * root.T
                fold_scores[fold] = leave_fold_out(Y[fold], residuals, remainder, root)
        return result.result(m, fold_scores)

    def _own_units_of(self, whitened):
        """Return the own units of all rows, without those that the equations do not have."""
        return np.where(self._own_units < whitened.n_units, self._own_units, -1)

    def _groups_of_folds(self, row_bytes, limit):
        """Return lists of folds whose rows take up to a quarter of the memory, or of one fold.

        Large groups are faster, since each stream of rows converts the factor to the dtype of H.
        """
        groups: list[list] = [[]]
        for fold in self._folds:
            n_rows = sum(map(len, groups[-1])) + len(fold)
            if groups[-1] and n_rows * row_bytes > limit // 4:
                groups.append([])
            groups[-1].append(fold)
        return groups

    def _stream(self, job, consume, m, rows=None):
        consumer = Consumer(consume, fixed_bytes=PackedSymmetric.strip_bytes(m), row_bytes=64 * m)
        stream(job, self.layer, self.sample.rows.X, consumer, rows)

    def score_dual(
        self, dual: Any, H: npt.NDArray, rows: npt.NDArray, groups: npt.NDArray
    ) -> LOOScores:
        """Return the scores by the dual equations of few rows H, a `dual.Dual`.

        Their `rows` are the copies of the rows `groups` of the sample.
        """
        Y, root = self.sample.targets, np.sqrt(self.sample.rows.weight)[:, None]
        own_units = np.where(self._own_units < H.shape[1], self._own_units, -1)
        left_out = dual.hat_complement(H, rows, groups, root, own_units)
        residuals, remainder = left_out.without_own_units()
        # Alpha cancels in the quotient, so that leverages are known, but not that of a single row.
        is_known = remainder > np.finfo(np.float64).eps * remainder.max()
        remainder = np.where(is_known, remainder, 1.0)
        scores, fold_scores = Y - residuals / (remainder[:, None] * root), None
        scores[~is_known] = np.average(Y, axis=0, weights=self.sample.rows.weight)
        if self._folds is not None:
            fold_scores = np.empty(Y.shape)
            for fold in self._folds:
                of_fold, block = left_out.without_units_of(fold)
                fold_scores[fold] = leave_fold_out(Y[fold], of_fold, block, root[fold])
        uncovered = np.unique(groups[dual.is_uncovered[rows]])
        return LOOScores(self.layer.n_units, scores, uncovered, is_known, fold_scores)

    def fill_uncovered(self, scores: LOOScores, nearest: npt.NDArray | None = None) -> LOOScores:
        """Replace the scores of uncovered rows by the outputs of their nearest unit, in place.

        Parameters
        ----------
        nearest : ndarray of shape (n_units, n_outputs), optional
            None keeps the scores by the formula.
        """

        def replace_rows(rows, outputs):
            for array in (scores.scores, scores.fold_scores):
                if array is not None:
                    array[rows] = outputs

        layer, job = self.layer.part(slice(scores.n_units)), self._silent(self.job)
        score_uncovered(job, layer, self.sample.rows.X, scores.uncovered, nearest, replace_rows)
        return scores

    def losses(self, scores: LOOScores) -> tuple[npt.NDArray, float]:
        """Return ``|y - score|^2`` of each row, and the mean; infinite if a score is unknown."""
        losses = np.square(self.sample.targets - scores.scores).sum(axis=1)
        if not scores.is_known.all():
            return losses, np.inf
        return losses, float(np.average(losses, weights=self.sample.rows.weight))

    @staticmethod
    def _silent(job):
        """Return the job without progress: the rows are few."""
        return replace(job, task=NO_CALLBACKS, verbose=0)

    def _job_with_factor(self):
        """Return the job with the memory that the factor, and the statistics if kept, leave."""
        s, job = self._statistics, self._silent(self.job)
        n_bytes = RidgeStatistics.nbytes(self.layer.n_units) * (1 + (s.gram is not None))
        return job if s.algebra is not job.engine.algebra else job.reserve(n_bytes)


class _Scores:
    """Arrays of the `LOOScores` of a sample, while they are filled."""

    def __init__(self, sample, mean_y):
        self._Y, self._weight, self._mean_y = sample.targets, sample.rows.weight, mean_y
        n_rows = len(self._Y)
        self._scores, self._is_known = np.empty(self._Y.shape), np.empty(n_rows, bool)
        self.is_uncovered = np.empty(n_rows, bool)

    def leave_out(self, rows, scores, leverage, least):
        """Set scores of rows, from those by the readout of all rows and leverages of weight 1."""
        remainder = 1 - leverage * self._weight[rows]
        self._scores[rows], is_unknown = leave_out(
            np, self._Y[rows], scores, remainder, least, self._mean_y
        )
        self._is_known[rows] = ~is_unknown

    def result(self, n_units, fold_scores=None):
        uncovered = np.flatnonzero(self.is_uncovered)
        return LOOScores(n_units, self._scores, uncovered, self._is_known, fold_scores)


class _WhitenedRows:
    """Rows of H as ``L^-1 (h - mean)``, for the root L of the normal matrix of some equations.

    The equations may be of more precise statistics (`RidgeStatistics.float64_fallback`); rows are
    whitened in the precision of those that are given.
    """

    def __init__(self, statistics, engine, equations):
        s, half = statistics, equations.half
        self.algebra, self._engine, self._n, self._alpha = s.algebra, engine, s.n, equations.alpha
        self._whiten, self._whiten_units = equations.whiten, equations.whiten_units
        # Neither sums that were rounded to float32 nor a float32 factor have more digits.
        self.dtype = np.dtype(np.float32 if s.is_coarse else half.dtype)
        self.n_units, self._half = len(half), half.astype(self.dtype)
        self._mean_h = s.mean[: self.n_units].astype(self.dtype)
        self.mean_y = self.algebra.to_host(s.y / s.n)

    def whiten(self, H):
        """Return a tile as columns (n_units, n_rows), and their `min_remainder` on the host."""
        H = H if self._engine.algebra is self.algebra else self._engine.to_host(H)
        H = H[:, : self.n_units].astype(self.dtype, copy=False)
        H -= self._mean_h
        squared_norms = self.algebra.to_host((H * H).sum(axis=1)).astype(np.float64)
        return self._whiten(H.T), min_remainder(self.dtype, squared_norms, self._alpha)

    def scores(self, Z, size):
        """Return scores (n_rows, n_outputs) by the first units, in float64 on the host."""
        scores = self.algebra.to_host(self.algebra.multiply_transposed(Z[:size], self._half[:size]))
        return scores.astype(np.float64) + self.mean_y

    def leverages(self, Z, sizes):
        """Yield leverages (n_rows,) of rows of weight 1, by the first units of each size."""
        squares = Z * Z
        for size in sizes:
            sums = self.algebra.to_host(squares[:size].sum(axis=0)).astype(np.float64)
            yield sums + 1 / self._n

    def products(self, A, Z):
        """Return ``A' Z`` for two blocks of columns, in float64 on the host."""
        return self.algebra.to_host(self.algebra.multiply_transposed(A, Z)).astype(np.float64)

    def column_sums(self, A):
        """Return the sums of the columns, in float64 on the host."""
        return self.algebra.to_host(A.sum(axis=0)).astype(np.float64)

    def unit_vectors(self, units):
        """Return ``L^-1 e_j`` as columns for ascending units j; zeros for -1."""
        return self._whiten_units(units, self.dtype)

    def coefficients(self, U, size):
        """Return the coefficients (n_columns, n_outputs) of the units of `unit_vectors`."""
        return self.products(U[:size], self._half[:size])

    def hat(self, Z):
        """Return the block of the hat matrix (n_rows, n_rows) for rows of weight 1."""
        return self.products(Z, Z) + 1 / self._n


class _OwnUnits:
    """The units that are centred at some rows, and scores of the rows without them.

    Parameters
    ----------
    whitened : _WhitenedRows
    units : ndarray of int of shape (n_rows,)
        The unit of each row, ascending; -1 for none.
    """

    def __init__(self, whitened, units):
        self._whitened, self._units = whitened, units
        self._are_any = bool((units >= 0).any())
        self._U: Any = whitened.unit_vectors(units) if self._are_any else None

    def removed(self, Z, scores, leverage, size):
        """Return scores and leverages, by the leading units, without each row's own unit."""
        if not self._are_any:
            return scores, leverage
        # The root is triangular: the leading rows of U are those of a smaller layer, and are 0 for
        # a unit that it does not have.
        whitened, U = self._whitened, self._U[:size]
        product, square = whitened.column_sums(U * Z[:size]), whitened.column_sums(U * U)
        return without_unit(scores, leverage, product, square, whitened.coefficients(U, size))

    def all_removed(self, Z, scores, hat):
        """Return scores and the block of the hat matrix without the own units of all rows."""
        if not self._are_any:
            return scores, hat
        whitened, rows = self._whitened, np.flatnonzero(self._units >= 0)
        inner = whitened.products(self._U, self._U)[np.ix_(rows, rows)]
        # Rounding may leave an ill-conditioned block indefinite.
        inner.flat[:: len(rows) + 1] += np.finfo(whitened.dtype).eps * np.trace(inner)
        outer = whitened.products(self._U, Z)[rows]
        coefficients = whitened.coefficients(self._U, whitened.n_units)[rows]
        solved = solve(inner, outer, assume_a="pos")
        return scores - solved.T @ coefficients, hat - outer.T @ solved


# All rows, several penalties


class PressResult(NamedTuple):
    """Ridge readouts of several penalties, with their leave-one-out errors."""

    alphas: Any  # sequence of float
    solutions: list[Solution]  # for each penalty
    # (n_alphas,): weighted mean over the rows of the squared leave-one-out error, summed over
    # outputs; infinite if the score of a row is unknown.
    errors: npt.NDArray
    # (n_alphas, n_rows, n_outputs): scores of each row without itself, in the dtype of H; None if
    # they are not kept.
    scores: npt.NDArray | None
    uncovered: npt.NDArray  # indices of the rows that no unit covers, if scores are kept
    posterior: Any = None  # ``posterior(k)`` returns the `Posterior` at penalty number k


def press(
    job: Any,
    layer: Any,
    samples: Any,
    statistics: RidgeStatistics,
    alphas: Any,
    keep_scores: bool,
    rows: npt.NDArray | None = None,
) -> PressResult:
    """Return ridge readouts and their leave-one-out errors, by one more pass over the rows.

    Parameters
    ----------
    samples : Samples
        Their `own_units` are left out with them.
    statistics : RidgeStatistics
        Of all rows.
    alphas : sequence of float
    keep_scores : bool
        Whether to keep the scores: always for one penalty, for several if a quarter of the memory
        holds them.
    rows : ndarray of int, optional
        The rows that are left out, ascending; all by default.
    """
    # With fewer rows than units, leverages are near 1 and need the digits of float64.
    m, is_few = layer.n_units, len(samples) < layer.n_units
    dtype = np.dtype(np.float64) if is_few else layer.hidden_dtype
    n_bases = len(alphas) if len(alphas) <= FEW else 1
    needed = LOOScorer.nbytes(m, dtype.itemsize, job.engine.algebra, n_bases)
    limit = job.memory_limit
    check_fits("leave-one-out", needed, limit)
    scorer, solutions = LOOScorer.build(statistics, alphas, dtype)
    n_rows = len(samples if rows is None else rows)
    kept_bytes = dtype.itemsize * len(alphas) * n_rows * samples.targets.n_outputs
    keep_scores = keep_scores and (len(alphas) == 1 or kept_bytes <= limit // 4)
    needed += kept_bytes if keep_scores else 0
    sums = map_reduce(job, samples, _PressPass(layer, scorer, keep_scores, needed), rows)
    uncovered = sums.uncovered if rows is None else rows[sums.uncovered]

    def posterior(k):
        return scorer.posterior(k, sums)

    return PressResult(alphas, solutions, sums.errors, sums.scores, uncovered, posterior)


@dataclass(eq=False)
class LOOSums:
    """Sums over rows that were left out one at a time; those of disjoint rows add up.

    Attributes
    ----------
    errors : array of shape (n_alphas,)
        As of `PressResult`, for the rows so far.
    noise, noise_weight : arrays of shape (n_alphas, n_outputs) and (n_alphas,)
        Sums of ``w (1 - s) e^2`` for the residuals e, and of ``w (1 - s)^2``. Their quotient
        estimates the variance of the noise: see `LOOScorer.posterior`.
    scores, uncovered : ndarray or None, and ndarray
        As of `PressResult`; rows are counted from the first of these.
    n_rows : int
    """

    errors: Any
    noise: Any
    noise_weight: Any
    scores: Any
    uncovered: npt.NDArray
    n_rows: int

    def __add__(self, other: "LOOSums") -> "LOOSums":
        """Return the sums of these rows and of those that follow them."""
        scores = None
        if self.scores is not None:
            scores = np.concatenate([self.scores, other.scores], axis=1)
        return LOOSums(
            self.errors + other.errors, self.noise + other.noise,
            self.noise_weight + other.noise_weight, scores,
            np.concatenate([self.uncovered, self.n_rows + other.uncovered]),
            self.n_rows + other.n_rows,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _PressPass(MapReduce):
    """The pass over the rows of `press`."""

    layer: Any
    scorer: "LOOScorer"
    keep_scores: bool
    needed: int  # bytes of the scorer and of the scores

    def __call__(self, job, samples, rows=None):
        engine, keep_scores = job.engine, self.keep_scores
        scorer = self.scorer.on(engine.algebra)
        n_alphas, n_outputs = len(scorer.alphas), samples.targets.n_outputs
        n_rows = len(samples if rows is None else rows)
        xp = engine.xp
        sums = LOOSums(
            xp.zeros(n_alphas), xp.zeros((n_alphas, n_outputs)), xp.zeros(n_alphas),
            np.empty((n_alphas, n_rows, n_outputs), scorer.dtype) if keep_scores else None,
            np.empty(0, np.intp), n_rows,
        )  # fmt: skip
        uncovered = [sums.uncovered]

        def consume(at, H):
            part = at if rows is None else rows[at]
            # Before H is overwritten.
            is_uncovered: Any = ~engine.algebra.any(H, axis=1) if keep_scores else None
            Y = samples.targets.matrix(part, xp)
            own_units = None if samples.own_units is None else samples.own_units[part]
            scores = scorer.scores(H, Y, sums, samples.weight_of(part), own_units)
            if keep_scores:
                sums.scores[:, at] = engine.to_host(scores).swapaxes(0, 1)
                uncovered.append(at.start + np.flatnonzero(is_uncovered))

        m, itemsize = self.layer.n_units, scorer.dtype.itemsize
        row_bytes = scorer.row_bytes(m, n_outputs, itemsize, engine.algebra, n_alphas)
        stream(job, self.layer, samples.X, Consumer(consume, self.needed, row_bytes), rows)
        return replace(
            sums, errors=engine.to_host(sums.errors), noise=engine.to_host(sums.noise),
            noise_weight=engine.to_host(sums.noise_weight), uncovered=np.concatenate(uncovered),
        )  # fmt: skip

    @staticmethod
    def add(some, more):
        return some + more


@dataclass(frozen=True, eq=False)
class LOOScorer:
    """Leave-one-out scores of tiles of H, by the ridge readouts of several penalties.

    Immutable: several devices and processes score rows with copies of one scorer.
    """

    algebra: Any
    dtype: np.dtype  # in which rows are whitened
    bases: "tuple[_Basis, ...]"  # which cover the penalties in their order
    alphas: Any  # (n_alphas,)
    n: float  # sum of the weights of all rows
    mean_h: Any  # (n_units,), in `dtype`
    mean_y: Any  # (n_outputs,)

    @classmethod
    def build(
        cls, statistics: RidgeStatistics, alphas: Any, dtype: npt.DTypeLike
    ) -> "tuple[LOOScorer, list[Solution]]":
        """Return the scorer of the statistics of all rows, and the solutions of the penalties."""
        dtype, xp = np.dtype(dtype), statistics.xp
        solutions: list[Solution] = []
        bases = []
        for whitening in statistics.whiten(alphas):
            more, basis = _solve_in_basis(whitening, statistics, dtype)
            solutions += more
            bases.append(basis)
        scorer = cls(
            statistics.algebra, dtype, tuple(bases), xp.asarray(np.array(alphas, np.float64)),
            statistics.n, statistics.mean.astype(dtype), statistics.y / statistics.n,
        )  # fmt: skip
        return scorer, solutions

    def on(self, algebra: Any) -> "LOOScorer":
        """Return the same scorer in arrays of another algebra."""
        return self._moved(algebra, algebra.to_device)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes with host arrays, for pickle."""
        return vars(self._moved(HOST, self.algebra.to_host))

    def _moved(self, algebra, move):
        return LOOScorer(
            algebra, self.dtype, tuple(basis.moved(move) for basis in self.bases),
            move(self.alphas), self.n, move(self.mean_h), move(self.mean_y),
        )  # fmt: skip

    @staticmethod
    def nbytes(n_units: int, itemsize: int, algebra: Any, n_bases: int = 1) -> int:
        """Return the bytes of a scorer on the engine, at most."""
        whitening = RidgeStatistics.whitening_bytes(n_units, algebra)
        return whitening + (n_bases + 2 * (algebra.n_parts - 1)) * n_units**2 * itemsize

    @staticmethod
    def row_bytes(n_units: int, n_outputs: int, itemsize: int, algebra: Any, n_alphas: int) -> int:
        """Return the bytes that `scores` allocates for a row."""
        output_bytes = 8 * (10 * n_outputs + 10) * n_alphas
        return (2 * algebra.n_parts + 3) * n_units * itemsize + output_bytes

    @limit_blas_threads(1)
    def scores(
        self,
        H: Any,
        Y: Any,
        sums: LOOSums,
        weight: npt.NDArray | None = None,
        own_units: npt.NDArray | None = None,
    ) -> Any:
        """Return scores (n_rows, n_alphas, n_outputs) of rows, each without itself, in float64.

        And without its own unit, if there is one. Adds the errors and the noise to `sums`. H is
        overwritten.
        """
        algebra, xp = self.algebra, self.algebra.xp
        H = H.astype(self.dtype, copy=False)
        H -= self.mean_h
        squared_norms = (H * H).sum(axis=1).astype(np.float64)
        least = min_remainder(self.dtype, squared_norms[:, None], self.alphas)
        scores, leverage, own = self._in_sample(algebra.split(H), Y.shape[1], own_units)
        weight = xp.ones(len(H)) if weight is None else xp.asarray(weight)
        others, leverage = without_unit(scores, leverage, *own) if own else (scores, leverage)
        Y, remainder = Y[:, None, :], 1 - weight[:, None] * leverage
        left_out, is_unknown = leave_out(xp, Y, others, remainder, least, self.mean_y)
        sums.errors += xp.tensordot(weight, ((Y - left_out) ** 2).sum(axis=2), 1) / self.n
        sums.errors += xp.where(is_unknown.any(axis=0), np.inf, 0.0)
        sums.noise += xp.tensordot(weight, remainder[:, :, None] * (Y - others) ** 2, 1)
        sums.noise_weight += xp.tensordot(weight, remainder**2, 1)
        return left_out

    def _in_sample(self, H_parts, n_outputs, own_units):
        """Return scores (n_rows, n_alphas, n_outputs) of the readouts of all rows, and leverages.

        Leverages have the shape (n_rows, n_alphas). The third result is the rest of the arguments
        of `without_unit`, or None. `H_parts` are centred rows, split by ``algebra.split``.
        """
        xp, U = self.algebra.xp, self.algebra.xp.empty(H_parts[0].shape, self.dtype)
        results: list[list] = []
        for basis in self.bases:

            def readout(A, basis=basis):
                products = self.algebra.multiply(A, basis.readouts).astype(np.float64)
                return products.reshape(len(A), -1, n_outputs)

            def scaled(A, basis=basis):
                return (A @ basis.scale).astype(np.float64)

            basis.transform(H_parts, U, self.algebra)
            result = [readout(U)]
            if own_units is not None:
                # The whitened unit vectors of the own units are rows of the basis.
                V = basis.vectors[xp.asarray(np.maximum(own_units, 0))]
                V *= xp.asarray((own_units >= 0)[:, None])
                result += [scaled(U * V), readout(V), scaled(xp.multiply(V, V, out=V))]
            result.append(scaled(xp.multiply(U, U, out=U)))
            results.append(result)
        of_all, *own, leverage = (
            xp.concatenate(each, axis=1) for each in zip(*results, strict=True)
        )
        of_all += self.mean_y
        leverage += 1 / self.n
        if not own:
            return of_all, leverage, None
        product, coefficients, square = own
        return of_all, leverage, (product, square, coefficients)

    def posterior(self, k: int, sums: LOOSums) -> Posterior:
        """Return the `Posterior` at penalty number k, with the noise that all rows show.

        The variance of the leave-one-out residual of row i is that of the noise over ``1 - s``.
        The noise is estimated so that the squared residuals, each in units of its own variance, are
        1 on average, with the weights ``(1 - s)^2``. Residuals and leverages are those without the
        own unit of a row: new rows are hardly ever as close to a unit as the row at its centre.
        """
        noise = self.algebra.to_device(np.sqrt(sums.noise[k] / sums.noise_weight[k]))
        for basis in self.bases:
            n_penalties = basis.scale.shape[1]
            if k < n_penalties:
                root = basis.vectors * self.algebra.xp.sqrt(basis.scale[:, k])
                return Posterior(root, self.mean_h, self.n, noise)
            k -= n_penalties
        raise IndexError("no penalty has this number")


@dataclass(frozen=True, eq=False)
class _Basis:
    """A `Whitening` in the dtype of H, and the readouts of its penalties in this basis."""

    vectors: Any  # (n_units, n_directions)
    scale: Any  # (n_directions, n_penalties)
    readouts: Any  # (n_directions, n_penalties * n_outputs)
    is_triangular: bool  # whether `vectors` is 0 below the diagonal

    def moved(self, move):
        """Return the same basis with ``move(array)`` for each array."""
        return _Basis(move(self.vectors), move(self.scale), move(self.readouts), self.is_triangular)

    def transform(self, H_parts, U, algebra):
        """Write rows in this basis into U; `H_parts` are the rows, split by ``algebra.split``.

        Of a triangular basis, products with the zeros below the diagonal are skipped.
        """
        vectors, m = algebra.split(self.vectors), U.shape[1]
        width = WIDTH if self.is_triangular else m
        for first in range(0, m, width):
            columns = slice(first, first + width)
            used = slice(columns.stop if self.is_triangular else None)
            algebra.gemm_split(
                U.T[columns], [v[used, columns].T for v in vectors], [h[:, used].T for h in H_parts]
            )


def _solve_in_basis(whitening, statistics, dtype):
    """Return the solutions of the penalties of a `Whitening`, and its `_Basis`."""
    vectors, scale, problems, is_triangular = whitening
    target = vectors.T @ statistics.right
    solutions = [
        statistics.to_solution(vectors @ (scale[:, [k]] * target), problem)
        for k, problem in enumerate(problems)
    ]
    readouts = (scale[:, :, None] * target[:, None, :]).reshape(len(target), -1)
    vectors, scale, readouts = (
        statistics.xp.ascontiguousarray(array, dtype) for array in (vectors, scale, readouts)
    )
    return solutions, _Basis(vectors, scale, readouts, is_triangular)
