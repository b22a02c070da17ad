"""What is given of a hidden layer: all of it, in the place of one that is chosen, or weights."""

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ..layers import DTYPES
from ..parts import Units, parts_of
from ..utils.parameters import feature_weights, is_word


def pretrained_of(layer: Any, kind: type[Units], names: str) -> Any:
    """The fitted estimator that lends its layer; None where `layer` is an array of centres.

    Parameters
    ----------
    layer : estimator, FrozenEstimator or array-like
    kind : type
        The `Units` that the estimator must have.
    names : str
        The names of the estimators that have them, for people to read.
    """
    if not isinstance(layer, FrozenEstimator) and not hasattr(layer, "fit"):
        return None
    pretrained = layer.estimator if isinstance(layer, FrozenEstimator) else layer
    parts = parts_of(pretrained)
    if parts is None or not isinstance(parts.units, kind):
        raise TypeError(
            f"layer={pretrained!r} has no units of this kind; give one of {names}, fitted."
        )
    try:
        if "device_" not in vars(pretrained):
            check_is_fitted(pretrained)  # which takes long
    except NotFittedError as error:
        raise ValueError(
            f"layer={pretrained!r} is not fitted, and has no hidden layer to give. Fit it first. "
            "Where scikit-learn clones estimators, as in a search, the clone of a fitted one is "
            f"not fitted: give layer=FrozenEstimator({type(pretrained).__name__}(...).fit(X)), of "
            "sklearn.frozen."
        ) from error
    return pretrained


def centers_of(layer, X):
    """The centres that an array gives, for rows like X: of its dtype where that is of floats."""
    if np.asarray(layer).dtype.kind not in "biuf":
        raise TypeError(f"layer={layer!r} must be a fitted estimator, or an array of centres.")
    centers = check_array(layer, dtype=list(DTYPES), input_name="layer", copy=True)
    return centers.astype(X.dtype, copy=False) if X.dtype.kind == "f" else centers


def check_features(units, X):
    """Raise where a given layer has other features than the rows."""
    if units.shape[1] != X.shape[1]:
        raise ValueError(
            f"The units of layer have {units.shape[1]} features, and X has {X.shape[1]}; give a "
            "layer of the same features."
        )


def given_weights(value, may_be_auto, n_features=None):
    """The feature weights, or the linear map, that are given as numbers; else None."""
    ways = ("learned", "map") + ("auto",) * may_be_auto
    return feature_weights(value, ways, n_features)


def learns_weights(value, is_searched, dtype):
    """Whether feature weights are learned from rows of a dtype.

    `is_searched` says whether what is "auto" is found by held-out error.
    """
    is_auto = is_word(value, "auto") and is_searched and dtype.kind == "f"
    return is_auto or is_word(value, "learned")


def apart(weights):
    """What was found as the attributes `feature_weights_` and `feature_map_`."""
    is_map = np.ndim(weights) == 2
    of_each, of_all = (None, weights) if is_map else (weights, None)
    return {"feature_weights_": of_each, "feature_map_": of_all}
