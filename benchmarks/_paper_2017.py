"""The method of the paper, as a baseline on the same machine, and its published results.

R. Dogaru, I. Dogaru, "Optimization of GPU and CPU acceleration for neural networks layers
implemented in Python", ISEEE 2017, doi:10.1109/ISEEE.2017.8170680. Arrays are stored feature by
feature there. On the CPU one thread runs three plain loops under numba's @jit; on the GPU
each thread computes one output, in blocks of B x B threads.
"""

import math
from functools import cache

import numpy as np

# Best published t_syn, in picoseconds per sample, unit and feature.
T_SYN = {"GPU (GTX 750)": 130, "MKL, float32": 330, "@jit": 46_000}
SPEED_UP = "100 - 250"  # of the GPU over its implementation on the CPU
# Limit of CUDA for the threads of a block.
MAX_THREADS = 1024


@cache
def loop(formula, is_integer):
    """Return the loop on the CPU: ``loop(X, units, H, parameter, n_rows)`` fills rows of H.

    X (n, N) and units (n, m) are stored feature by feature. The parameter is that of `finish`.
    """
    from numba import njit

    add, end = njit(term(formula, is_integer)), njit(finish(formula))

    @njit
    def fill(X, units, H, parameter, n_rows):
        for i in range(n_rows):
            for j in range(units.shape[1]):
                total = 0.0
                for k in range(units.shape[0]):
                    total += add(X[k, i], units[k, j])
                H[i, j] = end(total, parameter)

    return fill


def term(formula, is_integer):
    """Return the term of the sum over features; differences of unsigned bytes would wrap."""
    if formula == "tanh":
        return lambda x, w: x * w
    if is_integer:
        return lambda x, c: abs(np.int64(x) - np.int64(c))
    return lambda x, c: abs(x - c)


def finish(formula):
    """Return the output of a unit: tanh of the sum and a bias, or the triangle."""
    if formula == "tanh":
        return lambda total, bias: math.tanh(total + bias)
    return lambda total, base: max(0.0, 1.0 - total / base)
