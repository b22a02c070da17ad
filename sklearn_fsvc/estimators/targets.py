"""What rows should be answered with, as a readout needs it: numbers."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """1 for the class of a row, 0 for the others.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
        Numbers of the classes, from 0.
    n_outputs : int
        How many classes there are.
    """

    codes: np.ndarray
    n_outputs: int

    @property
    def counts(self):
        """Rows of each class."""
        return np.bincount(self.codes, minlength=self.n_outputs)

    def taken(self, rows):
        """The targets of some rows alone."""
        return replace(self, codes=self.codes[rows])

    def matrix(self, rows=slice(None), xp=np):
        """The targets of some rows, (rows, n_outputs) in float64, an array of `xp`."""
        codes = xp.asarray(self.codes[rows])
        return (codes[:, None] == xp.arange(self.n_outputs)).astype(np.float64)


def class_targets(y, n_rows, why, otherwise):
    """`ClassTargets` of labels for a choice of the layer that needs them.

    Parameters
    ----------
    y : array-like or None
    n_rows : int
        Rows that there must be labels for.
    why, otherwise : str
        For messages: what needs them, and what does not.
    """
    if y is None:
        raise ValueError(
            f"{why} requires y to be passed, but the target y is None; pass the classes of the "
            f"rows, or use {otherwise}."
        )
    y = column_or_1d(y)
    check_consistent_length(range(n_rows), y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return ClassTargets(codes, len(classes))
