"""Sums of samples and of their held-out parts, of which penalties are searched."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.samples import row_hashes
from .cross_validation import (
    MAX_CV_SAMPLES,
    MAX_CV_UNITS,
    PARTS,
    ROUNDING,
    make_folds,
    n_validation_units,
)
from .statistics import RidgeStatistics

# Incremental fits: the hash of a sample determines the part that it is in. So a removal changes the
# sums that the sample was added to, whenever and in whichever model.


def n_parts(n_units: int, n_rows: int = 0) -> int:
    """Return how many parts of the samples are held out: all, or one for many samples or units."""
    return PARTS if n_units <= MAX_CV_UNITS and n_rows <= MAX_CV_SAMPLES else 1


def hash_validation_rows(X: Any, n: int) -> list[npt.NDArray]:
    """Return the indices of the rows of X in each of the first `n` parts."""
    part = (row_hashes(X) >> np.uint64(32)) % np.uint64(PARTS) if n else ()
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
        if not float((target_variance - ROUNDING * total.yy.max()).max()) > 0:
            return []
        fold_units = None
        if centers is not None:
            fold_units = hash_validation_rows(centers[:n], len(self.validation))
        folds = make_folds(total, self.validation, n, fold_units=fold_units)
        return [(train, validation) for train, validation in folds if train.n > ROUNDING * total.n]


def _combine(operation, validation, other):
    """Return the results of an operation on corresponding parts, as many as both have."""
    return tuple(operation(a, b) for a, b in zip(validation, other, strict=False))


def _plus(a, b):
    return (a or b) if a is None or b is None else a + b


def _minus(a, b):
    if a is None or b is None:
        return a
    left = a - b
    return left if left.n > ROUNDING * a.n else None
