"""What classifier and transformer of tanh units share: parameters, and the choice."""

import numpy as np

from ..layers import TanhLayer
from ..parameters import is_word
from ..rows.streaming import suited
from ..units.automatic import FEWEST_ROWS, MOST_LEARNED
from ..units.choice import better_weights
from ..units.linear_map import learn as learn_map
from ..units.tanh import TanhRequest, fit_layer
from .given import check_features, lender_of
from .weighing import WeighsFeatures


class TanhUnits(WeighsFeatures):
    """A mixin: the layer is tanh units with random weights."""

    layer = None  # where it is no parameter
    _unit_attributes = ("components_", "hidden_intercept_")
    _first_alpha = 10.0
    _may_be_map = True
    _rows_may_be_outside = False

    @property
    def _request(self):
        return TanhRequest(
            self._size, self.weights, self.scale, self.image_shape, self.patch_size, self.bias,
            self.random_state,
        )  # fmt: skip

    @property
    def _is_tried(self):
        """Images, and weights that are made of rows, have their features as they are."""
        return self.image_shape is None and not self._request.needs_classes

    def _check_layer(self):
        self._request.check(self._size_name)
        given = self._given_weights()
        is_map = np.ndim(given) == 2 or is_word(self.feature_weights, "map")
        if is_map and self.image_shape is not None:
            raise ValueError(
                f"feature_weights={self.feature_weights!r} does not go with "
                f"image_shape={self.image_shape!r}: combinations of all pixels have no place in "
                'an image. Use None or "learned", or image_shape=None.'
            )
        is_auto = self._may_be_auto and is_word(self.feature_weights, "auto")
        if self._request.needs_classes and not (self.feature_weights is None or is_auto):
            raise ValueError(
                f"feature_weights={self.feature_weights!r} does not go with "
                f'weights={self.weights!r}, which are made of rows; use None, or "gaussian".'
            )
        if self.layer is not None and self._lender is None:
            raise TypeError(
                "layer is an array, which tanh units are not made of; give a fitted estimator."
            )

    @property
    def _layer_needs_rows(self):
        return self._request.needs_rows or isinstance(self.feature_weights, str)

    @property
    def _meets_rows_again(self):
        return self._why_classes() is not None

    def _why_classes(self):
        if self._request.needs_classes:
            return f"weights={self.weights!r}", '"gaussian" or "orthogonal"'
        way = self.feature_weights
        is_learned = is_word(way, "learned") or is_word(way, "map")
        return (f'feature_weights="{way}"', "None") if is_learned else None

    @property
    def _lender(self):
        """The estimator that lends its layer, if one does."""
        return None if self.layer is None else lender_of(self.layer, TanhUnits)

    def _choose_layer(self, job, samples, trials):
        lender = self._lender
        if lender is not None:
            self.components_, self.hidden_intercept_ = lender.components_, lender.hidden_intercept_
            self.feature_weights_ = lender.feature_weights_
            self.feature_map_ = getattr(lender, "feature_map_", None)
            check_features(self.components_, samples.X)
            return suited(self._layer(), samples.X)
        needs_classes = self._request.needs_classes
        codes = samples.targets.groups if needs_classes else None
        if needs_classes and codes is None:
            raise ValueError(
                f"weights={self.weights!r} needs one class for each row, and y has several "
                'outputs; use "gaussian" or "orthogonal", or an estimator for each output.'
            )
        weights = self._weights_for(job, samples)
        is_map = np.ndim(weights) == 2
        self.feature_weights_, self.feature_map_ = (None, weights) if is_map else (weights, None)
        layer = fit_layer(self._request, job, samples, codes, weights)
        self.components_, self.hidden_intercept_ = layer.units, layer.bias
        return layer

    def _weights_for(self, job, samples):
        """The feature weights, a linear map of the features, or None."""
        if is_word(self.feature_weights, "map"):
            return learn_map(job, samples, self._random())
        n_features, learns = samples.X.shape[1], is_word(self.feature_weights, "learned")
        if not learns and self._learns(samples.X.dtype) and n_features <= MOST_LEARNED:
            learns = len(samples.present) >= FEWEST_ROWS
        if learns:
            return better_weights(job, samples, self._random())
        return self._given_weights(n_features)

    def _layer(self):
        return TanhLayer(self.components_, self.hidden_intercept_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if self._request.needs_classes:
            tags.target_tags.required, tags.target_tags.multi_output = True, False
            if tags.classifier_tags is not None:
                tags.classifier_tags.multi_label = False
        return tags
