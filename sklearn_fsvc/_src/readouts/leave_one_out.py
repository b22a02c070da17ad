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

If the remaining units do not cover the sample, the score is the intercept of the readout without
it, or in classification that of the nearest of these units: see `uncovered.py`.

With the Cholesky factor L of the normal matrix, which a ridge has anyway, the leverage is
``w (1 / n + |L^-1 (h - mean)|^2)``. There are three evaluations:

- `SampledLOO` scores a bounded sample of the rows by one penalty, by triangular solves. Calibration
  and stacked ensembles need no more.
- `dual.DualLOO` does so for few rows, by the equations of their Gram matrix.
- `press.compute_press` scores all rows by several penalties in one more pass over them, by products
  with the inverse factors or with eigenvectors: see `loo_penalty.py`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, solve

from ..data.job import Job
from ..data.memory_plan import MemoryLimitError
from ..data.streaming import Consumer, stream
from ..engines.threads import limit_blas_threads
from .linear import Solution
from .packed_symmetric import PackedSymmetric
from .statistics import FactoredEquations, RidgeStatistics
from .uncovered import UncoveredRows

# 1 - leverage is known to a tenth if it is this many times its rounding error.
_MARGIN = 10


# Formulas


def min_one_minus_leverage(dtype: npt.DTypeLike, squared_norm: Any, alpha: Any) -> Any:
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
    xp: Any, targets: Any, scores: Any, one_minus_leverage: Any, lower_bound: Any, mean: Any
) -> tuple[Any, Any]:
    """Return leave-one-out scores, and a mask of the samples whose score is unknown.

    If 1 - leverage is no more than its rounding error, the sample alone determines its score, and
    what the others predict is lost. The mean of the targets replaces it. Dividing by a floor
    instead would shrink those residuals that are least known.

    Parameters
    ----------
    targets, scores : arrays of shape (n_rows, ..., n_outputs)
    one_minus_leverage, lower_bound : arrays of shape (n_rows, ...)
        1 - leverage, and `min_one_minus_leverage`.
    mean : array of shape (n_outputs,)
        Of the targets.
    """
    is_unknown = one_minus_leverage <= lower_bound
    one_minus_leverage = xp.where(is_unknown, 1.0, one_minus_leverage)[..., None]
    left_out = targets - (targets - scores) / one_minus_leverage
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


@limit_blas_threads(1)  # small matrices: more threads wait for each other
def leave_fold_out(
    targets: npt.NDArray, residuals: npt.NDArray, complement: npt.NDArray, sqrt_weight: npt.NDArray
) -> npt.NDArray | None:
    """Return the scores of the samples of a fold by a readout trained without the fold.

    None if the readout interpolates samples of the fold: their residuals are rounding errors.

    Parameters
    ----------
    targets : ndarray of shape (n_rows, n_outputs)
    residuals : ndarray of shape (n_rows, n_outputs)
        Of the readout of all samples, times `sqrt_weight`.
    complement : ndarray of shape (n_rows, n_rows)
        Block of I - S, for rows that are multiplied by `sqrt_weight`. Residuals and complement may
        have one more common factor.
    sqrt_weight : ndarray of shape (n_rows, 1)
        Square roots of the weights.
    """
    try:
        return targets - solve(complement, residuals, assume_a="pos") / sqrt_weight
    except LinAlgError:
        return None


# A sample of the rows, one penalty


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of rows of a `RowSample`, left out or for validation, by the readout of `n_units`."""

    n_units: int
    scores: npt.NDArray  # (n_rows, n_outputs)
    is_known: npt.NDArray  # (n_rows,): False if the mean of the targets replaces the score
    # (n_rows, n_outputs): out-of-fold scores, given folds
    oof_scores: npt.NDArray | None = None
    # Whether `oof_scores` of a fold are the mean of the targets, since the readout interpolates it.
    interpolates: bool = False


@dataclass(eq=False)
class LeaveOneOut:
    """Leave-one-out scores of a sample of the rows: what both forms of the equations share.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or TanhLayer
    sample : RowSample
        If its rows are distinct, a row that occurs several times is one row with the sum of the
        weights and the mean of the targets, so that the formula leaves all copies out.
    folds : ndarray of int of shape (n_rows,), optional
        The fold of each row of the sample, for `HeldOutScores.oof_scores`.
    units : Units, optional
        Those that are centred at rows of the sample are left out with the rows.
    center_outputs : ndarray of shape (n_units, n_outputs), optional
        Targets of the centres, for the scores of uncovered rows; None if these are intercepts.
    mean_weight : float, default=1.0
        The unit of weights, by which the penalty is divided for the scores of uncovered rows.
    """

    job: Job
    layer: Any
    sample: Any
    folds: Any = field(default=None, kw_only=True)
    units: Any = field(default=None, kw_only=True)
    center_outputs: Any = field(default=None, kw_only=True)
    mean_weight: float = field(default=1.0, kw_only=True)
    _uncovered: dict[int, Any] = field(default_factory=dict, init=False)

    @cached_property
    def _rows_of_folds(self):
        """Return the rows of each fold, given folds."""
        return [np.flatnonzero(self.folds == number) for number in np.unique(self.folds)]

    @cached_property
    def _unit_at_sample(self):
        if self.units is None:
            return np.full(self.sample.n_rows, -1)
        return self.units.unit_at_sample(self.sample)

    def _unit_at_sample_below(self, n_units):
        """Return the units at all rows, without those that the equations do not have."""
        return np.where(self._unit_at_sample < n_units, self._unit_at_sample, -1)

    def uncovered_rows(self, n_units: int) -> dict[str, UncoveredRows]:
        """Return the `UncoveredRows` of `scores` and `oof_scores`; {} if they get intercepts."""
        if self.center_outputs is None or not self.layer.has_compact_support:
            return {}
        if n_units not in self._uncovered:  # nearest units do not depend on the penalty
            groups = {"scores": None} | ({} if self.folds is None else {"oof_scores": self.folds})
            job, layer, X = self.job.silent(), self.layer.part(slice(n_units)), self.sample.rows.X
            units, outputs = self._unit_at_sample_below(n_units), self.center_outputs
            self._uncovered[n_units] = {
                name: UncoveredRows(job, layer, X, units, outputs, group)
                for name, group in groups.items()
            }
        return self._uncovered[n_units]

    def fill_uncovered(self, scores: HeldOutScores, alpha: float) -> HeldOutScores:
        """Replace the intercepts in the scores of uncovered rows, in place."""
        for name, uncovered in self.uncovered_rows(scores.n_units).items():
            uncovered.fill(getattr(scores, name), alpha / self.mean_weight)
        return scores

    def losses(self, scores: HeldOutScores) -> tuple[npt.NDArray, float]:
        """Return ``|y - score|^2`` of each row, and the mean; infinite if a score is unknown."""
        losses = np.square(self.sample.targets - scores.scores).sum(axis=1)
        if not scores.is_known.all():
            return losses, np.inf
        return losses, float(np.average(losses, weights=self.sample.rows.weight))


@dataclass(eq=False)
class SampledLOO(LeaveOneOut):
    """Leave-one-out scores from the normal equations of all rows.

    Parameters
    ----------
    job, layer, sample, folds, units
        As of `LeaveOneOut`.
    statistics : RidgeStatistics
        Of all rows.
    """

    statistics: Any

    def solve(
        self, alpha: float, is_last: bool = False, n_units: int | None = None
    ) -> tuple[Solution, HeldOutScores]:
        """Return a readout of the statistics, and its scores.

        Parameters
        ----------
        alpha, is_last
            As of `RidgeStatistics.factorise`.
        n_units : int, optional
            Use the leading units alone.
        """
        statistics = self.statistics if n_units is None else self.statistics.leading(n_units)
        equations = statistics.factorise(alpha, is_last, needs_whitening=True)
        (scores,) = self.score(equations)
        return equations.solve(), scores

    def solve_plain(
        self, alpha: float, is_last: bool = False
    ) -> tuple[Solution, HeldOutScores | None]:
        """Return the readout that `RidgeStatistics.solve` returns, and its scores.

        They may be less precise than those of `solve`, and are None where memory is short.
        """
        equations = self.statistics.factorise(alpha, is_last)
        scores = None
        with suppress(MemoryLimitError):
            (scores,) = self.score(equations)
        return equations.solve(), scores

    def solve_leading(self, alpha: float, sizes: list[int]) -> list[tuple[Solution, HeldOutScores]]:
        """Return readouts of the leading units of each size, and their scores."""
        pairs: list[tuple[Solution, HeldOutScores]] = []
        for equations in self.statistics.factorise_leading(alpha, sizes, needs_whitening=True):
            scores = self.score(equations)
            pairs += zip(equations.solve_sizes(), scores, strict=True)
            del equations  # before the next factor is computed
        return pairs

    def uncovered_loss(self) -> Callable[[float], float] | None:
        """Return by how much the scores of uncovered rows change the mean of ``|y - score|^2``.

        The function of the penalty takes the mean of y for the intercept. None if intercepts are
        the scores of these rows, or there are none.
        """
        m, job = self.layer.n_units, self.job.silent()
        if "scores" not in self.uncovered_rows(m):
            return None
        uncovered = self.uncovered_rows(m)["scores"]

        def find(part, H):
            self._find_uncovered(job, np.arange(self.sample.n_rows)[part], H)

        self._stream(job, find, m)
        rows, s, weight = uncovered.is_uncovered, self.statistics, self.sample.rows.weight
        if not rows.any():
            return None
        mean, share = s.algebra.to_host(s.y / s.n), weight[rows] / weight.sum()
        residuals = self.sample.targets[rows] - mean
        change = np.nan_to_num(uncovered.nearest_targets - mean)  # no unit may be left
        linear, square = share @ (change * residuals).sum(axis=1), share @ np.square(change).sum(1)

        def loss(alpha):
            factor = 1 / (1 + alpha / self.mean_weight)
            return float(factor * (factor * square - 2 * linear))

        return loss

    def score(self, equations: FactoredEquations) -> list[HeldOutScores]:
        """Return the scores by the readout of each size of some equations.

        The factor of the equations is in memory meanwhile, and the statistics unless the factor has
        overwritten them.
        """
        whitened = _WhitenedRows(self.statistics, self.job.engine, equations)
        job = self._job_with_factor()
        if self.folds is not None:
            return [self._score_by_folds(job, whitened)]
        return self._score_by_tiles(job, whitened, equations.sizes)

    def _score_by_tiles(self, job, whitened, sizes):
        """Return the scores by readouts of several sizes, from tiles of H that are discarded."""
        results = {size: _Scores(self.sample, whitened.mean_y) for size in sizes}
        unit_at_sample = self._unit_at_sample_below(whitened.n_units)
        order = np.argsort(unit_at_sample, kind="stable")  # as `_CenteredUnits` needs it

        def consume(part, H):
            rows = order[part]
            for size in sizes:  # before H is overwritten
                self._find_uncovered(job, rows, H[:, :size])
            Z, lower_bound = whitened.whiten(H)
            leverages = list(whitened.leverages(Z, sizes))
            own = _CenteredUnits(whitened, unit_at_sample[rows])
            for size, of_all in zip(sizes, leverages, strict=True):
                scores, leverage = own.removed(Z, whitened.scores(Z, size), of_all, size)
                results[size].leave_out(rows, scores, leverage, lower_bound)

        self._stream(job, consume, max(sizes), order)
        scores = [results[size].result(size) for size in sizes]
        return [self.fill_uncovered(each, whitened.alpha) for each in scores]

    def _find_uncovered(self, job, rows, H):
        for uncovered in self.uncovered_rows(H.shape[1]).values():
            if not uncovered.is_complete:
                uncovered.find(job.engine.algebra, rows, H != 0)

    def _score_by_folds(self, job, whitened):
        """Return the scores by the readout of all units, with out-of-fold scores."""
        m, oof_scores = whitened.n_units, np.empty(self.sample.targets.shape)
        scores, interpolates = _Scores(self.sample, whitened.mean_y), False
        unit_at_sample = self._unit_at_sample_below(m)
        for folds in self._groups_of_folds(m * whitened.dtype.itemsize, job.memory_limit):
            folds = [fold[np.argsort(unit_at_sample[fold], kind="stable")] for fold in folds]
            Z, lower_bound = self._whiten_rows(job, whitened, np.concatenate(folds))
            ends = np.cumsum([len(fold) for fold in folds])
            for fold, end in zip(folds, ends, strict=True):
                part = slice(end - len(fold), end)
                own = _CenteredUnits(whitened, unit_at_sample[fold])
                found = self._score_fold(whitened, fold, Z[:, part], lower_bound[part], own, scores)
                interpolates |= found is None
                oof_scores[fold] = whitened.mean_y if found is None else found
        result = replace(scores.result(m, oof_scores), interpolates=interpolates)
        return self.fill_uncovered(result, whitened.alpha)

    def _whiten_rows(self, job, whitened, rows):
        """Return whitened rows of the sample as columns, and the lower bound of each.

        A block of the hat matrix needs all rows of a fold at once, so that they are kept.
        """
        m = whitened.n_units
        Z = whitened.algebra.xp.empty((m, len(rows)), whitened.dtype, order="F")
        lower_bound = np.empty(len(rows))

        def consume(part, H):
            self._find_uncovered(job, rows[part], H[:, :m])
            Z[:, part], lower_bound[part] = whitened.whiten(H)

        self._stream(job.reserve(Z.nbytes), consume, m, rows)
        return Z, lower_bound

    def _score_fold(self, whitened, fold, Z, lower_bound, own, scores):
        """Add leave-one-out scores of a fold to `scores`; return `leave_fold_out`.

        `Z` are the whitened rows of the fold, and `own` the `_CenteredUnits` of these.
        """
        m, Y = whitened.n_units, self.sample.targets[fold]
        of_all, hat = whitened.scores(Z, m), whitened.hat(Z)
        of_rows, leverage = own.removed(Z, of_all, hat.diagonal(), m)
        scores.leave_out(fold, of_rows, leverage, lower_bound)
        of_fold, hat = own.all_removed(Z, of_all, hat)
        sqrt_weight = np.sqrt(self.sample.rows.weight[fold])[:, None]
        residuals = sqrt_weight * (Y - of_fold)
        complement = np.eye(len(fold)) - sqrt_weight * hat * sqrt_weight.T
        return leave_fold_out(Y, residuals, complement, sqrt_weight)

    def _groups_of_folds(self, row_bytes, limit):
        """Return lists of folds whose rows take up to a quarter of the memory, or of one fold.

        Large groups are faster, since each stream of rows converts the factor to the dtype of H.
        """
        groups: list[list] = [[]]
        for fold in self._rows_of_folds:
            n_rows = sum(map(len, groups[-1])) + len(fold)
            if groups[-1] and n_rows * row_bytes > limit // 4:
                groups.append([])
            groups[-1].append(fold)
        return groups

    def _stream(self, job, consume, m, rows=None):
        consumer = Consumer(consume, fixed_bytes=PackedSymmetric.strip_bytes(m), row_bytes=64 * m)
        stream(job, self.layer, self.sample.rows.X, consumer, rows)

    def _job_with_factor(self):
        """Return the job with the memory that the factor, and the statistics if kept, leave."""
        s, job = self.statistics, self.job.silent()
        n_bytes = RidgeStatistics.nbytes(self.layer.n_units) * (1 + (s.gram is not None))
        return job if s.algebra is not job.engine.algebra else job.reserve(n_bytes)


class _Scores:
    """Arrays of the `HeldOutScores` of a sample, while they are filled."""

    def __init__(self, sample, mean_y):
        self._Y, self._weight, self._mean_y = sample.targets, sample.rows.weight, mean_y
        self._scores, self._is_known = np.empty(self._Y.shape), np.empty(len(self._Y), bool)

    def leave_out(self, rows, scores, leverage, lower_bound):
        """Set scores of rows, from those by the readout of all rows and leverages of weight 1."""
        one_minus_leverage = 1 - leverage * self._weight[rows]
        self._scores[rows], is_unknown = leave_out(
            np, self._Y[rows], scores, one_minus_leverage, lower_bound, self._mean_y
        )
        self._is_known[rows] = ~is_unknown

    def result(self, n_units, oof_scores=None):
        return HeldOutScores(n_units, self._scores, self._is_known, oof_scores)


class _WhitenedRows:
    """Rows of H as ``L^-1 (h - mean)``, for the normal matrix ``L L'`` of some equations.

    The equations may be of more precise statistics (`RidgeStatistics.float64_fallback`); rows are
    whitened in the precision of those that are given.
    """

    def __init__(self, statistics, engine, equations):
        s, right = statistics, equations.whitened_right
        self.algebra, self._engine, self._n, self.alpha = s.algebra, engine, s.n, equations.alpha
        self._whiten, self._whiten_units = equations.whiten, equations.whiten_units
        # Neither sums that were rounded to float32 nor a float32 factor have more digits.
        self.dtype = np.dtype(np.float32 if s.is_coarse else right.dtype)
        self.n_units, self._right = len(right), right.astype(self.dtype)
        self._mean_h = s.mean[: self.n_units].astype(self.dtype)
        self.mean_y = self.algebra.to_host(s.y / s.n)

    def whiten(self, H):
        """Return a tile as columns (n_units, n_rows), and `min_one_minus_leverage` of each."""
        H = H if self._engine.algebra is self.algebra else self._engine.to_host(H)
        H = H[:, : self.n_units].astype(self.dtype, copy=False)
        H -= self._mean_h
        squared_norms = self.algebra.to_host((H * H).sum(axis=1)).astype(np.float64)
        return self._whiten(H.T), min_one_minus_leverage(self.dtype, squared_norms, self.alpha)

    def scores(self, Z, size):
        """Return scores (n_rows, n_outputs) by the first units, in float64 on the host."""
        scores = self.algebra.to_host(
            self.algebra.multiply_transposed(Z[:size], self._right[:size])
        )
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
        return self.products(U[:size], self._right[:size])

    def hat(self, Z):
        """Return the block of the hat matrix (n_rows, n_rows) for rows of weight 1."""
        return self.products(Z, Z) + 1 / self._n


class _CenteredUnits:
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
        # L is triangular: the leading rows of U are those of a smaller layer, and are 0 for
        # a unit that it does not have.
        whitened, U = self._whitened, self._U[:size]
        product, square = whitened.column_sums(U * Z[:size]), whitened.column_sums(U * U)
        return without_unit(scores, leverage, product, square, whitened.coefficients(U, size))

    @limit_blas_threads(1)  # as of `leave_fold_out`
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
