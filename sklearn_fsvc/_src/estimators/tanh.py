"""Tanh units with random weights: their parameters, and their choice."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..layers import TanhLayer, rounded
from ..parameters import check_choice, check_precision, is_word
from ..units.automatic import FEWEST_ROWS, MOST_LEARNED
from ..units.choice import better_weights
from ..units.linear_map import learn as learn_map
from ..units.tanh import WEIGHTS, TanhRequest, fit_layer
from .layer_parameter import apart, check_features, given_weights, learns_weights, pretrained_of
from .parts import Sharing, Units, generator

_PRETRAINED = "TanhClassifier, TanhProjector, TanhRegressor"


@dataclass(frozen=True, eq=False, kw_only=True)
class Tanh(TanhRequest, Units):
    """Tanh units."""

    feature_weights: Any
    has_readout: bool = False  # whether feature weights may be "auto"
    ways: tuple[str, ...] = WEIGHTS  # what `weights` may be
    first_alpha = 10.0
    takes_sparse = True
    of_units = ("components_", "hidden_intercept_")
    attributes = (*of_units, "feature_weights_", "feature_map_", "precision_")

    def check(self):
        check_choice("weights", self.weights, self.ways)
        check_precision(self.precision, self.has_readout)
        super().check()
        given = self._given_weights()
        is_map = np.ndim(given) == 2 or is_word(self.feature_weights, "map")
        if is_map and self.image_shape is not None:
            raise ValueError(
                f"feature_weights={self.feature_weights!r} does not go with "
                f"image_shape={self.image_shape!r}: combinations of all pixels have no place in "
                'an image. Use None or "learned", or image_shape=None.'
            )
        is_auto = self.has_readout and is_word(self.feature_weights, "auto")
        if self.needs_classes and not (self.feature_weights is None or is_auto):
            raise ValueError(
                f"feature_weights={self.feature_weights!r} does not go with "
                f'weights={self.weights!r}, which are made of rows; use None, or "gaussian".'
            )
        if self.given is not None and self.pretrained is None:
            raise TypeError(
                "layer is an array, which tanh units are not made of; give a fitted estimator."
            )

    @property
    def needs_multiple_passes(self):
        return self.labels_required_by() is not None

    def labels_required_by(self):
        if self.needs_classes:
            return f"weights={self.weights!r}", '"gaussian" or "orthogonal"'
        way = self.feature_weights
        is_learned = is_word(way, "learned") or is_word(way, "map")
        return (f'feature_weights="{way}"', "None") if is_learned else None

    @property
    def pretrained(self):
        return None if self.given is None else pretrained_of(self.given, Tanh, _PRETRAINED)

    def fit(self, job, samples, history):
        pretrained = self.pretrained
        if pretrained is not None:
            check_features(pretrained.components_, samples.X)
            return self.with_fitted(
                **{name: vars(pretrained).get(name) for name in self.attributes}
            )
        needs_classes = self.needs_classes
        codes = samples.targets.groups if needs_classes else None
        if needs_classes and codes is None:
            raise ValueError(
                f"weights={self.weights!r} needs one class for each row, and y has several "
                'outputs; use "gaussian" or "orthogonal", or an estimator for each output.'
            )
        weights = self._weights_for(job, samples)
        layer = fit_layer(self, job, samples, codes, weights)
        return self.with_fitted(
            components_=layer.units, hidden_intercept_=layer.bias, **apart(weights),
            precision_=self.bits,
        )  # fmt: skip

    def _weights_for(self, job, samples):
        """The feature weights, a linear map of the features, or None."""
        if is_word(self.feature_weights, "map"):
            return learn_map(job, samples, generator(self.random_state))
        n_features, learns = samples.X.shape[1], is_word(self.feature_weights, "learned")
        # Images, and weights that are made of rows, have their features as they are.
        is_searched = self.image_shape is None and not self.needs_classes
        may_learn = learns_weights(self.feature_weights, is_searched, samples.X.dtype)
        if not learns and may_learn and n_features <= MOST_LEARNED:
            learns = len(samples.present) >= FEWEST_ROWS
        if learns:
            return better_weights(job, samples, generator(self.random_state), self.shared)
        return self._given_weights(n_features)

    def _given_weights(self, n_features=None):
        return given_weights(self.feature_weights, self.has_readout, n_features)

    @cached_property
    def layer(self):
        found = self.found
        layer = TanhLayer(found["components_"], found["hidden_intercept_"])
        return rounded(layer, found.get("precision_"))

    @property
    def sharing(self):
        needs_rows = self.needs_rows or isinstance(self.feature_weights, str)
        return Sharing(frozenset({"n_hidden", "alpha"}), needs_rows=needs_rows)

    def tagged(self, tags):
        tags = super().tagged(tags)
        if self.needs_classes:
            tags.target_tags.required, tags.target_tags.multi_output = True, False
            if tags.classifier_tags is not None:
                tags.classifier_tags.multi_label = False
        return tags
