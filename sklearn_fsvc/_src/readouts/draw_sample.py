"""Drawing of a `RowSample` from the rows of a fit.

There are three kinds:

- `sample_unique` merges equal rows, so that repeating a row is the same as doubling its weight.
- `sample_by_hash` keeps equal rows apart. Each is left out alone: in data with duplicates, new rows
  repeat old ones as often.
- `sample_at_random` does so, too, and depends on the order of the rows instead of their hashes.

Fits keep equal rows apart; `partial_fit`, which may have to forget some, merges them.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.map_reduce import MapReduce, map_reduce
from ..data.rows import take_unsorted_rows
from ..data.samples import Samples, draw_ascending, exact_hashes, mix_bits
from ..data.sources import SparseSource, is_in_memory
from .row_sample import (
    HOST_BLOCK,
    ROWS,
    RowSample,
    SampledRows,
    compute_keys,
    sample_blocks,
    sample_capacity,
)

# Factor by which a sample may have more rows if weights are very unequal.
_MAX_GROWTH = 8
# Samples of a fit up to which equal ones are found. Of more, hardly any is a centre, and sorting
# their hashes on the host would delay a fit on a GPU.
_MAX_COMPARED = 2**17
# Elements that are hashed at a time on a device.
_DEVICE_BLOCK = 2**26
# Bytes of an element while it is hashed: several copies of 64 bits.
_HASHING_BYTES = 64


def sample_unique(
    job: Job, samples: Samples, rows: npt.NDArray | None = None, n_rows: int | None = None
) -> RowSample:
    """Return the `RowSample` of a job's rows, or of a subset, in one pass; no layer is evaluated.

    It has `n_rows` distinct rows, `ROWS` by default; more if weights are unequal.
    """
    weight = samples.weight_of(slice(None) if rows is None else rows)
    capacity = _capacity(job, samples, weight, n_rows or ROWS)
    return map_reduce(job, samples, UniqueSamplePass(capacity), rows)


def sample_by_hash(
    job: Job,
    samples: Samples,
    n_rows: int,
    rows: npt.NDArray | None = None,
    is_exact: bool = False,
) -> RowSample:
    """Return a `RowSample` of a job's rows, or of a subset, in which equal rows are kept apart.

    It has `n_rows` rows; unless that `is_exact`, fewer if they do not fit into memory and more if
    weights are unequal. Without equal rows it is that of `sample_unique`.
    """
    rows = np.arange(len(samples)) if rows is None else rows
    weight = samples.weight_of(rows)
    rows = rows if weight is None else rows[weight > 0]
    hashes = map_reduce(job, samples, _HashPass())[rows]
    # The hash of each further copy of a row is another one.
    copy, is_repeated = _copies(hashes)
    hashes = np.where(copy > 0, mix_bits(hashes + copy), hashes)
    capacity = n_rows if is_exact else _capacity(job, samples, weight, n_rows)
    kept = np.argsort(hashes, kind="stable")[:capacity]
    sample = _load_rows(job, samples, capacity, rows[kept], hashes[kept])
    return replace(sample, is_repeated=is_repeated[kept])


def sample_unmerged(
    job: Job, samples: Samples, n_rows: int, rows: npt.NDArray | None = None, is_exact: bool = False
) -> RowSample:
    """Return a `RowSample` in one pass, or if there are equal rows, one that keeps these apart.

    See `sample_by_hash`; of very many rows `sample_at_random`.
    """
    if is_exact:
        sample = map_reduce(job, samples, UniqueSamplePass(n_rows), rows)
    else:
        sample = sample_unique(job, samples, rows, n_rows)
    if not sample.has_copies:
        return sample
    if len(samples if rows is None else rows) > _MAX_COMPARED:
        return sample_at_random(job, samples, n_rows, rows)
    return sample_by_hash(job, samples, n_rows, rows, is_exact)


def sample_at_random(
    job: Job, samples: Samples, n_rows: int, rows: npt.NDArray | None = None
) -> RowSample:
    """Return a `RowSample` of random row numbers: nothing is hashed, and no other row is read.

    It has `n_rows` rows, of a subset if `rows` are given; more if weights are unequal.
    """
    capacity = _capacity(job, samples, samples.weight, n_rows)
    rows = random_indices(samples, capacity, rows)
    return _load_rows(job, samples, capacity, rows, np.arange(len(rows), dtype=np.uint64))


def mark_repeated_rows(
    job: Job, samples: Samples, rows: npt.NDArray[np.intp] | None
) -> npt.NDArray[np.intp] | None:
    """Return row numbers, with -1 for rows that others equal.

    Very many are not compared; nor are those of a file, which would be read once more.
    """
    if rows is None or len(samples) > _MAX_COMPARED or not is_in_memory(samples.X):
        return rows
    _, is_repeated = _copies(map_reduce(job, samples, _HashPass()))
    return np.where(is_repeated[rows], -1, rows)


def find_sampled_rows(
    job: Job, samples: Samples, sample: RowSample
) -> tuple[npt.NDArray, npt.NDArray]:
    """Return the row numbers of all copies of rows of a sample, and the index there of each."""
    if sample.numbers is not None:
        return sample.numbers, np.arange(sample.n_rows)
    rows, positions = [], []
    for part, block in sample_blocks(samples, block_size=_block_size(job, samples)):
        hashes = exact_hashes(block.X, job.algebra_of(block.X))
        matched, at = sample.match(hashes)
        rows.append(part.start + matched)
        positions.append(at)
    return np.concatenate(rows), np.concatenate(positions)


def random_indices(
    samples: Samples, n_rows: int, rows: npt.NDArray | None = None
) -> npt.NDArray[np.intp]:
    """Return the row numbers of random samples of positive weight, ascending."""
    weighted = samples.rows_with_weight
    return draw_ascending(weighted if rows is None else np.intersect1d(weighted, rows), n_rows)


@dataclass(frozen=True, eq=False)
class UniqueSamplePass(MapReduce):
    """The pass over the rows of `sample_unique`."""

    capacity: int

    def __call__(self, job, samples, rows=None):
        blocks = sample_blocks(samples, rows, _block_size(job, samples))
        return RowSample(self.capacity).combine(blocks, job=job)

    @staticmethod
    def add(first, second):
        return first.merge(second)


@dataclass(frozen=True, eq=False)
class _HashPass(MapReduce):
    """`exact_hashes` of all rows, block by block."""

    def __call__(self, job, samples, rows=None):
        blocks = sample_blocks(samples, rows, _block_size(job, samples))
        return np.concatenate(
            [exact_hashes(block.X, job.algebra_of(block.X)) for _, block in blocks]
        )

    @staticmethod
    def add(first, second):
        return np.concatenate([first, second])


def _block_size(job, samples):
    """Return how many elements are hashed at a time, on the device that holds them."""
    is_on_device = job.algebra_of(samples.X).xp is not np
    block_size = _DEVICE_BLOCK if is_on_device else HOST_BLOCK
    return min(block_size, job.memory_limit // _HASHING_BYTES)


def _copies(hashes):
    """Return how many earlier rows each one equals, and whether it equals any, given hashes."""
    order = np.argsort(hashes, kind="stable")
    _, first, counts = np.unique(hashes[order], return_index=True, return_counts=True)
    copy, is_repeated = np.empty(len(hashes), np.uint64), np.empty(len(hashes), bool)
    copy[order] = np.arange(len(hashes)) - np.repeat(first, counts)
    is_repeated[order] = np.repeat(counts > 1, counts)
    return copy, is_repeated


def _load_rows(job, samples, capacity, numbers, hashes):
    """Return the `RowSample` of row numbers, given a distinct hash for each."""
    X = samples.X
    if isinstance(X, SparseSource):
        X = X.part(numbers)
    else:
        X = np.array(job.engine.to_host(take_unsorted_rows(X, numbers)))
    weight = samples.weight_or_ones(numbers).astype(np.float64)
    sums = samples.targets.matrix(numbers) * weight[:, None]
    of_rows = SampledRows(X, hashes, compute_keys(hashes), weight, sums)
    return RowSample(capacity, of_rows, numbers=numbers)


def _capacity(job, samples, weight, n_rows):
    """Return the capacity of a sample of `n_rows` rows, given the weights of those to sample.

    If weights are unequal, the rows of large weight are few, so that more are sampled: times the
    design effect of L. Kish 1965, "Survey sampling".
    """
    size = float(n_rows)
    if weight is not None:
        weight = weight[weight > 0]
        size *= min(_MAX_GROWTH, float((weight**2).mean() / weight.mean() ** 2))
    return sample_capacity(job.memory_limit, samples.X.shape[1], size)
