"""The parameter `feature_weights`: given values, ways to learn them, and the fitted attributes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.columns import check_unmasked
from ..data.job import Job
from ..data.samples import Samples
from ..parts.base import UNSET
from ..utils.parameters import check_choice, is_option
from .importances import importances_of, standard_deviations

# Ways to learn feature weights, or a linear map, that need targets.
LEARNED_WEIGHTS = ("learned", "refined", "map")


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
        weights = np.asarray(value, np.float64)
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


def weights_method(value: Any, allows_auto: bool, dtype: np.dtype) -> str | None:
    """Return how weights, or a map, are learned from samples of a dtype; None if they are not."""
    if is_option(value, "auto") and allows_auto and dtype.kind == "f":
        return "learned"
    return value if is_learned(value) else None


def may_learn_weights(value: Any) -> bool:
    """Return whether feature weights, not a map, may be learned."""
    return isinstance(value, str) and value in ("auto", "learned", "refined")


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
