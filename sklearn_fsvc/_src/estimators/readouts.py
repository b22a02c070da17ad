"""The readouts: ridge, softmax, and those of FSVC, LMS and one that is not trained."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..data.sources import Source
from ..parts import UNSET, Readout, generator
from ..readouts.cross_validation import scouted_alpha, train_held_out
from ..readouts.dual import gather_rows, search_few, suits
from ..readouts.leave_one_out import SampledLOO, search_loo_penalty
from ..readouts.linear import Solution, shrink_to_intercept, warn_of
from ..readouts.lms import LmsTrainer, untrained
from ..readouts.press import choose_penalty
from ..readouts.ridge import gather
from ..readouts.sample import draw, rows_in
from ..readouts.softmax import train_softmax
from ..readouts.softmax_penalty import search_softmax_penalty
from ..readouts.statistics import RidgeStatistics
from ..utils.parameters import (
    AUTO,
    check_choice,
    check_count,
    check_positive,
    check_positive_or_auto,
    is_word,
    penalties,
)

# How many times the noise of rounding a penalty is where rounding makes no difference. Two of eight
# tables of smooth regression found 6 times the noise, and lost 0.5 points.
_FAR = 10
# Rows up to which leave-one-out errors tell more than rows that are held out, which are few then.
# At 12,000 rows of eight tables they chose no better, and took a fifth of a ensemble's time.
_MOST_LEFT_OUT = 6000
# Multiplications of H with itself from which bytes gain more than it takes to try them.
_LARGE = 2**36


@dataclass(frozen=True, eq=False, kw_only=True)
class Linear(Readout):
    """What readouts share: their parameters, and how W and b become fitted attributes.

    Attributes
    ----------
    alpha, forgetting_factor, readout, learning_rate, max_iter, shuffle, random_state
        Parameters of `RBFClassifier`. Others may have some of them.
    choices : tuple of str
        What `readout` may be; none where it is no parameter.
    sample : Sample or None
        Rows that are given to calibrate by. Their leave-one-out scores, a `LeftOut`, are
        ``left_out_`` then: an ensemble wants them.
    folds : ndarray of int or None
        The fold of each row of that sample, for `LeftOut.fold_scores`.
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
    precision_: Any = UNSET
    left_out_: Any = UNSET

    def check(self, units, task):
        penalties(self.alpha)
        if check_positive("forgetting_factor", self.forgetting_factor) > 1:
            raise ValueError(
                f"forgetting_factor={self.forgetting_factor!r} must be at most 1, with which "
                "no row fades."
            )
        if self.choices:
            check_choice("readout", self.readout, self.choices)
        check_count("max_iter", self.max_iter)
        check_positive_or_auto("learning_rate", self.learning_rate)

    @property
    def n_iter(self):
        """Passes over the rows."""
        return 1

    def solved(self, engine, solution, task, dtype, **found):
        """The readout with a `Solution` for the task and a layer whose H has that dtype."""
        W, b = engine.to_host(solution.W), engine.to_host(solution.b)
        if not (np.isfinite(W).all() and np.isfinite(b).all()):
            raise ValueError(self._diverged())
        found["readout_coef_"], found["readout_intercept_"] = task.outputs(W, b, dtype)
        if "lms" in self.choices:
            found.setdefault("n_iter_", self.n_iter)
        return self.with_fitted(**found)

    def uses_nearest_unit(self, units, task):
        return _uses_nearest_unit(units, task)

    def nearest_scores(self, units, task):
        if not self.uses_nearest_unit(units, task):
            return None
        scores = task.labels.scores_of(task.center_outputs(units))
        return shrink_to_intercept(scores, self.readout_intercept_, self.alpha_)

    def _solved(self, training, solution, **found):
        warn_of(solution.problem)
        engine, dtype = training.job.engine, training.layer.hidden_dtype
        return self.solved(engine, solution, training.task, dtype, **found)

    def _diverged(self):
        return f"The readout of {self.owner} is not finite; scale the features of X."


class Ridge(Linear):
    """Squared errors, with a penalty on W that is given or found."""

    is_ridge = fits_units = has_probabilities = True

    def train(self, training):
        if is_word(training.units.precision, "auto"):
            for bits in bits_that_gain(training):
                readout = self._rounded(training, bits)
                if readout is not None:
                    return readout
        return self._trained(training)

    def _rounded(self, training, bits):
        """The readout of activations of so many bits; None where that would make a difference."""
        alphas, is_chosen = penalties(self.alpha)
        rounded, n_rows = training.rounded(bits), len(training.samples)
        alpha = training.history.best_alpha(training.layer) if is_chosen else alphas[0]
        is_sure = tolerates(rounded.layer, alpha, n_rows)
        if not (is_sure or (is_chosen and self._may_tolerate(rounded, alpha))):
            return None
        readout = self._trained(rounded)
        if not tolerates(rounded.layer, readout.alpha_, n_rows):
            return None
        training.history.rows = rounded.history.rows
        return readout.update_fitted(precision_=bits)

    def _may_tolerate(self, rounded, alpha):
        """Whether all rows may want more penalty than small networks did, which saw few of them.

        A quarter of the units tells, of rows of bytes: others lost 0.1 points by it.
        """
        history, n_rows = rounded.history, len(rounded.samples)
        if rounded.samples.X.dtype != np.uint8 or history.n_rows is None:
            return False
        if not tolerates(rounded.layer, alpha, history.n_rows):
            return False
        seen = rounded.job, rounded.layer, rounded.samples
        first = history.first_alpha(rounded.layer)
        alpha = scouted_alpha(*seen, generator(self.random_state), first)
        return tolerates(rounded.layer, alpha, n_rows)

    def _trained(self, training):
        job, layer, samples, task = training.job, training.layer, training.samples, training.task
        alphas, is_chosen = penalties(self.alpha)
        is_left_out = task.wants_posterior
        if not ((is_chosen and alphas != AUTO) or is_left_out) and suits(job, layer, samples):
            readout = self._trained_on_few(training, alphas)
            if readout is not None:
                return readout
        if alphas == AUTO:
            random = generator(self.random_state)
            found, statistics = train_held_out(job, layer, samples, random, training.history)
            alpha = found.alpha
            if self.sample and len(samples.present) <= _MOST_LEFT_OUT:
                alpha = search_loo_penalty(job, layer, self.sample, statistics, alpha)
            alphas, is_chosen = (alpha,), False
        elif not (is_chosen or is_left_out):
            (statistics,) = gather(job, [layer], samples)
        if is_chosen or is_left_out:
            statistics = None  # which take memory
            return self._left_out(training, alphas)
        if not (task.wants_scores or self.sample):
            solution = statistics.solve(alphas[0], is_last=True)
            return self._solved(training, solution, alpha_=alphas[0])
        sample = self.sample or draw(job, samples)
        loo = SampledLOO(job, layer, sample, statistics, self.folds)
        solution = statistics.solve(alphas[0], is_last=True, also=loo.take)
        found = self._calibrated(training, loo, solution, alphas[0])
        return self._solved(training, solution, alpha_=alphas[0], **found)

    def _trained_on_few(self, training, alphas):
        """The readout by the dual equations; None where they are ill-conditioned."""
        few = gather_rows(training.job, training.layer, training.samples)
        found, calibrated = None, {}
        if alphas == AUTO:
            found = search_few(
                few, generator(self.random_state), training.history.first_alpha(training.layer)
            )
        alpha = alphas[0] if found is None else found.alpha
        solution, dual = few.solve_well(alpha)
        if solution is None:
            return None
        if found is not None:
            training.history.add(training.layer, found)
        if training.task.wants_scores or self.sample:
            job = training.job.reserving(2 * few.H.nbytes)
            sample = self.sample or draw(job, training.samples)
            loo = SampledLOO(job, training.layer, sample, folds=self.folds)
            loo.of_dual(dual, *rows_in(job, training.samples, sample))
            calibrated = self._calibrated(training, loo, solution, alpha)
        return self._solved(training, solution, alpha_=alpha, **calibrated)

    def _calibrated(self, training, loo, solution, alpha):
        """Fitted attributes made of leave-one-out scores."""
        engine, units, task = training.job.engine, training.units, training.task
        nearest = nearest_outputs(units, task, engine.to_host(solution.b), alpha)
        left_out = loo.left_out(nearest)
        found = task.calibrated(left_out, loo.sample)
        return found | ({"left_out_": left_out} if self.sample else {})

    def _left_out(self, training, alphas):
        """The readout with the penalty of the least leave-one-out error."""
        task, samples, random_state = training.task, training.samples, self.random_state
        rows, start = task.scored_rows(samples, random_state), None
        if is_word(self.alpha, "loo"):
            start = generator(random_state), training.history.first_alpha(training.layer)
        chosen = choose_penalty(
            training.job, training.layer, samples, alphas, task.wants_scores, task.wants_posterior,
            rows, start, partial(nearest_outputs, training.units, task),
        )  # fmt: skip
        return self._solved(
            training, chosen.solution, alpha_=chosen.alpha, alphas_=np.array(chosen.alphas),
            loo_errors_=chosen.errors, **task.left_out(training, chosen, rows),
        )  # fmt: skip

    def leaves_one_out(self, task):
        """Whether it is trained by leave-one-out: then it is more than one solution of sums."""
        alphas, is_chosen = penalties(self.alpha)
        return task.wants_posterior or (is_chosen and alphas != AUTO)

    def why_no_sums(self):
        is_searched = np.iterable(self.alpha) and not isinstance(self.alpha, str)
        if is_searched or is_word(self.alpha, "loo"):
            return (
                f"alpha={self.alpha!r} is chosen by leave-one-out, which meets all rows again; "
                'with partial_fit give a number, or "auto".'
            )
        return None


class Softmax(Linear):
    """The log-loss, with a penalty on W that is given or found."""

    has_probabilities = fits_units = True

    def check(self, units, task):
        super().check(units, task)
        if not is_word(self.alpha, "auto") and (np.iterable(self.alpha) or self.alpha <= 0):
            raise ValueError(
                f'alpha={self.alpha!r} and readout="softmax" do not go together; give a number '
                'above 0, or "auto", which minimises the log-loss of rows that are held out.'
            )

    def train(self, training):
        job, layer, samples, alpha = training.job, training.layer, training.samples, self.alpha
        statistics = ridge_alpha = start = None
        if is_word(alpha, "auto"):
            random = generator(self.random_state)
            of_ridge, statistics = train_held_out(job, layer, samples, random, training.history)
            ridge_alpha = of_ridge.alpha
            beside = job.reserving(RidgeStatistics.nbytes(layer.n_units))
            of_softmax, start = search_softmax_penalty(beside, layer, samples, random, ridge_alpha)
            alpha = of_softmax.alpha
        found = train_softmax(
            job, layer, samples, alpha, statistics=statistics, ridge_alpha=ridge_alpha, start=start
        )
        n_columns = training.task.n_columns
        is_single = training.task.labels.is_single
        return self._solved(
            training, found.solution, alpha_=alpha, n_iter_=found.n_iter,
            temperature_=1.0 if is_single else np.ones(n_columns),
        )  # fmt: skip

    def why_no_sums(self):
        return 'readout="softmax" meets all rows again; with partial_fit use "ridge".'


class Untrained(Linear):
    """Each unit answers as the row that it stands on."""

    def uses_nearest_unit(self, units, task):
        return True

    def nearest_scores(self, units, task):
        """Return the targets of each unit's own sample: FSVC's rule, for units of any kernel."""
        return task.labels.scores_of(task.center_outputs(units))

    def check(self, units, task):
        super().check(units, task)
        way = units.feature_weights
        if is_word(way, "learned") or is_word(way, "map"):
            raise ValueError(
                f'feature_weights="{way}" is judged by the ridge readout; with '
                f"readout={self.readout!r} use None or an array."
            )
        if units.given is not None:
            raise ValueError(
                f'readout={self.readout!r} needs labels of the centres; with layer use "ridge".'
            )

    def train(self, training):
        W = untrained(training.samples.targets, training.units.rows)
        weights = training.task.class_weights(training.samples.targets.all_codes)
        if weights is not None:
            W *= weights[training.units.rows] / weights.max()
        W = self._corrected(W, training)
        return self._solved(training, Solution(W, np.zeros(len(W))))

    def _corrected(self, W, training):
        return W

    def why_no_sums(self):
        return f'readout={self.readout!r} keeps no sums; with partial_fit use "ridge".'


class Lms(Untrained):
    """The untrained readout, corrected row by row."""

    @property
    def n_iter(self):
        return self.max_iter

    def check_samples(self, samples):
        if self.shuffle and isinstance(samples.X, Source) and not samples.X.is_in_memory:
            raise ValueError(
                'readout="lms" with shuffle=True meets rows in random order, and X is read in '
                'its own; use readout="ridge", shuffle=False, or a numpy.memmap.'
            )

    def _corrected(self, W, training):
        W = training.job.engine.to_device(W)
        trainer = LmsTrainer(training.job, training.layer, training.samples)
        trainer.train(W, self.learning_rate, self.max_iter)
        return W

    def _diverged(self):
        return (
            f"learning_rate={self.learning_rate!r} makes the LMS readout diverge; lower it, "
            'or use learning_rate="auto".'
        )


def nearest_outputs(units, task, intercept, alpha):
    """Outputs (n_units, n_outputs) of a ridge for samples that no unit covers, by the nearest unit.

    None where these get the intercept: in regression, and of units that reach everywhere.
    """
    if not _uses_nearest_unit(units, task):
        return None
    return shrink_to_intercept(task.center_outputs(units), intercept, alpha)


def _uses_nearest_unit(units, task):
    return task.has_center_outputs and units.rows is not None and units.layer.has_edge


def bits_that_gain(training):
    """With how many bits of an activation a fit is faster: a large one, where bytes multiply."""
    layer, job, n_rows = training.layer, training.job, len(training.samples)
    is_worth = (
        training.units.pretrained is None  # whose layer stays what it is
        and n_rows * layer.n_units**2 >= _LARGE
        and training.samples.weight is None
    )
    return job.engine.algebra.fast_bits() if is_worth else ()


def tolerates(layer, alpha, n_rows):
    """Whether rounding is too little, beside a penalty found of so many rows, for a difference.

    What is rounded to steps of s has noise of a variance of s^2 / 12, which acts as a penalty of
    n s^2 / 12 for n rows. A penalty that is found among rounded activations is at least of that
    size, where smooth functions want a smaller one: so it has to be far above it.
    """
    return alpha >= _FAR * n_rows / (12 * layer.steps.scale**2)


# What the parameter `readout` may be.
READOUTS = {"ridge": Ridge, "softmax": Softmax, "lms": Lms, "none": Untrained}
# Those that need no centres.
OF_ANY_UNITS = ("ridge", "softmax")


def readout_of(model, choices=tuple(READOUTS)):
    """The readout that an estimator's parameter of that name asks for.

    A word that is not known is refused by `check`.
    """
    is_known = isinstance(model.readout, str) and model.readout in choices
    kind = READOUTS[model.readout] if is_known else Ridge
    return kind.from_estimator(model, choices=choices)
