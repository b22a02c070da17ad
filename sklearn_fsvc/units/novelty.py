"""Which rows become centres: novelty selection.

Novelty selection (Dogaru & Dogaru, ISEEE 2017) is one pass without labels: a row becomes
a centre if the activities that it raises in the centres so far *sum* to less than the
overlap threshold. The rule is sequential, but has an exact blocked form: the activities of
a block of rows in the centres before it are one evaluation of the layer, and only rows
still under the threshold can matter; those are settled in order with their own kernel
matrix.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engines.base import Engine
from ..kernels import Kernel
from ..layers import RBFLayer
from ..rows.streaming import take_rows, weigh

# Centres whose activities are summed at a time.
_CHUNK_UNITS = 1024


@dataclass(frozen=True)
class NoveltyRule:
    """Which rows are novel: metric and kernel of the layer, radius and overlap threshold."""

    metric: str
    kernel: Kernel | str
    radius: float
    overlap: float

    def layer(self, units):
        return RBFLayer(units, self.radius, self.metric, self.kernel)


@dataclass(frozen=True, eq=False)
class Presentation:
    """Rows as they are presented: which ones, in what order, and where they are compared.

    Parameters
    ----------
    engine : Engine
    X : array-like of shape (n_rows, n_features)
    order : ndarray of int
        Row numbers in the order of presentation.
    groups : ndarray of int of shape (n_rows,), optional
        A code for each row of X. Each group is then presented as if it were the only data.
    dtype : dtype, optional
        dtype in which rows are compared; that of X by default.
    block_rows : int, optional
        Rows that are looked at in one go; what suits the engine by default. The centres
        are the same for every size, but for the rounding of sums in float64.
    weights : ndarray of shape (n_features,), optional
        Weights of the features: rows are compared once they are multiplied by them.
    """

    engine: Engine
    X: Any
    order: np.ndarray
    groups: np.ndarray | None = None
    dtype: np.dtype | None = None
    block_rows: int | None = None
    weights: np.ndarray | None = None

    def __len__(self):
        return len(self.order)

    def block(self, part):
        """The rows of a slice of the order, on the device, as they are compared."""
        dtype = self.X.dtype if self.dtype is None else self.dtype
        if self.weights is None:
            return self.engine.to_device(take_rows(self.X, self.order[part], dtype))
        block = self.engine.to_device(take_rows(self.X, self.order[part]))
        return weigh(self.engine, block, self.weights, dtype)

    def blocks(self):
        """(number of the first row, rows on the device), one block after the other."""
        step = self.block_rows or self.engine.block_rows
        for start in range(0, len(self), step):
            yield start, self.block(slice(start, start + step))

    def by_group(self):
        """(positions in the order, the presentation of these rows alone) of each group."""
        if self.groups is None:
            yield np.arange(len(self)), self
            return
        in_order = self.groups[self.order]
        for code in np.unique(in_order):
            positions = np.flatnonzero(in_order == code)
            yield positions, replace(self, order=self.order[positions], groups=None)

    @property
    def n_groups(self):
        return 1 if self.groups is None else len(np.unique(self.groups[self.order]))


class _Centers:
    """Centres found so far, prepared in chunks: a full chunk is prepared once."""

    def __init__(self, engine, rule):
        self.engine, self.rule = engine, rule
        self.full, self.last = [], None

    def add(self, units):
        if self.last is not None:
            units = self.engine.xp.concatenate([self.last, units])
        while len(units) >= _CHUNK_UNITS:
            self.full.append(self._prepare(units[:_CHUNK_UNITS]))
            units = units[_CHUNK_UNITS:]
        self.last = units

    def _prepare(self, units):
        return self.engine.prepare(self.rule.layer(self.engine.xp.ascontiguousarray(units)))

    def activity(self, X):
        """Sum of the activities of all centres for each row, in float64."""
        prepared = list(self.full)
        if self.last is not None and len(self.last):
            prepared.append(self._prepare(self.last))
        total = self.engine.xp.zeros(len(X))
        for chunk in prepared:
            total += self.engine.hidden(chunk, X).sum(axis=1, dtype=np.float64)
        return total


def _novel_in_group(shown, rule, limit):
    """`novel_rows` of rows that are all of one group."""
    centers, found, count = _Centers(shown.engine, rule), [], 0
    for start, block in shown.blocks():
        activity = centers.activity(block)
        kept = shown.engine.novel(rule.layer(block), block, activity, rule.overlap)
        if len(kept):
            centers.add(block[kept])
            found.append(start + kept)
            count += len(kept)
        if limit is not None and count > limit:
            found = np.concatenate(found)[: limit + 1]
            return found, int(found[-1]) + 1
    return np.concatenate(found), len(shown)


def novel_rows(shown, rule, limit=None):
    """Rows that novelty selection keeps, in each group as if it were the only data.

    Parameters
    ----------
    shown : Presentation
    rule : NoveltyRule
    limit : int, optional
        Stop at the first row that is one more than this. Groups that were not reached by
        then are left out.

    Returns
    -------
    found : ndarray of int
        Positions in the order, ascending; ``shown.order[found]`` are the rows.
    n_seen : int
        Rows that it took to find them: all, unless the limit was passed.
    """
    found, count, seen = [], 0, 0
    for positions, group in shown.by_group():
        left = None if limit is None else limit - count
        kept, n_seen = _novel_in_group(group, rule, left)
        found.append(positions[kept])
        count, seen = count + len(kept), seen + n_seen
        if limit is not None and count > limit:
            break
    return np.sort(np.concatenate(found)), seen


def first_novel_rows(shown, rule, n):
    """The first `n` rows that novelty selection finds, in the order of presentation.

    A smaller `n` gives a prefix. Each group may have to give all `n`, so none is cut short
    by the others.
    """
    found = [positions[_novel_in_group(group, rule, n)[0]] for positions, group in shown.by_group()]
    return np.sort(np.concatenate(found))[:n]


def least_novel(shown, overlap):
    """How many rows may be novel however large the radius: each group's first ones.

    Activities stay below 1 for rows that differ, so the sum over floor(overlap) centres
    stays below the threshold.
    """
    return (int(overlap) + 1) * shown.n_groups


def selection_bytes(block_rows, n_features, itemsize):
    """Bytes that `novel_rows` needs beside the centres themselves."""
    return block_rows * (4 * n_features * itemsize + (block_rows + _CHUNK_UNITS) * 8)
