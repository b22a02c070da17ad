"""The task of a classifier: what labels and their weights become, and what scores become."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_sample_weight

from ..data.columns import why_missing
from ..data.samples import Samples
from ..data.streaming import check_holds, check_out
from ..parts import UNSET, TargetSpec, generator
from ..readouts.sample import PRIOR_ROWS
from ..utils.parameters import is_word
from .labels import Labels
from .validation import row_weights


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassTarget(TargetSpec):
    """Classes of one or several outputs.

    Attributes
    ----------
    class_weight
        Parameter of `RBFClassifier`.
    most_scored, least_scored : int
        Scores by which probabilities are calibrated, at most, and rows, at least, of those that
        there are: one number needs no more of them.
    """

    class_weight: Any
    most_scored: int = 2**21
    least_scored: int = 2**12
    classes_: Any = UNSET
    multilabel_: bool = UNSET

    @cached_property
    def labels(self):
        """What y is made of."""
        return Labels(self.classes_, self.multilabel_)

    wants_scores = has_center_outputs = True

    def check(self):
        return None

    def _of(self, labels):
        return self.with_fitted(classes_=labels.classes, multilabel_=labels.is_multilabel)

    def read(self, X, y, sample_weight):
        try:
            labels, codes = Labels.of(y)
        except (TypeError, ValueError) as error:
            if (why := why_missing(y)) is not None:
                raise ValueError(why) from error
            raise
        task = self._of(labels)
        samples = task._of_codes(X, codes, sample_weight)
        if not labels.is_multilabel:
            _check_classes(labels, codes, samples.weight)
        return task, samples

    def begin(self, X, y, sample_weight, classes, pretrained):
        return self._of(Labels.known(classes, y))

    def samples(self, X, y, sample_weight):
        return self._of_codes(X, self.labels.codes(y), sample_weight)

    def _of_codes(self, X, codes, sample_weight):
        weight = row_weights(X, sample_weight, self.class_weights(codes))
        return Samples(X, self.labels.targets(codes), weight)

    def class_weights(self, codes):
        """The weight that its classes give each row; None where they give none."""
        if self.class_weight is None:
            return None
        weights = compute_sample_weight(self.class_weight, self.labels.decode(codes))
        is_weight = np.isfinite(weights) & (weights >= 0)
        if not is_weight.all():
            raise ValueError(
                f"class_weight={self.class_weight!r} gives rows the weight "
                f"{weights[~is_weight][0]}; give each class a finite number of 0 or more."
            )
        return weights

    def check_classes(self, y, classes):
        if classes is None or (np.ndim(y) == 1 and self.labels.are(classes)):
            return
        if not self.labels.is_same(Labels.known(classes, y)):
            raise ValueError(
                f"classes={classes!r} are not those of the first call to partial_fit, "
                f"{self.labels.classes!r}."
            )

    def check_same(self, other, name):
        if not self.labels.is_same(other.labels):
            raise ValueError(
                f"{name} has classes_={other.labels.classes!r}, and this model "
                f"{self.labels.classes!r}; give the same classes to partial_fit."
            )

    def restricted_to(self, samples, rows):
        return self

    def outputs(self, W, b, dtype):
        """A score for each class, of two classes one; in the dtype of the layer."""
        scores_of = self.labels.scores_of
        return scores_of(W, axis=0).astype(dtype), scores_of(b, axis=0).astype(dtype)

    def format_output(self, method, scores, readout):
        labels = self.labels
        if method == "predict":
            return labels.decode(labels.codes_of(scores))
        if method == "decision_function":
            return labels.format_decision(scores)
        are_logs = method == "predict_log_proba"
        return labels.probabilities(scores, readout.temperature_, are_logs)

    def check_out(self, out, shape):
        check_out(out, shape)
        for classes in self.labels.each:
            check_holds(out, classes)

    def score(self, answers, y, sample_weight):
        if np.ndim(answers) == 2:  # which accuracy_score takes only of 0 and 1
            y = y.toarray() if issparse(y) else np.asarray(y)
            if y.shape != answers.shape:
                raise ValueError(
                    f"y has shape {y.shape}, and the predictions have {answers.shape}; give the "
                    "classes of all outputs."
                )
            answers, y = (answers == y).all(axis=1), np.ones(len(y), bool)
        return accuracy_score(y, answers, sample_weight=sample_weight)

    def name_of(self, k):
        return self.labels.name_of(k)

    @property
    def n_columns(self):
        return len(self.labels.each)

    def decided(self, scores, output):
        return self.labels.decided(scores, output)

    def of_rows(self, samples, rows):
        return {"center_labels_": self.labels.decode(samples.targets.all_codes[rows])}

    def center_targets(self, units):
        return units.center_labels_

    def center_outputs(self, units):
        return self.targets_of(self.center_targets(units)).matrix()

    def targets_of(self, y):
        """Targets of labels (rows,) or (rows, n_outputs) that all are known."""
        columns = np.reshape(y, (len(y), -1)).T
        pairs = zip(self.labels.each, columns, strict=True)
        return self.labels.targets(np.column_stack([np.searchsorted(k, c) for k, c in pairs]))

    def scored_rows(self, samples, random_state):
        most = max(self.least_scored, self.most_scored // samples.targets.n_outputs)
        if len(samples) <= most:
            return None
        present = samples.present
        most, random = min(most, len(present)), generator(random_state)
        return np.sort(random.choice(present, most, replace=False, shuffle=False))

    def left_out(self, training, chosen, rows):
        samples, of = training.samples, slice(None) if rows is None else rows
        codes, weight = samples.targets.all_codes[of], samples.weight_of(of)
        scores = self.labels.scores_of(chosen.scores)
        return {"temperature_": self.labels.temperatures(scores, codes, weight)}

    def calibrated(self, left_out, sample):
        scores = self.labels.scores_of(left_out.scores)
        sums = sample.rows.sums * left_out.is_known[:, None]
        # Few scores that are known may all be right by chance, as those of few rows may.
        prior_rows = max(sample.prior_rows, PRIOR_ROWS * (1 - left_out.is_known.mean()))
        return {"temperature_": self.labels.temperatures_of(scores, sums, prior_rows)}

    def uncalibrated(self):
        none = np.empty((0, sum(len(classes) for classes in self.labels.each)))
        return {"temperature_": self.labels.temperatures_of(self.labels.scores_of(none), none)}

    def why_no_sums(self):
        if is_word(self.class_weight, "balanced"):
            return (
                'class_weight="balanced" counts all rows; with partial_fit give a dict, or '
                "sample_weight."
            )
        return None


def _check_classes(labels, codes, weight):
    for output, (classes, column) in enumerate(zip(labels.each, codes.T, strict=True)):
        if weight is not None:
            classes = classes[np.flatnonzero(np.bincount(column[weight > 0]))]
        if len(classes) < 2:
            where = "y" if labels.is_single else f"Column {output} of y"
            raise ValueError(
                f"{where} holds one class, {classes[0]}, in rows of positive sample_weight; a "
                "classifier needs two or more."
            )
