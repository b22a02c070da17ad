"""What an estimator is put together from: units, a task and a readout, each behind a contract.

A part is a value: the parameters of an estimator that concern it, and the fitted attributes that
it has found. Nothing changes it: what fits a part returns one that knows more. An estimator names
its parts in one place, `_parts`; `network.Network` is the story of what they do together.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .data.job import Job
from .data.samples import Samples
from .data.streaming import cast_layer
from .readouts.cross_validation import SearchHistory
from .readouts.linear import LinearReadout


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Parameters of an estimator, and what was found with them.

    Fields with the name of a parameter have its value.

    Attributes
    ----------
    owner : str
        Class of the estimator, for messages.
    found : dict
        Fitted attributes by name, of those named in `attributes`.
    """

    owner: str = ""
    found: dict[str, Any] = field(default_factory=dict)
    attributes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, model: Any, **more: Any) -> Self:
        """Make the part of an estimator, with more fields than its parameters say."""
        kept = vars(model)
        more["found"] = {name: kept[name] for name in cls.attributes if name in kept}
        return cls._made(kept, more | {"owner": type(model).__name__})

    @classmethod
    def _made(cls, values: dict[str, Any], more: dict[str, Any]) -> Self:
        """Do as ``cls(...)`` does, in a fraction of the time: each answer makes all parts."""
        part, known = object.__new__(cls), _names(cast(Any, cls)) & values.keys()
        vars(part).update({name: values[name] for name in known}, **more)
        return part

    def with_fitted(self, **found: Any) -> Self:
        """Return the part with what was found, and nothing that it knew before."""
        return self._made(vars(self), {"owner": self.owner, "found": found})

    def update_fitted(self, **found: Any) -> Self:
        """Return the part that knows more, beside what it knew before."""
        return self.with_fitted(**self.found | found)


@cache
def _names(cls: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(cls)) - {"owner", "found"}


@dataclass(frozen=True)
class Sharing:
    """What networks that differ in some parameters have in common, for a search.

    Attributes
    ----------
    parameters : set of str
        Parameters that leave the layer of the largest network as it is: other values of them need
        no other pass over the rows.
    key : object
        Networks for which it differs share no layer.
    needs_rows : bool
        Whether the layer depends on the training rows.
    """

    parameters: frozenset[str] = frozenset()
    key: Any = None
    needs_rows: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Units(Part, ABC):
    """Where a hidden layer comes from.

    Attributes
    ----------
    size_name : str
        The parameter that says how many units.
    n_units : int or None
        Its value.
    given : estimator, array or None
        The parameter `layer`: a layer that is there already.
    shared : dict or None
        What members of an ensemble have found for one another: metric -> feature weights.
    precision : {8, 15, "auto", "float"}
        To how many bits activations are rounded. What "auto" comes to is for the readout to say.
    first_alpha : float
        The ridge penalty with which a search for one begins.
    of_units : tuple of str
        Fitted attributes with a row for each unit.
    needs_multiple_passes : bool
        Whether the choice of the layer takes several passes over the rows.
    takes_sparse : bool
        Whether rows may be a sparse matrix.
    """

    size_name: str = "n_hidden"
    n_units: Any = None
    given: Any = None
    shared: Any = None
    precision: Any = "float"
    first_alpha: ClassVar[float]
    of_units: ClassVar[tuple[str, ...]] = ()
    takes_sparse: ClassVar[bool] = False

    @classmethod
    def of(cls, model: Any, **more: Any) -> Self:
        kept = vars(model)
        name = "n_hidden" if "n_hidden" in kept else "n_components"
        more |= {"size_name": name, "n_units": kept.get(name), "given": kept.get("layer")}
        return super().of(model, **more)

    @abstractmethod
    def check(self) -> None:
        """Raise for a parameter that cannot be used."""

    @abstractmethod
    def fit(self, job: Job, samples: Samples, history: SearchHistory) -> Self:
        """Return the units with a layer that was chosen for the samples.

        `SearchHistory` take in what is tried for it.
        """

    @property
    @abstractmethod
    def layer(self) -> Any:
        """Return the layer that was found."""

    @property
    @abstractmethod
    def sharing(self) -> Sharing:
        """Return what a search over their parameters need not do again."""

    @property
    def bits(self) -> int | None:
        """Return the bits of an activation, where they are given; None for floats."""
        return None if isinstance(self.precision, str) else self.precision

    def rounded(self, bits: int | None) -> Self:
        """Return the units whose activations have so many bits."""
        return self.update_fitted(precision_=bits)

    @property
    def width(self) -> Any:
        """Return the columns of H, where they are known before there are rows."""
        return self.n_units

    @property
    def needs_multiple_passes(self) -> bool:
        return False

    def labels_required_by(self) -> tuple[str, str] | None:
        """Return what needs the classes of rows, and what does not; None where nothing does."""
        return None

    def present(self, samples: Samples) -> Samples:
        """Return the samples with the order of their presentation, if it matters."""
        return samples

    @property
    def pretrained(self) -> Any:
        """Return the estimator that lends its layer, if one does."""
        return None

    @property
    def rows(self) -> Any:
        """Return the training rows that the units stand on; None where there are none."""
        return self.found.get("support_")

    def leading(self, n_columns: int) -> Self:
        """Return the units behind the first columns of H."""
        few = {name: self.found[name][:n_columns] for name in self.of_units if name in self.found}
        return self.update_fitted(**few)

    def shaped(self, layer: Any) -> Self:
        """Return the units with the shape that a layer on the same units has."""
        return self

    def tagged(self, tags: Any) -> Any:
        """Return scikit-learn's tags of an estimator with these units."""
        tags.input_tags.sparse = self.takes_sparse
        return tags


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetSpec(Part, ABC):
    """What y is: what it becomes for a readout, and what scores become.

    Attributes
    ----------
    wants_scores, wants_posterior : bool
        Whether there is a use for scores of training rows by readouts that have not seen them, or
        for how sure the readout is: see `left_out` and `calibrated`.
    """

    wants_scores: ClassVar[bool] = False
    has_center_outputs: ClassVar[bool] = False  # whether `center_outputs` are any

    @property
    def wants_posterior(self) -> bool:
        return False

    @abstractmethod
    def check(self) -> None:
        """Raise for a parameter that cannot be used."""

    @abstractmethod
    def read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Self, Samples]:
        """Return the task that knows what y is made of, and the `Samples` of clean rows."""

    @abstractmethod
    def begin(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, pretrained: "TargetSpec | None"
    ) -> Self:
        """Return the task that knows what y is made of by the first rows of many.

        `pretrained` is that of the estimator that lends its layer.
        """

    @abstractmethod
    def samples(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        """Return more rows, with y in terms of what is known of it."""

    def check_classes(self, y: Any, classes: Any) -> None:
        """Raise where it is not these classes, if any are named, that are known of y."""
        return None

    @abstractmethod
    def check_same(self, other: Self, name: str) -> None:
        """Raise where the y of another model, which has a name, is made of something else."""

    @abstractmethod
    def restricted_to(self, samples: Samples, rows: Any) -> Self:
        """Return the task as a fit to some of the samples alone would know it."""

    @abstractmethod
    def outputs(self, W: Any, b: Any, dtype: Any) -> tuple[Any, Any]:
        """Return the coefficients and intercepts of the scores, of a readout of targets."""

    @abstractmethod
    def format_output(self, method: str, scores: Any, readout: "Readout") -> Any:
        """Return what a method of the estimator answers to scores (rows, n_scores)."""

    @abstractmethod
    def check_out(self, out: Any, shape: tuple[int, ...]) -> None:
        """Raise where there is no room for the answers of `predict`."""

    @abstractmethod
    def score(self, answers: Any, y: Any, sample_weight: Any) -> float:
        """Return the score of the answers of `predict`."""

    @abstractmethod
    def name_of(self, k: int) -> str:
        """Return what an output of the readout stands for, in words."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Return how many columns y has."""

    @abstractmethod
    def decided(self, scores: Any, output: int) -> tuple[Any, Any, Any]:
        """Return how one column of y is answered.

        Returns
        -------
        answers : ndarray of shape (rows,)
        columns : ndarray of int of shape (rows,)
            Which of the scores says so.
        signs : ndarray of shape (rows,)
            1, or -1 where the answer is the first of two classes, whose score is the other's
            less than 0.
        """

    @abstractmethod
    def of_rows(self, samples: Samples, rows: Any) -> dict[str, Any]:
        """Return a fitted attribute: the y of the rows that units stand on."""

    @abstractmethod
    def center_targets(self, units: Units) -> Any:
        """Return that attribute."""

    def scored_rows(self, samples: Samples, random_state: Any) -> Any:
        """Return the rows whose scores without themselves are wanted, ascending; None for all."""
        return None

    def left_out(self, training: "ReadoutTraining", chosen: Any, rows: Any) -> dict[str, Any]:
        """Return fitted attributes made of what leave-one-out gave."""
        return {}

    def center_outputs(self, units: Units) -> Any:
        """Return the outputs (n_units, n_outputs) of a perfect readout for the units' own samples.

        They serve samples that no unit covers.
        """
        raise NotImplementedError

    def calibrated(self, left_out: Any, sample: Any) -> dict[str, Any]:
        """Return fitted attributes made of the `LOOScores` of a `Sample`."""
        return {}

    def uncalibrated(self) -> dict[str, Any]:
        """Return the fitted attributes of `calibrated` where no row of the sample is left."""
        return {}

    def why_no_sums(self) -> str | None:
        """Return why rows cannot come one after the other, and what to do; None where they can."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Readout(Part, ABC):
    """From H to scores: ``H W' + b``, with W and b found in some way.

    Attributes
    ----------
    is_ridge : bool
        Whether W minimises squared errors with a penalty, and so is solved from sums over rows.
    fits_units : bool
        Whether units that are chosen by the held-out error of ridge readouts suit it.
    has_probabilities : bool
        Whether it finds what makes probabilities of scores, ``temperature_``.
    """

    attributes = (
        "readout_coef_", "readout_intercept_", "alpha_", "alphas_", "loo_errors_", "temperature_",
        "posterior_", "n_iter_",
    )  # fmt: skip
    is_ridge: ClassVar[bool] = False
    fits_units: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = False

    @abstractmethod
    def check(self, units: Units, task: TargetSpec) -> None:
        """Raise for a parameter that cannot be used, alone or with these units and this task."""

    def check_samples(self, samples: Samples) -> None:
        """Raise for rows that it cannot be trained on."""
        return None

    @abstractmethod
    def train(self, training: "ReadoutTraining") -> Self:
        """Return the readout with W and b."""

    @abstractmethod
    def why_no_sums(self) -> str | None:
        """Return why rows cannot come one after the other, and what to do; None where they can."""

    @property
    def coef(self) -> np.ndarray:
        """Return W, (n_scores, n_columns of H)."""
        return self.found["readout_coef_"]

    @property
    def intercept(self) -> np.ndarray:
        return self.found["readout_intercept_"]

    def uses_nearest_unit(self, units: Units, task: TargetSpec) -> bool:
        """Return whether samples that no unit covers are scored by their nearest unit."""
        return False

    def nearest_scores(self, units: Units, task: TargetSpec) -> Any:
        """Return scores (n_units, n_scores) of samples that no unit covers, by their nearest unit.

        None where such samples get the intercept, as the formula has it.
        """
        return None

    def make_predictor(self, engine: Any, dtype: Any, finds_uncovered: bool) -> LinearReadout:
        """Return what turns tiles of H, of a dtype, into scores."""
        return LinearReadout(engine, self.coef, self.intercept, dtype, finds_uncovered)


@dataclass(frozen=True, eq=False)
class ReadoutTraining:
    """What a readout is trained on."""

    job: Job
    samples: Samples
    units: Units
    task: TargetSpec
    history: SearchHistory

    @cached_property
    def layer(self) -> Any:
        """Return the layer as it meets the rows."""
        return cast_layer(self.units.layer, self.samples.X)

    def rounded(self, bits: int | None) -> "ReadoutTraining":
        """Return the same with activations of so many bits, and a history of its own."""
        history = replace(self.history, rows=list(self.history.rows))
        return replace(self, units=self.units.rounded(bits), history=history)


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts of an estimator; a transformer has neither task nor readout."""

    units: Units
    task: Any = None
    readout: Any = None

    def check(self) -> None:
        """Raise for a parameter that cannot be used."""
        self.units.check()
        if self.task is not None:
            self.task.check()
            self.readout.check(self.units, self.task)

    @property
    def found(self) -> dict[str, Any]:
        """Return all fitted attributes."""
        found = dict(self.units.found)
        for part in (self.task, self.readout):
            found |= {} if part is None else part.found
        return found

    @property
    def uses_nearest_unit(self) -> bool:
        """Return that of `Readout` for these units: far cheaper than the scores."""
        return self.readout.uses_nearest_unit(self.units, self.task)

    @cached_property
    def nearest_scores(self) -> Any:
        """Return those of `Readout` for these units."""
        return self.readout.nearest_scores(self.units, self.task)

    def why_no_sums(self) -> str | None:
        """Return why rows cannot come one after the other, and what to do; None where they can."""
        return self.readout.why_no_sums() or self.task.why_no_sums()


def parts_of(model: Any) -> Any:
    """Return the `Parts` of an estimator of this package, None of any other object."""
    make = getattr(type(model), "_parts", None)  # what stands around one hands on its attributes
    return None if make is None else make(model)


def layer_of(model: Any) -> Any:
    """Return the hidden layer of an estimator; NotFittedError where it has none."""
    check_is_fitted(model)
    return parts_of(model).units.layer


def generator(random_state: Any) -> np.random.Generator:
    """Return random numbers for what is chosen by held-out error, the same for the same seed."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.default_rng(seed)
