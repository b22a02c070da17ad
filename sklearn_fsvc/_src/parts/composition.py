"""All parts of an estimator.

An estimator class names its parts in one method, `_parts`; `estimators.network.Network` fits them
and predicts with them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .units import Units


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts of an estimator; a transformer has neither target specification nor readout."""

    units: Units
    target: Any = None
    readout: Any = None

    def check(self) -> None:
        """Raise TypeError or ValueError for an invalid hyperparameter."""
        self.units.check()
        if self.target is not None:
            self.target.check()
            self.readout.check(self.units, self.target)

    @property
    def fitted(self) -> dict[str, Any]:
        """Return all fitted attributes that are set; those of the readout take precedence."""
        fitted = self.units.fitted
        if self.target is not None:
            fitted |= self.target.fitted | self.readout.fitted
        return fitted

    @property
    def uses_nearest_unit(self) -> bool:
        """Return `Readout.uses_nearest_unit`, which is far cheaper than `nearest_scores`."""
        return self.readout.uses_nearest_unit(self.units, self.target)

    @cached_property
    def nearest_scores(self) -> Any:
        """Return `Readout.nearest_scores`."""
        return self.readout.nearest_scores(self.units, self.target)

    def why_not_incremental(self) -> str | None:
        """Return why incremental fits are not possible, with the remedy; None if they are."""
        return self.readout.why_not_incremental() or self.target.why_not_incremental()


def parts_of(estimator: Any) -> Any:
    """Return the `Parts` of an estimator of this package, None for any other object."""
    # Looked up in the class: meta-estimators delegate attributes to the estimator inside.
    make = getattr(type(estimator), "_parts", None)
    return None if make is None else make(estimator)


def layer_of(estimator: Any) -> Any:
    """Return the hidden layer of a fitted estimator; raise NotFittedError otherwise."""
    check_is_fitted(estimator)
    return parts_of(estimator).units.layer
