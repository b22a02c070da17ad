"""How much the answers of an RBF network change with the features, over many rows."""

import numpy as np

from ..engines import gradients
from ..rows.streaming import Consumer, preprocess_block, stream, take_rows


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
        slopes = gradients.slopes(layer, D, engine.xp)
        return gradients.outer(block, units, slopes, W, weight, engine.algebra)

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
