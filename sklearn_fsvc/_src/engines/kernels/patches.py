"""The compiled loops around units on patches: see `engines.patches`.

As in `cpu`, each dtype has a function of its own with one signature. fastmath lets LLVM reorder the
sums over a patch, and so use vectors.
"""

import numpy as np
from numba import njit

from .compiling import FLOATS, jit, named


def _unfold(X, line, is_normalised, floor, stride, P):
    """P (images, down, across, inputs) from X (images, rows, numbers in a row).

    A patch takes `line` numbers of a row, and has them from every `stride[1]`th on.
    """
    n_images, down, across, n_inputs = P.shape
    for i in range(n_images):
        for y in range(down):
            for x in range(across):
                patch, left = P[i, y, x], x * stride[1]
                for k in range(n_inputs // line):
                    row = X[i, y * stride[0] + k]
                    for j in range(line):
                        patch[k * line + j] = row[left + j]
                if is_normalised:
                    _normalise(patch, floor)


@njit(nogil=True, fastmath=True)
def _normalise(patch, floor):
    one = patch.dtype.type(1)
    n = patch.dtype.type(len(patch))
    total = squares = patch.dtype.type(0)
    for k in range(len(patch)):
        total += patch[k]
    mean = total / n
    for k in range(len(patch)):
        patch[k] -= mean
        squares += patch[k] * patch[k]
    scale = np.sqrt(squares / n + floor)
    factor = one / scale if scale > 0 else one
    for k in range(len(patch)):
        patch[k] *= factor


def _average(A, response, threshold, edges_down, edges_across, H):
    """H (images, units, sides, cells) from A (images, down, across, units).

    The response is 0 for outputs as they are, 1 for those below the mean, 2 for two sides.
    """
    n_units = A.shape[3]
    above, below = np.empty(n_units, A.dtype), np.empty(n_units, A.dtype)
    n_across = len(edges_across) - 1
    zero = A.dtype.type(0)
    for i in range(len(A)):
        for cell in range(H.shape[3]):
            top, left = cell // n_across, cell % n_across
            n_places = 0
            above[:] = zero
            below[:] = zero
            for y in range(edges_down[top], edges_down[top + 1]):
                for x in range(edges_across[left], edges_across[left + 1]):
                    n_places += 1
                    _add(A[i, y, x], response, threshold, above, below)
            factor = A.dtype.type(1) / A.dtype.type(n_places)
            for j in range(n_units):
                H[i, j, 0, cell] = above[j] * factor
            if response == 2:
                for j in range(n_units):
                    H[i, j, 1, cell] = below[j] * factor


@njit(nogil=True, fastmath=True)
def _add(a, response, threshold, above, below):
    """Add what becomes of the outputs a of all units at a place."""
    zero = a.dtype.type(0)
    n_units = len(a)
    if response == 2:
        for j in range(n_units):
            above[j] += max(a[j] - threshold, zero)
            below[j] += max(-a[j] - threshold, zero)
    elif response == 1:
        mean = zero
        for j in range(n_units):
            mean += a[j]
        mean /= a.dtype.type(n_units)
        for j in range(n_units):
            above[j] += max(mean - a[j], zero)
    else:
        for j in range(n_units):
            above[j] += a[j]


unfold_float32, unfold_float64, average_float32, average_float64 = (
    jit(named(function, f"{name}_{dtype}"), fastmath=True)
    for name, function in (("unfold", _unfold), ("average", _average))
    for dtype in FLOATS
)
