"""Tanh units with random weights, as a part of an estimator."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.job import Job
from ..data.memory_plan import check_fits
from ..data.samples import Samples
from ..images import check_image
from ..layers import TanhLayer, hidden_dtype, quantize_layer
from ..parts.base import UNSET
from ..parts.composition import parts_of
from ..parts.units import Sharing, Units
from ..readouts.penalty_search import SearchHistory
from ..utils.parameters import (
    check_bool,
    check_choice,
    check_positive_integer,
    check_positive_or_auto,
    check_precision,
    check_random_state,
    is_option,
    make_generator,
)
from .centers import RBFParameters
from .class_directions import LabelledSamples, sample_differences, signed_class_sums
from .feature_weights import equalising_weights
from .linear_units import linear_units, select_layer, suits_linear_units
from .model_selection import select_feature_weights
from .parameters import (
    check_n_features,
    given_weights,
    is_learned,
    may_learn_weights,
    pretrained_of,
    weight_attributes,
    weights_method,
)
from .random_weights import (
    ReceptiveFields,
    draw_gaussian,
    draw_orthogonal,
    orthogonal_bytes,
    read_fields,
)
from .scale import ScaleSample, bias_range

# Random numbers alone, and combinations of training samples, which depend on their classes.
RANDOM_WEIGHTS = {"gaussian": draw_gaussian, "orthogonal": draw_orthogonal}
SAMPLED_WEIGHTS = {"class_informed": signed_class_sums, "constrained": sample_differences}
WEIGHTS = (*RANDOM_WEIGHTS, *SAMPLED_WEIGHTS)

# feature_weights="auto" learns weights for at most this many features. For images, with many
# features, it takes long and loses accuracy: MNIST as floating-point data loses 0.1 points with
# 1000 units and 0.2 with 4096. And it needs at least this many samples.
MAX_LEARNED_FEATURES, MIN_LEARNING_SAMPLES = 500, 50

# Sums of squares of weights above this magnitude may overflow float32.
_LARGE = 2.0**40
_TOO_LARGE = (
    "Feature {} of X has values so large that the weights of the units overflow {}. Scale the "
    "features of X (StandardScaler), or pass float64."
)

_ESTIMATORS = "TanhClassifier, TanhProjector, TanhRegressor"


@dataclass(frozen=True, eq=False, kw_only=True)
class Tanh(Units):
    """Tanh units; the parameters are those of `TanhProjector`."""

    weights: str = "gaussian"
    scale: float | str = "auto"
    image_shape: Any = None
    patch_size: Any = None
    bias: bool = True
    feature_weights: Any = None
    random_state: Any = None
    has_readout: bool = False  # whether feature weights may be "auto"
    valid_weights: tuple[str, ...] = WEIGHTS  # valid values of `weights`
    has_all_samples: bool = False  # not the first batches of `partial_fit` alone
    start_alpha = 10.0
    takes_sparse = True
    of_units = ("components_", "hidden_intercept_")
    # Fitted attributes; all `Units` have further ones.
    components_: Any = UNSET
    hidden_intercept_: Any = UNSET
    feature_weights_: Any = UNSET
    feature_map_: Any = UNSET
    feature_importances_: Any = UNSET

    def check(self) -> None:
        check_choice("weights", self.weights, self.valid_weights)
        check_precision(self.precision, self.has_readout)
        check_positive_integer(self.size_name, self.n_units)
        check_positive_or_auto("scale", self.scale)
        check_bool("bias", self.bias)
        read_fields(self.image_shape, self.patch_size)
        if self._has_map and self.image_shape is not None:
            raise ValueError(
                f"feature_weights={self.feature_weights!r} cannot be combined with "
                f"image_shape={self.image_shape!r}: linear combinations of all pixels have no "
                'position in an image. Use None or "learned", or image_shape=None.'
            )
        is_auto = self.has_readout and is_option(self.feature_weights, "auto")
        if self.needs_classes and not (self.feature_weights is None or is_auto):
            raise ValueError(
                f"feature_weights={self.feature_weights!r} cannot be combined with "
                f"weights={self.weights!r}, which are computed from samples; use None, or "
                '"gaussian".'
            )
        if self.given_layer is not None and self.pretrained is None:
            raise TypeError(
                "layer is an array of centres, which tanh units do not have; pass a fitted "
                "estimator."
            )

    @property
    def has_auto_scale(self) -> bool:
        """Whether the scale is estimated from the samples."""
        return isinstance(self.scale, str)

    @property
    def needs_classes(self) -> bool:
        """Whether the weights are combinations of samples, which depend on their classes."""
        return isinstance(self.weights, str) and self.weights in SAMPLED_WEIGHTS

    @property
    def weights_depend_on_samples(self) -> bool:
        """Whether the weights depend on the training samples, apart from feature weights."""
        return self.needs_classes or self.has_auto_scale

    @property
    def needs_multiple_passes(self) -> bool:
        return self.labels_required_by() is not None

    def labels_required_by(self) -> tuple[str, str] | None:
        if self.needs_classes:
            return f"weights={self.weights!r}", '"gaussian" or "orthogonal"'
        value = self.feature_weights
        return (f'feature_weights="{value}"', "None") if is_learned(value) else None

    @property
    def pretrained(self) -> Any:
        return pretrained_of(self.given_layer, Tanh, _ESTIMATORS)

    def draw_fields(self, n_features: int, seed: int) -> ReceptiveFields | None:
        """Return the receptive fields of the units; None if they have all features."""
        image_shape, patch_size = read_fields(self.image_shape, self.patch_size)
        if image_shape is None:
            return None
        check_image(image_shape, n_features)
        return ReceptiveFields.draw(self.n_units, image_shape, patch_size, seed)

    def draw_biases(self, seed: int) -> npt.NDArray:
        """Return biases between -1 and 1, (n_units,), float64; zeros without biases."""
        if not self.bias:
            return np.zeros(self.n_units)
        return np.random.default_rng(seed).uniform(-1, 1, self.n_units)

    def of_all_samples(self) -> "Tanh":
        return replace(self, has_all_samples=True)

    def fit(self, job: Job, samples: Samples, history: SearchHistory) -> "Tanh":
        pretrained = self.pretrained
        if pretrained is not None:
            check_n_features(pretrained.components_, samples.X)
            return self.with_layer_of(parts_of(pretrained).units)
        if self.needs_classes and samples.targets.class_codes is None:
            raise ValueError(
                f"weights={self.weights!r} needs one class per sample, and y has several "
                'outputs; use "gaussian" or "orthogonal", or an estimator for each output.'
            )
        weights, importances = self._select_weights(job, samples)
        layer = fit_tanh_layer(self, job, samples, weights)
        if self._tries_linear_units(job, samples):
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            linear = self._linear_layers(job, samples, weights, seed)
            if linear:
                layer = select_layer(job, samples, linear, layer, self.start_alpha, seed)
        return self.with_fitted(
            components_=layer.units, hidden_intercept_=layer.bias, precision_=self.bits,
            **weight_attributes(job, samples, weights, importances),
        )  # fmt: skip

    def _select_weights(self, job, samples):
        """Return feature weights, a linear map or None, and importances if it was learned."""
        n_features = samples.X.shape[1]
        # "auto" leaves images unweighted, and weights that are combinations of samples.
        allows_auto = (
            self.image_shape is None
            and not self.needs_classes
            and n_features <= MAX_LEARNED_FEATURES
            and len(samples.rows_with_weight) >= MIN_LEARNING_SAMPLES
        )
        method = weights_method(self.feature_weights, allows_auto, samples.X)
        if method is None:
            return self._given_weights(n_features), None
        random, is_auto = make_generator(self.random_state), is_option(self.feature_weights, "auto")
        return select_feature_weights(job, samples, random, self.shared, method, is_auto)

    def _tries_linear_units(self, job, samples):
        """Return whether units that are not set otherwise are compared with linear ones."""
        is_free = self.weights == "gaussian" and self.has_auto_scale and self.bias
        may_be_linear = self.has_all_samples and self.has_readout and is_free
        may_be_linear = may_be_linear and self.image_shape is None and not self._has_map
        return may_be_linear and suits_linear_units(job, samples, self.n_units)

    def _linear_layers(self, job, samples, weights, seed):
        """Return linear layers: of the weighted features, and of equal ones if it has a choice."""
        present = samples.taken(samples.rows_with_weight)
        X = job.engine.to_host(present.X)
        choices = [weights]
        if weights is not None and isinstance(self.feature_weights, str):
            choices.append(equalising_weights(present, job.engine))
        layers = [linear_units(X, self.n_units, each, seed) for each in choices]
        return [layer for layer in layers if layer is not None]

    @property
    def _has_map(self):
        """Return whether a linear map of the features is given or learned."""
        return is_option(self.feature_weights, "map") or np.ndim(self._given_weights()) == 2

    def _given_weights(self, n_features=None):
        return given_weights(self.feature_weights, self.has_readout, n_features)

    @cached_property
    def layer(self) -> TanhLayer:
        return quantize_layer(TanhLayer(self.components_, self.hidden_intercept_), self.precision_)

    @property
    def shared_metric(self) -> str | None:
        # The metric is that of the proxy networks in `select_feature_weights`.
        return RBFParameters.metric if may_learn_weights(self.feature_weights) else None

    @property
    def sharing(self) -> Sharing:
        depends_on_samples = self.weights_depend_on_samples or isinstance(self.feature_weights, str)
        return Sharing(frozenset({"n_hidden", "alpha"}), depends_on_samples=depends_on_samples)

    def with_tags(self, tags: Any) -> Any:
        tags = super().with_tags(tags)
        if self.needs_classes:
            tags.target_tags.required, tags.target_tags.multi_output = True, False
            if tags.classifier_tags is not None:
                tags.classifier_tags.multi_label = False
        return tags


def fit_tanh_layer(
    units: Tanh, job: Job, samples: Samples, feature_weights: npt.NDArray | None
) -> TanhLayer:
    """Draw the weights and biases of a tanh layer.

    1. Draw the directions of the weights, from random numbers or as combinations of samples.
    2. Set those outside the receptive field of a unit to 0.
    3. Scale them, and draw the biases: see `_scale_units`.
    4. Multiply them by the feature weights, instead of the samples: ``(x A) w = x (A w)``.

    With the same seed, the units of a smaller layer are the first ones of a larger layer.

    Parameters
    ----------
    units : Tanh
    job : Job
        Its memory limit applies to what is computed on the device of X, without the result.
    samples : Samples
        With targets of one output if weights are combinations of samples.
    feature_weights : ndarray of shape (n_features,) or (n_features, n_inputs), or None
        Feature weights, or a linear map.
    """
    X, dtype = samples.X, hidden_dtype(samples.X.dtype)
    algebra = job.algebra_of(X)
    n_inputs = X.shape[1]
    if feature_weights is not None and feature_weights.ndim == 2:
        n_inputs = feature_weights.shape[1]
    _check_memory(units, job, max(n_inputs, X.shape[1]), dtype)
    random_state = check_random_state(units.random_state)
    # One stream for each purpose, so that none depends on how many numbers another one draws.
    weight_seed, bias_seed, field_seed = random_state.randint(np.iinfo(np.int32).max, size=3)
    fields = units.draw_fields(X.shape[1], field_seed)
    sample: Any = None
    # The subset of samples estimates the scale, and centres combinations of samples.
    if units.weights_depend_on_samples:
        sample = ScaleSample.draw(
            algebra, X, samples.rows_with_weight, samples.weight, random_state, feature_weights
        )
        sample.check(dtype)
    if units.needs_classes:
        codes = samples.targets.class_codes
        data = LabelledSamples(job, X, samples.rows_with_weight, codes, sample.mean, dtype)
        W = _combine_samples(units, data, sample.spread, weight_seed)
    else:
        W = RANDOM_WEIGHTS[units.weights](units.n_units, n_inputs, weight_seed, dtype)
        W = algebra.to_device(W)
    if fields is not None:
        fields.mask(W, algebra.xp)
    b = _scale_units(units, W, units.draw_biases(bias_seed), sample, fields, algebra)
    W = _multiply_by_feature_weights(W, feature_weights, algebra)

    # Biases include the input from the mean sample, which may overflow; NaN fails the test, too.
    if not np.abs(b).max() < np.finfo(dtype).max:
        raise ValueError(_TOO_LARGE.format(np.abs(sample.mean).argmax(), dtype))
    host_weights = algebra.to_host(W)
    if host_weights is not W and job.max_memory is None:  # for the evaluation of the layer
        job.engine.cache_upload(host_weights, W)
    return TanhLayer(host_weights, b).astype(dtype)


def _combine_samples(units, data, spread, seed):
    """Return weights that are combinations of samples, of lengths near 1 whatever the unit of X."""
    W = SAMPLED_WEIGHTS[units.weights](data, units.n_units, seed)
    with np.errstate(over="ignore", invalid="ignore"):  # _limit_magnitude refuses overflow
        W /= data.dtype.type(spread)
    _limit_magnitude(W, data.algebra)
    return W


def _multiply_by_feature_weights(W, feature_weights, algebra):
    """Return W multiplied by feature weights (in place) or by a linear map."""
    if feature_weights is None:
        return W
    if feature_weights.ndim == 2:
        return algebra.multiply_transposed(W.T, algebra.xp.asarray(feature_weights.T, W.dtype))
    W *= algebra.xp.asarray(feature_weights, W.dtype)
    return W


def _scale_units(units, W, b, sample, fields, algebra):
    """Scale the weights W in place, and return the biases for them.

    ``scale="auto"`` gives ``x . w`` the standard deviation that `ScaleSample.deviation` estimates.
    The biases b in [-1, 1] are stretched to the range of ``x . w``, and the mean of ``x . w`` is
    subtracted, so that the inflection points of the units cover the samples.

    A number for `scale` is the length of the weight vectors: the actual length if they are
    combinations of samples, the expected length if they are normally distributed.
    """
    if units.has_auto_scale:
        deviation = sample.deviation(fields)
        b *= bias_range(deviation)
        b -= sample.scale_weights(W, deviation)
        return b
    xp = algebra.xp
    lengths = _lengths(W, xp) if units.needs_classes else _expected_lengths(W, fields)
    W *= xp.asarray(units.scale / lengths)[:, None].astype(W.dtype)
    return b


def _check_memory(units, job, n_features, dtype):
    """Raise before any weight is drawn if the layer does not fit in memory."""
    n_units = units.n_units
    # An array of the shape of the weights that takes the memory of a single number.
    weights = np.broadcast_to(np.zeros((), dtype), (n_units, n_features))
    needed = job.engine.prepared_bytes(TanhLayer(weights, np.zeros(n_units, dtype)))
    if units.weights == "orthogonal":
        needed = max(needed, orthogonal_bytes(n_units, n_features))
    what = f"a layer of {n_units} units and {n_features} features"
    check_fits(what, needed, job.memory_limit)


def _limit_magnitude(W, algebra):
    """Divide units whose squares might overflow by their maximum, in place; refuse overflow."""
    xp = algebra.xp
    peaks = xp.maximum(W.max(axis=1), -W.min(axis=1))
    if not algebra.is_finite(peaks):
        raise ValueError(_TOO_LARGE.format(algebra.to_host(abs(W).max(axis=0)).argmax(), W.dtype))
    if float(peaks.max()) > _LARGE:
        W /= xp.where(peaks > _LARGE, peaks, 1)[:, None]


def _lengths(W, xp):
    """Return the lengths of the weight vectors; 1 for those that are 0."""
    lengths = xp.linalg.norm(W, axis=1)
    lengths[lengths == 0] = 1
    return lengths


def _expected_lengths(W, fields):
    """Return the expected lengths of standard normal weight vectors."""
    return np.sqrt(np.full(len(W), W.shape[1]) if fields is None else fields.n_inputs(len(W)))
