"""The contract of hidden units: how the hidden layer of an estimator is chosen."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.samples import Samples
from ..readouts.penalty_search import SearchHistory
from .base import UNSET, Part


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
    of_samples : tuple of str
        Fitted attributes of the training samples, which another model of the layer does not have.
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
    of_samples: ClassVar[tuple[str, ...]] = ("support_", "center_labels_", "center_targets_")
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

    def with_layer_of(self, other: Self) -> Self:
        """Return the units with the fitted layer of others."""
        layer = {name: v for name, v in other.fitted.items() if name not in self.of_samples}
        return self.with_fitted(**layer)

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
        """Return the unit that is centred at each row of a `RowSample`, -1 for none."""
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
