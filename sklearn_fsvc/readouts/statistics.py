"""The statistics of a ridge readout: sums over tiles of H, and what solves them.

Everything here is linear algebra on tiles of H, where they are: an engine brings the
algebra for its arrays.
"""

from copy import copy

import numpy as np

from ..engines.algebra import HOST
from .solution import Solution, Whitening

# Rows of H whose mean is its origin in the statistics.
_ORIGIN_ROWS = 1024


class RidgeStatistics:
    """What a ridge readout needs of the data: a commutative monoid.

    Sums over rows with weights w, in float64: n = sum w, sum w h, sum w y, sum w h h',
    sum w h y' and sum w y^2, where h is H less an origin, so that what is rounded is near the
    variance.
    Statistics of two sets of rows add up to those of their union, subtract, and cut down to
    those of the leading units.

    Parameters
    ----------
    n_units, n_outputs : int
    algebra : HostAlgebra or its like
        What solves, and the namespace of the arrays.
    dtype : dtype, optional
        In which H is multiplied with itself, where it is not wider; by default H's own.

    Attributes
    ----------
    gram : (n_units, n_units), F-ordered
        Only the lower triangle is meaningful.
    origin : (n_units,)
        What was taken from H: about its mean over the first rows that were added.
    rounding : float
        The coarsest machine epsilon among the tiles that were added.
    """

    def __init__(self, n_units, n_outputs, algebra=HOST, dtype=np.float32):
        self.algebra, self.dtype = algebra, np.dtype(dtype)
        xp = self.xp
        self.n = 0.0
        self.rounding = np.finfo(np.float64).eps
        self.origin = xp.zeros(n_units)
        self.h = xp.zeros(n_units)
        self.y, self.yy = xp.zeros(n_outputs), xp.zeros(n_outputs)
        self.gram = xp.zeros((n_units, n_units), order="F")
        self.hy = xp.zeros((n_units, n_outputs))

    @property
    def xp(self):
        """Namespace of the arrays."""
        return self.algebra.xp

    @staticmethod
    def nbytes(n_units):
        """Bytes of the statistics."""
        return n_units * n_units * 8

    @staticmethod
    def solution_bytes(n_units, algebra=HOST):
        """Bytes that `solve` needs, with those of the statistics."""
        return algebra.n_matrices * n_units * n_units * 8

    def update(self, H, Y, weight=None):
        """Add rows: H (rows, units), Y (rows, outputs), host weights (rows,) or None.

        H is overwritten.
        """
        xp = self.xp
        n = len(H) if weight is None else float(weight.sum())
        ones = xp.ones(len(H))
        H = H.astype(max(H.dtype, self.dtype), copy=False)
        is_first = self.n == 0
        origin = H[:_ORIGIN_ROWS].mean(axis=0) if is_first else self.origin.astype(H.dtype)
        H -= origin
        if weight is not None:
            ones = xp.sqrt(xp.asarray(weight))
            H *= ones[:, None].astype(H.dtype)
            Y = Y * ones[:, None]
        left = xp.column_stack([ones, Y]).astype(H.dtype)
        sums = self.algebra.cross(H, left).astype(np.float64)
        # Where there is no memory for all this, nothing has been added yet.
        self.algebra.add_gram(self.gram, H)
        if is_first:
            self.origin = origin.astype(np.float64)
        self.n += n
        self.rounding = max(self.rounding, float(np.finfo(H.dtype).eps))
        self.h += sums[:, 0]
        self.hy += sums[:, 1:]
        self.y += ones @ Y
        self.yy += (Y * Y).sum(axis=0)
        return self

    def _take_in(self, other, sign):
        """Add the other sums to these, or subtract them, seen from this origin."""
        if other.n == 0:
            return self
        step, n = other.origin - self.origin, sign * other.n
        for name, sums in (("y", other.y), ("yy", other.yy), ("gram", other.gram)):
            before = getattr(self, name)
            (self.xp.add if sign > 0 else self.xp.subtract)(before, sums, out=before)
        # n step step' + h step' + step h', by rank-one updates.
        self.algebra.add_outer(self.gram, n, step + other.h / other.n)
        self.algebra.add_outer(self.gram, -sign / other.n, other.h)
        self.h += sign * other.h + n * step
        self.hy += sign * (other.hy + self.xp.outer(step, other.y))
        self.n += n
        self.rounding = max(self.rounding, other.rounding)
        return self

    def copy(self):
        """The same statistics, in arrays of their own."""
        result = copy(self)
        for name in ("origin", "h", "y", "yy", "gram", "hy"):
            setattr(result, name, getattr(self, name).copy(order="F"))
        return result

    def on(self, algebra):
        """The same statistics where another algebra has its arrays."""
        result = copy(self)
        result.algebra = algebra
        for name in ("origin", "h", "y", "yy", "gram", "hy"):
            array = getattr(self, name)
            array = array if isinstance(array, np.ndarray) else array.get(order="A")
            setattr(result, name, algebra.xp.asarray(array))
        return result

    def scaled(self, factor):
        """The statistics of the same rows, with all weights multiplied by a factor."""
        result = self.copy()
        result.n *= factor
        for name in ("h", "y", "yy", "gram", "hy"):
            sums = getattr(result, name)
            sums *= factor
        return result

    def seen_from(self, origin):
        """The same statistics, of H less another origin."""
        empty = RidgeStatistics(len(self.h), len(self.y), self.algebra, self.dtype)
        empty.origin = origin
        return empty._take_in(self, 1)

    def __add__(self, other):
        total = self.copy()
        if self.n == 0:
            total.origin = other.origin.copy()
        return total._take_in(other, 1)

    def __sub__(self, other):
        return self.copy()._take_in(other, -1)

    def leading(self, n_units):
        """The statistics of the first `n_units` units, as views."""
        result = object.__new__(RidgeStatistics)
        for name in ("algebra", "dtype", "n", "y", "yy", "rounding"):
            setattr(result, name, getattr(self, name))
        for name in ("origin", "h", "hy"):
            setattr(result, name, getattr(self, name)[:n_units])
        result.gram = self.gram[:n_units, :n_units]
        return result

    def _normal_matrix(self, alpha):
        """Lower triangle of sum w (h - mean)(h - mean)' + alpha I, a new array."""
        matrix = self.gram.copy(order="F")
        self.algebra.add_outer(matrix, -1.0 / self.n, self.h)
        diagonal = self.xp.arange(len(matrix))
        matrix[diagonal, diagonal] += alpha
        return matrix

    def _factor(self, alpha, margin=1.0):
        """The lower factor of the normal matrix; None where it is too ill-conditioned."""
        matrix = self._normal_matrix(alpha)
        # But for rounding, no eigenvalue is less than alpha, and none more than their sum.
        largest = float(matrix.diagonal().sum())
        is_sure = alpha - self.rounding * largest > 2 * margin * np.finfo(float).eps * largest
        return self.algebra.cholesky(matrix, None if is_sure else margin)

    @property
    def mean(self):
        """Mean of H, (n_units,)."""
        return self.origin + self.h / self.n

    @property
    def right(self):
        """Right-hand side of the centred normal equations, (n_units, n_outputs)."""
        return self.hy - self.xp.outer(self.h, self.y) / self.n

    def solve(self, alpha):
        """Minimise sum w |y - W h - b|^2 + alpha |W|^2.

        Cholesky of the centred normal equations; where they are too ill-conditioned for
        it, their eigenvectors without the directions that rounding has made.

        Returns
        -------
        Solution
        """
        solution = self.solve_well(alpha)
        if solution is not None:
            return solution
        basis, scale, (problem,) = self._whiten_by_eigenvectors([alpha])
        return self._solution(basis @ (scale * (basis.T @ self.right)), problem)

    def solve_well(self, alpha):
        """`solve` by Cholesky; None where the equations are too ill-conditioned for it."""
        linalg = self.algebra
        factor = self._factor(alpha)
        if factor is None:
            return None
        half = linalg.solve_lower(factor, self.right)
        return self._solution(linalg.solve_lower(factor, half, transposed=True))

    def solve_leading(self, alpha, sizes):
        """`solve` for the leading units of each size, by one factorisation of them all.

        The factor of a leading block is the leading block of the factor L. With z = L^-1 r,
        k units have the weights L_k'^-1 z_k: the first k of L'^-1 times z with zeros after
        k, so that all sizes are right-hand sides of one triangular system.

        Parameters
        ----------
        sizes : sequence of int
            Ascending.

        Returns
        -------
        list of Solution
        """
        linalg, m = self.algebra, sizes[-1]
        most = self.leading(m)
        # A leading block has at most m times the condition of the whole, in the 1-norm.
        factor = most._factor(alpha, margin=m)
        if factor is None:
            return [self.leading(size).solve(alpha) for size in sizes]
        z = linalg.solve_lower(factor, most.right)
        n_outputs = z.shape[1]
        cut = self.xp.zeros((m, len(sizes), n_outputs))
        for i, size in enumerate(sizes):
            cut[:size, i] = z[:size]
        W = linalg.solve_lower(factor, cut.reshape(m, -1), transposed=True)
        W = W.reshape(m, len(sizes), n_outputs)
        return [self.leading(size)._solution(W[:size, i]) for i, size in enumerate(sizes)]

    def whiten(self, alphas):
        """A basis for all penalties: by Cholesky for one of them, by eigenvectors for more.

        Returns
        -------
        Whitening
        """
        linalg = self.algebra
        if len(alphas) == 1:
            factor = self._factor(alphas[0])
            if factor is not None:
                basis = linalg.invert_lower(factor).T
                return Whitening(basis, self.xp.ones((len(basis), 1)), [""])
        return self._whiten_by_eigenvectors(alphas)

    def _solution(self, W, problem=""):
        W = W.T
        return Solution(W, self.y / self.n - W @ self.mean, problem)

    def _whiten_by_eigenvectors(self, alphas):
        values, vectors = self.algebra.eigh(self._normal_matrix(0.0))
        scale, problems = [], []
        for alpha in alphas:
            damped = values + alpha
            smallest, largest = float(damped[0]), max(float(damped[-1]), 0.0)
            keep = damped > largest * len(damped) * self.rounding
            scale.append(self.xp.where(keep, 1 / self.xp.where(keep, damped, 1.0), 0.0))
            n_left_out = len(damped) - int(keep.sum())
            condition = largest / smallest if smallest > 0 else np.inf
            problems.append(
                f"The hidden layer is ill-conditioned (condition number {condition:.1e}): "
                f"{n_left_out} of {len(damped)} directions were left out of the ridge "
                "readout. Raise alpha, or use fewer or narrower units."
                if n_left_out or condition > 1 / np.finfo(np.float64).eps
                else ""
            )
        return Whitening(vectors, self.xp.stack(scale, axis=1), problems)
