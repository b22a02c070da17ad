"""Rows of X: read from an array, a source or several devices, preprocessed for a layer, written."""

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.base import Engine
from .sources import Source, read_ahead, select_rows


def take_rows(X: Any, rows: Any, dtype: Any = None) -> Any:
    """Return rows of X (a slice or an index array) as a C-ordered, aligned array of `dtype`.

    The result is in the namespace of X. Of a `Source` it is a NumPy array, gathered slice by
    slice, and of `ShardedRows` rows an array of the engine. None is the dtype of X.
    """
    if isinstance(X, ShardedRows):
        return X.take(rows, dtype)
    if isinstance(X, Source):
        return X.take(np.arange(*rows.indices(len(X))) if isinstance(rows, slice) else rows, dtype)
    if isinstance(X, np.ndarray):
        taken = np.ascontiguousarray(X[rows], dtype)
        return taken if taken.flags.aligned else taken.copy()
    return X[rows].astype(dtype or X.dtype, order="C", copy=False)


def take_unsorted_rows(X: Any, rows: npt.NDArray[np.intp], dtype: Any = None) -> Any:
    """Return what `take_rows` does, for row numbers in any order; X is read in ascending order."""
    if (np.diff(rows) > 0).all():
        return take_rows(X, rows, dtype)
    ascending = np.argsort(rows)
    inverse = np.empty_like(ascending)
    inverse[ascending] = np.arange(len(rows))
    return take_rows(X, rows[ascending], dtype)[inverse]


def row_blocks(
    X: Any, rows: npt.NDArray[np.intp] | None, parts: Sequence[slice]
) -> Generator[Any, None, None]:
    """Yield rows of X part by part; of a source in one pass, with the next part prefetched.

    Parameters
    ----------
    X : array-like or Source
    rows : ndarray of int or None
        Row numbers; None for all rows in order.
    parts : list of slice
        Consecutive slices of the row numbers, of one length except for the last.

    Yields
    ------
    array
        As returned by `take_rows`, in the dtype of X.
    """
    if isinstance(X, Source) and parts:
        selected: Any = range(len(X)) if rows is None else rows
        selected = selected[parts[0].start : parts[-1].stop]
        if rows is None or (np.diff(selected) > 0).all():
            blocks = X.blocks(selected, parts[0].stop - parts[0].start)
            yield from read_ahead(blocks) if len(parts) > 1 else blocks
            return
    for part in parts:
        yield take_rows(X, part if rows is None else rows[part])


def preprocess_block(engine: Engine, layer: Any, block: Any) -> Any:
    """Return rows on the device as the units expect them: cast, and weighted or mapped."""
    dtype = layer.units.dtype
    if layer.weights is None:
        is_kept = block.dtype == np.uint8 and engine.accepts_uint8(layer)
        return take_rows(block, slice(None), block.dtype if is_kept else dtype)
    return apply_feature_weights(engine, block, layer.weights, dtype)


def apply_feature_weights(engine: Engine, block: Any, weights: Any, dtype: npt.DTypeLike) -> Any:
    """Return rows on the device times feature weights (1d) or a linear map (2d), in `dtype`.

    A new array: `block` may be an array of the user, and is never written to.
    """
    weights = engine.to_device(weights.astype(dtype, copy=False))
    if weights.ndim == 2:
        return _apply_map(engine, block.astype(dtype, copy=False), weights)
    rows = block.astype(dtype, order="K", copy=True)
    with np.errstate(over="ignore"):  # an infinite sample is infinitely far from every centre
        rows *= weights  # in place, which needs no further buffer in each thread
    return rows


def _apply_map(engine: Engine, rows: Any, A: Any) -> Any:
    rows, xp = engine.algebra.multiply(rows, A), engine.xp
    # inf - inf: the features are so large that the sample is infinitely far from every centre.
    rows[xp.isnan(rows)] = xp.inf
    return rows


def write_rows(out: Any, rows: Any, values: Any) -> None:
    """Do ``out[rows] = values`` for ascending rows; a file is written in contiguous slices."""
    if isinstance(rows, slice) or isinstance(out, np.ndarray):
        out[rows] = values
        return
    edges = [0, *np.flatnonzero(np.diff(rows) != 1) + 1, len(rows)]
    for start, stop in pairwise(edges):
        if stop > start:
            out[int(rows[start]) : int(rows[stop - 1]) + 1] = values[start:stop]


def split_into_shares(device_group: Any, n_rows: int) -> list[slice]:
    """Return a contiguous slice of the rows for each device of a group, which may be None."""
    n_shares = 1 if device_group is None else min(len(device_group.members), n_rows)
    if n_shares < 2:
        return [slice(0, n_rows)]
    edges = np.linspace(0, n_rows, n_shares + 1).astype(int)
    return [slice(int(start), int(stop)) for start, stop in pairwise(edges)]


def slice_rows(X: Any, share: slice) -> Any:
    """Return a slice of the rows of an array, a source or `ShardedRows` rows, without a copy."""
    if isinstance(X, ShardedRows):
        return X.part(share)
    if isinstance(X, Source):
        return select_rows(X, np.arange(share.start, share.stop))
    return X[share]


class ShardedRows:
    """Rows that are distributed over the devices of a group, one contiguous share each.

    `take` returns rows on the device of the calling thread: work that is not shared stays on
    the device of its engine.

    Parameters
    ----------
    whole : array-like
        All rows, where they came from.
    parts : dict of int to array
        The shares by their first row, each on the device of its engine, or on the host.
    algebra : Algebra
        That of the engines.
    """

    def __init__(self, whole: Any, parts: dict[int, Any], algebra: Any) -> None:
        self.whole, self._parts, self._algebra = whole, parts, algebra
        self.shape, self.dtype = tuple(whole.shape), next(iter(parts.values())).dtype

    def __len__(self) -> int:
        return self.shape[0]

    def part(self, share: slice) -> Any:
        """Return one of the shares."""
        return self._parts[share.start]

    def take(self, rows: Any, dtype: Any = None) -> Any:
        """Return rows (a slice or an index array) on the device of the calling thread."""
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        xp = self._algebra.xp
        result = xp.empty((len(rows), self.shape[1]), dtype or self.dtype)
        for first, part in self._parts.items():
            positions = np.flatnonzero((rows >= first) & (rows < first + len(part)))
            if len(positions):
                result[xp.asarray(positions)] = self._fetch(part, rows[positions] - first)
        return result

    def _fetch(self, part: Any, rows: npt.NDArray[np.intp]) -> Any:
        with self._algebra.device_of(part):
            selected = part[rows]
            self._algebra.synchronize()  # before another device reads them
        return self._algebra.to_device(selected)
