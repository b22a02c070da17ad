"""The paper's kernel on the GPU: see `paper`."""

import math
from functools import cache

from ..engines.kernels.language import cuda, device
from .paper import distance


@cache
def kernel(formula, is_integer):
    """The kernel on the GPU: a thread an output, launched with blocks of B x B threads."""
    difference = device(distance(is_integer))

    @cuda.jit
    def mul(X, units, H, bias):
        # X (n, N) IN, units (n, m) IN, H (N, m) OUT
        i, j = cuda.grid(2)
        if i < H.shape[0] and j < H.shape[1]:
            total = 0.0
            for k in range(X.shape[0]):
                total += X[k, i] * units[k, j]
            H[i, j] = math.tanh(total + bias)

    @cuda.jit
    def rbf(X, units, H, base):
        # X (n, N) IN, units (n, m) IN, H (N, m) OUT
        i, j = cuda.grid(2)
        if i < H.shape[0] and j < H.shape[1]:
            total = 0.0
            for k in range(X.shape[0]):
                total += difference(X[k, i], units[k, j])
            H[i, j] = max(0.0, 1.0 - total / base)

    return mul if formula == "tanh" else rbf
