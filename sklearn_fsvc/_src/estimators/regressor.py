"""The public methods of regressors."""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..data.memory_plan import check_fits
from ..data.streaming import Consumer
from ..parts.base import UNSET
from ..readouts.linear import Posterior, StdPredictor
from ..utils.availability import available_if
from ..utils.docstrings import fill_docstring
from ..utils.parameters import check_bool, check_confidence_level
from .partial_fit import IncrementalNetwork
from .prediction import lazy_on_dask
from .shared_docs import FIT
from .state import on_snapshot
from .validation_set import ValidationSet

# Default of `predict_quantiles`.
_QUANTILES = (0.05, 0.5, 0.95)


class RegressorMethods(MultiOutputMixin, RegressorMixin):
    """Mixin: the methods of a fitted regressor, a single network or a stacked ensemble."""

    _score: Callable[..., float]
    # ``_predict_quantiles(X, probabilities, level=None)`` returns an array (n_samples, ...,
    # n_quantiles); with a confidence level, two quantiles are extended to a frequent value of y.
    _predict_quantiles: Callable[..., npt.NDArray]

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

    @on_snapshot
    @lazy_on_dask
    def predict_interval(self, X, confidence_level=0.9):
        """Predict intervals that contain the target of a new sample with a given probability.

        The ends are the quantiles ``(1 - confidence_level) / 2`` and
        ``(1 + confidence_level) / 2`` of `predict_quantiles`. If more than ``1 - confidence_level``
        of y are equal, an interval that just misses this value is extended to it. If at least
        `confidence_level` of y are, so is one that does not contain the prediction, unless the
        prediction is nearer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            As in `fit`.
        confidence_level : float, default=0.9
            Probability of the interval, between 0 and 1.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2), float64
            Lower and upper end.

        Raises
        ------
        ValueError
            As `predict_quantiles`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_fsvc import TanhRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, size=(1000, 1))
        >>> y = np.sin(3 * X[:, 0]) + (1 + X[:, 0]) * rng.normal(size=1000)  # more noise at 1
        >>> model = TanhRegressor(50, random_state=0).fit(X[:500], y[:500])
        >>> low, high = model.predict_interval(X[500:]).T
        >>> bool(0.85 < np.mean((low <= y[500:]) & (y[500:] <= high)) < 0.95)
        True
        >>> low, high = model.predict_interval([[-0.9], [0.9]]).T
        >>> bool(high[1] - low[1] > 4 * (high[0] - low[0]))
        True
        """
        return self._predict_quantiles(X, _interval_ends(confidence_level), confidence_level)

    @on_snapshot
    @lazy_on_dask
    def predict_quantiles(self, X, quantiles=_QUANTILES):
        """Predict quantiles of the target of each sample.

        Leave-one-out residuals of training samples, or residuals of `X_val`, are divided by their
        local scale, which a ridge regression of ``log |residual|`` on activations and predictions
        estimates. A quantile is the prediction plus the scale at the sample times that quantile of
        these ratios [1]_ [2]_.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            As in `fit`.
        quantiles : float or array-like of shape (n_quantiles,), default=(0.05, 0.5, 0.95)
            Probabilities between 0 and 1, in any order. Beyond 1 / (n + 1) and n / (n + 1) for n
            residuals, the smallest and the largest of them take the place of quantiles.

        Returns
        -------
        y : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_outputs, n_quantiles), \
float64
            Without the last axis if `quantiles` is a number. Quantiles of larger probabilities are
            never smaller. With `target_transform` they are quantiles of the transformed y,
            transformed back, within the range of y in `fit`.

        Raises
        ------
        TypeError, ValueError
            For invalid `quantiles`, and if there are no residuals: for models that an earlier
            version saved, if each sample determines its own prediction, and if there is a single
            sample, or a single one in `X_val`.

        References
        ----------
        .. [1] R. F. Barber, E. J. Candes, A. Ramdas and R. J. Tibshirani, "Predictive inference
           with the jackknife+", Annals of Statistics 49 (2021).
        .. [2] J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, "Distribution-free
           predictive inference for regression", Journal of the American Statistical Association
           113 (2018), section 5.2.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_fsvc import TanhRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, size=(1000, 2))
        >>> y = X[:, 0] + rng.exponential(size=1000)
        >>> model = TanhRegressor(50, random_state=0).fit(X, y)
        >>> low, median, high = model.predict_quantiles(X, [0.1, 0.5, 0.9]).T
        >>> bool(np.mean(high - median) > 1.5 * np.mean(median - low))
        True
        """
        probabilities = check_quantiles(quantiles)
        y = self._predict_quantiles(X, np.atleast_1d(probabilities))
        return y if probabilities.ndim else y[..., 0]

    def _empty_output(self, method, dtype, **options):
        # For Dask, of estimators that have this method.
        empty = super()._empty_output("predict", dtype)  # type: ignore[misc]
        if method == "predict_interval":
            probabilities = _interval_ends(**options)
        elif method == "predict_quantiles":
            probabilities = check_quantiles(options.get("quantiles", _QUANTILES))
        else:
            return empty
        return np.empty((*empty.shape, *probabilities.shape))

    def _check_residuals(self, distribution):
        """Return the residual distribution; raise if the fit has left none."""
        if distribution is None:
            raise ValueError(
                f"This {type(self).__name__} has the residual of 1 sample, and quantiles are "
                "predicted from the residuals of at least 2. Fit it with at least 2 samples, and "
                "with at least 2 in X_val if that is given."
            )
        if distribution is not UNSET:
            return distribution
        check_is_fitted(self)
        raise ValueError(
            f"This {type(self).__name__} has no leave-one-out residuals, from which quantiles are "
            "predicted: its penalty is so small that each sample determines its own prediction. "
            'Fit it again, if it has the parameter alpha with alpha="auto" or a larger number.'
        )


class NetworkRegressor(RegressorMethods, IncrementalNetwork):
    """Base of regressors with one hidden layer, whose target specification is `NumericTarget`."""

    # Fitted attributes of the target specification and the readout.
    target_mean_: Any
    target_scale_: Any
    posterior_: Posterior

    @fill_docstring(FIT)
    def fit(
        self, X, y=None, sample_weight=None, groups=None, *, X_val=None, y_val=None,
        sample_weight_val=None,
    ):  # fmt: skip
        """Choose the hidden layer and train the readout.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source
            As in `RBFClassifier.fit`. float32, float64 and arrays of uint8 are not converted, other
            dtypes and tables of uint8 are converted to float64. Only tanh units accept sparse
            matrices. A source, which is never in memory as a whole, is a dataset of h5py or zarr,
            or a function that returns a new iterable of chunks on each call.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets of any numeric dtype, converted to float64. The fit does not depend on their
            unit or origin. None if the chunks of X contain it; for tables, the name of its column.
        %(sample_weight)s
        %(groups)s
        %(X_val)s
        %(y_val)s
        %(sample_weight_val)s

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            For invalid data or parameters, such as sparse X if units are not tanh units; the
            estimator is not changed.
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
            Samples of weight 0 are ignored, also if all weights of a batch are 0.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            For parameters that need several passes over all samples: several values of `alpha`
            or "loo", ``uncertainty=True``, and a `target_transform`.
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
            return _PredictionWithStd((y, run.parts.target.format_output("predict", std, None)))

    def _empty_output(self, method, dtype, **options):
        empty = super()._empty_output(method, dtype, **options)
        return (empty, empty) if options.get("return_std") else empty

    def _predict_quantiles(self, X, probabilities, level=None):
        distribution = self._check_residuals(self._parts().readout.residual_distribution_)
        with self._open_prediction(X, "predict") as run:
            target = run.parts.target
            scores = np.empty((len(run.X), len(distribution.intercept)))
            scale = np.empty_like(scores)

            def consume(rows, values):
                scores[rows] = values

            def make_consumer(job):
                def take(rows, H):
                    first = job.engine.to_host(H[:, : distribution.n_units])
                    scale[rows] = distribution.scale(first, target.standardise(scores[rows]))

                return Consumer(take, row_bytes=24 * len(distribution.coef))

            run.scores(consume, make_consumer)
        mode = None if level is None else distribution.frequent_mode(level)
        quantiles = distribution.quantiles(probabilities)
        return target.format_quantiles(scores, scale, quantiles, mode)

    def _raise_no_posterior(self) -> NoReturn:
        check_is_fitted(self)
        raise ValueError(
            f"return_std=True needs a fit with uncertainty=True, and this {type(self).__name__} "
            f"was fitted without; set uncertainty=True (it is {self.uncertainty!r}) and fit again."
        )

    def __sklearn_tags__(self):
        return self._parts().units.with_tags(super().__sklearn_tags__())


def _interval_ends(confidence_level=0.9):
    """Return the probabilities of the ends of an interval."""
    level = check_confidence_level(confidence_level)
    return np.array([(1 - level) / 2, (1 + level) / 2])


def check_quantiles(quantiles: Any) -> npt.NDArray[np.float64]:
    """Return the probabilities as an array, without axis for a number, if between 0 and 1."""
    array = np.asarray(quantiles)
    if array.ndim > 1 or not array.size or array.dtype.kind not in "fiu":
        raise ValueError(
            f"quantiles={quantiles!r} must be a number or a sequence of them, such as [0.1, 0.9]."
        )
    if not ((array > 0) & (array < 1)).all():
        raise ValueError(f"quantiles={quantiles!r} must be between 0 and 1.")
    return array.astype(np.float64)


def _std_consumer(posterior, dtype, std, job):
    """Return the `Consumer` of a job that writes standard deviations (n_samples, n_outputs)."""
    predictor = StdPredictor(job.engine, posterior, dtype)
    check_fits("return_std=True", predictor.fixed_bytes, job.memory_limit)

    def take(rows, H):
        std[rows] = predictor.std(H)

    return Consumer(take, predictor.fixed_bytes, predictor.row_bytes)


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
