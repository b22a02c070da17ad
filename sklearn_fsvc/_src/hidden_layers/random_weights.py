"""Directions made of training rows and their classes, unit by unit.

Which rows, and with which signs, is drawn on the host; the sums are made where X lies.
"""

from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse import issparse

from ..data.job import Job
from ..data.sources import are_sparse
from ..data.streaming import row_blocks, take_rows
from ..data.tiling import rows_per_tile
from ..engines.host import map_rows
from ..engines.threads import at_most, n_threads
from ..images import read_image_shape
from ..utils.parameters import check_whole_numbers

# Directions from chance alone. A unit's do not depend on how many follow it.

# Units whose numbers come from one stream, so that threads can draw.
_GROUP = 256
# Numbers that a thread draws at a time, in float64.
_DRAWN = 2**16


def gaussian(n_units, n_features, seed, dtype=np.float64):
    """Independent standard normal weights, (n_units, n_features), of a dtype."""
    W, step = np.empty((n_units, n_features), dtype), max(1, _DRAWN // n_features)

    def draw(units):
        drawn = np.empty((step, n_features))  # once: threads would wait for one another's new pages
        for start in range(units.start, units.stop, _GROUP):
            stream = np.random.default_rng([seed, start // _GROUP])
            stop = min(start + _GROUP, units.stop)
            for i in range(start, stop, step):
                n = min(step, stop - i)
                W[i : i + n] = stream.standard_normal(out=drawn[:n])

    map_rows(draw, n_units, n_threads(), multiple=_GROUP)
    return W


@at_most(1)
def orthogonal(n_units, n_features, seed, dtype=np.float64):
    """Gaussian weights whose directions are orthogonal in each group of n_features units.

    With the lengths of `gaussian` (Yu et al. 2016, "Orthogonal Random Features"). Column j
    of Q depends on the first j columns alone, so a prefix stays a prefix, to rounding.
    """
    W = gaussian(n_units, n_features, seed)
    for start in range(0, n_units, n_features):
        group = W[start : start + n_features]
        Q, R = linalg.qr(group.T, mode="economic", check_finite=False)
        signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
        group[:] = (Q * signs).T * np.linalg.norm(group, axis=1)[:, None]
    return W.astype(dtype, copy=False)


def orthogonal_bytes(n_units, n_features):
    """Bytes that `orthogonal` takes at most: all weights, and while a group is made, others."""
    n_of_group = min(n_units, n_features)
    return 8 * n_features * (n_units + 4 * n_of_group)


# Receptive fields: each unit sees a random rectangle of the image.


def read_fields(image_shape, patch_size):
    """Both in ints of Python, or None; raises for what cannot be used."""
    if image_shape is None:
        if patch_size is not None:
            raise ValueError(
                f"patch_size={patch_size!r} needs to know the shape of the images; give "
                "image_shape=(rows, columns) too."
            )
        return None, None
    image_shape = read_image_shape(image_shape)
    if patch_size is None:
        return image_shape, None
    size_means = "(low, high), the smallest and largest side"
    low, high = check_whole_numbers("patch_size", patch_size, size_means, (2,))
    sides = image_shape[:2]
    if low > high:
        raise ValueError(f"patch_size={patch_size!r} must be (low, high) with low <= high.")
    if low > min(sides) or high > max(sides):
        raise ValueError(
            f"patch_size={patch_size!r} does not fit in images of {sides[0]} x {sides[1]}; low "
            f"may be {min(sides)} at most, and high {max(sides)}."
        )
    return image_shape, (low, high)


def sides_of(image_shape, patch_size):
    """(low, high): `patch_size`, or from a fifth to three fifths of the shorter side.

    >>> sides_of((28, 28), None)
    (6, 17)
    """
    if patch_size is not None:
        return patch_size
    side = min(image_shape[:2])
    return max(1, round(0.2 * side)), max(1, round(0.6 * side))


# Fields that are drawn in any case: those that others look at, whatever the number of units.
_FIRST = 8


@dataclass(frozen=True)
class Fields:
    """A rectangle of the image for each unit.

    Height, width and place are uniform: among the sizes that `patch_size` allows and the
    image holds, and among the places where the rectangle lies within the image. It has all
    channels of its pixels.
    """

    image_shape: tuple[int, ...]
    # int, (n_fields, 2): first row and column, height and width; of 8 fields or more.
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def draw(cls, n_units, image_shape, patch_size, seed):
        """Unit by unit: fewer fields with the same seed are a prefix."""
        low, high = sides_of(image_shape, patch_size)
        sides = np.array(image_shape[:2])
        chance = np.random.default_rng(seed).random((max(n_units, _FIRST), 2, 2))
        lengths = low + (chance[:, 0] * (np.minimum(high, sides) - low + 1)).astype(np.intp)
        starts = (chance[:, 1] * (sides - lengths + 1)).astype(np.intp)
        return cls(image_shape, starts, lengths)

    def n_inputs(self, n_units):
        """Features that each of the first units sees."""
        n_channels = prod(self.image_shape[2:])
        return n_channels * self.lengths[:n_units].prod(axis=1)

    def first(self):
        """The features that each of some first fields holds."""
        for j in range(_FIRST):
            inside = np.zeros(self.image_shape, bool)
            (top, left), (height, width) = self.starts[j], self.lengths[j]
            inside[top : top + height, left : left + width] = True
            yield np.flatnonzero(inside)

    def mask(self, W, xp):
        """Set the weights outside each unit's rectangle to 0, in place."""
        images = W.reshape(len(W), *self.image_shape[:2], -1)
        for axis in (0, 1):
            pixels = np.arange(self.image_shape[axis], dtype=np.int32)
            start, length = (
                a[: len(W), [axis]].astype(np.int32) for a in (self.starts, self.lengths)
            )
            inside = (pixels >= start) & (pixels < start + length)
            images *= xp.asarray(np.expand_dims(inside, (2 - axis, 3)))


# Bytes of a tile of rows beyond which nothing is gained; on a GPU, where every call costs
# its launch, four times as many.
_TILE_BYTES = 2**28
# Words that a stream of random words gives to each row, of 64 bits.
_WORDS = 4


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Training rows and their classes: where they lie, and how they are taken."""

    job: Job
    X: Any  # (n_rows, n_features)
    rows: np.ndarray  # the rows of X that count
    codes: np.ndarray  # classes of all rows of X
    mean: np.ndarray  # (n_features,), of the host: what is taken from sums
    dtype: np.dtype  # of the weights

    @property
    def algebra(self):
        """Return the algebra for X, and for the weights."""
        return self.job.algebra_of(self.X)

    @property
    def xp(self):
        return self.algebra.xp

    @property
    def are_sparse(self):
        """Whether rows are met as sparse ones."""
        return are_sparse(self.X)

    def blocks(self, parts):
        """The rows part by part; sparse ones in the dtype of the weights."""
        if self.are_sparse:
            return self.X.tiles(self.rows, parts, self.dtype)
        return row_blocks(self.X, self.rows, parts)

    def tiles(self, n, row_bytes, fixed_bytes, tile_bytes):
        """Slices of `n` things, as many of them at a time as suit and fit."""
        preferred = max(1, tile_bytes // row_bytes)
        tile = rows_per_tile(n, row_bytes, fixed_bytes, self.job.memory_limit, preferred)
        return [slice(start, start + tile) for start in range(0, n, tile)]


def signed_sums(data, n_units, seed):
    """Sums of all the rows of one class, each less the mean, with random signs.

    Unit j has the class j modulo the number of classes (McDonnell et al. 2015, "Fast,
    simple and accurate handwritten digit classification by training shallow neural network
    classifiers with the extreme learning machine algorithm"). One pass over X. Sums of
    bytes are exact, so the same wherever they are made.

    Returns
    -------
    W : array of shape (n_units, n_features), where X lies
    """
    sums = _SignedSums(data, n_units, seed)
    tile_bytes = _TILE_BYTES * (1 if data.xp is np else 4)
    parts = data.tiles(len(data.rows), sums.row_bytes, sums.fixed_bytes, tile_bytes)
    with closing(data.blocks(parts)) as blocks:
        for part, block in zip(parts, blocks, strict=True):
            sums.add(part, block)
    return sums.result()[:n_units]


class _SignedSums:
    """Sums of the rows so far, for each class as many as it has units."""

    def __init__(self, data, n_units, seed):
        xp, X = data.xp, data.X
        codes = data.codes[data.rows]
        is_there = np.bincount(codes) > 0
        n_classes = int(is_there.sum())
        # Of few bits, in which they are sorted several times as fast.
        numbers = np.cumsum(is_there, dtype=np.min_scalar_type(n_classes)) - 1
        self._codes = numbers[codes]
        n_each = -(-n_units // n_classes)
        self._data, self._signs = data, _Signs(n_each, seed)
        # From sums of bytes, which are exact, and of sparse rows, which would be dense, the mean is
        # taken at the end, from others the rest.
        self._is_shifted = X.dtype != np.uint8 and not data.are_sparse
        shift = data.mean if self._is_shifted else np.zeros(X.shape[1])
        shift = shift.astype(data.dtype)
        self._rest = xp.asarray((data.mean - shift).astype(data.dtype))
        self._shift = xp.asarray(shift)
        self._sums = xp.zeros((n_each, n_classes, X.shape[1]), data.dtype)
        self._totals = xp.zeros((n_each, n_classes), data.dtype)

    @property
    def fixed_bytes(self):
        return 2 * self._sums.nbytes

    @property
    def row_bytes(self):
        n_each, _, n_features = self._sums.shape
        X, dtype = self._data.X, self._sums.dtype
        input_bytes = n_features * (X.dtype.itemsize + dtype.itemsize)
        if self._data.are_sparse:
            input_bytes = X.row_bytes(dtype)
        return 2 * input_bytes + n_each * (4 + dtype.itemsize)

    def add(self, part, block):
        """Take in a slice of the rows; the slices follow one another."""
        data, codes = self._data, self._codes[part]
        words = data.algebra.here(self._signs.next_words(len(codes)))
        # Class by class, by as few calls as may be: on a GPU each costs its launch.
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=self._sums.shape[1]))
        order = data.xp.asarray(order)
        block = block[order] if issparse(block) else take_rows(block, order, data.dtype)
        if self._is_shifted:
            block -= self._shift
        S = self._signs.of(words[order], data.dtype, data.xp)
        for k, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
            if start < end:
                self._add_to_class(k, block[start:end], S[start:end])

    def _add_to_class(self, k, ours, S):
        cross = ours.T @ S if issparse(ours) else self._data.algebra.cross(ours, S)
        self._sums[:, k] += cross.T
        self._totals[:, k] += S.sum(axis=0)

    def result(self):
        """The units, the classes in turn. Only once."""
        self._sums -= self._totals[:, :, None] * self._rest
        return self._sums.reshape(-1, self._sums.shape[2])


class _Signs:
    """For each row +1 or -1 for each unit of its class, bit by bit of random words.

    256 units share a stream of words, four for each row, so that neither the units after
    them nor the size of the tile matter.
    """

    def __init__(self, n_units, seed):
        self._n_units = n_units
        self._streams = [
            np.random.Generator(np.random.SFC64([seed, block]))
            for block in range(-(-n_units // (64 * _WORDS)))
        ]

    def next_words(self, n_rows):
        """(n_rows, n_words) for the rows that follow."""
        words = np.empty((n_rows, len(self._streams), _WORDS), np.uint64)

        def draw(streams):
            for i in range(streams.start, streams.stop):
                whole = self._streams[i].integers(2**64, size=(n_rows, _WORDS), dtype=np.uint64)
                words[:, i] = whole

        map_rows(draw, len(self._streams), n_threads())
        return words.reshape(n_rows, -1).astype("<u8", copy=False)

    def of(self, words, dtype, xp):
        """(rows, n_units): the bits as signs."""
        bits = xp.unpackbits(words.view(np.uint8), bitorder="little")
        signs = bits.reshape(len(words), -1)[:, : self._n_units].astype(dtype)
        signs *= 2
        signs -= 1
        return signs


def differences(data, n_units, seed):
    """Differences of two random rows of different classes.

    The first row's class is j modulo the number of classes, the second one's any other
    (W. Zhu, J. Miao, L. Qing 2014, "Constrained extreme learning machine").

    Returns
    -------
    W : array of shape (n_units, n_features), where X lies
    """
    X, n_features = data.X, data.X.shape[1]
    plus, minus = _pairs(data.rows, data.codes[data.rows], n_units, seed)
    W = data.xp.empty((n_units, n_features), data.dtype)
    row_bytes = 2 * n_features * (X.dtype.itemsize + W.itemsize)
    for part in data.tiles(n_units, row_bytes, W.nbytes, _TILE_BYTES):
        W[part] = take_rows(X, plus[part], data.dtype)
        W[part] -= take_rows(X, minus[part], data.dtype)
    return W


def _pairs(rows, codes, n_units, seed):
    """Two rows of different classes for each unit."""
    classes, counts = np.unique(codes, return_counts=True)
    n_classes = len(classes)
    if n_classes < 2:
        raise ValueError(
            'weights="constrained" takes differences of rows of different classes, and y holds '
            'one class; use "class_informed" or "gaussian".'
        )
    by_class, starts = rows[np.argsort(codes, kind="stable")], np.cumsum(counts) - counts
    chance = np.random.default_rng(seed).random((n_units, 3))

    def row_of(k, chance):
        return by_class[starts[k] + (chance * counts[k]).astype(np.intp)]

    first = np.arange(n_units) % n_classes
    second = (first + 1 + (chance[:, 0] * (n_classes - 1)).astype(np.intp)) % n_classes
    return row_of(first, chance[:, 1]), row_of(second, chance[:, 2])
