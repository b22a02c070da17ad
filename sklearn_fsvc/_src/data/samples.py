"""Rows with what belongs to them."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from ..engines.algebra import HOST, bits_of
from .job import Job
from .map_reduce import Sharded, part_of, run_parallel, shares_of
from .sources import Source, SparseRows
from .streaming import take_rows


@dataclass(frozen=True, eq=False)
class Samples:
    """Clean rows, with their targets and weights."""

    # (n_rows, n_features): an array of the host or of an engine's namespace, a `Source`, or
    # `Sharded` rows.
    X: Any
    # What the rows should be answered with: ``targets.n_outputs``, ``targets.matrix(rows, xp)``, an
    # array of `xp` of shape (rows, n_outputs) in float64, ``targets.are_whole``, whether it holds 0
    # and 1 alone, and ``targets.taken(rows)``, those of some rows alone.
    targets: Any = None
    # (n_rows,): on the host. Rows of weight 0 are as good as absent.
    weight: np.ndarray | None = None
    # Row numbers in the order in which they are presented, where there is one.
    order: np.ndarray | None = None
    duplicates: Any = None  # `Duplicates`: which rows are equal, where that is known

    def __len__(self) -> int:
        return len(self.X)

    @property
    def present(self) -> np.ndarray:
        """Return the numbers of the rows with a weight."""
        return np.arange(len(self)) if self.weight is None else np.flatnonzero(self.weight)

    @property
    def target_bytes(self) -> int:
        """Return the bytes of targets that are numbers; those of classes are few."""
        return getattr(self.targets, "n_bytes", 0)

    def weight_of(self, rows: Any) -> np.ndarray | None:
        """Return the weights of some rows, or None."""
        return None if self.weight is None else self.weight[rows]

    def in_order(self, order: np.ndarray) -> Self:
        """Return the samples with an order of presentation."""
        return replace(self, order=order)

    def taken(self, rows: Any, dtype: Any = None) -> "Samples":
        """Return some of the samples, their rows copied, in the dtype of X or another one."""
        return self.with_rows(take_rows(self.X, rows, dtype), rows)

    def with_rows(self, X: Any, rows: Any) -> "Samples":
        """Return some of the samples, where X is their rows."""
        targets, duplicates = (
            each and each.taken(rows) for each in (self.targets, self.duplicates)
        )
        return Samples(X, targets, self.weight_of(rows), duplicates=duplicates)

    def share(self, share: slice) -> "Samples":
        """Return a slice of the samples, not copied."""
        return self.with_rows(part_of(self.X, share), share)

    def on_device(self, job: Job) -> tuple[Self, Job]:
        """Return the samples with their rows where the job computes, and the job that is left.

        See `Job.with_rows_on_device`. To engines that share the work they are `Sharded`.
        """
        shares = shares_of(job.engine.team, len(self))
        if len(shares) == 1:
            X, job = job.with_rows_on_device(self.X)
            return replace(self, X=X), job

        def upload(job: Job, share: slice) -> tuple[Any, Job]:
            X = part_of(self.X, share)
            is_there = isinstance(X, job.engine.xp.ndarray)
            return job.with_rows_on_device(job.engine.algebra.here(X) if is_there else X)

        found = run_parallel(job, shares, upload)
        reserved = max(left.reserved for _, left in found)
        parts = {share.start: X for share, (X, _) in zip(shares, found, strict=True)}
        if any(isinstance(part, Source) for part in parts.values()):
            return self, replace(job, reserved=reserved)
        sharded = Sharded(self.X, parts, job.engine.algebra)
        return replace(self, X=sharded), replace(job, reserved=reserved)


# A number for each row that depends on what is in it, and on nothing else.

# Numbers that are hashed at a time, few enough for a cache.
_AT_A_TIME = 2**16


def row_hashes(X):
    """Return hashes (n_rows,), uint64: equal for equal rows, dense or sparse, of whatever dtype.

    The numbers of a row are rounded to float32, and their bits multiplied with a random odd
    number for each feature and added up, modulo 2^64 (multilinear hashing: Carter & Wegman 1979).
    """
    factors = _factors(X.shape[1])
    if isinstance(X, SparseRows):
        sums = X.summed(lambda values, columns: _bits(values) * factors[columns])
    else:
        step = max(1, _AT_A_TIME // max(1, X.shape[1]))
        tiles = [X[i : i + step] for i in range(0, len(X), step)]
        sums = np.concatenate([_bits(tile) @ factors for tile in tiles])
    return _mixed(sums)


def exact_hashes(X, algebra=HOST):
    """Hashes of rows of which no number is rounded, an array of the host.

    `algebra` is that of the rows.

    As `row_hashes` in all else. Of a million different rows of small whole numbers, two have the
    same hash once in thousands of times; of others, once in millions.
    """
    factors = _factors(X.shape[1])
    if isinstance(X, SparseRows):
        return _mixed(X.summed(lambda values, columns: bits_of(values) * factors[columns]))
    return _mixed(algebra.sum_bits(X, factors))


def _bits(values):
    """The bits of numbers in float32; 0 for 0, and for -0."""
    with np.errstate(over="ignore"):
        return (
            (np.asarray(values).astype(np.float32) + np.float32(0))
            .view(np.uint32)
            .astype(np.uint64)
        )


@lru_cache(8)
def _factors(n):
    """Odd numbers that are the same everywhere, and the first ones for whatever n."""
    return np.frombuffer(np.random.RandomState(0).bytes(8 * n), "<u8").astype(
        np.uint64
    ) | np.uint64(1)


def _mixed(sums):
    """The upper bits depend on all others."""
    sums = (sums ^ (sums >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return sums ^ (sums >> np.uint64(29))
