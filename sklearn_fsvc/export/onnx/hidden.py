"""A hidden layer as ONNX operators: the same steps as in `layers`, in the same dtypes."""

import numpy as np

from ...formulas import EXP, IDENTITY, TANH
from ...layers import RBFLayer, TanhLayer
from .graph import whole
from .manhattan import add_manhattan

_FUNCTIONS = {IDENTITY: None, EXP: "Exp", TANH: "Tanh"}


def add_layer(graph, layer, X):
    """H of rows X, and what the layer sums over the features of the rows.

    Parameters
    ----------
    graph : Graph
    layer : RBFLayer or TanhLayer
        In the dtype in which it meets the rows.
    X : str
        The rows, in any dtype of numbers.

    Returns
    -------
    H, sums : str
        Both (rows, units), H in ``layer.hidden_dtype``.
    """
    if type(layer) not in (RBFLayer, TanhLayer):
        raise TypeError(f"A {type(layer).__name__} has no form in ONNX.")
    if layer.function not in _FUNCTIONS:
        raise ValueError(
            f"kernel={layer.kernel!r} ends in the function {layer.function.name!r}, which cannot "
            'be written in ONNX here; fit with kernel="triangular", "gaussian" or "laplacian".'
        )
    dtype = layer.hidden_dtype
    X = graph.cast(X, dtype)
    if layer.weights is not None:
        X = graph.add("Mul", X, layer.weights)
    sums = _SUMS[layer.accumulation](graph, layer, X)
    H = _affine(graph, layer.affine, _power(graph, sums, layer.power), dtype)
    function = _FUNCTIONS[layer.function]
    return (H if function is None else graph.add(function, H)), sums


def _power(graph, A, power):
    if power == 2:
        return graph.add("Mul", A, A)
    return A if power == 1 else graph.add("Sqrt", A)


def _affine(graph, affine, A, dtype):
    """As `formulas.Affine.apply`."""
    if affine.scale != 1:
        A = graph.add("Mul", A, dtype.type(affine.scale))
    if np.any(affine.offset):
        A = graph.add("Add", A, np.asarray(affine.offset, dtype))
    if affine.floor > -np.inf:
        A = graph.add("Max", A, dtype.type(affine.floor))
    return A


def _products(graph, layer, X):
    return graph.add("MatMul", X, np.ascontiguousarray(layer.units.T))


def _squares(graph, layer, X):
    """``|x|^2 + |c|^2 - 2 x.c`` in float64, from the mean centre: then little cancels."""
    units = layer.units.astype(np.float64)
    mean = units.mean(axis=0)
    units -= mean
    X = graph.add("Sub", graph.cast(X, np.float64), mean)
    sums = graph.add("MatMul", X, np.ascontiguousarray(-2 * units.T))
    sums = graph.add("Add", sums, (units**2).sum(axis=1))
    of_rows = graph.add("ReduceSum", graph.add("Mul", X, X), whole(1), keepdims=1)
    sums = graph.add("Max", graph.add("Add", sums, of_rows), np.float64(0))
    return graph.cast(sums, layer.hidden_dtype)


_SUMS = {"product": _products, "sqeuclidean": _squares, "manhattan": add_manhattan}
