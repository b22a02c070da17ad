"""Predictions of transformed targets as ONNX operators, in float64."""

import numpy as np
import numpy.typing as npt

from ...targets.transforms import ShiftedLog, TargetTransformer
from .graph import GraphBuilder, add_rational, int64

# Numerator and denominator of cdf(-x) / exp(-x^2 / 2) of the normal distribution for x from 0 to
# 7.07, highest powers first; the relative error is at most 3e-9. From G. West (2005), "Better
# approximations to cumulative normal functions". onnxruntime has Erf for float32 alone.
_LOWER_TAIL = (
    (
        3.52624965998911e-02, 0.700383064443688, 6.37396220353165, 33.912866078383,
        112.079291497871, 221.213596169931, 220.206867912376,
    ),
    (
        8.83883476483184e-02, 1.75566716318264, 16.064177579207, 86.7807322029461,
        296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752,
    ),
)  # fmt: skip


def add_inverse_mean(
    graph: GraphBuilder, transformer: TargetTransformer, residuals: npt.NDArray, z: str
) -> str:
    """Add `TargetTransformer.inverse_mean`.

    Parameters
    ----------
    graph : GraphBuilder
    transformer : TargetTransformer
    residuals : ndarray of shape (n_quantiles, n_columns)
    z : str
        Name of the predictions (rows, n_columns) of the transformed y, float64.

    Returns
    -------
    str
        Name of the predictions of y, of the same shape.
    """
    columns, mean = [], np.full((len(residuals), 1), 1 / len(residuals))
    for k, each in enumerate(transformer.transformers_):
        column = graph.add("Gather", z, int64(k), axis=1)
        if each is not None:
            low, high = transformer.range_[:, k]
            shifted = graph.add("Add", column, residuals[:, k])
            shifted = graph.add("Max", graph.add("Min", shifted, high), low)
            column = graph.add("MatMul", _add_inverse(graph, each, shifted), mean)
        columns.append(column)
    return graph.add("Concat", *columns, axis=1)


def _add_inverse(graph, transformer, z):
    """Add the inverse of the transform of one column of y."""
    if isinstance(transformer, ShiftedLog):
        return graph.add("Sub", graph.add("Exp", z), transformer.shift_)
    scaler, quantiles = (step for _, step in transformer.steps)
    table = quantiles.quantiles_[:, 0] * scaler.scale_ + scaler.center_
    position = graph.add("Mul", _add_normal_cdf(graph, z), np.float64(len(table) - 1))
    below = graph.add("Min", graph.add("Floor", position), np.float64(len(table) - 2))
    index = graph.cast(below, np.int64)
    gap = graph.add("Gather", np.diff(table), index)
    beyond = graph.add("Mul", graph.add("Sub", position, below), gap)
    return graph.add("Add", graph.add("Gather", table, index), beyond)


def _add_normal_cdf(graph, z):
    density = graph.add("Exp", graph.add("Mul", graph.add("Mul", z, z), np.float64(-0.5)))
    tail = graph.add("Mul", density, add_rational(graph, _LOWER_TAIL, graph.add("Abs", z)))
    is_positive = graph.add("Greater", z, np.float64(0))
    return graph.add("Where", is_positive, graph.add("Sub", np.float64(1), tail), tail)
