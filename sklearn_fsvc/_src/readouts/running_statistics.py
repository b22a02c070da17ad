"""Statistics of samples that are added and removed, and a buffer of samples to be added.

A product of a few rows of H with themselves reads and writes all of H'H. So samples are buffered
until there are enough for an efficient product.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from ..data.samples import Samples, weight_unit
from ..data.sources import joined
from .cross_validation import CVStatistics, count_parts
from .moments import CANCELLATION_ERROR
from .row_sample import RowSample
from .statistics import RidgeStatistics

# ``evaluate(samples, n_parts)`` returns the `CVStatistics` of samples on the host, with `n_parts`
# held-out parts.
Evaluate = Callable[[Samples, int], CVStatistics]


class InvalidRemoval(ValueError):
    """Raised if a removal would leave statistics that no samples have.

    `output` is the index of an output whose sum of squares would be negative, or None.
    """

    def __init__(self, message: str, output: int | None = None):
        super().__init__(message)
        self.output = output


@dataclass(frozen=True, eq=False)
class _Values:
    """Targets as an array (n_rows, n_outputs) in float64, with the interface of `OneHotTargets`."""

    values: npt.NDArray
    is_binary = False

    @property
    def n_outputs(self):
        return self.values.shape[1]

    def taken(self, rows):
        return _Values(self.values[rows])

    def matrix(self, rows=slice(None), xp=np):
        return xp.asarray(self.values[rows])


@dataclass(frozen=True, eq=False)
class BufferedSamples:
    """Samples that have not been added to the statistics."""

    samples: Samples  # on the host
    # (n_rows,): value of `RunningStatistics.log_decay` as each row arrived; None for 0.
    row_log_decay: npt.NDArray | None = None

    @property
    def dtype_key(self) -> tuple[type, np.dtype]:
        """Type and dtype of X: rows with the same key can be concatenated."""
        return type(self.samples.X), self.samples.X.dtype

    def copied(self) -> "BufferedSamples":
        """Return the same rows in new arrays."""
        samples = self.samples
        weight = None if samples.weight is None else samples.weight.copy()
        values = _Values(samples.targets.matrix())
        return BufferedSamples(Samples(samples.X.copy(), values, weight), self.row_log_decay)

    def log_weights(self, log_decay: float) -> npt.NDArray:
        """Return the logarithm of the decay of each row, given the decay of the statistics now."""
        arrived = np.zeros(len(self.samples)) if self.row_log_decay is None else self.row_log_decay
        return log_decay - arrived

    @staticmethod
    def concatenate(parts: "list[BufferedSamples]") -> "BufferedSamples":
        """Return the rows of all parts, which have one `dtype_key`."""
        if len(parts) == 1:
            return parts[0]
        samples, weight, decay = [part.samples for part in parts], None, None
        if any(s.weight is not None for s in samples):
            weight = np.concatenate([s.weight_or_ones() for s in samples])
        if any(part.row_log_decay is not None for part in parts):
            decay = np.concatenate([-part.log_weights(0.0) for part in parts])
        targets = np.concatenate([s.targets.matrix() for s in samples])
        X = joined([s.X for s in samples])
        return BufferedSamples(Samples(X, _Values(targets), weight), decay)


@dataclass(frozen=True)
class WeightCounts:
    """Counts of the weights of samples, as they were given: without decay."""

    n: int = 0
    total: float = 0.0
    n_fractions: int = 0  # weights that are not integers
    largest: float = 0.0  # not reduced when samples are removed

    @classmethod
    def of(cls, samples: Samples) -> "WeightCounts":
        """Return the counts of samples, all of positive weight."""
        weight, n = samples.weight, len(samples)
        if weight is None:
            return cls(n, float(n), 0, 1.0)
        n_fractions = int(np.count_nonzero(weight % 1))
        return cls(n, float(weight.sum()), n_fractions, float(weight.max(initial=0)))

    def __add__(self, other: "WeightCounts") -> "WeightCounts":
        return WeightCounts(
            self.n + other.n, self.total + other.total, self.n_fractions + other.n_fractions,
            max(self.largest, other.largest),
        )  # fmt: skip

    def __sub__(self, other: "WeightCounts") -> "WeightCounts":
        n, n_fractions = self.n - other.n, self.n_fractions - other.n_fractions
        if n <= 0:  # parts of their weights were removed: the samples remain
            n, n_fractions = self.n, max(self.n_fractions, other.n_fractions)
        return WeightCounts(n, self.total - other.total, n_fractions, self.largest)

    @property
    def mean(self) -> float:
        """The mean weight, or 1 without samples."""
        # Models that were saved without counts may have removed all weights that are counted.
        if self.total <= 0:
            return 1.0
        # Samples of which a part of the weight was removed are not counted, but are in the total.
        return min(self.total / self.n, self.largest)

    @property
    def unit(self) -> float:
        """The number that `Samples.with_unit_weights` would divide the weights by."""
        # Negative after parts of integer weights were removed, which leaves fractions.
        return weight_unit(self.mean, self.n_fractions != 0)


@dataclass(frozen=True, eq=False)
class RunningStatistics:
    """Statistics of the samples that were added and not removed. Immutable.

    With a forgetting factor below 1, weights decay exponentially with each sample that is added
    (recursive least squares). Decay is lazy: logarithms of decay factors are compared, and the
    statistics are only scaled before they change.
    """

    # Capacity of the buffer.
    max_rows: int
    max_bytes: int
    total: RidgeStatistics | None = None  # on the host; None if there are no samples
    buffered: tuple[BufferedSamples, ...] = ()
    n_rows: int = 0  # in the buffer
    n_bytes: int = 0
    # Sum of the logarithms of all forgetting factors, now and as `total` was last scaled.
    log_decay: float = 0.0
    total_log_decay: float = 0.0
    n_parts: int = 0  # parts of the samples that are held out; 0 if the penalty is given
    validation: tuple = ()  # as of `CVStatistics`
    sample: RowSample | None = None  # of the rows that are not buffered, if one is needed
    # Samples that were added and removed, whatever their weight.
    n_added: int = 0
    n_removed: int = 0
    weights: WeightCounts = WeightCounts()  # of the samples that are present

    @property
    def is_empty(self) -> bool:
        return self.total is None and not self.buffered

    @property
    def sums(self) -> CVStatistics | None:
        """`CVStatistics` of the samples that are not buffered; None if there are none."""
        return None if self.total is None else CVStatistics(self.total, self.validation)

    @property
    def emptied(self) -> "RunningStatistics":
        """Statistics without samples, and with the same settings."""
        sample = self.sample and RowSample(self.sample.capacity)
        return RunningStatistics(self.max_rows, self.max_bytes, n_parts=self.n_parts, sample=sample)

    def update(self, samples: Samples, factor: float, evaluate: Evaluate) -> "RunningStatistics":
        """Return the statistics with more samples of the host, copied to the buffer or evaluated.

        The weight of each sample is multiplied by `factor` with every later sample.
        """
        row_log_decay = decay_rows(self.log_decay, factor, len(samples))
        log_decay = self.log_decay if row_log_decay is None else float(row_log_decay[-1])
        rows = BufferedSamples(samples, row_log_decay)
        n_bytes = samples.X.nbytes + 8 * len(samples) * (samples.targets.n_outputs + 2)
        result = self._count_samples(samples)
        if self._is_full(len(samples), n_bytes):  # large batches gain nothing from the buffer
            return replace(result.flush(evaluate), log_decay=log_decay)._evaluate(rows, evaluate)
        n_rows, n_bytes = self.n_rows + len(samples), self.n_bytes + n_bytes
        result = replace(
            result, n_rows=n_rows, n_bytes=n_bytes, log_decay=log_decay,
            buffered=(*self.buffered, rows.copied()),
        )  # fmt: skip
        return result.flush(evaluate) if self._is_full(n_rows, n_bytes) else result

    def update_buffered(
        self, parts: Iterable[BufferedSamples], log_decay: float, evaluate: Evaluate
    ) -> "RunningStatistics":
        """Return the statistics with samples that were buffered elsewhere, all of them evaluated.

        `log_decay` is the value of this attribute that the decay of these samples refers to.
        """
        result = replace(self.flush(evaluate), log_decay=log_decay)
        for rows in parts:
            result = result._count_samples(rows.samples)._evaluate(rows, evaluate)
        return result

    def _count_samples(self, samples):
        """Return the statistics with more samples counted."""
        return self._count(len(samples), WeightCounts.of(samples))

    def _count(self, n_added, weights):
        """Return the statistics with more samples counted; many samples need fewer parts."""
        weights = self.weights + weights
        parts = min(self.n_parts, count_parts(0, weights.n))
        return replace(
            self, n_added=self.n_added + n_added, weights=weights,
            n_parts=parts, validation=self.validation[:parts],
        )  # fmt: skip

    def _is_full(self, n_rows, n_bytes):
        return n_rows >= self.max_rows or n_bytes >= self.max_bytes

    def flush(self, evaluate: Evaluate) -> "RunningStatistics":
        """Return the statistics with an empty buffer."""
        result = replace(self, buffered=(), n_rows=0, n_bytes=0)
        for _, rows in groupby(self.buffered, lambda rows: rows.dtype_key):
            result = result._evaluate(BufferedSamples.concatenate(list(rows)), evaluate)
        return result

    def _evaluate(self, rows, evaluate):
        """Return the statistics with the rows added, without buffering them."""
        samples = rows.samples
        # Samples of a merged model may have decayed, although those of this one have not.
        is_decayed = self.log_decay < 0 or rows.row_log_decay is not None
        log_weights = rows.log_weights(self.log_decay) if is_decayed else None
        result = self._decayed()
        sample = result.sample and result.sample.update(samples, log_weights)
        if log_weights is not None:
            factors = np.exp(log_weights)
            weight = factors if samples.weight is None else factors * samples.weight
            samples = replace(samples, weight=weight)
        return result._add(evaluate(samples, self.n_parts), sample)

    def _add(self, sums, sample):
        return self._with(sums if self.total is None else self.sums + sums, sample)

    def _with(self, sums, sample):
        validation = sums.validation[: self.n_parts]
        return replace(self, total=sums.total, validation=validation, sample=sample)

    def _decayed(self):
        """Return the statistics with the decay applied to the sums and to the sample."""
        log_factor, result = self.log_decay - self.total_log_decay, self
        if log_factor and self.total is not None:
            sums = CVStatistics(self.total, self.validation).scaled(np.exp(log_factor))
            result = self._with(sums, self.sample and self.sample.decayed(log_factor))
        return replace(result, total_log_decay=self.log_decay)

    def remove(self, samples: Samples, evaluate: Evaluate) -> "RunningStatistics":
        """Return the statistics without samples; InvalidRemoval if these were never added."""
        before = replace(self.flush(evaluate), n_removed=self.n_removed + len(samples))._decayed()
        sums, removed = before.sums, evaluate(samples, self.n_parts)
        if sums is None:
            raise InvalidRemoval("there are no samples left to be removed")
        left, sample = sums - removed, before.sample
        if _is_nothing(sums.total, left.total):
            return replace(
                before, total=None, validation=(), weights=WeightCounts(),
                sample=sample and RowSample(sample.capacity),
            )  # fmt: skip
        _check_possible(sums.total, left.total)
        before = replace(before, weights=self.weights - WeightCounts.of(samples))
        return before._with(left, sample and sample.remove(samples))

    def merge(self, other: "RunningStatistics", evaluate: Evaluate) -> "RunningStatistics":
        """Return the statistics of both, each with its own decay."""
        one, two = (each.flush(evaluate)._decayed() for each in (self, other))
        parts, n_removed = min(self.n_parts, other.n_parts), self.n_removed + other.n_removed
        result = replace(one, n_parts=parts, n_removed=n_removed)
        result = result._count(other.n_added, other.weights)
        sample = result.sample and two.sample and result.sample.merge(two.sample)
        result = replace(result, sample=sample)
        return result if two.total is None else result._add(two.sums, sample)


def _squares(statistics):
    """Return the sums of squares of the outputs and of the units, concatenated."""
    return np.concatenate([statistics.yy, statistics.gram.diagonal()])


def decay_rows(log_decay: float, factor: float, n_rows: int) -> npt.NDArray | None:
    """Return `log_decay` as each of further rows arrives; None if nothing has decayed.

    With each row it grows by the logarithm of `factor`.
    """
    if factor >= 1 and log_decay >= 0:
        return None
    return log_decay + np.log(factor) * np.arange(1, n_rows + 1)


def _is_nothing(before, left):
    """Return whether all sums are zero up to rounding."""
    is_zero = abs(left.n) <= CANCELLATION_ERROR * before.n
    return is_zero and (np.abs(_squares(left)) <= CANCELLATION_ERROR * _squares(before).max()).all()


def _check_possible(before, left):
    """Raise InvalidRemoval if no samples could have the sums that are left.

    The necessary conditions that are cheap: the weight is positive, and no sum of squares about a
    mean is negative, ``sum x^2 - n mean^2 >= 0`` for each output and unit.
    """
    negative = np.flatnonzero(left.yy < -CANCELLATION_ERROR * before.yy.max())
    if len(negative):
        raise InvalidRemoval(
            "their sum of squares exceeds that of the samples added", int(negative[0])
        )
    if left.n <= CANCELLATION_ERROR * before.n:
        raise InvalidRemoval(
            f"their weights add up to {before.n - left.n:g}, and those of the samples that were "
            f"added to {before.n:g}"
        )
    means = np.concatenate([left.y, left.h]) / left.n
    squares = _squares(before)
    tolerance = CANCELLATION_ERROR * (squares + CANCELLATION_ERROR * squares.max())
    if (_squares(left) - left.n * means**2 < -tolerance).any():
        raise InvalidRemoval("without them, a sum of squares about the mean would be negative")
