"""Random directions of the weights of tanh units.

They are always drawn on the host, so that every device has the same ones.
"""

import numpy as np
import numpy.typing as npt
from scipy import linalg

from ..engines.host import map_rows
from ..engines.threads import limit_blas_threads, n_threads

# Units that share a stream of random numbers. Each group has its own stream, so that threads can
# draw in parallel, and the weights of a unit do not depend on the number of units after it.
_GROUP_UNITS = 256
# Random numbers that a thread draws at a time, in float64.
_BLOCK_ELEMENTS = 2**16


def draw_gaussian(
    n_units: int, n_features: int, seed: int, dtype: npt.DTypeLike = np.float64
) -> npt.NDArray:
    """Return independent standard normal weights, (n_units, n_features)."""
    W, step = np.empty((n_units, n_features), dtype), max(1, _BLOCK_ELEMENTS // n_features)

    def draw(units):
        # One buffer per thread: allocations of several threads would serialise on page faults.
        buffer = np.empty((step, n_features))
        for start in range(units.start, units.stop, _GROUP_UNITS):
            stream = np.random.default_rng([seed, start // _GROUP_UNITS])
            stop = min(start + _GROUP_UNITS, units.stop)
            for i in range(start, stop, step):
                n = min(step, stop - i)
                W[i : i + n] = stream.standard_normal(out=buffer[:n])

    map_rows(draw, n_units, n_threads(), multiple=_GROUP_UNITS)
    return W


@limit_blas_threads(1)
def draw_orthogonal(
    n_units: int, n_features: int, seed: int, dtype: npt.DTypeLike = np.float64
) -> npt.NDArray:
    """Return Gaussian weights with orthogonal directions within each group of n_features units.

    Their lengths are those of `draw_gaussian` (Yu et al. 2016, "Orthogonal Random Features"). The
    directions are the Q of a QR decomposition, with signs such that R has a positive diagonal.
    Column j of Q depends on the first j columns only, so the units of a smaller layer are, up to
    rounding, the first ones of a larger layer.
    """
    W = draw_gaussian(n_units, n_features, seed)
    for start in range(0, n_units, n_features):
        group = W[start : start + n_features]
        Q, R = linalg.qr(group.T, mode="economic", check_finite=False)
        signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
        group[:] = (Q * signs).T * np.linalg.norm(group, axis=1)[:, None]
    return W.astype(dtype, copy=False)


def orthogonal_bytes(n_units: int, n_features: int) -> int:
    """Return the peak memory of `draw_orthogonal`: all weights, and the QR of one group."""
    n_of_group = min(n_units, n_features)
    return 8 * n_features * (n_units + 4 * n_of_group)
