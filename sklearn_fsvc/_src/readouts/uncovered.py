"""Scores of rows that no unit covers once the units centred at them are left out with them.

Leave-one-out scores of such rows are the intercepts of readouts without them. Classifiers predict
the class of the nearest unit for a sample that no unit covers, so that their leave-one-out scores
are computed as `linear.shrink_to_intercept` computes predictions: of the nearest unit that is left.
"""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from .linear import find_nearest_units, shrink_to_intercept


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
    def is_known(self) -> bool:
        """Return whether all rows, and their nearest units, were found before."""
        return "targets" in vars(self)

    def find(self, algebra: Any, rows: npt.NDArray, is_active: Any) -> None:
        """Set `is_uncovered` of some rows, given whether they activate units (n_rows, n_units)."""
        is_left = algebra.to_device(~self._are_left_out(rows))
        self.is_uncovered[rows] = ~algebra.any(is_active & is_left, axis=1)

    @cached_property
    def targets(self) -> npt.NDArray:
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
        scores = shrink_to_intercept(self.targets[part], intercepts, alpha)
        return np.where(np.isnan(scores), intercepts, scores)

    def fill(self, scores: npt.NDArray, alpha: float) -> None:
        """Replace the intercepts in the scores (n_rows, n_outputs) of uncovered rows, in place."""
        scores[self.is_uncovered] = self.shrunk(scores[self.is_uncovered], alpha)
