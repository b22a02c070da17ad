"""Estimators with modified parts."""

from dataclasses import replace


def composed(model, **changes):
    """Return the model with other fields of its parts, such as ``task={"most_scored": 100}``."""
    method = "_stacked_parts" if hasattr(model, "_stacked_parts") else "_parts"
    make = getattr(type(model), method)

    def parts(self):
        made = make(self)
        return replace(
            made, **{name: replace(getattr(made, name), **new) for name, new in changes.items()}
        )

    kind = type(type(model).__name__, (type(model),), {method: parts})
    return kind(**model.get_params(deep=False))
