"""Scores of the training rows by readouts that have not seen them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engines.algebra import HOST
from ..engines.blas_threads import at_most
from .leave_one_out import least_remainder, leave_out
from .packed_symmetric import WIDTH
from .posterior import Posterior
from .statistics import RidgeStatistics


class PressScorer:
    """Scores of the training rows by readouts that have not seen them, for some penalties.

    A row that is left out changes its own score alone, and by a known amount: see
    `leave_one_out`. Rows that are equal are one row to the equations, of the sum of their weights
    and the mean of their targets: with these for w and y it is the score without all of them. The
    hidden layer stays as it is, centres among the rows too.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all rows.
    alphas : sequence of float
    dtype : dtype
        In which rows are whitened.

    Attributes
    ----------
    solutions : list of Solution
    errors : array of shape (n_alphas,)
        See `PressResult`; of the rows so far. Infinite where the score of a row is not known.
    noise, noise_weight : arrays of shape (n_alphas, n_outputs) and (n_alphas,)
        Sums over the rows so far of ``w (1 - s) e^2``, of their residuals e, and of
        ``w (1 - s)^2``: their quotient estimates the variance of the noise, see `posterior`.
    """

    def __init__(self, statistics, alphas, dtype):
        self.algebra, self.dtype = statistics.algebra, np.dtype(dtype)
        self.solutions, self._bases = [], []
        for whitening in statistics.whiten(alphas):
            solutions, basis = _readouts_in(whitening, statistics, self.dtype)
            self.solutions += solutions
            self._bases.append(basis)
        self.alphas = self.xp.asarray(np.array(alphas, np.float64))
        self._n, self._mean_y = statistics.n, statistics.y / statistics.n
        self._mean_h = statistics.mean.astype(dtype)
        self.errors = self.xp.zeros(len(alphas))
        self.noise = self.xp.zeros((len(alphas), len(statistics.y)))
        self.noise_weight = self.xp.zeros(len(alphas))

    @property
    def xp(self):
        """Namespace of the arrays."""
        return self.algebra.xp

    def on(self, algebra):
        """Return the same where another algebra has its arrays, for other rows."""
        result = object.__new__(type(self))  # `copy` would ask how it travels
        vars(result).update(vars(self))
        result.algebra, result.solutions = algebra, None
        for name in ("_mean_y", "_mean_h", "alphas"):
            setattr(result, name, algebra.here(getattr(self, name)))
        result._bases = [basis.map(algebra.here) for basis in self._bases]
        result.errors = algebra.xp.zeros(self.errors.shape)
        result.noise = algebra.xp.zeros(self.noise.shape)
        result.noise_weight = algebra.xp.zeros(self.noise_weight.shape)
        return result

    def __getstate__(self):
        """Return the state in arrays of the host, wherever they are."""
        arrays = {name: self._to_host(value) for name, value in vars(self).items()}
        bases = [basis.map(self._to_host) for basis in self._bases]
        return arrays | {"algebra": HOST, "solutions": None, "_bases": bases}

    def _to_host(self, value):
        return self.algebra.to_host(value) if isinstance(value, self.xp.ndarray) else value

    def take_in(self, found):
        """Take in the sums of rows that others have scored."""
        self.errors += self.algebra.here(found.errors)
        self.noise += self.algebra.here(found.noise)
        self.noise_weight += self.algebra.here(found.noise_weight)

    @staticmethod
    def nbytes(n_units, itemsize, algebra, n_bases=1):
        """Bytes that it takes on the engine at most."""
        whitening = RidgeStatistics.whitening_bytes(n_units, algebra)
        return whitening + (n_bases + 2 * (algebra.n_parts - 1)) * n_units**2 * itemsize

    @staticmethod
    def row_bytes(n_units, n_outputs, itemsize, algebra, n_alphas):
        """Bytes that `scores` takes for a row."""
        of_outputs = 8 * (8 * n_outputs + 6) * n_alphas
        return (2 * algebra.n_parts + 1) * n_units * itemsize + of_outputs

    @at_most(1)
    def scores(self, H, Y, weight=None, together=None):
        """Scores (rows, n_alphas, n_outputs) of rows, each without itself, in float64.

        Adds to `errors`. H is overwritten. With `together`, the weights and mean targets of the
        rows that are equal to each, scores are those without all of them; errors are as before.
        """
        xp = self.xp
        H = H.astype(self.dtype, copy=False)
        H -= self._mean_h
        norms = (H * H).sum(axis=1).astype(np.float64)
        least = least_remainder(self.dtype, norms[:, None], self.alphas)
        scores, leverage = self._by_all_rows(H, Y.shape[1])
        without = None
        if together is not None:
            weights, means = together
            remainder = 1 - leverage * weights[:, None]
            without, _ = leave_out(xp, means[:, None], scores, remainder, least, self._mean_y)
        if weight is not None:
            leverage *= xp.asarray(weight)[:, None]
        Y, remainder = Y[:, None, :], 1 - leverage
        left, is_unknown = leave_out(xp, Y, scores, remainder, least, self._mean_y)
        weight = xp.ones(len(H)) if weight is None else xp.asarray(weight)
        self.errors += xp.tensordot(weight, ((Y - left) ** 2).sum(axis=2), 1) / self._n
        self.errors += xp.where(is_unknown.any(axis=0), np.inf, 0.0)
        self.noise += xp.tensordot(weight, remainder[:, :, None] * (Y - scores) ** 2, 1)
        self.noise_weight += xp.tensordot(weight, remainder**2, 1)
        return left if without is None else without

    def _by_all_rows(self, H, n_outputs):
        """Scores (rows, n_alphas, n_outputs) and leverages (rows, n_alphas) of centred rows."""
        xp, H = self.xp, self.algebra.split(H)
        U, found = xp.empty(H[0].shape, self.dtype), []
        for basis in self._bases:
            basis.transform(H, U, self.algebra)
            scores = self.algebra.multiply(U, basis.readouts).astype(np.float64)
            scores = scores.reshape(len(U), -1, n_outputs)
            found.append((scores, (xp.multiply(U, U, out=U) @ basis.scale).astype(np.float64)))
        scores, leverage = (xp.concatenate(each, axis=1) for each in zip(*found, strict=True))
        scores += self._mean_y
        leverage += 1 / self._n
        return scores, leverage

    def posterior(self, k):
        """The `Posterior` at penalty k, by all rows.

        Without row i, the variance of what is predicted of it is that of the noise over
        ``1 - s``: the noise makes the squared leave-one-out residuals, each in units of its own
        variance, 1 on average. Rows count for ``(1 - s)^2``: new rows are hardly ever as near to a
        unit as the row that it is centred on, whose residual tells of the unit, not of the noise.
        """
        noise = self.xp.sqrt(self.noise[k] / self.noise_weight[k])
        for basis in self._bases:
            if k < basis.scale.shape[1]:
                root = basis.vectors * self.xp.sqrt(basis.scale[:, k])
                return Posterior(root, self._mean_h, self._n, noise)
            k -= basis.scale.shape[1]


@dataclass(frozen=True, eq=False)
class _Basis:
    """A `Whitening` in the dtype of H, and the readouts of its penalties in this basis."""

    vectors: Any  # (n_units, n_directions)
    scale: Any  # (n_directions, n_penalties)
    readouts: Any  # (n_directions, n_penalties * n_outputs)
    is_triangular: bool  # whether `vectors` has only zeros below the diagonal

    def map(self, function):
        """Return the same with a function of each array in its place."""
        arrays = {name: function(getattr(self, name)) for name in ("vectors", "scale", "readouts")}
        return replace(self, **arrays)

    def transform(self, H, U, algebra):
        """Write rows in this basis into U; H is what `algebra.split` gives for them."""
        vectors, m = algebra.split(self.vectors), U.shape[1]
        width = WIDTH if self.is_triangular else m
        for first in range(0, m, width):
            columns = slice(first, first + width)
            used = slice(columns.stop if self.is_triangular else None)
            algebra.gemm_split(
                U.T[columns], [v[used, columns].T for v in vectors], [h[:, used].T for h in H]
            )


def _readouts_in(whitening, statistics, dtype):
    """The solutions for the penalties of a `Whitening`, and it as a `_Basis`."""
    vectors, scale, problems, is_triangular = whitening
    target = vectors.T @ statistics.right
    solutions = [
        statistics._solution(vectors @ (scale[:, [k]] * target), problem)
        for k, problem in enumerate(problems)
    ]
    readouts = (scale[:, :, None] * target[:, None, :]).reshape(len(target), -1)
    arrays = (statistics.xp.ascontiguousarray(a, dtype) for a in (vectors, scale, readouts))
    return solutions, _Basis(*arrays, is_triangular)
