"""The weights of the networks of a stacked ensemble, found from leave-one-out scores.

This is stacked regression with non-negative weights (L. Breiman 1996, "Stacked regressions"), with
leave-one-out scores, which a ridge readout has in closed form, in place of cross-validated ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GroupKFold

from ..data.samples import Samples
from ..data.sources import select_rows
from ..engines.algebra import HOST
from ..hidden_layers.scale import ScaleSample
from ..layers import hidden_dtype
from ..parts.base import UNSET, Part
from ..parts.target import TargetSpec
from ..readouts.calibration import Calibration, fit_offset
from ..readouts.leave_one_out import HeldOutScores
from ..readouts.residuals import fit_residual_distribution
from ..readouts.row_sample import RowSample, mean_and_error
from .weight_solvers import squared_errors, weigh_by_log_loss, weigh_by_squared_error

# Upper bound of the scores, of all base estimators together, from which weights are found.
_MAX_SCORES = 2**19
# Samples per fold, and bounds of the number of folds, for the training of a final estimator.
# Out-of-fold scores leak information about the targets in the fold, the more the smaller it is:
# below 300 samples a final estimator fitted noise (24 problems with no or weak signal). With few
# folds, the readouts that score are trained on fewer samples than those that predict.
_FOLD_SIZE, _MIN_FOLDS, _MAX_FOLDS = 400, 2, 10


@dataclass(frozen=True, eq=False, kw_only=True)
class EnsembleWeighting(Part, ABC):
    """How the scores of base estimators are combined, for classification or regression.

    Attributes
    ----------
    max_weight_samples : int
        Upper bound of the samples from which weights are found. A few parameters need no more.
    max_final_samples : int
        The same if a final estimator is trained on these samples.
    min_gain : float
        Standard errors by which a final estimator must reduce the squared error.
    """

    max_weight_samples: int = 2**10
    max_final_samples: int = 2**13
    min_gain: float = 1.0
    weights_: Any = UNSET
    intercept_: Any = UNSET
    final_weight_: float = UNSET
    feature_scale_: float = 1.0  # that of models of earlier versions, which do not have it
    loo_errors_: Any = UNSET
    loo_error_: float = UNSET
    matrix_scaling_: Any = UNSET

    @abstractmethod
    def find_weights(
        self, target: TargetSpec, scores: npt.NDArray, Y: npt.NDArray, weight: npt.NDArray
    ) -> npt.NDArray:
        """Return the non-negative weights of the base estimators.

        Parameters
        ----------
        target : TargetSpec
        scores : ndarray of shape (n_estimators, n_samples, n_outputs)
            Leave-one-out scores.
        Y : ndarray of shape (n_samples, n_outputs)
            The encoded targets.
        weight : ndarray of shape (n_samples,)

        Returns
        -------
        weights : ndarray of shape (n_estimators,)
        """

    @abstractmethod
    def standardise(self, target: TargetSpec, scores: npt.NDArray) -> npt.NDArray:
        """Return predicted scores (n_samples, n_scores) in units of the encoded targets."""

    def as_features(self, target: TargetSpec, scores: npt.NDArray) -> npt.NDArray:
        """Return predicted scores (n_samples, n_scores) as features of a final estimator."""
        return self.standardise(target, scores) * self.feature_scale_

    @property
    def score_offset(self) -> float:
        """Return what is subtracted from the scores of all networks together."""
        return 0.0

    def origin(self, target: TargetSpec) -> Any:
        """Return the scores of a readout without activations, of the shape of one prediction."""
        return 0.0

    def calibrate(
        self, target: TargetSpec, ensemble: "WeightedEnsemble", X: Any, networks: Sequence[Any]
    ) -> dict[str, Any]:
        """Return the fitted attributes that are computed from scores of the ensemble.

        `X` are the samples of `ensemble.rows`, and `networks` the base estimators.
        """
        return {}

    def n_samples(self, n_estimators: int, n_outputs: int, has_final: bool) -> int:
        """Return from how many samples weights are found, at most."""
        n_max = self.max_final_samples if has_final else self.max_weight_samples
        return min(n_max, max(1, _MAX_SCORES // (n_estimators * n_outputs)))

    def combine(
        self,
        target: TargetSpec,
        left_out: Sequence[HeldOutScores],
        sample: RowSample,
        is_by_fold: bool = False,
    ) -> "WeightedEnsemble":
        """Return the weighted ensemble for leave-one-out or out-of-fold (`is_by_fold`) scores."""
        Y, weight = sample.targets, sample.rows.weight
        scores = [one.oof_scores if is_by_fold else one.scores for one in left_out]
        loo_scores, oof_scores = np.stack(scores), None  # type: ignore[arg-type]
        weights = self.find_weights(target, loo_scores, Y, weight)
        of_folds = [one.oof_scores for one in left_out if one.oof_scores is not None]
        if of_folds:  # all base estimators have them, or none
            oof_scores = np.tensordot(weights, np.stack(of_folds), 1)
        return WeightedEnsemble(
            weights, squared_errors(loo_scores, Y, weight), Y, weight, np.arange(len(Y)),
            np.tensordot(weights, loo_scores, 1), oof_scores,
        )  # fmt: skip

    def with_scale_of(self, X: npt.NDArray, weight: npt.NDArray) -> Self:
        """Return the weighting whose features of a final estimator have the scale of X.

        So the ratio of scores to X does not depend on the unit of X. The folds of samples do, which
        are those of their hashes.
        """
        random = np.random.default_rng(0)
        sample = ScaleSample.draw(HOST, X, np.arange(len(X)), weight, random)
        return self.update_fitted(feature_scale_=sample.spread)

    def append_scores(self, target: TargetSpec, X: npt.NDArray, scores: npt.NDArray) -> npt.NDArray:
        """Return X with predicted scores appended as further features."""
        dtype = hidden_dtype(X.dtype)
        return np.hstack(
            [X.astype(dtype, copy=False), self.as_features(target, scores)], dtype=dtype
        )

    def with_ensemble(
        self, target: TargetSpec, ensemble: "WeightedEnsemble", X: Any, networks: Sequence[Any]
    ) -> Self:
        """Return the weighting with the fitted attributes of an ensemble.

        `X` are the samples of which the ensemble has scores, and `networks` all base estimators.
        """
        weights, Y, weight = ensemble.weights, ensemble.Y, ensemble.sample_weight
        # Each base estimator predicts with the mean of y as its origin; the weighted sum must have
        # this origin once, though the weights need not add up to 1.
        origin = decision_scores(target, np.zeros((1, Y.shape[1])))[0]
        (error,) = squared_errors([ensemble.scores], Y, weight)
        return self.with_fitted(
            weights_=weights[ensemble.used],
            intercept_=(1 - weights.sum()) * origin,
            final_weight_=ensemble.final_weight,
            feature_scale_=self.feature_scale_,
            loo_errors_=ensemble.errors,
            loo_error_=float(error),
            **self.calibrate(target, ensemble, select_rows(X, ensemble.rows), networks),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassWeighting(EnsembleWeighting):
    """Weights that minimise the log-loss, for classification."""

    temperature_: Any = UNSET
    score_scale_: Any = UNSET
    score_offset_: Any = UNSET
    conformity_scores_: Any = UNSET

    @property
    def score_offset(self):
        return self.score_offset_

    def find_weights(self, target, scores, Y, weight):
        sizes = [len(classes) for classes in target.labels.classes_per_output]
        return weigh_by_log_loss(scores, Y, sizes, weight)

    def standardise(self, target, scores):
        return scores

    def calibrate(self, target, ensemble, X, networks):
        labels, class_weights = target.labels, ensemble.Y * ensemble.sample_weight[:, None]
        scores = labels.scores_of(ensemble.scores)
        fitted = labels.calibrate(labels.split_rows(scores, class_weights), maps_scores=True)
        weights = target.prior_weights
        if weights is None:
            return fitted | {"score_offset_": 0.0}
        calibration = Calibration(fitted["temperature_"], fitted["score_scale_"])
        (output,) = labels.split_rows(scores, class_weights / weights)
        offset = fit_offset(calibration, *output)
        outputs = [(output[0] - offset, *output[1:])]
        conformity = labels.conformity_scores(outputs, [calibration._replace(offset=offset)])
        return fitted | {"score_offset_": offset} | conformity


@dataclass(frozen=True, eq=False, kw_only=True)
class NumericWeighting(EnsembleWeighting):
    """Weights that minimise the squared error, for regression."""

    smearing_: Any = UNSET
    residual_distribution_: Any = UNSET

    def find_weights(self, target, scores, Y, weight):
        return weigh_by_squared_error(scores, Y, weight)

    def standardise(self, target, scores):
        return target.standardise(scores)

    def origin(self, target):
        return np.atleast_1d(target.target_mean_)

    def calibrate(self, target, ensemble, X, networks):
        scores, Y, weight = ensemble.scores, ensemble.Y, ensemble.sample_weight
        with networks[ensemble.weights.argmax()]._open_prediction(X, "fit") as run:
            fitted = fit_residual_distribution(run.job, run.layer, run.X, scores, Y, weight)
        return fitted | target.smearing(Y - scores, weight)


@dataclass(frozen=True, eq=False)
class WeightedEnsemble:
    """Base estimators with weights, and the scores from which the weights were found."""

    weights: npt.NDArray  # (n_estimators,)
    errors: npt.NDArray  # (n_estimators,): mean squared leave-one-out error of each base estimator
    Y: npt.NDArray  # (n_samples, n_outputs): encoded targets
    sample_weight: npt.NDArray  # (n_samples,)
    rows: npt.NDArray  # (n_samples,): their indices in the sample that was scored
    scores: npt.NDArray  # (n_samples, n_outputs): leave-one-out scores of the ensemble
    # (n_rows, n_outputs): its out-of-fold scores of the training samples, which are others than
    # those above if the ensemble is weighted by validation samples; None without folds.
    oof_scores: Any = None
    final_estimator: Any = None
    final_weight: float = 0.0  # the base estimators have 1 - final_weight

    @property
    def used(self) -> npt.NDArray:
        """Return the indices of the base estimators with positive weights."""
        return np.flatnonzero(self.weights > 0)

    def with_final(
        self,
        final_estimator: Any,
        rows: npt.NDArray,
        before: npt.NDArray,
        scores: npt.NDArray,
        min_gain: float,
    ) -> "WeightedEnsemble":
        """Return the ensemble with a final estimator, or unchanged if that does not reduce errors.

        The squared errors of both are compared, in classification too. The final estimator is
        dropped unless it gains more than `min_gain` standard errors.

        Parameters
        ----------
        final_estimator : estimator
        rows : ndarray of int of shape (n_rows,)
            Samples that validate, as indices into this ensemble's sample.
        before, scores : ndarrays of shape (n_rows, n_outputs)
            Scores of the ensemble and of the final estimator: out-of-fold, or of given validation
            samples.
        min_gain : float
        """
        Y, weight = self.Y[rows], self.sample_weight[rows]
        base_weight, final_weight = weigh_by_squared_error(np.stack([before, scores]), Y, weight)
        final_weight = float(final_weight / (final_weight + base_weight))
        scores = (1 - final_weight) * before + final_weight * scores
        gains = np.square(Y - before).sum(axis=1) - np.square(Y - scores).sum(axis=1)
        gain, standard_error = mean_and_error(gains, weight)
        if not gain > min_gain * standard_error:
            return self
        return replace(
            self, Y=Y, sample_weight=weight, rows=self.rows[rows], scores=scores,
            final_estimator=final_estimator, final_weight=final_weight,
        )  # fmt: skip


def assign_folds(sample: RowSample, groups: npt.NDArray | None) -> npt.NDArray:
    """Return the fold of each row of a sample.

    Contiguous blocks, since the order of the sample is random; or if the group of each row is
    given, folds of whole groups.
    """
    n_rows = len(sample.targets)
    n_folds = int(np.clip(n_rows // _FOLD_SIZE, _MIN_FOLDS, _MAX_FOLDS))
    if groups is None:
        return np.arange(n_rows) * n_folds // n_rows
    folds = np.empty(n_rows, int)
    splitter = GroupKFold(min(n_folds, len(np.unique(groups))))
    for fold, (_, rows) in enumerate(splitter.split(groups, groups=groups)):
        folds[rows] = fold
    return folds


def sample_groups(samples: Samples, n_rows: int) -> npt.NDArray | None:
    """Return the rows of some groups, about `n_rows` of two groups or more; None for all rows."""
    present, all_groups = samples.rows_with_weight, samples.groups
    if all_groups is None or len(present) <= n_rows:
        return None
    sizes = np.bincount(all_groups[present])
    order = np.random.default_rng(0).permutation(np.flatnonzero(sizes))
    n_covered = int(np.searchsorted(np.cumsum(sizes[order]), n_rows, side="right"))
    n_groups = max(_MIN_FOLDS, n_covered)
    return present[np.isin(all_groups[present], order[:n_groups])]


def decision_scores(target: TargetSpec, scores: npt.NDArray) -> npt.NDArray:
    """Return readout outputs (n_samples, n_outputs) as the decision scores that are predicted."""
    coef, intercept = target.score_coefficients(scores.T, np.zeros(scores.shape[1]), np.float64)
    return coef.T + intercept
