"""Images as rows of X: their shape, where their patches lie, and more of them from few."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from numbers import Integral

import numpy as np
from sklearn.utils import check_consistent_length

from .utils.parameters import check_flag, check_whole_numbers

# Numbers in a chunk of images.
_CHUNK = 2**22


def read_image_shape(image_shape):
    """(rows, columns) or (rows, columns, channels) in ints of Python, if it is that."""
    means = "(rows, columns) or (rows, columns, channels)"
    return check_whole_numbers("image_shape", image_shape, means, (2, 3))


def check_image(image_shape, n_features):
    """Raise if rows of `n_features` are no images of that shape."""
    if prod(image_shape) != n_features:
        raise ValueError(
            f"image_shape={image_shape!r} means {prod(image_shape)} features, and X has "
            f"{n_features}."
        )


@dataclass(frozen=True)
class PatchGrid:
    """The places of patches in an image, and the cells that they are averaged over."""

    image: tuple  # (rows, columns, channels)
    size: tuple  # (height, width) of a patch, which has all channels
    stride: int  # pixels from one place to the next
    pool: tuple  # cells down and across, no more than there are places

    @property
    def n_features(self):
        return prod(self.image)

    @property
    def n_inputs(self):
        """Numbers in a patch."""
        return prod(self.size) * self.image[2]

    @cached_property
    def places(self):
        """(down, across)"""
        pairs = zip(self.image, self.size, strict=False)
        return tuple((side - size) // self.stride + 1 for side, size in pairs)

    @property
    def n_places(self):
        return prod(self.places)

    @property
    def n_cells(self):
        return prod(self.pool)

    @cached_property
    def edges(self):
        """The first places of each cell, and the end: down, and across."""
        pairs = zip(self.places, self.pool, strict=True)
        return tuple([k * n // parts for k in range(parts + 1)] for n, parts in pairs)

    @property
    def cells(self):
        """Slices of the places: those of each cell down, and across."""
        return tuple([slice(*ends) for ends in pairwise(edges)] for edges in self.edges)

    def pooled(self, pool):
        """Return the grid with that many cells down and across, where there are so many places."""
        return replace(self, pool=tuple(map(min, pool, self.places)))

    def pixels(self, places):
        """Slices of the pixels, rows and columns, under patches at two slices of the places."""
        return tuple(
            slice(some.start * self.stride, (some.stop - 1) * self.stride + size)
            for some, size in zip(places, self.size, strict=True)
        )

    def part(self, places, pool):
        """The grid of those pixels alone, with that many cells down and across."""
        sides = (some.stop - some.start for some in self.pixels(places))
        return replace(self, image=(*sides, self.image[2]), pool=pool)

    def windows(self, X, xp):
        """The patches of rows X as a view, (rows, down, across, height, width, channels)."""
        images = X.reshape(len(X), *self.image)
        views = xp.lib.stride_tricks.sliding_window_view(images, self.size, axis=(1, 2))
        return views[:, :: self.stride, :: self.stride].transpose(0, 1, 2, 4, 5, 3)

    def unfold(self, X, xp):
        """The patches of rows X one below the other, (rows * places, inputs), a new array."""
        return self.windows(X, xp).copy(order="C").reshape(-1, self.n_inputs)


def augmented(X, y, image_shape, *, shift=0, flip=False):
    """Return a source of rows for `fit`: images as they are, shifted and mirrored.

    One chunk after the other is made when it is asked for, so that the copies are never in memory
    together. Pixels that come in at a border are those of the border.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        A row for each image, also a ``numpy.memmap``.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    image_shape : (rows, columns) or (rows, columns, channels)
        Channels last.
    shift : int, default=0
        Pixels by which images are shifted up, down, left and right: four more copies.
    flip : bool, default=False
        Whether there is a mirror image, left to right, of each copy.

    Returns
    -------
    source : callable
        Each call gives a fresh iterable of chunks (X, y).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import PatchClassifier
    >>> from sklearn_fsvc.images import augmented
    >>> X, y = load_digits(return_X_y=True)
    >>> source = augmented(X[:1500], y[:1500], (8, 8), shift=1)
    >>> sum(len(rows) for rows, _ in source())
    7500
    >>> clf = PatchClassifier(50, alpha=1.0, random_state=0).fit(source)
    >>> bool(clf.score(X[1500:], y[1500:]) > 0.95)
    True
    """
    check_flag("flip", flip)
    if isinstance(shift, bool) or not isinstance(shift, Integral) or shift < 0:
        raise ValueError(f"shift={shift!r} must be a whole number of pixels, 0 or more.")
    image_shape = read_image_shape(image_shape)
    X = X if hasattr(X, "shape") else np.asarray(X)
    check_image(image_shape, X.shape[1])
    check_consistent_length(X, y)
    y = np.asarray(y)
    moves = [(0, 0)]
    if shift:
        moves += [(-shift, 0), (shift, 0), (0, -shift), (0, shift)]
    step = max(1, _CHUNK // X.shape[1])

    def chunks():
        for down, across in moves:
            for is_mirrored in (False, True)[: 1 + flip]:
                for start in range(0, len(X), step):
                    images = np.asarray(X[start : start + step]).reshape(-1, *image_shape)
                    images = _shifted(images[:, :, ::-1] if is_mirrored else images, down, across)
                    yield images.reshape(len(images), -1), y[start : start + step]

    return chunks


def _shifted(images, down, across):
    """Images (n, rows, columns, channels) moved by some pixels."""
    rows = np.clip(np.arange(images.shape[1]) - down, 0, images.shape[1] - 1)
    columns = np.clip(np.arange(images.shape[2]) - across, 0, images.shape[2] - 1)
    return images[:, rows[:, None], columns]
