"""A tanh layer from chance and from data: directions, receptive fields, scale, bias."""

import numpy as np
from sklearn.utils import check_random_state

from ...layers import TanhLayer, hidden_dtype
from ...parameters import check_choice, check_positive_or_auto
from ...rows.validation import to_host
from .chance import gaussian, orthogonal
from .fields import Fields, check_image, read_fields
from .rows import differences, signed_sums
from .scale import Sample

FROM_CHANCE = {"gaussian": gaussian, "orthogonal": orthogonal}
FROM_ROWS = {"class_informed": signed_sums, "constrained": differences}
WEIGHTS = (*FROM_CHANCE, *FROM_ROWS)


def check_parameters(estimator):
    """Raise for a parameter of a tanh layer that cannot be used."""
    check_choice("weights", estimator.weights, WEIGHTS)
    check_positive_or_auto("scale", estimator.scale)
    read_fields(estimator.image_shape, estimator.patch_size)


def needs_classes(estimator):
    """Whether the weights are made of rows and their classes."""
    return estimator.weights in FROM_ROWS


def needs_rows(estimator):
    """Whether the layer depends on the training rows."""
    return needs_classes(estimator) or isinstance(estimator.scale, str)


def fit_layer(estimator, engine, X, codes, weight, n_units, max_memory):
    """The tanh layer of an estimator with the parameters that `check_parameters` names.

    Unit by unit: with the same seed, fewer units are a prefix of more.

    Parameters
    ----------
    X : array of the host or of ``engine.xp``, of shape (n_rows, n_features)
    codes : ndarray of int of shape (n_rows,)
        Classes; read only where the weights need them.
    weight : ndarray of shape (n_rows,) or None
        Weights of the rows. Those of weight 0 are as good as absent.
    max_memory : int, str or None
        Bytes that may be taken where X lies, beside the layer.

    Returns
    -------
    layer : TanhLayer
    """
    random_state = check_random_state(estimator.random_state)
    # A stream each, so that none depends on how many numbers another one has drawn.
    directions, biases, places = random_state.randint(np.iinfo(np.int32).max, size=3)
    image_shape, patch_size = read_fields(estimator.image_shape, estimator.patch_size)
    dtype = hidden_dtype(X.dtype)
    xp = np if isinstance(X, np.ndarray) else engine.xp
    fields = sample = None
    if image_shape is not None:
        check_image(image_shape, X.shape[1])
        fields = Fields.draw(n_units, image_shape, patch_size, places)
    if needs_rows(estimator):
        rows = np.arange(len(X)) if weight is None else np.flatnonzero(weight)
        sample = Sample.draw(xp, X, rows, weight, random_state)
    if needs_classes(estimator):
        draw = FROM_ROWS[estimator.weights]
        W = draw(engine, xp, X, rows, codes, sample.mean, n_units, directions, dtype, max_memory)
        W /= dtype.type(sample.spread)  # so that lengths are near 1, whatever the unit of X
    else:
        W = FROM_CHANCE[estimator.weights](n_units, X.shape[1], directions)
        W = xp.asarray(W.astype(dtype, copy=False))
    if fields is not None:
        fields.keep(W, xp)
    b = np.zeros(n_units)
    if estimator.bias:
        b = np.random.default_rng(biases).uniform(-1, 1, n_units)
    if isinstance(estimator.scale, str):
        b -= sample.scale(W, fields)
    else:
        lengths = _lengths(W, estimator, fields, xp)
        W *= xp.asarray(estimator.scale / lengths)[:, None].astype(dtype)
    return TanhLayer(to_host(W), b).astype(dtype)


def _lengths(W, estimator, fields, xp):
    """Of the weights of each unit; where they are normal, their length on average."""
    if needs_classes(estimator):
        lengths = xp.linalg.norm(W, axis=1)
        lengths[lengths == 0] = 1
        return lengths
    return np.sqrt(np.full(len(W), W.shape[1]) if fields is None else fields.n_inputs(len(W)))
