"""The distribution of y around predictions, from residuals of samples that were left out.

These are split into a local scale and a distribution that is the same everywhere, whose quantiles
are those of signed residuals over their scale: predictive distributions of the jackknife (R. F.
Barber, E. J. Candes, A. Ramdas and R. J. Tibshirani 2021, "Predictive inference with the
jackknife+"), locally weighted (J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman
2018, "Distribution-free predictive inference for regression", section 5.2).

The logarithm of the scale is the sum of two ridge regressions of ``log |residual|``: one on the
prediction, and one of what is left on the first activations. The distribution uses leave-one-out
predictions of these as well. A single regression would not do: activations determine the prediction
by the readout of all samples, whose difference to the leave-one-out prediction is a multiple of the
residual. The deviations of the posterior are not used: leverages of training samples, of which
many are centres, are not those of other samples, and coverage fell to 78 % on one of eight
datasets.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from ..data.job import Job
from ..data.memory_plan import count_fitting
from ..data.streaming import Consumer, cast_layer, stream
from ..engines.threads import limit_blas_threads

# Samples that are left out in a fit, where not all are anyway. The coverage of 90 % intervals from
# n residuals has the standard deviation 30 % / sqrt(n).
N_RESIDUALS = 1000
# Residuals that are used, at most: samples, samples times outputs, and the part of the memory.
_MAX_ROWS, _MAX_VALUES, _MEMORY_SHARE = 2**13, 2**16, 1 / 8
# The scale depends on at most this many activations, and on fewer if there are fewer samples for
# each. 512 activations were no better on eight datasets. Below the last number, it is constant.
_MAX_UNITS, _ROWS_PER_UNIT, _MIN_ROWS = 128, 8, 50
# Knots of the piecewise linear function of the prediction, as quantiles.
_KNOTS = 0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0
# Part of the median of |residual| that is added before its logarithm is taken.
_FLOOR = 0.1
# Penalties of the scale, for one sample; the last one makes it constant. Predictions that vary by
# far less than y are not used: they may vary by the sample alone that is left out.
_PENALTIES = (*10.0 ** np.arange(-3, 4, 0.5), np.inf)


class FrequentMode(NamedTuple):
    """The most frequent value of y, to which intervals may be extended."""

    value: npt.NDArray  # (n_outputs,): of standardised y; nan for outputs without such a value
    is_most: npt.NDArray  # (n_outputs,): whether its share is at least the confidence level
    n_residuals: int


class ResidualDistribution(NamedTuple):
    """Quantiles of residuals over their scale, and a linear model of its logarithm.

    All refer to outputs of standard deviation 1.
    """

    n_units: int  # the first activations, of which the scale is a function
    knots: npt.NDArray  # (n_knots, n_outputs), ascending: of the function of the predictions
    hinge_coef: npt.NDArray  # (n_knots - 1, n_outputs): slopes after each knot but the last
    coef: npt.NDArray  # (n_units, n_outputs): of the activations
    intercept: npt.NDArray  # (n_outputs,)
    bounds: npt.NDArray  # (2, n_outputs): of the logarithm of the scale
    values: npt.NDArray  # (n_residuals, n_outputs): residuals over their scale, ascending
    levels: npt.NDArray  # (n_residuals, n_outputs): their probabilities
    # (n_outputs,): the most frequent value of y, and the proportion of samples that have it. The
    # defaults are for models that an earlier version saved.
    mode: npt.NDArray | float = 0.0
    mode_share: npt.NDArray | float = 0.0

    def scale(self, H: npt.NDArray, predictions: npt.NDArray) -> npt.NDArray:
        """Return the scale of the residuals of some samples, (n_samples, n_outputs).

        Parameters
        ----------
        H : ndarray of shape (n_samples, n_units)
            The first activations.
        predictions : ndarray of shape (n_samples, n_outputs)
            Of standardised y.
        """
        hinges = _hinges(predictions, self.knots)
        log_scale = H @ self.coef + np.einsum("ijk,jk->ik", hinges, self.hinge_coef)
        return np.exp(np.clip(log_scale + self.intercept, *self.bounds))

    def quantiles(self, probabilities: npt.NDArray) -> npt.NDArray:
        """Return quantiles of the residuals over their scale, (n_outputs, n_quantiles)."""
        pairs = zip(self.levels.T, self.values.T, strict=True)
        return np.stack([np.interp(probabilities, levels, values) for levels, values in pairs])

    def frequent_mode(self, level: float) -> FrequentMode:
        """Return the mode of y, if intervals of this confidence level without it are too narrow."""
        share = np.asarray(self.mode_share)
        value = np.where(share > 1 - level, self.mode, np.nan)
        return FrequentMode(value, share >= level, len(self.values))


def max_residuals(n_outputs: int) -> int:
    """Return the number of samples whose residuals are used, at most."""
    return max(1, min(_MAX_ROWS, _MAX_VALUES // n_outputs))


def fit_residual_distribution(
    job: Job,
    layer: Any,
    X: Any,
    predictions: npt.NDArray,
    Y: npt.NDArray,
    weight: npt.NDArray,
    rows: npt.NDArray | None = None,
) -> dict[str, ResidualDistribution | None]:
    """Return the fitted attribute for samples that were left out: None for a single sample.

    There is no attribute without samples, or if predictions are not finite.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or another layer
    X : array or source of shape (n_rows, n_features)
    predictions, Y : ndarray of shape (n_samples, n_outputs)
        Of standardised y: predictions by readouts without the sample, and y.
    weight : ndarray of shape (n_samples,)
        Sample weights above 0.
    rows : ndarray of int of shape (n_samples,), optional
        The rows of X of the samples, ascending; by default all.
    """
    n_rows, n_outputs = Y.shape
    if n_rows == 1:
        return {"residual_distribution_": None}
    if not n_rows or not np.isfinite(predictions).all():
        return {}
    n_max = _fitting_rows(job.memory_limit, n_outputs)
    if n_rows > n_max:
        kept = np.arange(n_max) * n_rows // n_max  # ascending, as `rows`
        predictions, Y, weight = predictions[kept], Y[kept], weight[kept]
        rows, n_rows = kept if rows is None else rows[kept], n_max
    residuals = Y - predictions
    has_constant_scale = n_rows < _MIN_ROWS
    knots = np.quantile(predictions, _KNOTS[:1] if has_constant_scale else _KNOTS, axis=0)
    hinges, targets = _hinges(predictions, knots), _log_residuals(residuals)
    # Each output by its own prediction.
    fits = [_fit_ridge(hinges[:, :, k], targets[:, [k]], weight) for k in range(n_outputs)]
    hinge_coef, intercept, log_scale = (
        np.concatenate(arrays, axis=-1) for arrays in zip(*fits, strict=True)
    )
    n_units = 0 if has_constant_scale else min(_MAX_UNITS, n_rows // _ROWS_PER_UNIT)
    H = first_activations(job, layer, X, n_units, rows)
    unit = (np.sqrt(H.var(axis=0).mean()) if n_units else 0.0) or 1.0
    H /= unit
    coef, change, left_out = _fit_ridge(H, targets - log_scale, weight)
    log_scale += left_out
    values = residuals / np.exp(log_scale)
    order = np.argsort(values, axis=0)
    bounds = np.stack([log_scale.min(axis=0), log_scale.max(axis=0)])
    distribution = ResidualDistribution(
        H.shape[1], knots, hinge_coef, coef / unit, intercept + change, bounds,
        np.take_along_axis(values, order, axis=0), _levels(weight[order]), *_modes(Y, weight),
    )  # fmt: skip
    return {"residual_distribution_": distribution}


def _fitting_rows(memory_limit, n_outputs):
    """Return the number of samples whose features, twice, and residuals fit in memory."""
    row_bytes = 8 * (2 * _MAX_UNITS + (12 + len(_KNOTS)) * n_outputs)
    n_max = max_residuals(n_outputs)
    return max(1, count_fitting(_MEMORY_SHARE * memory_limit, row_bytes, maximum=n_max))


def first_activations(
    job: Job, layer: Any, X: Any, n_units: int, rows: npt.NDArray | None = None
) -> npt.NDArray:
    """Return the activations of the first units, (n_samples, n_units), float64 on the host.

    Of all rows of X, or of `rows`, ascending.
    """
    layer = cast_layer(layer, X).part(slice(min(n_units, layer.n_units)))
    job = job.silent()
    H = np.empty((len(X if rows is None else rows), layer.n_units))

    def take(part, tile):
        H[part] = job.engine.to_host(tile)

    if H.size:
        stream(job, layer, X, Consumer(take), rows)
    return H


def _hinges(predictions, knots):
    """Return the functions ``max(prediction - knot, 0)``, constant beyond the first and last knot.

    Of shape (n_samples, n_knots - 1, n_outputs).
    """
    bounded = np.clip(predictions, knots[0], knots[-1])
    return np.maximum(bounded[:, None] - knots[:-1], 0)


def _log_residuals(residuals):
    """Return the logarithms of |residuals|, each output in units of its own median."""
    sizes = np.abs(residuals)
    unit = np.median(sizes, axis=0)
    unit = np.where(unit > 0, unit, sizes.mean(axis=0))
    return np.log(sizes / np.where(unit > 0, unit, 1.0) + _FLOOR)


def _levels(weight):
    """Return the probabilities of ascending values, given their weights (n_rows, n_outputs).

    Of n values of equal weight it is ``i / (n + 1)`` for value number i, the probability that a
    further value is less. Weights are those of as many equal values as have the same variance.
    """
    total = weight.sum(axis=0)
    unit = np.square(weight).sum(axis=0) / total
    return (np.cumsum(weight, axis=0) + (unit - weight) / 2) / (total + unit)


def _modes(Y, weight):
    """Return the most frequent value of each column of Y, and its share of the weights."""
    modes, shares = np.empty(Y.shape[1]), np.empty(Y.shape[1])
    for k, column in enumerate(Y.T):
        # Equal y may differ by a rounding error, if they have been multiplied by weights.
        _, first, codes = np.unique(column.round(12), return_index=True, return_inverse=True)
        totals = np.bincount(codes, weight)
        modes[k], shares[k] = column[first[totals.argmax()]], totals.max() / weight.sum()
    return modes, shares


@limit_blas_threads(1)
def _fit_ridge(features, targets, weight):
    """Return a ridge regression of each column of targets, by its penalty of least error.

    The features are overwritten.

    Returns
    -------
    coef : ndarray of shape (n_features, n_outputs)
    intercept : ndarray of shape (n_outputs,)
    left_out : ndarray of shape (n_rows, n_outputs)
        Leave-one-out predictions.
    """
    share, n_rows = weight / weight.sum(), len(weight)
    origin, mean = share @ features, share @ targets
    root = np.sqrt(n_rows * share)[:, None]
    features -= origin
    features *= root
    if features.shape[1]:
        values, vectors = eigh(features.T @ features)
    else:  # which SciPy 1.10 does not accept
        values, vectors = np.empty(0), np.empty((0, 0))
    A = features @ vectors
    projected = A.T @ (root * (targets - mean))
    squares = np.square(A, out=features)
    best = np.full(targets.shape[1], np.inf)
    coef, left_out = np.zeros_like(projected), np.empty_like(targets)
    for penalty in _PENALTIES:
        shrinkage = 1 / (np.maximum(values, 0) + n_rows * penalty)
        weights = shrinkage[:, None] * projected
        one_minus_leverage = np.maximum(1 - (squares @ shrinkage + share), 1 / n_rows)[:, None]
        predictions = targets - (targets - mean - A @ weights / root) / one_minus_leverage
        errors = share @ np.square(targets - predictions)
        is_better = errors <= best
        best = np.where(is_better, errors, best)
        coef, left_out = (
            np.where(is_better, new, old) for new, old in ((weights, coef), (predictions, left_out))
        )
    coef = vectors @ coef
    return coef, mean - origin @ coef, left_out
