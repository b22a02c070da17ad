"""Ridge readouts from the moments of H and of the targets, by the normal equations.

With the centred Gram matrix ``A = sum w (h - mean)(h - mean)'`` and right-hand side r, the weights
of a ridge readout are ``W' = (A + alpha I)^-1 r``. They come from the Cholesky factor L of the
normal matrix, or from the eigenvectors of A if that is too ill-conditioned for a factor.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data.memory_plan import format_bytes
from .exact_solution import solve_exactly
from .linear import Solution
from .moments import Moments
from .packed_symmetric import PackedSymmetric

# Penalties up to which one Cholesky factor each takes less time than eigenvectors for all.
MAX_FACTORS = 3
# Bound on the error of an eigenvalue by the rounding of the sums, in units of eps * trace.
# Duplicate samples are rounded alike, so that their errors add up: 27 was observed.
_EIGENVALUE_ERROR = 64
# Penalties that are this many times the rounding error of the sums need no more than a float32
# factor: its own error makes no difference then.
_FLOAT32_SAFE = 10
# The same with iterative refinement: W is off by less than a tenth of the effect of the rounding
# of the sums (eight regression datasets).
_FLOAT32_REFINED = 0.3
# Steps of iterative refinement.
_REFINEMENTS = 2


class DiagonalBasis(NamedTuple):
    """A basis in which the normal matrices of several penalties are diagonal.

    ``(A + alpha_k I)^-1 = vectors diag(scale[:, k]) vectors'`` for the centred Gram matrix A of the
    statistics.
    """

    vectors: Any  # (n_units, n_directions)
    scale: Any  # (n_directions, n_penalties)
    problems: list[str]  # for each penalty, as `Solution.problem`
    is_triangular: bool = False  # whether `vectors` is 0 below its diagonal


@dataclass(eq=False)
class RidgeStatistics(Moments):
    """`Moments`, and the solution of the ridge equations that they define."""

    # Bytes that a solution may take in addition to the statistics; None for no limit.
    workspace_bytes: int | None = None
    # Returns [the same statistics in float64], by another pass over the samples. Called if the
    # rounding of these leaves no positive definite matrix.
    float64_fallback: "Callable[[], list[RidgeStatistics]] | None" = None

    def _normal_matrix(self, alpha, dtype, in_place):
        """Return A + alpha I, in the memory of the Gram matrix or as a new matrix."""
        if in_place:
            matrix, self.gram = self.gram, None
            matrix.add_outer(-1.0 / self.n, self.h)
        else:
            matrix = self.gram.plus_outer(-1.0 / self.n, self.h, dtype)
        matrix.add_to_diagonal(alpha)
        return matrix

    def cholesky(
        self,
        alpha: float,
        condition_factor: float = 1.0,
        is_last: bool = False,
        float32_above: float = np.inf,
    ) -> PackedSymmetric | None:
        """Return the Cholesky factor of A + alpha I; None if that is too ill-conditioned.

        Too ill-conditioned means that the smallest eigenvalue is not above the machine epsilon
        times the largest, times `condition_factor`. Without computing any eigenvalue: up to
        rounding the smallest is at least alpha and the largest at most the trace. So if alpha
        exceeds the rounding error of the sums by far, the factor is safe. Otherwise inverse
        iteration estimates the smallest eigenvalue from the factor.

        Parameters
        ----------
        is_last : bool
            Whether the statistics are not needed any more. Then the factor may overwrite the Gram
            matrix: if it is safe, so that eigenvectors are not needed instead, or if there is no
            room for a copy.
        float32_above : float
            Return a float32 factor, in half the time and memory, if alpha is more than this many
            times the rounding error of sums that were rounded anyway.
        """
        # The sums were rounded before the mean was subtracted, in proportion to `raw_trace`.
        if self.has_float64_fallback and alpha < self.n * self.rounding:
            # A penalty below the rounding of the sums. In directions without variance, rounding
            # may be of either sign; divided by the penalty, it would be most of the solution.
            return None
        raw_trace = float((self.gram.diagonal() + alpha).sum())
        trace = raw_trace - float((self.algebra.to_host(self.h) ** 2).sum()) / self.n
        min_eigenvalue = float(condition_factor * np.finfo(float).eps * trace)
        is_safe = alpha - _EIGENVALUE_ERROR * self.rounding * raw_trace > 2 * min_eigenvalue

        error = max(self.rounding * raw_trace, float(np.finfo(np.float32).eps) * trace)
        is_float32 = self.is_rounded and alpha > float32_above * error
        dtype = np.float32 if is_float32 else np.float64

        in_place = is_last and (is_safe or not self._fits_workspace(self.gram.nbytes(len(self.h))))
        matrix = self._normal_matrix(alpha, dtype, in_place and dtype == np.float64)
        if self.has_float64_fallback:
            # Below alpha / 2, rounding has cancelled the other half of the penalty: float64 sums
            # are better.
            min_eigenvalue = max(min_eigenvalue, alpha / 2)
        # NaN, the estimate for a matrix that is not positive definite, is not greater.
        if matrix.factorise() and (is_safe or matrix.smallest_eigenvalue() > min_eigenvalue):
            return matrix
        return None

    @property
    def is_coarse(self) -> bool:
        """Whether some of the sums were rounded to less than float64."""
        return bool(self.rounding > np.finfo(np.float64).eps)

    @property
    def is_rounded(self) -> bool:
        """Whether the sums are coarse, or exact sums of quantised activations."""
        return self.is_coarse or self.quantizer is not None

    @property
    def has_float64_fallback(self) -> bool:
        """Whether `float64_fallback` would return more precise statistics."""
        return self.float64_fallback is not None and self.is_coarse

    @property
    def may_be_copied(self) -> bool:
        """Whether a factor fits in memory in addition to the statistics, on a single device."""
        is_here = self.gram.device_group is None
        return is_here and self._fits_workspace(2 * self.gram.nbytes(len(self.h)))

    @property
    def has_exact_solution(self) -> bool:
        """Whether to solve by `solve_exactly`: exact sums, on a single device."""
        return self.gram.device_group is None and self.is_exact

    def _fits_workspace(self, n_bytes):
        return self.workspace_bytes is None or n_bytes <= self.workspace_bytes

    def solve(self, alpha: float, is_last: bool = False) -> Solution:
        """Minimise ``sum w |y - W h - b|^2 + alpha |W|^2``; parameters as of `factorise`."""
        return self.factorise(alpha, is_last).solve()

    def factorise(
        self, alpha: float, is_last: bool = False, needs_whitening: bool = False
    ) -> "FactoredEquations":
        """Factorise the normal equations, by a method that suits their condition.

        Cholesky of the normal matrix. If that is too ill-conditioned, the same of the statistics of
        `float64_fallback`, or eigenvectors without the directions that consist of rounding errors.

        Parameters
        ----------
        alpha : float
        is_last : bool
            Whether the statistics are not needed any more: the factor may overwrite the Gram
            matrix, or take its place. It is the largest array of a fit, so that a factor in
            addition to it would double the memory.
        needs_whitening : bool
            Whether the factor whitens rows as well. Then a float32 factor has to be precise by
            itself, since refinement improves nothing but the solution.

        Raises
        ------
        ValueError
            If the equations are ill-conditioned, and memory is too small for eigenvectors.
        """
        equations = self.try_cholesky(alpha, is_last, needs_whitening)
        if equations is not None:
            return equations
        if self.float64_fallback is not None and self.is_coarse:
            if is_last:
                self.gram = None
            (statistics,) = self.float64_fallback()
            return statistics.factorise(alpha, is_last, needs_whitening)
        needed = self.algebra.n_eigh_matrices * len(self.h) ** 2 * 8
        if self.gram is None or not self._fits_workspace(needed):
            raise ValueError(
                f"The hidden layer is ill-conditioned for alpha={alpha:g}, and max_memory is too "
                f"small for the eigenvectors of {len(self.h)} units ({format_bytes(needed)}). "
                "Raise alpha or max_memory, or use fewer units."
            )
        return EigenEquations(self, alpha, self._diagonalise_by_eigenvectors([alpha]))

    def try_solve(self, alpha: float, is_compared: bool = False) -> Solution | None:
        """Return the solution by Cholesky; None as of `try_cholesky`."""
        equations = self.try_cholesky(alpha, is_compared=is_compared)
        return None if equations is None else equations.solve()

    def try_cholesky(
        self,
        alpha: float,
        is_last: bool = False,
        needs_whitening: bool = False,
        is_compared: bool = False,
    ) -> "CholeskyEquations | None":
        """Return the equations with their Cholesky factor; None if they are ill-conditioned.

        A solution that `is_compared` with those of other penalties is not refined: it needs no more
        digits than the sums have.
        """
        float32_above = self._float32_limit(needs_whitening, is_compared)
        is_exact = not is_compared and self.may_be_copied and self.has_exact_solution
        in_place = is_last and not is_exact
        factor = self.cholesky(alpha, is_last=in_place, float32_above=float32_above)
        if factor is None and float32_above < _FLOAT32_SAFE:
            factor = self.cholesky(alpha, is_last=in_place)
        if factor is None:
            return None
        is_refined = factor.dtype == np.float32 and not is_compared
        if in_place and not is_refined:
            self.gram = None
        return CholeskyEquations(self, alpha, factor, (len(self.h),), is_refined, is_exact)

    def _float32_limit(self, needs_whitening, is_compared):
        """Return the `float32_above` of `cholesky` for the factor of `try_cholesky`."""
        if is_compared:
            return _FLOAT32_SAFE
        if not self.may_be_copied:  # refinement needs the Gram matrix in addition to the factor
            return np.inf
        return _FLOAT32_REFINED if self.is_coarse and not needs_whitening else _FLOAT32_SAFE

    def factorise_leading(
        self, alpha: float, sizes: Sequence[int], needs_whitening: bool = False
    ) -> "Iterator[FactoredEquations]":
        """Factorise the equations of the leading units, of each size in an ascending sequence.

        The factor of a leading block is the leading block of the factor, so that one
        factorisation of the largest serves all sizes. Yields one `FactoredEquations` for all
        sizes; one for each size if the largest is too ill-conditioned. Release each before the
        next one is computed: each holds a factor.
        """
        largest = self.leading(sizes[-1])
        # In the 1-norm, a leading block of order m has at most m times the condition of the whole.
        factor = largest.cholesky(alpha, condition_factor=sizes[-1])
        if factor is not None:
            yield CholeskyEquations(
                largest, alpha, factor, tuple(sizes), is_exact=self.has_exact_solution
            )
        else:
            for size in sizes:
                yield self.leading(size).factorise(alpha, needs_whitening=needs_whitening)

    def solve_leading(self, alpha: float, sizes: Sequence[int]) -> list[Solution]:
        """Return the solutions for the leading units of each size: see `factorise_leading`."""
        solutions = []
        for equations in self.factorise_leading(alpha, sizes):
            solutions += equations.solve_sizes()
            del equations  # before the next factor is computed
        return solutions

    def diagonalise(self, alphas: Sequence[float]) -> Iterator[DiagonalBasis]:
        """Yield `DiagonalBasis` objects for consecutive penalties, until all are covered.

        By one Cholesky factor for each of a few penalties, otherwise by eigenvectors, which are
        shared by all penalties. Each holds a full matrix: see `diagonalise_bytes`.
        """
        n_done = 0
        for alpha in alphas if len(alphas) <= MAX_FACTORS else ():
            factor = self.cholesky(alpha)
            if factor is None:
                break
            basis = factor.inverse_factor().T
            del factor
            yield DiagonalBasis(basis, self.xp.ones((len(basis), 1)), [""], True)
            n_done += 1
        if n_done < len(alphas):
            yield self._diagonalise_by_eigenvectors(alphas[n_done:])

    @staticmethod
    def diagonalise_bytes(n_units: int, algebra: Any) -> int:
        """Return the bytes of `diagonalise`, including those of the statistics."""
        return PackedSymmetric.nbytes(n_units) + algebra.n_eigh_matrices * n_units**2 * 8

    def to_solution(self, W: Any, problem: str = "") -> Solution:
        """Return the `Solution` with weights W (n_leading_units, n_outputs) and its intercept."""
        m = len(W)
        mean = self.shift[:m].copy()
        self.algebra.add(mean, self.h[:m], np.divide(1.0, self.n))
        W, b = W.T.astype(np.float64, copy=False), self.xp.zeros(len(self.y))
        self.algebra.add(b, self.y, np.divide(1.0, self.n))
        self.algebra.add(b, W @ mean, -1.0)
        return Solution(W, b, problem)

    def _diagonalise_by_eigenvectors(self, alphas):
        """Return the `DiagonalBasis` by eigenvectors of A, for all penalties.

        Directions whose eigenvalue is below its rounding error have the scale 0: the pseudo-inverse
        with the cut-off of LAPACK's gelsd.
        """
        matrix = self.gram.full()
        self.algebra.gemm(matrix, self.h[:, None], self.h[None] / -self.n)
        values, vectors = self.algebra.eigh(matrix)
        # On the host: CuPy would compile two kernels for such small arrays, which takes seconds.
        values, scale, problems = self.algebra.to_host(values), [], []
        for alpha in alphas:
            damped = values + alpha
            smallest, largest = float(damped[0]), max(float(damped[-1]), 0.0)
            keep = damped > largest * len(damped) * self.rounding
            scale.append(np.where(keep, 1 / np.where(keep, damped, 1.0), 0.0))
            n_left_out = len(damped) - int(keep.sum())
            condition = largest / smallest if smallest > 0 else np.inf
            problems.append(
                f"The hidden layer is ill-conditioned (condition number {condition:.1e}): "
                f"{n_left_out} of {len(damped)} directions were left out of the ridge "
                "readout. Raise alpha, or use fewer or narrower units."
                if n_left_out or condition > 1 / np.finfo(np.float64).eps
                else ""
            )
        return DiagonalBasis(vectors, self.algebra.to_device(np.stack(scale, axis=1)), problems)


class FactoredEquations(ABC):
    """Ridge equations with a root of their matrix: ``A + alpha I = L L'``.

    Attributes
    ----------
    alpha : float
    sizes : tuple of int
        Numbers of leading units whose readouts are solved.
    whitened_right : array of shape (n_units, n_outputs)
        ``L^-1 r`` for the right-hand side r.
    """

    alpha: float
    sizes: tuple[int, ...]
    whitened_right: Any

    @abstractmethod
    def whiten(self, columns: Any) -> Any:
        """Return ``L^-1`` times contiguous columns, which may be overwritten."""

    @abstractmethod
    def whiten_units(self, units: Any, dtype: Any) -> Any:
        """Return ``L^-1 e_j`` as columns for ascending units j; zeros for -1."""

    @abstractmethod
    def solve_sizes(self) -> list[Solution]:
        """Return the readout of the leading units of each size."""

    def solve(self) -> Solution:
        """Return the readout, of equations of one size."""
        (solution,) = self.solve_sizes()
        return solution


class CholeskyEquations(FactoredEquations):
    """Ridge equations with their Cholesky factor L.

    Parameters
    ----------
    statistics : RidgeStatistics
        Whose Gram matrix may have been overwritten by the factor.
    factor : PackedSymmetric
        In float32 or float64.
    is_refined : bool
        Whether to refine solutions of a float32 factor.
    is_exact : bool
        Whether to solve the equations exactly: see `solve_exactly`.
    """

    def __init__(
        self,
        statistics: RidgeStatistics,
        alpha: float,
        factor: PackedSymmetric,
        sizes: tuple[int, ...],
        is_refined: bool = False,
        is_exact: bool = False,
    ):
        self.alpha, self.sizes = alpha, sizes
        self._statistics, self._factor = statistics, factor
        self._is_refined, self._is_exact = is_refined, is_exact
        right = statistics.xp.array(statistics.right, factor.dtype, order="F")
        self.whitened_right = factor.solve_lower(right)

    def whiten(self, columns: Any) -> Any:
        return self._factor.solve_lower(columns)

    def whiten_units(self, units: Any, dtype: Any) -> Any:
        return self._factor.solve_unit_vectors(units, dtype)

    def solve_sizes(self) -> list[Solution]:
        solved = [self._solve_exactly(size) for size in self.sizes] if self._is_exact else [None]
        known = [solution for solution in solved if solution is not None]
        return known if len(known) == len(self.sizes) else self._solve_in_floats()

    def _solve_exactly(self, size):
        """Return `solve_exactly` for the leading units."""
        xp, to_host = self._statistics.xp, self._statistics.algebra.to_host
        factor = self._factor.leading(size)
        factor.prepare_solves()

        def solve(right):
            # Scaled, since the range of float32 is small.
            scale = np.ldexp(1.0, np.frexp(np.abs(right).max(axis=0))[1])
            columns = xp.asarray(right / scale, factor.dtype, order="F")
            columns = factor.solve_lower(factor.solve_lower(columns), transposed=True)
            return to_host(columns).astype(np.float64) * scale

        return solve_exactly(self._statistics.leading(size), self.alpha, solve)

    def _solve_in_floats(self):
        """Return the readouts of all sizes, by one triangular solve.

        The weights of k units are ``L_k'^-1 z[:k]`` for ``z = L^-1 r``. Those are the first k rows
        of L'^-1 times z with zeros after row k: the sizes are right-hand sides of one system.
        """
        statistics, n_outputs = self._statistics, self.whitened_right.shape[1]
        shape = len(self.whitened_right), len(self.sizes) * n_outputs
        cut = statistics.xp.zeros(shape, self.whitened_right.dtype, order="F")
        columns = [slice(i * n_outputs, (i + 1) * n_outputs) for i in range(len(self.sizes))]
        for size, part in zip(self.sizes, columns, strict=True):
            cut[:size, part] = self.whitened_right[:size]
        W = self._factor.solve_lower(cut, transposed=True)
        if self._is_refined:
            W = self._refine(W.astype(np.float64))
        return [
            statistics.to_solution(W[:size, part])
            for size, part in zip(self.sizes, columns, strict=True)
        ]

    def _refine(self, W):
        """Refine W to the precision of a float64 factor (iterative refinement, Wilkinson 1963).

        Each step computes the residual of the equations in float64, and solves for it with the
        float32 factor.
        """
        statistics, algebra = self._statistics, self._statistics.algebra
        for _ in range(_REFINEMENTS):
            residual = statistics.right
            algebra.add(residual, statistics.gram.multiply(W), -1)
            algebra.add(residual, W, -self.alpha)
            h = statistics.h
            residual = algebra.subtract_outer(residual, h, h @ W, -statistics.n)
            step = statistics.xp.array(residual, self._factor.dtype, order="F")
            W += self._factor.solve_lower(self._factor.solve_lower(step), transposed=True)
        return W


class EigenEquations(FactoredEquations):
    """Ridge equations with the pseudo-inverse of their matrix, by eigenvectors.

    ``L^-1 = root basis'`` for the eigenvectors `basis`, where the square of `root` is 1 over the
    eigenvalue, or 0 for directions that consist of rounding errors.
    """

    def __init__(self, statistics: RidgeStatistics, alpha: float, basis: DiagonalBasis):
        self.alpha, self.sizes = alpha, (len(statistics.h),)
        self._statistics, self._basis = statistics, basis.vectors
        self._scale, (self._problem,) = basis.scale, basis.problems
        self._root = statistics.xp.sqrt(self._scale)
        self._rotated = self._basis.T @ statistics.right
        self.whitened_right = self._root * self._rotated

    def whiten(self, columns: Any) -> Any:
        return self._root * (self._basis.T @ columns)

    def whiten_units(self, units: Any, dtype: Any) -> Any:
        columns = np.zeros((len(self._basis), len(units)), dtype)
        columns[units[units >= 0], np.flatnonzero(units >= 0)] = 1
        return self.whiten(self._statistics.algebra.to_device(columns)).astype(dtype, copy=False)

    def solve_sizes(self) -> list[Solution]:
        W = self._basis @ (self._scale * self._rotated)
        return [self._statistics.to_solution(W, self._problem)]
