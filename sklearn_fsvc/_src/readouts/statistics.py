"""Ridge readouts from the moments of H and of the targets."""

import numpy as np

from ..data.tiling import format_bytes
from .linear import Solution, Whitening
from .moments import Moments
from .packed_symmetric import PackedSymmetric

# Penalties whose factors, one each, take less time than eigenvectors for all.
FEW = 3
# By how many epsilons of the sum of all eigenvalues rounding moves one at most. Rows that are equal
# are rounded alike, and their errors add up: 27 were seen.
_ROUNDED = 64
# How many times the rounding of the sums a penalty is where that of a factor makes no difference.
_FAR = 10
# The same where what a coarse factor has left is solved for: then W is off by less than a tenth of
# what the rounding of the sums does to it (eight tables of regression).
_NEAR = 0.3
# How often what a coarse factor has left is solved for.
_STEPS = 2


class RidgeStatistics(Moments):
    """`Moments`, and what solves the ridge equations that they make."""

    room = None  # bytes that a solution may take beside the statistics; None for all there are
    float64_fallback = (
        None  # called where these are too coarse for a solution: [the same in float64]
    )

    def _normal_matrix(self, alpha, dtype, in_place):
        """sum w (h - mean)(h - mean)' + alpha I, in the place of the statistics or a new matrix."""
        if in_place:
            matrix, self.gram = self.gram, None
            matrix.add_outer(-1.0 / self.n, self.h)
        else:
            matrix = self.gram.plus_outer(-1.0 / self.n, self.h, dtype)
        matrix.add_to_diagonal(alpha)
        return matrix

    def _factor(self, alpha, margin=1.0, is_last=False, far=np.inf):
        """The lower factor of the normal matrix; None where it is too ill-conditioned.

        That is, where its reciprocal condition is less than `margin` times the epsilon. In
        the place of the statistics if that `is_last` that is done with them, and the factor is
        sure, or there is no room for a copy. It is in float32 where the sums or H itself were
        rounded, and the penalty is more than `far` times what that rounds.
        """
        # Apart from rounding, no eigenvalue of the matrix is less than alpha or more than its
        # trace. The sums were rounded before the mean was subtracted, in proportion to `raw`.
        raw = float((self.gram.diagonal() + alpha).sum())
        trace = raw - float((self.algebra.to_host(self.h) ** 2).sum()) / self.n
        least = margin * np.finfo(float).eps * trace
        is_sure = alpha - _ROUNDED * self.rounding * raw > 2 * least
        in_place = is_last and (is_sure or not self._has_room(self.gram.nbytes(len(self.h))))
        rounded = max(self.rounding * raw, float(np.finfo(np.float32).eps) * trace)
        is_far = self.is_rounded and alpha > far * rounded
        dtype = np.float32 if is_far else np.float64
        in_place = in_place and dtype == np.float64
        matrix = self._normal_matrix(alpha, dtype, in_place)
        if self.has_float64_fallback:
            least = max(least, alpha / 2)  # rounding has eaten the other half
        # Or NaN: not positive at all.
        if matrix.factorise() and (is_sure or matrix.smallest_eigenvalue() > least):
            return matrix
        return None

    @property
    def is_coarse(self):
        """Whether some of the sums were rounded more than float64 rounds."""
        return bool(self.rounding > np.finfo(np.float64).eps)

    @property
    def is_rounded(self):
        """Whether the sums are coarse, or exact ones of activations that were rounded to steps."""
        return self.is_coarse or self.steps is not None

    @property
    def has_float64_fallback(self):
        """Whether `float64_fallback` has more digits than these."""
        return self.float64_fallback is not None and self.is_coarse

    @property
    def may_be_copied(self):
        """Whether there is room for a factor beside these, and they are in one place."""
        is_here = self.gram.team is None
        return is_here and self._has_room(2 * self.gram.nbytes(len(self.h)))

    def _has_room(self, n_bytes):
        return self.room is None or n_bytes <= self.room

    def solve(self, alpha, is_last=False, also=None):
        """Minimise sum w |y - W h - b|^2 + alpha |W|^2.

        Cholesky of the centred normal equations; where they are too ill-conditioned for it, those
        of `float64_fallback`, or their eigenvectors without the directions that rounding has made.

        Parameters
        ----------
        alpha : float
        is_last : bool
            Whether nobody needs the statistics any more: their memory may be taken.
        also : callable, optional
            ``also(whiten, half, alpha)`` is called while there is a root L of the normal matrix
            L L'. ``whiten(columns)`` is L^-1 times columns that are contiguous, and may be
            overwritten; `half` is that of ``right``.

        Returns
        -------
        Solution

        Raises
        ------
        ValueError
            If the equations are ill-conditioned, and there is no room for eigenvectors.
        """
        solution = self.solve_well(alpha, is_last, also)
        if solution is not None:
            return solution
        if self.has_float64_fallback:
            if is_last:
                self.gram = None
            (float64_fallback,) = self.float64_fallback()
            return float64_fallback.solve(alpha, is_last, also)
        needed = self.algebra.n_matrices * len(self.h) ** 2 * 8
        if self.gram is None or not self._has_room(needed):
            raise ValueError(
                f"The hidden layer is ill-conditioned for alpha={alpha:g}, and max_memory is too "
                f"small for the eigenvectors of {len(self.h)} units ({format_bytes(needed)}). "
                "Raise alpha or max_memory, or use fewer units."
            )
        basis, scale, (problem,), _ = self._whiten_by_eigenvectors([alpha])
        if also is not None:
            root = self.xp.sqrt(scale)
            half = root * (basis.T @ self.right)
            also(lambda columns: root * (basis.T @ columns), half, alpha)
        return self._solution(basis @ (scale * (basis.T @ self.right)), problem)

    def solve_well(self, alpha, is_last=False, also=None, is_compared=False):
        """`solve` by Cholesky; None where the equations are too ill-conditioned for it.

        One that `is_compared` with others has no more digits than the sums.
        """
        far = _FAR if is_compared else self._far(also)
        factor = self._factor(alpha, is_last=is_last, far=far)
        if factor is None and far < _FAR:
            factor = self._factor(alpha, is_last=is_last)
        if factor is None:
            return None
        is_refined = factor.dtype == np.float32 and not is_compared
        if is_last and not is_refined:
            self.gram = None
        half = factor.solve_lower(self.xp.array(self.right, factor.dtype, order="F"))
        if also is not None:
            also(factor.solve_lower, half, alpha)
        W = factor.solve_lower(half, transposed=True)
        if is_refined:
            W = self._refined(W.astype(np.float64), alpha, factor)
        return self._solution(W)

    def _far(self, also):
        """As of `_factor`, for a factor that is refined: not without room for it beside the sums.

        What else takes the factor has it as it is. All must be in one place.
        """
        if not self.may_be_copied:
            return np.inf
        return _NEAR if self.is_coarse and also is None else _FAR

    def _refined(self, W, alpha, factor):
        """W of a factor in float32, as good as that of one in float64: by what it leaves."""
        for _ in range(_STEPS):
            left = self.right
            self.algebra.add(left, self.gram.multiply(W), -1)
            self.algebra.add(left, W, -alpha)
            left = self.algebra.less_outer(left, self.h, self.h @ W, -self.n)
            step = factor.solve_lower(self.xp.array(left, factor.dtype, order="F"))
            W += factor.solve_lower(step, transposed=True)
        return W

    def solve_leading(self, alpha, sizes, also=None) -> list[Solution]:
        """`solve` for the leading units of each size, by one factorisation of them all.

        The factor of a leading block is the leading block of the factor L. With z = L^-1 r,
        k units have the weights L_k'^-1 z_k: the first k of L'^-1 times z with zeros after
        k, so that all sizes are right-hand sides of one triangular system.

        Parameters
        ----------
        sizes : sequence of int
            Ascending.
        also : callable, optional
            As of `solve`, with the sizes: the leading rows of `half` and of what is whitened are
            those of fewer units.
        """
        m = sizes[-1]
        most = self.leading(m)
        # A leading block has at most m times the condition of the whole, in the 1-norm.
        factor = most._factor(alpha, margin=m)
        if factor is None:
            return [self.leading(size).solve(alpha, also=also) for size in sizes]
        z = factor.solve_lower(self.xp.array(most.right, order="F"))
        if also is not None:
            also(factor.solve_lower, z, alpha, sizes)
        k = z.shape[1]
        cut = self.xp.zeros((m, len(sizes) * k), order="F")
        for i, size in enumerate(sizes):
            cut[:size, i * k : (i + 1) * k] = z[:size]
        W = factor.solve_lower(cut, transposed=True)
        return [
            self.leading(size)._solution(W[:size, i * k : (i + 1) * k])
            for i, size in enumerate(sizes)
        ]

    def whiten(self, alphas):
        """Yield a `Whitening` for penalties that follow one another, until all have one.

        By the Cholesky factor of each for a few, else eigenvectors. Each is a full matrix, and
        eigenvectors take some more: see `whitening_bytes`.
        """
        n_done = 0
        for alpha in alphas if len(alphas) <= FEW else ():
            factor = self._factor(alpha)
            if factor is None:
                break
            basis = factor.inverse_factor().T
            del factor
            yield Whitening(basis, self.xp.ones((len(basis), 1)), [""], True)
            n_done += 1
        if n_done < len(alphas):
            yield self._whiten_by_eigenvectors(alphas[n_done:])

    @staticmethod
    def whitening_bytes(n_units, algebra):
        """Bytes that `whiten` takes, with those of the statistics."""
        return PackedSymmetric.nbytes(n_units) + algebra.n_matrices * n_units**2 * 8

    def _solution(self, W, problem=""):
        W, b = W.T.astype(np.float64, copy=False), self.xp.zeros(len(self.y))
        self.algebra.add(b, self.y, np.divide(1.0, self.n))
        self.algebra.add(b, W @ self.mean, -1.0)
        return Solution(W, b, problem)

    def _whiten_by_eigenvectors(self, alphas):
        matrix = self.gram.full()
        self.algebra.gemm(matrix, self.h[:, None], self.h[None] / -self.n)
        values, vectors = self.algebra.eigh(matrix)
        # On the host: for a sum of few numbers CuPy compiles two kernels, which takes seconds.
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
        return Whitening(vectors, self.algebra.here(np.stack(scale, axis=1)), problems)
