"""From H to scores: the statistics of a ridge readout, LMS, and no training at all.

Everything here is linear algebra on tiles of H. Arrays may be of any namespace `xp` that
speaks NumPy; where one has a better routine than the generic product, it is named here.
"""

import warnings

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

# Rows of H that the LMS recursion settles in one triangular solve.
LMS_BLOCK = 256


def _add_gram(total, H, xp):
    """total += H'H. On the host only the lower triangle, by syrk: half the work."""
    if xp is not np:
        total += H.T @ H
        return
    syrk = linalg.get_blas_funcs("syrk", (H,))
    if H.dtype == total.dtype:
        syrk(1.0, H.T, beta=1.0, c=total, lower=1, overwrite_c=1)
    else:
        total += syrk(1.0, H.T, lower=1)


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

    Attributes
    ----------
    gram : (n_units, n_units), F-ordered
        Only the lower triangle is meaningful.
    rounding : float
        The coarsest machine epsilon among the tiles that were added.
    """

    def __init__(self, n_units, n_outputs, xp=np):
        self.xp = xp
        self.n = 0.0
        self.rounding = np.finfo(np.float64).eps
        self.h = xp.zeros(n_units)
        self.y = xp.zeros(n_outputs)
        self.gram = xp.zeros((n_units, n_units), order="F")
        self.hy = xp.zeros((n_units, n_outputs))

    @staticmethod
    def nbytes(n_units, itemsize):
        """Bytes of the statistics, of one product on its way in, and of the solution.

        A float64 product is added in place and needs no room of its own.
        """
        return n_units * n_units * (8 + itemsize % 8 + 8)

    def update(self, H, Y, weight=None):
        """Add rows: H (rows, units), Y (rows, outputs), weight (rows,) or None.

        H is scaled in place where there are weights.
        """
        xp = self.xp
        if weight is not None:
            root = xp.sqrt(xp.asarray(weight))[:, None]
            H *= root.astype(H.dtype)
            Y = Y * root
        ones = xp.ones(len(H)) if weight is None else root[:, 0]
        left = xp.column_stack([ones, Y]).astype(H.dtype)
        sums = (left.T @ H).astype(np.float64)
        _add_gram(self.gram, H, xp)
        self.rounding = max(self.rounding, float(np.finfo(H.dtype).eps))
        self.n += float(ones @ ones)
        self.h += sums[0]
        self.hy += sums[1:].T
        self.y += ones @ Y
        return self

    def _combined(self, other, sign):
        result = RidgeStatistics(len(self.h), len(self.y), self.xp)
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
        result.xp, result.n, result.y, result.rounding = self.xp, self.n, self.y, self.rounding
        result.h, result.hy = self.h[:n_units], self.hy[:n_units]
        result.gram = self.gram[:n_units, :n_units]
        return result

    def _normal_matrix(self, alpha):
        """Lower triangle of sum w (h - mean)(h - mean)' + alpha I, a new array."""
        matrix = self.gram.copy(order="F")
        syr = linalg.get_blas_funcs("syr", (matrix,))
        syr(-1.0 / self.n, self.h, lower=1, a=matrix, overwrite_a=1)
        matrix[np.diag_indices_from(matrix)] += alpha
        return matrix

    def solve(self, alpha):
        """Minimise sum w |y - W h - b|^2 + alpha |W|^2.

        Cholesky of the centred normal equations; where they are too ill-conditioned for
        it, their eigenvectors without the directions that rounding has made.

        Returns
        -------
        W : ndarray of shape (n_outputs, n_units)
        b : ndarray of shape (n_outputs,)
        """
        right = self.hy - np.outer(self.h, self.y) / self.n
        W = _solve_spd(lambda: self._normal_matrix(alpha), right, self.rounding).T
        return W, (self.y - W @ self.h) / self.n


def _solve_spd(make_matrix, right, rounding):
    """Solve A w = right for the symmetric matrix whose lower triangle `make_matrix` makes.

    `rounding` is the relative error of its entries.
    """
    A = make_matrix()
    norm = _one_norm_bound(A)
    potrf, pocon = linalg.get_lapack_funcs(("potrf", "pocon"), (A,))
    factor, info = potrf(A, lower=1, overwrite_a=1, clean=0)
    if info == 0:
        reciprocal, _ = pocon(factor, norm, uplo="L")
        if reciprocal > np.finfo(A.dtype).eps:
            return linalg.cho_solve((factor, True), right, check_finite=False)
    return _solve_by_eigenvectors(make_matrix(), right, rounding)


def _one_norm_bound(lower):
    """At least the 1-norm of a symmetric matrix, at most twice; the upper triangle is 0."""
    (lange,) = linalg.get_lapack_funcs(("lange",), (lower,))
    return lange("1", lower) + lange("I", lower)


def _solve_by_eigenvectors(A, right, rounding):
    values, vectors = linalg.eigh(A, lower=True, overwrite_a=True, check_finite=False)
    largest = max(values[-1], 0.0)
    keep = values > largest * len(values) * rounding
    condition = largest / values[0] if values[0] > 0 else np.inf
    warnings.warn(
        f"The hidden layer is ill-conditioned (condition number {condition:.1e}): "
        f"{np.count_nonzero(~keep)} of {len(values)} directions were left out of the ridge "
        "readout. Raise alpha, or use fewer or narrower units.",
        ConvergenceWarning,
        stacklevel=2,
    )
    vectors = vectors[:, keep]
    return vectors @ ((vectors.T @ right) / values[keep, None])


def untrained(labels, n_outputs):
    """W[c, j] = 1 where centre j has class c: each class adds up its centres' activities."""
    return (labels[None, :] == np.arange(n_outputs)[:, None]).astype(np.float64)


def lms_update(W, H, Y, rate, weight=None):
    """The LMS rule over the rows of a tile, in order, in place on W.

    For each row i: e = y_i - W h_i;  W += rate * w_i * e h_i'. In blocks the recursion is
    a unit lower triangular system, for e_i depends on the earlier rows only through
    h_i . h_j: (I + rate L) E = Y - H W', L the part of H H' below the diagonal. The
    solution is the same as row by row, to rounding.

    Parameters
    ----------
    W : ndarray of shape (outputs, units), float64
    H : (rows, units); Y : (rows, outputs); weight : (rows,) or None
    rate : float
        eta. Stable for about rate < 2 / max |h_i|^2.
    """
    for start in range(0, len(H), LMS_BLOCK):
        rows = slice(start, start + LMS_BLOCK)
        h = H[rows].astype(np.float64)
        step = np.full(len(h), rate) if weight is None else rate * weight[rows]
        system = np.tril(h @ h.T, -1) * step
        E = linalg.solve_triangular(
            system, Y[rows] - h @ W.T, lower=True, unit_diagonal=True, check_finite=False
        )
        W += (E * step[:, None]).T @ h
