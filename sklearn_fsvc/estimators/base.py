"""What both classifiers are: validate, choose the layer, stream, solve, decide."""

from abc import abstractmethod
from copy import copy

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..engines import get_engine
from ..layers import DTYPES
from ..parameters import check_flag, penalties, unchanged_on_error
from ..readouts.calibration import calibrate, probabilities
from ..readouts.ridge import gather, leave_one_out
from ..readouts.statistics import warn_of
from ..rows.streaming import compute_dtype, keep_rows, n_synapses, stream
from ..rows.validation import check_rows, on_gpu, to_host

_NOT_CALIBRATED = "This %(name)s was not fitted with probability=True; fit it again."


class HiddenLayerClassifier(ClassifierMixin, BaseEstimator):
    """One hidden layer that is not trained, and a linear readout of it.

    Attributes
    ----------
    _unit_attributes : tuple of str
        Fitted attributes with a row for each unit.
    _shared_parameters : set of str
        Parameters of the ridge readout that leave the layer of the largest network as it
        is: other values need no other pass over the rows.
    _layer_needs_rows : bool
        Whether the layer depends on the training rows.
    """

    _unit_attributes: tuple
    _shared_parameters: frozenset
    _layer_needs_rows = True

    @abstractmethod
    def _check_parameters(self):
        """Raise for a constructor parameter that cannot be used."""

    @abstractmethod
    def _choose_layer(self, engine, X, codes, weight, max_memory):
        """The hidden layer, and the row numbers in the order of presentation, if any.

        Sets the fitted attributes that describe the layer.
        """

    @abstractmethod
    def _layer(self):
        """The layer that the fitted attributes describe."""

    def _check_readout(self):
        """Raise for a parameter of the ridge readout that cannot be used."""
        penalties(self.alpha)
        check_flag("probability", self.probability)

    @abstractmethod
    def _train(self, engine, layer, X, codes, weight, order, max_memory):
        """Coefficients (n_classes, n_units) and intercepts (n_classes,), in float64."""

    def fit(self, X, y, sample_weight=None):
        """Choose the hidden layer and train the readout.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            float32, float64 and uint8 are taken as they are, other dtypes become float64.
            A ``numpy.memmap`` is read tile by tile. With a GPU for `device`, X may be an
            array of CuPy, torch or another library of DLPack on it; so may y.
        y : array-like of shape (n_samples,)
            Class labels, of two classes or more.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows in the readout. A row of weight 0 is as good as absent.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For input or parameters that cannot be used; the estimator is left as it was.
        RuntimeError
            If ``device`` does not work here, with the reason.
        """
        with unchanged_on_error(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X, y, sample_weight):
        self._check_parameters()
        with get_engine(self.device, n_synapses(X, self.n_hidden)) as engine:
            self._fit_on(engine, X, y, sample_weight)

    def _fit_on(self, engine, X, y, sample_weight):
        for stale in ("alpha_", "alphas_", "loo_errors_", "calibrator_"):
            vars(self).pop(stale, None)
        X, codes, weight = self._prepare(engine, X, y, sample_weight)
        X, max_memory = keep_rows(engine, X, self.max_memory)
        layer, order = self._choose_layer(engine, X, codes, weight, max_memory)
        W, b = self._train(engine, layer, X, codes, weight, order, max_memory)
        self._set_readout(engine.to_host(W), engine.to_host(b), layer.hidden_dtype)

    def _prepare(self, engine, X, y, sample_weight):
        """Clean rows, class codes and row weights or None; sets `classes_` and `device_`."""
        X, y = self._check_rows_and_labels(engine, X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        weight = self._row_weights(X, codes, sample_weight)
        present = np.unique(codes if weight is None else codes[weight > 0])
        if len(present) < 2:
            raise ValueError(
                f"y holds one class, {self.classes_[present[0]]}, in rows of positive "
                "sample_weight; a classifier needs two or more."
            )
        self.device_ = engine.name
        return X, codes, weight

    def _set_readout(self, W, b, dtype):
        if not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise ValueError(self._diverged())
        self.coef_ = self._one_score_for_two(W, axis=0).astype(dtype)
        self.intercept_ = self._one_score_for_two(b, axis=0).astype(dtype)

    def _one_score_for_two(self, scores, axis=1):
        """Of two classes, the second one's score less the first one's."""
        return np.diff(scores, axis=axis) if len(self.classes_) == 2 else scores

    def _leading(self, n_units):
        """A copy with the first units of the layer, for another readout."""
        model = copy(self)
        for name in self._unit_attributes:
            setattr(model, name, getattr(self, name)[:n_units])
        return model

    def _check_rows_and_labels(self, engine, X, y):
        if not on_gpu(X):
            return validate_data(self, X, to_host(y), dtype=list(DTYPES))
        X = check_rows(self, engine, X, reset=True)
        y = column_or_1d(to_host(y), warn=True)
        check_consistent_length(range(len(X)), y)
        return X, y

    def _class_weights(self, codes):
        """One weight a class, in the order of `classes_`."""
        return compute_class_weight(
            self.class_weight, classes=self.classes_, y=self.classes_[codes]
        )

    def _row_weights(self, X, codes, sample_weight):
        if sample_weight is None and self.class_weight is None:
            return None
        weight = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        weight *= self._class_weights(codes)[codes]
        if not weight.any():
            raise ValueError("sample_weight and class_weight leave no row a weight above 0.")
        return weight

    def _diverged(self):
        return f"The readout of {type(self).__name__} is not finite; scale the features of X."

    def _train_ridge(self, engine, layer, X, codes, weight, max_memory):
        """Ridge readout; sets `alpha_`, and what leave-one-out says where it is needed."""
        alphas, is_chosen = penalties(self.alpha)
        data = engine, layer, X, codes, len(self.classes_), weight
        how = {"max_memory": max_memory, "verbose": self.verbose}
        name = f"{type(self).__name__} fit"
        if not (is_chosen or self.probability):
            (statistics,) = gather(engine, [layer], *data[2:], what=name, **how)
            self.alpha_, solution = alphas[0], statistics.solve(alphas[0])
        else:
            # A leverage is worth what H'H is worth in the directions of least variance.
            (statistics,) = gather(engine, [layer], *data[2:], dtype=float, what=name, **how)
            how["what"] = f"{name}, left out"
            found = leave_one_out(*data, statistics, alphas, self.probability, **how)
            self.alphas_, self.loo_errors_ = np.array(alphas), found.errors
            best = int(found.errors.argmin())
            self.alpha_, solution = alphas[best], found.solutions[best]
            if self.probability:
                if found.scores is None:  # of so many penalties there was no room for them
                    found = leave_one_out(*data, statistics, [self.alpha_], True, **how)
                    best = 0
                scores = self._one_score_for_two(found.scores[best])
                self._settle_outside(engine, layer, X, found.outside, scores.__setitem__)
                self.calibrator_ = calibrate(scores, codes, weight)
        warn_of(solution.problem)
        return solution.W, solution.b

    def decision_function(self, X):
        """Scores of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score, positive where the second is answered.
        """
        with self._entered(X) as engine:
            X = check_rows(self, engine, X, reset=False)
            layer = self._layer_for(X)
            scores = np.empty((len(X), len(self.coef_)), layer.hidden_dtype)
            self._stream_scores(engine, layer, X, scores.__setitem__)
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def predict(self, X):
        """The class with the largest score, the first one of equals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        with self._entered(X) as engine:
            X = check_rows(self, engine, X, reset=False)
            codes = np.empty(len(X), np.intp)

            def decide(part, scores):
                is_binary = scores.shape[1] == 1
                codes[part] = scores[:, 0] > 0 if is_binary else scores.argmax(axis=1)

            self._stream_scores(engine, self._layer_for(X), X, decide)
        return self.classes_[codes]

    def _check_calibrated(self):
        if not self.probability:
            raise AttributeError(
                f"probability={self.probability!r}: this {type(self).__name__} has no "
                "probabilities; fit it with probability=True."
            )
        return True

    @available_if(_check_calibrated)
    def predict_proba(self, X):
        """Probabilities of the classes, calibrated on leave-one-out decision values.

        Only with ``probability=True``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        check_is_fitted(self, "calibrator_", msg=_NOT_CALIBRATED)
        return probabilities(self.calibrator_, self.decision_function(X))

    @available_if(_check_calibrated)
    def predict_log_proba(self, X):
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X))

    def _entered(self, X):
        check_is_fitted(self)
        return get_engine(self.device, n_synapses(X, self.coef_.shape[1]))

    def _layer_for(self, X):
        layer = self._layer()
        return layer.astype(compute_dtype(layer.units.dtype, X.dtype))

    @abstractmethod
    def _stream_scores(self, engine, layer, X, consume):
        """``consume(rows, scores)`` until all rows have their scores (rows, scores)."""

    def _settle_outside(self, engine, layer, X, rows, consume):
        """``consume(rows, scores)`` for rows that no unit answers, where there may be such."""
        return None

    def _stream_layer(self, engine, layer, X, consume, rows=None):
        stream(
            engine, layer, X, consume, max_memory=self.max_memory, rows=rows,
            consumer_row_bytes=24 * (len(self.classes_) + 1),
            what=f"{type(self).__name__} predict", verbose=self.verbose,
        )  # fmt: skip
