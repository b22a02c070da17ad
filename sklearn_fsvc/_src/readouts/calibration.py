"""Calibrated probabilities from decision values: a softmax of transformed scores.

A ridge readout of one-hot targets estimates the probabilities of the classes, with errors: some
scores are below 0. So their logits are inverse hyperbolic sines, ``arcsinh(score / score_scale)``,
which are linear for scores that are small in units of the scale, and logarithmic for large ones,
as the logarithm of a probability is. Divided by a temperature, they are the logits of a softmax
(temperature scaling: C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger 2017, "On Calibration of Modern
Neural Networks"). Both parameters are shared by all classes, so the predicted class is unchanged.

``CalibratedClassifierCV(method="temperature")`` of scikit-learn fits the same temperature. It is
not used: it expects labels to be column indices, treats scores in [0, 1] as probabilities, and
would add an estimator to the fitted state.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, logit

# Bounds of the natural logarithm of the inverse temperature.
_BOUNDS = -10.0, 10.0
# Scores that are processed at a time, and up to which logits are kept for all steps.
_BLOCK_SIZE, _MAX_KEPT = 2**17, 2**18
# Significant bits of `round_calibrated`. An error of 0.2 % is a tenth of the standard error of a
# temperature of a thousand samples.
_BITS = 8
# Label smoothing: the weight, in samples, that is spread evenly over all classes.
_SMOOTHING = 1 / 4
# Candidate scales of scores. The log-loss changes slowly between neighbours, and for the largest
# the logits are almost linear.
_SCORE_SCALES = tuple(0.02 * 2**i for i in range(8))
# A prior of the scale, whose natural logarithm has a standard deviation of 1.
_PRIOR_SCALE = 0.16
# Bound of hyperbolic sines: differences from a very large offset would lose the digits of scores.
_MAX_ARGUMENT = 15.0
# Samples that choose a scale; the temperature is fitted to all.
_SCALE_SAMPLES = 2**11


class Calibration(NamedTuple):
    """How the decision values of an output of y become probabilities.

    Attributes
    ----------
    temperature : float
        Divides the logits.
    score_scale : float or None
        Scale of the scores as estimates of probabilities. None if the scores are logits.
    offset : float
        Was subtracted from the scores of the second of two classes, see `fit_offset`.
    """

    temperature: float
    score_scale: float | None = None
    offset: float = 0.0


def fit_calibration(
    scores: npt.NDArray,
    codes: npt.NDArray,
    weight: npt.NDArray | None = None,
    prior_rows: float = 0.0,
) -> Calibration:
    """Return the scale and the temperature with the least log-loss, for scores of a ridge readout.

    Parameters
    ----------
    scores, codes, weight
        As of `fit_temperature`.
    prior_rows : float
        Weight, in samples, of a prior for which the temperature `_prior_temperature` is right.

    Returns
    -------
    calibration : Calibration
        That of the priors if no sample has a weight.
    """
    scores, codes, weight = _with_weight(scores, codes, weight)
    if not len(codes):
        return Calibration(_prior_temperature(max(2, scores.shape[1])), _PRIOR_SCALE)
    rows: Any = slice(None)
    if len(codes) > _SCALE_SAMPLES:  # at random, since y may be periodic
        rows = np.random.default_rng(0).choice(
            len(codes), _SCALE_SAMPLES, replace=False, shuffle=False
        )
    scale = _fit_scale(scores[rows], codes[rows], None if weight is None else weight[rows])
    log_loss = _TemperatureLoss(scores, codes, weight, scale, prior_rows)
    return Calibration(1 / log_loss.best_inverse(), scale)


def is_uninformed(
    calibration: Calibration,
    scores: npt.NDArray,
    codes: npt.NDArray,
    weight: npt.NDArray | None = None,
) -> bool:
    """Return whether leave-one-out scores have no information: each class has a single sample.

    The readout without a sample then has no sample of its class, so that the largest temperature is
    the best one. Scores of validation samples have another temperature.
    """
    codes = _with_weight(scores, codes, weight)[1]
    has_largest_temperature = np.isclose(calibration.temperature, np.exp(-_BOUNDS[0]))
    return bool(has_largest_temperature and np.bincount(codes).max() == 1)


def fit_temperature(
    scores: npt.NDArray, codes: npt.NDArray, weight: npt.NDArray | None = None
) -> float:
    """Return the temperature with the least log-loss, for scores that are logits.

    Labels are smoothed by a quarter of one sample in total, so that there is a finite optimum also
    if all samples are classified correctly. That is as J. Platt 1999, "Probabilistic outputs for
    support vector machines", does for sigmoids, with less: his part of a sample for each class
    made the log-loss of many classes worse.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes), or (n_samples, 1) for two classes
        Decision values of one or more samples that the readout was not trained on.
    codes : ndarray of int of shape (n_samples,)
        Class indices.
    weight : ndarray of shape (n_samples,), optional
    """
    return 1 / _TemperatureLoss(*_with_weight(scores, codes, weight)).best_inverse()


def fit_offset(
    calibration: Calibration,
    scores: npt.NDArray,
    codes: npt.NDArray,
    weight: npt.NDArray | None = None,
) -> float:
    """Return the score at which two classes are equally probable.

    A constant is added to the logits, so that the mean probability of the second class is its share
    of the samples: the intercept of a logistic regression has this property (for the logits of
    other shares of the classes: G. King and L. Zeng 2001, "Logistic Regression in Rare Events
    Data").

    Parameters
    ----------
    calibration : Calibration
        Of the scores, for samples with other weights of the classes.
    scores, codes, weight
        As of `fit_temperature`.
    """
    scale = calibration.score_scale
    assert scale is not None  # the scores are of a ridge readout
    logits = _logits(scores, scale)
    logits = (logits[:, 1] - logits[:, 0]) / calibration.temperature
    weight = np.ones(len(codes)) if weight is None else weight
    # Labels are smoothed as those of temperatures, for samples of one class. The smoothing does not
    # depend on the unit of the weights.
    n = len(codes)
    share = (n * np.average(codes, weights=weight) + _SMOOTHING / 2) / (n + _SMOOTHING)

    def excess(constant):
        return np.average(expit(logits + constant), weights=weight) - share

    # All probabilities are less than the share, or more, even if logits differ by rounding alone.
    constant = brentq(excess, logit(share) - logits.max() - 1, logit(share) - logits.min() + 1)
    # Solve arcsinh((1 + offset) / (2 scale)) - arcsinh((1 - offset) / (2 scale)) = 2 half for the
    # offset: by the formulas for sums of sinh, offset^2 = (2 scale sinh(half))^2 + tanh(half)^2.
    half = -constant * calibration.temperature / 2
    half = np.clip(half, -_MAX_ARGUMENT, _MAX_ARGUMENT)
    offset = np.hypot(2 * scale * np.sinh(half), np.tanh(half))
    return float(np.copysign(offset, half))


def score_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return slices of the rows of scores, so that few are processed at a time."""
    step = max(1, _BLOCK_SIZE // n_columns)
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def _with_weight(scores, codes, weight):
    """Return the samples of positive weight: the smoothing of labels depends on their number."""
    if weight is None or (weight > 0).all():
        return scores, codes, weight
    rows = np.flatnonzero(weight)
    return scores[rows], codes[rows], weight[rows]


def _fit_scale(scores, codes, weight):
    """Return the candidate scale with the least log-loss of samples, penalised by the prior."""

    def loss(scale):
        log_loss = _TemperatureLoss(scores, codes, weight, scale)
        return len(codes) * log_loss.minimum() + np.log(scale / _PRIOR_SCALE) ** 2 / 2

    return min(_SCORE_SCALES, key=loss)


class _TemperatureLoss:
    """The log-loss with smoothed labels, as a function of the inverse temperature."""

    def __init__(self, scores, codes, weight=None, score_scale=None, prior_rows=0.0):
        self._scores, self._codes, self._scale = scores, codes, score_scale
        self._weight = np.ones(len(codes)) if weight is None else weight
        self._prior = prior_rows / (prior_rows + len(codes))
        self._kept = list(self._compute()) if scores.size <= _MAX_KEPT else None

    def _blocks(self):
        return self._kept or self._compute()

    def _compute(self) -> Iterator[tuple[npt.NDArray, npt.NDArray, npt.NDArray]]:
        """Yield weights, logits minus the largest of each sample, and their target means."""
        smoothing = _SMOOTHING / (len(self._codes) + 1)
        for part in score_blocks(*self._scores.shape):
            logits = _logits(self._scores[part], self._scale)
            logits -= logits.max(axis=1, keepdims=True)
            of_label = logits[np.arange(len(logits)), self._codes[part]]
            target = (1 - smoothing) * of_label + smoothing * logits.mean(axis=1)
            if self._prior:
                expected = _mean_logit(logits, 1 / _prior_temperature(logits.shape[1]))
                target = (1 - self._prior) * target + self._prior * expected
            yield self._weight[part], logits, target

    def derivative(self, log_inverse: float) -> float:
        """Return the derivative with respect to the inverse temperature, given its logarithm.

        At the optimum, mean logits by the probabilities are those by the labels. The log-loss is
        convex in the inverse temperature, so that the derivative is monotone.
        """
        inverse, total = np.exp(log_inverse), 0.0
        for weight, logits, target in self._blocks():
            total += weight @ (_mean_logit(logits, inverse) - target)
        return total

    def best_inverse(self, xtol: float = 1e-13) -> float:
        """Return the inverse temperature with the least log-loss; `xtol` is of its logarithm."""
        lower, upper = _BOUNDS
        if self.derivative(lower) >= 0:
            return float(np.exp(lower))
        if self.derivative(upper) <= 0:
            return float(np.exp(upper))
        return float(np.exp(find_root(self.derivative, lower, upper, xtol)))

    def minimum(self) -> float:
        """Return the least mean log-loss."""
        inverse, total = self.best_inverse(xtol=1e-3), 0.0  # its square is the relative error
        for weight, logits, target in self._blocks():
            partition = np.log(np.exp(inverse * logits).sum(axis=1))
            total += weight @ (partition - inverse * target)
        return total / self._weight.sum()


def round_calibrated(values: Any) -> Any:
    """Return values without the digits that depend on rounding errors of leave-one-out scores.

    These scores are floating-point sums, even if the readout is the exact solution of exact sums.
    """
    fraction, exponent = np.frexp(values)
    rounded = np.ldexp(np.rint(np.ldexp(fraction, _BITS)), exponent - _BITS)
    return rounded if np.ndim(values) else float(rounded)


def find_root(function: Callable[[float], float], lower: float, upper: float, xtol: float) -> float:
    """Return where a function is 0, by Brent's method.

    As `scipy.optimize.brentq`, but the function is released at the end. SciPy wraps it in a
    function that refers to itself: that and all arrays that it uses would stay in memory until the
    garbage collector runs, which does not consider their size.
    """
    held = [function]
    try:
        return brentq(lambda x: held[0](x), lower, upper, xtol=xtol)
    finally:
        held.clear()


def _prior_temperature(n_classes):
    """Return a temperature for few or no samples: larger than those of most data.

    Probabilities are then underconfident rather than overconfident.
    """
    return (2 / n_classes) ** 0.5


def _mean_logit(logits, inverse):
    """Return the mean of the logits of each sample, by its class probabilities."""
    p = np.exp(inverse * logits)
    return (p * logits).sum(axis=1) / p.sum(axis=1)


def probabilities(calibration: Calibration, scores: npt.NDArray) -> npt.NDArray:
    """Return probabilities (n_samples, n_classes) of decision values, in float64."""
    p = _scaled(calibration, scores)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def log_probabilities(calibration: Calibration, scores: npt.NDArray) -> npt.NDArray:
    """Return the logarithms of `probabilities`, finite even if these are 0 in float64."""
    log_p = _scaled(calibration, scores)
    log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    return log_p


def _scaled(calibration, scores):
    """Return logits over the temperature, minus the largest of each sample; in one array."""
    logits = _logits(scores, calibration.score_scale, calibration.offset)
    logits /= calibration.temperature
    logits -= logits.max(axis=1, keepdims=True)
    return logits


def _logits(scores, score_scale, offset=0.0):
    """Return a new array with a float64 column for each class.

    Of two classes, a single score is the difference of their logits; or of their probabilities, if
    there is a scale. With an offset, logits are relative to those of the score 0.
    """
    if offset:
        logits = _logits(np.asarray(scores, np.float64) + offset, score_scale)
        logits -= _logits([offset], score_scale)
        return logits
    scores = np.array(scores, np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.shape[1] == 1:
        mean = 0.0 if score_scale is None else 0.5
        scores = np.hstack([mean - scores / 2, mean + scores / 2])
    if score_scale is not None:
        scores /= score_scale
        np.arcsinh(scores, out=scores)
    return scores
