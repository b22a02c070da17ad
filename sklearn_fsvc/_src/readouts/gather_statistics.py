"""Gathering the statistics of ridge readouts while samples stream through layers."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.map_reduce import MapReduce, map_reduce
from ..data.rows import ShardedRows
from ..data.streaming import Consumer, raise_overflow, stream, stream_layers
from ..data.validation import NaNOutputError, check_no_nan
from ..engines.algebra import HOST
from .moments import SHIFT_ROWS
from .packed_symmetric import PackedSymmetric
from .statistics import RidgeStatistics

# Elements of a tile, so that offsets in it fit in 32 bits.
_MAX_TILE_ELEMENTS = 2**31 - 1
# Products take extra memory to be faster if there is this many times what they need.
_FAST_MEMORY_FACTOR = 8
# Statistics above this fraction of the memory of one device are distributed to its group.
MAX_PART_OF_DEVICE = 0.8


def gather(
    job: Job,
    layers: list,
    samples: Any,
    rows: npt.NDArray | None = None,
    dtype: npt.DTypeLike | None = None,
) -> list[RidgeStatistics]:
    """Return the statistics of each of `layers` over the samples, in one pass.

    Parameters
    ----------
    layers : list
        As for `stream_layers`.
    samples : Samples
        With targets.
    rows : ndarray of int, optional
        Row numbers; all by default.
    dtype : dtype, optional
        In which H is multiplied with itself; the fastest on the engine by default.
    """
    n_bytes = len(layers) * RidgeStatistics.nbytes(layers[0].n_units)
    group = job.engine.device_group
    if group is not None and len(layers) == 1 and n_bytes > MAX_PART_OF_DEVICE * job.memory_limit:
        return [gather_sharded(job, layers[0], samples, rows, dtype)]
    results = map_reduce(job, samples, Gather(layers, dtype), rows)
    algebra = job.engine.algebra
    results = [s if s.algebra is algebra else s.on(algebra) for s in results]
    for statistics in results:
        statistics.workspace_bytes = job.memory_limit - n_bytes
    return results


def gather_with_fallback(job: Job, layer: Any, samples: Any) -> RidgeStatistics:
    """`gather` for a layer; if its equations are ill-conditioned, they are summed in float64."""
    (statistics,) = gather(job, [layer], samples)
    statistics.float64_fallback = partial(gather, job, [layer], samples, dtype=float)
    return statistics


def gather_coarse(
    job: Job, layers: list, samples: Any, rows: npt.NDArray | None = None
) -> list[RidgeStatistics]:
    """`gather` for comparisons: float64 activations are multiplied in float32, in half the time.

    Comparisons evaluate no penalty as small as the rounding error, whatever the dtype of H.
    """
    is_wide = layers[0].hidden_dtype == np.float64
    return gather(job, layers, samples, rows, np.float32 if is_wide else None)


def gather_sharded(
    job: Job, layer: Any, samples: Any, rows: npt.NDArray | None, dtype: npt.DTypeLike | None
) -> RidgeStatistics:
    """Return statistics whose panels are distributed to the devices of a group.

    Each device evaluates the layer on all rows and computes its own panels, so that nothing is
    communicated.
    """
    if isinstance(samples.X, ShardedRows):
        samples = replace(samples, X=samples.X.whole)
    group, is_on_device = job.engine.device_group, isinstance(samples.X, job.engine.xp.ndarray)
    n, m = len(group.members), layer.n_units
    shift = None if layer.quantizer else _shift(job, layer, samples, rows)

    def work(engine, number, stop):
        here = replace(samples, X=engine.algebra.to_device(samples.X)) if is_on_device else samples
        gather_panels = Gather([layer], dtype, shift, (number, n))
        return gather_panels(replace(job, engine=engine, stop=stop), here, rows)[0]

    results = group.map(work, list(range(n)))
    statistics = results[0]
    blocks = [results[i % n].gram.blocks[i] for i in range(len(statistics.gram.blocks))]
    statistics.gram = PackedSymmetric(m, job.engine.algebra, blocks, group)
    statistics.workspace_bytes = job.memory_limit - PackedSymmetric.nbytes(m, n)
    return statistics


def _shift(job, layer, samples, rows):
    """Return the mean of H over the first rows."""
    rows, means = np.arange(len(samples)) if rows is None else rows, []
    mean = Consumer(lambda part, H: means.append(H.mean(axis=0)), tile_rows=SHIFT_ROWS)
    stream(job, layer, samples.X, mean, rows[:SHIFT_ROWS])
    return means[0]


@dataclass(frozen=True)
class Gather(MapReduce):
    """The pass over the rows of `gather`."""

    layers: list
    dtype: npt.DTypeLike | None = None  # as of `gather`
    shift: Any = None  # as of `Moments.zeros`
    # (k, n): only the panels k, k + n, k + 2n, ... of the Gram matrix are computed.
    panels: tuple[int, int] = (0, 1)

    def __call__(self, job, samples, rows=None):
        results: list[RidgeStatistics] = []
        algebra = job.engine.algebra
        dtype = np.dtype(self.dtype or job.engine.statistics_dtype(self.layers[0]))
        strip, allow_workspace, fixed_bytes = self._plan(job, dtype)

        def add(i, part, H):
            # Allocate at the first tile, whose memory is reserved by then.
            if i == len(results):
                results.append(self._zeros(samples, algebra, dtype, strip, allow_workspace))
            part = part if rows is None else rows[part]
            Y = samples.targets.matrix(part, algebra.xp)
            results[i].update(H, Y, samples.weight_of(part))

        m = self.layers[0].n_units
        consumer = Consumer(
            add,
            fixed_bytes=fixed_bytes,
            row_bytes=40 * samples.targets.n_outputs + self._cast_bytes(samples, dtype),
            # A product reads and writes all of the Gram matrix, so that tiles should have more rows
            # than there are units: four times as many.
            tile_rows=max(1024, min(4 * m, _MAX_TILE_ELEMENTS // m)),
        )
        stream_layers(job, self.layers, samples.X, consumer, rows)
        try:
            for statistics in results:
                check_no_nan(statistics.h, algebra.xp)
        except NaNOutputError:
            raise_overflow(job, self.layers[0], samples.X, rows)
        return results

    def _plan(self, job, dtype):
        """Return columns that are summed at a time, whether to use extra memory, and all bytes."""
        m, algebra = self.layers[0].n_units, job.engine.algebra
        strip = PackedSymmetric.strip_for(m, dtype, job.memory_limit)
        fixed_bytes = len(self.layers) * PackedSymmetric.nbytes(m, self.panels[1])
        fixed_bytes += PackedSymmetric.gram_bytes(m, dtype, strip)
        extra_bytes = PackedSymmetric.workspace_bytes_of(m, dtype, algebra)
        allow_workspace = _FAST_MEMORY_FACTOR * (fixed_bytes + extra_bytes) <= job.memory_limit
        return strip, allow_workspace, fixed_bytes + extra_bytes * allow_workspace

    def _cast_bytes(self, samples, dtype):
        """Return the bytes of a row of H in the dtype of the products, if that is another one."""
        layer = self.layers[0]
        if layer.quantizer:  # 8-bit codes, 16-bit codes, or float64 where sums are not exact
            is_bytes = layer.quantizer.bits == 8 and samples.weight is None
            return (2 if is_bytes else 8) * layer.n_units
        return layer.n_units * dtype.itemsize if dtype != layer.hidden_dtype else 0

    def _zeros(self, samples, algebra, dtype, strip, allow_workspace):
        """Return statistics of no rows, on the device."""
        layer = self.layers[0]
        gram = PackedSymmetric.every_nth(layer.n_units, algebra, *self.panels)
        gram.allow_workspace, gram.strip = allow_workspace, strip
        statistics = RidgeStatistics.zeros(
            layer.n_units,
            samples.targets.n_outputs,
            algebra,
            dtype,
            self.shift,
            gram,
            layer.quantizer,
        )
        statistics.is_binary = samples.targets.is_binary
        # If a dtype is given, products are computed in it.
        statistics.allows_fixed_point = (
            self.dtype is None
            and layer.quantizer is None
            and (layer.hidden_dtype, dtype) == (np.float32, np.float64)
        )
        return statistics

    @staticmethod
    def to_host(results):
        """Return the same statistics in host arrays."""
        return [statistics.on(HOST) for statistics in results]

    @staticmethod
    def add(first, second):
        """Add the second statistics to the first, in place."""
        for statistics, other in zip(first, second, strict=True):
            statistics.absorb(other)
        return first
