"""The target of a classifier: validated labels, class weights, predictions and probabilities."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.metrics import accuracy_score
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import type_of_target, unique_labels

from ..data.columns import check_unmasked, explain_missing_targets, explain_object_labels
from ..data.job import Job
from ..data.samples import Samples
from ..data.validation import check_holds, check_out, to_dense
from ..parts.base import UNSET
from ..parts.target import TargetSpec
from ..parts.units import Units
from ..readouts.calibration import Calibration
from ..readouts.matrix_scaling import may_have_map
from ..readouts.row_sample import PRIOR_ROWS, RowSample
from ..utils.parameters import is_option, make_generator
from .encoding import OneHotTargets, validate_weights
from .labels import Labels, join_labels

# Share of the weight that the rarer of two classes has at least by `weigh_rare_class`. Of very few
# samples there are no larger weights: networks would be fitted to these.
_RARE_SHARE, _MIN_RARE_SAMPLES = 0.1, 10


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassTarget(TargetSpec):
    """Class labels of one or several outputs.

    Attributes
    ----------
    class_weight
        Parameter of `RBFClassifier`.
    prior_weights : ndarray of shape (2,) or None
        Weights of the classes in a fit by `weigh_rare_class`. They change no probabilities.
    max_calibration_scores, min_calibration_samples : int
        Upper bound of the number of decision scores by which probabilities are calibrated after
        leave-one-out over all samples, and the number of samples that are used in any case. Two
        parameters for each output need no more data.
    """

    prior_weights: npt.NDArray | None = None
    max_calibration_scores: int = 2**21
    min_calibration_samples: int = 2**12
    classes_: Any = UNSET
    multilabel_: bool = UNSET
    scores_uncovered_by_center: ClassVar[bool] = True

    @cached_property
    def labels(self) -> Labels:
        """Return the fitted classes of y."""
        return Labels(self.classes_, self.multilabel_)

    def check(self) -> None:
        given = self.class_weight
        if given is None or is_option(given, "balanced") or self._weights_by_class:
            return
        error = ValueError if isinstance(given, str) else TypeError
        raise error(
            f'class_weight={given!r} must be None, "balanced" or a dict (a list of dicts for '
            "several outputs)."
        )

    # From y to samples with targets and weights.

    def fit_encode(self, X: Any, y: Any, sample_weight: Any) -> tuple[Self, Samples]:
        labels, codes = _infer_labels(self.owner, y)
        target = self._with_labels(labels)
        target.check_weighted_classes()
        samples = target._encoded_samples(X, codes, sample_weight)
        if not labels.is_multilabel:
            _require_two_classes(labels, codes, samples.weight)
        return target, samples

    def fit_first_batch(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, pretrained: TargetSpec | None
    ) -> Self:
        target = self._with_labels(Labels.from_classes(classes, y))
        target.check_weighted_classes()
        return target

    def validate_targets(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[npt.NDArray, npt.NDArray | None]:
        y = to_dense(y)
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        return y, validate_weights(X, sample_weight)

    def fit_classes(self, y: list[npt.NDArray], classes: Any) -> Self:
        joined = join_labels(y)
        if classes is None:
            return self._with_labels(_infer_labels(self.owner, joined)[0])
        labels = Labels.from_classes(classes, joined)
        labels.encode(joined)  # raises for others
        target = self._with_labels(labels)
        target.check_weighted_classes()
        return target

    def check_weighted_classes(self) -> None:
        dicts, per_output = self._weights_by_class, self.labels.classes_per_output
        if dicts and len(dicts) != len(per_output):
            raise ValueError(
                f"class_weight={self.class_weight!r} has weights for {len(dicts)} output(s), and y "
                f"has {len(per_output)}; pass a dict for one output, else a list with a dict for "
                "each."
            )
        for class_weight, classes in zip(dicts, per_output, strict=False):
            _check_names_classes(class_weight, classes)

    def has_same_classes(self, other: Self) -> bool:
        is_alike = self.labels.is_multilabel == other.labels.is_multilabel
        return is_alike and self.labels.has_classes_of(other.labels)

    def has_all_classes(self, y: list[npt.NDArray], n_balanced: float) -> bool:
        if self.labels.is_multilabel:  # a label may be constant
            return True
        codes, per_output = self.labels.encode(join_labels(y)), self.labels.classes_per_output
        counts = [
            np.bincount(column, minlength=len(classes))
            for column, classes in zip(codes.T, per_output, strict=True)
        ]
        return self._has_two_classes and all(n.min() * len(n) >= n_balanced for n in counts)

    @property
    def _has_two_classes(self):
        return all(len(classes) > 1 for classes in self.labels.classes_per_output)

    def fit_buffered(
        self, X: Any, y: Any, sample_weight: Any, pretrained: TargetSpec | None
    ) -> Self:
        if not self._has_two_classes:
            raise ValueError(
                f"The samples so far have one class, classes_={self.classes_!r}, and a classifier "
                "needs two or more: call partial_fit with samples of another class, or with "
                "classes=[...], which lists all of them."
            )
        return self

    def base_target(self, y: Any, samples: Samples) -> Any:
        # Each network would warn of a column vector again.
        return np.ravel(y) if self.labels.is_single else y

    def encode(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        try:
            codes = self.labels.encode(y)
        except ValueError as error:
            if (why := _explain_continuous(self.owner, y)) is not None:
                raise ValueError(why) from error
            raise
        return self._encoded_samples(X, codes, sample_weight)

    def _with_labels(self, labels):
        return self.with_fitted(classes_=labels.classes, multilabel_=labels.is_multilabel)

    def _encoded_samples(self, X, codes, sample_weight):
        weight = validate_weights(X, sample_weight)
        class_weights = self.class_weights(codes, weight)
        if class_weights is not None:
            weight = validate_weights(X, sample_weight, class_weights)
        return Samples(X, self.labels.one_hot(codes), weight)

    def class_weights(
        self, codes: npt.NDArray, weight: npt.NDArray | None = None
    ) -> npt.NDArray | None:
        """Return the class weight of each sample, (n_samples,); None without class weights.

        "balanced" gives the classes of each output the same sum of sample weights `weight`.
        """
        if self.prior_weights is not None:
            return self.prior_weights[codes[:, 0]]
        if self.class_weight is None:
            return None
        if weight is not None and is_option(self.class_weight, "balanced"):
            return np.prod([_balanced_weights(column, weight) for column in codes.T], axis=0)
        dicts = self._weights_by_class
        if not dicts:  # "balanced"
            weights = compute_sample_weight(self.class_weight, self.labels.decode(codes))
        else:
            each = zip(dicts, self.labels.classes_per_output, codes.T, strict=True)
            weights = np.prod([_weights_of(d, classes)[column] for d, classes, column in each], 0)
        is_valid = np.isfinite(weights) & (weights >= 0)
        if not is_valid.all():
            raise ValueError(
                f"class_weight={self.class_weight!r} contains {weights[~is_valid][0]}; the weight "
                "of each class must be finite and not negative."
            )
        return weights

    def weigh_rare_class(self, samples: Samples) -> tuple[Self, Samples]:
        # A class of weight 0 counts: it has scores, and `score_offset_` is for two classes.
        has_two_classes = self.labels.is_single and len(self.labels.classes) == 2
        if self.class_weight is not None or not has_two_classes:
            return self, samples
        codes = samples.targets.class_codes
        counts = np.bincount(codes[samples.rows_with_weight])
        shares = np.bincount(codes, samples.weight) / samples.total_weight
        rare = shares.argmin()
        if shares[rare] >= _RARE_SHARE or counts[rare] < _MIN_RARE_SAMPLES:
            return self, samples
        weights = np.ones(2)
        weights[rare] = _RARE_SHARE / (1 - _RARE_SHARE) * shares[1 - rare] / shares[rare]
        weight = samples.weight_or_ones() * weights[codes]
        return replace(self, prior_weights=weights), replace(samples, weight=weight)

    @property
    def _weights_by_class(self):
        """Return the dicts of `class_weight`, one for each output; none if it is no dict."""
        are_several = isinstance(self.class_weight, list)
        dicts = self.class_weight if are_several else [self.class_weight]
        return dicts if all(isinstance(each, dict) for each in dicts) else []

    @property
    def has_zero_weights(self) -> bool:
        return any(weight == 0 for each in self._weights_by_class for weight in each.values())

    def has_no_weight(self, y: npt.NDArray, weight: npt.NDArray | None) -> bool:
        dicts, columns = self._weights_by_class, y.T if y.ndim == 2 else [y]
        if len(dicts) != len(columns):
            return False
        has_weight = np.ones(len(y), bool) if weight is None else weight > 0
        for each, column in zip(dicts, columns, strict=True):
            has_weight &= np.array([each.get(label, 1) != 0 for label in column.tolist()])
        return not has_weight.any()

    def check_classes(self, y: Any, classes: Any) -> None:
        check_unmasked(classes=classes)
        # The cheap test is enough in nearly all calls.
        if classes is None or (np.ndim(y) == 1 and self.labels.is_single_with(classes)):
            return
        if not self.labels.has_classes_of(Labels.from_classes(classes, y)):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call to partial_fit, "
                f"{self.labels.classes!r}."
            )

    def check_compatible(self, other: Self, name: str) -> None:
        self.check_same_classes(other, name)

    def check_same_classes(self, other: Self, name: str) -> None:
        if not self.labels.has_classes_of(other.labels):
            raise ValueError(
                f"{name} has classes_={other.labels.classes!r}, but this model has "
                f"{self.labels.classes!r}; pass the same classes to partial_fit of both."
            )

    def refit_on(self, samples: Samples, rows: Any) -> Self:
        # Encoded classes do not depend on the subset, unlike the mean and scale of numbers.
        return self

    # From outputs of the readout to predictions.

    def score_coefficients(
        self, W: Any, b: Any, dtype: Any, matrices: Any = None
    ) -> tuple[Any, Any]:
        """Return coefficients and intercepts of decision scores, in the dtype of the layer."""
        W, b = self.labels.scores_of(W, axis=0), self.labels.scores_of(b, axis=0)
        if matrices is not None:
            coef, constants = self.labels.score_map(matrices)
            W, b = _multiply_in_order(coef, W), _multiply_in_order(coef, b) + constants
        return W.astype(dtype), b.astype(dtype)

    def format_output(self, method: str, scores: Any, readout: Any, **options: Any) -> Any:
        labels = self.labels
        if method == "predict":
            return labels.decode(labels.predict_codes(scores))
        if method == "decision_function":
            return labels.format_decision(scores)
        if method == "predict_set":
            return labels.prediction_sets(scores, calibrations_of(readout), **options)
        is_log = method == "predict_log_proba"
        return labels.probabilities(scores, calibrations_of(readout), is_log)

    def check_out(self, out: Any, shape: tuple[int, ...]) -> None:
        check_out(out, shape)
        for classes in self.labels.classes_per_output:
            check_holds(out, classes)

    def score(self, predictions: Any, y: Any, sample_weight: Any) -> float:
        """Return the accuracy; a sample is correct if all its outputs are."""
        if np.ndim(predictions) == 2:
            # `accuracy_score` supports several columns only as a multilabel indicator.
            # As in `fit`: NumPy makes objects of a DataFrame of bools and integers.
            y = check_array(y, accept_sparse=True, dtype=None, ensure_2d=False, input_name="y")
            y = to_dense(y)
            if y.shape != predictions.shape:
                raise ValueError(
                    f"y has shape {y.shape}, but the predictions have {predictions.shape}; pass "
                    "the classes of all outputs."
                )
            for predicted, true in zip(predictions.T, y.T, strict=True):
                unique_labels(true, predicted)  # raises for text in place of numbers
            predictions, y = (predictions == y).all(axis=1), np.ones(len(y), bool)
        return accuracy_score(y, predictions, sample_weight=sample_weight)

    def output_name(self, k: int) -> str:
        for number, classes in enumerate(self.labels.classes_per_output):
            if k < len(classes):
                column = "" if self.labels.is_single else f" in column {number} of y"
                return f"class {classes[k]}{column}"
            k -= len(classes)
        raise IndexError(f"There is no readout output {k}.")

    @property
    def n_columns(self) -> int:
        return len(self.labels.classes_per_output)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return () if self.labels.is_single else (self.n_columns,)

    def select_decision(
        self, scores: Any, output: int, readout: Any
    ) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
        labels = self.labels
        parts, codes = labels.split_scores(scores), labels.predict_codes(scores)[:, output]
        codes, start = codes.astype(np.intp), sum(part.shape[1] for part in parts[:output])
        is_binary = parts[output].shape[1] == 1
        columns = start + (np.zeros_like(codes) if is_binary else codes)
        signs = 2.0 * codes - 1 if is_binary else np.ones(len(codes))
        return labels.classes_per_output[output][codes], columns, signs

    # Labels of the centres of RBF units.

    def center_attributes(self, samples: Samples, rows: Any) -> dict[str, Any]:
        return {"center_labels_": self.labels.decode(samples.targets.codes[rows])}

    def center_targets(self, units: Units) -> Any:
        return units.center_labels_

    def center_outputs(self, units: Units) -> Any:
        return self.targets_of(self.center_targets(units)).matrix()

    def targets_of(self, y: npt.NDArray) -> OneHotTargets:
        """Return one-hot targets of labels (n,) or (n, n_outputs), all of them known classes."""
        columns = np.reshape(y, (len(y), -1)).T
        pairs = zip(self.labels.classes_per_output, columns, strict=True)
        codes = [np.searchsorted(classes, column) for classes, column in pairs]
        return self.labels.one_hot(np.column_stack(codes))

    # Calibration: temperatures and conformity scores from leave-one-out scores.

    @property
    def needs_loo_scores(self) -> bool:
        return True

    def calibration_rows(self, samples: Samples, random_state: Any) -> npt.NDArray | None:
        n_max = max(
            self.min_calibration_samples, self.max_calibration_scores // samples.targets.n_outputs
        )
        if len(samples) <= n_max:
            return None
        present = samples.rows_with_weight
        n_max, random = min(n_max, len(present)), make_generator(random_state)
        return np.sort(random.choice(present, n_max, replace=False, shuffle=False))

    def loo_attributes(
        self, job: Job, layer: Any, samples: Samples, chosen: Any, rows: Any
    ) -> dict[str, Any]:
        scored = slice(None) if rows is None else rows
        codes, weight = samples.targets.codes[scored], samples.weight_of(scored)
        scores = self.labels.scores_of(chosen.scores)
        outputs = self.labels.split_samples(scores, codes, weight)
        return self.labels.calibrate(
            outputs,
            is_rounded=layer.quantizer is not None,
            maps_scores=not self.is_base_estimator,
        )

    def may_map_scores(self, n_samples: int, sample: RowSample | None = None) -> bool:
        sizes = [len(classes) for classes in self.labels.classes_per_output]
        if sample is None:
            return any(may_have_map(size, n_samples) for size in sizes)
        are_present = np.split(sample.rows.sums.any(axis=0), np.cumsum(sizes)[:-1])
        return any(may_have_map(len(p), n_samples, int(p.sum())) for p in are_present)

    def calibrate(self, left_out: Any, sample: Any, job: Job, layer: Any) -> dict[str, Any]:
        scores = self.labels.scores_of(left_out.scores)
        class_weights = sample.rows.sums * left_out.is_known[:, None]
        # The few scores that are known may all be right by chance, as in a small sample. A prior,
        # whose weight grows with the fraction of unknown scores, prevents probabilities of 1.
        prior_rows = max(sample.prior_rows, PRIOR_ROWS * (1 - left_out.is_known.mean()))
        outputs = self.labels.split_rows(scores, class_weights)
        return self.labels.calibrate(
            outputs,
            prior_rows,
            is_rounded=layer.quantizer is not None,
            maps_scores=not self.is_base_estimator,
        )

    def conformity_scores(
        self, left_out: Any, sample: Any, calibrations: list[Calibration]
    ) -> dict[str, Any]:
        """Return the fitted attribute of `calibrate` for prediction sets."""
        scores = self.labels.scores_of(left_out.scores)
        outputs = self.labels.split_rows(scores, sample.rows.sums)
        return self.labels.conformity_scores(outputs, calibrations)

    def prior_calibration(self) -> dict[str, Any]:
        # Without rows, `fit_calibration` returns its prior.
        empty = np.empty((0, sum(len(classes) for classes in self.labels.classes_per_output)))
        return self.labels.calibrate(self.labels.split_rows(self.labels.scores_of(empty), empty))

    def why_not_incremental(self) -> str | None:
        if is_option(self.class_weight, "balanced"):
            return (
                'class_weight="balanced" needs the class counts of all samples; for partial_fit '
                "pass a dict, or sample_weight."
            )
        return None


def _multiply_in_order(coef, values):
    """Return ``coef @ values`` with the same rounding on all machines, unlike that of BLAS."""
    terms = (np.multiply.outer(column, row) for column, row in zip(coef.T, values, strict=True))
    return sum(terms)


def _weights_of(class_weight, classes):
    """Return the weight of each class from a dict; 1 for those that it does not name."""
    return np.array([class_weight.get(label, 1) for label in classes.tolist()], np.float64)


def _check_names_classes(class_weight, classes):
    """Raise ValueError for a dict with weights of other classes than those of y."""
    known = classes.tolist()
    unknown = [label for label in class_weight if label not in known]
    # As in scikit-learn, weights of further classes are ignored if none of the present ones lacks
    # a weight, so that one dict serves several subsets of the samples.
    if unknown and not all(label in class_weight for label in known):
        raise ValueError(
            f"class_weight={class_weight!r} has weights of {unknown}, which are not among the "
            f"classes {known} of y; name classes of y, or list all of them in partial_fit, as "
            "classes=[...]. Those without a weight have weight 1."
        )


def _balanced_weights(codes, weight):
    """Return the weight of each sample's class, inverse to the sum of the weights of the class."""
    sums = np.bincount(codes, weight)
    return np.divide(weight.sum(), np.count_nonzero(sums) * sums, where=sums > 0, out=sums)[codes]


def calibrations_of(fitted: Any) -> list[Calibration]:
    """Return the calibration of each output, from the attributes of a fitted model or readout.

    Without `score_scale_`, as with the readout "softmax", the decision values are logits.
    """
    temperatures = np.atleast_1d(fitted.temperature_)
    scales = getattr(fitted, "score_scale_", UNSET)
    scales = [None] * len(temperatures) if scales is UNSET else np.atleast_1d(scales)
    offset = getattr(fitted, "score_offset_", 0.0)
    return [Calibration(*pair, offset) for pair in zip(temperatures, scales, strict=True)]


def _infer_labels(owner, y):
    """Return the `Labels` of y and its codes."""
    try:
        return Labels.infer(y)
    except (TypeError, ValueError) as error:
        why = (
            explain_missing_targets(y) or explain_object_labels(y) or _explain_continuous(owner, y)
        )
        if why is not None:
            raise ValueError(why) from error
        raise


def _explain_continuous(owner: str, y: Any) -> str | None:
    """Return the message for a y of real numbers, which a regressor predicts; None for labels."""
    # Labels of dtype object may be of types that `type_of_target` cannot compare.
    kind = "" if y.dtype == object else type_of_target(y)
    if not kind.startswith("continuous"):
        return None
    ours = owner in ("PatchClassifier", "RBFClassifier", "StackedClassifier", "TanhClassifier")
    regressor = owner.replace("Classifier", "Regressor") if ours else "RBFRegressor"
    of_pipeline = ' or make_tabular_pipeline("regressor")' if owner.startswith("Stacked") else ""
    return (
        f"Unknown label type: {kind}. y holds real numbers, and {owner} predicts class labels; use "
        f"{regressor}(){of_pipeline}, or make classes of y, such as y > y.mean()."
    )


def _require_two_classes(labels, codes, weight):
    """Raise where an output has only one class among the samples of positive weight."""
    for output, (classes, column) in enumerate(
        zip(labels.classes_per_output, codes.T, strict=True)
    ):
        if weight is not None:
            classes = classes[np.flatnonzero(np.bincount(column[weight > 0]))]
        if len(classes) < 2:
            where = "y" if labels.is_single else f"Column {output} of y"
            raise ValueError(
                f"{where} has one class, {classes[0]}, among samples of positive sample_weight; a "
                "classifier needs two or more."
            )
