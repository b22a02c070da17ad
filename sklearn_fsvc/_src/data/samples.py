"""Samples with their targets and weights, and hashes of their feature values."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.random import sample_without_replacement

from ..engines.algebra import HOST, float_bits
from .job import Job
from .map_reduce import run_parallel
from .rows import ShardedRows, slice_rows, split_into_shares, take_rows
from .sources import Source, SparseSource, select_rows
from .validation import to_host

# Mean of integer weights up to which they may be numbers of copies.
MAX_COPIES = 64


@dataclass(frozen=True, eq=False)
class Samples:
    """Validated samples, with their targets and weights."""

    # (n_samples, n_features): an array of the host or of an engine's namespace, a `Source`, or
    # `ShardedRows` rows.
    X: Any
    # The values that a readout is fitted to, or None: ``targets.n_outputs``;
    # ``targets.matrix(rows, xp)``, a float64 array of `xp` of shape (rows, n_outputs);
    # ``targets.is_binary``, whether it holds only 0 and 1; ``targets.taken(rows)``, a subset;
    # ``targets.joined(other)``, with the targets of other samples after these; and for hidden
    # layers that depend on classes ``targets.class_codes``, (n_samples,) or None.
    targets: Any = None
    # (n_samples,), on the host. A sample of weight 0 is ignored.
    weight: npt.NDArray[Any] | None = None
    # Row numbers in the order of presentation, if it differs from that of X.
    order: npt.NDArray[np.intp] | None = None
    # (n_samples,), int, on the host, or None: samples of one group are held out together.
    groups: npt.NDArray[np.intp] | None = None
    # Samples that were given to validate choices, in place of some that are held out.
    validation: "Samples | None" = None
    # (n_samples,), int, on the host, or None: the unit that is centred at each sample, -1 for none.
    unit_at_sample: npt.NDArray[np.intp] | None = None
    # (n_samples,), int, on the host: their row numbers in the X of `fit`, if copies were merged.
    rows: npt.NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def rows_with_weight(self) -> npt.NDArray[np.intp]:
        """Return the row numbers of the samples with a positive weight."""
        return np.arange(len(self)) if self.weight is None else np.flatnonzero(self.weight)

    @property
    def may_leave_one_out(self) -> bool:
        """Return whether leaving out single samples validates: no groups or other samples do."""
        return self.groups is None and self.validation is None

    @property
    def target_bytes(self) -> int:
        """Return the bytes of numeric targets; those of classes are negligible."""
        return getattr(self.targets, "n_bytes", 0)

    def weight_of(self, rows: Any) -> npt.NDArray[Any] | None:
        """Return the weights of some samples, or None."""
        return None if self.weight is None else self.weight[rows]

    def weight_or_ones(self, rows: npt.NDArray[np.intp] | None = None) -> npt.NDArray[Any]:
        """Return the weights of all samples, or of some row numbers; 1 each without weights."""
        if self.weight is None:
            return np.ones(len(self if rows is None else rows))
        return self.weight if rows is None else self.weight[rows]

    @property
    def total_weight(self) -> float:
        """Return the sum of the weights; without weights, the number of samples."""
        return len(self) if self.weight is None else float(self.weight.sum())

    def without_zero_weights(self) -> "Samples":
        """Return the samples with a positive weight; rows of a source are not read."""
        rows = self.rows_with_weight
        return self if len(rows) == len(self) else self.with_rows(select_rows(self.X, rows), rows)

    def groups_of(self, rows: Any) -> npt.NDArray[np.intp] | None:
        """Return the groups of some samples, or None."""
        return None if self.groups is None else self.groups[rows]

    def with_unit_weights(self) -> tuple[Self, float]:
        """Return the samples with weights of mean 1, without those of 0.

        Also their mean, by which they were divided. The penalties and bounds of searches are in
        units of that number. Small integers stay: they may be numbers of copies, to which samples
        of a weight are equivalent.
        """
        validation, scale = self.validation, 1.0
        if validation is not None:
            validation, _ = validation.with_unit_weights()
        weight = self.weight
        if weight is not None:
            scale = weight_unit(
                float(weight.sum() / np.count_nonzero(weight)), has_fractions(weight)
            )
            weight = weight if scale == 1 else weight / scale
        return replace(self, weight=weight, validation=validation), scale

    def in_order(self, order: npt.NDArray[np.intp]) -> Self:
        """Return the samples with an order of presentation."""
        return replace(self, order=order)

    def taken(self, rows: Any, dtype: Any = None) -> "Samples":
        """Return a subset of the samples, with X copied, in the dtype of X or another one."""
        return self.with_rows(take_rows(self.X, rows, dtype), rows)

    def with_rows(self, X: Any, rows: Any) -> "Samples":
        """Return the subset `rows` of the samples, whose features are X."""
        targets = self.targets and self.targets.taken(rows)
        unit_at_sample = None if self.unit_at_sample is None else self.unit_at_sample[rows]
        weight, groups = self.weight_of(rows), self.groups_of(rows)
        return Samples(X, targets, weight, groups=groups, unit_at_sample=unit_at_sample)

    def with_centers(self, rows: npt.NDArray[np.intp] | None) -> Self:
        """Return the samples with `unit_at_sample`, given the row numbers of all centres.

        None if the centres are not samples; -1 for units at no sample of their own.
        """
        if rows is None:
            return self
        unit_at_sample, units = np.full(len(self), -1), np.flatnonzero(rows >= 0)
        unit_at_sample[rows[units]] = units
        return replace(self, unit_at_sample=unit_at_sample)

    def joined(self, other: "Samples") -> "Samples":
        """Return these samples and others after them, with X on the host."""
        X = np.concatenate([to_host(self.X), to_host(other.X)])
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = np.concatenate([self.weight_or_ones(), other.weight_or_ones()])
        return Samples(X, self.targets.joined(other.targets), weight)

    def share(self, share: slice) -> "Samples":
        """Return a slice of the samples, without a copy."""
        return self.with_rows(slice_rows(self.X, share), share)

    def on_device(self, job: Job) -> tuple[Self, Job]:
        """Return the samples with X on the device, and the remaining job.

        See `Job.upload`. With several devices X is `ShardedRows`, one share on each.
        """
        shares = split_into_shares(job.engine.device_group, len(self))
        if len(shares) == 1:
            X, job = job.upload(self.X)
            return replace(self, X=X), job

        def upload(job: Job, share: slice) -> tuple[Any, Job]:
            X = slice_rows(self.X, share)
            is_on_device = isinstance(X, job.engine.xp.ndarray)
            return job.upload(job.engine.algebra.to_device(X) if is_on_device else X)

        uploaded = run_parallel(job, shares, upload)
        reserved = max(remaining.reserved for _, remaining in uploaded)
        parts = {share.start: X for share, (X, _) in zip(shares, uploaded, strict=True)}
        if any(isinstance(part, Source) for part in parts.values()):
            return self, replace(job, reserved=reserved)
        sharded = ShardedRows(self.X, parts, job.engine.algebra)
        return replace(self, X=sharded), replace(job, reserved=reserved)


def has_fractions(weight: npt.NDArray | None) -> bool:
    """Return whether some of the weights are not integers."""
    return weight is not None and bool((weight % 1).any())


def weight_unit(mean: float, has_fractions: bool) -> float:
    """Return the unit of weights of a mean: 1 if they may be numbers of copies, else the mean."""
    return mean if has_fractions or mean > MAX_COPIES else 1.0


# Rows of which all are permuted to draw some of them.
_MAX_PERMUTED = 2**17


def draw_without_replacement(rows: npt.NDArray, n: int, random: Any) -> npt.NDArray:
    """Return `n` of the rows, drawn without replacement, in random order; all of fewer rows.

    Parameters
    ----------
    rows : ndarray of int of shape (n_rows,)
    n : int
    random : numpy.random.Generator or numpy.random.RandomState
    """
    if len(rows) <= _MAX_PERMUTED or n > len(rows) // 10:
        return random.permutation(rows)[:n]
    # In time for `n` rows. It needs a RandomState.
    is_legacy = isinstance(random, np.random.RandomState)
    legacy = random if is_legacy else np.random.RandomState(random.integers(2**31))
    return rows[sample_without_replacement(len(rows), n, random_state=legacy)]


def draw_ascending(
    rows: npt.NDArray, n: int, random: np.random.Generator | None = None
) -> npt.NDArray:
    """Return `n` of the rows, drawn without replacement, in ascending order; all of fewer rows.

    `rows` ascend. Without a generator, the rows that are drawn are the same in each call.
    """
    if len(rows) <= n:
        return rows
    random = random or np.random.default_rng(0)
    return np.sort(random.choice(rows, n, replace=False))


# Hashes of samples: multilinear hashing (Carter & Wegman 1979). The bits of each feature are
# multiplied by a random odd number, and the products are summed modulo 2^64. They depend on the
# values only: equal samples are found, and subsamples are drawn, alike on every device and in
# every order of the samples.

# Values that are hashed at a time, so that the products stay in the cache.
_HASHED_VALUES = 2**16


def row_hashes(X: Any) -> npt.NDArray[np.uint64]:
    """Return hashes (n_samples,) of samples rounded to float32.

    Equal samples have equal hashes, whether dense or sparse and in any dtype.
    """
    factors = _odd_factors(X.shape[1])
    if isinstance(X, SparseSource):
        sums = X.summed(lambda values, columns: _float32_bits(values) * factors[columns])
    else:
        step = max(1, _HASHED_VALUES // max(1, X.shape[1]))
        tiles = [X[i : i + step] for i in range(0, len(X), step)]
        sums = np.concatenate([_float32_bits(tile) @ factors for tile in tiles])
    return mix_bits(sums)


def exact_hashes(X: Any, algebra: Any = HOST) -> npt.NDArray[np.uint64]:
    """Return hashes (n_samples,) of samples without rounding, an array of the host.

    `algebra` is that of the array X. Of a million distinct samples of small integers, the
    probability of a collision is below one in a thousand; of others, below one in a million.
    """
    factors = _odd_factors(X.shape[1])
    if isinstance(X, SparseSource):
        return mix_bits(X.summed(lambda values, columns: float_bits(values) * factors[columns]))
    return mix_bits(algebra.hash_rows(X, factors))


def _float32_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return the bits of the values in float32; -0 has those of 0, since + 0 makes it 0."""
    with np.errstate(over="ignore"):
        values = np.asarray(values).astype(np.float32) + np.float32(0)
    return values.view(np.uint32).astype(np.uint64)


@lru_cache(8)
def _odd_factors(n: int) -> npt.NDArray[np.uint64]:
    """Return n odd numbers, the same on every machine; the first ones do not depend on n."""
    words = np.frombuffer(np.random.RandomState(0).bytes(8 * n), "<u8")
    return words.astype(np.uint64) | np.uint64(1)


def mix_bits(sums: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the sums with all bits mixed: the low bits of a product depend on low bits only."""
    sums = (sums ^ (sums >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return sums ^ (sums >> np.uint64(29))
