"""Extraction of the network of a fitted model, and of the scaling of its inputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from ..estimators.state import EstimatorMixin
from ..layers import PatchLayer
from ..parts.composition import layer_of, parts_of


@dataclass(frozen=True, eq=False)
class InputTransform:
    """The map ``(x - shift) * factor + offset`` of each feature, before the hidden layer.

    Parameters
    ----------
    shift, factor, offset : ndarray of shape (n_features,), float64
    """

    shift: npt.NDArray
    factor: npt.NDArray
    offset: npt.NDArray

    @classmethod
    def identity(cls, n_features: int) -> "InputTransform":
        return cls(np.zeros(n_features), np.ones(n_features), np.zeros(n_features))

    @classmethod
    def of_scaler(cls, scaler: Any) -> "InputTransform":
        """Return the map of a fitted StandardScaler or MinMaxScaler; ValueError for others."""
        identity = cls.identity(getattr(scaler, "n_features_in_", 0))
        if type(scaler) is StandardScaler:
            has_mean = scaler.with_mean and scaler.mean_ is not None
            shift = scaler.mean_ if has_mean else identity.shift
            scale = identity.factor if scaler.scale_ is None else scaler.scale_
            return cls(shift, 1 / scale, identity.offset)
        if type(scaler) is MinMaxScaler and not scaler.clip:
            low, _ = scaler.feature_range
            return cls(scaler.data_min_, scaler.scale_, identity.offset + low)
        raise ValueError(_why_unsupported(scaler))

    def weighted(self, weights: npt.NDArray) -> "InputTransform":
        """Return this map, followed by a multiplication with feature weights."""
        return InputTransform(self.shift, self.factor * weights, self.offset * weights)


def unwrap(model: Any) -> tuple[Any, InputTransform]:
    """Return the network of a fitted model, and the transform of its inputs.

    Parameters
    ----------
    model : estimator
        A classifier or regressor of this package, a `Pipeline` of a scaler and one of them, or
        a search that was fitted to either. Others raise TypeError or ValueError.

    Returns
    -------
    network : estimator
        With its readout solved.
    transform : InputTransform
        Of the scaler, and of the feature weights of the network unless they are a linear map.
    """
    check_is_fitted(model)
    model = getattr(model, "best_estimator_", model)
    *scalers, network = (step for step in steps_of(model) if step not in (None, "passthrough"))
    if isinstance(network, EstimatorMixin):
        network = network._snapshot()  # with the layer and the readout that `partial_fit` lacks
    _check_supported(scalers, network)
    if scalers:
        transform = InputTransform.of_scaler(scalers[0])
    else:
        transform = InputTransform.identity(network.n_features_in_)
    layer = layer_of(network)
    if layer.weights is None or layer.is_mapped:
        return network, transform
    return network, transform.weighted(np.asarray(layer.weights, np.float64))


def _check_supported(scalers, network):
    """Raise for several scalers, and for networks on patches or of a transformed y, or others."""
    parts = parts_of(network)
    if parts is None or parts.readout is None or isinstance(parts.units.layer, PatchLayer):
        raise TypeError(
            f"model={network!r} cannot be exported; pass a fitted RBFClassifier, TanhClassifier, "
            "RBFRegressor or TanhRegressor, a Pipeline that ends in one, or a search with "
            "refit=True."
        )
    if len(scalers) > 1:
        raise ValueError(_why_unsupported(scalers[0]))
    if getattr(network, "target_transformer_", None) is not None:
        raise ValueError(
            f"{type(network).__name__} was fitted with "
            f"target_transform={network.target_transform!r}, which cannot be exported; use "
            "target_transform=None, or fit it to a transformed y and transform the predictions of "
            "the exported model back."
        )


def steps_of(model: Any) -> list[Any]:
    """Return the steps of a `Pipeline`; of any other object, itself as the only one."""
    return [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]


def _why_unsupported(step):
    return (
        f"Step {step!r} cannot be exported; use one StandardScaler, or one MinMaxScaler with "
        "clip=False, before the network, or export the network alone and preprocess its inputs."
    )
