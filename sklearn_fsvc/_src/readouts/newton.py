"""Steps of the softmax readout: Newton-CG on a model of the objective, in whitened coordinates.

The objective is modelled by the log-loss of some cached rows of H. Conjugate gradients solve for
Newton's steps of the model (truncated Newton, J. Nocedal and S. J. Wright 2006, "Numerical
Optimization", section 7.1), preconditioned by coordinates in which the Hessian is close to the
identity. L-BFGS around the model corrects for what the cached rows leave out.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .calibration import find_root
from .log_loss import LogLoss
from .statistics import RidgeStatistics


class CGStop(NamedTuple):
    """Stopping rule of conjugate gradients."""

    tolerance: float  # norm of the residual, relative to that of the right-hand side
    max_steps: int


# Conjugate gradients stop early if cached rows represent others: the Hessian is an estimate then.
_CG, _CG_OF_ESTIMATE = CGStop(0.05, 60), CGStop(0.2, 25)
# Newton's steps on the model stop if the change of the gradient differs from that by the Hessian by
# less than this fraction of the first gradient.
_GRADIENT_TOLERANCE, _MAX_NEWTON_STEPS = 0.2, 4
# Part of the penalty that the rounding of H to half precision may add to the Hessian.
_MAX_ROUNDING = 0.01
# Precision of the line search, relative to the largest step; and the smallest step.
_STEP_TOLERANCE, _MIN_STEP = 0.02, 2.0**-30
# Lower bound of the sampling weights of rows, as a fraction of the mean uncertainty.
_MIN_UNCERTAINTY = 0.02


class WhitenedCoordinates:
    """Coordinates z of a readout in which the centred normal matrix of a ridge is the identity.

    With the Cholesky factor L of the normal matrix and the mean h of H, ``W = L'^-1 z`` and
    ``b = z_b / sqrt(n) - W h``. The Hessian of the log-loss with a penalty is between 0 and about
    the normal matrix, so that conjugate gradients converge fast.

    Parameters
    ----------
    statistics : RidgeStatistics
    penalty : float
        On the diagonal of the normal matrix; multiplied by 10 until there is a factor.
    """

    def __init__(self, statistics: RidgeStatistics, penalty: float):
        self.algebra, self._mean = statistics.algebra, statistics.mean
        self._root = float(np.sqrt(statistics.n))
        while (factor := statistics.cholesky(penalty)) is None:
            penalty *= 10
        self.penalty = penalty
        # On some devices, products with the inverse are faster than triangular solves, and take
        # half the time in float32. Rounding errors do no harm: any invertible matrix defines
        # coordinates, as long as `gradient` uses its transpose.
        self._factor: Any = factor
        if self.algebra.prefers_inverse:
            with self.algebra.reduced_precision():
                self._factor = factor.inverse_factor(np.float32)

    def point(self, z: Any) -> Any:
        """Return the readout (n_units + 1, n_scores) with coordinates z; intercepts are last."""
        W = self._solve(z[:-1], transposed=True)
        return self._append(W, z[-1] / self._root - self._mean @ W)

    def gradient(self, G: Any) -> Any:
        """Return the gradient by z, given the gradient G by the readout."""
        xp = self.algebra.xp
        right = G[:-1] - xp.outer(self._mean, G[-1])
        return self._append(self._solve(right), G[-1] / self._root)

    def _solve(self, right, transposed=False):
        if self.algebra.prefers_inverse:
            inverse = self._factor.T if transposed else self._factor
            return self.algebra.multiply(inverse, right.astype(np.float32)).astype(np.float64)
        return self._factor.solve_lower(self.algebra.xp.array(right, order="F"), transposed)

    def _append(self, rows, last):
        return self.algebra.xp.concatenate([rows, last[None]])


class CachedRows:
    """Some rows of H in memory.

    Parameters
    ----------
    algebra : Algebra
    rows : ndarray of int
    H : array of shape (n_cached, n_units)
    weight : ndarray of shape (n_cached,)
        Sample weights, times the number of rows that each represents.
    """

    def __init__(self, algebra: Any, rows: npt.NDArray, H: Any, weight: npt.NDArray):
        self.algebra, self.rows, self.H = algebra, rows, H
        self.weight = algebra.xp.asarray(weight)
        self._half: CachedRows | None = None
        self._rounding_variance = 0.0

    def in_half_precision(self, max_variance: float) -> "CachedRows":
        """Return the same rows with H in half precision, if products are faster then.

        Unless the variance of the rounding errors exceeds a maximum.
        """
        if self._half is None:
            H, self._rounding_variance = self.algebra.half_precision(self.H)
            self._half = CachedRows(self.algebra, self.rows, H, self.weight)
        return self._half if self._rounding_variance <= max_variance else self

    def scores(self, T: Any) -> Any:
        """Return the scores by a readout (n_units + 1, n_scores), in float64."""
        return self.algebra.multiply(self.H, T[:-1].astype(self.H.dtype)).astype(float) + T[-1]

    def gradient(self, U: Any) -> Any:
        """Return ``[H 1]' (w U)`` for U, derivatives with respect to scores; U is overwritten."""
        xp = self.algebra.xp
        U *= self.weight[:, None]
        product = self.algebra.multiply_transposed(self.H, U.astype(self.H.dtype)).astype(float)
        return xp.concatenate([product, (xp.ones(len(U)) @ U)[None]])


def sample_by_uncertainty(
    uncertainty: npt.NDArray, n: int, random: np.random.Generator
) -> tuple[npt.NDArray, npt.NDArray]:
    """Return `n` rows, sampled without replacement, and the probability of each.

    Probabilities are proportional to the uncertainty, and 1 for the largest. Sums over the sample,
    weighted by inverse probabilities, are unbiased. (Systematic sampling with probability
    proportional to size: rows whose cumulative probability passes the next integer, from a random
    offset.)
    """
    size = uncertainty + _MIN_UNCERTAINTY * uncertainty.mean(dtype=float)
    size = size.astype(float)
    certain = np.zeros(len(size), bool)
    # Rows with a probability of 1 or more are certain; repeat, since the others then share less.
    while True:
        share = (n - certain.sum()) / size[~certain].sum()
        more = ~certain & (size * share >= 1)
        if not more.any():
            break
        certain |= more
    probability = np.where(certain, 1.0, size * share)
    ends = np.cumsum(probability) * (n / probability.sum())
    rows = np.searchsorted(ends, np.arange(n) + random.random()).clip(max=len(size) - 1)
    return rows, probability[rows]


class LocalModel:
    """A model of the objective near a readout: the log-loss of cached rows, plus a linear term.

    The linear term makes the gradient at the readout that of all rows (O. Shamir, N. Srebro and
    T. Zhang 2014, "Communication-efficient distributed optimization using an approximate
    Newton-type method"). Each row that is not cached has the same curvature in all directions of
    the scores.

    Parameters
    ----------
    coordinates : WhitenedCoordinates
    log_loss : LogLoss
    cached : CachedRows
    T : array of shape (n_units + 1, n_scores)
        The readout.
    alpha : float
        Penalty of the objective.
    other_curvature : float
        That of a row that is not cached; 0 if all are.
    curvature : float
        Weighted sum of the curvatures of all rows.
    cg_stop : CGStop, optional
    max_newton_steps, gradient_tolerance
        Stopping rule of Newton's steps on the model: see `_GRADIENT_TOLERANCE`.

    Attributes
    ----------
    n_newton, n_cg : int
        Newton's steps of the last `solve`, and steps of conjugate gradients in the last of them.
    """

    def __init__(
        self,
        coordinates: WhitenedCoordinates,
        log_loss: LogLoss,
        cached: CachedRows,
        T: Any,
        alpha: float,
        other_curvature: float,
        curvature: float,
        cg_stop: CGStop | None = None,
        max_newton_steps: int = _MAX_NEWTON_STEPS,
        gradient_tolerance: float = _GRADIENT_TOLERANCE,
    ):
        self._coordinates, self._log_loss, self._cached = coordinates, log_loss, cached
        self._other_curvature = other_curvature
        self._cg_stop = cg_stop or (_CG_OF_ESTIMATE if other_curvature else _CG)
        self._max_newton_steps, self._gradient_tolerance = max_newton_steps, gradient_tolerance
        # In the coordinates the other rows have a multiple of the identity, which includes the
        # penalty of the coordinates: subtract that.
        self._penalty = alpha - other_curvature * coordinates.penalty
        # Independent rounding errors of H add about their variance times the curvature to the
        # Hessian, in all directions: as a larger penalty would.
        max_variance = _MAX_ROUNDING * alpha / curvature if curvature else np.inf
        self._hessian_rows = cached.in_half_precision(max_variance)
        self._S = cached.scores(T)
        self._P = self._probabilities(self._S.copy())
        self.n_newton = self.n_cg = 0

    def solve(self, G: Any) -> Any:
        """Return minus the step to the minimum of the model, whose gradient at the readout is G.

        Equal to the inverse Hessian times G if one Newton step is sufficient. Otherwise each
        step is followed by a line search and a new gradient.
        """
        first_gradient = gradient = self._coordinates.gradient(G)
        z, S, P = gradient * 0, self._S, self._P
        for n_newton in range(1, self._max_newton_steps + 1):
            self.n_newton = n_newton
            d, residual = self._newton_step(gradient, P)
            if not self._other_curvature:
                # All rows are cached: the caller evaluates the objective itself at the same cost.
                return self._coordinates.point(d)
            step, change = self._line_search(d, gradient, S, P)
            z, S = z - step * d, S - step * change
            P = self._probabilities(S.copy())
            by_hessian = (1 - step) * gradient + step * residual
            gradient = first_gradient + self._gradient(
                self._cached, P - self._P, z, self._coordinates.point(z)
            )
            error = gradient - by_hessian
            limit = self._gradient_tolerance**2 * _dot(first_gradient, first_gradient)
            if _dot(error, error) <= limit:
                break
        return -self._coordinates.point(z)

    def _newton_step(self, gradient, P):
        """Solve ``hessian z = gradient`` by conjugate gradients; return z and the residual."""
        z, r = gradient * 0, gradient
        p, rr = r, _dot(r, r)
        stop_at = self._cg_stop.tolerance**2 * rr
        for n_cg in range(self._cg_stop.max_steps):
            self.n_cg = n_cg
            if rr <= stop_at:
                break
            q = self._hessian_product(p, P)
            step = rr / _dot(p, q)
            z, r = z + step * p, r - step * q
            rr, old = _dot(r, r), rr
            p = r + rr / old * p
        return z, r

    def _hessian_product(self, z, P):
        """Return the Hessian, in the coordinates, times z; at probabilities P."""
        D, rows = self._coordinates.point(z), self._hessian_rows
        return self._gradient(rows, self._log_loss.hessian_product(P, rows.scores(D)), z, D)

    def _line_search(self, d, gradient, S, P):
        """Return the step along -d to the minimum, and the change of the scores by d.

        The derivative along -d is found to be 0 between two steps, of which the longer one has a
        positive derivative.
        """
        D = self._coordinates.point(d)
        change, weight = self._cached.scores(D), self._cached.weight
        slope = -_dot(gradient, d)
        curvature = self._other_curvature * _dot(d, d) + self._penalty * _dot(D[:-1], D[:-1])

        def derivative(step):
            dP = P - self._probabilities(S - step * change)
            return slope + step * curvature + float(weight @ (dP * change).sum(axis=1))

        longest = 1.0
        while derivative(longest) < 0:
            longest *= 2
        # With confidently misclassified rows the minimum may be at a thousandth of Newton's step:
        # approach it from above, since the root finder might return 0.
        shortest = longest / 2
        while shortest > _MIN_STEP and derivative(shortest) > 0:
            longest, shortest = shortest, shortest / 2
        if shortest <= _MIN_STEP:
            return shortest, change
        return find_root(derivative, shortest, longest, _STEP_TOLERANCE * longest), change

    def _gradient(self, rows, U, z, D):
        """Return the gradient in the coordinates at z, which is the readout D.

        Given U, the derivatives with respect to the scores of cached rows, which are overwritten.
        """
        G = rows.gradient(U)
        G[:-1] += self._penalty * D[:-1]
        return self._coordinates.gradient(G) + self._other_curvature * z

    def _probabilities(self, S):
        """Return the probabilities of scores, in their memory."""
        self._log_loss.normalise(S, self._coordinates.algebra.xp)
        return S


class LBFGSHistory:
    """L-BFGS around another approximation of the inverse Hessian (Nocedal & Wright, alg. 7.4).

    Parameters
    ----------
    max_pairs : int
        Pairs of a step and the change of the gradient that are stored.
    """

    def __init__(self, max_pairs: int):
        self._max_pairs = max_pairs
        self._pairs: list[tuple[Any, Any, float]] = []

    def __len__(self) -> int:
        return len(self._pairs)

    def clear(self) -> None:
        self._pairs = []

    def add(self, step: Any, change: Any) -> None:
        """Store a pair, unless rounding makes the objective concave along it."""
        if (curvature := _dot(step, change)) > 0:
            self._pairs = [*self._pairs, (step, change, curvature)][-self._max_pairs :]

    def inverse_product(self, G: Any, solve: Callable[[Any], Any]) -> Any:
        """Return the inverse Hessian times G, where ``solve(G)`` is a first approximation."""
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
