"""The paper's kernel on the GPU: see `paper`."""

from functools import cache

from ..engines.kernels.language import cuda, device
from .paper import finish, term


@cache
def kernel(formula, is_integer):
    """A thread an output; launched with blocks of B x B threads."""
    add, end = device(term(formula, is_integer)), device(finish(formula))

    @cuda.jit
    def fill(X, units, H, parameter):
        # X (n, N) IN, units (n, m) IN, H (N, m) OUT
        i, j = cuda.grid(2)
        if i < H.shape[0] and j < H.shape[1]:
            total = 0.0
            for k in range(X.shape[0]):
                total += add(X[k, i], units[k, j])
            H[i, j] = end(total, parameter)

    return fill
