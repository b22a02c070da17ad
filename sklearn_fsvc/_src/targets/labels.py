"""Class labels of one or several outputs: codes, decision scores, predictions, probabilities."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag
from sklearn.utils import column_or_1d, gen_batches
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from ..data.columns import check_object_labels, check_unmasked
from ..data.validation import to_dense
from ..readouts.calibration import (
    Calibration,
    fit_calibration,
    is_uninformed,
    log_probabilities,
    probabilities,
    round_calibrated,
)
from ..readouts.conformal import conformity_scores, predict_codes, prediction_sets
from ..readouts.matrix_scaling import MatrixScaling, fit_matrix_scaling
from ..utils.user_warnings import warn
from .encoding import OneHotTargets

# Integers whose range is at most this are encoded by counting instead of sorting.
_MAX_COUNTED_RANGE = 2**16
# Samples per block while integers are counted.
_BLOCK_SAMPLES = 2**20

# Scores, class indices and weights of the samples of one output of y.
_Output = tuple[npt.NDArray, npt.NDArray, npt.NDArray | None]


@dataclass(frozen=True, eq=False)
class Labels:
    """The classes of y, as a `LabelEncoder` for several outputs that also decodes scores.

    The readout has one output for each class. Its decision scores are scikit-learn's: one score
    for each class, or for two classes a single score, that of the second class minus that of the
    first.
    """

    # The sorted classes: ndarray for one output, list of ndarray for several. For a multilabel
    # indicator, the indices of its columns.
    classes: Any
    # Whether y is a multilabel indicator: each column is an output with the classes 0 and 1.
    is_multilabel: bool = False

    @classmethod
    def infer(cls, y: Any) -> tuple[Self, npt.NDArray]:
        """Return the labels of a validated y, and its codes (n_samples, n_outputs)."""
        counted = _encode_by_counting(y)
        if counted is not None:
            return cls(counted[0]), counted[1][:, None]
        check_classification_targets(y)
        # scikit-learn reports an indicator for any two values, not only for 0 and 1.
        is_indicator = type_of_target(y) == "multilabel-indicator"
        y = to_dense(y)
        if is_indicator and np.isin(y, (0, 1)).all():
            return cls(np.arange(y.shape[1]), True), y.astype(np.intp)
        is_multioutput = y.ndim == 2 and y.shape[1] > 1
        columns = y.T if is_multioutput else [column_or_1d(y, warn=True)]
        encoded = [np.unique(column, return_inverse=True) for column in columns]
        classes = [classes for classes, _ in encoded]
        codes = np.column_stack([codes for _, codes in encoded])
        return cls(classes if is_multioutput else classes[0]), codes

    @classmethod
    def from_classes(cls, classes: Any, y: Any) -> Self:
        """Return labels with the classes that the user lists, before all of them have occurred.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), list of array-like, or None
            Of y, or of each of its columns; None is accepted for a multilabel indicator.
        y : ndarray
            The first batch, as validated by scikit-learn: it has the number of outputs.
        """
        n_outputs = y.shape[1] if y.ndim == 2 else 1
        if n_outputs > 1 and type_of_target(y) == "multilabel-indicator":
            labels, _ = cls.infer(y)
            if labels.is_multilabel and _are_indicator_classes(classes, n_outputs):
                return labels
        per_output = _listed_classes(classes, n_outputs)
        return cls(per_output[0] if n_outputs == 1 else per_output)

    @property
    def is_single(self) -> bool:
        """Return whether y has one output, and is no multilabel indicator."""
        return isinstance(self.classes, np.ndarray) and not self.is_multilabel

    @property
    def classes_per_output(self) -> list[npt.NDArray]:
        """Return the classes of each output."""
        if self.is_multilabel:
            return [np.arange(2)] * len(self.classes)
        return [self.classes] if self.is_single else self.classes

    def is_single_with(self, classes: Any) -> bool:
        """Return whether y has one output with these classes, in any order: a cheap check."""
        if not self.is_single:
            return False
        is_sorted = np.array_equal(classes, self.classes)
        return is_sorted or np.array_equal(np.unique(classes), self.classes)

    def has_classes_of(self, other: "Labels") -> bool:
        """Return whether the outputs and their classes are those of other labels."""
        mine, theirs = self.classes_per_output, other.classes_per_output
        if len(mine) != len(theirs) or self.is_single != other.is_single:
            return False
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    # From y to the targets of the readout.

    def encode(self, y: Any) -> npt.NDArray:
        """Return the codes (n_samples, n_outputs) of a validated y."""
        y = to_dense(y)
        columns = y.T if y.ndim == 2 else [y]
        if len(columns) != len(self.classes_per_output):
            raise ValueError(
                f"y has {len(columns)} column(s), but had {len(self.classes_per_output)} before."
            )
        pairs = zip(self.classes_per_output, columns, strict=True)
        codes = [_encode_column(classes, column) for classes, column in pairs]
        return np.array(codes).T

    def decode(self, codes: npt.NDArray) -> npt.NDArray:
        """Return y for codes (n_samples, n_outputs)."""
        pairs = zip(self.classes_per_output, codes.T, strict=True)
        columns = [classes[column.astype(np.intp)] for classes, column in pairs]
        return columns[0] if self.is_single else np.column_stack(columns)

    def one_hot(self, codes: npt.NDArray) -> OneHotTargets:
        """Return the targets of a readout for codes (n_samples, n_outputs)."""
        return OneHotTargets(codes, tuple(map(len, self.classes_per_output)), self.is_multilabel)

    # From the outputs of the readout to decision scores and predictions.

    def scores_of(self, outputs: npt.NDArray, axis: int = 1) -> npt.NDArray:
        """Return decision scores for outputs of the readout, which has one for each class.

        Along `axis`, the two outputs of a binary problem become one score, their difference. The
        map is linear: it is applied to the coefficients as well as to values.
        """
        if self.is_single:
            return _binary_difference(outputs, axis)
        parts = np.split(outputs, self._output_ends, axis)
        return np.concatenate([_binary_difference(part, axis) for part in parts], axis)

    def score_map(self, matrices: Any) -> tuple[npt.NDArray, npt.NDArray]:
        """Return coefficients (n_scores, n_scores) and constants (n_scores,) of mapped scores.

        `matrices` are ``matrix_scaling_``.
        """
        if self.is_single:
            return matrices[:, :-1], matrices[:, -1]
        identities = [np.eye(size, size + 1) for size in self._score_sizes]
        pairs = zip(matrices, identities, strict=True)
        each = [same if matrix is None else matrix for matrix, same in pairs]
        constants = np.concatenate([matrix[:, -1] for matrix in each])
        return block_diag(*[matrix[:, :-1] for matrix in each]), constants

    @property
    def _output_ends(self) -> npt.NDArray:
        """Return where to split the readout outputs into those of each column of y."""
        return np.cumsum([len(classes) for classes in self.classes_per_output])[:-1]

    def split_scores(self, scores: npt.NDArray) -> list[npt.NDArray]:
        """Return the scores (n_samples, n_scores) of each output of y."""
        if self.is_single:
            return [scores]
        return np.split(scores, np.cumsum(self._score_sizes)[:-1], axis=1)

    def without_constants(self, matrices: Any) -> Any:
        """Return ``matrix_scaling_`` of maps whose constants are 0."""
        each = [matrices] if self.is_single else matrices
        each = [None if m is None else m * np.append(np.ones(len(m)), 0) for m in each]
        return each[0] if self.is_single else each

    @property
    def _score_sizes(self) -> list[int]:
        """Return the number of scores of each output."""
        sizes = [len(classes) for classes in self.classes_per_output]
        return [1 if size == 2 else size for size in sizes]

    def predict_codes(self, scores: npt.NDArray) -> npt.NDArray:
        """Return the codes (n_samples, n_outputs) of the largest scores; the first of ties."""
        codes = [predict_codes(part) for part in self.split_scores(scores)]
        return codes[0][:, None] if len(codes) == 1 else np.column_stack(codes)

    def format_decision(self, scores: npt.NDArray) -> npt.NDArray | list[npt.NDArray]:
        """Return decision values in the shapes of scikit-learn."""
        if self.is_multilabel:
            return scores
        parts = [p[:, 0] if p.shape[1] == 1 else p for p in self.split_scores(scores)]
        return parts[0] if self.is_single else parts

    # Calibrated probabilities, and prediction sets.

    def calibrate(
        self,
        outputs: list[_Output],
        prior_rows: float = 0.0,
        is_rounded: bool = False,
        maps_scores: bool = False,
    ) -> dict[str, Any]:
        """Return the fitted attributes that follow from leave-one-out scores.

        Parameters
        ----------
        outputs : list of (scores, codes, weight)
            As `split_samples` or `split_rows` returns them.
        prior_rows : float
            As for `fit_calibration`.
        is_rounded : bool
            Whether temperatures, thresholds and maps are rounded, by `round_calibrated`.
        maps_scores : bool
            Whether the scores of outputs are mapped for which `fit_matrix_scaling` finds it better.

        Warns
        -----
        UserWarning
            If the calibration of an output `is_uninformed`.
        """
        calibrations = [fit_calibration(*output, prior_rows) for output in outputs]
        scalings: list[MatrixScaling | None] = [None] * len(outputs)
        if maps_scores:
            pairs = zip(calibrations, outputs, strict=True)
            scalings = [fit_matrix_scaling(c, *output) for c, output in pairs]
        for k, scaling in enumerate(scalings):
            if scaling is not None:
                outputs[k] = (scaling.scores, *outputs[k][1:])
                calibrations[k] = fit_calibration(*outputs[k], prior_rows)
        pairs = zip(calibrations, outputs, strict=True)
        if any(is_uninformed(c, *output) for c, output in pairs):
            warn(
                "Each class has one sample: leave-one-out predictions contain no information about "
                "it, and predict_proba returns equal probabilities. Pass more samples, or X_val "
                "and y_val to fit."
            )
        if is_rounded:
            calibrations = [
                c._replace(temperature=round_calibrated(c.temperature)) for c in calibrations
            ]
        columns = np.array([(c.temperature, c.score_scale) for c in calibrations], np.float64).T
        values = columns[:, 0].tolist() if self.is_single else columns
        fitted = dict(zip(("temperature_", "score_scale_"), values, strict=True))
        if any(scalings):
            matrices = [scaling and scaling.matrix for scaling in scalings]
            if is_rounded:
                matrices = [None if m is None else round_calibrated(m) for m in matrices]
            fitted["matrix_scaling_"] = matrices[0] if self.is_single else matrices
        return fitted | self.conformity_scores(outputs, calibrations, is_rounded)

    def conformity_scores(
        self, outputs: list[_Output], calibrations: list[Calibration], is_rounded: bool = False
    ) -> dict[str, Any]:
        """Return the fitted attribute for prediction sets; none if an output has no samples."""
        if not all(len(codes) for _, codes, _ in outputs):
            return {}
        pairs = zip(calibrations, outputs, strict=True)
        of_outputs = [conformity_scores(c, *output, is_rounded=is_rounded) for c, output in pairs]
        return {"conformity_scores_": of_outputs}

    def split_samples(
        self, scores: npt.NDArray, codes: npt.NDArray, weight: npt.NDArray | None
    ) -> list[_Output]:
        """Return (scores, codes, weight) of each output of y.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_scores)
        codes : ndarray of shape (n_samples, n_outputs)
        weight : ndarray of shape (n_samples,) or None
        """
        pairs = zip(self.split_scores(scores), codes.T, strict=True)
        return [(part, column, weight) for part, column in pairs]

    def split_rows(self, scores: npt.NDArray, class_weights: npt.NDArray) -> list[_Output]:
        """Return (scores, codes, weight) of each output of y, for distinct rows.

        A row with several classes enters once for each of them, with its weight.

        Parameters
        ----------
        scores : ndarray of shape (n_rows, n_scores)
        class_weights : ndarray of shape (n_rows, n_readout_outputs)
            The weight of each class in each row: identical samples are merged into one row.
        """
        outputs: list[_Output] = []
        weights = np.split(class_weights, self._output_ends, axis=1)
        for part, weight in zip(self.split_scores(scores), weights, strict=True):
            rows, codes = np.nonzero(weight)
            outputs.append((part[rows], codes, weight[rows, codes]))
        return outputs

    def probabilities(
        self, scores: npt.NDArray, calibrations: list[Calibration], is_log: bool = False
    ) -> npt.NDArray | list[npt.NDArray]:
        """Return (log-)probabilities in the shapes of scikit-learn; those of 1 for an indicator."""
        compute = log_probabilities if is_log else probabilities
        pairs = zip(calibrations, self.split_scores(scores), strict=True)
        parts = [compute(*pair) for pair in pairs]
        if self.is_multilabel:
            return np.column_stack([part[:, 1] for part in parts])
        return parts[0] if self.is_single else parts

    def prediction_sets(
        self, scores: npt.NDArray, calibrations: list[Calibration], thresholds: list[float]
    ) -> npt.NDArray | list[npt.NDArray]:
        """Return which classes are in the sets, in the shapes of `RBFClassifier.predict_set`."""
        triples = zip(calibrations, self.split_scores(scores), thresholds, strict=True)
        parts = [prediction_sets(*triple) for triple in triples]
        if self.is_multilabel:
            return np.stack(parts, axis=1)
        return parts[0] if self.is_single else parts


def _listed_classes(classes, n_outputs):
    """Return the sorted classes of each output, given those that the user lists."""
    if classes is None:
        raise ValueError(
            "classes must be passed on the first call to partial_fit: all classes that y may "
            "contain, in any order; for several columns, a list with the classes of each."
        )
    per_output = [classes] if n_outputs == 1 else list(classes)
    if len(per_output) != n_outputs or any(np.ndim(one) != 1 for one in per_output):
        raise ValueError(
            f"classes={classes!r} do not match y, which has {n_outputs} column(s); pass an "
            "array of classes, or for several columns a list with one array for each."
        )
    for one in per_output:
        check_unmasked(classes=one)
        check_object_labels(one, "classes")
    per_output = [np.unique(one) for one in per_output]
    for one in per_output:
        check_classification_targets(one)
        if len(one) < 2:
            raise ValueError(f"classes={classes!r}: a classifier needs two or more.")
    return per_output


def join_labels(batches: list[npt.NDArray]) -> npt.NDArray:
    """Return the y of several batches; ValueError if their shapes or types differ."""
    first, last = batches[0], batches[-1]
    if first.shape[1:] != last.shape[1:]:
        n_first, n_last = (y.shape[1] if y.ndim == 2 else 1 for y in (first, last))
        raise ValueError(f"y has {n_last} column(s), but had {n_first} in the first call.")
    if _is_text(first) != _is_text(last):
        raise ValueError(
            f"y has dtype {last.dtype}, but had {first.dtype} in the first call; pass text or "
            "numbers in all calls."
        )
    return np.concatenate(_with_common_integers(batches)) if len(batches) > 1 else first


def _are_rounded(arrays):
    """Return whether integers have float64 as common dtype, which rounds those above 2^53.

    It is that of int64 and uint64.
    """
    return all(y.dtype.kind in "iu" for y in arrays) and np.result_type(*arrays).kind == "f"


def _with_common_integers(batches):
    """Return batches of y, those of integers in a common dtype that does not round them."""
    if not _are_rounded(batches):
        return batches
    dtype = batches[0].dtype
    for y in batches:
        if not _are_in_range(y, dtype).all():
            raise ValueError(
                f"y has dtype {y.dtype} and labels that {dtype}, its dtype in the first call, does "
                "not contain; pass all labels in one dtype."
            )
    return [y.astype(dtype) for y in batches]


def _are_in_range(integers, dtype):
    """Return which integers a dtype of integers contains."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if integers.dtype.kind == "u":
        return integers <= np.uint64(high)
    return integers >= (low if np.dtype(dtype).kind == "i" else 0)


def _is_text(array):
    return array.dtype.kind in "OSTU"


def _encode_by_counting(y):
    """Return the classes and codes of integers with a small range, None for any other y.

    Counting is about 100 times as fast as scikit-learn's validation and the sort of `np.unique`,
    and such y always pass that validation. The codes have the smallest dtype that holds them, and
    the samples are processed in blocks, so that no temporary array is larger than the codes.
    """
    if not isinstance(y, np.ndarray) or y.ndim != 1 or y.dtype.kind not in "iu" or not len(y):
        return None
    low, high = int(y.min()), int(y.max())
    n_values = high - low + 1
    # scikit-learn may warn of more classes than half the samples: leave these to its validation.
    has_small_range = n_values <= min(_MAX_COUNTED_RANGE, len(y) // 2)
    if not has_small_range or high > np.iinfo(np.intp).max:
        return None
    blocks = list(gen_batches(len(y), _BLOCK_SAMPLES))
    counts = sum(np.bincount(_offsets(y[block], low), minlength=n_values) for block in blocks)
    present = np.flatnonzero(counts)
    code_of_offset = np.empty(n_values, np.min_scalar_type(-len(present)))
    code_of_offset[present] = np.arange(len(present))
    codes = np.empty(len(y), code_of_offset.dtype)
    for block in blocks:
        codes[block] = code_of_offset[_offsets(y[block], low)]
    return (present + low).astype(y.dtype), codes


def _offsets(y, low):
    return y.astype(np.intp) - low


def _are_indicator_classes(classes, n_outputs):
    """Return whether classes may be passed for an indicator: 0 and 1 per column, or indices."""
    if classes is None or np.array_equal(classes, np.arange(n_outputs)):
        return True
    return len(classes) == n_outputs and all(np.array_equal(one, (0, 1)) for one in classes)


class UnseenClassesError(ValueError):
    """y contains `classes`, some of which were not fitted."""

    def __init__(self, classes: list[Any], message: str) -> None:
        super().__init__(message)
        self.classes = classes


def _encode_column(classes, column):
    """Return the positions of the labels of a column in the sorted classes."""
    check_object_labels(column)
    are_text = [_is_text(array) for array in (classes, column)]
    is_known = np.zeros(len(column), bool)
    # Text and numbers cannot be compared: all labels are unknown then.
    if are_text[0] == are_text[1]:
        compared, is_comparable = column, True
        if _are_rounded([classes, column]):
            compared = column.astype(classes.dtype)
            is_comparable = _are_in_range(column, classes.dtype)
        codes = np.minimum(np.searchsorted(classes, compared), len(classes) - 1)
        is_known = (classes[codes] == compared) & is_comparable
    if not np.all(is_known):
        unknown = np.unique(column[~is_known])[:5].tolist()
        raise UnseenClassesError(
            unknown,
            f"y contains {unknown}, which are not among classes={classes.tolist()}, "
            "the classes of the first call to partial_fit, or of the samples that its layer was "
            "chosen from; list there all classes that may occur.",
        )
    return codes


def _binary_difference(outputs, axis):
    """Return the second output minus the first where there are two, else the outputs."""
    return np.diff(outputs, axis=axis) if outputs.shape[axis] == 2 else outputs
