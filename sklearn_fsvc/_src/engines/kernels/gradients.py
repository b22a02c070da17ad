"""The compiled loop of squared gradients: see `engines.gradients.square`.

Steps of two features stay in cache and meet four outputs at a time, in eight sums that
vectors add up: W has a multiple of four rows. As in `cpu`, each dtype has a function of its own
with one signature.
"""

import numpy as np

from .compiling import FLOATS, jit, named


def _square(is_manhattan, X, units, slopes, W, steps, out):
    n_features, n_units = units.shape
    zero = X.dtype.type(0)
    for i in range(len(X)):
        for k in range(0, n_features, 2):
            last = k + 1 if k + 1 < n_features else k  # an odd feature is its own partner
            for side in range(2):
                feature = last if side else k
                x = X[i, feature]
                if is_manhattan:
                    for j in range(n_units):
                        c, slope = units[feature, j], slopes[i, j]
                        steps[side, j] = slope if x > c else (-slope if x < c else zero)
                else:
                    for j in range(n_units):
                        steps[side, j] = slopes[i, j] * (x - units[feature, j])
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
                for s, t in ((a0, b0), (a1, b1), (a2, b2), (a3, b3)):
                    total += np.float64(s) * np.float64(s)
                    total_of_last += np.float64(t) * np.float64(t)
            out[i, k], out[i, last] = total, total_of_last


# fastmath lets LLVM reorder the sums, and so use vectors.
square_float32, square_float64 = (jit(named(_square, f"square_{t}"), fastmath=True) for t in FLOATS)
