"""Ridge readouts of layers that stream by: their statistics, and leave-one-out."""

import math
from typing import NamedTuple

import numpy as np

from ..engines.linalg import algebra
from ..rows.streaming import budget, stream, stream_all
from ..rows.tiling import check_fits
from .statistics import RidgeStatistics

# 1 - leverage under which a row is taken to be fitted exactly: nothing can be said of it
# without it. Of the order of the rounding of a leverage.
_LEAST = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}


def one_hot(codes, n_classes, xp=np):
    """Targets (rows, classes) in float64: 1 for the row's class, 0 for the others."""
    return (xp.asarray(codes)[:, None] == xp.arange(n_classes)).astype(np.float64)


def gather(
    engine, layers, X, codes, n_classes, weight, *, rows=None, dtype=None, kept_bytes=0,
    max_memory=None, **progress,
):  # fmt: skip
    """The statistics of each of `layers` over rows of X, in one pass.

    Parameters
    ----------
    layers : list
        As for `stream_all`.
    codes : ndarray of int, weight : ndarray or None
        Of all rows of X.
    rows : ndarray of int, optional
        Row numbers; all by default.
    dtype : dtype, optional
        In which H is multiplied with itself; what is fastest on the engine by default.
    kept_bytes : int
        What else of `max_memory` is taken.

    Returns
    -------
    list of RidgeStatistics
    """
    m, xp = layers[0].n_units, engine.xp
    dtype = engine.statistics_dtype(layers[0]) if dtype is None else np.dtype(dtype)
    statistics = []

    def consume(i, part, H):
        while len(statistics) <= i:
            statistics.append(RidgeStatistics(m, n_classes, xp, dtype))
        part = part if rows is None else rows[part]
        Y = one_hot(codes[part], n_classes, xp)
        statistics[i].update(H, Y, None if weight is None else weight[part])

    hidden_dtype = layers[0].hidden_dtype
    widened = m * dtype.itemsize if dtype != hidden_dtype else 0
    gram_bytes = algebra(xp).gram_bytes(m, dtype)
    solution = kept_bytes + RidgeStatistics.solution_bytes(m, xp)
    check_fits("the solution of the readout", solution, budget(engine, max_memory))
    stream_all(
        engine, layers, X, consume, rows=rows, max_memory=max_memory,
        # As tall as four times the units: a product adds to all of the statistics, so its
        # rows should outnumber theirs.
        tile_rows=max(4 * m, 1024),
        consumer_bytes=kept_bytes + len(layers) * RidgeStatistics.nbytes(m) + gram_bytes,
        consumer_row_bytes=40 * n_classes + widened,
        **progress,
    )  # fmt: skip
    return statistics


class LeftOut(NamedTuple):
    """What `leave_one_out` finds.

    Attributes
    ----------
    solutions : list of Solution
        One for each penalty.
    errors : ndarray of shape (n_alphas,)
        Mean squared leave-one-out error, over rows with their weights, summed over outputs.
    scores : ndarray of shape (n_alphas, n_rows, n_classes) or None
        Decision values of each row without itself, in the dtype of H.
    outside : ndarray of int
        Rows of which H is 0, where `scores` were asked for.
    """

    solutions: list
    errors: np.ndarray
    scores: np.ndarray | None
    outside: np.ndarray


def leave_one_out(
    engine, layer, X, codes, n_classes, weight, statistics, alphas, keep, *, max_memory=None,
    **progress,
):  # fmt: skip
    """Ridge readouts and their leave-one-out errors, in one more pass over the rows.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all rows.
    keep : bool
        Whether to keep the scores too: always for one penalty, and for several if a quarter
        of the memory holds them.

    Returns
    -------
    LeftOut
    """
    xp, m, dtype = engine.xp, layer.n_units, layer.hidden_dtype
    needed = LeaveOneOut.nbytes(m, dtype.itemsize, xp)
    memory = budget(engine, max_memory)
    check_fits("leave-one-out", needed, memory)
    left_out = LeaveOneOut(statistics, alphas, dtype)
    shape = len(alphas), len(X), n_classes
    if len(alphas) > 1:
        kept_bytes = dtype.itemsize * math.prod(shape)
        keep = keep and kept_bytes <= memory // 4
        needed += keep * kept_bytes
    kept = np.empty(shape, dtype) if keep else None
    outside = [np.empty(0, np.intp)]

    def consume(part, H):
        is_outside = engine.to_host(~H.any(axis=1)) if keep else None
        Y = one_hot(codes[part], n_classes, xp)
        scores = left_out.scores(H, Y, None if weight is None else weight[part])
        if keep:
            kept[:, part] = engine.to_host(scores).swapaxes(0, 1)
            outside.append(part.start + np.flatnonzero(is_outside))

    row_bytes = m * dtype.itemsize + 8 * (4 * n_classes + 2) * len(alphas)
    stream(
        engine, layer, X, consume, max_memory=max_memory, consumer_bytes=needed,
        consumer_row_bytes=row_bytes, **progress,
    )  # fmt: skip
    errors = engine.to_host(left_out.errors)
    return LeftOut(left_out.solutions, errors, kept, np.concatenate(outside))


class LeaveOneOut:
    """Scores of the training rows by readouts that have not seen them, for some penalties.

    A row that is left out changes its own score alone, and by a known amount: with the
    leverage ``s = w (1 / n + (h - mean)' (A + alpha I)^-1 (h - mean))`` the score without
    it is ``y - (y - score) / (1 - s)`` (the PRESS formula). The hidden layer stays as it
    is, centres among the rows too.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all rows.
    alphas : sequence of float
    dtype : dtype
        Of H.

    Attributes
    ----------
    solutions : list of Solution
    errors : array of shape (n_alphas,)
        See `LeftOut`; of the rows so far.
    """

    def __init__(self, statistics, alphas, dtype):
        self.xp, self.dtype = statistics.xp, np.dtype(dtype)
        basis, scale, problems = statistics.whiten(alphas)
        target = basis.T @ statistics.right
        self.solutions = [
            statistics._solution(basis @ (scale[:, [k]] * target), problem)
            for k, problem in enumerate(problems)
        ]
        readouts = scale[:, :, None] * target[:, None, :]
        self._basis, self._scale, self._readouts = (
            self.xp.ascontiguousarray(a, dtype=dtype)
            for a in (basis, scale, readouts.reshape(len(target), -1))
        )
        self._n, self._mean_y = statistics.n, statistics.y / statistics.n
        self._mean_h = statistics.mean.astype(dtype)
        self.errors = self.xp.zeros(len(alphas))

    @staticmethod
    def nbytes(n_units, itemsize, xp):
        """Bytes that it takes on the engine at most."""
        return algebra(xp).n_matrices * n_units * n_units * 8 + n_units * n_units * itemsize

    def scores(self, H, Y, weight=None):
        """Scores (rows, n_alphas, n_outputs) of rows, each without itself, in float64.

        Adds to `errors`. H is overwritten.
        """
        xp = self.xp
        H -= self._mean_h
        U = H @ self._basis
        scores = (U @ self._readouts).astype(np.float64).reshape(len(H), -1, Y.shape[1])
        scores += self._mean_y
        leverage = (xp.multiply(U, U, out=U) @ self._scale).astype(np.float64) + 1 / self._n
        if weight is not None:
            leverage *= xp.asarray(weight)[:, None]
        left = xp.maximum(1 - leverage, _LEAST[self.dtype])
        residual = (Y[:, None, :] - scores) / left[:, :, None]
        squared = (residual**2).sum(axis=2)
        if weight is not None:
            squared *= xp.asarray(weight)[:, None]
        scores = xp.subtract(Y[:, None, :], residual, out=scores)
        self.errors += squared.sum(axis=0) / self._n
        return scores
