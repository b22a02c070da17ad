"""Scores of the training rows by readouts that have not seen them."""

from copy import copy

import numpy as np

from ..engines.algebra import HOST
from ..engines.blas_threads import at_most
from .posterior import Posterior
from .statistics import RidgeStatistics

# 1 - leverage under which a row is taken to be fitted exactly: nothing can be said of it
# without it. Of the order of the rounding of a leverage.
_LEAST = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}


class PressScorer:
    """Scores of the training rows by readouts that have not seen them, for some penalties.

    A row that is left out changes its own score alone, and by a known amount: with the
    leverage ``s = w (1 / n + (h - mean)' (A + alpha I)^-1 (h - mean))`` the score without
    it is ``y - (y - score) / (1 - s)`` (the PRESS formula). Rows that are equal are one row
    to the equations, of the sum of their weights and the mean of their targets: with these for w
    and y it is the score without all of them. The hidden layer stays as it is, centres among
    the rows too.

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
        See `PressResult`; of the rows so far.
    noise : array of shape (n_alphas, n_outputs)
        Mean over the rows so far of ``w e e_left``, of their residuals with and without
        themselves: an estimate of the variance of the noise, see `posterior`.
    """

    def __init__(self, statistics, alphas, dtype):
        self.algebra, self.dtype = statistics.algebra, np.dtype(dtype)
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
        self.noise = self.xp.zeros((len(alphas), len(statistics.y)))

    @property
    def xp(self):
        """Namespace of the arrays."""
        return self.algebra.xp

    def on(self, algebra):
        """The same where another algebra has its arrays, for other rows."""
        result = copy(self)
        result.algebra, result.solutions = algebra, None
        for name in ("_basis", "_scale", "_readouts", "_mean_y", "_mean_h"):
            setattr(result, name, algebra.here(getattr(self, name)))
        result.errors = algebra.xp.zeros(self.errors.shape)
        result.noise = algebra.xp.zeros(self.noise.shape)
        return result

    def __getstate__(self):
        """They travel as host arrays, wherever they are."""
        arrays = {name: self._to_host(value) for name, value in vars(self).items()}
        return arrays | {"algebra": HOST, "solutions": None}

    def _to_host(self, value):
        return self.algebra.to_host(value) if isinstance(value, self.xp.ndarray) else value

    def take_in(self, found):
        """Take in the sums of rows that others have scored."""
        self.errors += self.algebra.here(found.errors)
        self.noise += self.algebra.here(found.noise)

    @staticmethod
    def nbytes(n_units, itemsize, algebra):
        """Bytes that it takes on the engine at most."""
        whitening = RidgeStatistics.whitening_bytes(n_units, algebra)
        return whitening + n_units * n_units * itemsize

    @at_most(1)
    def scores(self, H, Y, weight=None, together=None):
        """Scores (rows, n_alphas, n_outputs) of rows, each without itself, in float64.

        Adds to `errors`. H is overwritten. With `together`, the weights and mean targets of the
        rows that are equal to each, scores are those without all of them; errors are as before.
        """
        xp = self.xp
        H -= self._mean_h
        U = self.algebra.multiply(H, self._basis)
        scores = (
            self.algebra.multiply(U, self._readouts)
            .astype(np.float64)
            .reshape(len(H), -1, Y.shape[1])
        )
        scores += self._mean_y
        leverage = (xp.multiply(U, U, out=U) @ self._scale).astype(np.float64) + 1 / self._n
        without = None
        if together is not None:
            weights, means = together
            left = xp.maximum(1 - leverage * weights[:, None], _LEAST[self.dtype])
            without = means[:, None, :] - (means[:, None, :] - scores) / left[:, :, None]
        if weight is not None:
            leverage *= xp.asarray(weight)[:, None]
        left = xp.maximum(1 - leverage, _LEAST[self.dtype])
        kept = xp.subtract(Y[:, None, :], scores, out=scores)
        residual = kept / left[:, :, None]
        kept *= residual
        weight = xp.ones(len(H)) if weight is None else xp.asarray(weight)
        self.noise += xp.tensordot(weight, kept, 1) / self._n
        self.errors += xp.tensordot(weight, (residual**2).sum(axis=2), 1) / self._n
        return xp.subtract(Y[:, None, :], residual, out=residual) if without is None else without

    def posterior(self, k):
        """The `Posterior` at penalty k, by all rows.

        Without row i, the variance of what is foretold of it is that of the noise over
        ``1 - s``: with the noise that makes the squared leave-one-out residuals, each in
        units of its own variance, 1 on average, the bands are as wide as they must be.
        """
        root = self._basis * self.xp.sqrt(self._scale[:, k])
        return Posterior(root, self._mean_h, self._n, self.xp.sqrt(self.noise[k]))
