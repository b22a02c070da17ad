"""Which training rows decided a prediction: the units of RBF networks are training rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.streaming import Consumer, stream
from ..readouts.linear import find_nearest_units
from ..utils.parameters import check_count
from .network import Network
from .state import on_snapshot


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
        if self.support is not None and self.targets is not None:
            columns |= {"support": self.support.ravel(), "target": self.targets.ravel()}
        return pd.DataFrame(columns)


class Explaining(Network):
    """A mixin: a network of units that stand on training rows, with a readout."""

    @on_snapshot
    def explain(self, X, n=5, output=0):
        """Name the training rows that decided each prediction.

        A prediction is the sum over all units of activation times coefficient, and an intercept.
        Each unit stands on a training row; those with the largest parts of the sum are named.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or source of rows
            As of `predict`.
        n : int, default=5
            How many training rows to name for each row; no more than there are units.
        output : int, default=0
            Which column of y is explained, if there are several.

        Returns
        -------
        explanation : Explanation
            Arrays: the numbers of the training rows, their targets and contributions, and
            what all others add. Of two classes, the score of the first is that of the
            second, times -1.

        Raises
        ------
        ValueError
            For an `n` below 1, or an `output` that y does not have.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn_fsvc import RBFClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = RBFClassifier(random_state=0).fit(X, y)
        >>> found = clf.explain(X[:1], n=3)
        >>> found.support.shape
        (1, 3)
        >>> bool(abs(found.scores - clf.decision_function(X[:1]).max(axis=1))[0] < 1e-6)
        True
        """
        check_is_fitted(self)
        n = check_count("n", n)
        n_columns = self._parts().task.n_columns
        if not 0 <= output < n_columns:
            raise ValueError(
                f"output={output!r}: y has {n_columns} column(s); give one of their numbers, "
                "from 0."
            )
        with self._open_prediction(X, "explain") as run:
            return _Explainer(run, n, output).explanation()


class _Explainer:
    """Takes tiles of H, and keeps of each row what its largest contributions are."""

    def __init__(self, run, n, output):
        self._parts, self._job, self._layer = run.parts, run.job, run.layer
        self._X, self._n, self._output = run.X, min(n, run.layer.n_units), output
        readout, engine = self._parts.readout, self._job.engine
        W, dtype = readout.readout_coef_, self._layer.hidden_dtype
        self._intercept = readout.readout_intercept_
        self._readout = readout.make_predictor(engine, dtype, self._parts.uses_nearest_unit)
        # In units of their own: coefficients of any size are multiplied in the dtype of H.
        self._unit = np.abs(W).max(axis=1).astype(np.float64)
        self._unit[self._unit == 0] = 1.0
        self._W = engine.to_device((W / self._unit[:, None]).astype(dtype))
        n_rows, shape = len(self._X), (len(self._X), self._n)
        self._units, self._contributions = np.empty(shape, np.intp), np.empty(shape)
        self._rest, self._of_intercept = np.empty(n_rows), np.empty(n_rows)
        self._predictions: Any = None

    def explanation(self):
        stream(self._job, self._layer, self._X, self._consumer())
        find_nearest_units(
            self._job, self._layer, self._X, self._readout.uncovered, self._take_nearest
        )
        units, of_rows = self._units, self._parts.units.rows
        support = targets = None
        if of_rows is not None:
            own = self._parts.task.center_targets(self._parts.units)
            of_centers = np.reshape(own, (len(own), -1))
            support, targets = of_rows[units], of_centers[:, self._output][units]
        return Explanation(
            self._predictions, units, support, targets, self._contributions, self._rest,
            self._of_intercept,
        )  # fmt: skip

    def _consumer(self):
        (n_scores, m), itemsize = self._W.shape, self._layer.hidden_dtype.itemsize
        # The contributions, their absolute values, and the order of these.
        row_bytes = self._readout.row_bytes + m * (2 * itemsize + 8)
        return Consumer(self._take, 2 * n_scores * m * itemsize, row_bytes)

    def _take(self, part, H):
        xp, to_host = self._job.engine.xp, self._job.engine.to_host
        columns, signs = self._decide(part, self._readout.scores(part, H))
        parts = self._W[self._job.engine.to_device(columns)]
        parts *= H
        size = xp.abs(parts)
        units = xp.argpartition(size, -self._n, axis=1)[:, -self._n :]
        order = xp.argsort(-xp.take_along_axis(size, units, axis=1), axis=1)
        units = xp.take_along_axis(units, order, axis=1)
        named = to_host(xp.take_along_axis(parts, units, axis=1)).astype(np.float64)
        total = to_host(parts.sum(axis=1, dtype=np.float64))
        factors = signs * self._unit[columns]
        self._units[part] = to_host(units)
        self._contributions[part] = named * factors[:, None]
        self._rest[part] = (total - named.sum(axis=1)) * factors
        self._of_intercept[part] = signs * self._intercept[columns]

    def _decide(self, rows, scores):
        predictions, columns, signs = self._parts.task.decided(scores, self._output)
        if self._predictions is None:
            self._predictions = np.empty(len(self._rest), predictions.dtype)
        self._predictions[rows] = predictions
        return columns, signs

    def _take_nearest(self, rows, units):
        """Rows that no unit covers: the nearest unit contributes the whole score."""
        scores = self._parts.nearest_scores[units]
        columns, signs = self._decide(rows, scores)
        self._units[rows, 0] = units
        for what in (self._contributions, self._rest, self._of_intercept):
            what[rows] = 0.0
        self._contributions[rows, 0] = signs * scores[np.arange(len(rows)), columns]
