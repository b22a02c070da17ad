"""Scores of samples that no unit covers.

Their activations are 0, or too small to be the same on all engines. A readout gives them its
intercept; classifiers may give them the output of the nearest unit, by `shrink_to_intercept`.

Leave-one-out scores of samples that no unit covers once the units centred at them are left out with
them are computed alike: `UncoveredRows` finds the nearest unit that is left.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.streaming import Consumer, stream

# Engines flush small activations to 0 at different distances. All of them compute those whose sum
# is more than this many times the smallest normal number.
_FLUSH_MARGIN = 64


def least_activity(dtype: npt.DTypeLike) -> float:
    """Return the sum of activations of a dtype up to which a sample is not covered."""
    return _FLUSH_MARGIN * float(np.finfo(dtype).tiny)


def shrink_to_intercept(targets: npt.NDArray, intercept: npt.NDArray, alpha: float) -> npt.NDArray:
    """Return scores of uncovered samples, given the targets of the centre of the nearest unit.

    Shrunk by the factor of a ridge of this penalty for a unit that its centre alone activates.
    """
    return intercept + (targets - intercept) / (1 + alpha)


def find_nearest_units(
    job: Job,
    layer: Any,
    X: Any,
    rows: npt.NDArray,
    consume: Callable[[npt.NDArray, npt.NDArray], None],
    row_bytes: int = 0,
    are_left_out: Callable[[npt.NDArray], npt.NDArray] | None = None,
) -> None:
    """Call ``consume(rows, units)`` with the nearest unit of each of some rows of X, by tiles.

    `row_bytes` are those that `consume` allocates for a row. ``are_left_out(rows)`` returns which
    units (n_rows, n_units) are ignored.
    """

    def consume_distances(part, D):
        if are_left_out is not None:
            D[job.engine.to_device(are_left_out(rows[part]))] = np.inf
        consume(rows[part], job.engine.to_host(D.argmin(axis=1)))

    if len(rows):
        consumer = Consumer(consume_distances, row_bytes=24 + row_bytes)
        stream(job, layer.distances, X, consumer, rows)


def score_uncovered(
    job: Job,
    layer: Any,
    X: Any,
    rows: npt.NDArray,
    nearest_scores: npt.NDArray | None,
    consume: Callable[[npt.NDArray, npt.NDArray], None],
) -> None:
    """Call ``consume(rows, scores)`` for uncovered rows, with the scores of their nearest unit.

    `nearest_scores` has the shape (n_units, n_scores); None keeps the intercept.
    """
    if nearest_scores is None:
        return

    def consume_units(rows, units):
        consume(rows, nearest_scores[units])

    find_nearest_units(job, layer, X, rows, consume_units, 24 * nearest_scores.shape[1])


class UncoveredRows:
    """The rows that no unit covers, when rows are left out in groups with their units.

    Parameters
    ----------
    job : Job
    layer : RBFLayer
    X : array or Source of shape (n_rows, n_features)
    unit_at_sample : ndarray of int of shape (n_rows,)
        The unit that is centred at each row, -1 for none.
    center_outputs : ndarray of shape (n_units, n_outputs)
        Targets of the centres.
    groups : ndarray of int of shape (n_rows,), optional
        The group of each row, such as a fold; by default each row is left out alone.
    """

    def __init__(
        self, job: Job, layer: Any, X: Any, unit_at_sample: npt.NDArray,
        center_outputs: npt.NDArray, groups: npt.NDArray | None = None,
    ):  # fmt: skip
        self._job, self._layer, self._X = job, layer, X
        self._center_outputs = center_outputs
        self._groups = np.arange(len(unit_at_sample)) if groups is None else groups
        self._group_of_unit, has_unit = np.full(layer.n_units, -1), unit_at_sample >= 0
        self._group_of_unit[unit_at_sample[has_unit]] = self._groups[has_unit]
        self.is_uncovered = np.zeros(len(unit_at_sample), bool)

    def _are_left_out(self, rows):
        """Return which units (n_rows, n_units) are left out with each row."""
        return self._group_of_unit == self._groups[rows][:, None]

    @property
    def is_complete(self) -> bool:
        """Whether the nearest units were found, so that all uncovered rows were, too."""
        return "nearest_targets" in vars(self)

    def find(self, algebra: Any, rows: npt.NDArray, is_active: Any) -> None:
        """Set `is_uncovered` of some rows, given whether they activate units (n_rows, n_units)."""
        is_left = algebra.to_device(~self._are_left_out(rows))
        self.is_uncovered[rows] = ~algebra.any(is_active & is_left, axis=1)

    @cached_property
    def nearest_targets(self) -> npt.NDArray:
        """Targets (n_uncovered, n_outputs) of the nearest unit that is left, NaN if none is."""
        targets = np.full((len(self._groups), self._center_outputs.shape[1]), np.nan)

        def consume(rows, units):
            is_any_left = self._group_of_unit[units] != self._groups[rows]
            targets[rows[is_any_left]] = self._center_outputs[units[is_any_left]]

        rows = np.flatnonzero(self.is_uncovered)
        row_bytes = 3 * self._layer.n_units + 24 * targets.shape[1]
        find_nearest_units(
            self._job, self._layer, self._X, rows, consume, row_bytes, self._are_left_out
        )
        return targets[rows]

    def shrunk(self, intercepts: npt.NDArray, alpha: Any, part: slice = slice(None)) -> npt.NDArray:
        """Return the scores (..., n_uncovered, n_outputs) of a part of the uncovered rows."""
        scores = shrink_to_intercept(self.nearest_targets[part], intercepts, alpha)
        return np.where(np.isnan(scores), intercepts, scores)

    def fill(self, scores: npt.NDArray, alpha: float) -> None:
        """Replace the intercepts in the scores (n_rows, n_outputs) of uncovered rows, in place."""
        scores[self.is_uncovered] = self.shrunk(scores[self.is_uncovered], alpha)
