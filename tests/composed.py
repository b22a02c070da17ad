"""Estimators whose parts differ from those that their class names."""

from dataclasses import replace


def composed(model, **changes):
    """The model with other values in fields of its parts, as ``task={"most_scored": 100}``."""
    method = "_stacked_parts" if hasattr(model, "_stacked_parts") else "_parts"
    make = getattr(type(model), method)

    def parts(self):
        made = make(self)
        return replace(
            made, **{name: replace(getattr(made, name), **new) for name, new in changes.items()}
        )

    kind = type(type(model).__name__, (type(model),), {method: parts})
    return kind(**model.get_params(deep=False))
