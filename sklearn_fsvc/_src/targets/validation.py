"""What rows should be answered with, as a readout needs it: a few numbers for each."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from ..data.validation import to_host

# Sums of weights that the sums of a readout can be multiplied by in float32.
_LEAST_SUM, _MOST_SUM = 1e-30, 1e30
# Rows that vary less than this, where all vary by 1, are not served by sums over all.
_LEAST_SPREAD = 0.1


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """1 for the class of a row, 0 for the others."""

    codes: np.ndarray  # int, (n_rows,): numbers of the classes, from 0
    n_outputs: int  # how many classes there are
    are_whole = True

    @property
    def groups(self):
        """Return the classes, in each of which novelty may be looked for by itself."""
        return self.codes

    @property
    def all_codes(self):
        """The codes of all outputs, (n_rows, n_outputs)."""
        return self.codes[:, None]

    def hold_for(self, rows, weight=None):
        """Whether some rows alone, of positive weights, would have these targets.

        They would where there are rows of each class.
        """
        return bool(np.bincount(self.codes[rows], minlength=self.n_outputs).all())

    @property
    def counts(self):
        """Rows of each class."""
        return np.bincount(self.codes, minlength=self.n_outputs)

    def taken(self, rows):
        """The targets of some rows alone."""
        return replace(self, codes=self.codes[rows])

    def matrix(self, rows=slice(None), xp=np):
        """The targets of some rows, (rows, n_outputs) in float64, an array of `xp`."""
        is_of = self.codes[rows][:, None] == np.arange(self.n_outputs)
        return xp.asarray(is_of).astype(np.float64)


@dataclass(frozen=True, eq=False)
class MultiOutputTargets:
    """Several targets of each row, side by side."""

    parts: tuple[ClassTargets, ...]
    # Whether each part is of the classes 0 and 1, be there rows of both or not.
    are_labels: bool = False
    groups, are_whole = None, True

    @property
    def all_codes(self):
        return np.column_stack([part.codes for part in self.parts])

    @property
    def n_outputs(self):
        return sum(part.n_outputs for part in self.parts)

    def hold_for(self, rows, weight=None):
        if self.are_labels:
            return len(rows) > 0
        return all(part.hold_for(rows) for part in self.parts)

    def taken(self, rows):
        return replace(self, parts=tuple(part.taken(rows) for part in self.parts))

    def matrix(self, rows=slice(None), xp=np):
        return xp.concatenate([part.matrix(rows, xp) for part in self.parts], axis=1)


@dataclass(frozen=True, eq=False)
class NumberTargets:
    """Numbers, each output less its mean and divided by its standard deviation.

    So that outputs weigh alike, and neither their units nor their origins matter.
    """

    values: np.ndarray  # (n_rows, n_outputs), float64
    # (n_outputs,): of the rows with a weight. A constant output has the scale 1.
    mean: np.ndarray
    scale: np.ndarray
    groups, are_whole = None, False

    @classmethod
    def of(cls, y, weight=None):
        """The targets y, (n_rows, n_outputs) in float64, of rows with weights.

        y becomes the values: of many outputs it is larger than all else.
        """
        if weight is not None:  # a row of weight 0 may have any y
            y[weight == 0] = y[weight.argmax()]
        # Divided by the largest, squares of what is huge or tiny stay finite.
        peak = np.maximum(y.max(axis=0), -y.min(axis=0))
        peak[peak == 0] = 1.0
        weight = np.ones(len(y)) if weight is None else weight
        total = weight.sum()
        values = y
        values /= peak
        mean = np.zeros(y.shape[1])
        for _ in range(2):  # the second time for the rounding of a long sum
            rest = np.einsum("i,ij->j", weight, values) / total
            values -= rest
            mean += rest
        scale = np.sqrt(np.einsum("i,ij,ij->j", weight, values, values) / total)
        is_constant = scale <= 8 * np.finfo(float).eps * np.abs(mean)
        values /= np.where(is_constant, 1.0, scale)
        return cls(values, mean * peak, np.where(is_constant, 1.0, scale * peak))

    @property
    def n_outputs(self):
        return self.values.shape[1]

    @property
    def n_bytes(self):
        """Bytes of the targets, beside y as it came."""
        return self.values.nbytes

    def numbers(self, rows=slice(None)):
        """Return some rows of y, as they came."""
        return self.values[rows] * self.scale + self.mean

    def column(self, k):
        """Return one output of y, as it came."""
        return self.values[:, k] * self.scale[k] + self.mean[k]

    def hold_for(self, rows, weight=None):
        """Whether sums over these targets serve some rows alone, of positive weights.

        The readout is the same in every unit of y. But where the rows vary little in this
        one, what is left of larger sums is rounded.
        """
        if not len(rows):
            return False
        values = self.values[rows]
        deviation = values - np.average(values, axis=0, weights=weight)
        spread = np.sqrt(np.average(deviation**2, axis=0, weights=weight))
        return bool((spread > _LEAST_SPREAD).all())

    def taken(self, rows):
        return replace(self, values=self.values[rows])

    def matrix(self, rows=slice(None), xp=np):
        return xp.asarray(self.values[rows])


def as_numbers(y):
    """y, as scikit-learn's check of y leaves it, in float64, a new array."""
    is_sparse = issparse(y)
    y = y.toarray() if is_sparse else np.asarray(y)
    try:
        numbers = y.astype(np.float64, copy=not is_sparse) if y.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        numbers = None
    if numbers is None:
        raise ValueError(
            f"y has dtype {y.dtype}, and is not of numbers alone. For classes take a classifier; "
            "make numbers of text with y.astype(float)."
        )
    assert_all_finite(numbers, input_name="y")  # which are None or infinite among objects
    return numbers


def class_targets(y, n_rows, why, otherwise):
    """Return `ClassTargets` of labels, of `n_rows` rows, for a choice of the layer that needs them.

    For messages, `why` says what needs them, and `otherwise` what does not.
    """
    if y is None:
        raise ValueError(
            f"{why} requires y to be passed, but the target y is None; pass the classes of the "
            f"rows, or use {otherwise}."
        )
    y = column_or_1d(y)
    check_consistent_length(range(n_rows), y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return ClassTargets(codes, len(classes))


def row_weights(X, sample_weight, factors=None):
    """The weights of the rows, multiplied by factors if there are any; None for equal ones."""
    if sample_weight is None and factors is None:
        return None
    weight = _check_sample_weight(
        to_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True, copy=True
    )
    if factors is not None:
        weight *= factors
    if not weight.any():
        which = "leaves" if factors is None else "and class_weight leave"
        raise ValueError(f"sample_weight {which} no row a weight above 0.")
    given = {"sample_weight": sample_weight, "class_weight": factors}
    _check_sum(weight.sum(), [name for name, value in given.items() if value is not None])
    return weight


def _check_sum(total, names):
    """Raise for weights so large or so small that sums of rows with them are no numbers."""
    if not _LEAST_SUM <= total <= _MOST_SUM:
        raise ValueError(
            f"The weights of the rows, by {' and '.join(names)}, add up to {total:g}, and must add "
            f"up to {_LEAST_SUM:g} or more and {_MOST_SUM:g} at most; divide all by their mean."
        )
