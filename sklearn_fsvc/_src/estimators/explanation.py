"""What `explain` returns: the training rows behind predictions, and what each adds."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Explanation:
    """The training rows that decided the predictions for some rows.

    For each row, the contributions of those named, of the rest of the units and of the intercept
    add up to the score of the prediction.

    Attributes
    ----------
    predictions : ndarray of shape (n_rows,)
        What is explained: classes, or numbers.
    units : ndarray of int of shape (n_rows, n)
        Numbers of the hidden units with the largest contributions by absolute value, the
        largest first; their rows are ``centers_[units]``.
    support : ndarray of int of shape (n_rows, n) or None
        Numbers of their rows in the training data; None of a given `layer`, whose rows are
        not known.
    targets : ndarray of shape (n_rows, n) or None
        The class or the y of these rows; None of a given `layer`.
    contributions : ndarray of shape (n_rows, n), float64
        What each adds to the score of the prediction: activation times coefficient.
    rest : ndarray of shape (n_rows,), float64
        The sum over all other units.
    intercept : ndarray of shape (n_rows,), float64
        The intercept of the readout for the prediction. It is 0 for a row for which no unit is
        active: such a row gets the prediction of the nearest centre.
    """

    predictions: np.ndarray
    units: np.ndarray
    support: np.ndarray | None
    targets: np.ndarray | None
    contributions: np.ndarray
    rest: np.ndarray
    intercept: np.ndarray

    @property
    def scores(self):
        """Scores of the predictions, ndarray of shape (n_rows,), float64: the sum of all."""
        return self.contributions.sum(axis=1) + self.rest + self.intercept

    def to_frame(self):
        """A table with a line for each row and each training row named.

        Returns
        -------
        pandas.DataFrame
            With columns "row", "prediction", "rank", "unit", "contribution" and, where they
            are known, "support" and "target".
        """
        import pandas as pd

        n_rows, n = self.units.shape
        columns = {
            "row": np.repeat(np.arange(n_rows), n),
            "prediction": np.repeat(self.predictions, n),
            "rank": np.tile(np.arange(n), n_rows),
            "unit": self.units.ravel(),
            "contribution": self.contributions.ravel(),
        }
        if self.support is not None:
            columns |= {"support": self.support.ravel(), "target": self.targets.ravel()}
        return pd.DataFrame(columns)
