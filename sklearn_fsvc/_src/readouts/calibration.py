"""Probabilities from decision values: a softmax with one temperature for all classes.

One number, so that the order of the classes stays (Guo et al. 2017, "On Calibration of
Modern Neural Networks"). scikit-learn fits the same temperature inside its
`CalibratedClassifierCV`, which takes labels for column numbers and scores that happen to
lie between 0 and 1 for probabilities; and a model's state should be a number.
"""

import numpy as np
from scipy.optimize import brentq

# Where a function is 0.


def root(function, least, most, xtol):
    """`scipy.optimize.brentq`, after which nothing holds the function, nor the arrays that it uses.

    SciPy wraps a function in another one that refers to itself: they would stay in memory until the
    garbage collector comes, which does not count how large they are.
    """
    held = [function]
    try:
        return brentq(lambda x: held[0](x), least, most, xtol=xtol)
    finally:
        held.clear()


# Between these natural logarithms the inverse of the temperature is looked for.
_BOUNDS = -10.0, 10.0
# Scores that are looked at in one go, and those whose logits are kept for all steps.
_SCORES, _KEPT = 2**17, 2**14
# How much of one row more is of any class, as likely as any other.
_DOUBT = 1 / 4


def fit_temperature(scores, codes, weight=None, prior_rows=0.0):
    """The temperature with the least log-loss.

    A small part of each row counts as of all classes, in the whole a quarter of one row. So there
    is a least one where all rows are right, too. It is what Platt does for sigmoids (1999,
    "Probabilistic outputs for support vector machines"), with less: his part of a row for each
    class made the log-loss of many classes worse.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes), or (n_samples, 1) for two classes
        Decision values of rows that the readout has not seen.
    codes : ndarray of int of shape (n_samples,)
        Numbers of the classes, from 0.
    weight : ndarray of shape (n_samples,), optional
    prior_rows : float
        So many rows more, with scores such as these, count as if `_prior` were right of them.

    Returns
    -------
    temperature : float
        With no rows, that of the prior.
    """
    n_classes = max(2, scores.shape[1])
    if not len(codes):
        return _prior(n_classes)
    prior = prior_rows / (prior_rows + len(codes))
    weight = np.ones(len(codes)) if weight is None else weight
    doubt, step = _DOUBT / (len(codes) + 1), max(1, _SCORES // scores.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(codes), step)]

    def seen():
        """(part, logits less the largest of each row, what their mean should be)."""
        for part in parts:
            logits = _logits(scores[part])
            logits -= logits.max(axis=1, keepdims=True)
            own = logits[np.arange(len(logits)), codes[part]]
            wanted = (1 - doubt) * own + doubt * logits.mean(axis=1)
            if prior:
                expected = _mean(logits, 1 / _prior(n_classes))
                wanted = (1 - prior) * wanted + prior * expected
            yield part, logits, wanted

    kept = list(seen()) if scores.size <= _KEPT else None

    def slope(log_inverse):
        """Of the log-loss by the inverse: it never falls, for the log-loss is convex."""
        inverse, total = np.exp(log_inverse), 0.0
        for part, logits, wanted in kept or seen():
            total += weight[part] @ (_mean(logits, inverse) - wanted)
        return total

    least, most = _BOUNDS
    if slope(least) >= 0:
        return float(np.exp(-least))
    if slope(most) <= 0:
        return float(np.exp(-most))
    return float(np.exp(-root(slope, least, most, xtol=1e-13)))


def _prior(n_classes):
    """The temperature at which scores near one another are differences of probabilities.

    A ridge readout of classes as 0 and 1 estimates their probabilities; about equal scores
    ``s``, the softmax of ``n_classes * s`` rises as they do.
    """
    return 1 / n_classes


def _mean(logits, inverse):
    """Of the logits of each row, by the probabilities of its classes."""
    p = np.exp(inverse * logits)
    return (p * logits).sum(axis=1) / p.sum(axis=1)


def probabilities(temperature, scores):
    """Probabilities (n_samples, n_classes) of decision values, in float64."""
    p = _scaled(temperature, scores)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def log_probabilities(temperature, scores):
    """Logarithms of `probabilities`, finite also where those are 0 in float64."""
    log_p = _scaled(temperature, scores)
    log_p -= np.logaddexp.reduce(log_p, axis=1, keepdims=True)
    return log_p


def _scaled(temperature, scores):
    """Logits less the largest one of each row."""
    logits = _logits(scores)  # in its own place: a tile of rows is counted with one such array
    logits /= temperature
    logits -= logits.max(axis=1, keepdims=True)
    return logits


def _logits(scores):
    """A column for each class, in float64, a new array; of two, one score is the difference."""
    scores = np.array(scores, np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    return np.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores
