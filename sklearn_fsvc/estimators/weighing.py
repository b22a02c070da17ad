"""Weights of the features: given, learned, or none."""

from ..parameters import feature_weights, is_word


class WeighsFeatures:
    """A mixin: an estimator with the parameter `feature_weights`.

    Attributes
    ----------
    _may_be_auto : bool
        Whether they, and a kernel, may be "auto".
    _may_be_map : bool
        Whether they may be a linear map, or "map" for one that is learned.
    _is_tried : bool
        Whether what is "auto" is found by held-out error.
    """

    _may_be_auto = _may_be_map = False

    def _learns(self, dtype):
        """Whether feature weights are learned from rows of a dtype."""
        is_auto = is_word(self.feature_weights, "auto") and self._is_tried and dtype.kind == "f"
        return is_auto or is_word(self.feature_weights, "learned")

    def _given_weights(self, n_features=None):
        """Those that are given as numbers, else None."""
        ways = ("learned",) + ("map",) * self._may_be_map + ("auto",) * self._may_be_auto
        return feature_weights(self.feature_weights, ways, n_features, self._may_be_map)
