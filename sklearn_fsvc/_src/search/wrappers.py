"""Estimators around a network: the steps of pipelines, and the transformation of a target.

Pipeline and TransformedTargetRegressor may be nested, and end in a network. A search fits them
once for a split and all networks of a group.
"""

import sys
from copy import copy
from typing import Any, Self

from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline


def last_step(estimator: Any) -> Any:
    """Return the estimator itself, or the one that it ends in, fitted if the estimator is."""
    if isinstance(estimator, Pipeline):
        return last_step(estimator.steps[-1][1])
    if _transforms_target(estimator):
        return last_step(getattr(estimator, "regressor_", estimator.regressor))
    return estimator


def parameter_prefix(estimator: Any) -> str:
    """Return the prefix of the network's parameters, such as "clf__"."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{parameter_prefix(last)}"
    if _transforms_target(estimator):
        return f"regressor__{parameter_prefix(estimator.regressor)}"
    return ""


def with_last_step(estimator: Any, last: Any) -> Any:
    """Return the estimator with another network."""
    if isinstance(estimator, Pipeline):
        return _replace_last_step(estimator, with_last_step(estimator.steps[-1][1], last))
    if not _transforms_target(estimator):
        return last
    other = copy(estimator)
    other.regressor = with_last_step(estimator.regressor, last)
    if hasattr(estimator, "regressor_"):
        other.regressor_ = with_last_step(estimator.regressor_, last)
    return other


def without_target_transform(estimator: Any) -> Any:
    """Return a fitted estimator that predicts transformed targets, as its network does."""
    if isinstance(estimator, Pipeline):
        return _replace_last_step(estimator, without_target_transform(estimator.steps[-1][1]))
    if _transforms_target(estimator):
        return without_target_transform(estimator.regressor_)
    return estimator


def untransform_predictions(estimator: Any, predictions: Any) -> Any:
    """Return the predictions of a fitted estimator whose network has these predictions."""
    if isinstance(estimator, Pipeline):
        return untransform_predictions(estimator.steps[-1][1], predictions)
    if not _transforms_target(estimator):
        return predictions
    other = copy(estimator)
    other.regressor_ = _FixedPredictions(untransform_predictions(estimator.regressor_, predictions))
    return other.predict(None)


def fit_wrappers(
    estimator: Any, X: Any, y: Any, params: dict[str, Any]
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Fit the estimators around the network.

    Returns
    -------
    pipeline : Pipeline, TransformedTargetRegressor or None
        Fitted, with a last step whose predictions are its input: `without_target_transform` of
        it predicts the X of the network.
    network : classifier or regressor, not fitted
    X, y, sample_weight, groups
        The input of the network.
    """
    network = last_step(estimator)
    if network is estimator:
        return None, clone(estimator), X, y, *get_metadata(**params)
    pipeline = clone(with_last_step(estimator, _InputRecorder(network))).fit(X, y, **params)
    return pipeline, clone(network), *last_step(pipeline).pop_input()


def get_metadata(sample_weight: Any = None, groups: Any = None) -> tuple[Any, Any]:
    """Return the fit parameters of a network; TypeError for others."""
    return sample_weight, groups


def _transforms_target(estimator: Any) -> bool:
    """Return whether it is scikit-learn's TransformedTargetRegressor.

    An instance implies that its module was imported. An import here would take half as long as
    that of this package.
    """
    module = sys.modules.get("sklearn.compose")
    return module is not None and isinstance(estimator, module.TransformedTargetRegressor)


def _replace_last_step(pipeline: Pipeline, last: Any) -> Pipeline:
    other = copy(pipeline)
    other.steps = [*pipeline.steps[:-1], (pipeline.steps[-1][0], last)]
    return other


class _FixedPredictions:
    """A fitted regressor that returns given predictions."""

    def __init__(self, predictions: Any) -> None:
        self._predictions = predictions

    def predict(self, X: Any) -> Any:
        return self._predictions


class _InputRecorder(BaseEstimator):
    """A last step of a pipeline that records the input of the network, and predicts it."""

    def __init__(self, network: Any) -> None:
        self.network = network

    def get_metadata_routing(self) -> Any:
        return self.network.get_metadata_routing()

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        self.input_: Any = (X, y, sample_weight, groups)
        return self

    def pop_input(self) -> tuple[Any, Any, Any, Any]:
        """Return the recorded input, and release it."""
        recorded, self.input_ = self.input_, None
        return recorded

    def predict(self, X: Any) -> Any:
        return X
