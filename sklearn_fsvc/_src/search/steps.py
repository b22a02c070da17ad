"""The steps of a pipeline before its network, and a transformed target: fitted by themselves."""

from sklearn.base import BaseEstimator, clone

from .around import last_step, with_last_step


def arrive(estimator, X, y, params):
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
