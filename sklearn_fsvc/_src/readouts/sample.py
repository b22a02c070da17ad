"""A sample of the rows, a bounded number of them, by which probabilities are calibrated.

Which rows are in it is said by the rows themselves: those with the least hashes (a bottom-k
sample: E. Cohen and H. Kaplan 2007, "Summarizing data using bottom-k sketches"). So equal rows are
in it together, or none of them; samples of parts of the rows make that of all; and rows that go are
found.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..data.map_reduce import MapReduce, map_reduce
from ..data.samples import exact_hashes
from ..data.sources import SparseRows, joined
from ..data.streaming import row_blocks, take_rows
from ..data.tiling import count_fitting
from ..engines.algebra import HOST
from .cross_validation import ROUNDING

# Different rows that are kept, and how many times as many where weights are very unequal.
ROWS, _MORE = 512, 8
# Rows that are expected beside a sample of which hardly any is left: see `Sample.prior_rows`.
PRIOR_ROWS = 30
# The part of the memory that they may take.
_MEMORY = 1 / 16
# Numbers that are hashed at a time, by all threads or by a GPU; rows, where they are sparse.
_ON_HOST, _ON_DEVICE, _SPARSE = 2**22, 2**26, 2**12
# Bytes that a number takes as it is hashed, several times over.
_HASHED = 64
# Of hashes.
_RANGE = 64 * np.log(2)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows on the host.

    Attributes
    ----------
    X : ndarray or SparseRows
    hashes : ndarray of uint64
    keys : ndarray
        Logarithms of the hashes, as parts of their range, less those of what is left of the rows:
        the least stay.
    weight : ndarray
    sums : ndarray of shape (n_rows, n_outputs)
        Targets times weights.
    """

    X: Any
    hashes: np.ndarray
    keys: np.ndarray
    weight: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True, eq=False)
class Sample:
    """Different rows, and of each the weight and the targets of all that are equal to it.

    Never changed: what changes it gives another one.

    Parameters
    ----------
    most : int
        Different rows that are kept.
    rows : _Rows or None
    bound : float
        Of the rows whose keys are less, all are here that came since it was last raised.
    lacks_rows : bool
        Whether rows may be missing though there is room for them: others were forgotten.
    """

    most: int
    rows: Any = None
    bound: float = np.inf
    lacks_rows: bool = False

    @property
    def is_empty(self):
        return self.rows is None

    @property
    def mean(self):
        """Targets (n_rows, n_outputs)."""
        return self.rows.sums / self.rows.weight[:, None]

    @property
    def n_rows(self):
        """Different rows that are here."""
        return 0 if self.rows is None else len(self.rows.hashes)

    @property
    def prior_rows(self):
        """How many rows to expect beside these: the more, the more are missing."""
        return PRIOR_ROWS * (1 - self.n_rows / self.most) if self.lacks_rows else 0.0

    def leading(self, n_rows):
        """The sample of so many rows that this one holds."""
        if self.n_rows <= n_rows:
            return self
        at, rows = np.argsort(self.rows.keys, kind="stable")[:n_rows], self.rows
        others = (rows.hashes[at], rows.keys[at], rows.weight[at], rows.sums[at])
        return replace(self, most=n_rows, rows=_Rows(_taken(rows.X, at), *others))

    def find(self, hashes):
        """The numbers of those hashes whose rows are here, and where each of them is."""
        order = np.argsort(self.rows.hashes)
        known = self.rows.hashes[order]
        at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        found = np.flatnonzero(known[at] == hashes)
        return found, order[at[found]]

    def learn(self, samples, left=None):
        """With rows that came; `left` is the logarithm of what is left of each by now.

        What has faded gives way to what is new, so that there are always enough that count.
        """
        return self._meeting(_parts_of(samples), left)

    def forget(self, samples):
        """Without rows that came before. Any rows that come later may take their places.

        So later rows are drawn more often than earlier ones, and count as they are drawn. By the
        inverse of their probabilities a few old rows would count as much as many new ones: on
        noisy classes that doubled what calibration costs of the log-loss.
        """
        left = self._meeting(_parts_of(samples), sign=-1)
        if left.n_rows == self.most or np.isinf(left.bound):
            return left
        return replace(left, bound=np.inf, lacks_rows=True)

    def merge(self, other):
        """With the rows of another sample."""
        most, bound = min(self.most, other.most), min(self.bound, other.bound)
        lacks = self.lacks_rows or other.lacks_rows
        both = replace(self, most=most, bound=bound, rows=None, lacks_rows=lacks)
        return both._adding([each.rows for each in (self, other) if not each.is_empty])

    def _meeting(self, parts, left=None, sign=1, job=None):
        """With the rows of (part, `Samples`); see `learn`."""
        sample, waiting = self, []
        for part, own in parts:
            most = self.most if sign > 0 else np.inf
            rows, bound = _rows_of(own, sample, 0.0 if left is None else left[part], job, most)
            sample = replace(sample, bound=min(sample.bound, bound))
            waiting.append(replace(rows, weight=sign * rows.weight, sums=sign * rows.sums))
            if sum(len(each.hashes) for each in waiting) > self.most:
                sample, waiting = sample._adding(waiting), []
        return sample._adding(waiting)

    def faded(self, fade):
        """With weights times a factor, whose logarithm it is."""
        if self.rows is None or fade == 0:
            return self
        rows, left = self.rows, np.exp(fade)
        rows = replace(
            rows, keys=rows.keys - fade, weight=rows.weight * left, sums=rows.sums * left
        )
        return replace(self, rows=rows, bound=self.bound - fade)

    def _adding(self, more):
        """With more rows, of which no more than `most` different ones are kept."""
        parts = [*([] if self.rows is None else [self.rows]), *more]
        parts = [part for part in parts if len(part.hashes)]
        if not parts or (len(parts) == 1 and parts[0] is self.rows):
            return self
        X, hashes, keys, weight, sums = (
            join([getattr(part, field.name) for part in parts])
            for field, join in zip(fields(_Rows), [_joined, *[np.concatenate] * 4], strict=True)
        )
        order = np.argsort(keys, kind="stable")
        _, first, group = np.unique(hashes[order], return_index=True, return_inverse=True)
        size = np.bincount(group, np.abs(weight[order]))
        total = np.bincount(group, weight[order])
        targets = np.zeros((len(first), sums.shape[1]))
        np.add.at(targets, group, sums[order])
        at, bound = order[first], self.bound
        is_left = (total > ROUNDING * size) & (keys[at] < bound)
        if self.lacks_rows:
            # More of a class may go than is here: of copies that came early, and were not drawn.
            is_left &= (targets >= -ROUNDING * size[:, None]).all(axis=1)
        least = np.argsort(keys[at], kind="stable")
        least = least[is_left[least]]
        if len(least) > self.most:
            bound, least = float(keys[at][least[self.most]]), least[: self.most]
        at = at[least]
        kept = _Rows(_taken(X, at), hashes[at], keys[at], total[least], targets[least])
        return replace(self, rows=kept if len(at) else None, bound=bound)


def rows_for(memory_limit, n_features, n_rows=ROWS):
    """Rows of a sample that take little of so many bytes."""
    row_bytes = 8 * max(1, n_features)
    return max(1, count_fitting(_MEMORY * memory_limit, row_bytes, at_most=int(n_rows)))


def draw(job, samples, rows=None, n_rows=None):
    """The `Sample` of a job's rows, or of some of them, in one pass; no layer is evaluated.

    It has `n_rows` different rows, `ROWS` by default, or more where their weights differ.

    Where weights are unequal, the rows of large weight are few: so more are drawn (by the design
    effect of L. Kish 1965, "Survey sampling").
    """
    weight, n_rows = samples.weight_of(slice(None) if rows is None else rows), n_rows or ROWS
    if weight is not None:
        weight = weight[weight > 0]
        n_rows *= min(_MORE, float((weight**2).mean() / weight.mean() ** 2))
    most = rows_for(job.memory_limit, samples.X.shape[1], n_rows)
    return map_reduce(job, samples, _Draw(most), rows)


def rows_in(job, samples, sample):
    """The row numbers of all rows that are in a sample, and where in it each is."""
    rows, places = [], []
    for part, own in _parts_of(samples, numbers=_at_a_time(job, samples)):
        hashes = exact_hashes(own.X, job.algebra_of(own.X))
        found, at = sample.find(hashes)
        rows.append(part.start + found)
        places.append(at)
    return np.concatenate(rows), np.concatenate(places)


@dataclass(frozen=True, eq=False)
class _Draw(MapReduce):
    """`draw` as work for `map_reduce`."""

    most: int

    def __call__(self, job, samples, rows=None):
        parts = _parts_of(samples, rows, _at_a_time(job, samples))
        return Sample(self.most)._meeting(parts, job=job)

    @staticmethod
    def add(some, more):
        return some.merge(more)


def _at_a_time(job, samples):
    """How many numbers are hashed at a time, where they are."""
    is_there = job.algebra_of(samples.X).xp is not np
    return min(_ON_DEVICE if is_there else _ON_HOST, job.memory_limit // _HASHED)


def _parts_of(samples, rows=None, numbers=_ON_HOST):
    """(part, `Samples`) of the row numbers, a few at a time, where they are."""
    X, n = samples.X, len(samples if rows is None else rows)
    parts = _slices(samples, n, numbers)
    if isinstance(X, SparseRows):
        order = np.arange(n) if rows is None else rows
        blocks = (X.part(order[part]) for part in parts)
    else:
        blocks = row_blocks(X, rows, parts)
    for part, block in zip(parts, blocks, strict=True):
        yield part, samples.with_rows(block, part if rows is None else rows[part])


def _slices(samples, n, numbers):
    """Of so many rows, each with about so many numbers."""
    step = max(1, numbers // (samples.X.shape[1] + 2 * samples.targets.n_outputs))
    step = _SPARSE if isinstance(samples.X, SparseRows) else step
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _rows_of(samples, sample, left, job, most):
    """Those rows that may be in a sample, and a bound of their keys.

    Where there is a job, its engine may have them: `most` different ones come from there.
    """
    X = samples.X
    hashes = exact_hashes(X, HOST if job is None else job.algebra_of(X))
    keys = np.log(hashes.astype(float) + 1) - _RANGE - left
    weight = np.exp(left) * np.ones(len(hashes))
    weight = weight if samples.weight is None else weight * samples.weight
    rows = np.flatnonzero((keys < sample.bound) & (weight > 0))
    bound = _bound_of(keys[rows], hashes[rows], most)
    rows = rows[keys[rows] < bound]
    X = _taken(X, rows)
    X = X if job is None or isinstance(X, SparseRows) else np.array(job.engine.to_host(X))
    sums = samples.targets.matrix(rows) * weight[rows, None]
    return _Rows(X, hashes[rows], keys[rows], weight[rows], sums), bound


def _bound_of(keys, hashes, most):
    """The key that `most` different rows are below, if there are many more."""
    n = 2 * most
    if len(keys) <= n:
        return np.inf
    # Of a few, which are mostly different: to sort all takes longer than all else.
    few = np.flatnonzero(keys <= np.partition(keys, n)[n])
    bound = _bound_in(keys[few], hashes[few], most)
    return _bound_in(keys, hashes, most) if np.isinf(bound) else bound


def _bound_in(keys, hashes, most):
    order = np.argsort(keys)
    first = np.sort(np.unique(hashes[order], return_index=True)[1])
    return float(keys[order[first[most]]]) if len(first) > most else np.inf


def _joined(blocks):
    """Blocks of rows as one; dense, if some are."""
    if len({isinstance(block, SparseRows) for block in blocks}) == 2:
        blocks = [b.take(slice(None)) if isinstance(b, SparseRows) else b for b in blocks]
    return joined(blocks)


def _taken(X, rows):
    return X.part(rows) if isinstance(X, SparseRows) else take_rows(X, rows)
