"""What is inside a fitted model: its network, and what becomes of rows before they meet it."""

from dataclasses import dataclass

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from ..layers import PatchLayer
from ..parts import layer_of, parts_of


@dataclass(frozen=True, eq=False)
class InputTransform:
    """Rows on their way to the units: ``(x - shift) * factor + offset``, feature by feature."""

    # (n_features,), float64
    shift: np.ndarray
    factor: np.ndarray
    offset: np.ndarray

    @classmethod
    def unchanged(cls, n_features):
        return cls(np.zeros(n_features), np.ones(n_features), np.zeros(n_features))

    def then_times(self, weights):
        return InputTransform(self.shift, self.factor * weights, self.offset * weights)


def unwrap(model):
    """The network within a fitted model, its readout solved, and the `InputTransform` of its rows.

    The model is a classifier or regressor of this package, a `Pipeline` of a scaler and such a one,
    or a search that was fitted to either; others raise TypeError or ValueError.
    """
    check_is_fitted(model)
    model = getattr(model, "best_estimator_", model)
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    *before, network = (step for step in steps if step not in (None, "passthrough"))
    parts = parts_of(network)
    if parts is None or parts.readout is None or isinstance(parts.units.layer, PatchLayer):
        raise TypeError(
            f"model={network!r} has no readout that is written; give a fitted RBFClassifier, "
            "TanhClassifier, RBFRegressor or TanhRegressor, a Pipeline that ends in one, or a "
            "search with refit=True."
        )
    if len(before) > 1:
        raise ValueError(_refused(before[0]))
    network = network._snapshot()
    arrival = _of_scaler(before[0]) if before else InputTransform.unchanged(network.n_features_in_)
    return network, _with_feature_weights(arrival, network)


def _of_scaler(step):
    n_features = getattr(step, "n_features_in_", 0)
    plain = InputTransform.unchanged(n_features)
    if type(step) is StandardScaler:
        shift = plain.shift if step.mean_ is None or not step.with_mean else step.mean_
        scale = plain.factor if step.scale_ is None else step.scale_
        return InputTransform(shift, 1 / scale, plain.offset)
    if type(step) is MinMaxScaler and not step.clip:
        low, _ = step.feature_range
        return InputTransform(step.data_min_, step.scale_, plain.offset + low)
    raise ValueError(_refused(step))


def _refused(step):
    return (
        f"Step {step!r} cannot be exported; have one StandardScaler, or one MinMaxScaler with "
        "clip=False, before the network, or export the network alone and give it rows that have "
        "been prepared."
    )


def _with_feature_weights(arrival, network):
    """The arrival, also through weights; a linear map comes after it."""
    layer = layer_of(network)
    if layer.weights is None or layer.is_mapped:
        return arrival
    return arrival.then_times(np.asarray(layer.weights, np.float64))
