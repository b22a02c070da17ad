"""Which rows become centres: novelty selection.

Novelty selection (Dogaru & Dogaru, ISEEE 2017) is one pass without labels: a row becomes
a centre if the activities that it raises in the centres so far *sum* to less than the
overlap threshold. The rule is sequential, but has an exact form in rounds: the first rows
that still live, whatever lies between them, are settled in order with their own kernel
matrix, and all others meet what became a centre; see `living`.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..data.map_reduce import Sharded
from ..data.sources import Source
from ..data.streaming import take_in_any_order, weigh
from ..engines.base import Engine
from ..kernels import Kernel
from ..layers import RBFLayer
from .active_candidates import ActiveCandidates, LivingBlocks, LivingTeam, living_bytes

# A round settles no more than this part of the rows that are read in one go, but for so few.
_MOST_OF_BLOCK, _LEAST_ROUND = 1 / 4, 64
# Numbers in the rows from which a team shares a selection. With fewer, to ask all in each round
# takes longer than the work.
_SHARED = 2**32
# Bytes in pairs of rows above which it is better to drop rows that are dead.
_PAIRED = 2**39


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
class OrderedRows:
    """Rows as they are presented: which ones, in what order, and where they are compared."""

    engine: Engine
    X: Any  # (n_rows, n_features)
    order: np.ndarray  # row numbers in the order of presentation
    # int, (n_rows,): a code for each row of X. Each group is then presented as if it were the only
    # data.
    groups: np.ndarray | None = None
    dtype: np.dtype | None = None  # dtype in which rows are compared; that of X by default
    # Rows that are read in one go; what suits the engine by default. The centres are the same for
    # every size.
    block_rows: int | None = None
    # (n_features,) or (n_features, n_inputs): weights of the features, or a linear map: rows are
    # compared once they are multiplied by them.
    weights: np.ndarray | None = None
    group_bytes: int = 0  # for small groups whose rows are compared all at once, all with all

    def __len__(self):
        return len(self.order)

    def block(self, part):
        """The rows at positions of the order, on the device, as they are compared."""
        rows, dtype = self.order[part], self.X.dtype if self.dtype is None else self.dtype
        if self.weights is None:
            return self.engine.to_device(take_in_any_order(self.X, rows, dtype))
        block = self.engine.to_device(take_in_any_order(self.X, rows))
        return weigh(self.engine, block, self.weights, dtype)

    def by_group(self):
        """(positions in the order, the presentation of these rows alone) of each group."""
        if self.groups is None:
            yield np.arange(len(self)), self
            return
        in_order = self.groups[self.order]
        for code in np.unique(in_order):
            positions = np.flatnonzero(in_order == code)
            yield positions, replace(self, order=self.order[positions], groups=None)

    @cached_property
    def at_once(self):
        """(positions in the order, rows) of each group, if so many pairs are; else None.

        They are kept: a search compares them at one radius after the other.
        """
        if self.groups is None or not self.group_bytes:
            return None
        positions = [at for at, _ in self.by_group()]
        widest, n_features = max(map(len, positions)), self.X.shape[1]
        row_bytes = n_features * (self.X.dtype if self.dtype is None else self.dtype).itemsize
        needed = len(self) * (8 * widest + row_bytes) + 3 * 8 * widest**2
        is_far = isinstance(self.X, Source) and not self.X.is_in_memory
        if is_far or needed > self.group_bytes or len(self) * widest * row_bytes > _PAIRED:
            return None
        return [(at, self.block(at)) for at in positions]

    @property
    def n_groups(self):
        return 1 if self.groups is None else len(np.unique(self.groups[self.order]))


def rounds(engine, workers, rule, n):
    """Ranks of novel rows, ascending, round by round.

    In a round the first `n` rows that live anywhere are settled in order, and what is kept
    is announced to every worker. That is exact: a row that is dead could not be kept, and
    ranks below the last of the `n` are all settled then.

    Parameters
    ----------
    engine : Engine
        Settles.
    workers : list of Living
        Each has ranks of its own.

    Yields
    ------
    ndarray of int
    """
    while True:
        ranks, rows, activity = _first(
            [worker.next_candidates(n) for worker in workers], n, engine.xp
        )
        if not len(ranks):
            return
        kept = engine.novel(rule.layer(rows), rows, activity, rule.overlap)
        ranks = engine.to_host(ranks)
        yield ranks[kept]
        for worker in workers:
            worker.add_centers(rows[kept], ranks[-1] + 1)


def _first(proposals, n, xp):
    """The first `n` by rank of all that workers propose."""
    proposed = [xp.concatenate(parts) for parts in zip(*proposals, strict=True)]
    first = xp.argsort(proposed[0])[:n]
    return [part[first] for part in proposed]


def _round_rows(engine, block_rows):
    """Rows that are settled in one round."""
    return min(engine.round_rows, max(_LEAST_ROUND, int(_MOST_OF_BLOCK * block_rows)))


def _worker(shown, rule, block_rows):
    """All living rows: of this engine, of several that share the rows, or of blocks elsewhere."""
    if isinstance(shown.X, Source) and shown.X.is_remote:
        return LivingBlocks(shown, rule)
    if isinstance(shown.X, Sharded) and len(shown) * shown.X.shape[1] >= _SHARED:
        return LivingTeam(shown, rule, block_rows)
    return ActiveCandidates(shown, rule, np.arange(len(shown)), block_rows)


def _novel_in_group(shown, rule, limit):
    """`novel_rows` of rows that are all of one group."""
    block_rows = shown.block_rows or shown.engine.block_rows
    worker = _worker(shown, rule, block_rows)
    found, count = [], 0
    for ranks in rounds(shown.engine, [worker], rule, _round_rows(shown.engine, block_rows)):
        found.append(ranks)
        count += len(ranks)
        if limit is not None and count > limit:
            break
    return _cut(np.concatenate(found), len(shown), limit)


def _cut(found, n_rows, limit):
    """The first of those that were found, one more than the limit at most, and how many rows
    it takes to find them."""
    if limit is None or len(found) <= limit:
        return found, n_rows
    return found[: limit + 1], int(found[limit]) + 1


def _groups(shown, rule):
    """(positions, ``kept(limit)`` as of `_novel_in_group`) of each group."""
    if shown.at_once is None:
        for positions, group in shown.by_group():
            yield positions, partial(_novel_in_group, group, rule)
        return
    layers = [rule.layer(rows) for _, rows in shown.at_once]
    found = shown.engine.novel_in_each(layers, rule.overlap)
    for (positions, _), kept in zip(shown.at_once, found, strict=True):
        yield positions, partial(_cut, kept, len(positions))


def novel_rows(shown, rule, limit=None):
    """Rows that novelty selection keeps, in each group as if it were the only data.

    Parameters
    ----------
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
    for positions, kept_to in _groups(shown, rule):
        kept, n_seen = kept_to(None if limit is None else limit - count)
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
    found = [positions[kept_to(n)[0]] for positions, kept_to in _groups(shown, rule)]
    return np.sort(np.concatenate(found))[:n]


def min_centers(shown, overlap):
    """How many rows may be novel however large the radius: each group's first ones.

    Activities stay below 1 for rows that differ, so the sum over floor(overlap) centres
    stays below the threshold.
    """
    return (int(overlap) + 1) * shown.n_groups


def selection_bytes(engine, block_rows, n_features, itemsize):
    """Bytes that `novel_rows` needs beside the centres themselves.

    A round is settled when no rows meet a chunk, and in less memory.
    """
    n_rows = block_rows + min(block_rows, _round_rows(engine, block_rows))
    return living_bytes(engine, n_rows, n_features, itemsize)
