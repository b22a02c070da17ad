"""What stands around a network: the steps of pipelines, and a transformed target.

Both may be inside one another, and end in the network. They are fitted by themselves.
"""

import sys
from copy import copy

from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline


def _transforms_target(estimator):
    """Whether it is scikit-learn's TransformedTargetRegressor.

    Who has made one has imported it. To do so here would take half as long as this package.
    """
    module = sys.modules.get("sklearn.compose")
    return module is not None and isinstance(estimator, module.TransformedTargetRegressor)


def last_step(estimator):
    """The estimator itself, or the one that it ends in: the fitted one, where it is fitted."""
    if isinstance(estimator, Pipeline):
        return last_step(estimator.steps[-1][1])
    if _transforms_target(estimator):
        return last_step(getattr(estimator, "regressor_", estimator.regressor))
    return estimator


def prefix_of(estimator):
    """What names of the parameters of the network begin with."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{prefix_of(last)}"
    return f"regressor__{prefix_of(estimator.regressor)}" if _transforms_target(estimator) else ""


def with_last_step(estimator, last):
    """The estimator with another network."""
    if isinstance(estimator, Pipeline):
        return _ending_in(estimator, with_last_step(estimator.steps[-1][1], last))
    if not _transforms_target(estimator):
        return last
    other = copy(estimator)
    other.regressor = with_last_step(estimator.regressor, last)
    if "regressor_" in vars(estimator):
        other.regressor_ = with_last_step(estimator.regressor_, last)
    return other


def without_targets(estimator):
    """A fitted estimator that answers as its network does, in the unit of transformed targets."""
    if isinstance(estimator, Pipeline):
        return _ending_in(estimator, without_targets(estimator.steps[-1][1]))
    return without_targets(estimator.regressor_) if _transforms_target(estimator) else estimator


def _ending_in(pipeline, last):
    """The pipeline with another last step, be that a network or something around it."""
    other = copy(pipeline)
    other.steps = [*pipeline.steps[:-1], (pipeline.steps[-1][0], last)]
    return other


def untransform_predictions(estimator, answers):
    """What a fitted estimator answers where its network has these answers."""
    if isinstance(estimator, Pipeline):
        return untransform_predictions(estimator.steps[-1][1], answers)
    if not _transforms_target(estimator):
        return answers
    other = copy(estimator)
    other.regressor_ = _Known(untransform_predictions(estimator.regressor_, answers))
    return other.predict(None)


class _Known:
    """In the place of a fitted regressor whose answers are known."""

    def __init__(self, answers):
        self._answers = answers

    def predict(self, X):
        return self._answers


def fit_wrappers(estimator, X, y, params):
    """Fit what stands around the network.

    Returns
    -------
    pipeline : Pipeline, TransformedTargetRegressor or None
        Fitted; what it predicts of rows, `without_targets`, is the rows that reach the network.
    network : classifier or regressor, not fitted
    X, y, sample_weight
        What reaches it.
    """
    network = last_step(estimator)
    if network is estimator:
        return None, clone(estimator), X, y, sample_weight_of(**params)
    pipeline = clone(with_last_step(estimator, _Arrival(network))).fit(X, y, **params)
    X, y, sample_weight = last_step(pipeline).hand_over()
    return pipeline, clone(network), X, y, sample_weight


def sample_weight_of(sample_weight=None):
    """The fit parameters of a network, and no others."""
    return sample_weight


class _Arrival(BaseEstimator):
    """In the place of a network at the end of its pipeline: keeps what arrives there."""

    def __init__(self, network):
        self.network = network

    def get_metadata_routing(self):
        return self.network.get_metadata_routing()

    def fit(self, X, y, sample_weight=None):
        self.arrived_ = X, y, sample_weight
        return self

    def hand_over(self):
        """What arrived, which is not kept any longer."""
        arrived, self.arrived_ = self.arrived_, None
        return arrived

    def predict(self, X):
        """The rows themselves."""
        return X
