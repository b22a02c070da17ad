"""Probabilities from decision values, by scikit-learn's calibration."""

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV


class _Given(ClassifierMixin, BaseEstimator):
    """A classifier whose decision values are the rows it is given, less their means.

    Means do not matter to a softmax, but scores that sum to 1 and happen to lie between 0
    and 1 would be taken for probabilities.
    """

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0] if X.shape[1] == 1 else X - X.mean(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0) * 1 if X.shape[1] == 1 else X.argmax(axis=1)]


def calibrate(scores, codes, weight=None):
    """What turns decision values into probabilities.

    By one temperature for all classes (Guo et al. 2017, "On Calibration of Modern Neural
    Networks"), so that the order of the classes stays.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes), or (n_samples, 1) for two classes
        Decision values of rows that the readout has not seen.
    codes : ndarray of int of shape (n_samples,)
        Numbers of the classes, from 0, with all of them. Not labels, which scikit-learn
        1.8 and 1.9 would take for numbers of columns.
    weight : ndarray of shape (n_samples,), optional

    Returns
    -------
    calibrator : CalibratedClassifierCV
        Fitted; its `predict_proba` takes such scores.
    """
    # One split that fits on all rows and predicts them: the scores are held out already.
    rows = np.arange(len(codes))
    calibrator = CalibratedClassifierCV(
        _Given(), method="temperature", cv=[(rows, rows)], ensemble=False
    )
    with config_context(enable_metadata_routing=False):
        calibrator.fit(scores.astype(np.float64), codes, sample_weight=weight)
    calibrator.cv = None  # a model should not keep the rows of its training
    return calibrator


def probabilities(calibrator, scores):
    """What the calibrator makes of decision values, in float64."""
    scores = scores.astype(np.float64)
    return calibrator.predict_proba(scores.reshape(len(scores), -1))
