"""Weights of the features, learned from targets: what the targets depend on counts for more.

A ridge network on few rows is asked how much its outputs change with each feature; the
features are weighted by that, and the next network is made of weighted rows. This is the
recursive feature machine of Radhakrishnan et al. (Science 383, 2024) with a diagonal
matrix, as in xRFM (Beaglehole et al., arXiv 2508.10053): the weights are the root of the
diagonal of the average gradient outer product.

It begins with features that spread alike, so that their units do not matter.
"""

import math

import numpy as np
from sklearn.utils import check_random_state

from ..data.streaming import Consumer, preprocess_block, stream, take_rows
from ..data.tiling import check_fits
from ..data.validation import to_host
from ..engines import gradients
from ..engines.threads import at_most
from ..layers import RBFLayer, hidden_dtype
from ..readouts.ridge import gather_coarse
from .novelty import OrderedRows
from .radius import typical_distance, typical_distance_bytes

# Networks that are asked one after the other, their rows, and the most centres.
_ROUNDS, _ROWS, _CENTERS = 3, 4000, 600
_ALPHA = 0.1
# Rows x units x features x outputs of which gradients are taken, about: fewer rows do for more.
_GRADIENTS, _LEAST_ROWS = 2**28, 500
# Numbers of the rows that are looked at in one go.
_NUMBERS = 2**20


def learn(job, samples, metric, kernel, random_state, rows=None):
    """The weights of the features under which an RBF network answers with the targets.

    Parameters
    ----------
    job : Job
    samples : Samples
        With targets. Rows of weight 0 are as good as absent.
    metric : {"manhattan", "euclidean", "sqeuclidean"}
    kernel : Kernel
    random_state : int, RandomState instance or None
        For the rows that are looked at.
    rows : ndarray of int, optional
        Those from which they are drawn; all by default.

    Returns
    -------
    even, weights : ndarray of shape (n_features,), float64
        Those that are begun with, of equal spread, and the learned ones: the same where no
        feature changes an output. The largest is 1, none is negative.
    """
    limit = job.memory_limit
    job, drawn = _draw(
        job.single_device(), samples, random_state, samples.present if rows is None else rows
    )
    needed = drawn.X.nbytes + typical_distance_bytes(drawn.X)
    check_fits("learning feature weights", needed, limit, "set feature_weights=None")
    even = weights = of_equal_spread(drawn, job.engine)
    for _ in range(_ROUNDS):
        found = next_weights(job, drawn, weights, metric, kernel)
        if found is None:
            break
        weights = found
    return even, weights


def next_weights(job, drawn, weights, metric, kernel):
    """What a network on rows with these weights says; None where no feature changes an output.

    The first rows are its centres, and gradients are taken of the last ones.
    """
    layer = _layer(job.engine, drawn, weights, metric, kernel)
    (statistics,) = gather_coarse(job, [layer], drawn)
    W = statistics.solve(_ALPHA).W
    del statistics
    # In units of the radius, whose square may be no number; a power of two changes no digit.
    W *= 2.0 ** math.frexp(layer.radius)[1]
    asked = np.arange(len(drawn))[-rows_to_ask(drawn) :]
    squares = weights**2 * mean_squared_gradients(job, layer, W, drawn, asked)
    return np.sqrt(squares / squares.max()) if squares.any() else None


def rows_to_ask(drawn):
    """Of how many rows gradients are taken, which take longer than all else."""
    each = _CENTERS * drawn.X.shape[1] * drawn.targets.n_outputs
    return min(len(drawn), max(_LEAST_ROWS, _GRADIENTS // each))


@at_most(1)
def of_equal_spread(samples, engine):
    """Weights under which all features have one standard deviation; 0 for constant ones.

    Parameters
    ----------
    samples : Samples
        Of arrays, on the host or on the device of the engine.
    engine : Engine

    Returns
    -------
    ndarray of shape (n_features,), float64
        The largest is 1. All are 1 where no feature varies.
    """
    X = samples.X
    xp, n = engine.algebra_of(X).xp, len(X)
    weight = np.ones(n) if samples.weight is None else samples.weight
    share, rounding = xp.asarray(weight / weight.sum()), 8 * np.finfo(hidden_dtype(X.dtype)).eps
    spread, step = np.zeros(X.shape[1]), max(1, _NUMBERS // n)
    for start in range(0, X.shape[1], step):
        block = X[:, start : start + step].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused below
            block -= block[0].copy()  # then what is constant is 0, and its mean has no rounding
            mean = share @ block
            block -= mean
            peak = xp.abs(block).max(axis=0)  # divided by it, squares of what is huge stay finite
            block /= xp.where(peak > 0, peak, 1)
        found = peak * xp.sqrt(share @ xp.square(block, out=block))
        found[found <= rounding * xp.abs(X[0, start : start + step].astype(np.float64) + mean)] = 0
        spread[start : start + step] = to_host(found)
    varies = ~(spread == 0)
    if not varies.any():
        return np.ones(len(spread))
    _check_spreads(np.where(varies, spread, spread.max()), hidden_dtype(X.dtype))
    return np.divide(spread[varies].min(), spread, out=np.zeros(len(spread)), where=varies)


def _check_spreads(spread, dtype):
    """Raise where one number of the dtype cannot be the weight of one feature and of another."""
    least, most = int(spread.argmin()), int(spread.argmax())
    if not spread[least] / spread[most] > 1e4 * float(np.finfo(dtype).tiny):
        raise ValueError(
            f"Feature {least} of X spreads by {spread[least]:.3g} and feature {most} by "
            f"{spread[most]:.3g}: no weights of {dtype} make them alike. Scale the features of X "
            "(StandardScaler), leave one of them out, or set feature_weights=None."
        )


def _draw(job, samples, random_state, rows):
    """Random rows in random order, copied to where the job computes, and the job that is left."""
    rows = check_random_state(random_state).permutation(rows)[:_ROWS]
    drawn = samples.taken(rows, hidden_dtype(samples.X.dtype))
    if isinstance(drawn.X, job.engine.xp.ndarray):
        job = job.reserving(drawn.X.nbytes)
    drawn, job = drawn.on_device(job)
    return job.reserve_host(drawn.target_bytes), drawn


def _layer(engine, drawn, weights, metric, kernel):
    """The first rows as centres, at the natural radius of weighted rows."""
    weights = weights.astype(drawn.X.dtype)
    shown = OrderedRows(engine, drawn.X, np.arange(len(drawn)), weights=weights)
    radius = float(kernel.natural_radius(typical_distance(shown, metric)))
    n_units = max(1, min(_CENTERS, len(drawn) // 2))
    return RBFLayer(shown.block(slice(n_units)), radius, metric, kernel, weights)


# How much the answers of an RBF network change with the features, over many rows.


def mean_squared_gradients(job, layer, W, samples, rows=None):
    """The mean over rows of the squared gradient of the outputs ``W phi(d)``.

    With respect to rows as they meet the units: for a layer with weights ``w`` of the
    features, ``w^2`` times as much is that with respect to the rows of the samples.

    Parameters
    ----------
    W : array of shape (n_outputs, n_units), of the host or of ``engine.xp``
    samples : Samples
        Their weights count; targets are not looked at.
    rows : ndarray of int, optional
        Row numbers; all by default.

    Returns
    -------
    ndarray of shape (n_features,), float64
        Of the squares of all outputs together.
    """
    engine = job.engine

    def squares(block, D, weight):
        G = engine.squared_gradients(layer, block, D, W)
        return G.sum(axis=0) if weight is None else weight @ G

    fixed_bytes = gradients.fixed_bytes(layer, len(W))
    row_bytes = gradients.row_bytes(layer, len(W))
    return _mean(job, layer, samples, rows, squares, fixed_bytes, row_bytes)


def mean_outer_product(job, layer, W, samples, rows=None):
    """Return the mean over rows of the outer product of the gradient with itself, over all outputs.

    Its diagonal is what `mean_squared_gradients` finds; arguments are the same. The layer is of
    Euclidean distances or their squares, and the mean row should be near 0.
    """
    engine, dtype = job.engine, layer.hidden_dtype
    units, W = (engine.xp.ascontiguousarray(engine.to_device(A), dtype) for A in (layer.units, W))

    def products(block, D, weight):
        slopes = gradients.distance_slopes(layer, D, engine.xp)
        return gradients.gradient_outer_product(block, units, slopes, W, weight, engine.algebra)

    n = layer.n_features
    fixed_bytes = gradients.fixed_bytes(layer, len(W)) + 24 * n * n
    row_bytes = gradients.row_bytes(layer, len(W)) + 40 * n
    return _mean(job, layer, samples, rows, products, fixed_bytes, row_bytes)


def _mean(job, layer, samples, rows, sums_of, fixed_bytes, row_bytes):
    """The mean over rows of what ``sums_of(rows on the device, distances, weights)`` adds up.

    With the bytes that it takes, in all and for each row.
    """
    engine, X = job.engine, samples.X
    rows = np.arange(len(samples)) if rows is None else rows
    total = 0.0

    def add(part, D):
        nonlocal total
        block = preprocess_block(engine, layer, engine.to_device(take_rows(X, rows[part])))
        weight = samples.weight_of(rows[part])
        weight = None if weight is None else engine.to_device(weight)
        total = total + sums_of(block, D, weight)

    # A row comes once more, in its own dtype and as it meets the units.
    again = layer.n_features * (X.dtype.itemsize + layer.units.itemsize)
    consumer = Consumer(add, fixed_bytes=fixed_bytes, row_bytes=row_bytes + again)
    stream(job, layer.distances, X, consumer, rows)
    weight = samples.weight_of(rows)
    return engine.to_host(total) / (len(rows) if weight is None else weight.sum())
