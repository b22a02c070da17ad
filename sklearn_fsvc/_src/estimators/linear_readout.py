"""The base class of readouts: parameters, fitted attributes, and scores of validation samples."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.streaming import Consumer, cast_layer, stream
from ..parts.base import UNSET
from ..parts.readout import Readout, ReadoutTraining
from ..readouts.draw_sample import mark_repeated_rows
from ..readouts.leave_one_out import HeldOutScores
from ..readouts.linear import LinearPredictor, Solution, warn_of_problem
from ..readouts.penalty_search import PenaltySearchResult, gather_and_search
from ..readouts.statistics import RidgeStatistics
from ..readouts.uncovered import score_uncovered, shrink_to_intercept
from ..utils.parameters import (
    check_choice,
    check_positive,
    check_positive_integer,
    check_positive_or_auto,
    is_option,
    parse_penalty,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Readout):
    """A linear readout: its parameters, and how W and b become fitted attributes.

    Attributes
    ----------
    alpha, forgetting_factor, readout, learning_rate, max_iter, shuffle, random_state
        Parameters of `RBFClassifier`. Other estimators may have some of them.
    choices : tuple of str
        Valid values of `readout`; empty if that is not a parameter.
    sample : RowSample or None
        The rows that calibrate, if they are given by a stacked ensemble. It reads their
        leave-one-out scores, `HeldOutScores`, from ``left_out_``.
    folds : ndarray of int or None
        The fold of each row of that sample, for `HeldOutScores.oof_scores`.
    validation_sample : RowSample or None
        Some of the given validation samples, whose scores are then those of `left_out_`.
    """

    alpha: Any
    forgetting_factor: Any
    readout: Any = "ridge"
    learning_rate: Any = "auto"
    max_iter: Any = 1
    shuffle: Any = False
    random_state: Any = None
    choices: tuple[str, ...] = ()
    sample: Any = None
    folds: Any = None
    validation_sample: Any = None
    precision_: Any = UNSET
    left_out_: Any = UNSET

    def check(self, units: Any, target: Any) -> None:
        parse_penalty(self.alpha)
        if check_positive("forgetting_factor", self.forgetting_factor) > 1:
            raise ValueError(
                f"forgetting_factor={self.forgetting_factor!r} must be at most 1, which weights "
                "all samples alike."
            )
        if self.choices:
            check_choice("readout", self.readout, self.choices)
        check_positive_integer("max_iter", self.max_iter)
        check_positive_or_auto("learning_rate", self.learning_rate)

    @property
    def selects_by_loo(self) -> bool:
        """Return whether `alpha` is several penalties, of which leave-one-out selects one."""
        is_array = np.iterable(self.alpha) and not isinstance(self.alpha, str)
        return is_array or is_option(self.alpha, "loo")

    @property
    def has_given_sample(self) -> bool:
        return self.sample is not None

    @property
    def n_iter(self) -> int:
        """Passes over the samples."""
        return 1

    def solved(
        self, engine: Any, solution: Solution, target: Any, dtype: Any, **fitted: Any
    ) -> Self:
        """Return the readout with a `Solution`, and other fitted attributes.

        Parameters
        ----------
        dtype : dtype
            Of H.

        Raises
        ------
        ValueError
            If the solution is not finite.
        """
        W, b = engine.to_host(solution.W), engine.to_host(solution.b)
        if not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise ValueError(self._diverged())
        fitted["readout_coef_"], fitted["readout_intercept_"] = target.score_coefficients(
            W, b, dtype, fitted.get("matrix_scaling_")
        )
        if "lms" in self.choices:  # those estimators have `n_iter_` with every readout
            fitted.setdefault("n_iter_", self.n_iter)
        return self.with_fitted(**fitted)

    def train(self, training: ReadoutTraining) -> Self:
        # The samples are those of `Samples.with_unit_weights`; the parameter and the fitted
        # penalties are for the given weights. The posterior is not: its noise is that of a sample
        # of mean weight, so that standard deviations do not depend on the unit of the weights.
        scale = training.history.alpha_scale
        if scale == 1:
            return self._train(training)
        is_given = not isinstance(self.alpha, str)
        alpha = np.divide(self.alpha, scale) if is_given else self.alpha
        sample = self.sample and self.sample.divided(scale)
        trained = replace(self, alpha=alpha, sample=sample)._train(training)
        given = self.alpha if is_given else None
        fitted = {
            "alpha_": float(_multiplied_penalties(trained.alpha_, scale, given)),
            "mean_weight_": scale,
        }
        if trained.alphas_ is not UNSET:
            fitted["alphas_"] = _multiplied_penalties(trained.alphas_, scale, given)
        return trained.update_fitted(**fitted)

    def _train(self, training: ReadoutTraining) -> Self:
        """Return the trained readout, with penalties for samples of unit weights."""
        raise NotImplementedError

    # The readouts "lms" and "none" (FSVC) have no penalty: the scores of a sample that no unit
    # covers, whatever the kernel, are the targets of the nearest centre.

    def uses_nearest_unit(self, units: Any, target: Any) -> bool:
        has_targets = target.scores_uncovered_by_center and units.support is not None
        return has_targets and (self.alpha_ is UNSET or units.layer.has_compact_support)

    def nearest_scores(self, units: Any, target: Any) -> Any:
        if not self.uses_nearest_unit(units, target):
            return None
        scores = target.labels.scores_of(target.center_outputs(units))
        if self.matrix_scaling_ is not UNSET:
            coef, constants = target.labels.score_map(self.matrix_scaling_)
            scores = scores @ coef.T + constants
        if self.alpha_ is UNSET:
            return scores
        mean_weight = 1.0 if self.mean_weight_ is UNSET else self.mean_weight_
        return shrink_to_intercept(scores, self.readout_intercept_, self.alpha_ / mean_weight)

    def with_solution(self, training: ReadoutTraining, solution: Solution, **fitted: Any) -> Self:
        """Return the trained readout, and warn of a problem of the solution."""
        warn_of_problem(solution.problem)
        engine, dtype = training.job.engine, training.layer.hidden_dtype
        return self.solved(engine, solution, training.target, dtype, **fitted)

    def _diverged(self) -> str:
        return f"The readout of {self.owner} is not finite; scale the features of X."


def _multiplied_penalties(alphas: Any, scale: float, given: Any) -> Any:
    """Return the penalties times the scale; if they were given, as they were before division."""
    multiplied = np.multiply(alphas, scale)
    if given is None:
        return multiplied
    given = np.ravel(given)
    return given[np.abs(np.subtract.outer(multiplied, given)).argmin(axis=-1)]


def center_outputs(units: Any, target: Any) -> npt.NDArray | None:
    """Return the targets (n_units, n_outputs) of the centres; None if no score depends on them.

    They score uncovered samples of classifiers if the layer has compact support.
    """
    if target.scores_uncovered_by_center and units.support is not None:
        return target.center_outputs(units)
    return None


def search_held_out(
    training: ReadoutTraining, random: np.random.Generator
) -> tuple[PenaltySearchResult, RidgeStatistics]:
    """Return the ridge penalty of the least held-out error, and the statistics of all samples."""
    return gather_and_search(
        training.job, training.layer, training.samples, random, training.history,
        center_rows=sole_centers(training),
    )  # fmt: skip


def sole_centers(training: ReadoutTraining) -> npt.NDArray | None:
    """Return the row numbers of the centres, with -1 for those that other samples equal.

    Without one of its copies, the unit would still be there.
    """
    return mark_repeated_rows(training.job, training.samples, training.units.support)


def score_validation(
    job: Job,
    layer: Any,
    sample: Any,
    solution: Solution,
    alpha: float,
    center_outputs: npt.NDArray | None = None,
    oof_scores: npt.NDArray | None = None,
) -> HeldOutScores:
    """Return the scores of validation samples by a readout, which was not trained on them.

    Parameters
    ----------
    job : Job
    layer : RBFLayer or another layer
    sample : RowSample
        Of the validation samples.
    solution : Solution
        The readout.
    alpha : float
        Its penalty.
    center_outputs : ndarray of shape (n_units, n_outputs), optional
        As of `LeaveOneOut`.
    oof_scores : ndarray, optional
        `HeldOutScores.oof_scores` of training samples.
    """
    X, to_host = sample.rows.X, job.engine.to_host
    layer, job = cast_layer(layer, X), job.silent()
    W, b = to_host(solution.W), to_host(solution.b)
    nearest = None
    if center_outputs is not None and layer.has_compact_support:
        nearest = shrink_to_intercept(center_outputs, b, alpha)
    predictor = LinearPredictor(job.engine, W, b, layer.hidden_dtype, nearest is not None)
    scores = np.empty((len(X), len(b)))

    def take(part, H):
        scores[part] = predictor.scores(part, H)

    def replace_rows(rows, outputs):
        scores[rows] = outputs

    stream(job, layer, X, Consumer(take, row_bytes=predictor.row_bytes))
    score_uncovered(job, layer, X, predictor.uncovered, nearest, replace_rows)
    return HeldOutScores(layer.n_units, scores, np.ones(len(X), bool), oof_scores)
