"""Feature importances: feature weights times the standard deviations of the features.

A learned weight is a root mean squared gradient, so its importance is that with respect to the
standardised feature. Unlike weights, importances do not depend on the units of the features.
"""

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.rows import take_rows
from ..data.samples import Samples, draw_ascending

# Maximum numbers of samples, and of elements in them, from which standard deviations are estimated.
_MAX_SAMPLES, _MAX_ELEMENTS = 4000, 2**22
# Arrays of that size, in float64, that are allocated at a time.
_N_ARRAYS = 3


def importances_of(
    weights: npt.NDArray, deviations: npt.NDArray | float
) -> npt.NDArray[np.float64]:
    """Return the importances of features with some standard deviations, in any common unit.

    Parameters
    ----------
    weights : ndarray of shape (n_features,) or (n_features, n_inputs)
        Feature weights, or a linear map: then the weight of a feature is the norm of its row.
    deviations : ndarray of shape (n_features,) or float

    Returns
    -------
    ndarray of shape (n_features,), float64
        Their sum is 1, but all are 0 if no feature that has a weight varies.
    """
    norms = np.abs(weights) if weights.ndim == 1 else np.linalg.norm(weights, axis=1)
    importances = norms * deviations
    return importances / (importances.sum() or 1)


def standard_deviations(job: Job, samples: Samples) -> npt.NDArray[np.float64]:
    """Return the standard deviations of the features, divided by the largest absolute value.

    At most 4000 samples are read, and fewer if there are more than 1000 features.
    """
    n_elements = min(_MAX_ELEMENTS, job.memory_limit // (8 * _N_ARRAYS))
    max_rows = max(2, min(_MAX_SAMPLES, n_elements // samples.X.shape[1]))
    # No generator is given: no other random choice of a fit depends on importances.
    rows = draw_ascending(samples.rows_with_weight, max_rows)
    X = job.engine.to_host(take_rows(samples.X, rows)).astype(np.float64)
    # Divide each feature by its maximum, so that squares neither overflow nor underflow. Subtract
    # the first sample, so that constant features become exactly 0.
    peak = np.abs(X).max(axis=0)
    X /= np.where(peak > 0, peak, 1)
    X -= X[0].copy()
    weight = samples.weight_of(rows)
    X -= np.average(X, axis=0, weights=weight)
    variance = np.average(np.square(X, out=X), axis=0, weights=weight)
    return np.sqrt(variance) * (peak / (peak.max() or 1))
