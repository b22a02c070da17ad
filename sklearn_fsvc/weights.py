"""A tanh layer from chance: weights, bias, scale."""

import numpy as np
from scipy import linalg
from sklearn.utils import check_random_state

from .arrays import to_host
from .layers import TanhLayer, hidden_dtype
from .parameters import check_choice, check_positive_or_auto
from .streaming import take_rows

WEIGHTS = ("gaussian", "orthogonal")

# scale="auto". With biases in [-1, 1], units that are nearly linear for most rows and bend
# for some read best: on MNIST 0.3 to 0.5 are level, 1 loses half a point.
AUTO_SCALE = 0.4

# Rows, at most, from which scale="auto" reads the spread of the features.
_SAMPLE = 10_000


def draw_layer(n_units, n_features, weights, bias, scale, random_state):
    """Random weights and biases; fewer units with the same state are a prefix.

    Weights have mean 0 and standard deviation ``scale / sqrt(n_features)``, so that
    features of unit variance meet a unit with standard deviation `scale`. Biases are
    uniform in [-1, 1]. Orthogonal weights have the lengths of Gaussian ones and directions
    that are orthogonal within each group of `n_features` units (Yu et al. 2016,
    "Orthogonal Random Features").

    Parameters
    ----------
    random_state : numpy.random.RandomState

    Returns
    -------
    layer : TanhLayer, in float64
    """
    # Two streams, so that the biases do not depend on the number of weights before them.
    seeds = random_state.randint(np.iinfo(np.int32).max, size=2)
    W = np.random.default_rng(seeds[0]).standard_normal((n_units, n_features))
    b = np.zeros(n_units)
    if bias:
        b = np.random.default_rng(seeds[1]).uniform(-1, 1, n_units)
    if weights == "orthogonal":
        _orthogonalise(W)
    W *= scale / np.sqrt(n_features)
    return TanhLayer(W, b)


def _orthogonalise(W):
    """Turn the rows of each group of n_features rows orthogonal, keeping their lengths.

    Column j of Q depends on the first j columns alone, so a prefix stays a prefix, to
    rounding.
    """
    for start in range(0, len(W), W.shape[1]):
        group = W[start : start + W.shape[1]]
        Q, R = linalg.qr(group.T, mode="economic", check_finite=False)
        signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
        group[:] = (Q * signs).T * np.linalg.norm(group, axis=1)[:, None]


def fit_to_data(layer, X, rows, weight, dtype):
    """The layer with weights divided by the spread of X, and X centred by the biases.

    The spread is the root of the mean variance of the features, so that the sum that a
    unit receives has the variance it would have for standardised features, whatever the
    unit and the offset of X. Measured on `rows`, with their weights.
    """
    block = to_host(take_rows(X, rows)).astype(np.float64, copy=False)
    weight = None if weight is None else weight[rows]
    mean = np.average(block, axis=0, weights=weight)
    block -= mean
    variance = np.average(np.einsum("ij,ij->i", block, block), weights=weight) / X.shape[1]
    W = layer.units / (np.sqrt(variance) if variance > 0 else 1.0)
    return TanhLayer(W, layer.bias - W @ mean).astype(dtype)


def check_parameters(estimator):
    """Raise for a parameter of a tanh layer that cannot be used."""
    check_choice("weights", estimator.weights, WEIGHTS)
    check_positive_or_auto("scale", estimator.scale)


def fit_layer(estimator, X, weight, n):
    """The tanh layer of an estimator with the parameters that `check_parameters` names."""
    random_state = check_random_state(estimator.random_state)
    auto = isinstance(estimator.scale, str)
    scale = AUTO_SCALE if auto else estimator.scale
    layer = draw_layer(n, X.shape[1], estimator.weights, estimator.bias, scale, random_state)
    dtype = hidden_dtype(X.dtype)
    if not auto:
        return layer.astype(dtype)
    rows = np.arange(len(X)) if weight is None else np.flatnonzero(weight)
    if len(rows) > _SAMPLE:
        rows = random_state.choice(rows, _SAMPLE, replace=False)
    return fit_to_data(layer, X, rows, weight, dtype)
