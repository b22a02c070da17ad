"""Ridge readouts of fewer rows than units: solved in the dual, whose order is that of the rows.

For rows A = sqrt(w) (h - mean) and targets R = sqrt(w) (y - mean), the identity
``(A'A + alpha I)^-1 A'R = A' (A A' + alpha I)^-1 R`` replaces the Gram matrix of the units by that
of the rows: the dual form of ridge regression (C. Saunders, A. Gammerman and V. Vovk, ICML 1998).
All rows of H are kept in memory; they are smaller than H'H.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve
from scipy.linalg.lapack import dpocon
from scipy.sparse import csr_array

from ..data.job import Job
from ..data.streaming import Consumer, raise_overflow, stream
from ..data.validation import NaNOutputError, check_no_nan
from ..engines.algebra import HOST
from ..engines.threads import limit_blas_threads
from .cross_validation import MAX_VALIDATION, draw_parts, n_validation_units, select_folds
from .draw_sample import find_sampled_rows
from .leave_one_out import HeldOutScores, LeaveOneOut, leave_fold_out
from .linear import Solution
from .penalty_search import PenaltySearchResult, minimise_over_alpha

# The dual is faster up to this many rows per unit, and up to this many rows.
_ROWS_PER_UNIT, _MAX_ROWS = 0.45, 4096
# Up to this many rows both are fast, and the dual is more precise.
_MAX_PRECISE_ROWS = 1000
# Arrays of the order (n_rows, n_rows): the Gram matrix, a factor, its inverse, and rows of that.
_N_MATRICES = 4


def suits_dual(job: Job, layer: Any, samples: Any) -> bool:
    """Return whether to solve in the dual: few rows, float activations, one host, enough memory.

    Sums of quantised activations are exact, and stay in the primal, where that is used.
    """
    n, m = len(samples.rows_with_weight), layer.n_units
    is_few = n <= max(_ROWS_PER_UNIT * m, min(m, _MAX_PRECISE_ROWS))
    return is_few and fits_on_host(job, layer, samples)


def fits_on_host(job: Job, layer: Any, samples: Any) -> bool:
    """Return whether H of all rows, in float64, and matrices of their number fit in memory."""
    n, m, engine = len(samples), layer.n_units, job.engine
    if n > _MAX_ROWS:
        return False
    is_on_host = engine.xp is np and engine.device_group is None
    is_float = layer.quantizer is None
    n_validation = 0 if samples.validation is None else min(len(samples.validation), MAX_VALIDATION)
    n_elements = 2 * n * (2 * m + _N_MATRICES * n) + 2 * n_validation * m
    return is_on_host and is_float and 8 * n_elements <= job.memory_limit


def gather_dual_problem(job: Job, layer: Any, samples: Any) -> "DualProblem":
    """Return the `DualProblem` of all samples."""
    H, shift = gather_centred(job, layer, samples.X)
    weight = samples.weight_or_ones().astype(np.float64)
    return DualProblem(H, shift, samples.targets.matrix(slice(None), np), weight)


def gather_centred(job: Job, layer: Any, X: Any) -> tuple[npt.NDArray, npt.NDArray]:
    """Return H minus its mean (n_rows, n_units), in float64, and the mean (n_units,)."""
    H = np.empty((len(X), layer.n_units))

    def consume(part, block):
        H[part] = block

    stream(job.reserve(H.nbytes), layer, X, Consumer(consume))
    try:
        check_no_nan(H.sum(axis=0), np)
    except NaNOutputError:
        raise_overflow(job, layer, X, None)
    shift = H.mean(axis=0)
    H -= shift
    return H, shift


def search_dual(
    problem: "DualProblem",
    random: np.random.Generator,
    start: float,
    groups: npt.NDArray | None = None,
) -> PenaltySearchResult:
    """Return the penalty of the least held-out error; see `penalty_search.gather_and_search`."""
    n_units = problem.H.shape[1]
    parts = select_folds(draw_parts(np.flatnonzero(problem.weight), random, groups), n_units)
    leading = problem.leading(n_validation_units(n_units))
    n = problem.weight.sum() - min(problem.weight[part].sum() for part in parts)
    mean_error = problem.mean_error(parts)
    return minimise_over_alpha(
        lambda alpha: leading.error(alpha, parts), n, leading.H.shape[1], start, mean_error
    )


def search_dual_validated(
    problem: "DualProblem", validation: "DualProblem", start: float
) -> PenaltySearchResult:
    """Return the penalty of the least error on validation samples."""
    n_units = n_validation_units(problem.H.shape[1])
    leading, validation = problem.leading(n_units), validation.leading(n_units)
    n, mean_error = problem.weight.sum(), validation.squared_error(problem.share @ problem.Y)
    return minimise_over_alpha(
        lambda alpha: leading.error_on(validation, alpha), n, n_units, start, mean_error
    )


@dataclass(frozen=True, eq=False)
class Dual:
    """Solved dual equations of some rows."""

    # (n_rows, n_rows): L of ``L L' = A A' + alpha I + scale u u'``, where u is `sqrt_weight` over
    # its length. A'u = 0, so that the last term changes no solution. Without it, the inverse would
    # have the eigenvalue 1 / alpha for u, which is large for a small alpha and would cost digits
    # of the rest.
    factor: npt.NDArray
    dual_coef: npt.NDArray  # (n_rows, n_outputs): ``(A A' + alpha I)^-1 R``
    sqrt_weight: npt.NDArray  # (n_rows,): square roots of the weights
    share: npt.NDArray  # (n_rows,): weights divided by their sum
    mean: npt.NDArray  # (n_outputs,): of Y
    u_inverse: float  # 1 / (alpha + scale): eigenvalue of the inverse for u
    alpha: float

    @property
    def row_coef(self) -> npt.NDArray:
        """Coefficients of the rows in W, (n_rows, n_outputs), which add up to 0."""
        of_centred_rows = self.sqrt_weight[:, None] * self.dual_coef
        return of_centred_rows - np.outer(self.share, of_centred_rows.sum(axis=0))

    @limit_blas_threads(1)
    def hat_complement(
        self,
        H: npt.NDArray,
        rows: npt.NDArray,
        groups: npt.NDArray,
        sqrt_weight: npt.NDArray,
        unit_at_sample: npt.NDArray,
    ) -> "HatComplement":
        """Return the residuals of groups of equal rows, and what blocks of I - S require.

        ``I - S = alpha (A A' + alpha I)^-1 - u u'`` and the residuals are alpha times `dual_coef`,
        so that alpha cancels in leave-one-out scores: no digits are lost if it is small. (The dual
        form of PRESS, as of kernel ridge regression and least-squares SVMs: G. C. Cawley and
        N. L. C. Talbot 2004, "Fast exact leave-one-out cross-validation of sparse least-squares
        support vector machines".)

        Parameters
        ----------
        rows, groups : ndarray of int of shape (n,)
            Rows, and the group of each.
        sqrt_weight : ndarray of shape (n_groups, 1)
            Square roots of the weights of the groups.
        unit_at_sample : ndarray of int of shape (n_groups,)
            The unit that is centred at each group; -1 for none.
        """
        # Equal rows of weights w are one row of weight sum w: their direction as a unit vector.
        shape = len(sqrt_weight), len(self.sqrt_weight)
        E = csr_array((self.sqrt_weight[rows] / sqrt_weight[groups, 0], (groups, rows)), shape)
        whitened = (E @ HOST.invert_lower(self.factor).T).T
        # Columns of the own units in A.
        has_unit = np.flatnonzero(unit_at_sample >= 0)
        units = H[:, unit_at_sample[has_unit]]
        units = np.asfortranarray(self.sqrt_weight[:, None] * (units - self.share @ units))
        coefficients = HOST.multiply_transposed(units, self.dual_coef)
        HOST.solve_lower(self.factor, units)
        u = E @ np.sqrt(self.u_inverse * self.share)
        return HatComplement(E @ self.dual_coef, whitened, u, has_unit, units, coefficients)


@dataclass(frozen=True, eq=False)
class HatComplement:
    """Residuals, and blocks of I - S, of some rows, over alpha; without units centred at them.

    A unit with the column a in A is left out by a change of rank one, with
    ``M = (A A' + alpha I)^-1 = L^-T L^-1``:
    ``(A A' - a a' + alpha I)^-1 = M + M a a' M / (1 - a' M a)``.
    """

    residuals: npt.NDArray  # (n_rows, n_outputs), times the square roots of the weights
    whitened: npt.NDArray  # (n, n_rows): L^-1 times the rows as unit vectors
    u: npt.NDArray  # (n_rows,): their components along u, times the square root of `u_inverse`
    has_unit: npt.NDArray  # (n_own,): indices of the rows at which a unit is centred
    units: npt.NDArray  # (n, n_own): L^-1 times the columns of these units in A
    coefficients: npt.NDArray  # (n_own, n_outputs): of these units

    def without_centered_units(self) -> tuple[npt.NDArray, npt.NDArray]:
        """Return residuals, and the diagonal of I - S, each without the own unit of the row."""
        residuals, rows = self.residuals.copy(), self.has_unit
        diagonal = _inner_of_columns(self.whitened, self.whitened) - self.u**2
        product = _inner_of_columns(self.whitened[:, rows], self.units)
        factor = product / (1 - _inner_of_columns(self.units, self.units))
        residuals[rows] += factor[:, None] * self.coefficients
        diagonal[rows] += factor * product
        return residuals, diagonal

    @limit_blas_threads(1)
    def without_units_of(self, rows: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
        """Return the residuals and the block of some rows without the units centred at these."""
        own = np.flatnonzero(np.isin(self.has_unit, rows))
        E, units, u = self.whitened[:, rows], self.units[:, own], self.u[rows]
        outer = HOST.multiply_transposed(E, units)
        inner = np.eye(len(own)) - HOST.multiply_transposed(units, units)
        solved = solve(inner, outer.T, assume_a="pos")
        residuals = self.residuals[rows] + solved.T @ self.coefficients[own]
        block = HOST.multiply_transposed(E, E) - np.outer(u, u)
        return residuals, block + outer @ solved

    def score_folds(
        self, folds: Sequence[npt.NDArray], targets: npt.NDArray, sqrt_weight: npt.NDArray
    ) -> Iterator[tuple[npt.NDArray, npt.NDArray | None]]:
        """Yield the rows of each fold, and their scores as of `leave_fold_out`."""
        for fold in folds:
            residuals, block = self.without_units_of(fold)
            yield fold, leave_fold_out(targets[fold], residuals, block, sqrt_weight[fold])


def _inner_of_columns(A, B):
    """Return the inner product of each column of A with that of B."""
    return np.einsum("ij,ij->j", A, B)


@dataclass(frozen=True, eq=False)
class DualProblem:
    """Rows of H with targets and weights, and the ridge readouts of subsets of them."""

    # (n_rows, n_units), float64: minus a shift, such as the mean, so that products of rows do not
    # cancel.
    H: npt.NDArray
    shift: npt.NDArray  # (n_units,)
    Y: npt.NDArray  # (n_rows, n_outputs)
    weight: npt.NDArray  # (n_rows,)

    def leading(self, n_units: int) -> "DualProblem":
        """Return the rows of the first units alone."""
        if n_units == self.H.shape[1]:
            return self  # with its Gram matrix
        return replace(self, H=self.H[:, :n_units], shift=self.shift[:n_units])

    @property
    def share(self) -> npt.NDArray:
        """Weights divided by their sum, (n_rows,)."""
        return self.weight / self.weight.sum()

    def squared_error(self, scores: npt.NDArray) -> float:
        """Return the weighted mean of ``|y - score|^2``."""
        return float(self.share @ np.square(self.Y - scores).sum(axis=1))

    def mean_error(self, parts: Sequence[npt.NDArray]) -> float:
        """Return what `error` returns, of the mean of all other rows in place of a readout."""
        total, rows = 0.0, np.concatenate(parts)
        for part in parts:
            others = np.delete(self.weight, part)
            mean = others @ np.delete(self.Y, part, axis=0) / others.sum()
            total += self.weight[part] @ np.square(self.Y[part] - mean).sum(axis=1)
        return float(total / self.weight[rows].sum())

    @cached_property
    def _gram(self):
        """Return ``A A' + scale u u'``, see `Dual`, and `scale`: the mean of the eigenvalues."""
        n, sqrt_weight, share = len(self.H), np.sqrt(self.weight), self.share
        K = np.zeros((n, n), order="F")
        HOST.syrk(K, self.H)
        K += np.tril(K, -1).T
        # Centre the products of rows on both sides at the weighted mean of the rows.
        mean_products = K @ share
        K -= mean_products[:, None]
        K -= mean_products - share @ mean_products
        K *= sqrt_weight[:, None]
        K *= sqrt_weight
        scale = np.trace(K) / n
        K += scale * np.sqrt(np.outer(share, share))
        return K, scale

    @limit_blas_threads(1)
    def _solve_dual(self, alpha):
        """Return the `Dual` of a penalty; None if it is ill-conditioned."""
        K, scale = self._gram
        n, K, sqrt_weight, share = len(K), K.copy("F"), np.sqrt(self.weight), self.share
        HOST.add_to_diagonal(K, alpha)
        rounding = 2 * n * np.finfo(float).eps * np.trace(K)  # of an eigenvalue
        mean = share @ self.Y
        dual_coef = np.asfortranarray(sqrt_weight[:, None] * (self.Y - mean))
        if not HOST.factorise(K):
            return None
        # No eigenvalue is less than alpha. If alpha is less than the rounding error, estimate them.
        if not alpha > rounding and not dpocon(K, 1.0, uplo="L")[0] > rounding:
            return None
        HOST.solve_lower(K, dual_coef)
        HOST.solve_lower(K, dual_coef, transposed=True)
        return Dual(K, dual_coef, sqrt_weight, share, mean, 1 / (alpha + scale), alpha)

    def try_solve(self, alpha: float) -> tuple[Solution, Dual] | tuple[None, None]:
        """Return the readout of all rows and its `Dual`; (None, None) if it is ill-conditioned."""
        dual = self._solve_dual(alpha)
        if dual is None:
            return None, None
        centre = HOST.multiply_transposed(self.H, dual.share[:, None])[:, 0]
        W = HOST.multiply_transposed(dual.row_coef, self.H)
        b = dual.mean - HOST.multiply(W, (self.shift + centre)[:, None])[:, 0]
        return Solution(W, b), dual

    def error_on(self, others: "DualProblem", alpha: float) -> float:
        """Return the weighted mean of ``|y - score|^2`` over other rows, by the readout of these.

        Infinite if the equations are ill-conditioned.
        """
        solution, _ = self.try_solve(alpha)
        if solution is None:
            return np.inf
        scores = HOST.multiply(others.H, solution.W.T)
        scores += solution.b + solution.W @ others.shift
        return others.squared_error(scores)

    def error(self, alpha: float, parts: Sequence[npt.NDArray]) -> float:
        """Return the weighted mean of ``|y - score|^2`` by cross-validation.

        Each of `parts`, arrays of row numbers, is scored by the readout of all other rows.
        Infinite if some equations are ill-conditioned.
        """
        dual = self._solve_dual(alpha)
        if dual is None:
            return np.inf
        rows, total = np.concatenate(parts), 0.0
        positions, no_units = np.arange(len(rows)), np.full(len(rows), -1)
        Y, weight = self.Y[rows], self.weight[rows]
        sqrt_weight = np.sqrt(weight)[:, None]
        complement = dual.hat_complement(self.H, rows, positions, sqrt_weight, no_units)
        folds = np.split(positions, np.cumsum([len(part) for part in parts[:-1]]))
        for fold, scores in complement.score_folds(folds, Y, sqrt_weight):
            if scores is None:
                return np.inf
            total += weight[fold] @ np.square(Y[fold] - scores).sum(axis=1)
        return total / weight.sum()


@dataclass(eq=False)
class DualLOO(LeaveOneOut):
    """Leave-one-out scores from the dual equations of few rows.

    Parameters
    ----------
    job, layer, sample, folds, units
        As of `LeaveOneOut`.
    samples : Samples
        All rows of the equations. The sample has some of them.
    """

    samples: Any

    @cached_property
    def _copies(self):
        """Return the rows that are copies of one of the sample, and the number of that one."""
        return find_sampled_rows(self.job, self.samples, self.sample)

    def score(self, dual: Dual, problem: DualProblem) -> HeldOutScores:
        """Return the scores by the solved equations of a problem."""
        H = problem.H
        Y, weight = self.sample.targets, self.sample.rows.weight
        rows, groups = self._copies
        sqrt_weight = np.sqrt(weight)[:, None]
        unit_at_sample = self._unit_at_sample_below(H.shape[1])
        complement = dual.hat_complement(H, rows, groups, sqrt_weight, unit_at_sample)
        residuals, diagonal = complement.without_centered_units()
        # Alpha cancels in the quotient, so that leverages are known, but not that of a single row.
        is_known = diagonal > np.finfo(np.float64).eps * diagonal.max()
        diagonal = np.where(is_known, diagonal, 1.0)
        scores, oof_scores = Y - residuals / (diagonal[:, None] * sqrt_weight), None
        mean_y = np.average(Y, axis=0, weights=weight)
        scores[~is_known] = mean_y
        interpolates = False
        if self.folds is not None:
            oof_scores = np.empty(Y.shape)
            for fold, of_fold in complement.score_folds(self._rows_of_folds, Y, sqrt_weight):
                interpolates |= of_fold is None
                oof_scores[fold] = mean_y if of_fold is None else of_fold
        first = rows[np.unique(groups, return_index=True)[1]]
        for uncovered in self.uncovered_rows(H.shape[1]).values():
            if not uncovered.is_complete:
                is_active = (-problem.shift != H)[first]
                uncovered.find(HOST, np.arange(len(first)), is_active)
        scores = HeldOutScores(H.shape[1], scores, is_known, oof_scores, interpolates)
        return self.fill_uncovered(scores, dual.alpha)
