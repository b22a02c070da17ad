"""The readouts of estimators, by the parameter `readout`: ridge, softmax, LMS and untrained.

The last two are those of FSVC. All are subclasses of `linear_readout.Linear`.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..data.sources import is_in_memory
from ..data.streaming import cast_layer
from ..hidden_layers.parameters import is_learned
from ..parts.readout import ReadoutTraining
from ..readouts.calibration import Calibration
from ..readouts.cross_validation import draw_validation
from ..readouts.dual import (
    DualLOO,
    gather_dual_problem,
    search_dual,
    search_dual_validated,
    suits_dual,
)
from ..readouts.gather_statistics import gather_with_fallback
from ..readouts.leave_one_out import HeldOutScores, LeaveOneOut, SampledLOO
from ..readouts.linear import Solution
from ..readouts.lms import LmsTrainer, has_diverged, untrained
from ..readouts.loo_penalty import (
    LOOCriterion,
    draw_penalty_sample,
    gather_and_search_loo,
    search_dual_loo,
    select_from_loo_grid,
    suits_loo,
)
from ..readouts.row_space import find_row_space
from ..readouts.softmax import train_softmax
from ..readouts.softmax_penalty import search_softmax_penalty
from ..readouts.statistics import RidgeStatistics
from ..utils.parameters import is_option, make_generator, parse_penalty
from .automatic_precision import train_quantised
from .linear_readout import Linear, center_outputs, score_validation, search_held_out, sole_centers


class Ridge(Linear):
    """Squared errors with an L2 penalty on W, which is given or chosen."""

    is_ridge = fits_units = has_probabilities = True

    def check_samples(self, samples: Any) -> None:
        if samples.may_leave_one_out or not self.selects_by_loo:
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
        penalty = parse_penalty(self.alpha)
        if self.leaves_one_out(training.target):
            if penalty == "auto":
                penalty = self._search_penalty(training)[0]  # the statistics are released
            alphas = penalty if isinstance(penalty, tuple) else (penalty,)
            return self._train_by_loo(training, alphas)
        if suits_dual(training.job, training.layer, training.samples):
            readout = self._train_by_dual(training, penalty)
            if readout is not None:
                return readout
        return self._train_by_statistics(training, penalty)

    def _loo_arguments(self, training):
        """Return the arguments of `LeaveOneOut` about folds and units."""
        units, target = training.units, training.target
        return {
            "folds": self.folds, "units": units, "center_outputs": center_outputs(units, target),
        }  # fmt: skip

    def _needs_loo_scores(self, training):
        """Return whether scores are left out; those of given validation samples need not be."""
        if training.samples.validation is not None:
            return self.folds is not None
        return self._uses_held_out_scores(training.target)

    def _uses_held_out_scores(self, target):
        """Return whether predictions, residuals or an ensemble depend on held-out scores."""
        return bool(target.needs_loo_scores or target.estimates_residuals or self.sample)

    def _search_penalty(self, training):
        """Return the penalty that alpha="auto" chooses, and the statistics of all samples."""
        criterion = self._loo_criterion(training)
        if criterion is None:
            found, statistics = search_held_out(training, make_generator(self.random_state))
        else:
            found, statistics = gather_and_search_loo(
                training.job, training.layer, training.samples, criterion, training.history
            )
        return found.alpha, statistics

    def _search_dual_penalty(self, training, problem):
        """Return the search of the penalty by the dual equations, with alpha="auto"."""
        job, layer, samples = training.job, training.layer, training.samples
        start, random = training.history.start_for(layer), make_generator(self.random_state)
        criterion = self._loo_criterion(training)
        if criterion is not None:
            return search_dual_loo(job, layer, samples, problem, criterion, start)
        if samples.validation is None:
            return search_dual(problem, random, start, samples.groups)
        validation = draw_validation(samples, random)
        of_validation = gather_dual_problem(job, cast_layer(layer, validation.X), validation)
        return search_dual_validated(problem, of_validation, start)

    def _loo_criterion(self, training):
        """Return the `LOOCriterion` of alpha="auto"; None if held-out samples select a penalty."""
        samples, units = training.samples, training.units
        if not suits_loo(samples, units, is_stacked=bool(self.sample)):
            return None
        sample = self.sample or draw_penalty_sample(training.job, samples)
        prefers_large = not self.sample and samples.targets.is_binary
        return LOOCriterion(sample, units, center_outputs(units, training.target), prefers_large)

    def _train_by_statistics(self, training, penalty):
        """Return the readout by the normal equations of all samples."""
        job, layer, samples = training.job, training.layer, training.samples
        target = training.target
        if penalty == "auto":
            alpha, statistics = self._search_penalty(training)
        else:
            alpha, statistics = penalty, gather_with_fallback(job, layer, samples)
        loo = scores = None
        if self._needs_loo_scores(training):
            sample = self.sample or target.draw_sample(job, samples)
            loo = SampledLOO(job, layer, sample, statistics, **self._loo_arguments(training))
            solve = loo.solve if target.needs_loo_scores or self.sample else loo.solve_plain
            solution, scores = solve(alpha, is_last=True)
        else:
            solution = statistics.solve(alpha, is_last=True)
        fitted = self._calibrate(training, solution, alpha, loo, scores)
        return self.with_solution(training, solution, alpha_=alpha, **fitted)

    def _train_by_dual(self, training, penalty):
        """Return the readout by the dual equations; None if they are ill-conditioned."""
        job, layer, samples = training.job, training.layer, training.samples
        problem = gather_dual_problem(job, layer, samples)
        found = self._search_dual_penalty(training, problem) if penalty == "auto" else None
        alpha = penalty if found is None else found.alpha
        solution, dual = problem.try_solve(alpha)
        if solution is None or dual is None:
            return None
        if found is not None:
            training.history.add(layer, found)
        loo = scores = None
        if self._needs_loo_scores(training):
            job = job.reserve(2 * problem.H.nbytes)
            sample = self.sample or training.target.draw_sample(job, samples)
            loo = DualLOO(job, layer, sample, samples, **self._loo_arguments(training))
            scores = loo.score(dual, problem)
        fitted = self._calibrate(training, solution, alpha, loo, scores)
        return self.with_solution(training, solution, alpha_=alpha, **fitted)

    def _calibrate(
        self, training: ReadoutTraining, solution: Solution, alpha: float,
        loo: LeaveOneOut | None, scores: HeldOutScores | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the fitted attributes that are computed from scores of samples left out.

        Those are leave-one-out scores, or the scores of given validation samples.
        """
        job, target = training.job, training.target
        if not self._uses_held_out_scores(target):
            return {}
        sample, validation = self.sample, training.samples.validation
        if loo is not None:
            sample = loo.sample
        if validation is not None:
            sample = self.validation_sample or target.draw_sample(job, validation)
            oof_scores = None if scores is None else scores.oof_scores
            scores = score_validation(
                job, training.layer, sample, solution, alpha,
                center_outputs(training.units, target), oof_scores,
            )  # fmt: skip
        if scores is None:
            return {}
        fitted = target.calibrate(scores, sample, job, training.layer)
        return fitted | ({"left_out_": scores} if self.sample else {})

    def _train_by_loo(self, training, alphas):
        """Return the readout with the penalty of the least leave-one-out error."""
        job, layer, samples = training.job, training.layer, training.samples
        target, random_state = training.target, self.random_state
        rows, start = target.calibration_rows(samples, random_state), None
        if is_option(self.alpha, "loo"):
            start = make_generator(random_state), training.history.start_for(layer)
        chosen = select_from_loo_grid(
            job, layer, samples.with_centers(sole_centers(training)), alphas,
            keep_scores=self._uses_held_out_scores(target), keep_posterior=target.needs_posterior,
            rows=rows, start=start, center_outputs=center_outputs(training.units, target),
        )  # fmt: skip
        return self.with_solution(
            training, chosen.solution, alpha_=chosen.alpha, alphas_=np.array(chosen.alphas),
            loo_errors_=chosen.errors, **target.loo_attributes(job, layer, samples, chosen, rows),
        )  # fmt: skip

    def leaves_one_out(self, target: Any) -> bool:
        """Return whether leave-one-out of all samples trains it: more than a solution of sums."""
        return target.needs_posterior or self.selects_by_loo

    def why_not_incremental(self) -> str | None:
        if self.selects_by_loo:
            return (
                f"alpha={self.alpha!r} is chosen by leave-one-out, which needs another pass over "
                'all samples; with partial_fit use a number, or "auto".'
            )
        return None


class Softmax(Linear):
    """The log-loss (multinomial logistic regression), with an L2 penalty on W."""

    has_probabilities = fits_units = True

    def check(self, units: Any, target: Any) -> None:
        super().check(units, target)
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
            of_ridge, statistics = search_held_out(training, random)
            ridge_alpha = of_ridge.alpha
        row_space = find_row_space(job, layer, samples)
        if row_space is not None:
            job, layer, samples = row_space.job, row_space.layer, row_space.samples
            statistics = None
        if ridge_alpha is not None:
            search_job = job.reserve(RidgeStatistics.nbytes(layer.n_units))
            of_softmax, start = search_softmax_penalty(
                search_job, layer, samples, random, ridge_alpha
            )
            alpha = of_softmax.alpha
        result = train_softmax(
            job, layer, samples, alpha, statistics=statistics, ridge_alpha=ridge_alpha, start=start
        )
        solution = result.solution if row_space is None else row_space.to_units(result.solution)
        target: Any = training.target
        temperature = 1.0 if target.labels.is_single else np.ones(target.n_columns)
        fitted = self._conformity_scores(training, solution, alpha)
        return self.with_solution(
            training, solution, alpha_=alpha, n_iter_=result.n_iter,
            temperature_=temperature, **fitted,
        )  # fmt: skip

    def _conformity_scores(self, training, solution, alpha):
        """Return the conformity scores of the validation set as a fitted attribute, if any."""
        job, target, validation = training.job, training.target, training.samples.validation
        if validation is None:
            return {}
        sample = target.draw_sample(job, validation)
        outputs = center_outputs(training.units, target)
        scores = score_validation(job, training.layer, sample, solution, alpha, outputs)
        return target.conformity_scores(scores, sample, [Calibration(1.0)] * target.n_columns)

    def why_not_incremental(self) -> str | None:
        return (
            'readout="softmax" needs several passes over all samples; with partial_fit use "ridge".'
        )


class Untrained(Linear):
    """The output weights of each unit are the target of its centre (FSVC)."""

    def check(self, units: Any, target: Any) -> None:
        super().check(units, target)
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
        target: Any = training.target
        codes, weight = training.samples.targets.codes, training.samples.weight
        weights = target.class_weights(codes, None if weight is None else np.sign(weight))
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
        engine = training.job.engine
        W = engine.to_device(W)
        trainer = LmsTrainer(training.job, training.layer, training.samples)
        trainer.train(W, self.learning_rate, self.max_iter)
        if has_diverged(engine.to_host(W)):
            raise ValueError(self._diverged())
        return W

    def _diverged(self) -> str:
        return (
            f"learning_rate={self.learning_rate!r} makes the LMS readout diverge; lower it, "
            'or use learning_rate="auto".'
        )


# Valid values of the parameter `readout`.
READOUTS = {"ridge": Ridge, "softmax": Softmax, "lms": Lms, "none": Untrained}
# Those that need no centres.
READOUTS_WITHOUT_CENTERS = ("ridge", "softmax")


def readout_of(model: Any, choices: tuple[str, ...] = tuple(READOUTS)) -> Linear:
    """Return the readout of an estimator with the parameter `readout`.

    An invalid value gives a `Ridge`, whose `check` raises.
    """
    is_valid = isinstance(model.readout, str) and model.readout in choices
    readout_class = READOUTS[model.readout] if is_valid else Ridge
    return readout_class.from_estimator(model, choices=choices)
