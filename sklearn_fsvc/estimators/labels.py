"""Classes of one or several outputs: their codes, scores, decisions and probabilities."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from ..readouts.calibration import fit_temperature, probabilities
from .targets import ClassTargets, SeveralTargets


@dataclass(frozen=True, eq=False)
class Labels:
    """What y is made of, and how scores become y.

    Each output has a score for each of its classes, or one score if there are two: that of
    the second class less that of the first.

    Parameters
    ----------
    classes : ndarray, or list of ndarray
        Of the output, or of each of several; of an indicator, the numbers of the labels.
    is_indicator : bool
        Whether y is 0 and 1 for each of several labels, which are outputs then.
    """

    classes: object
    is_indicator: bool = False

    @classmethod
    def of(cls, y):
        """The labels of y, as scikit-learn's check of y leaves it, and their codes.

        Returns
        -------
        labels : Labels
        codes : ndarray of int of shape (n_rows, n_outputs)
        """
        check_classification_targets(y)
        is_of_two = type_of_target(y) == "multilabel-indicator"  # of any two numbers
        y = y.toarray() if issparse(y) else np.asarray(y)
        if is_of_two and np.isin(y, (0, 1)).all():
            return cls(np.arange(y.shape[1]), True), y.astype(np.intp)
        is_several = y.ndim == 2 and y.shape[1] > 1
        columns = y.T if is_several else [column_or_1d(y, warn=True)]
        found = [np.unique(column, return_inverse=True) for column in columns]
        classes = [each for each, _ in found]
        codes = np.column_stack([codes for _, codes in found])
        return cls(classes if is_several else classes[0]), codes

    @property
    def is_single(self):
        """Whether y has one label for each row."""
        return isinstance(self.classes, np.ndarray) and not self.is_indicator

    @property
    def each(self):
        """The classes of each output."""
        if self.is_indicator:
            return [np.arange(2)] * len(self.classes)
        return [self.classes] if self.is_single else self.classes

    def targets(self, codes):
        """What a readout needs to know of rows with these codes."""
        parts = [ClassTargets(c, len(k)) for c, k in zip(codes.T, self.each, strict=True)]
        return parts[0] if self.is_single else SeveralTargets(tuple(parts), self.is_indicator)

    def scores_of(self, outputs, axis=1):
        """Scores of the outputs of a readout, of which there is one for each class."""
        if self.is_single:
            return _compared(outputs, axis)
        ends = np.cumsum([len(classes) for classes in self.each])[:-1]
        parts = np.split(outputs, ends, axis)
        return np.concatenate([_compared(part, axis) for part in parts], axis)

    def split(self, scores):
        """The scores (rows, n_scores) of each output."""
        sizes = [1 if len(classes) == 2 else len(classes) for classes in self.each]
        return np.split(scores, np.cumsum(sizes)[:-1], axis=1)

    def codes_of(self, scores):
        """Of the classes with the largest scores (rows, n_outputs), the first one of equals."""
        parts = self.split(scores)
        return np.column_stack([p[:, 0] > 0 if p.shape[1] == 1 else p.argmax(1) for p in parts])

    def decode(self, codes):
        """y of codes (rows, n_outputs)."""
        columns = [k[c.astype(np.intp)] for k, c in zip(self.each, codes.T, strict=True)]
        return columns[0] if self.is_single else np.column_stack(columns)

    def told(self, scores):
        """Decision values in scikit-learn's shapes."""
        if self.is_indicator:
            return scores
        parts = [p[:, 0] if p.shape[1] == 1 else p for p in self.split(scores)]
        return parts[0] if self.is_single else parts

    def temperatures(self, scores, codes, weight):
        """One for each output, by the scores of rows that the readout has not seen."""
        pairs = zip(self.split(scores), codes.T, strict=True)
        found = [fit_temperature(part, own, weight) for part, own in pairs]
        return found[0] if self.is_single else np.array(found)

    def probabilities(self, scores, temperatures):
        """Of the classes in scikit-learn's shapes; of an indicator, those of the ones."""
        pairs = zip(np.atleast_1d(temperatures), self.split(scores), strict=True)
        found = [probabilities(temperature, part) for temperature, part in pairs]
        if self.is_indicator:
            return np.column_stack([each[:, 1] for each in found])
        return found[0] if self.is_single else found


def _compared(outputs, axis):
    """Of two classes one score: the second one's less the first one's."""
    return np.diff(outputs, axis=axis) if outputs.shape[axis] == 2 else outputs
