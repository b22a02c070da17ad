"""Directions from chance alone. A unit's do not depend on how many follow it."""

import numpy as np
from scipy import linalg

from ...engines.blas_threads import at_most
from ...engines.host import map_rows
from ...engines.threads import n_threads

# Units whose numbers come from one stream, so that threads can draw.
_GROUP = 256
# Numbers that a thread draws at a time, in float64.
_DRAWN = 2**16


def gaussian(n_units, n_features, seed, dtype=np.float64):
    """Independent standard normal weights, (n_units, n_features), of a dtype."""
    W, step = np.empty((n_units, n_features), dtype), max(1, _DRAWN // n_features)

    def draw(units):
        drawn = np.empty((step, n_features))  # once: threads would wait for one another's new pages
        for start in range(units.start, units.stop, _GROUP):
            stream = np.random.default_rng([seed, start // _GROUP])
            stop = min(start + _GROUP, units.stop)
            for i in range(start, stop, step):
                n = min(step, stop - i)
                W[i : i + n] = stream.standard_normal(out=drawn[:n])

    map_rows(draw, n_units, n_threads(), multiple=_GROUP)
    return W


@at_most(1)
def orthogonal(n_units, n_features, seed, dtype=np.float64):
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
    return W.astype(dtype, copy=False)


def orthogonal_bytes(n_units, n_features):
    """Bytes that `orthogonal` takes at most: all weights, and while a group is made, others."""
    n_of_group = min(n_units, n_features)
    return 8 * n_features * (n_units + 4 * n_of_group)
