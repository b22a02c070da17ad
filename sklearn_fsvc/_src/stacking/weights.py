"""The weights of the networks of a stacked ensemble, and what is computed with them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..layers import hidden_dtype
from ..parts import Part
from ..readouts.ensemble_weights import squared_errors, weigh_by_log_loss, weigh_by_squared_error

# Scores of all members by which weights are found.
_SCORES = 2**19
# Rows of a fold, and folds at least and at most. What the scores of folds tell of the targets in
# them falls with their rows: below 300 a final network learned noise (24 problems of no or weak
# signal); with few folds the readouts see fewer rows than the final ones.
_FOLD_ROWS, _FEWEST_FOLDS, _MOST_FOLDS = 400, 2, 10


@dataclass(frozen=True, eq=False, kw_only=True)
class EnsembleWeighting(Part, ABC):
    """How the scores of networks, for classification or regression, are combined."""

    max_weight_samples: int = 2**10  # by which weights are found: few numbers need no more
    n_trained_on: int = 2**13  # the same where a final network is trained on them
    min_gain: float = 1.0  # standard errors by which a final network must lower the squared error
    attributes: ClassVar = (
        "weights_", "intercept_", "final_weight_", "loo_errors_", "loo_error_",
    )  # fmt: skip

    @abstractmethod
    def weights(self, task, scores, Y, weight):
        """Return the weights of members, by their scores (n_members, n_rows, n_outputs).

        Y (n_rows, n_outputs) is what they should be, and `weight` is that of each row.
        """

    @abstractmethod
    def as_features(self, task, scores):
        """Return scores (n_rows, n_scores), as answers have them, as features of a network."""

    def calibrated(self, task, scores, sums):
        """Return fitted attributes made of scores (n_rows, n_outputs) of the ensemble.

        `sums` are the targets times the weights of the rows.
        """
        return {}

    def n_rows(self, n_members, n_outputs, has_final):
        """Return by how many rows weights are found, at most."""
        most = self.n_trained_on if has_final else self.max_weight_samples
        return min(most, max(1, _SCORES // (n_members * n_outputs)))

    def weigh(self, task, left_out, sample):
        """Return the `WeightedEnsemble`, by the `LOOScores` of each network for a sample."""
        Y, weight, each = sample.targets, sample.rows.weight, np.stack([e.scores for e in left_out])
        weights = self.weights(task, each, Y, weight)
        errors, of_folds = squared_errors(each, Y, weight), None
        if left_out[0].fold_scores is not None:
            of_folds = np.tensordot(weights, np.stack([e.fold_scores for e in left_out]), 1)
        return WeightedEnsemble(
            weights, errors, Y, weight, np.tensordot(weights, each, 1), of_folds
        )

    def append_scores(self, task, X, scores):
        """Return rows with scores, as of `as_features`, beside their features."""
        dtype = hidden_dtype(X.dtype)
        return np.hstack([X.astype(dtype, copy=False), self.as_features(task, scores)], dtype=dtype)

    def with_ensemble(self, task, ensemble):
        """Return the part that knows what was found for a `WeightedEnsemble`."""
        weights, Y, weight = ensemble.weights, ensemble.Y, ensemble.weight
        # What scores of 0 stand for: the mean of y, which a sum has once.
        origin = decision_scores(task, np.zeros((1, Y.shape[1])))[0]
        (error,) = squared_errors([ensemble.scores], Y, weight)
        return self.with_fitted(
            weights_=weights[ensemble.used], intercept_=(1 - weights.sum()) * origin,
            final_weight_=ensemble.share, loo_errors_=ensemble.errors, loo_error_=float(error),
            **self.calibrated(task, ensemble.scores, Y * weight[:, None]),
        )  # fmt: skip


class ClassWeighting(EnsembleWeighting):
    """Scores of classes: the least log-loss."""

    attributes = (*EnsembleWeighting.attributes, "temperature_")

    def weights(self, task, scores, Y, weight):
        return weigh_by_log_loss(scores, Y, [len(classes) for classes in task.labels.each], weight)

    def as_features(self, task, scores):
        return scores

    def calibrated(self, task, scores, sums):
        labels = task.labels
        return {"temperature_": labels.temperatures_of(labels.scores_of(scores), sums)}


class NumericWeighting(EnsembleWeighting):
    """Numbers: the least squared error."""

    def weights(self, task, scores, Y, weight):
        return weigh_by_squared_error(scores, Y, weight)

    def as_features(self, task, scores):
        return (scores - task.mean) / task.scale


@dataclass(frozen=True, eq=False)
class WeightedEnsemble:
    """Networks with weights that were found by their leave-one-out scores."""

    weights: np.ndarray  # (n_members,)
    errors: np.ndarray  # (n_members,): mean squared errors of the members
    Y: np.ndarray  # (n_rows, n_outputs)
    weight: np.ndarray  # (n_rows,): of the rows
    scores: np.ndarray  # (n_rows, n_outputs): of all networks together, leave-one-out
    fold_scores: Any = None  # the same without all rows of a row's fold, for a final network
    final: Any = None  # the final network
    share: float = 0.0  # its weight, where the members' has the rest of 1

    @property
    def used(self):
        """The numbers of the members that have a weight."""
        return np.flatnonzero(self.weights > 0)

    @property
    def has_all_outputs(self):
        """Whether no output is the same for all rows, such as a class that the sample lacks."""
        return bool(np.ptp(self.Y, axis=0).all())

    def with_final(self, final, rows, scores, min_gain):
        """Return the ensemble with a final network, by its scores of some rows, if they gain.

        Both are scores without a row's fold, and their squared errors are compared, of classes,
        too. A final network that gains no more than chance might is left out.
        """
        Y, weight, before = self.Y[rows], self.weight[rows], self.fold_scores[rows]
        share, own = weigh_by_squared_error(np.stack([before, scores]), Y, weight)[::-1]
        share = float(share / (share + own))
        scores = (1 - share) * before + share * scores
        gain = np.square(Y - before).sum(axis=1) - np.square(Y - scores).sum(axis=1)
        if not exceeds(gain, weight, min_gain):
            return self
        return replace(self, Y=Y, weight=weight, scores=scores, final=final, share=share)


def folds_of(sample):
    """Return the fold of each row of a sample, whose rows are in random order."""
    n_rows = len(sample.targets)
    n_folds = int(np.clip(n_rows // _FOLD_ROWS, _FEWEST_FOLDS, _MOST_FOLDS))
    return np.arange(n_rows) * n_folds // n_rows


def exceeds(values, weight, n_errors):
    """Return whether the weighted mean of values is above 0 by so many of its standard errors."""
    share = weight / weight.sum()
    mean = share @ values
    return bool(mean > n_errors * np.sqrt(share**2 @ (values - mean) ** 2))


def decision_scores(task, scores):
    """Scores (n_rows, n_outputs) that were learned, as answers have them."""
    found, origin = task.outputs(scores.T, np.zeros(scores.shape[1]), np.float64)
    return found.T + origin
