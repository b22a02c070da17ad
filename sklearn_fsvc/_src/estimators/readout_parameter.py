"""The parameter `readout`: the readouts softmax, LMS and untrained (both of FSVC), by name."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..data.sources import is_in_memory
from ..hidden_layers.parameters import is_learned
from ..parts.readout import ReadoutTraining
from ..readouts.calibration import Calibration
from ..readouts.linear import Solution
from ..readouts.lms import LmsTrainer, untrained
from ..readouts.row_space import find_row_space
from ..readouts.softmax import train_softmax
from ..readouts.softmax_penalty import search_softmax_penalty
from ..readouts.statistics import RidgeStatistics
from ..utils.parameters import is_option, make_generator
from .linear_readout import Linear, center_outputs, score_validation, search_held_out
from .ridge_readout import Ridge


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
        fitted = self._score_validation(training, solution, alpha)
        return self.with_solution(
            training, solution, alpha_=alpha, n_iter_=result.n_iter,
            temperature_=temperature, **fitted,
        )  # fmt: skip

    def _score_validation(self, training, solution, alpha):
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
        W = training.job.engine.to_device(W)
        trainer = LmsTrainer(training.job, training.layer, training.samples)
        trainer.train(W, self.learning_rate, self.max_iter)
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
