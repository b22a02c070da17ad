"""A tanh layer from chance and from data: directions, receptive fields, scale, bias."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..images import check_image
from ..layers import TanhLayer, hidden_dtype
from ..parameters import check_choice, check_count, check_flag, check_positive_or_auto
from ..rows.tiling import check_fits
from ..rows.validation import to_host
from .weights.random_weights import gaussian, orthogonal, orthogonal_bytes
from .weights.receptive_fields import Fields, read_fields
from .weights.rows import LabelledRows, differences, signed_sums
from .weights.scale import ScaleSample, reach

FROM_CHANCE = {"gaussian": gaussian, "orthogonal": orthogonal}
FROM_ROWS = {"class_informed": signed_sums, "constrained": differences}
WEIGHTS = (*FROM_CHANCE, *FROM_ROWS)
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
        return isinstance(self.weights, str) and self.weights in FROM_ROWS

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
        W = FROM_ROWS[request.weights](data, request.n_units, directions)
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused below
            W /= dtype.type(sample.spread)  # so that lengths are near 1, whatever the unit of X
        _bring_near_one(W, algebra)
    else:
        W = FROM_CHANCE[request.weights](request.n_units, n_inputs, directions, dtype)
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
