"""What regressors can be asked: their public methods. What they do is in `network`."""

from functools import partial

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..data.dask_blocks import lazy_on_dask
from ..data.streaming import Consumer
from ..data.tiling import check_fits
from ..readouts.linear import Deviations
from ..utils.availability import available_if
from ..utils.parameters import check_flag
from .incremental import Online
from .state import on_snapshot


class RegressorMethods(MultiOutputMixin, RegressorMixin):
    """What a fitted regressor can be asked, be it a network or an ensemble of them."""

    def score(self, X, y=None, sample_weight=None):
        """Return R^2 of the predictions, the mean over outputs, as scikit-learn's regressors do.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
            As of `fit`.
        sample_weight : array-like of shape (n_samples,) or str, optional

        Returns
        -------
        float
        """
        return self._score(X, y, sample_weight)


class NetworkRegressor(RegressorMethods, Online):
    """A network whose task is `NumericTarget`."""

    def fit(self, X, y=None, sample_weight=None):
        """Choose the hidden layer and train the readout.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            As of `RBFClassifier.fit`. float32, float64 and uint8 are taken as they are, other
            dtypes become float64. Tanh units alone take sparse matrices. A source, which is never
            in memory as a whole, is a data set of h5py or zarr, or a function that returns a
            fresh iterable of chunks of rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers of any dtype; they are taken in float64. Neither their unit nor their
            origin makes a difference. None where the chunks of X hold it; of tables, the
            name of its column.
        sample_weight : array-like of shape (n_samples,) or str, optional
            Weights of the rows in the readout. A row of weight 0 is as good as absent. Of
            tables, the name of a column. Other columns are features.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For input or parameters that cannot be used; the estimator is left as it was.
        RuntimeError
            If ``device`` does not work here, with the reason.

        Warns
        -----
        UserWarning
            Of a y whose few large values decide the fit, with the transform to fit it by.
        """
        return self._fit(X, y, sample_weight)

    @available_if(Online._supports_partial_fit)
    def partial_fit(self, X, y, sample_weight=None):
        """Learn from more rows.

        As `RBFClassifier.partial_fit`. Mean and scale of y are those of the first rows, or of
        the regressor that lends its layer, and stay; to the readout they make no difference.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            If parameters need all rows again: `alpha` of several or "loo", and
            ``uncertainty=True``.
        ValueError
            For input that cannot be used; the estimator is left as it was.

        Warns
        -----
        UserWarning
            After `fit`, which keeps no sums: its layer is kept, and its rows are forgotten.
        """
        return self._partial_fit(X, y, sample_weight)

    @on_snapshot
    @lazy_on_dask
    def predict(self, X, return_std=False, out=None):
        """Predict numbers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            As of `fit`; y in chunks of a function is not looked at.
        return_std : bool, default=False
            Whether to return standard deviations too; only with ``uncertainty=True``.
        out : array-like of the shape of y, optional
            Where y goes: an array, a ``numpy.memmap``, or a data set of h5py or zarr. After
            an error it may hold some of it.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs), float64, or `out`
        y_std : ndarray of the same shape, float64
            Standard deviation of a new y around the prediction, its noise included: the readout
            as a Bayesian linear model of the hidden layer, with the noise that leave-one-out
            residuals have. Only if `return_std`.
        """
        check_flag("return_std", return_std)
        if not return_std:
            return self._compute_output(X, "predict", out)
        if not hasattr(self, "posterior_"):
            self._refuse_deviations()
        with self._open_prediction(X, "predict") as run:
            std = np.empty((len(run.X), len(self.readout_coef_)))
            make_consumer = partial(_std_consumer, self.posterior_, run.layer.hidden_dtype, std)
            y = run.output("predict", out, make_consumer)
            return _PredictionWithStd((y, run.parts.task.format_output("predict", std, None)))

    def _empty_output(self, method, dtype, **options):
        empty = super()._empty_output(method, dtype)
        return (empty, empty) if options.get("return_std") else empty

    def _refuse_deviations(self):
        check_is_fitted(self)
        raise ValueError(
            f"return_std=True needs a fit with uncertainty=True, and this {type(self).__name__} "
            f"was fitted without; set uncertainty=True (it is {self.uncertainty!r}) and fit again."
        )

    def __sklearn_tags__(self):
        return self._parts().units.tagged(super().__sklearn_tags__())


def _std_consumer(posterior, dtype, std, job):
    """Return the `Consumer` of a job that writes standard deviations (n_samples, n_outputs)."""
    readout = Deviations(job.engine, posterior, dtype)
    check_fits("return_std=True", readout.fixed_bytes, job.memory_limit)

    def take(rows, H):
        std[rows] = readout.of(H)

    return Consumer(take, readout.fixed_bytes, readout.row_bytes)


class _PredictionWithStd(tuple):
    """(y, y_std); `ndim`, which `TransformedTargetRegressor` reads, raises with the remedy."""

    __slots__ = ()

    @property
    def ndim(self):
        raise AttributeError(
            "return_std=True gives (y, y_std), and a transformed y has no y_std in its own unit. "
            "Ask the regressor inside, TransformedTargetRegressor.regressor_.predict(X, "
            "return_std=True), and transform the ends of the interval, y - 2 * y_std and "
            "y + 2 * y_std, back."
        )
