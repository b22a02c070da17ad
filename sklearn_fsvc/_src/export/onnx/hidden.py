"""A hidden layer as ONNX operators: the same steps as in `layers`, in the same dtypes."""

import numpy as np

from ...formulas import EXP, IDENTITY, TANH, finite
from ...layers import RBFLayer, TanhLayer
from .graph import whole
from .manhattan import add_manhattan

_FUNCTIONS = {IDENTITY: None, EXP: "Exp", TANH: "Tanh"}


def add_layer(graph, layer, X):
    """Return the names of H of rows X, and of what the layer sums over their features.

    The layer has the dtype in which it meets the rows, which may be of any dtype of numbers. Both
    are (rows, units), H in ``layer.hidden_dtype``.
    """
    if type(layer) not in (RBFLayer, TanhLayer):
        raise TypeError(f"A {type(layer).__name__} has no form in ONNX.")
    exponent, is_table = layer.function.exponent, layer.table is not None
    if layer.function not in _FUNCTIONS and not exponent and not is_table:
        raise ValueError(
            f"kernel={layer.kernel!r} ends in the function {layer.function.name!r}, which cannot "
            'be written in ONNX here; fit with kernel="triangular", "gaussian" or "laplacian".'
        )
    dtype = layer.hidden_dtype
    X = graph.cast(X, dtype)
    if layer.is_mapped:
        X = graph.add("MatMul", X, layer.weights)
        X = graph.add("Where", graph.add("IsNaN", X), np.full(1, np.inf, dtype), X)
    elif layer.weights is not None:
        X = graph.add("Mul", X, layer.weights)
    sums = _SUMS[layer.accumulation](graph, layer, X)
    if is_table:
        return _looked_up(graph, layer, sums), sums
    H = _affine(graph, layer.on_sums, sums, dtype)
    if layer.power != 1:
        H = _affine(graph, layer.affine, _power(graph, H, layer.power), dtype)
    if exponent not in (0, 1):  # as of `formulas.powered_exp`
        H = graph.add("Neg", graph.add("Pow", graph.add("Neg", H), dtype.type(exponent)))
    function = "Exp" if exponent else _FUNCTIONS[layer.function]
    H = H if function is None else graph.add(function, H)
    return _rounded(graph, layer.steps, H, dtype), sums


def _looked_up(graph, layer, sums):
    """As `formulas.looked_up`."""
    dtype, table = layer.hidden_dtype, layer.table
    entries = graph.cast(graph.add("Min", sums, dtype.type(len(table) - 1)), np.int64)
    return graph.add("Gather", table.astype(dtype) / layer.steps.scale, entries)


def _rounded(graph, steps, H, dtype):
    """Do what `formulas.Steps.apply` does."""
    if steps is None:
        return H
    H = graph.add("Round", graph.add("Mul", H, dtype.type(steps.scale)))
    H = graph.add("Min", H, dtype.type(steps.most))
    if steps.is_signed:
        H = graph.add("Max", H, dtype.type(-steps.most))
    return graph.add("Mul", H, dtype.type(1 / steps.scale))


def _power(graph, A, power):
    return graph.add("Mul", A, A) if power == 2 else graph.add("Sqrt", A)


def _affine(graph, affine, A, dtype):
    """Do what `formulas.Affine.apply` does."""
    if affine.scale != 1:
        A = graph.add("Mul", A, finite(affine.scale, dtype))
    if np.any(affine.offset):
        A = graph.add("Add", A, np.asarray(affine.offset, dtype))
    if affine.floor > -np.inf:
        A = graph.add("Max", A, dtype.type(affine.floor))
    return A


def _products(graph, layer, X):
    """``x . w``; rows whose products might be no numbers are shrunk before, and their sums grow.

    Other rows are multiplied and divided by 1, which changes no digit.
    """
    most, share = layer.most, layer.hidden_dtype.type(1 / layer.n_features)
    sizes = graph.add("Mul", graph.add("Abs", X), share)
    mean = graph.add("ReduceSum", sizes, whole(1), keepdims=1)
    shrink = graph.add("Div", most, graph.add("Max", mean, most))
    X = graph.add("Mul", X, shrink)
    sums = graph.add("MatMul", X, np.ascontiguousarray(layer.units.T))
    return graph.add("Div", sums, shrink)


def _squares(graph, layer, X):
    """``|x|^2 + |c|^2 - 2 x.c`` in float64, from the mean centre: then little cancels."""
    units = layer.units.astype(np.float64)
    mean = units.mean(axis=0)
    units -= mean
    X = graph.add("Sub", graph.cast(X, np.float64), mean)
    of_rows = graph.add("ReduceSum", graph.add("Mul", X, X), whole(1), keepdims=1)
    # Rows that are infinitely far away stay so: infinity less infinity is no number.
    X = graph.add("Where", graph.add("IsInf", of_rows), np.zeros(1), X)
    sums = graph.add("MatMul", X, np.ascontiguousarray(-2 * units.T))
    sums = graph.add("Add", sums, (units**2).sum(axis=1))
    sums = graph.add("Max", graph.add("Add", sums, of_rows), np.float64(0))
    return graph.cast(sums, layer.hidden_dtype)


_SUMS = {"product": _products, "sqeuclidean": _squares, "manhattan": add_manhattan}
