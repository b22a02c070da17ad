"""scale="auto": how strongly the units bend, from the data."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..data.streaming import take_rows
from ..engines.threads import at_most

# Rows, and numbers in them, that are looked at: at most.
_ROWS, _NUMBERS = 1000, 2**22

# Numbers that units receive from the sample at a time; on a GPU, where every call costs its launch,
# four times as many.
_RECEIVED = 2**20

# The standard deviation of what a unit receives is this part of Scott's factor, which takes
# it where scores are best, or within 0.3 points: `benchmarks/weights.py`.
_OF_SCOTT = 0.39

# Biases reach so many of these standard deviations to either side: units must bend wherever
# rows lie, not only near their mean. Of 0 to 3.5 the best on 26 tables and on 7 problems of
# one to three features: `benchmarks/weights.py`.
_REACH = 2.5

# A unit's input never counts as less than this part of what features of the common spread
# would send it; else a unit that sees almost nothing would be blown up to shout at noise.
_FLOOR = 0.1

# Rows that are farther from the median row than so many times what is usual do not count: one
# of them would make all others look alike.
_FARTHEST = 30

# Exponents of 2 whose fourth powers are numbers of float64, with room for sums.
_NEAR_ONE = 200
# How far a weight may be from one over the spread.
_MARGIN = 1e4


@dataclass(frozen=True)
class ScaleSample:
    """Some rows, less their mean, where X lies."""

    algebra: Any  # of the arrays
    block: Any  # (n_rows, n_features), float64
    # (n_rows,), of the host: shares of the rows, with the sum 1; 0 for those that are far from all
    # others. What is small is computed there: a GPU would compile a kernel for each step.
    weight: np.ndarray
    mean: np.ndarray  # (n_features,), of the host
    total: float  # rows that the sample stands for: the sum of their weights
    # That of `block`: a power of two, 1 unless squares of squares would be no numbers.
    unit: float = 1.0

    @classmethod
    def draw(cls, algebra, X, rows, weight, random_state, feature_weights=None):
        """Draw at most 1000 of `rows`, and take those that are not far from all others.

        Multiplied by feature weights or a linear map, if there are any.
        """
        total = len(rows) if weight is None else weight[rows].sum()
        most = max(2, min(_ROWS, _NUMBERS // X.shape[1]))
        if len(rows) > most:
            rows = random_state.choice(rows, most, replace=False)
        block = take_rows(X, rows).astype(np.float64)
        if np.ndim(feature_weights) == 2:
            block = algebra.cross(block.T, algebra.xp.asarray(feature_weights))
        elif feature_weights is not None:
            block *= algebra.xp.asarray(feature_weights)
        share = np.ones(len(rows)) if weight is None else weight[rows]
        with np.errstate(over="ignore", invalid="ignore"):  # which `check` refuses
            return cls._centred(algebra, block, share, total)

    @classmethod
    def _centred(cls, algebra, block, share, total):
        """The sample of some rows, less the mean of those that are near."""
        # From the median on, so that no rounding is left where a feature is constant.
        middle = algebra.median(block)
        block -= middle
        most, least = map(algebra.to_host, (block.max(axis=1), block.min(axis=1)))
        distances = np.maximum(most, -least)
        near = _is_near(distances)
        if not near.all():
            block[algebra.here(~near)] = 0  # squares of what is far may be infinite
        unit = _unit_of(float((distances * near).max()))
        if unit != 1:
            block /= unit
        share = share * near
        share /= share.sum()
        step = algebra.here(share) @ block
        block -= step
        mean = algebra.to_host(middle) + unit * algebra.to_host(step)
        return cls(algebra, block, share, mean, total, unit)

    @property
    def xp(self):
        return self.algebra.xp

    @cached_property
    def spread(self):
        """The root of the mean variance of the features; 1 where nothing varies."""
        squares = self.algebra.to_host(self.xp.einsum("ij,ij->i", self.block, self.block))
        return self.unit * float(self.weight @ squares / self.block.shape[1]) ** 0.5 or 1.0

    def check(self, dtype):
        """Raise where weights that undo the spread are no numbers of the dtype."""
        least, most = float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)
        if not _MARGIN * least < 1 / self.spread < most / _MARGIN:
            widest = int(self.xp.abs(self.block).max(axis=0).argmax())
            raise ValueError(
                f"The features of X spread by {self.spread:.3g}, feature {widest} most of all, and "
                f"{np.dtype(dtype)} does not hold the weights that suit them. Scale the features "
                "of X (StandardScaler), or give float64."
            )

    def dimension(self, features=slice(None)):
        """Directions in which the rows vary: the participation ratio of their variances.

        The squared sum of the eigenvalues of the covariance of some features over the sum
        of their squares: n where n features vary alike, 1 where all lie on a line, or
        nothing varies at all.
        """
        (dimension,) = self._dimensions([features])
        return dimension

    def _dimensions(self, each):
        """`dimension` for each of some features; a GPU is asked for all before it is waited for."""
        found, to_host = [], self.algebra.to_host
        roots = self.algebra.here(np.sqrt(self.weight))[:, None]
        for features in each:
            Z = self.block[:, features] * roots
            Z = self.xp.ascontiguousarray(Z.T if Z.shape[1] > Z.shape[0] else Z)
            C = self.algebra.cross(Z, Z)
            found.append(((C * C).sum(), C.diagonal()))
        found = [(float(squared), float(to_host(own).sum())) for squared, own in found]
        return [total**2 / squared if squared > 0 else 1.0 for squared, total in found]

    def deviation(self, fields=None):
        """The standard deviation that units should receive.

        Units of a random layer are as wide as kernels of a density estimate should be: the
        fewer rows and the more directions, the wider. Scott's rule (D. W. Scott 1992,
        "Multivariate Density Estimation") divides the spread of n rows in d dimensions by
        ``n ** (1 / (d + 4))``; steepness is one over width. Units with receptive fields
        see fewer directions: the mean of some fields.
        """
        if fields is None:
            dimension = self.dimension()
        else:
            dimension = np.mean(self._dimensions(fields.first()))
        return _OF_SCOTT * max(self.total, 1.0) ** (1 / (dimension + 4))

    @at_most(1)
    def scale(self, W, deviation):
        """Multiply the weights W of each unit so that it receives that deviation, in place.

        Returns what each then receives from the mean row, (n_units,).
        """
        xp, spread = self.xp, self.spread
        here, to_host = self.algebra.here, self.algebra.to_host
        deviation /= spread
        # In units of the spread, for the squares of others may not be numbers of this dtype.
        columns = xp.ascontiguousarray(self.block.T / (spread / self.unit), W.dtype)
        share = here(self.weight.astype(W.dtype))
        mean, centre = here(self.mean), xp.empty(len(W))
        step = max(1, _RECEIVED * (1 if xp is np else 4) // len(share))
        parts = [slice(start, start + step) for start in range(0, len(W), step)]
        # A GPU is asked for all before it is waited for.
        sums = [self._received(columns, share, W[part]) for part in parts]
        for part, squares in zip(parts, sums, strict=True):
            found, lengths = (np.sqrt(to_host(each)) for each in squares)
            found = np.maximum(found, _FLOOR * lengths)
            found[found == 0] = 1  # no weights
            w = W[part]
            w *= here((deviation / found).astype(W.dtype))[:, None]
            centre[part] = w @ mean
        return to_host(centre)

    def _received(self, columns, share, w):
        """Mean squares of what units receive from rows, and those of their weights, added up."""
        received = self.algebra.cross(columns, w.T)
        squares = share @ self.xp.square(received, out=received)
        return squares, self.xp.einsum("ij,ij->i", w, w)


def reach(deviation):
    """How far biases go to either side, of units that receive that deviation; at least 1."""
    return max(1.0, _REACH * deviation)


def _unit_of(peak):
    """Return a power of two near the largest number; 1 where its fourth power is finite, too."""
    exponent = math.frexp(peak)[1]
    return 1.0 if abs(exponent) < _NEAR_ONE else math.ldexp(1.0, exponent - 1)


def _is_near(distances):
    """Which rows lie where most do, by distances from the median row: all, where most coincide."""
    usual = np.median(distances)
    return (distances / _FARTHEST <= usual) | (usual == 0)
