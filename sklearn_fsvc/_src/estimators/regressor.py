"""The public methods of regressors."""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..data.dask_blocks import lazy_on_dask
from ..data.memory import check_fits
from ..data.streaming import Consumer
from ..readouts.linear import Deviations, Posterior
from ..utils.availability import available_if
from ..utils.parameters import check_bool
from .partial_fit import IncrementalNetwork
from .state import on_snapshot
from .validation_set import ValidationSet


class RegressorMethods(MultiOutputMixin, RegressorMixin):
    """Mixin: the methods of a fitted regressor, a single network or a stacked ensemble."""

    _score: Callable[..., float]

    def score(self, X, y=None, sample_weight=None):
        """Return R^2 of the predictions, the mean over outputs, as scikit-learn's regressors do.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
            As in `fit`.
        sample_weight : array-like of shape (n_samples,) or str, optional

        Returns
        -------
        float
        """
        return self._score(X, y, sample_weight)


class NetworkRegressor(RegressorMethods, IncrementalNetwork):
    """Base of regressors with one hidden layer, whose target specification is `NumericTarget`."""

    # Fitted attributes of the target specification and the readout.
    target_mean_: Any
    target_scale_: Any
    posterior_: Posterior

    def fit(
        self, X, y=None, sample_weight=None, groups=None, *, X_val=None, y_val=None,
        sample_weight_val=None,
    ):  # fmt: skip
        """Choose the hidden layer and train the readout.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            As in `RBFClassifier.fit`. float32, float64 and uint8 are not converted, other
            dtypes are converted to float64. Only tanh units accept sparse matrices. A source,
            which is never in memory as a whole, is a dataset of h5py or zarr, or a function that
            returns a new iterable of chunks on each call.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers of any dtype, converted to float64. The fit does not depend on their unit or
            origin. None if the chunks of X contain it; for tables, the name of its column.
        sample_weight : array-like of shape (n_samples,) or str, optional
            Weights of the samples in the readout. A weight of 0 has the effect of removing the
            sample. For tables, the name of a column. All other columns are features.
        groups : array-like of shape (n_samples,), optional
            Group of each sample, such as its patient: hyperparameters that are "auto" are validated
            on other groups. With metadata routing it is requested by default.
        X_val : {array-like, sparse matrix} of shape (n_val, n_features), or source, optional
            Validation set, in place of a hold-out set drawn from X. It validates hyperparameters
            that are "auto"; nothing is fitted to it. In a
            `Pipeline`, ``transform_input=["X_val"]`` transforms it as X.
        y_val : array-like of shape (n_val,) or (n_val, n_outputs), optional
            Their targets, in the form of y.
        sample_weight_val : array-like of shape (n_val,), optional
            Their weights in validation errors.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid data or parameters; the estimator is not changed.
        RuntimeError
            If ``device`` does not work on this machine, with the reason.

        Warns
        -----
        UserWarning
            If y has a heavy tail, so that few large values dominate the squared error, unless it
            is transformed by `target_transform`.
        """
        validation = ValidationSet.from_arguments(X_val, y_val, sample_weight_val)
        return self._fit(X, y, sample_weight, groups, validation)

    @available_if(IncrementalNetwork._supports_partial_fit)
    def partial_fit(self, X, y, sample_weight=None):
        """Train incrementally on a batch of samples.

        As `RBFClassifier.partial_fit`: samples are buffered until there are enough to choose the
        hidden layer. Mean and scale of y are those of these samples, or of the regressor whose
        layer is used; predictions do not depend on them.

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
            For parameters that need several passes over all samples: several values of `alpha`
            or "loo", and ``uncertainty=True``.
        ValueError
            For invalid data; the estimator is not changed.

        Warns
        -----
        UserWarning
            After `fit`, which keeps no sums: its layer is kept, and its samples are forgotten.
        """
        return self._partial_fit(X, y, sample_weight)

    @on_snapshot
    @lazy_on_dask
    def predict(self, X, return_std=False, out=None):
        """Predict the target of each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            As in `fit`; y in the chunks of a function is ignored.
        return_std : bool, default=False
            Whether to return standard deviations too; only with ``uncertainty=True``.
        out : array-like of the shape of y, optional
            Where the predictions are written: an array, a ``numpy.memmap``, or a dataset of h5py
            or zarr. After an error it may contain some of them.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs), float64, or `out`
        y_std : ndarray of the same shape, float64
            Standard deviations of the predictive distribution of y, including its noise. The
            readout is a Bayesian linear model of the activations, and the variance of the noise
            is that of the leave-one-out residuals. Only if `return_std`.
        """
        check_bool("return_std", return_std)
        if not return_std:
            return self._compute_output(X, "predict", out)
        if not hasattr(self, "posterior_"):
            self._raise_no_posterior()
        with self._open_prediction(X, "predict") as run:
            std = np.empty((len(run.X), len(self.readout_coef_)))
            make_consumer = partial(_std_consumer, self.posterior_, run.layer.hidden_dtype, std)
            y = run.output("predict", out, make_consumer)
            return _PredictionWithStd((y, run.parts.task.format_output("predict", std, None)))

    def _empty_output(self, method, dtype, **options):
        empty = super()._empty_output(method, dtype)
        return (empty, empty) if options.get("return_std") else empty

    def _raise_no_posterior(self) -> NoReturn:
        check_is_fitted(self)
        raise ValueError(
            f"return_std=True needs a fit with uncertainty=True, and this {type(self).__name__} "
            f"was fitted without; set uncertainty=True (it is {self.uncertainty!r}) and fit again."
        )

    def __sklearn_tags__(self):
        return self._parts().units.with_tags(super().__sklearn_tags__())


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
            "return_std=True returns (y, y_std), and a transformed y has no y_std in its own unit. "
            "Call the regressor inside, TransformedTargetRegressor.regressor_.predict(X, "
            "return_std=True), and transform the ends of the interval, y - 2 * y_std and "
            "y + 2 * y_std, back."
        )
