"""Prediction sets: the classes whose probability is at least a limit, and the predicted class.

The limit is found from samples that were left out: conformal prediction with the least ambiguous
sets (M. Sadinle, J. Lei and L. Wasserman 2019, "Least ambiguous set-valued classifiers with bounded
error levels"). They contain the predicted class whatever its probability, so only the samples whose
class is not the predicted one determine the limit. If all were used, as there, and the predicted
class were added to empty sets, the limit would be too low, and sets too large.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .calibration import probabilities, round_calibrated

# Scores that are processed at a time.
_BLOCK_SIZE = 2**17
# Limits that are kept, at most.
_MAX_LIMITS = 2**10


class ConformityScores(NamedTuple):
    """How often sets of certain limits contain the true class.

    Attributes
    ----------
    limits : ndarray of shape (n_limits,)
        Descending: probabilities of the classes of samples that were left out, if another class is
        predicted. The first limit is inf, for sets of the predicted class alone.
    levels : ndarray of shape (n_limits,)
        Ascending: the probability that the set of a new sample contains its class.
    """

    limits: npt.NDArray
    levels: npt.NDArray

    def limit(self, confidence_level: float) -> float:
        """Return the largest limit of this level; 0 if there are too few samples for any."""
        k = int(np.searchsorted(self.levels, confidence_level))
        return float(self.limits[k]) if k < len(self.limits) else 0.0


def conformity_scores(
    temperature: float,
    scores: npt.NDArray,
    codes: npt.NDArray,
    weight: npt.NDArray | None = None,
    is_rounded: bool = False,
) -> ConformityScores:
    """Return the conformity scores of one or more samples that were left out.

    Of n samples of equal weight, the sets that contain the classes of i of them contain that of a
    new sample with probability ``i / (n + 1)``. The weight of a new sample is the mean one.

    Parameters
    ----------
    temperature, scores, codes, weight
        As of `calibration.fit_temperature`, and what it returns.
    is_rounded : bool
        Whether limits are rounded, by `calibration.round_calibrated`.
    """
    weight = np.ones(len(codes)) if weight is None else weight
    is_wrong = predict_codes(scores) != codes
    wrong = np.flatnonzero(is_wrong & (weight > 0))
    step = max(1, _BLOCK_SIZE // scores.shape[1])
    p = np.empty(len(wrong))
    for start in range(0, len(wrong), step):
        rows = wrong[start : start + step]
        of_classes = probabilities(temperature, scores[rows])
        p[start : start + step] = of_classes[np.arange(len(rows)), codes[rows]]
    p = round_calibrated(p) if is_rounded else p
    order = np.argsort(-p, kind="stable")
    weights = np.concatenate([[weight[~is_wrong].sum()], weight[wrong[order]]])
    total = weight.sum()
    levels = np.cumsum(weights) / (total + total / np.count_nonzero(weight))
    limits = np.append(np.inf, p[order])
    kept = np.arange(len(limits))
    if len(kept) > _MAX_LIMITS:
        kept = np.linspace(0, len(kept) - 1, _MAX_LIMITS).astype(int)
    return ConformityScores(limits[kept], levels[kept])


def prediction_sets(temperature: float, scores: npt.NDArray, limit: float) -> npt.NDArray:
    """Return the sets of samples, a bool array (n_samples, n_classes)."""
    is_in = probabilities(temperature, scores) >= limit
    is_in[np.arange(len(is_in)), predict_codes(scores)] = True
    return is_in


def predict_codes(scores: npt.NDArray) -> npt.NDArray[np.intp]:
    """Return the index of the class with the largest score, the first of equal ones.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes), or (n_samples, 1) for two classes
    """
    return (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
