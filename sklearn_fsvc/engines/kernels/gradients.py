"""The compiled loop of squared gradients: see `engines.gradients.square`.

Steps of two features stay in cache and meet four outputs at a time, in eight sums that
vectors add up: W has a multiple of four rows. As in `cpu`, each dtype has a function of its own
with one signature.
"""

import numpy as np
from numba import njit

from .compiling import jit


# fastmath lets LLVM reorder the sums, and so use vectors.
@njit(nogil=True, fastmath=True)
def _square(is_manhattan, X, units, slopes, W, steps, out):
    n_features, n_units = units.shape
    zero = X.dtype.type(0)
    for i in range(len(X)):
        for k in range(0, n_features, 2):
            last = min(k + 1, n_features - 1)  # an odd feature is its own partner
            _step(is_manhattan, X[i, k], units[k], slopes[i], steps[0])
            _step(is_manhattan, X[i, last], units[last], slopes[i], steps[1])
            total = total_of_last = 0.0
            for o in range(0, len(W), 4):
                a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
                for j in range(n_units):
                    a, b = steps[0, j], steps[1, j]
                    w0, w1, w2, w3 = W[o, j], W[o + 1, j], W[o + 2, j], W[o + 3, j]
                    a0 += a * w0
                    a1 += a * w1
                    a2 += a * w2
                    a3 += a * w3
                    b0 += b * w0
                    b1 += b * w1
                    b2 += b * w2
                    b3 += b * w3
                total += _squares(a0, a1, a2, a3)
                total_of_last += _squares(b0, b1, b2, b3)
            out[i, k], out[i, last] = total, total_of_last


@njit(nogil=True, fastmath=True)
def _step(is_manhattan, x, units, slopes, steps):
    """Slopes times steps of one row and feature."""
    zero = steps.dtype.type(0)
    if is_manhattan:
        for j in range(len(units)):
            c, slope = units[j], slopes[j]
            steps[j] = slope if x > c else (-slope if x < c else zero)
    else:
        for j in range(len(units)):
            steps[j] = slopes[j] * (x - units[j])


@njit(nogil=True)
def _squares(a, b, c, d):
    """The sum of their squares, in float64."""
    a, b, c, d = np.float64(a), np.float64(b), np.float64(c), np.float64(d)
    return a * a + b * b + c * c + d * d


@jit
def square_float32(is_manhattan, X, units, slopes, W, steps, out):
    _square(is_manhattan, X, units, slopes, W, steps, out)


@jit
def square_float64(is_manhattan, X, units, slopes, W, steps, out):
    _square(is_manhattan, X, units, slopes, W, steps, out)
