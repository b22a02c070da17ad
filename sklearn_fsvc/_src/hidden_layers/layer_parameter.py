"""Hidden layers that the user gives instead of having them determined: the parameter `layer`."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ..data.columns import check_unmasked
from ..layers import DTYPES
from ..parts.composition import parts_of
from ..parts.units import Units


def pretrained_of(layer: Any, units_class: type[Units], names: str) -> Any:
    """Return the fitted estimator whose layer is used; None if `layer` is not an estimator.

    Parameters
    ----------
    layer : estimator, FrozenEstimator, array-like or None
    units_class : type
        The class of `Units` that the estimator must have.
    names : str
        The estimators that have such units, for the error message.
    """
    if not isinstance(layer, FrozenEstimator) and not hasattr(layer, "fit"):
        return None
    pretrained = layer.estimator if isinstance(layer, FrozenEstimator) else layer
    parts = parts_of(pretrained)
    if parts is None or not isinstance(parts.units, units_class):
        raise TypeError(
            f"layer={pretrained!r} has no units of this kind; pass one of {names}, fitted."
        )
    try:
        if "device_" not in vars(pretrained):
            check_is_fitted(pretrained)  # slow, and this function is called in each prediction
            if hasattr(pretrained, "solve"):
                pretrained.solve()  # partial_fit chooses a layer when it is needed
    except NotFittedError as error:
        raise ValueError(
            f"layer={pretrained!r} is not fitted, so it has no hidden layer. Fit it first. "
            "scikit-learn clones estimators, as in a search, and the clone of a fitted one is "
            f"not fitted: pass layer=FrozenEstimator({type(pretrained).__name__}(...).fit(X)), of "
            "sklearn.frozen."
        ) from error
    return pretrained


def centers_of(layer: Any, X: Any) -> npt.NDArray:
    """Return the centres that an array gives, in the dtype of X if that is floating-point."""
    check_unmasked(layer=layer)
    if np.asarray(layer).dtype.kind not in "biuf":
        raise TypeError(f"layer={layer!r} must be a fitted estimator, or an array of centres.")
    centers = check_array(layer, dtype=list(DTYPES), input_name="layer", copy=True)
    return centers.astype(X.dtype, copy=False) if X.dtype.kind == "f" else centers


def check_n_features(units: npt.NDArray, X: Any) -> None:
    """Raise ValueError if a given layer and X have different numbers of features."""
    if units.shape[1] != X.shape[1]:
        raise ValueError(
            f"The units of layer have {units.shape[1]} features, and X has {X.shape[1]}; pass a "
            "layer of the same features."
        )
