"""Images as rows of X: their shape, the positions of patches, and data augmentation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length

from .utils.parameters import check_bool, check_positive_integers

# Number of elements in a chunk of images.
_CHUNK_ELEMENTS = 2**22


def read_image_shape(image_shape: Any) -> tuple[int, ...]:
    """Return (rows, columns) or (rows, columns, channels) as a tuple of int; raise otherwise."""
    means = "(rows, columns) or (rows, columns, channels)"
    return check_positive_integers("image_shape", image_shape, means, (2, 3))


def check_image(image_shape: tuple[int, ...], n_features: int) -> None:
    """Raise ValueError unless images of that shape have `n_features` values."""
    if prod(image_shape) != n_features:
        raise ValueError(
            f"image_shape={image_shape!r} means {prod(image_shape)} features, and X has "
            f"{n_features}."
        )


@dataclass(frozen=True)
class PatchGrid:
    """The positions of patches in an image, and the cells of positions that are averaged."""

    image: tuple[int, ...]  # (rows, columns, channels)
    size: tuple[int, ...]  # (height, width) of a patch, which has all channels
    stride: int  # pixels between neighbouring positions
    pool: tuple[int, ...]  # cells down and across, no more than positions

    @property
    def n_features(self) -> int:
        return prod(self.image)

    @property
    def n_inputs(self) -> int:
        """The number of values in a patch."""
        return prod(self.size) * self.image[2]

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """The number of positions, (down, across)."""
        pairs = zip(self.image, self.size, strict=False)
        return tuple((side - size) // self.stride + 1 for side, size in pairs)

    @property
    def n_positions(self) -> int:
        return prod(self.output_shape)

    @property
    def n_cells(self) -> int:
        return prod(self.pool)

    @cached_property
    def edges(self) -> tuple[list[int], ...]:
        """The first position of each cell, and the end: down, and across."""
        pairs = zip(self.output_shape, self.pool, strict=True)
        return tuple([k * n // parts for k in range(parts + 1)] for n, parts in pairs)

    @property
    def cells(self) -> tuple[list[slice], ...]:
        """The slice of positions of each cell: down, and across."""
        return tuple([slice(*ends) for ends in pairwise(edges)] for edges in self.edges)

    def pooled(self, pool: tuple[int, ...]) -> "PatchGrid":
        """Return the grid with that many cells down and across, or as many as positions."""
        return replace(self, pool=tuple(map(min, pool, self.output_shape)))

    def pixels(self, positions: tuple[slice, ...]) -> tuple[slice, ...]:
        """Return the slices of rows and columns that patches at these positions cover."""
        return tuple(
            slice(at.start * self.stride, (at.stop - 1) * self.stride + size)
            for at, size in zip(positions, self.size, strict=True)
        )

    def part(self, positions: tuple[slice, ...], pool: tuple[int, ...]) -> "PatchGrid":
        """Return the grid of these positions alone, with that many cells down and across."""
        sides = (pixels.stop - pixels.start for pixels in self.pixels(positions))
        return replace(self, image=(*sides, self.image[2]), pool=pool)

    def windows(self, X: Any, xp: Any) -> Any:
        """Return a view of the patches, (n_images, down, across, height, width, channels)."""
        images = X.reshape(len(X), *self.image)
        views = xp.lib.stride_tricks.sliding_window_view(images, self.size, axis=(1, 2))
        return views[:, :: self.stride, :: self.stride].transpose(0, 1, 2, 4, 5, 3)

    def unfold(self, X: Any, xp: Any) -> Any:
        """Return the patches in a new array, (n_images * n_positions, n_inputs)."""
        return self.windows(X, xp).copy(order="C").reshape(-1, self.n_inputs)


def augmented(
    X: Any, y: Any, image_shape: Any, *, shift: int = 0, flip: bool = False
) -> Callable[[], Iterator[tuple[Any, Any]]]:
    """Return a data source for `fit`: the images, and shifted and mirrored copies of them.

    Chunks are computed lazily, so that the copies are never in memory at the same time. Pixels
    that are shifted in at a border repeat the border.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        One image per row; a ``numpy.memmap`` is supported.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    image_shape : (rows, columns) or (rows, columns, channels)
        Channels last.
    shift : int, default=0
        Number of pixels by which images are shifted up, down, left and right, in four copies.
    flip : bool, default=False
        Whether to add a copy of each that is mirrored left to right.

    Returns
    -------
    source : callable
        Each call returns a new iterator over chunks (X, y).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import PatchClassifier
    >>> from sklearn_fsvc.images import augmented
    >>> X, y = load_digits(return_X_y=True)
    >>> source = augmented(X[:500], y[:500], (8, 8), shift=1)
    >>> sum(len(rows) for rows, _ in source())
    2500
    >>> clf = PatchClassifier(50, alpha=1.0, random_state=0).fit(source)
    >>> bool(clf.score(X[500:], y[500:]) > 0.95)
    True
    """
    check_bool("flip", flip)
    if isinstance(shift, bool) or not isinstance(shift, Integral) or shift < 0:
        raise ValueError(f"shift={shift!r} must be a whole number of pixels, 0 or more.")
    image_shape = read_image_shape(image_shape)
    X = _as_rows(X)
    check_image(image_shape, X.shape[1])
    if y is None:
        raise ValueError("y=None, and each image needs a target; pass y.")
    check_consistent_length(X, y)
    y = np.asanyarray(y)  # `fit` raises for masked values
    moves = [(0, 0)]
    if shift:
        moves += [(-shift, 0), (shift, 0), (0, -shift), (0, shift)]
    step = max(1, _CHUNK_ELEMENTS // X.shape[1])

    def chunks():
        for down, across in moves:
            for is_mirrored in (False, True)[: 1 + flip]:
                for start in range(0, len(X), step):
                    images = np.asanyarray(X[start : start + step]).reshape(-1, *image_shape)
                    images = images[:, :, ::-1] if is_mirrored else images
                    images = _shift_images(images, down, across)
                    yield images.reshape(len(images), -1), y[start : start + step]

    return chunks


def _as_rows(X):
    """Return X, or the array of a list; raise unless it is dense and has two dimensions."""
    if issparse(X):
        raise TypeError("X is a sparse matrix, and images must be dense; pass X.toarray().")
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"X has shape {tuple(X.shape)}, and must have one image per row; pass "
            "X.reshape(n_images, -1)."
        )
    return X


def _shift_images(images, down, across):
    """Return images (n, rows, columns, channels) shifted by some pixels."""
    rows = np.clip(np.arange(images.shape[1]) - down, 0, images.shape[1] - 1)
    columns = np.clip(np.arange(images.shape[2]) - across, 0, images.shape[2] - 1)
    return images[:, rows[:, None], columns]
