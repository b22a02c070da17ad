"""A hidden layer that is given, in the place of one that is chosen."""

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ..layers import DTYPES


def lender_of(layer, units):
    """The fitted estimator that lends its layer; None where `layer` is an array of centres.

    Parameters
    ----------
    layer : estimator, FrozenEstimator or array-like
    units : type
        The mixin that the estimator must have.
    """
    if not isinstance(layer, (FrozenEstimator, units)) and not hasattr(layer, "fit"):
        return None
    lender = layer.estimator if isinstance(layer, FrozenEstimator) else layer
    if not isinstance(lender, units):
        raise TypeError(
            f"layer={lender!r} has no units of this kind; give one of {_kinds(units)}, fitted."
        )
    try:
        check_is_fitted(lender)
    except NotFittedError as error:
        raise ValueError(
            f"layer={lender!r} is not fitted, and has no hidden layer to give. Fit it first. "
            "Where scikit-learn clones estimators, as in a search, the clone of a fitted one is "
            f"not fitted: give layer=FrozenEstimator({type(lender).__name__}(...).fit(X)), of "
            "sklearn.frozen."
        ) from error
    return lender


def _kinds(units):
    """The names of the estimators that have these units."""
    classes, names = [units], set()
    while classes:
        each = classes.pop()
        classes += each.__subclasses__()
        names.add(each.__name__)
    return ", ".join(sorted(names - {units.__name__}))


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
