"""The parameters `feature_weights` and `layer`: given values, and attributes of the weights.

Feature importances are feature weights times the standard deviations of the features. A learned
weight is a root mean squared gradient, so its importance is that with respect to the standardised
feature. Unlike weights, importances do not depend on the units of the features.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ..data.columns import check_unmasked, different_names
from ..data.job import Job
from ..data.rows import take_rows
from ..data.samples import Samples, draw_ascending
from ..layers import DTYPES
from ..parts.base import UNSET
from ..parts.composition import parts_of
from ..parts.units import Units
from ..utils.parameters import check_choice, is_option

# Ways to learn feature weights, or a linear map, that need targets.
LEARNED_WEIGHTS = ("learned", "refined", "map")
# Maximum number of features for a learned map, which is a square matrix of that size.
MAX_MAP_FEATURES = 500
# Maximum numbers of samples, and of elements in them, from which standard deviations are estimated.
_MAX_SAMPLES, _MAX_ELEMENTS = 4000, 2**22
# Arrays of that size, in float64, that are allocated at a time.
_N_ARRAYS = 3


def is_learned(value: Any) -> bool:
    """Return whether the parameter `feature_weights` names a way to learn them."""
    return isinstance(value, str) and value in LEARNED_WEIGHTS


def given_weights(
    value: Any, allows_auto: bool, n_features: int | None = None
) -> npt.NDArray | None:
    """Return the feature weights, or the linear map, that the parameter gives; validate it.

    Parameters
    ----------
    value : array-like, str or None
    allows_auto : bool
        Whether "auto" is valid.
    n_features : int, optional
        The length that the array must have.

    Returns
    -------
    weights : ndarray of shape (n_features,) or (n_features, n_inputs), float64, or None
        None where `value` is None or a string.
    """
    check_unmasked(feature_weights=value)
    words = LEARNED_WEIGHTS + ("auto",) * allows_auto
    if value is None:
        return None
    if isinstance(value, str):
        check_choice("feature_weights", value, words, "None or an array")
        return None
    try:
        weights = np.array(value, np.float64)  # a copy: an array may be changed after the fit
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"feature_weights={value!r} must be None, one of {words}, or numeric."
        ) from error
    is_map = weights.ndim == 2
    are_weights = weights.ndim == 1 and not (weights < 0).any()
    if not np.isfinite(weights).all() or not (is_map or are_weights):
        raise ValueError(
            f"feature_weights={value!r} must have a finite weight of 0 or more for each feature, "
            "or be a matrix with a row of finite values for each."
        )
    if not weights.any():
        raise ValueError(f"feature_weights={value!r} is 0 for all features; one must be positive.")
    if n_features is not None and len(weights) != n_features:
        raise ValueError(
            f"feature_weights has {len(weights)} {'rows' if is_map else 'values'}, but X has "
            f"{n_features} features; pass one for each."
        )
    return weights


def weights_method(value: Any, allows_auto: bool, X: Any) -> str | None:
    """Return how weights, or a map, are learned from samples; None if they are not."""
    n_features = X.shape[1]
    if is_option(value, "map") and n_features > MAX_MAP_FEATURES:
        raise ValueError(
            f'feature_weights="map" learns a square matrix, for at most {MAX_MAP_FEATURES} '
            f'features, and X has {n_features}; use "learned", or reduce the dimension of X first, '
            "as by PCA."
        )
    if is_option(value, "auto") and allows_auto and X.dtype.kind == "f":
        return "learned"
    return value if is_learned(value) else None


def may_learn_weights(value: Any) -> bool:
    """Return whether feature weights may be learned."""
    return is_learned(value) or is_option(value, "auto")


def weight_attributes(
    job: Job, samples: Samples, weights: npt.NDArray | None, importances: npt.NDArray | None
) -> dict[str, npt.NDArray | None]:
    """Return the fitted attributes of units for feature weights or a linear map.

    `importances` are those of learned ones; those of given ones are computed for the samples.
    """
    is_map = np.ndim(weights) == 2 if weights is not None else False
    if weights is not None and importances is None:
        importances = importances_of(weights, standard_deviations(job, samples))
    return {
        "feature_weights_": None if is_map else weights,
        "feature_map_": weights if is_map else None,
        "feature_importances_": UNSET if importances is None else importances,
    }


def importances_of(
    weights: npt.NDArray, deviations: npt.NDArray | float
) -> npt.NDArray[np.float64]:
    """Return the importances of features with some standard deviations, in any common unit.

    Parameters
    ----------
    weights : ndarray of shape (n_features,) or (n_features, n_inputs)
        Feature weights, or a linear map: then the weight of a feature is the norm of its row.
    deviations : ndarray of shape (n_features,) or float

    Returns
    -------
    ndarray of shape (n_features,), float64
        Their sum is 1, but all are 0 if no feature that has a weight varies.
    """
    norms = np.abs(weights) if weights.ndim == 1 else np.linalg.norm(weights, axis=1)
    importances = norms * deviations
    return importances / (importances.sum() or 1)


def standard_deviations(job: Job, samples: Samples) -> npt.NDArray[np.float64]:
    """Return the standard deviations of the features, divided by the largest absolute value.

    At most 4000 samples are read, and fewer if there are more than 1000 features.
    """
    n_elements = min(_MAX_ELEMENTS, job.memory_limit // (8 * _N_ARRAYS))
    max_rows = max(2, min(_MAX_SAMPLES, n_elements // samples.X.shape[1]))
    # No generator is given: no other random choice of a fit depends on importances.
    rows = draw_ascending(samples.rows_with_weight, max_rows)
    X = job.engine.to_host(take_rows(samples.X, rows)).astype(np.float64)
    # Divide each feature by its maximum, so that squares neither overflow nor underflow. Subtract
    # the first sample, so that constant features become exactly 0.
    peak = np.abs(X).max(axis=0)
    X /= np.where(peak > 0, peak, 1)
    X -= X[0].copy()
    weight = samples.weight_of(rows)
    X -= np.average(X, axis=0, weights=weight)
    variance = np.average(np.square(X, out=X), axis=0, weights=weight)
    return np.sqrt(variance) * (peak / (peak.max() or 1))


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


def check_layer_names(pretrained: Any, model: Any) -> None:
    """Raise ValueError if the given layer was fitted to features with other names than a model."""
    if (different := different_names(pretrained, model)) is not None:
        j, theirs, mine = different
        raise ValueError(
            f"The estimator of layer has {theirs!r} as feature {j}, and X has {mine!r}: the "
            "feature names should match those that the layer was fitted to, in the same order; "
            "pass X[layer.feature_names_in_]."
        )


def check_n_features(units: npt.NDArray, X: Any) -> None:
    """Raise ValueError if a given layer and X have different numbers of features."""
    if units.shape[1] != X.shape[1]:
        raise ValueError(
            f"The units of layer have {units.shape[1]} features, and X has {X.shape[1]}; pass a "
            "layer of the same features."
        )
