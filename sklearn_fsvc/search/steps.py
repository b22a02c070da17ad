"""The steps of a pipeline before its network: fitted by themselves."""

from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from .networks import with_last_step


def arrive(estimator, X, y, params):
    """Fit the steps before the network.

    Returns
    -------
    pipeline : Pipeline or None
        With its steps fitted; what it predicts of rows is the rows that reach the network.
    network : classifier or regressor, not fitted
    X, y, sample_weight
        What reaches it.
    """
    if not isinstance(estimator, Pipeline):
        return None, clone(estimator), X, y, sample_weight_of(**params)
    network = estimator.steps[-1][1]
    pipeline = clone(with_last_step(estimator, _Arrival(network))).fit(X, y, **params)
    X, y, sample_weight = pipeline[-1].hand_over()
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
