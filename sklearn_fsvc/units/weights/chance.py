"""Directions from chance alone. A unit's do not depend on how many follow it."""

import numpy as np
from scipy import linalg

from ...engines.host import map_rows
from ...engines.threads import n_threads

# Units whose numbers come from one stream, so that threads can draw.
_GROUP = 256


def gaussian(n_units, n_features, seed):
    """Independent standard normal weights, (n_units, n_features) in float64."""
    W = np.empty((n_units, n_features))

    def draw(units):
        for start in range(units.start, units.stop, _GROUP):
            stream = np.random.default_rng([seed, start // _GROUP])
            stream.standard_normal(out=W[start : min(start + _GROUP, units.stop)])

    map_rows(draw, n_units, n_threads(), multiple=_GROUP)
    return W


def orthogonal(n_units, n_features, seed):
    """Gaussian weights whose directions are orthogonal in each group of n_features units.

    With the lengths of `gaussian` (Yu et al. 2016, "Orthogonal Random Features"). Column j
    of Q depends on the first j columns alone, so a prefix stays a prefix, to rounding.
    """
    W = gaussian(n_units, n_features, seed)
    for start in range(0, n_units, n_features):
        group = W[start : start + n_features]
        Q, R = linalg.qr(group.T, mode="economic", check_finite=False)
        signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
        group[:] = (Q * signs).T * np.linalg.norm(group, axis=1)[:, None]
    return W
