"""Classes of one or several outputs: their codes, scores, decisions and probabilities."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from ..readouts.calibration import fit_temperature, log_probabilities, probabilities
from .validation import ClassTargets, MultiOutputTargets

# Whole numbers in so small a range are counted, not sorted.
_CLOSE = 2**16
# Rows that are counted at a time.
_AT_A_TIME = 2**20


@dataclass(frozen=True, eq=False)
class Labels:
    """What y is made of, and how scores become y.

    Each output has a score for each of its classes, or one score if there are two: that of
    the second class less that of the first.
    """

    # ndarray, or list of ndarray: of the output, or of each of several; of an indicator, the
    # numbers of the labels.
    classes: object
    # Whether y is 0 and 1 for each of several labels, which are outputs then.
    is_multilabel: bool = False

    @classmethod
    def of(cls, y):
        """Return the labels of y, which scikit-learn has checked, and codes (n_rows, n_outputs)."""
        counted = _counted(y)
        if counted is not None:
            return cls(counted[0]), counted[1][:, None]
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

    @classmethod
    def known(cls, classes, y):
        """Return the labels that somebody knows of, before all of them have been seen.

        `classes` are of y, or of each of its columns, and may be None for an indicator; y is some
        of the rows, as scikit-learn's check leaves it.
        """
        n_columns = y.shape[1] if y.ndim == 2 else 1
        if n_columns > 1 and type_of_target(y) == "multilabel-indicator":
            labels, _ = cls.of(y)
            if labels.is_multilabel and _are_of_indicator(classes, n_columns):
                return labels
        if classes is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit: all that y may hold, "
                "sorted or not; of several columns, a list with those of each."
            )
        each = [classes] if n_columns == 1 else list(classes)
        if len(each) != n_columns or any(np.ndim(own) != 1 for own in each):
            raise ValueError(
                f"classes={classes!r} do not fit y, of {n_columns} column(s); give an array of "
                "classes, or of several columns a list with one for each."
            )
        each = [np.unique(own) for own in each]
        for own in each:
            check_classification_targets(own)
            if len(own) < 2:
                raise ValueError(f"classes={classes!r}: a classifier needs two or more.")
        return cls(each[0] if n_columns == 1 else each)

    def codes(self, y):
        """Codes (n_rows, n_outputs) of y, as scikit-learn's check of y leaves it."""
        y = y.toarray() if issparse(y) else np.asarray(y)
        columns = y.T if y.ndim == 2 else [y]
        if len(columns) != len(self.each):
            raise ValueError(
                f"y has {len(columns)} column(s), and had {len(self.each)} in the first call."
            )
        pairs = zip(self.each, columns, strict=True)
        codes = [_codes_in(classes, column) for classes, column in pairs]
        return np.array(codes).T

    def are(self, classes):
        """Whether y has one label, and these are its classes: the quick answer of most calls."""
        if not self.is_single:
            return False
        is_sorted = np.array_equal(classes, self.classes)
        return is_sorted or np.array_equal(np.unique(classes), self.classes)

    def is_same(self, other):
        """Whether other labels are of the same classes."""
        pairs = zip(self.each, other.each, strict=False)
        is_as_wide = len(self.each) == len(other.each) and self.is_single == other.is_single
        return is_as_wide and all(np.array_equal(a, b) for a, b in pairs)

    def name_of(self, k):
        """The class that an output of a readout stands for, in words."""
        for number, classes in enumerate(self.each):
            if k < len(classes):
                column = "" if self.is_single else f" in column {number} of y"
                return f"class {classes[k]}{column}"
            k -= len(classes)

    @property
    def is_single(self):
        """Whether y has one label for each row."""
        return isinstance(self.classes, np.ndarray) and not self.is_multilabel

    @property
    def each(self):
        """The classes of each output."""
        if self.is_multilabel:
            return [np.arange(2)] * len(self.classes)
        return [self.classes] if self.is_single else self.classes

    def targets(self, codes):
        """What a readout needs to know of rows with these codes."""
        parts = [ClassTargets(c, len(k)) for c, k in zip(codes.T, self.each, strict=True)]
        return parts[0] if self.is_single else MultiOutputTargets(tuple(parts), self.is_multilabel)

    def scores_of(self, outputs, axis=1):
        """Scores of the outputs of a readout, of which there is one for each class."""
        if self.is_single:
            return _compared(outputs, axis)
        ends = np.cumsum([len(classes) for classes in self.each])[:-1]
        parts = np.split(outputs, ends, axis)
        return np.concatenate([_compared(part, axis) for part in parts], axis)

    def split(self, scores):
        """The scores (rows, n_scores) of each output."""
        if self.is_single:
            return [scores]
        sizes = [1 if len(classes) == 2 else len(classes) for classes in self.each]
        return np.split(scores, np.cumsum(sizes)[:-1], axis=1)

    def codes_of(self, scores):
        """Return the codes (rows, n_outputs) of the largest scores, of equal ones the first."""
        parts = self.split(scores)
        return np.column_stack([p[:, 0] > 0 if p.shape[1] == 1 else p.argmax(1) for p in parts])

    def decided(self, scores, output):
        """How one of the outputs is answered: as `TargetSpec.decided` says."""
        parts = self.split(scores)
        codes = self.codes_of(scores)[:, output].astype(np.intp)
        start, is_one = sum(p.shape[1] for p in parts[:output]), parts[output].shape[1] == 1
        columns = start + (np.zeros_like(codes) if is_one else codes)
        signs = 2.0 * codes - 1 if is_one else np.ones(len(codes))
        return self.each[output][codes], columns, signs

    def decode(self, codes):
        """y of codes (rows, n_outputs)."""
        columns = [k[c.astype(np.intp)] for k, c in zip(self.each, codes.T, strict=True)]
        return columns[0] if self.is_single else np.column_stack(columns)

    def format_decision(self, scores):
        """Decision values in scikit-learn's shapes."""
        if self.is_multilabel:
            return scores
        parts = [p[:, 0] if p.shape[1] == 1 else p for p in self.split(scores)]
        return parts[0] if self.is_single else parts

    def temperatures(self, scores, codes, weight):
        """One for each output, by the scores of rows that the readout has not seen."""
        pairs = zip(self.split(scores), codes.T, strict=True)
        found = [fit_temperature(part, own, weight) for part, own in pairs]
        return found[0] if self.is_single else np.array(found)

    def temperatures_of(self, scores, sums, prior_rows=0.0):
        """Return one for each output, by scores (n_rows, n_scores) and the weights of all classes.

        `sums` (n_rows, n_outputs) say how much of each row is of each class: equal rows are one.
        `prior_rows` is that of `fit_temperature`.
        """
        ends = np.cumsum([len(classes) for classes in self.each])[:-1]
        found = []
        for part, of_classes in zip(self.split(scores), np.split(sums, ends, axis=1), strict=True):
            rows, codes = np.nonzero(of_classes)
            of_rows = of_classes[rows, codes]
            found.append(fit_temperature(part[rows], codes, of_rows, prior_rows))
        return found[0] if self.is_single else np.array(found)

    def probabilities(self, scores, temperatures, are_logs=False):
        """Return probabilities of classes in scikit-learn's shapes; of an indicator, of ones."""
        pairs = zip(np.atleast_1d(temperatures), self.split(scores), strict=True)
        said = log_probabilities if are_logs else probabilities
        found = [said(temperature, part) for temperature, part in pairs]
        if self.is_multilabel:
            return np.column_stack([each[:, 1] for each in found])
        return found[0] if self.is_single else found


def _counted(y):
    """Classes and codes of whole numbers that lie close together; None for any other y.

    What scikit-learn checks and NumPy sorts takes 100 times as long, and such y always pass.
    Codes are as small as may be, and nothing larger is made of all rows at once.
    """
    if not isinstance(y, np.ndarray) or y.ndim != 1 or y.dtype.kind not in "iu" or not len(y):
        return None
    least, most = int(y.min()), int(y.max())
    n_steps = most - least + 1
    is_close = n_steps <= min(_CLOSE, len(y) // 2)  # of more scikit-learn may warn
    if not is_close or most > np.iinfo(np.intp).max:
        return None
    parts = [slice(start, start + _AT_A_TIME) for start in range(0, len(y), _AT_A_TIME)]
    there = np.flatnonzero(sum(np.bincount(_steps(y[p], least), minlength=n_steps) for p in parts))
    code = np.empty(n_steps, np.min_scalar_type(-len(there)))
    code[there] = np.arange(len(there))
    codes = np.empty(len(y), code.dtype)
    for part in parts:
        codes[part] = code[_steps(y[part], least)]
    return (there + least).astype(y.dtype), codes


def _steps(y, least):
    return y.astype(np.intp) - least


def _are_of_indicator(classes, n_columns):
    """Whether these classes are as good as none: 0 and 1 of each column, or their numbers."""
    if classes is None or np.array_equal(classes, np.arange(n_columns)):
        return True
    return len(classes) == n_columns and all(np.array_equal(own, (0, 1)) for own in classes)


def _codes_in(classes, column):
    """Numbers of the labels of a column among sorted classes."""
    are_words = [array.dtype.kind in "OSTU" for array in (classes, column)]
    is_known = np.zeros(len(column), bool)
    if are_words[0] == are_words[1]:
        codes = np.minimum(np.searchsorted(classes, column), len(classes) - 1)
        is_known = classes[codes] == column
    if not np.all(is_known):
        strange = np.unique(column[~is_known])
        raise ValueError(
            f"y holds {strange[:5].tolist()}, which are not among classes={classes.tolist()}, the "
            "classes of the first call to partial_fit; name all that there may be in it."
        )
    return codes


def _compared(outputs, axis):
    """Return one score of two classes: the second one's less the first one's."""
    return np.diff(outputs, axis=axis) if outputs.shape[axis] == 2 else outputs
