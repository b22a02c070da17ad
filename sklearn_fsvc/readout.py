"""From H to scores: the statistics of a ridge readout, LMS, and no training at all.

Everything here is linear algebra on tiles of H, where they are: arrays may be of any
namespace `xp` that `linalg.algebra` knows. Coefficients come back as NumPy arrays.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .linalg import algebra

# Rows of H that the LMS recursion settles in one triangular solve.
LMS_BLOCK = 256


class RidgeStatistics:
    """What a ridge readout needs of the data: a commutative monoid.

    Sums over rows with weights w, in float64: n = sum w, sum w h, sum w y, sum w h h' and
    sum w h y'. Statistics of two sets of rows add up to those of their union, subtract,
    and cut down to those of the leading units.

    Parameters
    ----------
    n_units, n_outputs : int
    xp : module
        Namespace of the arrays.
    dtype : dtype, optional
        In which H is multiplied with itself, where it is not wider; by default H's own.

    Attributes
    ----------
    gram : (n_units, n_units), F-ordered
        Only the lower triangle is meaningful.
    rounding : float
        The coarsest machine epsilon among the tiles that were added.
    """

    def __init__(self, n_units, n_outputs, xp=np, dtype=np.float32):
        self.xp, self.dtype = xp, np.dtype(dtype)
        self.n = 0.0
        self.rounding = np.finfo(np.float64).eps
        self.h = xp.zeros(n_units)
        self.y = xp.zeros(n_outputs)
        self.gram = xp.zeros((n_units, n_units), order="F")
        self.hy = xp.zeros((n_units, n_outputs))

    @staticmethod
    def nbytes(n_units):
        """Bytes of the statistics."""
        return n_units * n_units * 8

    @staticmethod
    def solution_bytes(n_units, xp=np):
        """Bytes that `solve` needs, with those of the statistics."""
        return algebra(xp).n_matrices * n_units * n_units * 8

    def update(self, H, Y, weight=None):
        """Add rows: H (rows, units), Y (rows, outputs), host weights (rows,) or None.

        H is scaled in place where there are weights.
        """
        xp = self.xp
        self.n += len(H) if weight is None else float(weight.sum())
        ones = xp.ones(len(H))
        if weight is not None:
            ones = xp.sqrt(xp.asarray(weight))
            H *= ones[:, None].astype(H.dtype)
            Y = Y * ones[:, None]
        left = xp.column_stack([ones, Y]).astype(H.dtype)
        sums = (left.T @ H).astype(np.float64)
        algebra(xp).add_gram(self.gram, H.astype(max(H.dtype, self.dtype), copy=False))
        self.rounding = max(self.rounding, float(np.finfo(H.dtype).eps))
        self.h += sums[0]
        self.hy += sums[1:].T
        self.y += ones @ Y
        return self

    def _combined(self, other, sign):
        result = RidgeStatistics(len(self.h), len(self.y), self.xp, self.dtype)
        for name in ("n", "h", "y", "gram", "hy"):
            setattr(result, name, getattr(self, name) + sign * getattr(other, name))
        result.rounding = max(self.rounding, other.rounding)
        return result

    def __add__(self, other):
        return self._combined(other, 1)

    def __sub__(self, other):
        return self._combined(other, -1)

    def leading(self, n_units):
        """The statistics of the first `n_units` units, as views."""
        result = object.__new__(RidgeStatistics)
        for name in ("xp", "dtype", "n", "y", "rounding"):
            setattr(result, name, getattr(self, name))
        result.h, result.hy = self.h[:n_units], self.hy[:n_units]
        result.gram = self.gram[:n_units, :n_units]
        return result

    def _normal_matrix(self, alpha):
        """Lower triangle of sum w (h - mean)(h - mean)' + alpha I, a new array."""
        matrix = self.gram.copy(order="F")
        algebra(self.xp).add_outer(matrix, -1.0 / self.n, self.h)
        diagonal = self.xp.arange(len(matrix))
        matrix[diagonal, diagonal] += alpha
        return matrix

    def solve(self, alpha):
        """Minimise sum w |y - W h - b|^2 + alpha |W|^2.

        Cholesky of the centred normal equations; where they are too ill-conditioned for
        it, their eigenvectors without the directions that rounding has made.

        Returns
        -------
        W : array of shape (n_outputs, n_units)
        b : array of shape (n_outputs,)
        """
        right = self.hy - self.xp.outer(self.h, self.y) / self.n
        W = algebra(self.xp).solve_positive(self._normal_matrix(alpha), right)
        if W is None:
            W = self._solve_by_eigenvectors(self._normal_matrix(alpha), right)
        W = W.T
        return W, (self.y - W @ self.h) / self.n

    def _solve_by_eigenvectors(self, A, right):
        values, vectors = algebra(self.xp).eigh(A)
        smallest, largest = float(values[0]), max(float(values[-1]), 0.0)
        keep = values > largest * len(values) * self.rounding
        n_left_out = len(values) - int(keep.sum())
        condition = largest / smallest if smallest > 0 else np.inf
        warnings.warn(
            f"The hidden layer is ill-conditioned (condition number {condition:.1e}): "
            f"{n_left_out} of {len(values)} directions were left out of the ridge "
            "readout. Raise alpha, or use fewer or narrower units.",
            ConvergenceWarning,
            stacklevel=3,
        )
        vectors = vectors[:, keep]
        return vectors @ ((vectors.T @ right) / values[keep, None])


def untrained(labels, n_outputs):
    """W[c, j] = 1 where centre j has class c: each class adds up its centres' activities."""
    return (labels[None, :] == np.arange(n_outputs)[:, None]).astype(np.float64)


def lms_update(W, H, Y, rate, weight=None, xp=np):
    """The LMS rule over the rows of a tile, in order, in place on W.

    For each row i: e = y_i - W h_i;  W += rate * w_i * e h_i'. In blocks the recursion is
    a unit lower triangular system, for e_i depends on the earlier rows only through
    h_i . h_j: (I + rate L) E = Y - H W', L the part of H H' below the diagonal. The
    solution is the same as row by row, to rounding.

    Parameters
    ----------
    W : array of shape (outputs, units), float64
    H : (rows, units); Y : (rows, outputs); weight : (rows,) or None
    rate : float
        eta. Stable for about rate < 2 / max |h_i|^2.
    """
    for start in range(0, len(H), LMS_BLOCK):
        rows = slice(start, start + LMS_BLOCK)
        h = H[rows].astype(np.float64)
        step = xp.full(len(h), rate) if weight is None else rate * weight[rows]
        system = xp.tril(h @ h.T, -1) * step
        E = algebra(xp).solve_unit_lower(system, Y[rows] - h @ W.T)
        W += (E * step[:, None]).T @ h
