"""Targets of a readout: validated y, encoded one-hot or standardised, and sample weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from numbers import Number
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from ..data.columns import check_object_labels, check_unmasked
from ..data.dask_blocks import compute_if_dask
from ..data.validation import to_dense, to_host

# Bounds of the sum of sample weights, within which Gram matrices weighted by it fit float32.
_MIN_WEIGHT_SUM, _MAX_WEIGHT_SUM = 1e-30, 1e30
# Standard deviation of a subset, in units of that of all samples, below which sums over
# standardised targets lose too many digits for the subset.
_MIN_SUBSET_STD = 0.1


@dataclass(frozen=True, eq=False)
class OneHotTargets:
    """One-hot targets: 1 for the class of a sample, 0 for the others; of each column of y."""

    codes: npt.NDArray  # int, (n_samples, n_columns of y): indices of the classes
    n_classes: tuple[int, ...]  # of each column
    # Whether y is a multilabel indicator, whose classes are always 0 and 1.
    is_multilabel: bool = False
    is_binary: ClassVar[bool] = True  # all values are 0 or 1

    @classmethod
    def of_column(cls, codes: npt.NDArray, n_classes: int) -> Self:
        """Return the targets of a single column of y, with codes (n_samples,)."""
        return cls(codes[:, None], (n_classes,))

    @property
    def n_outputs(self) -> int:
        """Return the number of classes of all columns together."""
        return sum(self.n_classes)

    @property
    def class_codes(self) -> npt.NDArray | None:
        """Return the class of each sample, (n_samples,); None if y has several columns."""
        is_single = len(self.n_classes) == 1 and not self.is_multilabel
        return self.codes[:, 0] if is_single else None

    def is_valid_for(self, rows: Any, weight: npt.NDArray | None = None) -> bool:
        """Return whether a subset, fitted alone, would have the same targets.

        It would if it has samples of every class; all of them must have positive weights.
        """
        if self.is_multilabel:  # a label may be constant
            return len(rows) > 0
        columns = zip(self.codes[rows].T, self.n_classes, strict=True)
        return all(bool(np.bincount(column, minlength=n).all()) for column, n in columns)

    def taken(self, rows: Any) -> Self:
        """Return the targets of a subset of the samples."""
        return replace(self, codes=self.codes[rows])

    def joined(self, other: Self) -> Self:
        """Return these targets and others after them."""
        return replace(self, codes=np.concatenate([self.codes, other.codes]))

    def matrix(self, rows: Any = slice(None), xp: Any = np) -> Any:
        """Return the targets of some samples, (n, n_outputs) in float64, an array of `xp`."""
        columns = zip(self.codes[rows].T, self.n_classes, strict=True)
        is_class = np.hstack([column[:, None] == np.arange(n) for column, n in columns])
        return xp.asarray(is_class).astype(np.float64)


@dataclass(frozen=True, eq=False)
class StandardisedTargets:
    """Regression targets, standardised: each output has mean 0 and standard deviation 1.

    So all outputs have the same influence on a common penalty, whatever their units and origins.
    """

    values: npt.NDArray  # (n_samples, n_outputs), float64
    # (n_outputs,): weighted moments. A constant output has the scale 1.
    mean: npt.NDArray
    scale: npt.NDArray
    class_codes: ClassVar[None] = None
    is_binary: ClassVar[bool] = False

    @classmethod
    def standardise(cls, y: npt.NDArray, weight: npt.NDArray | None = None) -> Self:
        """Return standardised targets of y, (n_samples, n_outputs) in float64.

        `y` is overwritten: with many outputs it is the largest array of a fit, and a copy would
        double its memory.
        """
        replace_unweighted(y, weight)
        # Scale by the largest absolute value first, so that squares neither overflow nor underflow.
        peak = np.maximum(y.max(axis=0), -y.min(axis=0))
        peak[peak == 0] = 1.0
        weight = np.ones(len(y)) if weight is None else weight
        total = weight.sum()
        values = y
        values /= peak
        # Two-pass mean: the second pass removes the rounding error of the first long sum.
        mean = np.zeros(y.shape[1])
        for _ in range(2):
            correction = np.einsum("i,ij->j", weight, values) / total
            values -= correction
            mean += correction
        scale = np.sqrt(np.einsum("i,ij,ij->j", weight, values, values) / total)
        # Below a few rounding errors of the mean, the deviation is noise.
        is_constant = scale <= 8 * np.finfo(float).eps * np.abs(mean)
        values /= np.where(is_constant, 1.0, scale)
        return cls(values, mean * peak, np.where(is_constant, 1.0, scale * peak))

    @property
    def n_outputs(self) -> int:
        """Return the number of outputs."""
        return self.values.shape[1]

    @property
    def n_bytes(self) -> int:
        """Return the bytes of the standardised values."""
        return self.values.nbytes

    def numbers(self, rows: Any = slice(None)) -> npt.NDArray:
        """Return y of some samples in its original units, (n, n_outputs)."""
        return self.values[rows] * self.scale + self.mean

    def column(self, k: int) -> npt.NDArray:
        """Return one output of y in its original units, (n_samples,)."""
        return self.values[:, k] * self.scale[k] + self.mean[k]

    def is_valid_for(self, rows: Any, weight: npt.NDArray | None = None) -> bool:
        """Return whether sums over these targets are accurate enough for a subset alone.

        The readout does not depend on the units of y. But if the subset varies little in the
        units of all samples, the difference of two large sums has lost its digits.
        """
        if not len(rows):
            return False
        values = self.values[rows]
        deviation = values - np.average(values, axis=0, weights=weight)
        std = np.sqrt(np.average(deviation**2, axis=0, weights=weight))
        return bool((std > _MIN_SUBSET_STD).all())

    def taken(self, rows: Any) -> Self:
        """Return the targets of a subset of the samples."""
        return replace(self, values=self.values[rows])

    def joined(self, other: Self) -> Self:
        """Return these targets and others after them, in the same units."""
        return replace(self, values=np.concatenate([self.values, other.values]))

    def matrix(self, rows: Any = slice(None), xp: Any = np) -> Any:
        """Return the targets of some samples, (n, n_outputs) in float64, an array of `xp`."""
        return xp.asarray(self.values[rows])


def _explain_not_numeric(y):
    """Return the end of the message for a y that cannot be converted to float64."""
    kind, first = y.dtype.kind, y.flat[0] if y.size else None
    if kind == "m" or isinstance(first, timedelta):
        return ": it holds durations. Pass seconds, y / numpy.timedelta64(1, 's')."
    if kind == "M" or isinstance(first, date) or hasattr(first, "to_timestamp"):
        return (
            ": it holds dates. Pass numbers, such as the days since the first of them, "
            "(y - y.min()) / numpy.timedelta64(1, 'D')."
        )
    if kind == "O" and all(isinstance(value, Number) for value in y.flat):
        return ": it holds numbers beyond the range of float64; divide y by a constant."
    return (
        ". Use a classifier for class labels; convert text that contains numbers with "
        "y.astype(float)."
    )


def replace_unweighted(y: npt.NDArray, weight: npt.NDArray | None) -> None:
    """Replace y of samples of weight 0, which may have any y, by a valid one, in place."""
    if weight is not None:
        y[weight == 0] = y[weight.argmax()]


def as_float64(y: Any, copy: bool = True) -> npt.NDArray:
    """Return a validated numeric y as a float64 array, a new one by default."""
    is_new = issparse(y)
    y = to_dense(y)
    converted = None
    if y.dtype.kind in "biufO":
        try:
            converted = y.astype(np.float64, copy=copy and not is_new)
        except (TypeError, ValueError, OverflowError):
            converted = None
    if converted is None:
        raise ValueError(f"y has dtype {y.dtype}, which is not numeric{_explain_not_numeric(y)}")
    assert_all_finite(converted, input_name="y")  # object arrays may hold None or infinities
    return converted


def encode_labels(y: Any, n_rows: int, required_by: str, alternative: str) -> OneHotTargets:
    """Return the one-hot targets of class labels that a transformer's hidden layer requires.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or None
    n_rows : int
    required_by, alternative : str
        For messages: the parameter that requires y, and one that does not.
    """
    if y is None:
        raise ValueError(
            f"{required_by} requires y to be passed, but the target y is None; pass the class "
            f"labels, or use {alternative}."
        )
    y = column_or_1d(y)
    check_consistent_length(range(n_rows), y)
    assert_all_finite(y, input_name="y")
    check_object_labels(y)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return OneHotTargets.of_column(codes, len(classes))


def encode_groups(X: Any, groups: Any) -> npt.NDArray[np.intp] | None:
    """Return the code of the group of each sample; None without groups, or with a single one.

    Parameters
    ----------
    X : array-like
        The samples, for their number.
    groups : array-like of shape (n_samples,) or None
        Labels of any type that can be sorted.
    """
    if groups is None:
        return None
    groups = compute_if_dask(groups)
    check_unmasked(groups=groups)
    groups = column_or_1d(to_host(groups))
    check_consistent_length(range(len(X)), groups)
    try:
        labels, codes = np.unique(groups, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in groups})
        raise TypeError(
            f"groups contains labels of several types, {', '.join(kinds)}, which cannot be sorted; "
            "convert them to text, and None to a group of its own."
        ) from error
    return codes if len(labels) > 1 else None


def validate_weights(
    X: Any,
    sample_weight: Any,
    class_weight: npt.NDArray | None = None,
    name: str = "sample_weight",
) -> npt.NDArray | None:
    """Return the weights of the samples in float64, None if none are given.

    Parameters
    ----------
    X : array-like
        The samples, for their number.
    sample_weight : array-like of shape (n_samples,) or None
    class_weight : ndarray of shape (n_samples,) or None
        The weight of the class of each sample: a factor of its sample weight.
    name : str
        The name of the parameter `sample_weight` in messages.
    """
    if sample_weight is None and class_weight is None:
        return None
    check_unmasked(**{name: sample_weight})
    parameters = {name: sample_weight, "class_weight": class_weight}
    names = [name for name, value in parameters.items() if value is not None]
    if are_all_zero(sample_weight):  # scikit-learn's message names no parameter
        _raise_all_zero(names[:1])
    weight = _as_weights(X, sample_weight, name)
    if class_weight is not None:
        weight *= class_weight
    if not weight.any():
        _raise_all_zero(names)
    _check_sum(weight.sum(), names)
    return weight


def _as_weights(X, sample_weight, name):
    """Return the weights as scikit-learn validates them; its errors get the parameter's name."""
    try:
        return _check_sample_weight(
            to_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True, copy=True
        )
    except ValueError as error:
        problem = str(error)
        is_named = "sample_weight" in problem
        text = problem.replace("sample_weight", name) if is_named else f"{name}: {problem}"
        raise ValueError(text) from error


def _raise_all_zero(names: Sequence[str]) -> NoReturn:
    raise ValueError(
        f"{' times '.join(names)} is zero for all samples, which leaves none; pass positive "
        f"weights for some samples, or leave out {' and '.join(names)}."
    )


def are_all_zero(sample_weight: Any) -> bool:
    """Return whether weights were passed, and all of them are 0."""
    weight = np.asarray([] if sample_weight is None else to_host(sample_weight))
    return weight.size > 0 and weight.dtype.kind in "biuf" and not weight.any()


def _check_sum(total: float, names: Sequence[str]) -> None:
    """Raise for weights whose sums over samples would overflow or underflow in float32."""
    if not _MIN_WEIGHT_SUM <= total <= _MAX_WEIGHT_SUM:
        raise ValueError(
            f"The sample weights, from {' and '.join(names)}, have the sum {total:g}, which must "
            f"be between {_MIN_WEIGHT_SUM:g} and {_MAX_WEIGHT_SUM:g}; divide them by their mean."
        )
