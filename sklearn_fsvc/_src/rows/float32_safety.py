"""Whether rows in float64 may meet a layer in float32, which takes half the time.

A number of float32 has 24 bits. Where rows lie far from 0 and near to one another, their
distances are in the bits that it lacks; and numbers that are huge or tiny are none of it.
"""

import numpy as np

from ..layers import PatchLayer

# What rounding may change an output by; and a feature, as a part of its spread.
_OF_OUTPUT, _OF_SPREAD = 1e-5, 1e-4
# Numbers that are among those of float32, and so are their squares, and one over them.
_MOST = 2.0**60
_EPS = float(np.finfo(np.float32).eps)


def is_wide(X):
    """Whether they are rows in float64, in memory, dense and on the host."""
    return isinstance(X, np.ndarray) and not isinstance(X, np.memmap) and X.dtype == np.float64


def keeps_distances(X):
    """Whether all features of rows in float64 differ in float32 by as much as they do."""
    peaks, spread = _peaks(X), np.zeros(X.shape[1])
    if peaks.max(initial=0) < _MOST:
        spread = X.std(axis=0)
    varies = X.min(axis=0) < X.max(axis=0)
    return bool(((_EPS * peaks <= _OF_SPREAD * spread) & (spread > 1 / _MOST))[varies].all())


def cast_if_safe(layer, X):
    """The layer in float32 where it answers rows X alike, to `_OF_OUTPUT`; else the layer."""
    if not is_wide(X) or layer.hidden_dtype != np.float64 or isinstance(layer, PatchLayer):
        return layer
    return layer.astype(np.float32) if _does(layer, X) else layer


def _does(layer, X):
    peaks, units = _peaks(X), _peaks(layer.units)
    largest = max(peaks.max(initial=0), units.max(initial=0))
    if layer.accumulation == "product":
        return bool(largest < _MOST and _EPS * (np.abs(layer.units) @ peaks).max() <= _OF_OUTPUT)
    weights = np.ones(len(peaks)) if layer.weights is None else np.abs(layer.weights)
    of_features = weights.max(axis=1) if layer.is_mapped else weights
    factors = np.append(of_features[of_features > 0], layer.radius)
    are_numbers = largest < _MOST and 1 / _MOST < factors.min() <= factors.max() < _MOST
    if not are_numbers or layer.metric == "sqeuclidean":  # whose radius is a square, too
        return False
    arriving = peaks @ weights if layer.is_mapped else peaks * weights
    most = np.maximum(arriving, units).sum()
    return bool(_EPS * most <= _OF_OUTPUT * layer.radius)


def _peaks(X):
    """The largest size of the numbers of each feature."""
    return np.maximum(X.max(axis=0, initial=0), -X.min(axis=0, initial=0))
