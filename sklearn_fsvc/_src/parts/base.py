"""The base class of the parts of an estimator.

A part is an immutable dataclass. Its fields are the hyperparameters of the estimator that concern
it, and, with a trailing underscore as everywhere in scikit-learn, the fitted attributes that it is
responsible for. Fitting a part returns a new one with these fields set.
"""

from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cache
from typing import Any, Self, cast


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
        attributes, part_class = vars(estimator), cast(Any, cls)
        names = [name for name in _field_names(part_class) if name in attributes]
        own = {name: attributes[name] for name in names}
        return cls(**own | {"owner": type(estimator).__name__} | values)

    @property
    def fitted(self) -> dict[str, Any]:
        """Return the fitted attributes that are set, by name."""
        names = _fitted_names(cast(Any, type(self)))
        values = {name: getattr(self, name) for name in names}
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
