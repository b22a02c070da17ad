"""The contract of a readout, the linear output layer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..data.streaming import cast_layer
from ..readouts.linear import LinearPredictor
from ..readouts.penalty_search import SearchHistory
from .base import UNSET, Part
from .target import TargetSpec
from .units import Units


@dataclass(frozen=True, eq=False)
class ReadoutTraining:
    """The arguments of `Readout.train`."""

    job: Job
    samples: Samples
    units: Units
    target: TargetSpec
    history: SearchHistory

    @cached_property
    def layer(self) -> Any:
        """Return the layer in the dtype in which it processes the samples."""
        return cast_layer(self.units.layer, self.samples.X)

    def rounded(self, bits: int | None) -> "ReadoutTraining":
        """Return the same with activations rounded to `bits`, and a copy of the history."""
        history = replace(self.history, rows=list(self.history.rows))
        return replace(self, units=self.units.rounded(bits), history=history)


@dataclass(frozen=True, eq=False, kw_only=True)
class Readout(Part, ABC):
    """The linear output layer: scores are ``H @ readout_coef_.T + readout_intercept_``.

    Attributes
    ----------
    readout_coef_ : ndarray of shape (n_scores, n_columns of H)
    readout_intercept_ : ndarray of shape (n_scores,)
    alpha_ : float
        The penalty.
    mean_weight_ : float
        That of the samples in units of which penalties are searched; unset if it is 1.
    alphas_, loo_errors_ : ndarray of shape (n_penalties,)
        The penalties tried by leave-one-out, and their errors.
    temperature_ : float or ndarray of shape (n_columns of y,)
        Divides the logits before the softmax.
    score_scale_ : float or ndarray of shape (n_columns of y,)
        Scale of the scores as estimates of probabilities; unset if they are logits.
    conformity_scores_ : list of ConformityScores
        For prediction sets: those of each column of y.
    matrix_scaling_ : ndarray of shape (n_classes, n_classes + 1), or list of them and None
        The maps of the scores of masked classes, which the readout contains.
    posterior_ : Posterior
        For standard deviations of predictions.
    smearing_ : ndarray of shape (n_quantiles, n_scores)
        Equally likely residuals of a transformed y.
    residual_distribution_ : ResidualDistribution or None
        For quantiles of predictions; None if a single sample was left out.
    n_iter_ : int
        Number of iterations.
    is_ridge : bool
        Whether it minimises penalised squared errors, and is solved from sums over samples.
    fits_units : bool
        Whether units that are chosen by the held-out error of ridge readouts suit it.
    has_probabilities : bool
        Whether training sets ``temperature_``.
    """

    readout_coef_: npt.NDArray[Any] = UNSET
    readout_intercept_: npt.NDArray[Any] = UNSET
    mean_weight_: float = UNSET
    alpha_: Any = UNSET
    alphas_: npt.NDArray[Any] = UNSET
    loo_errors_: npt.NDArray[Any] = UNSET
    temperature_: Any = UNSET
    score_scale_: Any = UNSET
    conformity_scores_: Any = UNSET
    matrix_scaling_: Any = UNSET
    posterior_: Any = UNSET
    smearing_: Any = UNSET
    residual_distribution_: Any = UNSET
    n_iter_: int = UNSET
    is_ridge: ClassVar[bool] = False
    fits_units: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = False

    @abstractmethod
    def check(self, units: Units, target: TargetSpec) -> None:
        """Raise TypeError or ValueError for invalid hyperparameters or combinations of them."""

    @property
    def has_given_sample(self) -> bool:
        """Return whether a stacked ensemble has drawn the samples that calibrate."""
        return False

    def check_samples(self, samples: Samples) -> None:
        """Raise for samples that it cannot be trained on."""
        return None

    @abstractmethod
    def train(self, training: ReadoutTraining) -> Self:
        """Return the fitted readout."""

    @abstractmethod
    def why_not_incremental(self) -> str | None:
        """Return why incremental fits are not possible, with the remedy; None if they are."""

    def uses_nearest_unit(self, units: Units, target: TargetSpec) -> bool:
        """Return whether samples that no unit covers are scored by their nearest unit."""
        return False

    def nearest_scores(self, units: Units, target: TargetSpec) -> Any:
        """Return scores (n_units, n_scores) of samples that no unit covers, by their nearest unit.

        None if such samples get the intercept, as the formula has it.
        """
        return None

    def make_predictor(self, engine: Any, dtype: Any, finds_uncovered: bool) -> LinearPredictor:
        """Return the object that computes scores of tiles of H of a dtype."""
        return LinearPredictor(
            engine, self.readout_coef_, self.readout_intercept_, dtype, finds_uncovered
        )
