"""A linear readout at work: from tiles of H to outputs."""

import numpy as np

from ..rows.overflow import check_numbers


class LinearReadout:
    """Outputs ``H W' + b`` of tiles, and the rows that no unit answers.

    Parameters
    ----------
    engine : Engine
    W : ndarray of shape (n_outputs, n_units)
    b : ndarray of shape (n_outputs,)
    dtype : dtype
        Of H. W in a wider one is multiplied with H in units of its own, so that it may be
        of any size.
    may_be_outside : bool
        Whether there may be rows that no unit answers, of which H is 0.
    """

    def __init__(self, engine, W, b, dtype, may_be_outside):
        dtype = np.dtype(dtype)
        self._b = b.astype(max(b.dtype, dtype), copy=False)
        self._unit = None
        if W.dtype > dtype:
            unit = np.abs(W).max(axis=1)
            self._unit = np.where(unit > 0, unit, 1.0)
            W = W / self._unit[:, None]
        # One more column sums the activities: 0 tells a row outside every unit.
        columns = np.column_stack([W.T, np.ones(W.shape[1])]) if may_be_outside else W.T
        self._engine, self._W = engine, engine.to_device(columns.astype(dtype, copy=False))
        self._may_be_outside = may_be_outside
        self._outside = [np.empty(0, np.intp)]

    @property
    def row_bytes(self):
        """Bytes that a row of H takes: its outputs, with room for copies in float64."""
        return 24 * (len(self._b) + 1)

    @property
    def outside(self):
        """The rows so far of which H was 0."""
        return np.concatenate(self._outside)

    def scores(self, part, H):
        """Outputs (rows, n_outputs) for a tile that stands for the rows `part`, on the host.

        Raises `NotNumbers` where the outputs of the units are none.
        """
        columns = self._engine.to_host(self._engine.algebra.multiply(H, self._W))
        if self._may_be_outside:
            self._outside.append(part.start + np.flatnonzero(columns[:, -1] == 0))
            columns = columns[:, :-1]
        scores = (columns if self._unit is None else columns * self._unit) + self._b
        check_numbers(scores)
        return scores
