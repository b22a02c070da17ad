"""Feature weights that minimise a leave-one-out error: automatic relevance determination.

The network has Laplacian units ``H_ij = exp(-sum_k v_k |x_ik - c_jk|)``, centred at some of the
samples, and a ridge readout. Its leave-one-out residuals are known without training it again,
``e_i = (y_i - W h_i) / (1 - s_i)`` with the leverages ``s_i = h_i' (H'H + alpha I)^-1 h_i`` (PRESS;
D. M. Allen, Technometrics 16, 1974). The sum of their squares is minimised over the logarithms of
the weights v and of alpha by its gradient, as G. C. Cawley and N. L. C. Talbot (JMLR 8, 2007) do
for kernel ridge regression.

The minimum depends on the centres, which are few. So each evaluation has other centres, and the
result is the mean of the later points, as in stochastic gradient descent with averaging (B. T.
Polyak and A. B. Juditsky, SIAM Journal on Control and Optimization 30, 1992).

Mean squared gradients, from which `feature_weights` starts, depend on a network that predicts well.
Where that of equal weights does not, as for the product of the signs of three features of twenty,
only such a descent finds the relevant features.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..engines.base import Engine
from ..kernels import LAPLACIAN
from ..layers import RBFLayer
from .centers import START_ALPHA
from .feature_weights import draw_subset, invert_weights
from .ordered_samples import OrderedSamples
from .radius import typical_distance


class Size(NamedTuple):
    """Maximum numbers of samples and units of a network, and evaluations of its error."""

    n_samples: int
    n_units: int
    n_evaluations: int

    def needed_bytes(self, n_samples: int, n_features: int, n_outputs: int) -> int:
        """Return the bytes of `minimise_error`, which draws some of this number of samples."""
        n_samples = min(self.n_samples, n_samples)
        n_units = min(self.n_units, n_samples // 2)
        columns = n_units * 3 * 4 + n_features * 40 + n_outputs * 40
        return n_samples * columns + 8 * 8 * n_units**2


# The first shows quickly whether the second is likely to gain. That one finds products of three
# features among many in noisy data; with 24 or 32 evaluations of it, networks are no more accurate.
QUICK, THOROUGH = Size(1000, 200, 12), Size(3000, 500, 16)
# Samples for each weight at least: fewer are fitted by chance. Maximum number of outputs: more
# would take longer than all else.
_SAMPLES_PER_FEATURE, _MAX_OUTPUTS = 10, 100
# The median distance between samples at first, in units of the length of the kernel: interactions
# of features are found with narrow units only.
_FIRST_DISTANCE = 3.0
# First weights are those from gradients with squared ratios, because noise makes small ones too
# large. Their least ratio to the largest one: a descent starts slowly from 0.
_LEAST_RATIO = 0.03
# Maximum change of the logarithm of a weight, so that its exponential is finite.
_MAX_CHANGE = 20.0
# Range of the penalty. H'H is summed in float64 so that the least one is possible.
_ALPHAS = (1e-3, 1e2)
# Changes of the logarithms of all weights and of alpha: in the first step, at most, and their
# factors while signs of derivatives stay the same, and when they change.
_FIRST_STEP, _MAX_STEP, _GROWTH, _SHRINKAGE = 0.3, 1.0, 1.3, 0.5
# Leverages are at most this, since rounding may make them 1 or larger.
_MAX_LEVERAGE = 0.999


def suits_refinement(n_samples: int, n_features: int, n_outputs: int) -> bool:
    """Return whether there are enough samples for the weights, two at least, and few outputs."""
    max_features = min(n_samples, THOROUGH.n_samples) // _SAMPLES_PER_FEATURE
    return 1 < n_features <= max_features and n_outputs <= _MAX_OUTPUTS


def sizes_for(n_samples: int) -> tuple[Size, ...]:
    """Return the sizes of the networks for a number of samples.

    A network has a unit for every two samples at most, so that those of few are about the same.
    """
    return (QUICK, THOROUGH) if n_samples > 3 * QUICK.n_units else (QUICK,)


def minimise_error(
    job: Job,
    samples: Samples,
    rows: npt.NDArray,
    random_state: int,
    weights: npt.NDArray,
    equalising: npt.NDArray,
    size: Size,
) -> npt.NDArray | None:
    """Return weights with a lower leave-one-out error; None if the targets are constant.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets.
    rows : ndarray of int
        The rows from which a subset is drawn.
    random_state : int
        Seed of the subset.
    weights : ndarray of shape (n_features,)
        From which the descent starts.
    equalising : ndarray of shape (n_features,)
        The weights that give all features the same standard deviation.
    size : Size
        Of the network.

    Returns
    -------
    ndarray of shape (n_features,), float64
        The maximum is 1, none is negative.
    """
    job, subset = draw_subset(job, samples, random_state, rows, size.n_samples)
    problem = _Problem.of(job, subset, equalising, size.n_units)
    if problem is None:
        return None
    ratios = weights * invert_weights(equalising)
    first = np.maximum((ratios / ratios.max()) ** 2, _LEAST_RATIO) * (equalising > 0)
    v = problem.descend(first, size.n_evaluations)
    v *= equalising
    return v / v.max()


def minimise_by_signs(
    gradient_at: Callable[[npt.NDArray, int], npt.NDArray | None],
    start: npt.NDArray,
    lower: npt.NDArray,
    upper: npt.NDArray,
    n_evaluations: int,
) -> npt.NDArray:
    """Return the mean of the later points of a descent by the signs of derivatives.

    Resilient propagation without backtracking (iRprop-; C. Igel and M. Huesken, Neurocomputing 50,
    2003): each variable has a step of its own in the direction of the sign of its derivative, which
    grows while the sign stays the same, and is halved when it changes. The logarithms of weights
    have derivatives of different orders of magnitude, and need steps of about the same size. A line
    search (L-BFGS-B) also evaluates weights that are far too large.

    Parameters
    ----------
    gradient_at : callable
        ``gradient_at(point, i)`` returns the gradient of the function of evaluation i; None if it
        cannot be computed.
    start, lower, upper : ndarray of shape (n_variables,)
        The first point, and bounds.
    n_evaluations : int
    """
    points: list[npt.NDArray] = []
    point, step = start, np.full(len(start), _FIRST_STEP)
    gradient = previous = np.zeros(len(start))
    for i in range(n_evaluations):
        found = gradient_at(point, i)
        if found is None:  # too far: half the way from the last point
            step, previous = _SHRINKAGE * step, np.zeros(len(start))
            point = points[-1] if points else start
        else:
            gradient = found
            points.append(point)
        agreement = previous * gradient
        step = np.minimum(np.where(agreement > 0, _GROWTH * step, step), _MAX_STEP)
        step = np.where(agreement < 0, _SHRINKAGE * step, step)
        previous = np.where(agreement < 0, 0.0, gradient)
        point = np.clip(point - np.sign(previous) * step, lower, upper)
    return np.mean(points[len(points) // 2 :], axis=0) if points else start


@dataclass(frozen=True, eq=False)
class _Problem:
    """The samples and the targets of which the error is minimised.

    Parameters
    ----------
    job : Job
    X : array of `xp` of shape (n_samples, n_features), float32
        With equal standard deviations.
    Y : array of `xp` of shape (n_samples, n_outputs), float32
        Centred, multiplied by `root`, and divided by the norm of the result.
    n_units : int
        At most; but no more than half the samples.
    root : array of `xp` of shape (n_samples, 1), float32, or None
        Square roots of the sample weights.
    """

    job: Job
    X: Any
    Y: Any
    n_units: int
    root: Any

    @classmethod
    def of(
        cls, job: Job, samples: Samples, equalising: npt.NDArray, n_units: int
    ) -> "_Problem | None":
        """Return the problem of some samples; None if the targets are constant."""
        xp, weight, n = job.engine.xp, samples.weight, len(samples)
        share = np.full(n, 1 / n) if weight is None else weight / weight.sum()
        X = job.engine.to_device(samples.X).astype(np.float64)
        # Relative to a sample first: means of huge numbers may overflow.
        X = (X - X[0]) * xp.asarray(equalising)
        X /= float(xp.abs(X).max()) or 1.0
        share = xp.asarray(share)
        X -= share @ X
        X /= float(xp.sqrt((share @ (X * X)).max())) or 1.0
        Y = samples.targets.matrix(xp=xp)
        Y = Y - Y[0]  # exactly 0 if the targets are constant
        Y = (Y - share @ Y) * xp.sqrt(share)[:, None]
        norm = float(xp.sqrt((Y * Y).sum()))
        if not norm > 0 or not math.isfinite(norm):
            return None
        Y /= norm  # so that the error is relative to that of the mean
        root = None
        if weight is not None:
            root = xp.asarray(np.sqrt(weight / weight.mean()), np.float32)[:, None]
        n_units = max(1, min(n_units, n // 2))
        return cls(job, X.astype(np.float32), Y.astype(np.float32), n_units, root)

    @property
    def engine(self) -> Engine:
        return self.job.engine

    def descend(self, first: npt.NDArray, n_evaluations: int) -> npt.NDArray:
        """Return weights v (n_features,) with a lower error, from a first guess."""
        ordered = OrderedSamples(
            self.engine, self.X, np.arange(len(self.X)), weights=first.astype(np.float32)
        )
        scale = _FIRST_DISTANCE / typical_distance(ordered, "manhattan")
        varies = first > 0
        start = np.log(np.append(scale * first[varies], START_ALPHA))
        lower = np.append(start[:-1] - _MAX_CHANGE, np.log(_ALPHAS[0]))
        upper = np.append(start[:-1] + _MAX_CHANGE, np.log(_ALPHAS[1]))

        def weights_at(point):
            v = np.zeros(len(first))
            v[varies] = np.exp(point[:-1])
            return v

        def gradient_at(point, i):
            v = weights_at(point)
            gradient = self.gradient(v, math.exp(point[-1]), i)
            if gradient is None:
                return None
            return np.append(gradient[:-1][varies] * v[varies], gradient[-1])

        return weights_at(minimise_by_signs(gradient_at, start, lower, upper, n_evaluations))

    def gradient(self, v: npt.NDArray, alpha: float, i: int) -> npt.NDArray | None:
        """Return the derivatives of the error; None if they cannot be computed.

        Parameters
        ----------
        v : ndarray of shape (n_features,)
        alpha : float
        i : int
            The number of the evaluation, on which the centres depend.

        Returns
        -------
        ndarray of shape (n_features + 1,), float64
            With respect to v, and to the logarithm of alpha.
        """
        self.job.check_stop()
        algebra, xp, Y = self.engine.algebra, self.engine.xp, self.Y
        C = self._centers(i)
        H = self._activations(C, v)
        inverse = self._inverse(H, alpha)
        if inverse is None:
            return None
        Q = algebra.multiply(H, inverse)
        W = algebra.multiply_transposed(Q, Y)  # (n_units, n_outputs)
        residuals = Y - algebra.multiply(H, W)
        leverage = xp.minimum(xp.einsum("ij,ij->i", Q, H), np.float32(_MAX_LEVERAGE))[:, None]
        loo = residuals / (1 - leverage)
        # The derivatives of the error with respect to the residuals, and to the leverages.
        U = 2 * loo / (1 - leverage)
        s = (U * loo).sum(axis=1)[:, None]
        # Those with respect to H: residuals and leverages depend on it directly, and by the inverse
        # (the adjoint method), G = 2 (s Q - H Q'sQ) + (H P - U) W' - residuals P'.
        P = algebra.multiply_transposed(Q, U)
        rooted = xp.sqrt(s) * Q
        S = self._gram(rooted)
        by_alpha = algebra.inner(P, W) - algebra.inner(rooted, rooted)
        Q *= 2 * s
        G = Q  # in its memory: Q is not needed any more
        algebra.gemm(G.T, S, H.T, -2.0)
        algebra.gemm(G.T, W, (algebra.multiply(H, P) - U).T)
        algebra.gemm(G.T, P, residuals.T, -1.0)
        G *= H
        by_weight = -self.engine.difference_sums(self.X, C, G).sum(axis=0)
        gradient = np.append(self.engine.to_host(by_weight), alpha * by_alpha)
        return gradient if np.isfinite(gradient).all() else None

    def _centers(self, i):
        """Return the next `n_units` samples in each evaluation, and then the first ones again."""
        first = i % (len(self.X) // self.n_units) * self.n_units
        return self.X[first : first + self.n_units]

    def _activations(self, C, v):
        """Return H, with rows multiplied by the roots of the sample weights."""
        engine = self.engine
        v = engine.xp.asarray(v, np.float32)
        X, units = self.X * v, engine.to_host(C * v)
        layer = RBFLayer(units, 1.0, "manhattan", LAPLACIAN)
        H = engine.hidden(engine.prepare(layer), X)
        return H if self.root is None else H * self.root

    def _gram(self, A):
        """Return A'A, both triangles, with contiguous columns."""
        xp, m = self.engine.xp, A.shape[1]
        gram = xp.zeros((m, m), A.dtype, order="F")
        self.engine.algebra.syrk(gram, A.T, allow_workspace=True)
        gram[...] = xp.tril(gram) + xp.tril(gram, -1).T
        return gram

    def _inverse(self, H, alpha):
        """Return ``(H'H + alpha I)^-1``, float32; None if it cannot be computed."""
        algebra, xp = self.engine.algebra, self.engine.xp
        factor = self._gram(H.astype(np.float64))
        algebra.add_to_diagonal(factor, alpha)
        if not algebra.factorise(factor):
            return None
        inverse = xp.eye(H.shape[1], order="F")
        algebra.solve_lower(factor, inverse)
        algebra.solve_lower(factor, inverse, transposed=True)
        return inverse.astype(np.float32)
