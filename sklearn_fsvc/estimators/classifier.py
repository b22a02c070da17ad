"""All that is about classes: labels, their weights, decisions, probabilities."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..layers import DTYPES
from ..parameters import check_flag
from ..readouts.calibration import fit_temperature, probabilities
from ..rows.samples import Samples
from ..rows.validation import check_rows, is_elsewhere, to_host
from .predictor import HiddenLayerPredictor
from .targets import ClassTargets

_NOT_CALIBRATED = "This %(name)s was not fitted with probability=True; fit it again."


class HiddenLayerClassifier(ClassifierMixin, HiddenLayerPredictor):
    """One hidden layer that is not trained, and a linear readout with a score a class."""

    def _check_parameters(self):
        super()._check_parameters()
        check_flag("probability", self.probability)

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
        return self._fit(X, y, sample_weight)

    def _prepare(self, engine, X, y, sample_weight):
        """Clean `Samples`; sets `classes_` and `device_`."""
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
        return self._present(Samples(X, ClassTargets(codes, len(self.classes_)), weight))

    def _check_rows_and_labels(self, engine, X, y):
        if not is_elsewhere(X):
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

    def _class_targets(self, labels):
        """`ClassTargets` of rows with known labels."""
        return ClassTargets(np.searchsorted(self.classes_, labels), len(self.classes_))

    def _scores_of(self, outputs, axis=1):
        """Of two classes one score: the second one's less the first one's."""
        return np.diff(outputs, axis=axis) if len(self.classes_) == 2 else outputs

    @property
    def _wants_press_scores(self):
        return self.probability

    def _take_press_scores(self, scores, samples):
        self.temperature_ = fit_temperature(scores, samples.targets.codes, samples.weight)

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
        with self._asked(X, "predict") as (job, layer, X):
            scores = np.empty((len(X), len(self.readout_coef_)), layer.hidden_dtype)
            self._stream_scores(job, layer, X, scores.__setitem__)
        return scores[:, 0] if len(self.readout_coef_) == 1 else scores

    def predict(self, X):
        """The class with the largest score, the first one of equals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        with self._asked(X, "predict") as (job, layer, X):
            codes = np.empty(len(X), np.intp)

            def decide(part, scores):
                is_binary = scores.shape[1] == 1
                codes[part] = scores[:, 0] > 0 if is_binary else scores.argmax(axis=1)

            self._stream_scores(job, layer, X, decide)
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
        check_is_fitted(self, "temperature_", msg=_NOT_CALIBRATED)
        return probabilities(self.temperature_, self.decision_function(X))

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
