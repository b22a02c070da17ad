"""Newton's direction for the log-loss, by the rows that are kept, in whitened coordinates."""

import numpy as np

# Conjugate gradients end at this part of the gradient, or after so many steps: sooner where some
# rows stand for others, for then the Hessian is a guess.
_ENDS, _ENDS_OF_GUESS = (0.05, 60), (0.2, 25)


class Coordinates:
    """Coordinates z in which the normal matrix of a ridge, centred, is the identity.

    With its factor L and the mean h of H, ``W = L'^-1 z`` and ``b = z_b / sqrt(n) - W h``.

    Parameters
    ----------
    statistics : RidgeStatistics
    penalty : float
        On the diagonal of the normal matrix; raised until it has a factor.
    """

    def __init__(self, statistics, penalty):
        self.algebra, self._mean = statistics.algebra, statistics.mean
        self._root = float(np.sqrt(statistics.n))
        while (factor := statistics._factor(penalty)) is None:
            penalty *= 10
        self.penalty = penalty
        self._factor = factor.inverse_factor() if self.algebra.inverts else factor

    def point(self, z):
        """The readout (n_units + 1, n_scores) at z."""
        W = self._solved(z[:-1], transposed=True)
        return self._with(W, z[-1] / self._root - self._mean @ W)

    def gradient(self, G):
        """The gradient by z of what has the gradient G by the readout."""
        xp = self.algebra.xp
        right = G[:-1] - xp.outer(self._mean, G[-1])
        return self._with(self._solved(right), G[-1] / self._root)

    def whiten(self, right):
        """L^-1 times some columns, a new array."""
        return self._solved(right)

    def _solved(self, right, transposed=False):
        if self.algebra.inverts:
            inverse = self._factor.T if transposed else self._factor
            return self.algebra.multiply(inverse, right)
        return self._factor.solve_lower(self.algebra.xp.array(right, order="F"), transposed)

    def _with(self, rows, last):
        return self.algebra.xp.concatenate([rows, last[None]])


class Model:
    """The objective near a readout, by its Hessian over the kept rows.

    The rows that are not kept have a curvature `of_others` each, the same in all directions of
    the scores.

    Parameters
    ----------
    coordinates : Coordinates
    log_loss : LogLoss
    kept : Kept
    T : array of shape (n_units + 1, n_scores)
        The readout.
    alpha, of_others : float

    Attributes
    ----------
    n_steps : int
        Of conjugate gradients, that `solve` has taken.
    """

    n_steps = 0

    def __init__(self, coordinates, log_loss, kept, T, alpha, of_others):
        self._coordinates, self._log_loss, self._kept = coordinates, log_loss, kept
        self._alpha, self._of_others = alpha, of_others
        self._P = kept.scores(T)
        log_loss.probabilities(self._P, coordinates.algebra.xp)

    def solve(self, G):
        """The Hessian's inverse times G, by conjugate gradients in the coordinates."""
        r = self._coordinates.gradient(G)
        z, p, rr = r * 0, r, _dot(r, r)
        tolerance, n_steps = _ENDS_OF_GUESS if self._of_others else _ENDS
        least = tolerance**2 * rr
        for self.n_steps in range(n_steps):
            if rr <= least:
                break
            q = self._times(p)
            step = rr / _dot(p, q)
            z, r = z + step * p, r - step * q
            rr, old = _dot(r, r), rr
            p = r + rr / old * p
        return self._coordinates.point(z)

    def _times(self, z):
        """The Hessian by the coordinates, times z."""
        D = self._coordinates.point(z)
        Q = self._kept.weighted(self._log_loss.curve(self._P, self._kept.scores(D)))
        # Of the others it is z, but for the penalty that is in the coordinates.
        Q[:-1] += (self._alpha - self._of_others * self._coordinates.penalty) * D[:-1]
        return self._coordinates.gradient(Q) + self._of_others * z


class Kept:
    """Some rows of H that are kept.

    Parameters
    ----------
    algebra : HostAlgebra or its like
    rows : ndarray of int
    H : array of shape (n_kept, n_units)
    weight : ndarray of shape (n_kept,)
        How much each counts: more where it stands for others, too.
    """

    def __init__(self, algebra, rows, H, weight):
        self.algebra, self.rows, self.H, self.weight = algebra, rows, H, weight

    def scores(self, T):
        """Of a readout (n_units + 1, n_scores), in float64."""
        return self.algebra.multiply(self.H, T[:-1].astype(self.H.dtype)).astype(float) + T[-1]

    def weighted(self, U):
        """``[H 1]'`` times the rows of U with their weights; U is overwritten."""
        xp = self.algebra.xp
        U *= xp.asarray(self.weight)[:, None]
        product = self.algebra.cross(self.H, U.astype(self.H.dtype)).astype(float)
        return xp.concatenate([product, (xp.ones(len(U)) @ U)[None]])


class History:
    """Steps and what the gradient changed by: L-BFGS around another inverse of the Hessian.

    J. Nocedal and S. J. Wright 2006, "Numerical Optimization", algorithm 7.4.

    Parameters
    ----------
    most : int
        Pairs that are remembered.
    """

    def __init__(self, most):
        self._most, self._pairs = most, []

    def __len__(self):
        return len(self._pairs)

    def clear(self):
        self._pairs = []

    def add(self, step, change):
        """Take in a pair, if the objective is convex along it in spite of rounding."""
        if (curvature := _dot(step, change)) > 0:
            self._pairs = [*self._pairs, (step, change, curvature)][-self._most :]

    def times(self, G, solve):
        """The inverse of the Hessian times G, where ``solve(G)`` is a guess of it."""
        q, parts = G, []
        for step, change, curvature in reversed(self._pairs):
            parts.append(_dot(step, q) / curvature)
            q = q - parts[-1] * change
        d = solve(q)
        for (step, change, curvature), part in zip(self._pairs, reversed(parts), strict=True):
            d = d + (part - _dot(change, d) / curvature) * step
        return d


def _dot(a, b):
    return float((a * b).sum())
