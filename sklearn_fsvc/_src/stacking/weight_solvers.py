"""Non-negative weights of base estimators by their leave-one-out scores (stacking).

D. H. Wolpert 1992, "Stacked generalization"; L. Breiman 1996, "Stacked regressions", who shows that
weights have to be non-negative to generalise.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax

from ..engines.threads import limit_blas_threads

# Base estimators with less than this fraction of the total weight are not worth their cost.
_MIN_WEIGHT = 0.05
# Upper bound of weights: without it, base estimators that are always right have no optimal weights.
_MAX_WEIGHT = 1e4
# Sum of the weights at the start of the optimisation.
_FIRST_SUM = 5


@limit_blas_threads(1)  # small matrices: more threads wait for each other
def weigh_by_squared_error(scores: npt.NDArray, Y: npt.NDArray, weight: npt.NDArray) -> npt.NDArray:
    """Return the weights with the least squared error: non-negative least squares.

    Parameters
    ----------
    scores : ndarray of shape (n_estimators, n_rows, n_outputs)
    Y : ndarray of shape (n_rows, n_outputs)
    weight : ndarray of shape (n_rows,)
        Sample weights.

    Returns
    -------
    weights : ndarray of shape (n_estimators,)
        1 for the best base estimator, and 0 for the others, if no combination reduces the error.
    """
    gram = np.einsum("i,kio,lio->kl", weight, scores, scores, optimize=True)
    right = np.einsum("i,kio,io->k", weight, scores, Y, optimize=True)

    def solve(subset):
        # Normal equations as a least squares problem: the root of the Gram matrix by eigenvectors,
        # without directions that are rounding errors (equal estimators).
        values, vectors = eigh(gram[np.ix_(subset, subset)])
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        if not kept.any():  # nnls of an empty matrix would return uninitialised memory
            return np.zeros(len(subset))
        root, vectors = np.sqrt(values[kept]), vectors.T[kept]
        return nnls(root[:, None] * vectors, vectors @ right[subset] / root)[0]

    weights = _drop_small(solve, len(scores))
    if not weights.any():
        weights[squared_errors(scores, Y, weight).argmin()] = 1.0
    return weights


@limit_blas_threads(1)  # as above
def weigh_by_log_loss(
    scores: npt.NDArray, Y: npt.NDArray, sizes: Sequence[int], weight: npt.NDArray
) -> npt.NDArray:
    """Return the weights, which sum to 1, with the least log-loss of a softmax of scores.

    Ridge scores are too small for confident samples. The squared error penalises that, so that it
    prefers base estimators with larger scores; weights by the log-loss rescale each instead.

    Parameters
    ----------
    scores, Y, weight
        As of `weigh_by_squared_error`; Y are class probabilities.
    sizes : sequence of int
        Numbers of classes of the outputs, whose columns are concatenated.
    """
    ends, share = np.cumsum(sizes), (weight / weight.sum())[:, None]
    columns = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def loss_and_gradient(weights, scores):
        loss, logits = 0.0, np.tensordot(weights, scores, 1)
        for part in columns:
            log_p = log_softmax(logits[:, part], axis=1)
            loss -= (share * Y[:, part] * log_p).sum()
            logits[:, part] = share * (np.exp(log_p) - Y[:, part])
        return loss, np.tensordot(scores, logits, 2)

    def solve(subset):
        bounds = [(0, _MAX_WEIGHT)] * len(subset)
        start = np.full(len(subset), _FIRST_SUM / len(subset))
        return minimize(
            loss_and_gradient, start, scores[subset], method="L-BFGS-B", jac=True, bounds=bounds
        ).x

    weights = _drop_small(solve, len(scores))
    return weights / weights.sum() if weights.any() else np.full(len(weights), 1 / len(weights))


def squared_errors(
    scores: Sequence[npt.NDArray] | npt.NDArray, Y: npt.NDArray, weight: npt.NDArray
) -> npt.NDArray:
    """Return the weighted mean squared error of each base estimator, summed over outputs."""
    return np.array([weight @ np.square(Y - s).sum(axis=1) for s in scores]) / weight.sum()


def _drop_small(solve: Callable[[npt.NDArray], npt.NDArray], n: int) -> npt.NDArray:
    """Return the weights of n base estimators, refitted without small ones until all are large.

    ``solve(subset)`` returns the weights of those with the indices `subset`.
    """
    subset = np.arange(n)
    while True:
        weights = np.zeros(n)
        weights[subset] = solve(subset)
        min_weight = _MIN_WEIGHT * weights.sum()
        if (weights[subset] >= min_weight).all():
            return weights
        subset = subset[weights[subset] >= min_weight]
