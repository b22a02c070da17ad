"""A tanh layer from chance and from data: directions, receptive fields, scale, bias."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..data.tiling import check_fits
from ..data.validation import to_host
from ..images import check_image
from ..layers import TanhLayer, hidden_dtype, rounded
from ..parts import Sharing, Units, generator
from ..utils.parameters import (
    check_choice,
    check_count,
    check_flag,
    check_positive_or_auto,
    check_precision,
    is_word,
)
from .choice import better_weights
from .defaults import FEWEST_ROWS, MOST_LEARNED
from .layer_parameter import apart, check_features, given_weights, learns_weights, pretrained_of
from .linear_map import learn as learn_map
from .random_weights import (
    Fields,
    LabelledRows,
    differences,
    gaussian,
    orthogonal,
    orthogonal_bytes,
    read_fields,
    signed_sums,
)
from .scale import ScaleSample, reach

RANDOM_WEIGHTS = {"gaussian": gaussian, "orthogonal": orthogonal}
DATA_DEPENDENT_WEIGHTS = {"class_informed": signed_sums, "constrained": differences}
WEIGHTS = (*RANDOM_WEIGHTS, *DATA_DEPENDENT_WEIGHTS)
# Weights that are made of rows, and that are squared as they are.
_NEAR_ONE = 2.0**40
_TOO_LARGE = (
    "Feature {} of X holds numbers so large that the weights of the units are no numbers of {}. "
    "Scale the features of X (StandardScaler), or give float64."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class TanhRequest:
    """What the user asked of a tanh layer: parameters of `TanhProjector`."""

    size_name: str  # name of the parameter that `n_units` is
    n_units: int
    weights: str
    scale: float | str
    image_shape: Any
    patch_size: Any
    bias: bool
    random_state: Any

    def check(self):
        """Raise for what cannot be used."""
        check_count(self.size_name, self.n_units)
        check_choice("weights", self.weights, WEIGHTS)
        check_positive_or_auto("scale", self.scale)
        check_flag("bias", self.bias)
        read_fields(self.image_shape, self.patch_size)

    @property
    def has_auto_scale(self):
        """Whether the scale is read off the data."""
        return isinstance(self.scale, str)

    @property
    def needs_classes(self):
        """Whether the weights are made of rows and their classes."""
        return isinstance(self.weights, str) and self.weights in DATA_DEPENDENT_WEIGHTS

    @property
    def needs_rows(self):
        """Whether the layer depends on the training rows."""
        return self.needs_classes or self.has_auto_scale

    def fields(self, n_features, seed):
        """What each unit sees of an image, or None."""
        image_shape, patch_size = read_fields(self.image_shape, self.patch_size)
        if image_shape is None:
            return None
        check_image(image_shape, n_features)
        return Fields.draw(self.n_units, image_shape, patch_size, seed)

    def biases(self, seed):
        """Return the biases of all units, in float64."""
        if not self.bias:
            return np.zeros(self.n_units)
        return np.random.default_rng(seed).uniform(-1, 1, self.n_units)


def fit_layer(request, job, samples, codes=None, feature_weights=None) -> TanhLayer:
    """The tanh layer that was asked for.

    Unit by unit: with the same seed, fewer units are a prefix of more.

    Parameters
    ----------
    job : Job
        Its memory is for what is taken where the rows lie, beside the layer.
    codes : ndarray of int of shape (n_rows,), optional
        Classes; read only where the weights need them.
    feature_weights : ndarray of shape (n_features,) or (n_features, n_inputs), optional
        Weights, or a linear map. Units are those for rows that are multiplied by them, and are
        multiplied by them instead.
    """
    X, dtype = samples.X, hidden_dtype(samples.X.dtype)
    algebra = job.algebra_of(X)
    is_map = np.ndim(feature_weights) == 2
    n_inputs = feature_weights.shape[1] if is_map else X.shape[1]
    xp = algebra.xp
    _check_room(request, job, max(n_inputs, X.shape[1]), dtype)
    random_state = check_random_state(request.random_state)
    # A stream each, so that none depends on how many numbers another one has drawn.
    directions, biases, places = random_state.randint(np.iinfo(np.int32).max, size=3)
    fields, sample = request.fields(X.shape[1], places), None
    if request.needs_rows:
        sample = ScaleSample.draw(
            algebra, X, samples.present, samples.weight, random_state, feature_weights
        )
        sample.check(dtype)
    if request.needs_classes:
        data = LabelledRows(job, X, samples.present, codes, sample.mean, dtype)
        W = DATA_DEPENDENT_WEIGHTS[request.weights](data, request.n_units, directions)
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused below
            W /= dtype.type(sample.spread)  # so that lengths are near 1, whatever the unit of X
        _bring_near_one(W, algebra)
    else:
        W = RANDOM_WEIGHTS[request.weights](request.n_units, n_inputs, directions, dtype)
        W = algebra.here(W)
    if fields is not None:
        fields.mask(W, xp)
    b = request.biases(biases)
    if request.has_auto_scale:
        deviation = sample.deviation(fields)
        b *= reach(deviation)
        b -= sample.scale(W, deviation)
    else:
        lengths = _lengths(W, xp) if request.needs_classes else _expected_lengths(W, fields)
        W *= xp.asarray(request.scale / lengths)[:, None].astype(dtype)
    if is_map:
        W = algebra.cross(W.T, xp.asarray(feature_weights.T, dtype))
    elif feature_weights is not None:
        W *= xp.asarray(feature_weights, dtype)
    if not np.abs(b).max() < np.finfo(dtype).max:
        raise ValueError(_TOO_LARGE.format(np.abs(sample.mean).argmax(), dtype))
    units = algebra.to_host(W)
    if units is not W and job.max_memory is None:
        job.engine.keep(units, W)
    return TanhLayer(units, b).astype(dtype)


def _check_room(request, job, n_features, dtype):
    """Raise where there is no room for the layer, before a weight is drawn."""
    n_units = request.n_units
    # As large as the layer, and made of one number.
    units = np.broadcast_to(np.zeros((), dtype), (n_units, n_features))
    needed = job.engine.prepared_bytes(TanhLayer(units, np.zeros(n_units, dtype)))
    if request.weights == "orthogonal":
        needed = max(needed, orthogonal_bytes(n_units, n_features))
    what = f"a layer of {n_units} units and {n_features} features"
    check_fits(what, needed, job.memory_limit)


def _bring_near_one(W, algebra):
    """Divide what squares would overflow of, in place, and refuse what has overflown already."""
    xp = algebra.xp
    peaks = xp.maximum(W.max(axis=1), -W.min(axis=1))
    if not algebra.is_finite(peaks):
        raise ValueError(_TOO_LARGE.format(to_host(abs(W).max(axis=0)).argmax(), W.dtype))
    if float(peaks.max()) > _NEAR_ONE:
        W /= xp.where(peaks > _NEAR_ONE, peaks, 1)[:, None]


def _lengths(W, xp):
    """Return the length of the weights of each unit; 1 where there are none."""
    lengths = xp.linalg.norm(W, axis=1)
    lengths[lengths == 0] = 1
    return lengths


def _expected_lengths(W, fields):
    """Return the length that normal weights have on average."""
    return np.sqrt(np.full(len(W), W.shape[1]) if fields is None else fields.n_inputs(len(W)))


# Tanh units with random weights: their parameters, and their choice.

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
