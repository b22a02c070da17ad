"""The statistics of ridge readouts, gathered while the rows of layers stream by."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.map_reduce import MapReduce, Sharded, map_reduce
from ..data.streaming import Consumer, row_blocks, stream, stream_all
from ..data.validation import NotNumbers, check_numbers, explain_overflow, largest_of
from ..engines.algebra import HOST
from .moments import ORIGIN_ROWS
from .packed_symmetric import PackedSymmetric
from .statistics import RidgeStatistics

# Elements of a tile, so that offsets in it stay in the range of 32 bits.
_MOST_ELEMENTS = 2**31 - 1
# Sums take memory to be faster where there is so many times what they need.
_PLENTY = 8
# Statistics that take more than this part of the memory of one engine are sharded to its team.
_MOST_OF_ONE = 0.8
# Numbers that are searched at a time for what has overflown.
_LOOKED_AT = 2**20


def gather(job, layers, samples, rows=None, dtype=None) -> list[RidgeStatistics]:
    """The statistics of each of `layers` over the samples, in one pass.

    Parameters
    ----------
    layers : list
        As for `stream_all`.
    samples : Samples
        With targets.
    rows : ndarray of int, optional
        Row numbers; all by default.
    dtype : dtype, optional
        In which H is multiplied with itself; what is fastest on the engine by default.
    """
    n_bytes = len(layers) * RidgeStatistics.nbytes(layers[0].n_units)
    team = job.engine.team
    if team is not None and len(layers) == 1 and n_bytes > _MOST_OF_ONE * job.memory_limit:
        return [gather_sharded(job, layers[0], samples, rows, dtype)]
    found = map_reduce(job, samples, Gather(layers, dtype), rows)
    algebra = job.engine.algebra
    found = [each if each.algebra is algebra else each.on(algebra) for each in found]
    for statistics in found:
        statistics.room = job.memory_limit - n_bytes
    return found


def gather_coarse(job, layers, samples, rows=None):
    """`gather` for what is only compared: H in float64 is multiplied in float32, in half the time.

    No penalty is tried that such rounding would rival, whatever the dtype of H.
    """
    is_wide = layers[0].hidden_dtype == np.float64
    return gather(job, layers, samples, rows, np.float32 if is_wide else None)


def gather_sharded(job, layer, samples, rows, dtype):
    """Statistics that no engine of a team could hold alone: each has some of the panels.

    All evaluate the layer on all rows, and multiply for their own panels. Nothing travels.
    """
    if isinstance(samples.X, Sharded):
        samples = replace(samples, X=samples.X.whole)
    team, is_there = job.engine.team, isinstance(samples.X, job.engine.xp.ndarray)
    n, m = len(team.members), layer.n_units
    origin = None if layer.steps else _origin(job, layer, samples, rows)

    def work(member, number, stop):
        own = replace(samples, X=member.algebra.here(samples.X)) if is_there else samples
        some = Gather([layer], dtype, origin, (number, n))
        return some(replace(job, engine=member, stop=stop), own, rows)[0]

    found = team.each(work, list(range(n)))
    statistics = found[0]
    blocks = [found[i % n].gram.blocks[i] for i in range(len(statistics.gram.blocks))]
    statistics.gram = PackedSymmetric(m, job.engine.algebra, blocks, team)
    statistics.room = job.memory_limit - PackedSymmetric.nbytes(m, n)
    return statistics


def _origin(job, layer, samples, rows):
    """The mean of H over the first rows."""
    rows, means = np.arange(len(samples)) if rows is None else rows, []
    mean = Consumer(lambda part, H: means.append(H.mean(axis=0)), tile_rows=ORIGIN_ROWS)
    stream(job, layer, samples.X, mean, rows[:ORIGIN_ROWS])
    return means[0]


def refuse(job, layer, X, rows):
    """Raise for rows of which some outputs are no numbers, and name the largest number in them."""
    n_rows, step = len(X if rows is None else rows), max(1, _LOOKED_AT // X.shape[1])
    parts = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    largest = (
        largest_of(job.engine.to_host(block), part.start if rows is None else rows[part])
        for part, block in zip(parts, row_blocks(X, rows, parts), strict=True)
    )
    raise ValueError(explain_overflow(layer, *max(largest)))


@dataclass(frozen=True)
class Gather(MapReduce):
    """`gather` as work for `map_reduce`."""

    # As for `gather`.
    layers: list
    dtype: np.dtype | None = None
    origin: Any = None  # as of `Moments`
    # Of the panels, every so many from a number on: (number, how many).
    share: tuple[int, int] = (0, 1)

    def __call__(self, job, samples, rows=None):
        layers, m, n_outputs = self.layers, self.layers[0].n_units, samples.targets.n_outputs
        dtype = np.dtype(self.dtype or job.engine.statistics_dtype(layers[0]))
        algebra, statistics = job.engine.algebra, []
        strip = PackedSymmetric.strip_for(m, dtype, job.memory_limit)
        fixed = len(layers) * PackedSymmetric.nbytes(m, self.share[1]) + PackedSymmetric.gram_bytes(
            m, dtype, strip
        )
        room = PackedSymmetric.room_bytes(m, dtype, algebra)
        has_room = _PLENTY * (fixed + room) <= job.memory_limit

        def add(i, part, H):
            if i == len(statistics):  # not before it is known that there is room
                gram = PackedSymmetric.some(m, algebra, *self.share)
                gram.has_room, gram.strip = has_room, strip
                new = RidgeStatistics(
                    m, n_outputs, algebra, dtype, self.origin, gram, layers[0].steps
                )
                new.are_whole = samples.targets.are_whole
                statistics.append(new)
            part = part if rows is None else rows[part]
            Y = samples.targets.matrix(part, algebra.xp)
            statistics[i].update(H, Y, samples.weight_of(part))

        widened = m * dtype.itemsize if dtype != layers[0].hidden_dtype else 0
        if layers[0].steps:  # in bytes beside H, or in pairs of them; what is not exact in float64
            is_of_bytes = layers[0].steps.bits == 8 and samples.weight is None
            widened = (2 if is_of_bytes else 8) * m
        consumer = Consumer(
            add,
            fixed_bytes=fixed + room * has_room,
            row_bytes=40 * n_outputs + widened,
            # As tall as four times the units: a product adds to all of the statistics, so its
            # rows should outnumber theirs.
            tile_rows=max(1024, min(4 * m, _MOST_ELEMENTS // m)),
        )
        stream_all(job, layers, samples.X, consumer, rows)
        try:
            for each in statistics:
                check_numbers(each.h, algebra.xp)
        except NotNumbers:
            refuse(job, layers[0], samples.X, rows)
        return statistics

    @staticmethod
    def to_host(found):
        """Return the same in arrays of the host."""
        return [statistics.on(HOST) for statistics in found]

    @staticmethod
    def add(some, more):
        """The sums of both, in the place of the first ones."""
        for statistics, others in zip(some, more, strict=True):
            statistics.absorb(others)
        return some
