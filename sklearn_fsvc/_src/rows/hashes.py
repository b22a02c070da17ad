"""A number for each row that depends on what is in it, and on nothing else."""

from functools import lru_cache

import numpy as np

from ..engines.algebra import HOST, bits_of
from .sources import SparseRows

# Numbers that are hashed at a time, few enough for a cache.
_AT_A_TIME = 2**16


def row_hashes(X):
    """Return hashes (n_rows,), uint64: equal for equal rows, dense or sparse, of whatever dtype.

    The numbers of a row are rounded to float32, and their bits multiplied with a random odd
    number for each feature and added up, modulo 2^64 (multilinear hashing: Carter & Wegman 1979).
    """
    factors = _factors(X.shape[1])
    if isinstance(X, SparseRows):
        sums = X.summed(lambda values, columns: _bits(values) * factors[columns])
    else:
        step = max(1, _AT_A_TIME // max(1, X.shape[1]))
        tiles = [X[i : i + step] for i in range(0, len(X), step)]
        sums = np.concatenate([_bits(tile) @ factors for tile in tiles])
    return _mixed(sums)


def exact_hashes(X, algebra=HOST):
    """Hashes of rows of which no number is rounded, an array of the host.

    `algebra` is that of the rows.

    As `row_hashes` in all else. Of a million different rows of small whole numbers, two have the
    same hash once in thousands of times; of others, once in millions.
    """
    factors = _factors(X.shape[1])
    if isinstance(X, SparseRows):
        return _mixed(X.summed(lambda values, columns: bits_of(values) * factors[columns]))
    return _mixed(algebra.sum_bits(X, factors))


def _bits(values):
    """The bits of numbers in float32; 0 for 0, and for -0."""
    with np.errstate(over="ignore"):
        return (
            (np.asarray(values).astype(np.float32) + np.float32(0))
            .view(np.uint32)
            .astype(np.uint64)
        )


@lru_cache(8)
def _factors(n):
    """Odd numbers that are the same everywhere, and the first ones for whatever n."""
    return np.frombuffer(np.random.RandomState(0).bytes(8 * n), "<u8").astype(
        np.uint64
    ) | np.uint64(1)


def _mixed(sums):
    """The upper bits depend on all others."""
    sums = (sums ^ (sums >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return sums ^ (sums >> np.uint64(29))
