"""Hidden layers as ONNX operators: the steps of `layers`, in the same dtypes."""

from typing import Any

import numpy as np

from ...formulas import EXP, IDENTITY, TANH, as_finite
from ...layers import RBFLayer, TanhLayer
from .distances import add_manhattan_distances, add_squared_distances
from .graph import GraphBuilder, int64

# ONNX operators of the last step of an activation; IDENTITY has none.
_FUNCTIONS = {IDENTITY: None, EXP: "Exp", TANH: "Tanh"}


def add_layer(graph: GraphBuilder, layer: Any, X: str) -> tuple[str, str]:
    """Add the operators of a hidden layer.

    Parameters
    ----------
    graph : GraphBuilder
    layer : RBFLayer or TanhLayer
        In the dtype in which it is to be computed.
    X : str
        Name of the input (rows, features), of any numeric dtype.

    Returns
    -------
    H, sums : str
        Names of the activations in ``layer.hidden_dtype``, and of the distances or inner
        products, both (rows, units).
    """
    if type(layer) not in (RBFLayer, TanhLayer):
        raise TypeError(f"{type(layer).__name__} is not supported in ONNX.")
    exponent, has_table = layer.function.exponent, layer.table is not None
    if layer.function not in _FUNCTIONS and not exponent and not has_table:
        raise ValueError(
            f"kernel={layer.kernel!r} ends in the function {layer.function.name!r}, which is not "
            'supported in ONNX; fit with kernel="triangular", "gaussian" or "laplacian".'
        )
    dtype = layer.hidden_dtype
    X = graph.cast(X, dtype)
    if layer.is_mapped:
        X = graph.add("MatMul", X, layer.weights)
        # The difference of two infinite products is NaN: such a row is infinitely far away.
        X = graph.add("Where", graph.add("IsNaN", X), np.full(1, np.inf, dtype), X)
    elif layer.weights is not None:
        X = graph.add("Mul", X, layer.weights)
    sums = _SUMS[layer.reduction](graph, layer, X)
    if has_table:
        return _add_table_lookup(graph, layer, sums), sums
    H = _add_affine(graph, layer.affine_of_sum, sums, dtype)
    if layer.power != 1:
        H = graph.add("Mul", H, H) if layer.power == 2 else graph.add("Sqrt", H)
        H = _add_affine(graph, layer.affine, H, dtype)
    if exponent not in (0, 1):  # as in `formulas.powered_exp`
        H = graph.add("Neg", graph.add("Pow", graph.add("Neg", H), dtype.type(exponent)))
    function = "Exp" if exponent else _FUNCTIONS[layer.function]
    H = H if function is None else graph.add(function, H)
    return _add_rounding(graph, layer.quantizer, H, dtype), sums


def _add_products(graph, layer, X):
    """Add ``x . w``, without overflow in partial sums.

    Rows whose products could overflow are scaled down first, and their sums scaled up. Other rows
    are multiplied and divided by 1, which is exact.
    """
    max_input, share = layer.max_input, layer.hidden_dtype.type(1 / layer.n_features)
    sizes = graph.add("Mul", graph.add("Abs", X), share)
    mean = graph.add("ReduceSum", sizes, int64(1), keepdims=1)
    scale = graph.add("Div", max_input, graph.add("Max", mean, max_input))
    X = graph.add("Mul", X, scale)
    sums = graph.add("MatMul", X, np.ascontiguousarray(layer.units.T))
    return graph.add("Div", sums, scale)


_SUMS = {
    "product": _add_products,
    "sqeuclidean": add_squared_distances,
    "manhattan": add_manhattan_distances,
}


def _add_table_lookup(graph, layer, sums):
    """Add `formulas.lookup_function`: integer distances index rounded activations."""
    dtype, table = layer.hidden_dtype, layer.table
    entries = graph.cast(graph.add("Min", sums, dtype.type(len(table) - 1)), np.int64)
    return graph.add("Gather", table.astype(dtype) / layer.quantizer.scale, entries)


def _add_rounding(graph, quantizer, H, dtype):
    """Add `formulas.Quantizer.apply`."""
    if quantizer is None:
        return H
    H = graph.add("Round", graph.add("Mul", H, dtype.type(quantizer.scale)))
    H = graph.add("Min", H, dtype.type(quantizer.max_code))
    if quantizer.is_signed:
        H = graph.add("Max", H, dtype.type(-quantizer.max_code))
    return graph.add("Mul", H, dtype.type(1 / quantizer.scale))


def _add_affine(graph, affine, A, dtype):
    """Add `formulas.Affine.apply`."""
    if affine.scale != 1:
        A = graph.add("Mul", A, as_finite(affine.scale, dtype))
    if np.any(affine.offset):
        A = graph.add("Add", A, np.asarray(affine.offset, dtype))
    if affine.floor > -np.inf:
        A = graph.add("Max", A, dtype.type(affine.floor))
    return A
