"""Heavy-tailed targets, of which a few samples dominate a squared error, and their transforms.

A readout that minimises squared errors of a transformed y estimates the mean of the transformed y
given x, and its inverse is closer to the median of y than to the mean. The smearing estimate of the
mean (N. Duan 1983, "Smearing estimate: a nonparametric retransformation method") is the average of
the inverse over the distribution of the residuals.
"""

from contextlib import suppress
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.special import ndtri
from scipy.stats import kurtosis, rankdata
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import gen_batches

from ..data.samples import draw_ascending, has_fractions, weight_unit
from ..engines.threads import limit_blas_threads
from ..utils.user_warnings import warn
from .encoding import StandardisedTargets

# The valid names of a transform.
KINDS = ("log", "quantiles")
# Upper bound of the samples that stand for weighted ones.
_MAX_UNWEIGHTED = 2**17
# The largest y is rare if at most this part of the samples has it, or a single one.
_RARE_PART = 0.01
# Quantiles of the residuals by which predictions are averaged.
_N_QUANTILES = 32
# Samples that validate transforms, fewer if these have more than so many values; and the least
# number that does.
_MAX_SAMPLES, _MAX_VALUES, _MIN_SAMPLES = 1000, 2**24, 50
# Parts of the absolute and of the squared error that a transform has to save: where it saves less,
# some networks lose.
_MIN_GAINS = np.array([0.1, 0.02])
# The same if y itself is not predicted better than by its mean, as with outliers, whose squared
# errors nothing reduces: the squared error may increase a little, by chance.
_MIN_GAINS_UNPREDICTED = np.array([0.1, -0.01])
# The validating ridge: width of its kernel per feature, and penalties.
_WIDTH, _ALPHAS = 3.0, tuple(10.0**k for k in range(-3, 3))

# Excess kurtosis above which targets are checked: an exponential distribution has 6, a log-normal
# one (standard deviation 1 of the logarithm) 111.
_MAX_EXCESS_KURTOSIS = 30.0
# A tail is heavy if the kurtosis after some transform is below this fraction of that before.
_MAX_KURTOSIS_RATIO = 0.25
# Values whose powers are in memory at a time.
_BLOCK_VALUES = 2**15


class ShiftedLog(TransformerMixin, BaseEstimator):
    """The logarithm of y plus a shift, which is 0 for a positive y.

    Attributes
    ----------
    shift_ : ndarray of shape (n_columns,)
        If y contains 0, the least positive value: for counts, y is transformed to log(y + 1), and
        in general the result does not depend on the unit of y.
    min_ : ndarray of shape (n_columns,)
        The least y, which replaces lesser values of further samples.
    """

    def fit(self, y: npt.NDArray, _: Any = None) -> Self:
        _check_not_negative(y)
        self.min_ = y.min(axis=0)
        min_positive = np.min(y, axis=0, initial=np.inf, where=y > 0)
        self.shift_ = np.where(
            self.min_ > 0, 0.0, np.where(np.isinf(min_positive), 1.0, min_positive)
        )
        return self

    def transform(self, y: npt.NDArray) -> npt.NDArray:
        _check_not_negative(y)
        return np.log(np.maximum(y, self.min_) + self.shift_)

    def inverse_transform(self, z: npt.NDArray) -> npt.NDArray:
        # Return the least y exactly: rounded up, it would be excluded from all intervals; rounded
        # down from 0, it would be negative. NumPy rounds logarithms of long arrays differently.
        least = self.transform(self.min_)
        is_least = np.abs(z - least) <= 4 * np.spacing(np.abs(least))
        return np.where(is_least, self.min_, np.exp(z) - self.shift_)


def _check_not_negative(y):
    """Raise ValueError if y has no logarithm."""
    if y.min() < 0:
        raise ValueError(
            f'target_transform="log" needs y of 0 or more, and y contains {y.min():g}; use '
            '"quantiles".'
        )


class MedianScaler(TransformerMixin, BaseEstimator):
    """Deviations of y from its median, over the median size of those that are not 0.

    So they do not depend on the unit of y. `RobustScaler` keeps the unit if the middle half of the
    values are equal, or differ by less than 2e-15.

    Attributes
    ----------
    center_, scale_ : ndarray of shape (1,)
    """

    def fit(self, y: npt.NDArray, _: Any = None) -> Self:
        self.center_ = np.median(y, axis=0)
        sizes = np.abs(y - self.center_)
        self.scale_ = np.array([np.median(sizes[sizes > 0]) if sizes.any() else 1.0])
        return self

    def transform(self, y: npt.NDArray) -> npt.NDArray:
        return (y - self.center_) / self.scale_

    def inverse_transform(self, z: npt.NDArray) -> npt.NDArray:
        return z * self.scale_ + self.center_


class TargetTransformer(BaseEstimator):
    """Transforms of the columns of y; predictions stay within the range of the y that was fitted.

    Parameters
    ----------
    kinds : list of {"log", "quantiles", None}
        The transform of each column.

    Attributes
    ----------
    transformers_ : list of transformer or None
    range_ : ndarray of shape (2, n_columns)
        The smallest and the largest transformed value of each column, between which predictions
        are; of "quantiles" the second smallest or second largest value, if the first one is rare.
    """

    def __init__(self, kinds):
        self.kinds = kinds

    def fit(self, y: npt.NDArray, weight: npt.NDArray | None = None) -> Self:
        """Fit to y of shape (n_samples, n_columns), float64, with positive sample weights."""
        columns = y.T if weight is None else [_without_weights(c, weight) for c in y.T]
        pairs = list(zip(self.kinds, columns, strict=True))
        self.transformers_ = [
            kind and _make_transformer(kind, len(c)).fit(c[:, None]) for kind, c in pairs
        ]
        self.range_ = self.transform(np.stack([_range(*pair) for pair in pairs], axis=1))
        return self

    def transform(self, y: npt.NDArray) -> npt.NDArray:
        """Return transformed y, a new array."""
        columns = zip(self.transformers_, y.T, strict=True)
        return np.column_stack([c if t is None else t.transform(c[:, None]) for t, c in columns])

    def inverse_transform(self, z: npt.NDArray) -> npt.NDArray:
        """Return y of transformed y, both of shape (n_samples, n_columns)."""
        columns = zip(self.transformers_, z.T, strict=True)
        return np.column_stack(
            [c if t is None else t.inverse_transform(c[:, None]) for t, c in columns]
        )

    def inverse_mean(self, z: npt.NDArray, residuals: npt.NDArray) -> npt.NDArray:
        """Return estimates of the mean of y.

        Parameters
        ----------
        z : ndarray of shape (n_samples, n_columns)
            Predictions of the transformed y.
        residuals : ndarray of shape (n_quantiles, n_columns)
            Equally likely residuals of these.
        """
        if not len(z):  # scikit-learn's transformers refuse no samples
            return z
        columns = [
            column if transformer is None else self._smeared(k, column, residuals[:, k])
            for k, (transformer, column) in enumerate(zip(self.transformers_, z.T, strict=True))
        ]
        return np.column_stack(columns)

    def inverse_quantile(self, z: npt.NDArray) -> npt.NDArray:
        """Return the quantile of y, which is within its range, for that of the transformed y."""
        return self.inverse_transform(np.clip(z, *self.range_)) if len(z) else z

    def _smeared(self, k, z, residuals):
        inverse, total = self.transformers_[k].inverse_transform, np.zeros(len(z))
        for residual in residuals:  # a sum of y could overflow
            y = inverse(np.clip(z + residual, *self.range_[:, k])[:, None])[:, 0]
            total += y / len(residuals)
        return total


def _make_transformer(kind, n_samples):
    """Return a new transformer of one column of y."""
    # Imported here: they take half as long as the rest of this package.
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer

    if kind == "log":
        return ShiftedLog()
    quantiles = QuantileTransformer(
        n_quantiles=min(1000, n_samples), output_distribution="normal", random_state=0
    )
    return make_pipeline(MedianScaler(), quantiles)  # it has tolerances for values around 1


def _without_weights(y, weight):
    """Return a sorted y (n,) with the distribution of y and weights: repeated for counts.

    Of other weights only the ratios matter, and n is that of y.
    """
    order = np.argsort(y)
    ends = np.cumsum(weight[order] / weight_unit(weight.mean(), has_fractions(weight)))
    n = min(round(ends[-1]), _MAX_UNWEIGHTED)
    return y[order][np.searchsorted(ends, (np.arange(n) + 0.5) * (ends[-1] / n))]


def _range(kind, y):
    """Return the least and the largest y (n,); of "quantiles" the next values if these are rare.

    Beyond the second largest value the inverse of quantiles is steep: a prediction that is slightly
    too large would become the largest y.
    """
    values, counts = np.unique(y, return_counts=True)
    is_rare = counts[[0, -1]] <= max(1, _RARE_PART * len(y))
    if kind != "quantiles" or len(values) < 3:
        is_rare[:] = False
    return values[[int(is_rare[0]), -1 - int(is_rare[1])]]


def residual_quantiles(residuals: npt.NDArray, weight: npt.NDArray) -> npt.NDArray:
    """Return equally likely residuals (n_quantiles, n_columns): quantiles of weighted ones."""
    levels = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
    # Samples of weight 0 would be knots of the interpolation.
    residuals, weight = residuals[weight > 0], weight[weight > 0]
    quantiles = []
    for column in residuals.T:
        order = np.argsort(column)
        cumulated = np.cumsum(weight[order])
        position = (cumulated - weight[order] / 2) / cumulated[-1]
        quantiles.append(np.interp(levels, position, column[order]))
    return np.stack(quantiles, axis=1)


def validation_rows(present: npt.NDArray, n_features: int) -> npt.NDArray:
    """Return the rows of the samples that validate transforms: a random subset, ascending."""
    return draw_ascending(present, min(_MAX_SAMPLES, _MAX_VALUES // n_features))


def choose_kind(X: npt.NDArray, y: npt.NDArray) -> str | None:
    """Return the best transform of y (n_samples,) for its prediction from X, or None.

    Each is validated by leave-one-out predictions of a kernel ridge regression, in the units of y.
    A transform has to reduce both the mean absolute error and the mean squared error, in which the
    few largest values of y have most of the weight, by `_MIN_GAINS` of those of the simpler ones.
    """
    if len(y) < _MIN_SAMPLES:
        return None
    y = _near_one(y)[:, None]
    candidates: list[tuple[str | None, TargetTransformer]] = []
    for kind in (None, *KINDS):
        with suppress(ValueError):  # y is outside the domain of the transform
            candidates.append((kind, TargetTransformer([kind]).fit(y)))
    Z = np.hstack([transformer.transform(y) for _, transformer in candidates])
    mean, scale = Z.mean(axis=0), Z.std(axis=0)
    scores = mean + scale * _kernel_ridge_loo(X, (Z - mean) / scale)
    best, lowest, min_gains = None, np.full(2, np.inf), _MIN_GAINS
    for k, (kind, transformer) in enumerate(candidates):
        z = scores[:, [k]]
        residuals = residual_quantiles(Z[:, [k]] - z, np.ones(len(y)))
        error = y - transformer.inverse_mean(z, residuals)
        errors = np.array([np.abs(error).mean(), np.square(error).mean()])
        if kind is None and errors[1] > (1 - _MIN_GAINS[1]) * y.var():
            min_gains = _MIN_GAINS_UNPREDICTED
        if kind is None or (errors < (1 - min_gains) * lowest).all():
            best, lowest = kind, errors
    return best


@limit_blas_threads(1)  # threads of so small products would wait for other processes
def _kernel_ridge_loo(X, Z):
    """Return leave-one-out predictions of standardised Z by a ridge with a Laplacian kernel.

    Each column of Z has the penalty of its least error.
    """
    from sklearn.metrics.pairwise import laplacian_kernel

    X = _near_one(X.astype(np.float64))
    scale = X.std(axis=0)
    X /= np.where(scale > 0, scale, 1.0)
    values, Q = eigh(laplacian_kernel(X, gamma=1 / (_WIDTH * X.shape[1])))
    projected, squares = Q.T @ Z, np.square(Q)
    best, lowest = np.zeros_like(Z), np.full(Z.shape[1], np.inf)
    for alpha in _ALPHAS:
        shrinkage = values / (values + alpha)
        leverage = (squares @ shrinkage)[:, None]
        scores = (Q @ (shrinkage[:, None] * projected) - leverage * Z) / (1 - leverage)
        errors = np.square(Z - scores).mean(axis=0)
        best = np.where(errors < lowest, scores, best)
        lowest = np.minimum(errors, lowest)
    return best


def find_heavy_tails(targets: StandardisedTargets, weight: npt.NDArray | None) -> list[int]:
    """Return the columns of y with a heavy tail that a transform of y would remove."""
    # The values have mean 0 and variance 1, so their fourth moment is the kurtosis. Most targets
    # pass this test and cost no more.
    excess = _fourth_moments(targets.values, weight) - 3
    present = slice(None) if weight is None else weight > 0
    suspects = map(int, np.flatnonzero(excess > _MAX_EXCESS_KURTOSIS))
    return [k for k in suspects if _has_remedy(targets.column(k)[present])]


def warn_heavy_tail(owner: str, k: int, n_outputs: int) -> None:
    """Warn of a heavy tail of a column of y."""
    which = "y" if n_outputs == 1 else f"Column {k} of y"
    warn(
        f"{which} has a heavy tail: a few large values dominate the squared error, at the expense "
        f'of most samples. Set target_transform="auto" of {owner}, which transforms y if that '
        "reduces the validation error."
    )


def _fourth_moments(values, weight):
    """Return the weighted mean of the fourth powers of each column, computed in blocks."""
    step, total = max(1, _BLOCK_VALUES // values.shape[1]), 0.0
    weight = np.ones(len(values)) if weight is None else weight
    for block in gen_batches(len(values), step):
        # Squaring twice is far faster than a power of 4.
        total = total + weight[block] @ np.square(np.square(values[block]))
    return total / weight.sum()


def _near_one(values):
    """Return values, each column over a power of two: their powers neither overflow nor vanish."""
    return np.ldexp(values, -np.frexp(np.abs(values).max(axis=0))[1])


def _has_remedy(y):
    """Return whether y has no heavy tail after its logarithm, or as normal scores of its ranks."""
    y = _near_one(y)
    limit = _MAX_KURTOSIS_RATIO * kurtosis(y)
    if y.min() >= 0 and kurtosis(ShiftedLog().fit_transform(y[:, None])[:, 0]) < limit:
        return True
    # Normal scores of the ranks have no heavy tail, unless many samples share one value: tied ranks
    # stay together.
    return kurtosis(ndtri((rankdata(y) - 0.5) / len(y))) < limit
