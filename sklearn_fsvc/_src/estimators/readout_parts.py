"""The readouts: ridge, softmax, and those of FSVC: LMS and untrained."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..data.sources import is_in_memory
from ..data.streaming import cast_layer
from ..hidden_layers.layer_parameter import is_learned
from ..parts.base import UNSET
from ..parts.readout import Readout
from ..parts.target import ReadoutTraining
from ..readouts.calibration import Calibration
from ..readouts.cross_validation import draw_validation
from ..readouts.draw_sample import unrepeated_rows
from ..readouts.dual import (
    DualLOO,
    gather_dual_problem,
    search_dual,
    search_dual_validated,
    suits_dual,
)
from ..readouts.leave_one_out import HeldOutScores, LeaveOneOut, SampledLOO
from ..readouts.linear import Solution, shrink_to_intercept, warn_of
from ..readouts.lms import LmsTrainer, untrained
from ..readouts.loo_penalty import (
    draw_penalty_sample,
    search_dual_left_out,
    select_from_loo_grid,
    suits_left_out,
    train_left_out,
)
from ..readouts.penalty_search import train_held_out
from ..readouts.ridge import gather_with_fallback
from ..readouts.softmax import train_softmax
from ..readouts.softmax_penalty import search_softmax_penalty
from ..readouts.statistics import RidgeStatistics
from ..readouts.validation_scores import score_validation
from ..utils.parameters import (
    check_choice,
    check_positive,
    check_positive_integer,
    check_positive_or_auto,
    is_option,
    make_generator,
    parse_penalty,
)
from .automatic_precision import train_quantised


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Readout):
    """A linear readout: its parameters, and how W and b become fitted attributes.

    Attributes
    ----------
    alpha, forgetting_factor, readout, learning_rate, max_iter, shuffle, random_state
        Parameters of `RBFClassifier`. Other estimators may have some of them.
    choices : tuple of str
        Valid values of `readout`; empty if that is not a parameter.
    sample : Sample or None
        The rows that calibrate, if they are given by a stacked ensemble. It reads their
        leave-one-out scores, `HeldOutScores`, from ``left_out_``.
    folds : ndarray of int or None
        The fold of each row of that sample, for `HeldOutScores.oof_scores`.
    validation_sample : Sample or None
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

    def check(self, units: Any, task: Any) -> None:
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
    def has_given_sample(self) -> bool:
        return self.sample is not None

    @property
    def n_iter(self) -> int:
        """Passes over the samples."""
        return 1

    def solved(self, engine: Any, solution: Solution, task: Any, dtype: Any, **fitted: Any) -> Self:
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
        fitted["readout_coef_"], fitted["readout_intercept_"] = task.score_coefficients(W, b, dtype)
        if "lms" in self.choices:
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
        fitted = {"alpha_": float(_multiplied_penalties(trained.alpha_, scale, given))}
        if trained.alphas_ is not UNSET:
            fitted["alphas_"] = _multiplied_penalties(trained.alphas_, scale, given)
        return trained.update_fitted(**fitted)

    def _train(self, training: ReadoutTraining) -> Self:
        """Return the trained readout, with penalties for samples of unit weights."""
        raise NotImplementedError

    def uses_nearest_unit(self, units: Any, task: Any) -> bool:
        return _uses_nearest_unit(units, task)

    def nearest_scores(self, units: Any, task: Any) -> Any:
        if not self.uses_nearest_unit(units, task):
            return None
        scores = task.labels.scores_of(task.center_outputs(units))
        return shrink_to_intercept(scores, self.readout_intercept_, self.alpha_)

    def with_solution(self, training: ReadoutTraining, solution: Solution, **fitted: Any) -> Self:
        """Return the trained readout, and warn of a problem of the solution."""
        warn_of(solution.problem)
        engine, dtype = training.job.engine, training.layer.hidden_dtype
        return self.solved(engine, solution, training.task, dtype, **fitted)

    def _diverged(self) -> str:
        return f"The readout of {self.owner} is not finite; scale the features of X."


def _multiplied_penalties(alphas: Any, scale: float, given: Any) -> Any:
    """Return the penalties times the scale; if they were given, as they were before division."""
    multiplied = np.multiply(alphas, scale)
    if given is None:
        return multiplied
    given = np.ravel(given)
    return given[np.abs(np.subtract.outer(multiplied, given)).argmin(axis=-1)]


class Ridge(Linear):
    """Squared errors with an L2 penalty on W, which is given or chosen."""

    is_ridge = fits_units = has_probabilities = True

    def check_samples(self, samples: Any) -> None:
        if samples.may_leave_one_out or not isinstance(parse_penalty(self.alpha), tuple):
            return
        if samples.validation is not None:
            raise ValueError(
                f"alpha={self.alpha!r} is chosen by leave-one-out, and not by validation samples; "
                'with X_val use a number, or "auto".'
            )
        raise ValueError(
            f"alpha={self.alpha!r} is chosen by leave-one-out, which does not leave out the "
            'groups of samples; with groups use a number, or "auto".'
        )

    def _train(self, training: ReadoutTraining) -> Self:
        if is_option(training.units.precision, "auto"):
            penalty = parse_penalty(self.alpha)
            readout = train_quantised(training, penalty, self.random_state, self._solve)
            if readout is not None:
                return readout
        return self._solve(training)

    def _solve(self, training):
        """Return the trained readout: by leave-one-out, by the dual, or by the statistics."""
        job, layer, samples, task = training.job, training.layer, training.samples, training.task
        penalty = parse_penalty(self.alpha)
        if self.leaves_one_out(task):
            if penalty == "auto":
                penalty = self._search_penalty(training)[0]  # the statistics are released
            alphas = penalty if isinstance(penalty, tuple) else (penalty,)
            return self._train_by_loo(training, alphas)
        if suits_dual(job, layer, samples):
            readout = self._train_by_dual(training, penalty)
            if readout is not None:
                return readout
        if penalty == "auto":
            alpha, statistics = self._search_penalty(training)
        else:
            alpha, statistics = penalty, gather_with_fallback(job, layer, samples)
        loo = scores = None
        if self._needs_loo_scores(training):
            sample = self.sample or task.draw_sample(job, samples)
            loo = SampledLOO(job, layer, sample, statistics, folds=self.folds, units=training.units)
            solve = loo.solve if task.needs_loo_scores or self.sample else loo.solve_plain
            solution, scores = solve(alpha, is_last=True)
        else:
            solution = statistics.solve(alpha, is_last=True)
        fitted = self._calibrate(training, solution, alpha, loo, scores)
        return self.with_solution(training, solution, alpha_=alpha, **fitted)

    def _needs_loo_scores(self, training):
        """Return whether scores are left out; those of given validation samples need not be."""
        if training.samples.validation is not None:
            return self.folds is not None
        return self._calibrates(training.task)

    def _calibrates(self, task):
        return bool(task.needs_loo_scores or task.estimates_residuals or self.sample)

    def _search_penalty(self, training):
        """Return the penalty that alpha="auto" chooses, and the statistics of all samples."""
        job, layer, samples = training.job, training.layer, training.samples
        if suits_left_out(samples, training.units, is_stacked=bool(self.sample)):
            found, statistics = train_left_out(
                job, layer, samples, self._penalty_sample(training), training.units,
                training.history, self._prefers_large(samples),
            )  # fmt: skip
        else:
            random = make_generator(self.random_state)
            found, statistics = train_held_out(
                job, layer, samples, random, training.history, center_rows=_sole_centers(training)
            )
        return found.alpha, statistics

    def _penalty_sample(self, training):
        """Return the samples whose leave-one-out error selects a penalty."""
        return self.sample or draw_penalty_sample(training.job, training.samples)

    def _prefers_large(self, samples):
        """Return whether large penalties are preferred: as of `search_left_out`."""
        return not self.sample and samples.targets.is_binary

    def _train_by_dual(self, training, penalty):
        """Return the readout by the dual equations; None if they are ill-conditioned."""
        job, layer, samples = training.job, training.layer, training.samples
        problem = gather_dual_problem(job, layer, samples)
        alpha, found, loo, scores = penalty, None, None, None
        if penalty == "auto":
            start, random = training.history.start_for(layer), make_generator(self.random_state)
            if suits_left_out(samples, training.units, is_stacked=bool(self.sample)):
                found = search_dual_left_out(
                    job, layer, samples, self._penalty_sample(training), problem, training.units,
                    start, self._prefers_large(samples),
                )  # fmt: skip
            elif samples.validation is None:
                found = search_dual(problem, random, start, samples.groups)
            else:
                validation = draw_validation(samples, random)
                of_validation = gather_dual_problem(
                    job, cast_layer(layer, validation.X), validation
                )
                found = search_dual_validated(problem, of_validation, start)
            alpha = found.alpha
        solution, dual = problem.try_solve(alpha)
        if solution is None or dual is None:
            return None
        if found is not None:
            training.history.add(layer, found)
        if self._needs_loo_scores(training):
            job = job.reserve(2 * problem.H.nbytes)
            sample = self.sample or training.task.draw_sample(job, samples)
            loo = DualLOO(job, layer, sample, samples, folds=self.folds, units=training.units)
            scores = loo.score(dual, problem.H)
        fitted = self._calibrate(training, solution, alpha, loo, scores)
        return self.with_solution(training, solution, alpha_=alpha, **fitted)

    def _calibrate(
        self, training: ReadoutTraining, solution: Solution, alpha: float,
        loo: LeaveOneOut | None, scores: HeldOutScores | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the fitted attributes that are computed from scores of samples left out.

        Those are leave-one-out scores, or the scores of given validation samples.
        """
        job, units, task = training.job, training.units, training.task
        if not self._calibrates(task):
            return {}
        sample, validation = self.sample, training.samples.validation
        nearest = nearest_outputs(units, task, job.engine.to_host(solution.b), alpha)
        if loo is not None and scores is not None:
            sample, scores = loo.sample, loo.fill_uncovered(scores, nearest)
        if validation is not None:
            sample = self.validation_sample or task.draw_sample(job, validation)
            oof_scores = None if scores is None else scores.oof_scores
            scores = score_validation(job, training.layer, sample, solution, nearest, oof_scores)
        if scores is None:
            return {}
        fitted = task.calibrate(scores, sample, job, training.layer)
        return fitted | ({"left_out_": scores} if self.sample else {})

    def _train_by_loo(self, training, alphas):
        """Return the readout with the penalty of the least leave-one-out error."""
        task, samples, random_state = training.task, training.samples, self.random_state
        rows, start = task.calibration_rows(samples, random_state), None
        if is_option(self.alpha, "loo"):
            start = make_generator(random_state), training.history.start_for(training.layer)
        chosen = select_from_loo_grid(
            training.job, training.layer, samples.with_centers(_sole_centers(training)), alphas,
            self._calibrates(task),
            task.needs_posterior, rows, start, partial(nearest_outputs, training.units, task),
        )  # fmt: skip
        return self.with_solution(
            training, chosen.solution, alpha_=chosen.alpha, alphas_=np.array(chosen.alphas),
            loo_errors_=chosen.errors, **task.loo_attributes(training, chosen, rows),
        )  # fmt: skip

    def leaves_one_out(self, task: Any) -> bool:
        """Return whether leave-one-out of all samples trains it: more than a solution of sums."""
        return task.needs_posterior or isinstance(parse_penalty(self.alpha), tuple)

    def why_not_incremental(self) -> str | None:
        is_searched = np.iterable(self.alpha) and not isinstance(self.alpha, str)
        if is_searched or is_option(self.alpha, "loo"):
            return (
                f"alpha={self.alpha!r} is chosen by leave-one-out, which needs another pass over "
                'all samples; with partial_fit use a number, or "auto".'
            )
        return None


class Softmax(Linear):
    """The log-loss (multinomial logistic regression), with an L2 penalty on W."""

    has_probabilities = fits_units = True

    def check(self, units: Any, task: Any) -> None:
        super().check(units, task)
        if not is_option(self.alpha, "auto") and (np.iterable(self.alpha) or self.alpha <= 0):
            raise ValueError(
                f'alpha={self.alpha!r} and readout="softmax" cannot be combined; use a number '
                'above 0, or "auto", which minimises the log-loss of held-out samples.'
            )

    def _train(self, training: ReadoutTraining) -> Self:
        job, layer, samples, alpha = training.job, training.layer, training.samples, self.alpha
        statistics = ridge_alpha = start = None
        if is_option(alpha, "auto"):
            random = make_generator(self.random_state)
            of_ridge, statistics = train_held_out(
                job, layer, samples, random, training.history, center_rows=_sole_centers(training)
            )
            ridge_alpha = of_ridge.alpha
            search_job = job.reserve(RidgeStatistics.nbytes(layer.n_units))
            of_softmax, start = search_softmax_penalty(
                search_job, layer, samples, random, ridge_alpha
            )
            alpha = of_softmax.alpha
        result = train_softmax(
            job, layer, samples, alpha, statistics=statistics, ridge_alpha=ridge_alpha, start=start
        )
        task: Any = training.task
        temperature = 1.0 if task.labels.is_single else np.ones(task.n_columns)
        fitted = self._score_validation(training, result.solution, alpha)
        return self.with_solution(
            training, result.solution, alpha_=alpha, n_iter_=result.n_iter,
            temperature_=temperature, **fitted,
        )  # fmt: skip

    def _score_validation(self, training, solution, alpha):
        """Return the conformity scores of the validation set as a fitted attribute, if any."""
        job, task, validation = training.job, training.task, training.samples.validation
        if validation is None:
            return {}
        sample = task.draw_sample(job, validation)
        nearest = nearest_outputs(training.units, task, job.engine.to_host(solution.b), alpha)
        scores = score_validation(job, training.layer, sample, solution, nearest)
        return task.conformity_scores(scores, sample, [Calibration(1.0)] * task.n_columns)

    def why_not_incremental(self) -> str | None:
        return (
            'readout="softmax" needs several passes over all samples; with partial_fit use "ridge".'
        )


class Untrained(Linear):
    """The output weights of each unit are the target of its centre (FSVC)."""

    def uses_nearest_unit(self, units: Any, task: Any) -> bool:
        return True

    def nearest_scores(self, units: Any, task: Any) -> Any:
        """Return the targets of each unit's centre: FSVC's rule, for units of any kernel."""
        return task.labels.scores_of(task.center_outputs(units))

    def check(self, units: Any, task: Any) -> None:
        super().check(units, task)
        value = units.feature_weights
        if is_learned(value):
            raise ValueError(
                f'feature_weights="{value}" is validated by the ridge readout; with '
                f"readout={self.readout!r} use None or an array."
            )
        if units.given_layer is not None:
            raise ValueError(
                f'readout={self.readout!r} needs labels of the centres; with layer use "ridge".'
            )

    def _train(self, training: ReadoutTraining) -> Self:
        W = untrained(training.samples.targets, training.units.support)
        task: Any = training.task
        codes, weight = training.samples.targets.all_codes, training.samples.weight
        weights = task.class_weights(codes, None if weight is None else np.sign(weight))
        if weights is not None:
            W *= weights[training.units.support] / weights.max()
        W = self._correct(W, training)
        return self.with_solution(training, Solution(W, np.zeros(len(W))))

    def _correct(self, W: npt.NDArray, training: ReadoutTraining) -> Any:
        return W

    def why_not_incremental(self) -> str | None:
        return f'readout={self.readout!r} has no statistics; with partial_fit use "ridge".'


class Lms(Untrained):
    """The untrained readout, corrected sample by sample by the LMS rule."""

    @property
    def n_iter(self) -> int:
        return self.max_iter

    def check_samples(self, samples: Any) -> None:
        if self.shuffle and not is_in_memory(samples.X):
            raise ValueError(
                'readout="lms" with shuffle=True reads samples in random order, but X can only be '
                'read in order; use readout="ridge", shuffle=False, or a numpy.memmap.'
            )

    def _correct(self, W: npt.NDArray, training: ReadoutTraining) -> Any:
        W = training.job.engine.to_device(W)
        trainer = LmsTrainer(training.job, training.layer, training.samples)
        trainer.train(W, self.learning_rate, self.max_iter)
        return W

    def _diverged(self) -> str:
        return (
            f"learning_rate={self.learning_rate!r} makes the LMS readout diverge; lower it, "
            'or use learning_rate="auto".'
        )


def nearest_outputs(
    units: Any, task: Any, intercept: npt.NDArray, alpha: float
) -> npt.NDArray | None:
    """Return ridge outputs (n_units, n_outputs) for uncovered samples, by their nearest unit.

    None if such samples get the intercept: in regression, and if units cover everything.
    """
    if not _uses_nearest_unit(units, task):
        return None
    return shrink_to_intercept(task.center_outputs(units), intercept, alpha)


def _uses_nearest_unit(units, task):
    return (
        task.scores_uncovered_by_center
        and units.support is not None
        and units.layer.has_compact_support
    )


def _sole_centers(training):
    """Return the row numbers of the centres, with -1 for those that other samples equal.

    Without one of its copies, the unit would still be there.
    """
    return unrepeated_rows(training.job, training.samples, training.units.support)


# Valid values of the parameter `readout`.
READOUTS = {"ridge": Ridge, "softmax": Softmax, "lms": Lms, "none": Untrained}
# Those that need no centres.
READOUTS_WITHOUT_CENTERS = ("ridge", "softmax")


def readout_of(model: Any, choices: tuple[str, ...] = tuple(READOUTS)) -> Linear:
    """Return the readout of an estimator with the parameter `readout`.

    An invalid value gives a `Ridge`, whose `check` raises.
    """
    is_valid = isinstance(model.readout, str) and model.readout in choices
    kind = READOUTS[model.readout] if is_valid else Ridge
    return kind.from_estimator(model, choices=choices)
