"""Weights of members of an ensemble, 0 or more, by their scores of rows that they have not seen."""

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax

# Part of the sum of weights under which a member is worth less than it costs.
_LEAST = 0.05
# Scores are multiplied by no more: members that are always right have no best weights.
_MOST = 1e4


def weigh_by_squared_error(scores, Y, weight):
    """The weights with the least squared error of the sum of scores: non-negative least squares.

    Parameters
    ----------
    scores : ndarray of shape (n_members, n_rows, n_outputs)
    Y : ndarray of shape (n_rows, n_outputs)
    weight : ndarray of shape (n_rows,)
        Of the rows.

    Returns
    -------
    weights : ndarray of shape (n_members,)
        1 for the best member alone where no sum is better than nothing.
    """
    gram = np.einsum("i,kio,lio->kl", weight, scores, scores, optimize=True)
    right = np.einsum("i,kio,io->k", weight, scores, Y, optimize=True)

    def solve(used):
        values, vectors = np.linalg.eigh(gram[np.ix_(used, used)])
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        if not kept.any():  # scores of 0, of which nnls would make what is in the memory
            return np.zeros(len(used))
        root, vectors = np.sqrt(values[kept]), vectors.T[kept]
        return nnls(root[:, None] * vectors, vectors @ right[used] / root)[0]

    weights = _sparse(solve, len(scores))
    if not weights.any():
        weights[squared_errors(scores, Y, weight).argmin()] = 1.0
    return weights


def weigh_by_log_loss(scores, Y, sizes, weight):
    """The weights, which add up to 1, with the least log-loss of a softmax of the sum of scores.

    Scores of a ridge are too small for rows that it is sure of. Squared errors count that, and
    prefer members that say more; the log-loss scales each member by itself.

    Arrays are as of `weigh_by_squared_error`: each output is a class, and Y says how much of each
    row is of it. Classes of the columns of y follow one another, of which `sizes` says how many
    each has.
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

    def solve(used):
        bounds = [(0, _MOST)] * len(used)
        start = np.full(len(used), 5 / len(used))
        found = minimize(
            loss_and_gradient, start, scores[used], method="L-BFGS-B", jac=True, bounds=bounds
        )
        return found.x

    weights = _sparse(solve, len(scores))
    return weights / weights.sum() if weights.any() else np.full(len(weights), 1 / len(weights))


def squared_errors(scores, Y, weight):
    """Mean squared error of each member, over rows with their weights, summed over outputs."""
    return np.array([weight @ np.square(Y - own).sum(axis=1) for own in scores]) / weight.sum()


def _sparse(solve, n):
    """The weights of n members; without those that have little, which are left out by and by.

    Parameters
    ----------
    solve : callable
        ``solve(used)`` gives the weights of the members with these numbers.
    """
    used = np.arange(n)
    while True:
        weights = np.zeros(n)
        weights[used] = solve(used)
        least = _LEAST * weights.sum()
        if (weights[used] >= least).all():
            return weights
        used = used[weights[used] >= least]
