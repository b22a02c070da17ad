"""Matrix scaling: logits of masked classes, a linear map of the scores of a ridge readout.

A ridge readout of one-hot targets estimates the probability of each class by its own least-squares
fit. Where classes are ordered or nested, the fit of one in the middle may be the largest nowhere:
the class is masked (T. Hastie, R. Tibshirani and J. Friedman 2009, "The Elements of Statistical
Learning", section 4.2). All scores together distinguish these classes nevertheless. A multinomial
logistic regression of the classes on the scores of left-out samples has a matrix of coefficients
(matrix scaling: C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger 2017, "On Calibration of Modern
Neural Networks"), which replaces the readout by another linear one, ``A W`` and ``A b + c``.

Of classes that are not masked, the coefficients would be mostly noise. So the map is used only if
cross-validation shows a clearly lower log-loss than that of a temperature alone.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from ..engines.threads import limit_blas_threads
from .calibration import Calibration, log_probabilities

# `C` of the logistic regression: coefficients of 10 are usual, since scores are between 0 and 1.
_C = 10.0
# With fewer samples, in total or for each coefficient, there is no map; and the most that are used.
_MIN_SAMPLES, _MIN_SAMPLES_PER_COEF, _MAX_SAMPLES = 30, 2, 2**11
# The time of a regression grows with the fourth power of the number of classes.
_MAX_CLASSES = 20
# Of a class without samples, the most samples that its scores may add up to.
_MAX_EXPECTED = 5.0
# The largest score: that of an estimated probability is about 1. Newton's method may diverge if
# scores are much larger.
_MAX_SCORE = 1e2
_FOLDS = 5
# The decrease of the cross-validated log-loss, in standard errors, from which the map is used.
_MIN_DECREASE = 2.0


class MatrixScaling(NamedTuple):
    """A linear map of the scores of an output of y.

    Attributes
    ----------
    matrix : ndarray of shape (n_classes, n_classes + 1)
        Coefficients, and intercepts in the last column.
    scores : ndarray of shape (n_samples, n_classes)
        The mapped scores of the samples that it was fitted to, each predicted without its fold.
    """

    matrix: npt.NDArray
    scores: npt.NDArray


def fit_matrix_scaling(
    calibration: Calibration,
    scores: npt.NDArray,
    codes: npt.NDArray,
    weight: npt.NDArray | None = None,
) -> MatrixScaling | None:
    """Return the map of the scores of three or more classes; None if it is not clearly better.

    The logits are divided by the largest one of the samples, so that mapped scores are between -1
    and 1. The temperature of a calibration multiplies them again.

    Parameters
    ----------
    calibration : Calibration
        Of the scores without a map.
    scores : ndarray of shape (n_samples, n_classes)
        Decision values of samples that the readout was not trained on.
    codes : ndarray of int of shape (n_samples,)
        Class indices.
    weight : ndarray of shape (n_samples,), optional
    """
    weight = np.ones(len(codes)) if weight is None else weight
    # At random, since y may be periodic or sorted.
    present = np.flatnonzero(weight)
    rows = np.random.default_rng(0).permutation(present)[:_MAX_SAMPLES]
    x, y, w = scores[rows], codes[rows], weight[rows]
    if not _may_be_mapped(x, y, w) or np.abs(scores[present]).max() > _MAX_SCORE:
        return None
    w = w / w.mean()
    loss = -_of_labels(log_probabilities(calibration, x), y)
    n_coefs = _count_coefs(len(np.unique(y)))
    # Akaike's criterion. The second test is cheaper: no log-loss is negative.
    if w @ loss < n_coefs:
        return None
    matrix = _fit_logits(x, y, w)
    if w @ (loss + _of_labels(log_softmax(_map(matrix, x), axis=1), y)) < n_coefs:
        return None
    fold, logits = np.arange(len(y)) % _FOLDS, np.empty(x.shape)
    for k in range(_FOLDS):
        is_left = fold == k
        of_others = _fit_logits(x[~is_left], y[~is_left], w[~is_left], matrix)
        logits[is_left] = _map(of_others, x[is_left])
    decrease = w * (loss + _of_labels(log_softmax(logits, axis=1), y))
    if decrease.mean() <= _MIN_DECREASE * decrease.std() / np.sqrt(len(y)):
        return None
    mapped = _map(matrix, scores)
    mapped[rows] = logits
    largest = np.abs(mapped[present]).max()
    return MatrixScaling(matrix / largest, mapped / largest)


def may_have_map(n_classes: int, n_samples: int, n_present: int = 3) -> bool:
    """Return whether there may be a map of the scores of classes, of which `n_present` occur."""
    return 3 <= n_present <= n_classes <= _MAX_CLASSES and n_samples >= _min_samples(n_present)


def _min_samples(n_present):
    return max(_MIN_SAMPLES, _MIN_SAMPLES_PER_COEF * _count_coefs(n_present))


def _count_coefs(n_classes):
    """Return the number of coefficients, without those that change no probability.

    Those of classes that do not occur, such as some of a list of `classes`, are not counted.
    """
    return n_classes * (n_classes - 1)


def _may_be_mapped(scores, codes, weight):
    """Return whether there are enough samples, and none of a class that they lack is expected."""
    n_classes = scores.shape[1]
    is_absent = np.bincount(codes, minlength=n_classes) == 0
    n_present = int(np.count_nonzero(~is_absent))
    if not may_have_map(n_classes, len(weight), n_present):
        return False
    # The number of samples of equal weights whose means vary as much (L. Kish 1965).
    if weight.sum() ** 2 < _min_samples(n_present) * (weight @ weight):
        return False
    # A class that X_val lacks, or a rare one: the map would never predict it.
    return not (is_absent & (weight @ scores > _MAX_EXPECTED * weight.mean())).any()


def _of_labels(values, codes):
    """Return the value of each sample's class."""
    return values[np.arange(len(codes)), codes]


def _map(matrix, scores):
    return scores @ matrix[:, :-1].T + matrix[:, -1]


@limit_blas_threads(1)  # the matrices are small: threads on busy cores wait for each other
def _fit_logits(scores, codes, weight, start=None):
    """Return the coefficients and intercepts of a multinomial logistic regression.

    Another sample of each class, whose scores are its targets, makes all classes known. Newton's
    method begins at `start`, another result.
    """
    from sklearn.linear_model import LogisticRegression  # most fits need no map

    n_classes = scores.shape[1]
    model = LogisticRegression(C=_C, solver="newton-cholesky", tol=1e-8, warm_start=True)
    if start is not None:
        model.coef_, model.intercept_ = start[:, :-1].copy(), start[:, -1].copy()
    model.fit(
        np.vstack([scores, np.eye(n_classes)]),
        np.append(codes, np.arange(n_classes)),
        np.append(weight, np.ones(n_classes)),
    )
    return np.column_stack([model.coef_, model.intercept_])
