"""The contracts of the parts of an estimator: hidden units, target specification and readout.

A part is an immutable dataclass. Its fields are the hyperparameters of the estimator that concern
it, and, with a trailing underscore as everywhere in scikit-learn, the fitted attributes that it is
responsible for. Fitting a part returns a new one with these fields set. An estimator class names
its parts in one method, `_parts`; `estimators.network.Network` fits them and predicts with them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cache, cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from .data.job import Job
from .data.samples import Samples
from .data.streaming import cast_layer
from .readouts.linear import LinearReadout
from .readouts.penalty_search import SearchHistory
from .readouts.row_sample import ROWS, Sample, sample_unmerged
from .utils.parameters import check_random_state


class _Unset(Enum):
    """The type of `UNSET`: members of an enum stay the same object in copies and pickles."""

    UNSET = "unset"


#: The value of a fitted attribute that the estimator does not have. It differs from None, which is
#: the value of several fitted attributes.
UNSET: Any = _Unset.UNSET


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Hyperparameters of an estimator, and the fitted attributes that depend on them.

    A field with the name of a parameter or of a fitted attribute of the estimator has its value.
    Fitted attributes are the fields whose names end with an underscore; their default is `UNSET`.

    Attributes
    ----------
    owner : str
        Name of the class of the estimator, for messages.
    """

    owner: str = ""

    @classmethod
    def from_estimator(cls, estimator: Any, **values: Any) -> Self:
        """Return the part of an estimator; `values` are further fields, and take precedence."""
        state, kind = vars(estimator), cast(Any, cls)
        own = {name: state[name] for name in _field_names(kind) if name in state}
        return cls(**own | {"owner": type(estimator).__name__} | values)

    @property
    def fitted(self) -> dict[str, Any]:
        """Return the fitted attributes that are set, by name."""
        kind = cast(Any, type(self))
        values = {name: getattr(self, name) for name in _fitted_names(kind)}
        return {name: value for name, value in values.items() if value is not UNSET}

    def with_fitted(self, **fitted: Any) -> Self:
        """Return the part with these fitted attributes and no others."""
        unset: dict[str, Any] = dict.fromkeys(_fitted_names(cast(Any, type(self))), UNSET)
        return replace(self, **(unset | fitted))

    def update_fitted(self, **fitted: Any) -> Self:
        """Return the part with these fitted attributes; all others keep their values."""
        return replace(self, **fitted)


@cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


@cache
def _fitted_names(cls: Any) -> tuple[str, ...]:
    return tuple(name for name in _field_names(cls) if name.endswith("_"))


@dataclass(frozen=True)
class Sharing:
    """The work that a search can share between networks that differ in some hyperparameters.

    Attributes
    ----------
    parameters : set of str
        Hyperparameters that do not change the layer of the largest network: no value of them
        requires another pass over the samples.
    cache_key : object
        Networks with different keys do not share a layer.
    depends_on_samples : bool
        Whether the layer depends on the training samples.
    """

    parameters: frozenset[str] = frozenset()
    cache_key: Any = None
    depends_on_samples: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Units(Part, ABC):
    """The hidden units: their hyperparameters, and how their layer is chosen.

    Attributes
    ----------
    size_name : {"n_hidden", "n_components"}
        Name of the parameter with the number of units.
    n_units : int or None
        Its value.
    given_layer : estimator, array or None
        The parameter `layer`: a fitted estimator or centres, used instead of choosing the layer.
    shared : dict or None
        Feature weights by metric and whether they are refined, which an ensemble learns once.
    precision : {8, 15, "auto", "float"}
        Number of bits to which activations are rounded. The readout resolves "auto".
    precision_ : int or None
        The resolved number of bits; None for floats.
    support_ : ndarray of int of shape (n_units,) or None
        Row numbers of the training samples that are the centres of the units.
    center_labels_, center_targets_ : ndarray
        Classes or targets of these samples.
    start_alpha : float
        The ridge penalty at which a search for the penalty begins.
    of_units : tuple of str
        Fitted attributes with one row for each unit.
    takes_sparse : bool
        Whether samples may be a sparse matrix.
    has_sample_centers : bool
        Whether each unit is at a training sample: then there are no more units than samples.
    """

    size_name: str = "n_hidden"
    n_units: Any = None
    given_layer: Any = None
    shared: Any = None
    precision: Any = "float"
    precision_: Any = UNSET
    support_: Any = UNSET
    center_labels_: Any = UNSET
    center_targets_: Any = UNSET
    start_alpha: ClassVar[float]
    of_units: ClassVar[tuple[str, ...]] = ()
    takes_sparse: ClassVar[bool] = False
    has_sample_centers: ClassVar[bool] = False

    @classmethod
    def from_estimator(cls, estimator: Any, **values: Any) -> Self:
        state = vars(estimator)
        name = "n_hidden" if "n_hidden" in state else "n_components"
        own = {"size_name": name, "n_units": state.get(name), "given_layer": state.get("layer")}
        return super().from_estimator(estimator, **own | values)

    @abstractmethod
    def check(self) -> None:
        """Raise TypeError or ValueError for an invalid hyperparameter."""

    def of_all_samples(self) -> Self:
        """Return the units for a `fit` to all samples, not to the first ones of a stream."""
        return self

    @abstractmethod
    def fit(self, job: Job, samples: Samples, history: SearchHistory) -> Self:
        """Return the units with a layer chosen for the samples.

        `history` records the hyperparameters that are evaluated for it.
        """

    @property
    @abstractmethod
    def layer(self) -> Any:
        """Return the fitted layer."""

    @property
    @abstractmethod
    def sharing(self) -> Sharing:
        """Return the work that a search over the hyperparameters can share."""

    @property
    def shared_metric(self) -> str | None:
        """Return the metric of the weights that the units may take from `shared`, None without."""
        return None

    @property
    def allows_fitted_layer(self) -> bool:
        """Return whether the hyperparameters, if changed since, allow the layer that was fitted."""
        return True

    @property
    def bits(self) -> int | None:
        """Return the number of bits of an activation if `precision` gives it; None for floats."""
        return None if isinstance(self.precision, str) else self.precision

    def rounded(self, bits: int | None) -> Self:
        """Return the units with activations rounded to a number of bits."""
        return self.update_fitted(precision_=bits)

    @property
    def n_activations(self) -> Any:
        """Return the number of columns of H if it is known before the fit, else None."""
        return self.n_units

    @property
    def needs_multiple_passes(self) -> bool:
        """Return whether the choice of the layer takes several passes over the samples."""
        return False

    def labels_required_by(self) -> tuple[str, str] | None:
        """Return the setting that requires class labels and its alternative; None if none does."""
        return None

    def order_samples(self, samples: Samples) -> Samples:
        """Return the samples in the order of presentation, if the order matters."""
        return samples

    @property
    def pretrained(self) -> Any:
        """Return the fitted estimator whose layer is used, or None."""
        return None

    @property
    def support(self) -> Any:
        """Return `support_`; None if the units are not at training samples."""
        return None if self.support_ is UNSET else self.support_

    def of_rows(self, rows: npt.NDArray[np.intp] | None) -> Self:
        """Return the units with `support_` as indices into an array of which `rows` were taken."""
        if rows is None or self.support is None:
            return self
        return self.update_fitted(support_=rows[self.support])

    @property
    def sample_centers(self) -> Any:
        """Return the training samples that are the centres of the units; None if none are."""
        return None

    def unit_at_sample(self, sample: Any) -> npt.NDArray[np.intp]:
        """Return the unit that is centred at each row of a `Sample`, -1 for none."""
        return np.full(sample.n_rows, -1)

    def leading(self, n_columns: int) -> Self:
        """Return the units of the first columns of H."""
        values = {name: getattr(self, name) for name in self.of_units}
        cut = {name: value[:n_columns] for name, value in values.items() if value is not UNSET}
        return self.update_fitted(**cut)

    def with_shape_of(self, layer: Any) -> Self:
        """Return the units with the kernel and radius of another layer on the same centres."""
        return self

    def with_tags(self, tags: Any) -> Any:
        """Return scikit-learn's tags of an estimator with these units."""
        tags.input_tags.sparse = self.takes_sparse
        return tags


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetSpec(Part, ABC):
    """The kind of y: its encoding for a readout, and the decoding of scores into predictions.

    Attributes
    ----------
    scores_uncovered_by_center : bool
        Whether `center_outputs` is implemented.
    """

    scores_uncovered_by_center: ClassVar[bool] = False

    # Parameter of regressors: see `NumericTarget`.
    target_transform: Any = None

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

    def without_warnings(self) -> Self:
        """Return the specification for a base estimator: the ensemble warns about y, once."""
        return self

    @abstractmethod
    def fit_encode(self, X: Any, y: Any, sample_weight: Any) -> tuple[Self, Samples]:
        """Return the specification fitted to y, and the validated `Samples`."""

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

    @abstractmethod
    def score_coefficients(self, W: Any, b: Any, dtype: Any) -> tuple[Any, Any]:
        """Return coefficients and intercepts of the scores, given those of the encoded y."""

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

    @abstractmethod
    def select_decision(self, scores: Any, output: int) -> tuple[Any, Any, Any]:
        """Return the predictions of one column of y, and the scores that decide them.

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

    def loo_attributes(self, training: "ReadoutTraining", chosen: Any, rows: Any) -> dict[str, Any]:
        """Return fitted attributes that are computed from leave-one-out results."""
        return {}

    def center_outputs(self, units: Units) -> npt.NDArray[Any]:
        """Return the encoded y (n_units, n_outputs) of the samples that are centres.

        Samples that no unit covers are scored by it.
        """
        raise NotImplementedError

    def draw_sample(
        self, job: Job, samples: Samples, rows: npt.NDArray[np.intp] | None = None
    ) -> Sample:
        """Return the `Sample` of which scores are left out for `calibrate`; of a subset `rows`."""
        return sample_unmerged(job, samples, ROWS, rows)

    def calibrate(self, left_out: Any, sample: Any, job: Job, layer: Any) -> dict[str, Any]:
        """Return fitted attributes that are computed from the `HeldOutScores` of a `Sample`.

        The scores are those of the leading units of the layer.
        """
        return {}

    def prior_calibration(self) -> dict[str, Any]:
        """Return the attributes of `calibrate` for a sample without rows."""
        return {}

    def why_not_incremental(self) -> str | None:
        """Return why incremental fits are not possible, with the remedy; None if they are."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Readout(Part, ABC):
    """The linear output layer: scores are ``H @ readout_coef_.T + readout_intercept_``.

    Attributes
    ----------
    readout_coef_ : ndarray of shape (n_scores, n_columns of H)
    readout_intercept_ : ndarray of shape (n_scores,)
    alpha_ : float
        The penalty.
    alphas_, loo_errors_ : ndarray of shape (n_penalties,)
        The penalties tried by leave-one-out, and their errors.
    temperature_ : float or ndarray of shape (n_columns of y,)
        Divides the logits before the softmax.
    score_scale_ : float or ndarray of shape (n_columns of y,)
        Scale of the scores as estimates of probabilities; unset if they are logits.
    conformity_scores_ : list of ConformityScores
        For prediction sets: those of each column of y.
    posterior_ : Posterior
        For standard deviations of predictions.
    smearing_ : ndarray of shape (n_quantiles, n_scores)
        Equally likely residuals of a transformed y.
    residual_distribution_ : ResidualDistribution
        For quantiles of predictions.
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
    alpha_: Any = UNSET
    alphas_: npt.NDArray[Any] = UNSET
    loo_errors_: npt.NDArray[Any] = UNSET
    temperature_: Any = UNSET
    score_scale_: Any = UNSET
    conformity_scores_: Any = UNSET
    posterior_: Any = UNSET
    smearing_: Any = UNSET
    residual_distribution_: Any = UNSET
    n_iter_: int = UNSET
    is_ridge: ClassVar[bool] = False
    fits_units: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = False

    @abstractmethod
    def check(self, units: Units, task: TargetSpec) -> None:
        """Raise TypeError or ValueError for invalid hyperparameters or combinations of them."""

    @property
    def has_given_sample(self) -> bool:
        """Return whether a stacked ensemble has drawn the samples that calibrate."""
        return False

    def check_samples(self, samples: Samples) -> None:
        """Raise for samples that it cannot be trained on."""
        return None

    @abstractmethod
    def train(self, training: "ReadoutTraining") -> Self:
        """Return the fitted readout."""

    @abstractmethod
    def why_not_incremental(self) -> str | None:
        """Return why incremental fits are not possible, with the remedy; None if they are."""

    def uses_nearest_unit(self, units: Units, task: TargetSpec) -> bool:
        """Return whether samples that no unit covers are scored by their nearest unit."""
        return False

    def nearest_scores(self, units: Units, task: TargetSpec) -> Any:
        """Return scores (n_units, n_scores) of samples that no unit covers, by their nearest unit.

        None if such samples get the intercept, as the formula has it.
        """
        return None

    def make_predictor(self, engine: Any, dtype: Any, finds_uncovered: bool) -> LinearReadout:
        """Return the object that computes scores of tiles of H of a dtype."""
        return LinearReadout(
            engine, self.readout_coef_, self.readout_intercept_, dtype, finds_uncovered
        )


@dataclass(frozen=True, eq=False)
class ReadoutTraining:
    """The arguments of `Readout.train`."""

    job: Job
    samples: Samples
    units: Units
    task: TargetSpec
    history: SearchHistory

    @cached_property
    def layer(self) -> Any:
        """Return the layer in the dtype in which it processes the samples."""
        return cast_layer(self.units.layer, self.samples.X)

    def rounded(self, bits: int | None) -> "ReadoutTraining":
        """Return the same with activations rounded to `bits`, and a copy of the history."""
        history = replace(self.history, rows=list(self.history.rows))
        return replace(self, units=self.units.rounded(bits), history=history)


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts of an estimator; a transformer has neither target specification nor readout."""

    units: Units
    task: Any = None
    readout: Any = None

    def check(self) -> None:
        """Raise TypeError or ValueError for an invalid hyperparameter."""
        self.units.check()
        if self.task is not None:
            self.task.check()
            self.readout.check(self.units, self.task)

    @property
    def fitted(self) -> dict[str, Any]:
        """Return all fitted attributes that are set; those of the readout take precedence."""
        fitted = self.units.fitted
        if self.task is not None:
            fitted |= self.task.fitted | self.readout.fitted
        return fitted

    @property
    def uses_nearest_unit(self) -> bool:
        """Return `Readout.uses_nearest_unit`, which is far cheaper than `nearest_scores`."""
        return self.readout.uses_nearest_unit(self.units, self.task)

    @cached_property
    def nearest_scores(self) -> Any:
        """Return `Readout.nearest_scores`."""
        return self.readout.nearest_scores(self.units, self.task)

    def why_not_incremental(self) -> str | None:
        """Return why incremental fits are not possible, with the remedy; None if they are."""
        return self.readout.why_not_incremental() or self.task.why_not_incremental()


def parts_of(estimator: Any) -> Any:
    """Return the `Parts` of an estimator of this package, None for any other object."""
    # Looked up in the class: meta-estimators delegate attributes to the estimator inside.
    make = getattr(type(estimator), "_parts", None)
    return None if make is None else make(estimator)


def layer_of(estimator: Any) -> Any:
    """Return the hidden layer of a fitted estimator; raise NotFittedError otherwise."""
    check_is_fitted(estimator)
    return parts_of(estimator).units.layer


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator for random choices of a search, which depends on the seed alone."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.default_rng(seed)
