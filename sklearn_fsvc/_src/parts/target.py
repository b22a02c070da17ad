"""The contract of a target specification."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..readouts.draw_sample import sample_unmerged
from ..readouts.row_sample import ROWS, RowSample
from .base import Part
from .units import Units


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetSpec(Part, ABC):
    """The kind of y: its encoding for a readout, and the decoding of scores into predictions.

    Attributes
    ----------
    scores_uncovered_by_center : bool
        Whether `center_outputs` is implemented.
    is_base_estimator : bool
        Whether an ensemble fits the network: the ensemble warns about y, once, and maps scores. It
        sets an attribute of the network, which a `fit` from outside the package keeps, too.
    """

    is_base_estimator: bool = False
    scores_uncovered_by_center: ClassVar[bool] = False

    # Parameters of regressors and of classifiers: see `NumericTarget` and `ClassTarget`.
    target_transform: Any = None
    class_weight: Any = None

    @property
    def needs_loo_scores(self) -> bool:
        """Return whether predictions depend on leave-one-out scores of training samples."""
        return False

    @property
    def estimates_residuals(self) -> bool:
        """Return whether leave-one-out scores are used although no prediction depends on them."""
        return False

    @property
    def needs_posterior(self) -> bool:
        """Return whether the posterior of the readout is used: see `loo_attributes`."""
        return False

    @abstractmethod
    def check(self) -> None:
        """Raise TypeError or ValueError for an invalid hyperparameter."""

    @abstractmethod
    def fit_encode(self, X: Any, y: Any, sample_weight: Any) -> tuple[Self, Samples]:
        """Return the specification fitted to y, and the validated `Samples`."""

    def weigh_rare_class(self, samples: Samples) -> tuple[Self, Samples]:
        """Return the specification and samples with a larger weight of a rare class, if any.

        Ridge readouts minimise squared errors, to which the order of samples of small probability
        contributes little.
        """
        return self, samples

    @abstractmethod
    def fit_first_batch(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, pretrained: "TargetSpec | None"
    ) -> Self:
        """Return the specification fitted to the first batch of `partial_fit`.

        `pretrained` is the specification of the estimator whose layer is used.
        """

    @abstractmethod
    def validate_targets(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Return y and the sample weights of a batch, validated and not encoded."""

    @property
    def has_zero_weights(self) -> bool:
        """Return whether some classes have weight 0."""
        return False

    def has_no_weight(self, y: npt.NDArray[Any], weight: npt.NDArray[Any] | None) -> bool:
        """Return whether class weights of 0 leave no sample of positive weight, for validated y."""
        return False

    def fit_classes(self, y: list[Any], classes: Any) -> Self:
        """Return the specification with the classes of validated y, given batch by batch.

        `classes` lists them; None if they are those that occur.
        """
        return self

    def check_weighted_classes(self) -> None:
        """Raise ValueError if other classes than those of y have a weight."""
        return None

    def has_same_classes(self, other: Self) -> bool:
        """Return whether both have the same classes."""
        return True

    def has_all_classes(self, y: list[Any], n_balanced: float) -> bool:
        """Return whether each class has `n_balanced` / n_classes samples, and there are two."""
        return True

    @abstractmethod
    def fit_buffered(
        self, X: Any, y: Any, sample_weight: Any, pretrained: "TargetSpec | None"
    ) -> Self:
        """Return the specification fitted to validated samples, with the classes it has."""

    @abstractmethod
    def encode(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        """Return the `Samples` of a further batch, encoded as fitted."""

    def check_classes(self, y: Any, classes: Any) -> None:
        """Raise ValueError unless `classes` is None or has the fitted classes."""
        return None

    def check_same_classes(self, other: Self, name: str) -> None:
        """Raise ValueError unless the model called `name` has the same classes."""
        return None

    @abstractmethod
    def check_compatible(self, other: Self, name: str) -> None:
        """Raise ValueError unless the model called `name` encodes y in the same way."""

    @abstractmethod
    def refit_on(self, samples: Samples, rows: Any) -> Self:
        """Return the specification that a fit to these rows of the samples would have."""

    def base_target(self, y: Any, samples: Samples) -> Any:
        """Return y for the base estimators of an ensemble with this specification, as fitted."""
        return y

    def invert_base_target(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return y of the ensemble, (n_samples, n_columns), for that of a base estimator."""
        return y

    @abstractmethod
    def score_coefficients(
        self, W: Any, b: Any, dtype: Any, matrices: Any = None
    ) -> tuple[Any, Any]:
        """Return coefficients and intercepts of the scores, given those of the encoded y.

        `matrices` are ``matrix_scaling_`` of the readout.
        """

    @abstractmethod
    def format_output(self, method: str, scores: Any, readout: Any, **options: Any) -> Any:
        """Return the output of a method of the estimator for scores (n_samples, n_scores).

        `options` are those of the method.
        """

    @abstractmethod
    def check_out(self, out: Any, shape: tuple[int, ...]) -> None:
        """Raise TypeError or ValueError if `out` cannot hold predictions of a shape."""

    @abstractmethod
    def score(self, predictions: Any, y: Any, sample_weight: Any) -> float:
        """Return the score of predictions."""

    @abstractmethod
    def output_name(self, k: int) -> str:
        """Return a description of an output of the readout, for messages."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Return the number of columns of y."""

    @property
    @abstractmethod
    def sample_shape(self) -> tuple[int, ...]:
        """Return the shape of a sample of y: () for an array of one dimension."""

    @abstractmethod
    def select_decision(self, scores: Any, output: int, readout: Any) -> tuple[Any, Any, Any]:
        """Return the predictions of one column of y, and the scores that decide them.

        `readout` has the attributes that `format_output` needs.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        columns : ndarray of int of shape (n_samples,)
            Column of the scores that decides each prediction.
        signs : ndarray of shape (n_samples,)
            1, or -1 for the first of two classes, which is predicted if the score of the second
            is negative.
        """

    @abstractmethod
    def center_attributes(self, samples: Samples, rows: Any) -> dict[str, Any]:
        """Return a fitted attribute of `Units`: the y of the samples that are centres."""

    @abstractmethod
    def center_targets(self, units: Units) -> Any:
        """Return the value of this attribute."""

    def calibration_rows(self, samples: Samples, random_state: Any) -> Any:
        """Return ascending row numbers for leave-one-out scores; None for all samples."""
        return None

    def loo_attributes(
        self, job: Job, layer: Any, samples: Samples, chosen: Any, rows: Any
    ) -> dict[str, Any]:
        """Return fitted attributes that are computed from a `LOOPenalty`, chosen for the samples.

        Its scores are those of the samples `rows`, None for all.
        """
        return {}

    def center_outputs(self, units: Units) -> npt.NDArray[Any]:
        """Return the encoded y (n_units, n_outputs) of the samples that are centres.

        Samples that no unit covers are scored by it.
        """
        raise NotImplementedError

    def draw_sample(
        self, job: Job, samples: Samples, rows: npt.NDArray[np.intp] | None = None
    ) -> RowSample:
        """Return the `RowSample` whose scores `calibrate` is given; of a subset `rows`."""
        return sample_unmerged(job, samples, ROWS, rows)

    def may_map_scores(self, n_samples: int, sample: RowSample | None = None) -> bool:
        """Return whether `calibrate` may map scores of this many samples, those of `sample`."""
        return False

    def calibrate(self, left_out: Any, sample: Any, job: Job, layer: Any) -> dict[str, Any]:
        """Return fitted attributes that are computed from the `HeldOutScores` of a `RowSample`.

        The scores are those of the leading units of the layer.
        """
        return {}

    def prior_calibration(self) -> dict[str, Any]:
        """Return the attributes of `calibrate` for a sample without rows."""
        return {}

    def why_not_incremental(self) -> str | None:
        """Return why incremental fits are not possible, with the remedy; None if they are."""
        return None
