"""Ridge readouts of fewer rows than units: solved in the dual, whose order is that of the rows.

For rows A = sqrt(w) (h - mean) and targets R = sqrt(w) (y - mean), one matrix identity says
``(A'A + alpha I)^-1 A'R = A' (A A' + alpha I)^-1 R``: the dual form of ridge regression (Saunders,
Gammerman, Vovk, ICML 1998). So the rows of H are kept here; they are less than H'H would be.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..data.streaming import Consumer, stream
from ..data.validation import NotNumbers, check_numbers
from ..engines.algebra import HOST
from ..engines.threads import at_most
from .cross_validation import folds_for, n_validation_units, parts_to_hold_out, search
from .linear import Solution
from .ridge import refuse

# Rows for each unit up to which the dual takes less time, and rows at most; and rows up to which
# either takes next to none, and the dual has more digits.
_PART, _MOST, _FEW = 0.45, 4096, 1000
# Numbers of a row that are there for each other row: products, a part of them, and a factor.
_COPIES = 4


def suits(job, layer, samples):
    """Whether so few rows are solved in the dual: in floats, on one host, and there is room.

    Sums of activations in steps are exact, and stay so.
    """
    n, m, engine = len(samples), layer.n_units, job.engine
    is_here = engine.xp is np and engine.team is None
    is_few = n <= max(min(_PART * m, _MOST), min(m, _FEW)) and layer.steps is None
    return is_here and is_few and 2 * 8 * n * (2 * m + _COPIES * n) <= job.memory_limit


def gather_rows(job, layer, samples):
    """The `FewRows` of all samples."""
    n = len(samples)
    H = np.empty((n, layer.n_units))

    def take(part, block):
        H[part] = block

    stream(job.reserving(H.nbytes), layer, samples.X, Consumer(take))
    try:
        check_numbers(H.sum(axis=0), np)
    except NotNumbers:
        refuse(job, layer, samples.X, None)
    origin, is_uncovered = H.mean(axis=0), ~H.any(axis=1)
    H -= origin
    weight = np.ones(n) if samples.weight is None else samples.weight.astype(np.float64)
    return FewRows(H, origin, samples.targets.matrix(slice(None), np), weight, is_uncovered)


def search_few(few, random, start):
    """Return the `Found` penalty of the least held-out error: see `held_out.train_held_out`."""
    parts = folds_for(parts_to_hold_out(np.flatnonzero(few.weight), random), few.H.shape[1])
    judges = few.leading(n_validation_units(few.H.shape[1]))
    n = few.weight.sum() - min(few.weight[part].sum() for part in parts)
    return search(lambda alpha: judges.error(alpha, parts), n, judges.H.shape[1], start)


@dataclass(frozen=True, eq=False)
class Dual:
    """The equations of some rows, solved."""

    # (n_rows, n_rows): L of ``L L' = A A' + alpha I + scale u u'``, where u is `root` as a unit
    # vector. A'u = 0, so the last term changes no solution; it keeps u, in which nothing was
    # learned, from hiding the rest of the inverse where alpha is small.
    factor: np.ndarray
    dual_coef: np.ndarray  # (n_rows, n_outputs): ``(A A' + alpha I)^-1 R``
    # (n_rows,): roots of the weights, and the weights as shares of their sum.
    root: np.ndarray
    share: np.ndarray
    mean: np.ndarray  # (n_outputs,): of Y
    of_u: float  # 1 / (alpha + scale): what the inverse does to u
    is_uncovered: np.ndarray  # (n_rows,): whether H is 0

    @property
    def weights(self):
        """What each row adds to W, times itself less the mean, (n_rows, n_outputs)."""
        return self.root[:, None] * self.dual_coef

    @property
    def centred(self):
        """What each row adds to W, times itself."""
        return self.weights - np.outer(self.share, self.weights.sum(axis=0))

    @at_most(1)
    def left_out(self, rows, places, root):
        """Return residuals of groups of equal rows, and their block of I - S, both by alpha.

        With ``I - S = alpha (A A' + alpha I)^-1 - u u'`` and residuals of alpha times `dual_coef`,
        alpha cancels: nothing is lost where it is small. (The dual form of PRESS, as of kernel
        ridge regression and least-squares SVMs: G. C. Cawley and N. L. C. Talbot 2004, "Fast exact
        leave-one-out cross-validation of sparse least-squares support vector machines".)

        Parameters
        ----------
        rows, places : ndarray of int of shape (n,)
            Rows, and the group that each is in.
        root : ndarray of shape (n_groups, 1)
            Square roots of the weights of the groups.

        Returns
        -------
        residuals : ndarray of shape (n_groups, n_outputs)
            Times `root`.
        remainder : ndarray of shape (n_groups, n_groups)
        """
        # Equal rows of weights w are one row of weight sum w: their direction as a unit vector.
        E = np.zeros((len(self.root), len(root)), order="F")
        E[rows, places] = self.root[rows] / root[places, 0]
        residuals, u = HOST.cross(E, self.dual_coef), E.T @ np.sqrt(self.share)
        HOST.solve_lower(self.factor, E)
        return residuals, HOST.cross(E, E) - self.of_u * np.outer(u, u)


@dataclass(frozen=True, eq=False)
class FewRows:
    """Rows of H with targets and weights, and the ridge readouts of some of them."""

    # (n_rows, n_units), float64: less an origin, such as its mean: then products of rows do not
    # cancel.
    H: np.ndarray
    origin: np.ndarray  # (n_units,)
    Y: np.ndarray  # (n_rows, n_outputs)
    weight: np.ndarray  # (n_rows,)
    is_uncovered: np.ndarray  # (n_rows,): whether H is 0

    def leading(self, n_units):
        """The first units alone."""
        return replace(self, H=self.H[:, :n_units], origin=self.origin[:n_units])

    @cached_property
    def products(self):
        """H H'."""
        K = np.zeros((len(self.H), len(self.H)), order="F")
        HOST.syrk(K, self.H)
        return K + np.tril(K, -1).T

    @at_most(1)
    def _dual(self, rows, alpha):
        """The `Dual` of some rows; None where it is ill-conditioned."""
        weight = self.weight[rows]
        root, share = np.sqrt(weight), weight / weight.sum()
        K = self.products[np.ix_(rows, rows)]
        own = K @ share
        K -= own[:, None]
        K -= own - share @ own
        K *= root[:, None] * root
        largest = np.trace(K) + alpha * len(K)
        # What rounding has made of an eigenvalue of 0.
        if not alpha > 2 * len(K) * np.finfo(float).eps * largest:
            return None
        scale = largest / len(K)  # the mean of the eigenvalues
        K += scale * np.sqrt(np.outer(share, share))
        K.flat[:: len(K) + 1] += alpha
        K = np.asfortranarray(K)
        mean = share @ self.Y[rows]
        found = np.asfortranarray(root[:, None] * (self.Y[rows] - mean))
        if not HOST.factorise(K):
            return None
        HOST.solve_lower(K, found)
        HOST.solve_lower(K, found, transposed=True)
        of_u = 1 / (alpha + scale)
        return Dual(K, found, root, share, mean, of_u, self.is_uncovered[rows])

    def solve_well(self, alpha):
        """The readout of all rows, a `Solution`, and its `Dual`; None where ill-conditioned."""
        dual = self._dual(np.arange(len(self.H)), alpha)
        if dual is None:
            return None, None
        centre = HOST.cross(self.H, dual.share[:, None])[:, 0]
        W = HOST.cross(dual.centred, self.H)
        b = dual.mean - HOST.multiply(W, (self.origin + centre)[:, None])[:, 0]
        return Solution(W, b), dual

    def error(self, alpha, parts):
        """Mean of ``|y - score|^2`` over parts of the rows, each scored by all others.

        With their weights; infinite where some equations are ill-conditioned.
        """
        total, everybody = 0.0, np.arange(len(self.H))
        for held in parts:
            kept = np.setdiff1d(everybody, held)
            dual = self._dual(kept, alpha)
            if dual is None:
                return np.inf
            centred, share = dual.centred, dual.share
            K = self.products[np.ix_(held, kept)]
            scores = HOST.multiply(K, centred) + dual.mean
            scores -= share @ HOST.multiply(self.products[np.ix_(kept, kept)], centred)
            total += self.weight[held] @ np.square(self.Y[held] - scores).sum(axis=1)
        return total / self.weight[np.concatenate(parts)].sum()
