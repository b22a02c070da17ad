"""Almost linear tanh units, for data with few samples per feature.

Random weights keep the inner products of samples up to about ``1 / sqrt(n_units)`` of their squared
lengths (W. B. Johnson and J. Lindenstrauss 1984). Those of different samples are only about
``1 / sqrt(n_features)`` of these if many features are noise, so that they are lost. Orthogonal
weights in the span of the training samples keep them exactly, and tanh is almost the identity for
small inputs: the readout is then the ridge regression of X. With few samples per feature, learned
feature weights also hide informative features, and linear units of all features find them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from ..data.job import Job
from ..data.samples import Samples
from ..data.sources import SparseSource
from ..engines.threads import limit_blas_threads
from ..layers import TanhLayer, hidden_dtype
from ..readouts.penalty_search import SearchHistory, gather_and_search
from .random_weights import draw_orthogonal

# With fewer samples, the validation error is too noisy for a comparison. The first number is for
# more features than samples, where random units are poor; the second one for other data, where
# linear units that are selected by chance do more harm: they extrapolate further.
_MIN_WIDE_SAMPLES, _MIN_SAMPLES = 30, 100
# With this many samples per feature, other units are as good for linear targets.
_MAX_SAMPLES_PER_FEATURE = 4
# Number of leading units of each layer that are compared.
_N_UNITS = 1000
# Part of the error by which other units have to be better: errors of few samples are noisy.
_MIN_GAIN = 0.05
# Root mean square of the input of a unit: tanh differs from the identity by a third of a percent.
_INPUT = 0.1
# Variance along a principal axis that is a rounding error, relative to the largest one.
_ROUNDING = 1e-10


def suits_linear_units(job: Job, samples: Samples, n_units: int) -> bool:
    """Return whether to try linear units: few samples per feature, and enough units.

    Numeric targets may have more samples than features; classes with that many samples gain
    nothing. Sparse matrices are left out, since the weights of these units are dense combinations
    of them.
    """
    n_features, n_rows = samples.X.shape[1], len(samples.rows_with_weight)
    n_bytes = 8 * n_features * (3 * n_rows + 2 * n_units)
    is_numeric = not samples.targets.is_binary
    has_few_samples = _MIN_WIDE_SAMPLES <= n_rows < n_features or (
        is_numeric and _MIN_SAMPLES <= n_rows < _MAX_SAMPLES_PER_FEATURE * n_features
    )
    return (
        has_few_samples
        and min(n_rows, n_features) <= n_units
        and not isinstance(samples.X, SparseSource)
        and n_bytes <= job.memory_limit
    )


@limit_blas_threads(1)
def linear_units(
    X: npt.NDArray, n_units: int, feature_weights: npt.NDArray | None, seed: int
) -> TanhLayer | None:
    """Return units with orthogonal weights in the span of the samples; None if all are equal.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples of positive weight.
    n_units : int
        At least the smaller one of `n_samples` and `n_features`.
    feature_weights : ndarray of shape (n_features,) or None
    seed : int
    """
    dtype, X = hidden_dtype(X.dtype), X.astype(np.float64)
    X = X if feature_weights is None else X * feature_weights
    mean = X.mean(axis=0)
    X -= mean
    peak = np.abs(X).max()
    if not peak > 0:
        return None
    X /= peak  # squares neither overflow nor underflow
    is_wide = len(X) < X.shape[1]
    variances, vectors = eigh(X @ X.T if is_wide else X.T @ X)
    kept = variances > _ROUNDING * variances[-1]
    variances, axes = variances[kept], vectors[:, kept]
    if is_wide:
        axes = X.T @ (axes / np.sqrt(variances))
    W = draw_orthogonal(n_units, axes.shape[1], seed)
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    W *= _INPUT / (peak * np.sqrt(variances.sum() / (len(X) * axes.shape[1])))
    W = W @ axes.T
    bias = -(W @ mean)
    W = W if feature_weights is None else W * feature_weights
    return TanhLayer(W, bias).astype(dtype)


def select_layer(
    job: Job,
    samples: Samples,
    linear: list[TanhLayer],
    other: TanhLayer,
    start_alpha: float,
    seed: int,
) -> TanhLayer:
    """Return the best of several linear layers, or the other layer.

    The other layer, if its validation error is clearly less; with no fewer samples than features,
    unless its error is clearly larger. The errors are those at the best penalties.
    """

    def error(layer: Any) -> float:
        random, history = np.random.default_rng(seed), SearchHistory(start_alpha)
        leading = layer.part(slice(_N_UNITS))
        return gather_and_search(job, leading, samples, random, history, many_units=_N_UNITS)[
            0
        ].error

    errors = [error(layer) for layer in linear]
    lowest, of_other, factor = min(errors), error(other), 1 - _MIN_GAIN
    is_wide = len(samples.rows_with_weight) < samples.X.shape[1]
    is_linear = of_other >= factor * lowest if is_wide else lowest < factor * of_other
    return linear[errors.index(lowest)] if is_linear else other
