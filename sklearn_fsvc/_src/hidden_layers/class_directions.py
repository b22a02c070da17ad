"""Directions of the weights of tanh units that are combinations of training samples.

Sums of the samples of a class, or differences between samples of two classes. They are computed on
the device of X.
"""

from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import gen_batches

from ..data.job import Job
from ..data.memory_plan import rows_per_tile
from ..data.rows import row_blocks, take_rows
from ..data.sources import is_evaluated_sparse
from ..engines.host import map_rows
from ..engines.threads import n_threads

# Larger tiles of rows bring no gain; on a GPU, where each call has the latency of a launch, four
# times larger ones do.
_TILE_BYTES = 2**28
# Random words of 64 bits that a stream yields for each row.
_WORDS = 4


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """Training samples and their classes."""

    job: Job
    X: Any  # (n_rows, n_features)
    rows: np.ndarray  # the rows of X with a weight above 0
    codes: np.ndarray  # (n_rows,), int: classes of all rows of X
    mean: np.ndarray  # (n_features,), on the host
    dtype: np.dtype  # of the weights

    @property
    def algebra(self) -> Any:
        """The algebra for X and for the weights."""
        return self.job.algebra_of(self.X)

    @property
    def xp(self) -> Any:
        return self.algebra.xp

    @property
    def are_sparse(self) -> bool:
        """Whether blocks are sparse matrices."""
        return is_evaluated_sparse(self.X)

    def blocks(self, parts):
        """Return an iterator over blocks of rows; sparse ones have the dtype of the weights."""
        if self.are_sparse:
            return self.X.tiles(self.rows, parts, self.dtype)
        return row_blocks(self.X, self.rows, parts)

    def tiles(self, n: int, row_bytes: int, fixed_bytes: int, tile_bytes: int) -> list[slice]:
        """Split `n` rows into slices of about `tile_bytes`, within the memory limit."""
        preferred = max(1, tile_bytes // row_bytes)
        tile = rows_per_tile(n, row_bytes, fixed_bytes, self.job.memory_limit, preferred)
        return list(gen_batches(n, tile))


def signed_class_sums(data: LabelledSamples, n_units: int, seed: int) -> Any:
    """Return sums of all samples of one class, minus the mean, with random signs.

    The class of unit j is j modulo the number of classes (McDonnell et al. 2015, "Fast, simple and
    accurate handwritten digit classification by training shallow neural network classifiers with
    the extreme learning machine algorithm"). This takes one pass over X. Sums of uint8 data are
    exact, so they are the same on every device.

    Returns
    -------
    W : array of shape (n_units, n_features), on the device of X
    """
    sums = _SignedClassSums(data, n_units, seed)
    tile_bytes = _TILE_BYTES * (1 if data.xp is np else 4)
    parts = data.tiles(len(data.rows), sums.row_bytes, sums.fixed_bytes, tile_bytes)
    with closing(data.blocks(parts)) as blocks:
        for part, block in zip(parts, blocks, strict=True):
            sums.add(part, block)
    return sums.result()[:n_units]


class _SignedClassSums:
    """Running sums ``sum_i s_ij (x_i - mean)``, for the units j of each class."""

    def __init__(self, data, n_units, seed):
        xp, X = data.xp, data.X
        codes = data.codes[data.rows]
        is_present = np.bincount(codes) > 0
        n_classes = int(is_present.sum())
        # Renumber the classes that occur; the smallest dtype is sorted several times as fast.
        numbers = np.cumsum(is_present, dtype=np.min_scalar_type(n_classes)) - 1
        self._codes = numbers[codes]
        n_units_per_class = -(-n_units // n_classes)
        self._data, self._signs = data, _RandomSigns(n_units_per_class, seed)
        # Subtract the mean, rounded to the dtype, from each sample, and its rounding error from the
        # sums. Sums of uint8 data are exact, and sparse data would become dense: subtract the whole
        # mean from their sums.
        self._is_centred = X.dtype != np.uint8 and not data.are_sparse
        shift = data.mean if self._is_centred else np.zeros(X.shape[1])
        shift = shift.astype(data.dtype)
        self._shift = xp.asarray(shift)
        self._remainder = xp.asarray((data.mean - shift).astype(data.dtype))
        self._sums = xp.zeros((n_units_per_class, n_classes, X.shape[1]), data.dtype)
        self._sign_sums = xp.zeros((n_units_per_class, n_classes), data.dtype)

    @property
    def fixed_bytes(self):
        return 2 * self._sums.nbytes

    @property
    def row_bytes(self):
        n_units_per_class, _, n_features = self._sums.shape
        X, dtype = self._data.X, self._sums.dtype
        input_bytes = n_features * (X.dtype.itemsize + dtype.itemsize)
        if self._data.are_sparse:
            input_bytes = X.row_bytes(dtype)
        return 2 * input_bytes + n_units_per_class * (4 + dtype.itemsize)

    def add(self, part, block):
        """Add a block of rows. Blocks must be consecutive: signs are drawn in this order."""
        data, codes = self._data, self._codes[part]
        words = data.algebra.to_device(self._signs.draw_words(len(codes)))
        # Sort by class, and multiply once per class: on a GPU each call has launch latency.
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=self._sums.shape[1]))
        order = data.xp.asarray(order)
        block = block[order] if issparse(block) else take_rows(block, order, data.dtype)
        if self._is_centred:
            block -= self._shift
        S = self._signs.unpack(words[order], data.dtype, data.xp)
        for k, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
            if start < end:
                self._add_to_class(k, block[start:end], S[start:end])

    def _add_to_class(self, k, rows, S):
        cross = rows.T @ S if issparse(rows) else self._data.algebra.multiply_transposed(rows, S)
        self._sums[:, k] += cross.T
        self._sign_sums[:, k] += S.sum(axis=0)

    def result(self):
        """Return the weights; units cycle through the classes. It can be called only once."""
        self._sums -= self._sign_sums[:, :, None] * self._remainder
        return self._sums.reshape(-1, self._sums.shape[2])


class _RandomSigns:
    """A sign for each row and unit of its class: the bits of random words.

    256 units share a stream with four words per row, so that signs depend neither on the number of
    units nor on the tile size.
    """

    def __init__(self, n_units, seed):
        self._n_units = n_units
        self._streams = [
            np.random.Generator(np.random.SFC64([seed, block]))
            for block in range(-(-n_units // (64 * _WORDS)))
        ]

    def draw_words(self, n_rows):
        """Return the words of the next rows, (n_rows, n_words)."""
        words = np.empty((n_rows, len(self._streams), _WORDS), np.uint64)

        def draw(streams):
            for i in range(streams.start, streams.stop):
                words[:, i] = self._streams[i].integers(
                    2**64, size=(n_rows, _WORDS), dtype=np.uint64
                )

        map_rows(draw, len(self._streams), n_threads())
        return words.reshape(n_rows, -1).astype("<u8", copy=False)

    def unpack(self, words, dtype, xp):
        """Return the bits as signs, (n_rows, n_units)."""
        # Little-endian words and bits: bit j of the row is that of unit j on every platform.
        bits = xp.unpackbits(words.view(np.uint8), bitorder="little")
        signs = bits.reshape(len(words), -1)[:, : self._n_units].astype(dtype)
        signs *= 2
        signs -= 1
        return signs


def sample_differences(data: LabelledSamples, n_units: int, seed: int) -> Any:
    """Return differences of two random samples of different classes.

    The class of the first sample is j modulo the number of classes, that of the second one any
    other (W. Zhu, J. Miao, L. Qing 2014, "Constrained extreme learning machine").

    Returns
    -------
    W : array of shape (n_units, n_features), on the device of X
    """
    X, n_features = data.X, data.X.shape[1]
    plus, minus = _draw_pairs(data.rows, data.codes[data.rows], n_units, seed)
    W = data.xp.empty((n_units, n_features), data.dtype)
    row_bytes = 2 * n_features * (X.dtype.itemsize + W.itemsize)
    for part in data.tiles(n_units, row_bytes, W.nbytes, _TILE_BYTES):
        W[part] = take_rows(X, plus[part], data.dtype)
        W[part] -= take_rows(X, minus[part], data.dtype)
    return W


def _draw_pairs(rows, codes, n_units, seed):
    """Return two rows of different classes for each unit."""
    classes, counts = np.unique(codes, return_counts=True)
    n_classes = len(classes)
    if n_classes < 2:
        raise ValueError(
            'weights="constrained" are differences of samples of different classes, and y has '
            'only one class; use "class_informed" or "gaussian".'
        )
    by_class, starts = rows[np.argsort(codes, kind="stable")], np.cumsum(counts) - counts
    uniform = np.random.default_rng(seed).random((n_units, 3))

    def row_of(k, uniform):
        return by_class[starts[k] + (uniform * counts[k]).astype(np.intp)]

    # An offset between 1 and n_classes - 1 selects one of the other classes uniformly.
    first = np.arange(n_units) % n_classes
    second = (first + 1 + (uniform[:, 0] * (n_classes - 1)).astype(np.intp)) % n_classes
    return row_of(first, uniform[:, 1]), row_of(second, uniform[:, 2])
