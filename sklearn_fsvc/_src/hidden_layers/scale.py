"""scale="auto" of tanh units: the length of the weights, estimated from the samples.

A unit receives ``x . w``. Its standard deviation over the samples determines how nonlinear the unit
is: `ScaleSample.deviation` estimates a suitable one, for `ScaleSample.scale_weights`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from ..data.rows import take_rows
from ..data.samples import draw_without_replacement
from ..engines.threads import limit_blas_threads
from .random_weights import ReceptiveFields

# Maximum numbers of samples, and of elements in them, from which the scale is estimated.
_MAX_SAMPLES, _MAX_ELEMENTS = 1000, 2**22

# Inputs of units that are computed at a time; four times as many on a GPU, where each call has the
# latency of a launch.
_BLOCK_ELEMENTS = 2**20

# The standard deviation of the input of a unit, as a multiple of Scott's factor. With it, scores
# are the highest, or within 0.3 points of that: `benchmarks/weights.py`.
_SCOTT_MULTIPLE = 0.39

# Biases are distributed over this many of these standard deviations to either side, so that the
# inflection points of units cover the samples and not only their mean. The best value between 0 and
# 3.5 on 26 datasets and on 7 problems with one to three features: `benchmarks/weights.py`.
_REACH = 2.5

# Lower bound of the input of a unit, as a multiple of that from features with the common standard
# deviation. Without it, a unit whose features are almost constant would amplify noise.
_MIN_INPUT = 0.1

# Samples whose distance from the median sample exceeds the median distance by this factor are
# ignored: a single one of them would make all others look alike.
_OUTLIER_FACTOR = 30

# Exponents of 2 of values whose fourth powers, and sums of them, are finite in float64.
_MAX_EXPONENT = 200
# Maximum ratio of a weight to the inverse of the standard deviation.
_WEIGHT_MARGIN = 1e4


@dataclass(frozen=True)
class ScaleSample:
    """A random subset of the samples, centred, on the device of X."""

    algebra: Any  # of the arrays
    block: Any  # (n_rows, n_features), float64
    # (n_rows,), on the host: normalised weights of the rows, 0 for outliers. Small arrays are
    # computed on the host, because a GPU would have to compile a kernel for each operation.
    weight: np.ndarray
    mean: np.ndarray  # (n_features,), on the host
    total: float  # sum of the weights of all samples, of which these are a subset
    # The unit of `block`: a power of two, 1 unless fourth powers would overflow or underflow.
    unit: float = 1.0

    @classmethod
    def draw(
        cls,
        algebra: Any,
        X: Any,
        rows: npt.NDArray,
        weight: npt.NDArray | None,
        random_state: Any,
        feature_weights: npt.NDArray | None = None,
        max_elements: int = _MAX_ELEMENTS,
    ) -> "ScaleSample":
        """Draw at most 1000 of `rows`, multiplied by feature weights or a linear map, if given."""
        total = len(rows) if weight is None else weight[rows].sum()
        max_rows = max(2, min(_MAX_SAMPLES, max_elements // X.shape[1]))
        if len(rows) > max_rows:
            rows = draw_without_replacement(rows, max_rows, random_state)
        # float64, so that a large offset of X costs no digits.
        block = take_rows(X, rows).astype(np.float64)
        if feature_weights is not None and feature_weights.ndim == 2:
            block = algebra.multiply_transposed(block.T, algebra.xp.asarray(feature_weights))
        elif feature_weights is not None:
            block *= algebra.xp.asarray(feature_weights)
        share = np.ones(len(rows)) if weight is None else weight[rows]
        with np.errstate(over="ignore", invalid="ignore"):  # which `check` refuses
            return cls._centred(algebra, block, share, total)

    @classmethod
    def _centred(cls, algebra, block, share, total):
        """Subtract the mean of the samples that are not outliers."""
        # Subtract the median first: constant features become exactly 0.
        median = algebra.median(block)
        block -= median
        maxima, minima = map(algebra.to_host, (block.max(axis=1), block.min(axis=1)))
        distances = np.maximum(maxima, -minima)
        is_inlier = _are_inliers(distances)
        if not is_inlier.all():
            block[algebra.to_device(~is_inlier)] = 0  # their squares may be infinite
        unit = _unit_near(float((distances * is_inlier).max()))
        if unit != 1:
            block /= unit
        share = share * is_inlier
        share /= share.sum()
        step = algebra.to_device(share) @ block
        block -= step
        mean = algebra.to_host(median) + unit * algebra.to_host(step)
        return cls(algebra, block, share, mean, total, unit)

    @property
    def xp(self) -> Any:
        return self.algebra.xp

    @cached_property
    def spread(self) -> float:
        """The root mean variance of the features; 1 if all are constant."""
        squares = self.algebra.to_host(self.xp.einsum("ij,ij->i", self.block, self.block))
        return self.unit * float(self.weight @ squares / self.block.shape[1]) ** 0.5 or 1.0

    def check(self, dtype: np.dtype) -> None:
        """Raise ValueError if weights of about ``1 / spread`` overflow or underflow the dtype."""
        smallest, largest = float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)
        if not _WEIGHT_MARGIN * smallest < 1 / self.spread < largest / _WEIGHT_MARGIN:
            widest = int(self.xp.abs(self.block).max(axis=0).argmax())
            raise ValueError(
                f"The features of X have a standard deviation of {self.spread:.3g}, and feature "
                f"{widest} has the largest one: suitable weights overflow or underflow "
                f"{np.dtype(dtype)}. Scale the features of X (StandardScaler), or pass float64."
            )

    def dimension(self, features: Any = slice(None)) -> float:
        """Return the number of directions in which the samples vary: the participation ratio.

        It is the squared sum of the eigenvalues of the covariance of some features, divided by the
        sum of their squares: n if n features are independent with the same variance, 1 if all
        samples are on a line, or are the same.
        """
        (dimension,) = self._dimensions([features])
        return dimension

    def _dimensions(self, subsets: Iterable[Any]) -> list[float]:
        """Return `dimension` for each subset of features.

        With the covariance C, the sum of its eigenvalues is ``trace(C)``, that of their squares
        ``sum(C * C)``. Both are the same for the Gram matrix of the rows, which is used if it is
        smaller.
        """
        traces, to_host = [], self.algebra.to_host
        roots = self.algebra.to_device(np.sqrt(self.weight))[:, None]
        for features in subsets:
            Z = self.block[:, features] * roots
            Z = self.xp.ascontiguousarray(Z.T if Z.shape[1] > Z.shape[0] else Z)
            C = self.algebra.multiply_transposed(Z, Z)
            traces.append(((C * C).sum(), C.diagonal()))
        # Only here, after all of a GPU's work is launched, wait for its results.
        totals = [(float(to_host(diagonal).sum()), float(squared)) for squared, diagonal in traces]
        return [total**2 / squared if squared > 0 else 1.0 for total, squared in totals]

    def deviation(self, fields: ReceptiveFields | None = None) -> float:
        """Return the standard deviation that the input of a unit should have.

        Units of a random layer should be as wide as the kernels of a density estimate: the fewer
        samples and the more directions, the wider. Scott's rule (D. W. Scott 1992, "Multivariate
        Density Estimation") divides the standard deviation of n samples in d dimensions by
        ``n ** (1 / (d + 4))``; the slope of a unit is the inverse of its width. Units with
        receptive fields have fewer dimensions: the mean over some fields.
        """
        dimension: Any
        if fields is None:
            dimension = self.dimension()
        else:
            dimension = np.mean(self._dimensions(fields.first_features()))
        return _SCOTT_MULTIPLE * max(self.total, 1.0) ** (1 / (dimension + 4))

    @limit_blas_threads(1)
    def scale_weights(self, W: Any, deviation: float) -> npt.NDArray:
        """Scale the weights W of each unit, in place, to this standard deviation of its input.

        Returns
        -------
        ndarray of shape (n_units,)
            The input of each unit from the mean sample, with the new weights.
        """
        xp, spread = self.xp, self.spread
        to_device, to_host = self.algebra.to_device, self.algebra.to_host
        deviation /= spread
        # In units of the spread, because squares in other units may overflow this dtype.
        columns = xp.ascontiguousarray(self.block.T / (spread / self.unit), W.dtype)
        share = to_device(self.weight.astype(W.dtype))
        mean, mean_input = to_device(self.mean), xp.empty(len(W))
        step = max(1, _BLOCK_ELEMENTS * (1 if xp is np else 4) // len(share))
        parts = list(gen_batches(len(W), step))
        # Launch all of a GPU's work before waiting for its results.
        squares = [self._mean_squares(columns, share, W[part]) for part in parts]
        for part, arrays in zip(parts, squares, strict=True):
            deviations, lengths = (np.sqrt(to_host(array)) for array in arrays)
            # Lengths are in units of the spread, so they are the input from average features.
            deviations = np.maximum(deviations, _MIN_INPUT * lengths)
            deviations[deviations == 0] = 1  # units without weights
            w = W[part]
            w *= to_device((deviation / deviations).astype(W.dtype))[:, None]
            mean_input[part] = w @ mean
        return to_host(mean_input)

    def _mean_squares(self, columns, share, w):
        """Return the mean squared input of some units, and the squared lengths of their weights."""
        received = self.algebra.multiply_transposed(columns, w.T)
        squares = share @ self.xp.square(received, out=received)
        return squares, self.xp.einsum("ij,ij->i", w, w)


def bias_range(deviation: float) -> float:
    """Return the bound of the biases of units whose input has that deviation; at least 1."""
    return max(1.0, _REACH * deviation)


def _unit_near(peak):
    """Return a power of two near `peak`; 1 if its fourth power is finite and above 0 anyway."""
    exponent = math.frexp(peak)[1]
    return 1.0 if abs(exponent) < _MAX_EXPONENT else math.ldexp(1.0, exponent - 1)


def _are_inliers(distances):
    """Return which samples are not outliers, by their distances from the median sample.

    If most samples are the same, there are no outliers.
    """
    median = np.median(distances)
    return (distances / _OUTLIER_FACTOR <= median) | (median == 0)
