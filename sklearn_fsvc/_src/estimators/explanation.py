"""`explain` of RBF networks: the training samples that contribute most to a prediction."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.streaming import Consumer, stream
from ..readouts.uncovered import find_nearest_units
from ..utils.parameters import check_output, check_positive_integer
from .network import Network
from .state import on_snapshot


@dataclass(frozen=True, eq=False)
class Explanation:
    """The training samples with the largest contributions to predictions.

    For each sample, the contributions of the listed units, of all other units and the intercept
    add up to the score of the prediction. `shares` are the listed parts of all contributions. They
    are often small; the listed samples are then examples, not the reason for the prediction.

    Attributes
    ----------
    predictions : ndarray of shape (n_samples,)
        The explained predictions: classes, or numbers, of which `scores` are the transformed ones
        if y is transformed.
    units : ndarray of int of shape (n_samples, n) or None
        Indices of the hidden units with the largest contributions by absolute value, the largest
        first; their centres are ``centers_[units]``. None for an ensemble, whose networks have
        units of their own.
    support : ndarray of int of shape (n_samples, n) or None
        Indices of these centres in the training data; None for a given `layer`, whose centres
        need not be training samples.
    targets : ndarray of shape (n_samples, n) or None
        Their class or y; None for a given `layer`.
    contributions : ndarray of shape (n_samples, n), float64
        Activation times coefficient, which is added to the score of the prediction.
    rest : ndarray of shape (n_samples,), float64
        The sum of the contributions of all other units, and of other networks of an ensemble.
    intercept : ndarray of shape (n_samples,), float64
        The intercept of the readout for the prediction. It is 0 for a sample that no unit covers:
        such a sample gets the prediction of the nearest centre.
    total : ndarray of shape (n_samples,), float64
        The sum of the absolute values of the contributions of all units, listed or not.
    """

    predictions: np.ndarray
    units: np.ndarray | None
    support: np.ndarray | None
    targets: np.ndarray | None
    contributions: np.ndarray
    rest: np.ndarray
    intercept: np.ndarray
    total: np.ndarray

    @property
    def scores(self):
        """Scores of the predictions, ndarray of shape (n_samples,), float64: the sum of all."""
        return self.contributions.sum(axis=1) + self.rest + self.intercept

    @property
    def shares(self):
        """Share of each listed contribution in `total`, ndarray of shape (n_samples, n), float64.

        By absolute values, between 0 and 1; ``shares.sum(axis=1)`` is the share of all that are
        listed.
        """
        total = np.where(self.total > 0, self.total, 1)
        return np.abs(self.contributions) / total[:, None]

    def to_frame(self):
        """Return a DataFrame with one row for each sample and each listed training sample.

        Returns
        -------
        pandas.DataFrame
            With columns "row", "prediction", "rank", "contribution", "share" and, unless they are
            None, "unit", "support" and "target".
        """
        import pandas as pd

        n_rows, n = self.contributions.shape
        columns = {
            "row": np.repeat(np.arange(n_rows), n),
            "prediction": np.repeat(self.predictions, n),
            "rank": np.tile(np.arange(n), n_rows),
            "contribution": self.contributions.ravel(),
            "share": self.shares.ravel(),
        }
        if self.units is not None:
            columns["unit"] = self.units.ravel()
        if self.support is not None and self.targets is not None:
            columns |= {"support": self.support.ravel(), "target": self.targets.ravel()}
        return pd.DataFrame(columns)


class ExplainMixin(Network):
    """Mixin: a network with centres that are training samples, and a readout."""

    @on_snapshot
    def explain(self, X, n=5, output=0):
        """Find the training samples with the largest contributions to each prediction.

        The score of a prediction is the sum over all units of activation times coefficient, plus an
        intercept. The centre of each unit is a training sample. Usually hundreds of units
        contribute: ``shares`` of the result are the shares of the listed samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or source
            As in `predict`.
        n : int, default=5
            Number of training samples for each prediction; at most the number of units.
        output : int, default=0
            Which column of y is explained, if there are several.

        Returns
        -------
        explanation : Explanation
            Arrays with the row numbers of the training samples, their targets, their
            contributions and shares, and the sum of all others. The score of the first of two
            classes is that of the second, times -1.

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
        >>> bool(0 < found.shares.sum() < 1)
        True
        """
        check_is_fitted(self)
        n = check_positive_integer("n", n)
        check_output(output, self._parts().target.n_columns)
        with self._open_prediction(X, "explain") as run:
            select, readout = run.parts.target.select_decision, run.parts.readout
            explainer = _Explainer(
                run, n, output, lambda rows, scores: select(scores, output, readout)
            )
            return explainer.explanation()

    def _explain_decision(
        self, X: Any, output: int, predictions: Any, columns: Any, signs: Any
    ) -> Explanation:
        """Explain given scores, with the contributions of all units.

        Those that decide the predictions of an ensemble; parameters are as returned by
        `TargetSpec.select_decision`.
        """

        def decide(rows, scores):
            return predictions[rows], columns[rows], signs[rows]

        with self._open_prediction(X, "explain") as run:
            return _Explainer(run, run.layer.n_units, output, decide).explanation()


class _Explainer:
    """Consumes tiles of H, and keeps the largest contributions for each sample.

    ``decide(rows, scores)`` returns the predictions of some rows, and the columns and signs of the
    scores that are explained, given all their scores.
    """

    def __init__(self, run, n, output, decide):
        self._parts, self._job, self._layer = run.parts, run.job, run.layer
        self._X, self._n, self._output = run.X, min(n, run.layer.n_units), output
        self._decide = decide
        readout, engine = self._parts.readout, self._job.engine
        W, dtype = readout.readout_coef_, self._layer.hidden_dtype
        self._intercept = readout.readout_intercept_
        self._predictor = readout.make_predictor(engine, dtype, self._parts.uses_nearest_unit)
        # Coefficients of regressors are in float64 and of any size. They are divided by the largest
        # of their output, so that products in the dtype of H neither overflow nor underflow.
        self._scale = np.abs(W).max(axis=1).astype(np.float64)
        self._scale[self._scale == 0] = 1.0
        self._W = engine.to_device((W / self._scale[:, None]).astype(dtype))
        n_rows, shape = len(self._X), (len(self._X), self._n)
        self._units, self._contributions = np.empty(shape, np.intp), np.empty(shape)
        self._rest, self._intercepts, self._total = np.empty((3, n_rows))
        self._predictions: Any = None

    def explanation(self) -> Explanation:
        stream(self._job, self._layer, self._X, self._consumer())
        find_nearest_units(
            self._job, self._layer, self._X, self._predictor.uncovered, self._take_nearest
        )
        units, centers = self._units, self._parts.units.support
        support = targets = None
        if centers is not None:
            center_targets = self._parts.target.center_targets(self._parts.units)
            center_targets = np.reshape(center_targets, (len(center_targets), -1))
            support, targets = centers[units], center_targets[:, self._output][units]
        return Explanation(
            self._predictions, units, support, targets, self._contributions, self._rest,
            self._intercepts, self._total,
        )  # fmt: skip

    def _consumer(self):
        (n_scores, m), itemsize = self._W.shape, self._layer.hidden_dtype.itemsize
        # The contributions, their absolute values, and the indices of `argpartition`.
        row_bytes = self._predictor.row_bytes + m * (2 * itemsize + 8)
        return Consumer(self._take, 2 * n_scores * m * itemsize, row_bytes)

    def _take(self, part, H):
        xp, to_host = self._job.engine.xp, self._job.engine.to_host
        columns, signs = self._store_predictions(part, self._predictor.scores(part, H))
        contributions = self._W[self._job.engine.to_device(columns)]
        contributions *= H
        size = xp.abs(contributions)
        units = xp.argpartition(size, -self._n, axis=1)[:, -self._n :]
        order = xp.argsort(-xp.take_along_axis(size, units, axis=1), axis=1)
        units = xp.take_along_axis(units, order, axis=1)
        largest = to_host(xp.take_along_axis(contributions, units, axis=1)).astype(np.float64)
        total = to_host(contributions.sum(axis=1, dtype=np.float64))
        total_size = to_host(size.sum(axis=1, dtype=np.float64))
        factors = signs * self._scale[columns]
        self._units[part] = to_host(units)
        self._contributions[part] = largest * factors[:, None]
        self._rest[part] = (total - largest.sum(axis=1)) * factors
        self._intercepts[part] = signs * self._intercept[columns]
        self._total[part] = total_size * np.abs(factors)

    def _store_predictions(self, rows, scores):
        """Store the predictions of some rows; return the columns and signs of their scores."""
        predictions, columns, signs = self._decide(rows, scores)
        if self._predictions is None:
            self._predictions = np.empty(len(self._rest), predictions.dtype)
        self._predictions[rows] = predictions
        return columns, signs

    def _take_nearest(self, rows, units):
        """Explain samples that no unit covers: the nearest unit contributes the whole score."""
        scores = self._parts.nearest_scores[units]
        columns, signs = self._store_predictions(rows, scores)
        # The nearest unit is listed once: it changes places with the first one.
        listed = self._units[rows]
        self._units[rows] = np.where(listed == units[:, None], listed[:, :1], listed)
        self._units[rows, 0] = units
        for array in (self._contributions, self._rest, self._intercepts):
            array[rows] = 0.0
        self._contributions[rows, 0] = signs * scores[np.arange(len(rows)), columns]
        self._total[rows] = np.abs(self._contributions[rows, 0])
