"""Sums of products that are no numbers, on the host: made again in float64.

Where the products of a row with the weights of a unit are infinite, the first of them decides the
sign of the sum, or the sum is NaN. tanh would hide both.
"""

import numpy as np

# Sums that are looked at as fast as what else says that they are numbers, in one thread of a BLAS.
_FEW = 2**13
# Weights that are copied at a time.
_AT_A_TIME = 2**18


def may_overflow(layer, X, n_sums):
    """Whether so many sums for rows X may be no numbers: a look at X, where that is the smaller."""
    if layer.accumulation != "product":
        return False
    if n_sums < _FEW or X.size > n_sums:
        return True
    return not (-layer.most < X.min() and X.max() < layer.most)


def mend(layer, X, sums, units=slice(None)):
    """Make sums of products finite that are not, or infinite with the sign they have, in place.

    `sums` (rows, units) hold their biases, X may be a ``csr_array``, and `units` are those of the
    layer that the sums are of.
    """
    if sums.size <= _FEW and np.vdot(sums, sums) < np.inf:  # one call is less than two
        return
    if -np.inf < sums.min() and sums.max() < np.inf:  # False of NaN
        return
    layer = layer.part(units)
    for row in np.flatnonzero(~np.isfinite(sums).all(axis=1)):
        x = X[row] if isinstance(X, np.ndarray) else X[[row]].toarray()[0]
        columns = np.flatnonzero(~np.isfinite(sums[row]))
        step = max(1, _AT_A_TIME // len(x))
        for start in range(0, len(columns), step):
            some = columns[start : start + step]
            sums[row, some] = _exact(x, layer.units[some]) + layer.bias[some]


def _exact(x, W):
    """``W @ x`` in float64, of numbers of any size."""
    x, x_power = _near_one(x[None])
    W, powers = _near_one(W)
    return np.ldexp(np.einsum("ij,j->i", W, x[0]), powers + x_power)


def _near_one(rows):
    """Rows over powers of two, so that they are at most 1, and the powers."""
    powers = np.frexp(np.abs(rows).max(axis=1).astype(np.float64))[1]
    return np.ldexp(rows.astype(np.float64), -powers[:, None]), powers
