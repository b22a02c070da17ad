"""Directions made of training rows and their classes, unit by unit.

Which rows, and with which signs, is drawn on the host; the sums are made where X lies.
"""

import numpy as np

from ...engines.linalg import algebra
from ...rows.streaming import budget, take_rows
from ...rows.tiling import rows_per_tile

# Bytes of a tile of rows beyond which nothing is gained; on a GPU, where every call costs
# its launch, four times as many.
_TILE_BYTES = 2**28
# Words that a stream of random words gives to each row, of 64 bits.
_WORDS = 4


def signed_sums(engine, xp, X, rows, codes, mean, n_units, seed, dtype, max_memory):
    """Sums of all the rows of one class, each less the mean, with random signs.

    Unit j has the class j modulo the number of classes (McDonnell et al. 2015, "Fast,
    simple and accurate handwritten digit classification by training shallow neural network
    classifiers with the extreme learning machine algorithm"). One pass over X. Sums of
    bytes are exact, so the same wherever they are made.

    Returns
    -------
    W : array of shape (n_units, n_features), `dtype`, where X lies
    """
    classes, codes = np.unique(codes[rows], return_inverse=True)
    n_classes, n_features = len(classes), X.shape[1]
    n_each = -(-n_units // n_classes)
    signs = _Signs(n_each, seed)
    # From sums of bytes, which are exact, the mean is taken at the end, from others the rest.
    is_exact = X.dtype == np.uint8
    shift = np.zeros(n_features, dtype) if is_exact else mean.astype(dtype)
    rest, shift = xp.asarray((mean - shift).astype(dtype)), xp.asarray(shift)
    sums = xp.zeros((n_each, n_classes, n_features), dtype)
    totals = xp.zeros((n_each, n_classes), dtype)
    row_bytes = 2 * n_features * (X.dtype.itemsize + sums.itemsize) + n_each * (4 + sums.itemsize)
    tile = rows_per_tile(
        len(rows), row_bytes, 2 * sums.nbytes, budget(engine, max_memory),
        max(1, _TILE_BYTES * (1 if xp is np else 4) // row_bytes),
    )  # fmt: skip
    for start in range(0, len(rows), tile):
        part = slice(start, start + tile)
        block, words = take_rows(X, rows[part]), xp.asarray(signs.next_words(len(rows[part])))
        for k in range(n_classes):
            picked = np.flatnonzero(codes[part] == k)
            if len(picked):
                S = signs.of(words[picked], dtype, xp)
                ours = take_rows(block, picked, dtype)
                if not is_exact:
                    ours -= shift
                sums[:, k] += algebra(xp).cross(ours, S).T
                totals[:, k] += S.sum(axis=0)
    for k in range(n_classes):
        sums[:, k] -= xp.outer(totals[:, k], rest)
    return sums.reshape(-1, n_features)[:n_units]


class _Signs:
    """For each row +1 or -1 for each unit of its class, bit by bit of random words.

    256 units share a stream of words, four for each row, so that neither the units after
    them nor the size of the tile matter.
    """

    def __init__(self, n_units, seed):
        self._n_units = n_units
        self._streams = [
            np.random.SFC64([seed, block]) for block in range(-(-n_units // (64 * _WORDS)))
        ]

    def next_words(self, n_rows):
        """(n_rows, n_words) for the rows that follow."""
        words = [s.random_raw(n_rows * _WORDS).reshape(-1, _WORDS) for s in self._streams]
        return np.concatenate(words, axis=1).astype("<u8", copy=False)

    def of(self, words, dtype, xp):
        """(rows, n_units): the bits as signs."""
        bits = xp.unpackbits(words.view(np.uint8), bitorder="little")
        signs = bits.reshape(len(words), -1)[:, : self._n_units].astype(dtype)
        signs *= 2
        signs -= 1
        return signs


def differences(engine, xp, X, rows, codes, mean, n_units, seed, dtype, max_memory):
    """Differences of two random rows of different classes.

    The first row's class is j modulo the number of classes, the second one's any other
    (W. Zhu, J. Miao, L. Qing 2014, "Constrained extreme learning machine").

    Returns
    -------
    W : array of shape (n_units, n_features), `dtype`, where X lies
    """
    classes, counts = np.unique(codes[rows], return_counts=True)
    n_classes = len(classes)
    if n_classes < 2:
        raise ValueError(
            'weights="constrained" takes differences of rows of different classes, and y holds '
            'one class; use "class_informed" or "gaussian".'
        )
    by_class, starts = rows[np.argsort(codes[rows], kind="stable")], np.cumsum(counts) - counts
    chance = np.random.default_rng(seed).random((n_units, 3))

    def row_of(k, chance):
        return by_class[starts[k] + (chance * counts[k]).astype(np.intp)]

    first = np.arange(n_units) % n_classes
    second = (first + 1 + (chance[:, 0] * (n_classes - 1)).astype(np.intp)) % n_classes
    plus, minus = row_of(first, chance[:, 1]), row_of(second, chance[:, 2])
    W = xp.empty((n_units, X.shape[1]), dtype)
    row_bytes = 2 * X.shape[1] * (X.dtype.itemsize + W.itemsize)
    tile = rows_per_tile(
        n_units, row_bytes, W.nbytes, budget(engine, max_memory), max(1, _TILE_BYTES // row_bytes)
    )
    for start in range(0, n_units, tile):
        part = slice(start, start + tile)
        W[part] = take_rows(X, plus[part], dtype)
        W[part] -= take_rows(X, minus[part], dtype)
    return W
