"""Estimators with modified internal settings."""

from dataclasses import replace


def with_parts(model, **changes):
    """Return a clone with changed fields of its parts.

    For example ``target={"max_calibration_scores": 100}`` changes a field of ``parts.target``.
    """
    method = "_stacked_parts" if hasattr(model, "_stacked_parts") else "_parts"
    make_parts = getattr(type(model), method)

    def modified_parts(self):
        parts = make_parts(self)
        modified = {
            name: replace(getattr(parts, name), **fields) for name, fields in changes.items()
        }
        return replace(parts, **modified)

    cls = type(type(model).__name__, (type(model),), {method: modified_parts})
    return cls(**model.get_params(deep=False))


def set_buffer_size(model, max_rows):
    """Limit the number of buffered samples of the model."""
    state = model._incremental_state
    statistics = replace(state.statistics, max_rows=max_rows)
    model._incremental_state = replace(state, statistics=statistics)
