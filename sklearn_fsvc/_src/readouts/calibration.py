"""Calibrated probabilities from decision values: a softmax with one temperature for all classes.

Temperature scaling (C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger 2017, "On Calibration of Modern
Neural Networks"). A single parameter, so that the order of the classes stays. scikit-learn fits the
same temperature in its `CalibratedClassifierCV`. That takes labels for column numbers, and
scores that happen to be between 0 and 1 for probabilities; and the state of a fitted model should
be a number.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

# Bounds of the natural logarithm of the inverse temperature.
_BOUNDS = -10.0, 10.0
# Scores that are processed at a time, and those whose logits are kept for all steps.
_BLOCK_SIZE, _MAX_CACHED = 2**17, 2**14
# Significant bits of `round_calibrated`. An error of 0.2 % is a tenth of the standard error of a
# temperature of a thousand samples.
_BITS = 8
# Label smoothing: the weight, in samples, that is spread evenly over all classes.
_SMOOTHING = 1 / 4


def fit_temperature(
    scores: npt.NDArray,
    codes: npt.NDArray,
    weight: npt.NDArray | None = None,
    prior_rows: float = 0.0,
) -> float:
    """Return the temperature with the least log-loss.

    Labels are smoothed by a quarter of one sample in total, so that there is a finite optimum also
    if all samples are classified correctly. That is as J. Platt 1999, "Probabilistic outputs for
    support vector machines", does for sigmoids, with less: his part of a sample for each class
    made the log-loss of many classes worse.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes), or (n_samples, 1) for two classes
        Decision values of samples that the readout was not trained on.
    codes : ndarray of int of shape (n_samples,)
        Class indices.
    weight : ndarray of shape (n_samples,), optional
    prior_rows : float
        Weight of a prior in samples, for which the temperature `_prior_temperature` is right.

    Returns
    -------
    temperature : float
        That of the prior if there are no samples.
    """
    n_classes = max(2, scores.shape[1])
    if not len(codes):
        return _prior_temperature(n_classes)
    prior = prior_rows / (prior_rows + len(codes))
    weight = np.ones(len(codes)) if weight is None else weight
    smoothing, step = _SMOOTHING / (len(codes) + 1), max(1, _BLOCK_SIZE // scores.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(codes), step)]

    def blocks():
        """Yield (slice, logits minus the largest of each sample, their target mean)."""
        for part in parts:
            logits = _logits(scores[part])
            logits -= logits.max(axis=1, keepdims=True)
            of_label = logits[np.arange(len(logits)), codes[part]]
            target = (1 - smoothing) * of_label + smoothing * logits.mean(axis=1)
            if prior:
                expected = _mean_logit(logits, 1 / _prior_temperature(n_classes))
                target = (1 - prior) * target + prior * expected
            yield part, logits, target

    cached = list(blocks()) if scores.size <= _MAX_CACHED else None

    def derivative(log_inverse):
        """Return the derivative of the log-loss by the inverse temperature.

        At the optimum, mean logits by the probabilities are those by the labels. The log-loss is
        convex in the inverse temperature, so that the derivative is monotone.
        """
        inverse, total = np.exp(log_inverse), 0.0
        for part, logits, target in cached or blocks():
            total += weight[part] @ (_mean_logit(logits, inverse) - target)
        return total

    least, most = _BOUNDS
    if derivative(least) >= 0:
        return float(np.exp(-least))
    if derivative(most) <= 0:
        return float(np.exp(-most))
    return float(np.exp(-find_root(derivative, least, most, xtol=1e-13)))


def round_calibrated(values: Any) -> Any:
    """Return values without the digits that depend on rounding errors of leave-one-out scores.

    These scores are floating-point sums, even if the readout is the exact solution of exact sums.
    """
    fraction, exponent = np.frexp(values)
    rounded = np.ldexp(np.rint(np.ldexp(fraction, _BITS)), exponent - _BITS)
    return rounded if np.ndim(values) else float(rounded)


def find_root(function: Callable[[float], float], least: float, most: float, xtol: float) -> float:
    """Return where a function is 0, by Brent's method.

    As `scipy.optimize.brentq`, but the function is released at the end. SciPy wraps it in a
    function that refers to itself: that and all arrays that it uses would stay in memory until the
    garbage collector runs, which does not consider their size.
    """
    held = [function]
    try:
        return brentq(lambda x: held[0](x), least, most, xtol=xtol)
    finally:
        held.clear()


def _prior_temperature(n_classes):
    """Return the temperature at which differences of similar scores are those of probabilities.

    A ridge readout of one-hot targets estimates probabilities. The softmax of ``n_classes * s`` has
    the derivative of the identity at equal scores ``s``, up to a common shift.
    """
    return 1 / n_classes


def _mean_logit(logits, inverse):
    """Return the mean of the logits of each sample, by its class probabilities."""
    p = np.exp(inverse * logits)
    return (p * logits).sum(axis=1) / p.sum(axis=1)


def probabilities(temperature: float, scores: npt.NDArray) -> npt.NDArray:
    """Return probabilities (n_samples, n_classes) of decision values, in float64."""
    p = _scaled(temperature, scores)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def log_probabilities(temperature: float, scores: npt.NDArray) -> npt.NDArray:
    """Return the logarithms of `probabilities`, finite even if these are 0 in float64."""
    log_p = _scaled(temperature, scores)
    log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    return log_p


def _scaled(temperature, scores):
    """Return logits over the temperature, minus the largest of each sample; in one array."""
    logits = _logits(scores)
    logits /= temperature
    logits -= logits.max(axis=1, keepdims=True)
    return logits


def _logits(scores):
    """Return a new array with a float64 column for each class.

    Of two classes, a single score is the difference of their logits.
    """
    scores = np.array(scores, np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    return np.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores
