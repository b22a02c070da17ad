"""Rows that are distributed over the devices of a group."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .sources import Source, select_rows


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
