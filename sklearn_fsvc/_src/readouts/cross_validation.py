"""Folds of samples that validate a readout, as rows and as statistics.

A *part* is the held-out set of a fold; the training set is all the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.memory_plan import check_fits
from ..data.samples import Samples, draw_without_replacement, row_hashes
from ..data.streaming import cast_layer
from .moments import CANCELLATION_ERROR
from .statistics import RidgeStatistics

# One sample in `N_PARTS` is held out, and no more than `MAX_VALIDATION`.
N_PARTS, MAX_VALIDATION = 6, 5000
# Up to these numbers of samples and units, all parts are held out, one after the other: with few
# samples, the error on one part is so noisy that it chooses penalties which cost accuracy.
MAX_CV_SAMPLES, MAX_CV_UNITS = 1000, 4000


def hold_out(
    rows: npt.NDArray, random: np.random.Generator, groups: npt.NDArray | None = None
) -> tuple[npt.NDArray, npt.NDArray]:
    """Return training rows and held-out rows, both ascending; of two rows or more.

    `groups` has the group of every sample, of which `rows` are some. If these are of two groups or
    more, whole groups are held out.
    """
    if len(rows) < 2:
        raise ValueError(
            'Hyperparameters set to "auto" need at least two samples of positive weight for '
            f"validation, and n_samples={len(rows)}. Pass more samples (in partial_fit with a "
            "given layer, in the first call), or set these hyperparameters."
        )
    n_validation = max(1, min(len(rows) // N_PARTS, MAX_VALIDATION))
    if _has_several(groups, rows):
        shuffled, n_validation = _shuffle_groups(rows, random, groups, n_validation)
        validation = shuffled[:n_validation]
    else:
        validation = draw_without_replacement(rows, n_validation, random)
    others = rows[np.isin(rows, validation, invert=True)]
    is_ascending = (np.diff(others) > 0).all()
    return others if is_ascending else np.sort(others), np.sort(validation)


def _has_several(groups, rows):
    return groups is not None and np.ptp(groups[rows]) > 0


def _shuffle_groups(rows, random, groups, n_validation):
    """Return the rows, one group after the other, and how many whole groups begin with them.

    As close to `n_validation` rows as possible. Groups are in random order, those of more than half
    of the rows at the end.
    """
    _, codes, sizes = np.unique(groups[rows], return_inverse=True, return_counts=True)
    order = random.permutation(len(sizes))
    order = np.concatenate(
        [order[2 * sizes[order] <= len(rows)], order[2 * sizes[order] > len(rows)]]
    )
    ends = np.cumsum(sizes[order])[:-1]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rows[np.argsort(rank[codes], kind="stable")], ends[np.abs(ends - n_validation).argmin()]


def count_parts(n_units: int, n_rows: int = 0) -> int:
    """Return how many parts of the samples are held out: all, or one for many samples or units."""
    return N_PARTS if n_units <= MAX_CV_UNITS and n_rows <= MAX_CV_SAMPLES else 1


def draw_parts(
    rows: npt.NDArray,
    random: np.random.Generator,
    groups: npt.NDArray | None = None,
    is_noisy: bool = False,
) -> list[npt.NDArray]:
    """Return the held-out sets of rows of each fold, ascending; for `groups` see `hold_out`.

    One, as of `hold_out`. If the error of one `is_noisy`, as it is of few rows, all parts of a
    partition.
    """
    others, validation = hold_out(rows, random, groups)
    if len(rows) > MAX_CV_SAMPLES and not is_noisy:
        return [validation]
    if groups is not None and _has_several(groups, rows):
        labels = random.permutation(np.unique(groups[others]))
        parts = np.array_split(labels, min(N_PARTS - 1, len(labels)))
        return [validation, *(others[np.isin(groups[others], part)] for part in parts)]
    others = random.permutation(others)
    n_others = min(N_PARTS, len(rows)) - 1
    return [validation, *(np.sort(part) for part in np.array_split(others, n_others))]


def draw_split(
    job: Job, samples: Samples, n_rows: int, random: np.random.Generator
) -> tuple[Job, Samples, npt.NDArray, npt.NDArray]:
    """Return samples, and training rows and validation rows of them, up to `n_rows` in all.

    Given validation samples are appended to a copy of the training rows, whose memory the job
    reserves. Otherwise some samples are held out.
    """
    subset = draw_without_replacement(samples.rows_with_weight, n_rows, random)
    validation = samples.validation
    if validation is None:
        train_rows, validation_rows = hold_out(subset, random, samples.groups)
        return job, samples, train_rows, validation_rows
    validation_rows = _draw_validation_rows(validation, random, n_rows // N_PARTS)
    train_rows = np.sort(subset[: n_rows - len(validation_rows)])
    n_rows = len(train_rows) + len(validation_rows)
    n_bytes = n_rows * samples.X.shape[1] * samples.X.dtype.itemsize
    what, remedy = "model selection on X_val", "pass fewer samples as X_val, or none"
    check_fits(what, 2 * n_bytes, job.memory_limit, remedy)
    joined = samples.taken(train_rows).joined(validation.taken(validation_rows))
    joined, job = joined.on_device(job.reserve(n_bytes))
    train_rows, validation_rows = np.split(np.arange(len(joined)), [len(train_rows)])
    return job, joined, train_rows, validation_rows


def _draw_validation_rows(validation, random, n_rows=MAX_VALIDATION):
    return np.sort(draw_without_replacement(validation.rows_with_weight, n_rows, random))


def draw_validation(samples: Samples, random: np.random.Generator) -> Samples:
    """Return a copy of the given validation samples, of as many as are held out at most."""
    assert samples.validation is not None
    return samples.validation.taken(_draw_validation_rows(samples.validation, random))


def select_folds(parts: Sequence, n_units: int) -> Sequence:
    """Return the parts that validate a layer: the first alone for very many units."""
    return parts[: count_parts(n_units)]


def n_validation_units(n_units: int) -> int:
    """Return how many leading units of a layer validate its penalties: a half.

    The best penalty is the same (measured on 24 datasets), in an eighth of the time.
    """
    return -(-n_units // 2)


def make_folds(
    statistics: RidgeStatistics,
    validation_statistics: Sequence[RidgeStatistics | None],
    n_units: int,
    is_included: bool = True,
    fold_units: Sequence[npt.NDArray] | None = None,
) -> list[tuple[RidgeStatistics, RidgeStatistics]]:
    """Return the folds of `search_penalty`, for the leading units.

    Parameters
    ----------
    statistics : RidgeStatistics
        Of all samples.
    validation_statistics : list of RidgeStatistics or None
        Of the held-out samples of each fold; None for a fold without samples, which is skipped.
    is_included : bool, default=True
        Whether the held-out samples are among all, so that they are subtracted from these.
    fold_units : list of ndarray of int, optional
        The units that are centred at held-out samples of each fold, if these are included: they are
        left out of its readout. New samples have no unit of their own, whose coefficient no other
        sample determines. With these units, the error would grow as the penalty falls, where that
        of new samples changes little.
    """
    of_all, folds = statistics.leading(n_units), []
    for i, part in enumerate(validation_statistics):
        if part is None:
            continue
        validation = part.leading(n_units)
        train = of_all - validation if is_included else of_all
        if fold_units is not None:
            train.leave_units_out(fold_units[i][fold_units[i] < n_units])
        folds.append((train, validation))
    return folds


def find_fold_units(
    parts: Sequence[npt.NDArray], center_rows: npt.NDArray | None
) -> list[npt.NDArray] | None:
    """Return the units whose centres are in each part, given the row of each centre; or None."""
    if center_rows is None:
        return None
    return [np.flatnonzero(np.isin(center_rows, part)) for part in parts]


@dataclass(frozen=True)
class HeldOut:
    """The rows that validate a layer: given validation samples, or samples that are held out."""

    samples: Samples  # of which the parts are rows
    parts: Sequence[npt.NDArray]  # one for each fold
    is_included: bool  # whether they are among the training samples
    fold_units: Sequence[npt.NDArray] | None = None  # as of `make_folds`

    @classmethod
    def draw(
        cls,
        samples: Samples,
        random: np.random.Generator,
        n_units: int | None = None,
        center_rows: npt.NDArray | None = None,
    ) -> "HeldOut":
        """Return those of the folds of a layer with `n_units`; by default of one fold.

        `center_rows` has the row of the centre of each unit; None if units have no centres there.
        """
        if samples.validation is not None:
            validation = samples.validation
            return cls(validation, [_draw_validation_rows(validation, random)], False)
        parts = draw_parts(samples.rows_with_weight, random, samples.groups)
        selected = parts[:1] if n_units is None else select_folds(parts, n_units)
        return cls(samples, selected, True, find_fold_units(selected, center_rows))

    def first_fold(self) -> "HeldOut":
        """Return those of the first fold only."""
        fold_units = None if self.fold_units is None else self.fold_units[:1]
        return replace(self, parts=self.parts[:1], fold_units=fold_units)

    def gather_folds(
        self, gather_rows: Callable, job: Job, layer: Any, statistics: RidgeStatistics
    ) -> list[tuple[RidgeStatistics, RidgeStatistics]]:
        """Return the folds of `search_penalty` for a layer of leading units.

        ``gather_rows`` is `gather` or a variant of it, and `statistics` those of all samples.
        """
        if not self.is_included:
            layer = cast_layer(layer, self.samples.X)
        each = [gather_rows(job, [layer], self.samples, part)[0] for part in self.parts]
        return make_folds(statistics, each, layer.n_units, self.is_included, self.fold_units)


def hash_validation_rows(X: Any, n: int) -> list[npt.NDArray]:
    """Return the indices of the rows of X in each of the first `n` parts, in incremental fits.

    The hash of a sample determines its part. So a removal changes the sums that the sample was
    added to, whenever and in whichever model.
    """
    part = (row_hashes(X) >> np.uint64(32)) % np.uint64(N_PARTS) if n else ()
    return [np.flatnonzero(part == i) for i in range(n)]


@dataclass(frozen=True, eq=False)
class CVStatistics:
    """Statistics of samples and of their held-out parts, which are added and scaled together."""

    total: RidgeStatistics  # of all samples
    # Of each held-out part, for the leading units that validate; None if it has no rows.
    validation: tuple[RidgeStatistics | None, ...] = ()
    # As of `make_folds`; None also in incremental fits, where they follow from the layer.
    fold_units: Sequence[npt.NDArray] | None = None

    def __add__(self, other: "CVStatistics") -> "CVStatistics":
        return CVStatistics(
            self.total + other.total, _combine(_plus, self.validation, other.validation)
        )

    def __sub__(self, other: "CVStatistics") -> "CVStatistics":
        return CVStatistics(
            self.total - other.total, _combine(_minus, self.validation, other.validation)
        )

    def scaled(self, factor: float) -> "CVStatistics":
        """Return the statistics with all weights multiplied by a factor."""
        validation = tuple(part and part.scaled(factor) for part in self.validation)
        return CVStatistics(self.total.scaled(factor), validation)

    def folds(self, centers: Any = None) -> list[tuple[RidgeStatistics, RidgeStatistics]]:
        """Return the folds of `search_penalty`.

        Empty as long as all samples have the same target, or none is held out.

        Parameters
        ----------
        centers : array of shape (n_units, n_features), optional
            The samples at which the units are centred. Each unit is left out with the part that
            contains its centre.
        """
        total, n = self.total, n_validation_units(len(self.total.h))
        target_variance = total.yy - total.y**2 / total.n
        if not float((target_variance - CANCELLATION_ERROR * total.yy.max()).max()) > 0:
            return []
        fold_units = None
        if centers is not None:
            fold_units = hash_validation_rows(centers[:n], len(self.validation))
        folds = make_folds(total, self.validation, n, fold_units=fold_units)
        return [
            (train, validation)
            for train, validation in folds
            if train.n > CANCELLATION_ERROR * total.n
        ]


def _combine(operation, validation, other):
    """Return the results of an operation on corresponding parts, as many as both have."""
    return tuple(operation(a, b) for a, b in zip(validation, other, strict=False))


def _plus(a, b):
    return (a or b) if a is None or b is None else a + b


def _minus(a, b):
    if a is None or b is None:
        return a
    left = a - b
    return left if left.n > CANCELLATION_ERROR * a.n else None
