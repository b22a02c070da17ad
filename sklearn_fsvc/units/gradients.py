"""How much the answers of an RBF network change with each feature, over many rows."""

import numpy as np

from ..engines import gradients
from ..rows.streaming import Consumer, arriving, stream, take_rows


def mean_squared_gradients(job, layer, W, samples, rows=None):
    """The mean over rows of the squared gradient of the outputs ``W phi(d)``.

    With respect to rows as they meet the units: for a layer with weights ``w`` of the
    features, ``w^2`` times as much is that with respect to the rows of the samples.

    Parameters
    ----------
    job : Job
    layer : RBFLayer
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
    engine, X = job.engine, samples.X
    rows = np.arange(len(samples)) if rows is None else rows
    total = engine.xp.zeros(layer.n_features)

    def add(part, D):
        nonlocal total
        block = arriving(engine, layer, engine.to_device(take_rows(X, rows[part])))
        G = engine.squared_gradients(layer, block, D, W)
        weight = samples.weight_of(rows[part])
        total = total + (G.sum(axis=0) if weight is None else engine.to_device(weight) @ G)

    # A row comes once more, in its own dtype and as it meets the units.
    again = layer.n_features * (X.dtype.itemsize + layer.units.itemsize)
    consumer = Consumer(
        add,
        fixed_bytes=gradients.fixed_bytes(layer, len(W)),
        row_bytes=gradients.row_bytes(layer, len(W)) + again,
    )
    stream(job, layer.distances, X, consumer, rows)
    weight = samples.weight_of(rows)
    return engine.to_host(total) / (len(rows) if weight is None else weight.sum())
