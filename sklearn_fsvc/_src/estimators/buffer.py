"""The buffer of `partial_fit`: samples from which the hidden layer will be chosen.

Until there are enough of them for the number of units, the layer is provisional, and the samples
are kept as they were given: classes may be added, and the mean of y changes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.memory_plan import host_memory_limit
from ..data.samples import exact_hashes
from ..data.sources import joined, select_rows
from ..engines.base import Engine
from ..hidden_layers.proxy_networks import MAX_SEARCH_SAMPLES
from ..parts.units import Units
from ..readouts.moments import CANCELLATION_ERROR
from ..readouts.running_statistics import InvalidRemoval, decay_rows
from ..targets.labels import join_labels

# Samples from which a layer is chosen: as many as `fit` uses to search for kernel, width and
# feature weights, and some for each unit. With 2000 samples, tanh classifiers of 100 units lost 1.3
# points on average if there were eight classes, and 0.1 with 4000.
_MIN_ROWS, _MIN_ROWS_PER_UNIT = MAX_SEARCH_SAMPLES, 2
# Each class has this fraction of its share of a balanced sample: hyperparameters that are validated
# on nearly one class alone may have no use for the others. On streams that are sorted by class, RBF
# units had the accuracy of chance if one sample of each class was enough; a quarter of the share
# lost up to 2.8 points, and three quarters up to 1.2. If classes are rarer, this multiple of the
# samples is enough.
_CLASS_SHARE, _RARE_CLASS_FACTOR = 0.75, 4
# The provisional layer is replaced after this many changes, a fraction of the samples that it was
# chosen from. A choice takes as long as `fit`: too long for each removal from a window.
_MAX_CHANGES = 0.5
# Fraction of the memory limit that the buffer may take.
_MEMORY_FRACTION = 1 / 8


@dataclass(frozen=True, eq=False)
class RawSamples:
    """Validated samples on the host, whose targets are not encoded."""

    X: Any
    y: npt.NDArray  # (n_samples,) or (n_samples, n_outputs)
    weight: npt.NDArray | None = None  # the sample weight, without class weights
    # (n_samples,): value of `SampleBuffer.log_decay` as each sample arrived; None for 0.
    log_decay: npt.NDArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_bytes(self) -> int:
        """Return the bytes of features, targets and weights."""
        return self.X.nbytes + self.y.nbytes + 16 * len(self)

    @property
    def dtype_key(self) -> tuple[type, np.dtype]:
        """Type and dtype of X: samples with one key are concatenated without a conversion."""
        return type(self.X), self.X.dtype

    def taken(self, rows: npt.NDArray) -> "RawSamples":
        """Return a subset of the samples."""
        weight, decay = (v if v is None else v[rows] for v in (self.weight, self.log_decay))
        return RawSamples(select_rows(self.X, rows), self.y[rows], weight, decay)

    def without_zero_weights(self) -> "RawSamples":
        """Return the samples of positive weight."""
        if self.weight is None or self.weight.all():
            return self
        return self.taken(np.flatnonzero(self.weight))

    def reweighted(self, weight: npt.NDArray) -> "RawSamples":
        """Return the samples with other weights; without weights if all that are left are 1."""
        is_uniform = self.weight is None and np.isin(weight, (0, 1)).all()
        samples = replace(self, weight=weight).without_zero_weights()
        return replace(samples, weight=None) if is_uniform else samples

    def copied(self) -> "RawSamples":
        """Return the same samples in new arrays."""
        weight = None if self.weight is None else self.weight.copy()
        return RawSamples(self.X.copy(), self.y.copy(), weight, self.log_decay)

    @staticmethod
    def concatenate(parts: "list[RawSamples]") -> "RawSamples":
        """Return the samples of all parts, in a dtype that holds them all."""
        if len(parts) == 1:
            return parts[0]

        def filled(values, default):
            if all(value is None for value in values):
                return None
            pairs = zip(values, parts, strict=True)
            return np.concatenate([np.full(len(p), default) if v is None else v for v, p in pairs])

        return RawSamples(
            joined([part.X for part in parts]),
            join_labels([part.y for part in parts]),
            filled([part.weight for part in parts], 1.0),
            filled([part.log_decay for part in parts], 0.0),
        )


@dataclass(frozen=True, eq=False)
class SampleBuffer:
    """Samples that were added and not removed while the layer is provisional. Immutable."""

    parts: tuple[RawSamples, ...] = ()  # in the order of arrival
    log_decay: float = 0.0  # sum of the logarithms of all forgetting factors
    has_classes: bool = False  # whether the user listed all classes
    n_changes: int = 0  # samples added and removed
    # Samples whose sums are in the statistics of the provisional layer; the samples that this
    # layer was chosen from, and the changes before that.
    n_summed: int = 0
    n_chosen_from: int = 0
    n_changes_at_choice: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def n_bytes(self) -> int:
        """Return the bytes of all samples."""
        return sum(part.n_bytes for part in self.parts)

    @property
    def is_empty(self) -> bool:
        return not self.parts

    @property
    def has_grown(self) -> bool:
        """Return whether the samples have changed so much that a layer should be chosen anew."""
        n_since = self.n_changes - self.n_changes_at_choice
        return n_since >= _MAX_CHANGES * self.n_chosen_from

    def provisional(self) -> "SampleBuffer":
        """Return the buffer after a provisional layer was chosen from all samples."""
        return replace(
            self, n_summed=0, n_chosen_from=len(self), n_changes_at_choice=self.n_changes
        )

    def is_complete(
        self,
        units: Units,
        max_memory: Any,
        has_all_classes: Callable[[float], bool],
        batch: RawSamples | None = None,
    ) -> bool:
        """Return whether the layer is chosen from these samples and a batch.

        `has_all_classes` is `TargetSpec.has_all_classes` for them.
        """
        if not is_buffered(units):  # a layer was given meanwhile
            return True
        n_rows, n_bytes = len(self), self.n_bytes
        if batch is not None:
            n_rows, n_bytes = n_rows + len(batch), n_bytes + batch.n_bytes
        n_required = required_samples(units)
        if n_rows >= n_required and (
            n_rows >= _RARE_CLASS_FACTOR * n_required or has_all_classes(_CLASS_SHARE * n_required)
        ):
            return True
        return n_bytes >= buffer_bytes(max_memory)

    def add(self, samples: RawSamples, factor: float) -> "SampleBuffer":
        """Return the buffer with copies of further samples.

        The weight of each sample is multiplied by `factor` with every later sample.
        """
        row_log_decay = decay_rows(self.log_decay, factor, len(samples))
        if row_log_decay is not None:
            samples = replace(samples, log_decay=row_log_decay)
            self = replace(self, log_decay=float(row_log_decay[-1]))
        parts = [*self.parts, samples.copied()]
        # Parts are merged like the digits of a binary counter, so that they stay few, and each
        # sample is copied a few times only.
        while len(parts) > 1 and parts[-2].dtype_key == parts[-1].dtype_key:
            if len(parts[-2]) >= 2 * len(parts[-1]):
                break
            parts[-2:] = [RawSamples.concatenate(parts[-2:])]
        return replace(self, parts=tuple(parts), n_changes=self.n_changes + len(samples))

    def remove(self, samples: RawSamples) -> "SampleBuffer":
        """Return the buffer without samples, or with smaller weights; else InvalidRemoval."""
        if not self.parts:
            raise InvalidRemoval("there are no samples left to be removed")
        n, both = len(self), [*self.parts, samples]
        weight = np.concatenate([np.ones(len(p)) if p.weight is None else p.weight for p in both])
        group = _group_equal(both)
        total = np.bincount(group[:n], weight[:n], minlength=group.max() + 1)
        removed = np.bincount(group[n:], weight[n:], minlength=len(total))
        if (removed > total * (1 + CANCELLATION_ERROR)).any():
            raise InvalidRemoval("samples with these features, targets and weights are missing")
        left = _subtract_weights(group[:n], weight[:n], total, removed)
        stops = np.cumsum([len(part) for part in self.parts])[:-1]
        parts = [
            part.reweighted(w) for part, w in zip(self.parts, np.split(left, stops), strict=True)
        ]
        kept = tuple(part for part in parts if len(part))
        return replace(self, parts=kept, n_changes=self.n_changes + len(samples))

    def merge(self, other: "SampleBuffer") -> "SampleBuffer":
        """Return the buffer with the samples of another one, each with its own decay."""
        shift, parts = self.log_decay - other.log_decay, other.parts
        if shift or other.log_decay:
            parts = tuple(
                replace(p, log_decay=shift + (0.0 if p.log_decay is None else p.log_decay)
                        + np.zeros(len(p)))
                for p in parts
            )  # fmt: skip
        return SampleBuffer(
            (*self.parts, *parts), self.log_decay, self.has_classes or other.has_classes,
            self.n_changes + other.n_changes,
        )  # fmt: skip

    def joined(self) -> RawSamples:
        """Return all samples."""
        return RawSamples.concatenate(list(self.parts))

    def unsummed(self) -> Iterator[RawSamples]:
        """Yield the samples that are not in the statistics; those of one dtype together."""
        start, parts = self.n_summed, []
        for part in self.parts:
            skipped = min(start, len(part))
            start -= skipped
            if skipped < len(part):
                parts.append(part.taken(np.arange(skipped, len(part))) if skipped else part)
        for _, same in groupby(parts, lambda part: part.dtype_key):
            yield RawSamples.concatenate(list(same))


def _group_equal(parts):
    """Return the group of each sample: equal samples with equal targets are one group."""
    hashes = np.concatenate([exact_hashes(part.X) for part in parts])
    y = join_labels([part.y for part in parts])
    columns = [hashes, *y.reshape(len(y), -1).T]
    codes = [np.unique(column, return_inverse=True)[1] for column in columns]
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()


def _subtract_weights(group, weight, total, removed):
    """Return the weights of samples that are left; the earliest of a group are removed first.

    Parameters
    ----------
    group, weight : ndarray of shape (n_samples,)
    total, removed : ndarray of shape (n_groups,)
        The sum of the weights of each group, and the weight to remove from it.
    """
    # Weights are fractions of those of their groups, which thus contribute 1 each to the cumulated
    # weights.
    order = np.argsort(group, kind="stable")
    share = (weight / total[group])[order]
    is_present = total > 0
    before = np.cumsum(share) - share - (np.cumsum(is_present) - is_present)[group[order]]
    share -= np.clip((removed / np.where(is_present, total, 1))[group[order]] - before, 0, share)
    left = np.empty(len(group))
    left[order] = share
    left *= total[group]
    left[left <= CANCELLATION_ERROR * weight] = 0
    return np.where(np.abs(left - weight) <= CANCELLATION_ERROR * weight, weight, left)


def is_buffered(units: Units) -> bool:
    """Return whether samples are buffered: the layer is chosen for them, and not given."""
    return units.given_layer is None and units.sharing.depends_on_samples


def required_samples(units: Units) -> int:
    """Return the number of samples from which the layer is chosen."""
    n_units = units.n_units or Engine.max_automatic_units
    return max(_MIN_ROWS, _MIN_ROWS_PER_UNIT * n_units)


def buffer_bytes(max_memory: Any) -> int:
    """Return the bytes of samples beyond which no more are buffered."""
    return int(_MEMORY_FRACTION * host_memory_limit(max_memory))
