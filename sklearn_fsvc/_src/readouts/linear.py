"""A linear readout at work: from tiles of H to outputs."""

from functools import cached_property

import numpy as np

from ..rows.overflow import check_numbers
from .uncovered import least_activity

# Rows of a tile whose activations are summed by NumPy.
_FEW = 8


class LinearReadout:
    """Outputs ``H W' + b`` of tiles of H, of a dtype, and the rows that no unit covers.

    W in a wider dtype is multiplied with H in units of its own, so that it may be of any size.
    `finds_uncovered` says whether rows that no unit covers are looked for.
    """

    def __init__(self, engine, W, b, dtype, finds_uncovered):
        dtype = np.dtype(dtype)
        self._b = b.astype(max(b.dtype, dtype), copy=False)
        self._unit = None
        if W.dtype > dtype:
            unit = np.abs(W).max(axis=1)
            self._unit = np.where(unit > 0, unit, 1.0)
            W = W / self._unit[:, None]
        self._engine, self._W = engine, W.astype(dtype, copy=False)
        self._finds_uncovered, self._least = finds_uncovered, least_activity(dtype)
        self._uncovered = [np.empty(0, np.intp)]

    @property
    def row_bytes(self):
        """Bytes that a row of H takes: its outputs, with room for copies in float64."""
        return 24 * (len(self._b) + 1)

    @cached_property
    def _columns(self):
        """W' on the device; one more column sums the activities."""
        ones = np.ones(self._W.shape[1], self._W.dtype)
        columns = np.column_stack([self._W.T, ones]) if self._finds_uncovered else self._W.T
        return self._engine.to_device(columns)

    @property
    def uncovered(self):
        """The rows so far that no unit covers."""
        return np.concatenate(self._uncovered)

    def scores(self, part, H):
        """Outputs (rows, n_outputs) for a tile that stands for the rows `part`, on the host.

        Raises `NotNumbers` where the outputs of the units are none.
        """
        columns, activity = self._products(H)
        if self._finds_uncovered:
            self._uncovered.append(part.start + np.flatnonzero(activity <= self._least))
        scores = (columns if self._unit is None else columns * self._unit) + self._b
        check_numbers(scores)
        return scores

    def _products(self, H):
        """``H W'`` and the sums of the activations, on the host, as one product."""
        multiply = self._engine.algebra.multiply
        if self._engine.xp is np and len(H) <= _FEW:  # to make the columns would take longer
            return multiply(H, self._W.T), H.sum(axis=1) if self._finds_uncovered else None
        columns = self._engine.to_host(multiply(H, self._columns))
        return (columns[:, :-1], columns[:, -1]) if self._finds_uncovered else (columns, None)
