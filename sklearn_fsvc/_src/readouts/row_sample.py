"""A bounded sample of the rows: it calibrates probabilities, selects penalties, weights networks.

The rows themselves determine which are in it: those with the least hashes (a bottom-k sketch:
E. Cohen and H. Kaplan 2007, "Summarizing data using bottom-k sketches"). Equal rows are in the
sample together or not at all, samples of parts of the rows merge into that of all, and rows that
are removed can be found. `draw_sample` draws a sample from the rows of a fit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..data.memory_plan import count_fitting
from ..data.rows import row_blocks, take_rows
from ..data.samples import Samples, exact_hashes
from ..data.sources import SparseSource, joined
from ..engines.algebra import HOST
from .moments import CANCELLATION_ERROR

# Distinct rows of a sample.
ROWS = 512
# Rows that a prior counts as if hardly any row of the sample is left: see `RowSample.prior_rows`.
PRIOR_ROWS = 30
# Part of the memory that a sample may take.
_MEMORY_SHARE = 1 / 16
# Elements that are hashed at a time on the host; and rows, if they are sparse.
HOST_BLOCK, _SPARSE_ROWS = 2**22, 2**12
# Logarithm of the range of hashes.
_LOG_RANGE = 64 * np.log(2)


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Rows on the host, in ascending order of their keys unless they are to be merged.

    Attributes
    ----------
    X : ndarray or SparseSource
    hashes : ndarray of uint64
    keys : ndarray
        log(u / d) for the hash as a number u in (0, 1] and the factor d by which the weight of the
        row has decayed, as in priority sampling (N. Duffield, C. Lund and M. Thorup 2007). A sample
        keeps the rows of the least keys.
    weight : ndarray
    sums : ndarray of shape (n_rows, n_outputs)
        Targets times weights.
    """

    X: Any
    hashes: npt.NDArray
    keys: npt.NDArray
    weight: npt.NDArray
    sums: npt.NDArray

    def __len__(self) -> int:
        return len(self.hashes)

    def taken(self, rows: npt.NDArray) -> "SampledRows":
        """Return a subset of the rows."""
        others = self.hashes[rows], self.keys[rows], self.weight[rows], self.sums[rows]
        return SampledRows(_take(self.X, rows), *others)

    @staticmethod
    def concatenate(parts: "list[SampledRows]") -> "SampledRows":
        """Return the rows of all parts."""
        return SampledRows(
            joined([part.X for part in parts]),
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.sums for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class RowSample:
    """Distinct rows, with the total weight and targets of all copies of each; or single rows.

    Immutable: methods return another sample.

    Parameters
    ----------
    capacity : int
        Rows that are kept, at most.
    rows : SampledRows or None
        None if there are none.
    key_limit : float
        All rows with a lesser key that were added since it was last raised are here.
    lacks_rows : bool
        Whether the sample may have fewer rows than fit although there are others, because rows were
        removed.
    has_copies : bool
        Whether equal rows were merged.
    numbers : ndarray of int of shape (n_rows,) or None
        Row numbers, if equal rows are kept apart. Such a sample is complete: no rows are added.
    is_repeated : ndarray of bool of shape (n_rows,) or None
        Whether others equal the row, if equal rows are kept apart and that is known.
    """

    capacity: int
    rows: Any = None
    key_limit: float = np.inf
    lacks_rows: bool = False
    has_copies: bool = False
    numbers: Any = None
    is_repeated: Any = None

    @property
    def is_empty(self) -> bool:
        return self.rows is None

    @property
    def targets(self) -> npt.NDArray:
        """Mean targets of the copies of each row, (n_rows, n_outputs)."""
        return self.rows.sums / self.rows.weight[:, None]

    @property
    def n_rows(self) -> int:
        """Number of rows; of distinct ones where equal rows are merged."""
        return 0 if self.rows is None else len(self.rows)

    @property
    def prior_rows(self) -> float:
        """Weight of a prior in rows: the more, the more rows are missing."""
        return PRIOR_ROWS * (1 - self.n_rows / self.capacity) if self.lacks_rows else 0.0

    def leading(self, n_rows: int) -> "RowSample":
        """Return the sample that would have the capacity `n_rows`."""
        if self.n_rows <= n_rows:
            return self
        first = np.argsort(self.rows.keys, kind="stable")[:n_rows]
        numbers, is_repeated = (
            None if array is None else array[first] for array in (self.numbers, self.is_repeated)
        )
        rows = self.rows.taken(first)
        return replace(self, capacity=n_rows, rows=rows, numbers=numbers, is_repeated=is_repeated)

    def match(self, hashes: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
        """Return the indices of hashes whose rows are here, and the index here of each."""
        order = np.argsort(self.rows.hashes)
        ascending = self.rows.hashes[order]
        at = np.minimum(np.searchsorted(ascending, hashes), len(ascending) - 1)
        matched = np.flatnonzero(ascending[at] == hashes)
        return matched, order[at[matched]]

    def find_units(
        self, rows: npt.NDArray[np.intp] | None, centers: npt.NDArray
    ) -> npt.NDArray[np.intp]:
        """Return the unit that only the row itself is at the centre of, -1 for none.

        If equal rows are kept apart, the others stay at the centre when one of them is left out.

        Parameters
        ----------
        rows : ndarray of int of shape (n_units,) or None
            Row numbers of the centres of all units; None if they are not training samples.
        centers : array of shape (n_units, n_features)
        """
        unit_at_sample = np.full(self.n_rows, -1)
        if rows is None or self.rows is None:
            return unit_at_sample
        if self.numbers is None:
            units, at = self.match(exact_hashes(centers))
        else:
            _, at, units = np.intersect1d(self.numbers, rows, return_indices=True)
        unit_at_sample[at] = units
        if self.is_repeated is not None:
            unit_at_sample[self.is_repeated] = -1
        return unit_at_sample

    def update(self, samples: Samples, log_decay: npt.NDArray | None = None) -> "RowSample":
        """Return the sample with more rows.

        Parameters
        ----------
        log_decay : ndarray of shape (n_rows,), optional
            Logarithm of the factor by which the weight of each has decayed by now. Rows that have
            decayed give way to new ones, so that always enough of the rows have a weight.
        """
        return self.combine(sample_blocks(samples), log_decay)

    def remove(self, samples: Samples) -> "RowSample":
        """Return the sample without rows that were added before.

        Rows that are added later may take their place. Later rows are thus sampled more often than
        earlier ones, with their weights as they are. Inverse probability weights would give a few
        old rows the influence of many new ones: on noisy classes that doubled the log-loss that
        calibration costs.
        """
        left = self.combine(sample_blocks(samples), sign=-1)
        if left.n_rows == self.capacity or np.isinf(left.key_limit):
            return left
        return replace(left, key_limit=np.inf, lacks_rows=True)

    def merge(self, other: "RowSample") -> "RowSample":
        """Return the sample of the rows of both."""
        both = RowSample(
            min(self.capacity, other.capacity), None, min(self.key_limit, other.key_limit),
            self.lacks_rows or other.lacks_rows, self.has_copies or other.has_copies,
        )  # fmt: skip
        return both._add_rows([each.rows for each in (self, other) if not each.is_empty])

    def combine(self, blocks, log_decay=None, sign=1, job=None):
        """Return the sample with rows added, or removed (sign -1); see `update`.

        Rows are collected from blocks, (slice of the rows, `Samples`), until they are as many as
        the capacity, and then merged.
        """
        sample, pending = self, []
        for part, samples in blocks:
            # A removal has to find every row that is in the sample.
            capacity = self.capacity if sign > 0 else np.inf
            decay = 0.0 if log_decay is None else log_decay[part]
            rows, key_limit = _candidates(samples, sample.key_limit, decay, job, capacity)
            sample = replace(sample, key_limit=min(sample.key_limit, key_limit))
            pending.append(replace(rows, weight=sign * rows.weight, sums=sign * rows.sums))
            if sum(map(len, pending)) > self.capacity:
                sample, pending = sample._add_rows(pending), []
        return sample._add_rows(pending)

    def decayed(self, log_factor: float) -> Self:
        """Return the sample with weights times a factor, given its logarithm."""
        if self.rows is None or log_factor == 0:
            return self
        rows, factor = self.rows, np.exp(log_factor)
        rows = replace(
            rows, keys=rows.keys - log_factor, weight=rows.weight * factor, sums=rows.sums * factor
        )
        return replace(self, rows=rows, key_limit=self.key_limit - log_factor)

    def divided(self, scale: float) -> Self:
        """Return the sample with weights divided by a number."""
        if self.rows is None:
            return self
        rows = self.rows
        return replace(self, rows=replace(rows, weight=rows.weight / scale, sums=rows.sums / scale))

    def _add_rows(self, new):
        """Return the sample with more rows, whose weights are negative if they are removed.

        1. Group copies by their hashes, and sum weights and targets of each group.
        2. Drop groups whose weight is 0 up to rounding, and those above the key limit.
        3. Keep those of the least keys, which lowers the limit to the first key that is dropped.
        """
        parts = [rows for rows in ([self.rows] if self.rows is not None else []) + new if len(rows)]
        if not parts or (len(parts) == 1 and parts[0] is self.rows):
            return self
        rows = SampledRows.concatenate(parts)
        # Copies may have different keys, by their decay: `first` is the copy of the least key.
        order = np.argsort(rows.keys, kind="stable")
        _, first, group = np.unique(rows.hashes[order], return_index=True, return_inverse=True)
        first = order[first]
        has_copies = self.has_copies or len(first) < len(rows)
        size = np.bincount(group, np.abs(rows.weight[order]))
        weight = np.bincount(group, rows.weight[order])
        sums = np.zeros((len(first), rows.sums.shape[1]))
        np.add.at(sums, group, rows.sums[order])
        keys, key_limit = rows.keys[first], self.key_limit
        is_left = (weight > CANCELLATION_ERROR * size) & (keys < key_limit)
        if self.lacks_rows:
            # More of a class may be removed than is here: copies that were added when the row was
            # not sampled.
            is_left &= (sums >= -CANCELLATION_ERROR * size[:, None]).all(axis=1)
        kept = np.argsort(keys, kind="stable")
        kept = kept[is_left[kept]]
        if len(kept) > self.capacity:
            key_limit, kept = float(keys[kept[self.capacity]]), kept[: self.capacity]
        left: SampledRows | None = None
        if len(kept):
            left = replace(rows.taken(first[kept]), weight=weight[kept], sums=sums[kept])
        return replace(self, rows=left, key_limit=key_limit, has_copies=has_copies)


# The name of the class in models that were saved earlier.
Sample = RowSample


def sample_capacity(memory_limit: int, n_features: int, n_rows: float = ROWS) -> int:
    """Return the capacity of a sample of up to `n_rows` rows that takes little memory."""
    row_bytes = 8 * max(1, n_features)
    return max(1, count_fitting(_MEMORY_SHARE * memory_limit, row_bytes, maximum=int(n_rows)))


def sample_blocks(
    samples: Samples, rows: npt.NDArray | None = None, block_size: int = HOST_BLOCK
) -> Iterator[tuple[slice, Samples]]:
    """Yield (slice of the row numbers, `Samples`) of up to `block_size` elements each."""
    X, n = samples.X, len(samples if rows is None else rows)
    step = max(1, block_size // (X.shape[1] + 2 * samples.targets.n_outputs))
    step = _SPARSE_ROWS if isinstance(X, SparseSource) else step
    parts = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    if isinstance(X, SparseSource):
        order = np.arange(n) if rows is None else rows
        blocks = (X.part(order[part]) for part in parts)
    else:
        blocks = row_blocks(X, rows, parts)
    for part, block in zip(parts, blocks, strict=True):
        yield part, samples.with_rows(block, part if rows is None else rows[part])


def _candidates(samples, key_limit, log_decay, job, capacity):
    """Return the rows that may be in a sample, on the host, and a limit of their keys.

    The limit leaves at least `capacity` distinct rows. Given a job, rows may be on its device.
    """
    X = samples.X
    hashes = exact_hashes(X, HOST if job is None else job.algebra_of(X))
    keys = compute_keys(hashes) - log_decay
    weight = np.exp(log_decay) * np.ones(len(hashes))
    weight = weight if samples.weight is None else weight * samples.weight
    rows = np.flatnonzero((keys < key_limit) & (weight > 0))
    limit = _key_limit(keys[rows], hashes[rows], capacity)
    rows = rows[keys[rows] < limit]
    X = _take(X, rows)
    X = X if job is None or isinstance(X, SparseSource) else np.array(job.engine.to_host(X))
    sums = samples.targets.matrix(rows) * weight[rows, None]
    return SampledRows(X, hashes[rows], keys[rows], weight[rows], sums), limit


def compute_keys(hashes):
    """Return the keys of rows that have not decayed."""
    return np.log(hashes.astype(float) + 1) - _LOG_RANGE


def _key_limit(keys, hashes, capacity):
    """Return the least key that is above those of `capacity` distinct rows; inf for few rows.

    The smallest 2 * capacity keys contain enough distinct ones, unless rows have many copies: try
    these first, since sorting all keys takes longer than everything else.
    """
    n = 2 * capacity
    if len(keys) <= n:
        return np.inf
    smallest = np.flatnonzero(keys <= np.partition(keys, n)[n])
    limit = _key_limit_by_sorting(keys[smallest], hashes[smallest], capacity)
    return _key_limit_by_sorting(keys, hashes, capacity) if np.isinf(limit) else limit


def _key_limit_by_sorting(keys, hashes, capacity):
    order = np.argsort(keys)
    first = np.sort(np.unique(hashes[order], return_index=True)[1])
    return float(keys[order[first[capacity]]]) if len(first) > capacity else np.inf


def _take(X, rows):
    return X.part(rows) if isinstance(X, SparseSource) else take_rows(X, rows)


def mean_and_error(values: npt.NDArray, weight: npt.NDArray) -> tuple[float, float]:
    """Return the weighted mean of independent values (n_rows,), and the standard error of it."""
    share = weight / weight.sum()
    mean = share @ values
    return float(mean), float(np.sqrt(share**2 @ (values - mean) ** 2))


def squared_deviation(Y: npt.NDArray, weight: npt.NDArray, shares: npt.NDArray) -> float:
    """Return the weighted mean of ``|y - mean|^2``, where the mean is that of all other rows.

    Parameters
    ----------
    Y : ndarray of shape (n_rows, n_outputs)
    weight : ndarray of shape (n_rows,)
    shares : ndarray of shape (n_rows,)
        The weight of each row as a part of all weights, also of rows that are not in Y.
    """
    weight = weight / weight.sum()
    # A row that outweighs all others by far may have a share of 1, but for rounding.
    others = np.maximum(1 - shares, np.finfo(float).eps)
    deviations = (Y - weight @ Y) / others[:, None]
    return float(weight @ np.square(deviations).sum(axis=1))
