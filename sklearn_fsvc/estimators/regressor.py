"""All that is about numbers: targets of one or several outputs, answers, their deviations."""

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ..availability import available_if
from ..parameters import check_flag
from ..readouts.posterior import Deviations
from ..rows.out import check_out, write
from ..rows.samples import Samples
from ..rows.streaming import Consumer
from ..rows.tiling import check_fits
from .lazy import lazy_on_dask
from .stream import StreamingPredictor
from .tails import caution_of_tails
from .targets import NumberTargets, as_numbers
from .turns import of_one_state

# Standard deviations; squares of what is farther away are not finite.
_FARTHEST = 1e100


class HiddenLayerRegressor(MultiOutputMixin, RegressorMixin, StreamingPredictor):
    """One hidden layer that is not trained, and a linear readout for each output."""

    def _check_parameters(self):
        super()._check_parameters()
        check_flag("uncertainty", self.uncertainty)

    def fit(self, X, y=None, sample_weight=None):
        """Choose the hidden layer and train the readout.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            float32, float64 and uint8 are taken as they are, other dtypes become float64.
            A ``numpy.memmap`` is read tile by tile. With a GPU for `device`, X may be an
            array of CuPy, torch or another library of DLPack on it; so may y.

            Tanh units take sparse matrices and arrays of SciPy, which become CSR, and are never
            dense as a whole; all others refuse them. Answers are those of the same rows, dense,
            to rounding.

            A source is never in memory as a whole. It is a data set of h5py, an array of
            zarr, or anything else with `shape`, `dtype` and slices; or a function without
            arguments that returns, each time, a fresh iterable of chunks of rows:
            ``X``, ``(X, y)``, ``(X, y, sample_weight)``, or tables of Arrow, pandas or polars.
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

    @available_if(StreamingPredictor._may_stream)
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

    def _know_targets(self, X, y, sample_weight, classes, is_first):
        y = as_numbers(y)
        lender = self._lender
        if isinstance(lender, HiddenLayerRegressor) and lender.target_mean_.shape == y.shape[1:]:
            self.target_mean_, self.target_scale_ = lender.target_mean_, lender.target_scale_
            return
        targets = NumberTargets.of(y.reshape(len(y), -1), self._row_weights(X, sample_weight))
        vars(self).update(_moments(targets, y.shape[1:]))

    def _samples_of(self, X, y, sample_weight):
        y, mean, scale = as_numbers(y), self.target_mean_, self.target_scale_
        if y.shape[1:] != mean.shape:
            raise ValueError(
                f"y has shape {y.shape}, and in the first call to partial_fit a row of it had "
                f"{mean.shape}."
            )
        weight = self._row_weights(X, sample_weight)
        values = ((y - mean) / scale).reshape(len(y), -1)
        if not (np.abs(values) < _FARTHEST).all():
            raise ValueError(
                f"y holds numbers more than {_FARTHEST:g} standard deviations from the first rows."
            )
        return Samples(X, NumberTargets(values, mean, scale), weight)

    def _check_same_targets(self, other, name):
        for moment in ("target_mean_", "target_scale_"):
            there, here = getattr(other, moment), getattr(self, moment)
            if not np.array_equal(there, here):
                raise ValueError(
                    f"{name} has {moment}={there!r}, and this model {here!r}: sums of y in other "
                    "units do not add up. Lend all models layer=FrozenEstimator(regressor), whose "
                    "units they take."
                )

    def _name_of_output(self, k):
        return f"column {k} of y"

    def _prepare(self, engine, X, y, sample_weight):
        """Clean `Samples`; sets `target_mean_`, `target_scale_` and `device_`."""
        X, y = self._clean(engine, X, y)
        y, weight = as_numbers(y), self._row_weights(X, sample_weight)
        targets = NumberTargets.of(y.reshape(len(y), -1), weight)
        caution_of_tails(type(self).__name__, targets, weight)
        vars(self).update(_moments(targets, y.shape[1:]))
        self.device_ = engine.name
        return self._present(Samples(X, targets, weight))

    def _of_rows_alone(self, samples, rows):
        targets = NumberTargets.of(samples.targets.numbers(rows), samples.weight_of(rows))
        return _moments(targets, self.target_mean_.shape)

    def _keep_readout(self, W, b, dtype):
        """In float64, for y may be of any size."""
        scale, mean = np.atleast_1d(self.target_scale_), np.atleast_1d(self.target_mean_)
        self.readout_coef_ = W * scale[:, None]
        self.readout_intercept_ = b * scale + mean

    @property
    def _wants_posterior(self):
        return self.uncertainty

    def _take_posterior(self, engine, posterior, samples):
        root, mean, noise = map(engine.to_host, (posterior.root, posterior.mean, posterior.noise))
        noise = noise * samples.targets.scale
        self.posterior_ = posterior._replace(root=root, mean=mean, noise=noise)

    def _answers(self, scores):
        return scores.reshape(len(scores), *self.target_mean_.shape)

    def _answers_to_none(self, name, dtype, return_std=False):
        """What a method gives for no rows."""
        empty = self._answers(np.empty((0, len(self.readout_coef_))))
        return (empty, empty) if return_std else empty

    @of_one_state
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
        if return_std and not hasattr(self, "posterior_"):
            self._refuse_deviations()
        with self._asked(X, "predict") as (job, layer, X):
            shape = len(X), *self.target_mean_.shape
            values = np.empty(shape) if out is None else out
            check_out(values, shape, np.float64)
            deviations = np.empty((len(X), len(self.readout_coef_))) if return_std else None

            def meter(job):
                return self._meter(job, layer, deviations)

            def take(part, scores):
                write(values, part, self._answers(scores))

            self._stream_scores(job, layer, X, take, meter if return_std else None)
        return _Banded((values, self._answers(deviations))) if return_std else values

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
        return self._scored(X, y, sample_weight)

    def _score_of(self, answers, y, sample_weight):
        return r2_score(y, answers, sample_weight=sample_weight)

    def _meter(self, job, layer, deviations):
        """The `Consumer` that fills in standard deviations."""
        readout = Deviations(job.engine, self.posterior_, layer.hidden_dtype)
        check_fits("return_std=True", readout.fixed_bytes, job.memory_limit)

        def take(part, H):
            deviations[part] = readout.of(H)

        return Consumer(take, readout.fixed_bytes, readout.row_bytes)

    def _refuse_deviations(self):
        check_is_fitted(self)
        raise ValueError(
            f"return_std=True needs a fit with uncertainty=True, and this {type(self).__name__} "
            f"was fitted without; set uncertainty=True (it is {self.uncertainty!r}) and fit again."
        )


class _Banded(tuple):
    """(y, y_std), which says what to do to whoever takes it for an array of answers."""

    __slots__ = ()

    @property
    def ndim(self):
        raise AttributeError(
            "return_std=True gives (y, y_std), and a transformed y has no y_std in its own unit. "
            "Ask the regressor inside, TransformedTargetRegressor.regressor_.predict(X, "
            "return_std=True), and transform the ends of the interval, y - 2 * y_std and "
            "y + 2 * y_std, back."
        )


def _moments(targets, shape):
    """Fitted attributes that say what y was divided by, in the shape of one answer."""
    mean, scale = targets.mean.reshape(shape), targets.scale.reshape(shape)
    return {"target_mean_": mean, "target_scale_": scale}
