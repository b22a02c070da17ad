"""Prediction sets: the classes whose probability reaches a threshold, and the predicted class.

The threshold is a quantile over left-out samples: conformal prediction with least ambiguous sets
(M. Sadinle, J. Lei and L. Wasserman 2019, "Least ambiguous set-valued classifiers with bounded
error levels"). Our sets contain the predicted class whatever its probability, so only misclassified
samples determine the threshold. If all samples were used, as in that paper, and the predicted class
were added to empty sets, the threshold would be too low, and the sets too large.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .calibration import Calibration, probabilities, round_calibrated, score_blocks

# Maximum number of thresholds that are kept.
_MAX_THRESHOLDS = 2**10


class ConformityScores(NamedTuple):
    """The coverage of prediction sets, for several thresholds.

    Attributes
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Descending: probabilities of the true classes of misclassified left-out samples. The first
        threshold is inf, for sets that contain only the predicted class.
    levels : ndarray of shape (n_thresholds,)
        Ascending: the probability that the set of a new sample contains the true class.
    """

    thresholds: npt.NDArray
    levels: npt.NDArray

    def threshold(self, confidence_level: float) -> float:
        """Return the largest threshold of this level; 0 if there are too few samples for any."""
        k = int(np.searchsorted(self.levels, confidence_level))
        return float(self.thresholds[k]) if k < len(self.thresholds) else 0.0


def conformity_scores(
    calibration: Calibration,
    scores: npt.NDArray,
    codes: npt.NDArray,
    weight: npt.NDArray | None = None,
    is_rounded: bool = False,
) -> ConformityScores:
    """Return the conformity scores of one or more left-out samples.

    If i of n samples of equal weight have the true class in their sets, a new sample has it with
    probability ``i / (n + 1)``. A new sample is assumed to have the mean weight.

    Parameters
    ----------
    calibration, scores, codes, weight
        See `calibration.fit_calibration`, which returns the calibration.
    is_rounded : bool
        Whether thresholds are rounded, by `calibration.round_calibrated`.
    """
    weight = np.ones(len(codes)) if weight is None else weight
    is_wrong = predict_codes(scores) != codes
    wrong = np.flatnonzero(is_wrong & (weight > 0))
    p = np.empty(len(wrong))
    for part in score_blocks(len(wrong), scores.shape[1]):
        rows = wrong[part]
        p[part] = probabilities(calibration, scores[rows])[np.arange(len(rows)), codes[rows]]
    p = round_calibrated(p) if is_rounded else p
    order = np.argsort(-p, kind="stable")
    weights = np.concatenate([[weight[~is_wrong].sum()], weight[wrong[order]]])
    total = weight.sum()
    levels = np.cumsum(weights) / (total + total / np.count_nonzero(weight))
    thresholds = np.append(np.inf, p[order])
    kept = np.arange(len(thresholds))
    if len(kept) > _MAX_THRESHOLDS:
        kept = np.linspace(0, len(kept) - 1, _MAX_THRESHOLDS).astype(int)
    return ConformityScores(thresholds[kept], levels[kept])


def prediction_sets(calibration: Calibration, scores: npt.NDArray, threshold: float) -> npt.NDArray:
    """Return the sets of samples, a bool array (n_samples, n_classes)."""
    is_in = probabilities(calibration, scores) >= threshold
    is_in[np.arange(len(is_in)), predict_codes(scores)] = True
    return is_in


def predict_codes(scores: npt.NDArray) -> npt.NDArray[np.intp]:
    """Return the index of the class with the largest score, the first of equal ones.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes), or (n_samples, 1) for two classes
    """
    return (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
