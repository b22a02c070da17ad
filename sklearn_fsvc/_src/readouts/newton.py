"""The way down the log-loss, by Newton's steps on the kept rows, in whitened coordinates."""

import numpy as np

from .calibration import root

# Conjugate gradients end at this part of the gradient, or after so many steps: sooner where some
# rows stand for others, for then the Hessian is a guess.
_ENDS, _ENDS_OF_GUESS = (0.05, 60), (0.2, 25)
# Newton's steps end where the gradient comes out as the Hessian says but for this part of the first
# one, or after so many; and how exactly the length of each is found.
_BENT, _MOST_STEPS, _LENGTH = 0.2, 4, 0.02
# Lengths under this part of Newton's step are not told apart.
_SHORTEST = 2.0**-30


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
        while (factor := statistics.cholesky(penalty)) is None:
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
    """The objective near a readout: the log-loss of the kept rows, and a line.

    The line makes its gradient that of all rows, where it begins (O. Shamir, N. Srebro and T. Zhang
    2014, "Communication-efficient distributed optimization using an approximate Newton-type
    method"). Rows that are not kept have a curvature `of_others` each, the same in all directions
    of the scores.

    Parameters
    ----------
    coordinates : Coordinates
    log_loss : LogLoss
    kept : Kept
    T : array of shape (n_units + 1, n_scores)
        The readout.
    alpha, of_others : float
    ends : (float, int), optional
        The part of the gradient that conjugate gradients leave, and their steps at most.

    Attributes
    ----------
    n_newton, n_steps : int
        Newton's steps that `solve` has taken, and those of conjugate gradients in the last of them.
    """

    n_newton = n_steps = 0

    def __init__(self, coordinates, log_loss, kept, T, alpha, of_others, ends=None):
        self._coordinates, self._log_loss, self._kept = coordinates, log_loss, kept
        self._of_others = of_others
        self._ends = ends or (_ENDS_OF_GUESS if of_others else _ENDS)
        # Of the others the Hessian is the identity, but for the penalty that is in the coordinates.
        self._ridge = alpha - of_others * coordinates.penalty
        self._S = kept.scores(T)
        self._P = self._probabilities(self._S.copy())

    def solve(self, G):
        """Minus the way to the lowest point of the model, if its gradient is G at the readout.

        That is the Hessian's inverse times G wherever one of Newton's steps is enough.
        """
        start = r = self._coordinates.gradient(G)
        z, S, P = r * 0, self._S, self._P
        for self.n_newton in range(1, _MOST_STEPS + 1):
            d, rest = self._newton(r, P)
            if not self._of_others:  # the objective itself is as cheap to look at
                return self._coordinates.point(d)
            length, along = self._length(d, r, S, P)
            z, S = z - length * d, S - length * along
            P = self._probabilities(S.copy())
            straight = (1 - length) * r + length * rest
            r = start + self._gradient(P - self._P, z, self._coordinates.point(z))
            bent = r - straight
            if _dot(bent, bent) <= _BENT**2 * _dot(start, start):
                break
        return -self._coordinates.point(z)

    def _newton(self, r, P):
        """The Hessian's inverse times r, with probabilities P of the kept rows, and its rest."""
        z, p, rr = r * 0, r, _dot(r, r)
        tolerance, n_steps = self._ends
        least = tolerance**2 * rr
        for self.n_steps in range(n_steps):
            if rr <= least:
                break
            q = self._times(p, P)
            step = rr / _dot(p, q)
            z, r = z + step * p, r - step * q
            rr, old = _dot(r, r), rr
            p = r + rr / old * p
        return z, r

    def _times(self, z, P):
        """The Hessian by the coordinates, times z."""
        D = self._coordinates.point(z)
        return self._gradient(self._log_loss.curve(P, self._kept.scores(D)), z, D)

    def _length(self, d, r, S, P):
        """How far to go against d from where r is the gradient, and what the scores are along d."""
        D = self._coordinates.point(d)
        along, weight = self._kept.scores(D), self._kept.weight
        slope, bend = -_dot(r, d), self._of_others * _dot(d, d) + self._ridge * _dot(D[:-1], D[:-1])

        def slope_at(length):
            change = P - self._probabilities(S - length * along)
            return slope + length * bend + float(weight @ (change * along).sum(axis=1))

        most = 1.0
        while slope_at(most) < 0:
            most *= 2
        # Of rows that are surely wrong it may be a thousandth of Newton's, and is not to become 0.
        least = most / 2
        while least > _SHORTEST and slope_at(least) > 0:
            most, least = least, least / 2
        if least <= _SHORTEST:
            return least, along
        return root(slope_at, least, most, xtol=_LENGTH * most), along

    def _gradient(self, U, z, D):
        """By the coordinates, of what has slopes U by the scores of kept rows, at z, which is D."""
        Q = self._kept.weighted(U)
        Q[:-1] += self._ridge * D[:-1]
        return self._coordinates.gradient(Q) + self._of_others * z

    def _probabilities(self, S):
        """Of scores, in their place."""
        self._log_loss.probabilities(S, self._coordinates.algebra.xp)
        return S


class CachedRows:
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
        self.algebra, self.rows, self.H = algebra, rows, H
        self.weight = algebra.xp.asarray(weight)

    def scores(self, T):
        """Of a readout (n_units + 1, n_scores), in float64."""
        return self.algebra.multiply(self.H, T[:-1].astype(self.H.dtype)).astype(float) + T[-1]

    def weighted(self, U):
        """``[H 1]'`` times the rows of U with their weights; U is overwritten."""
        xp = self.algebra.xp
        U *= self.weight[:, None]
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
