"""Hidden layers as ONNX operators: the steps of `layers`, in the same dtypes."""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from ...formulas import EXP, IDENTITY, TANH, as_finite
from ...layers import RBFLayer, TanhLayer
from .graph import GraphBuilder, int64, make_subgraph

# ONNX operators of the last step of an activation; IDENTITY has none.
_FUNCTIONS = {IDENTITY: None, EXP: "Exp", TANH: "Tanh"}
# Manhattan distances are sums of differences, which are computed in blocks, since all at once
# would take rows x units x features numbers. Limits for one row with a block of units (cache), and
# for a block of rows with a block of units (overhead of the loop); measured on two cores of Zen 4.
_UNIT_DIFFERENCES, _BLOCK_DIFFERENCES = 2**15, 2**18


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


def _add_squared_distances(graph, layer, X):
    """Add ``|x|^2 + |c|^2 - 2 x.c``, in float64, relative to the mean centre.

    The shift keeps the three terms small, so that few digits cancel.
    """
    units = layer.units.astype(np.float64)
    mean = units.mean(axis=0)
    units -= mean
    X = graph.add("Sub", graph.cast(X, np.float64), mean)
    row_squares = graph.add("ReduceSum", graph.add("Mul", X, X), int64(1), keepdims=1)
    # Keep the distance of infinite rows infinite: the product would add NaN to it.
    X = graph.add("Where", graph.add("IsInf", row_squares), np.zeros(1), X)
    sums = graph.add("MatMul", X, np.ascontiguousarray(-2 * units.T))
    sums = graph.add("Add", sums, (units**2).sum(axis=1))
    sums = graph.add("Max", graph.add("Add", sums, row_squares), np.float64(0))
    return graph.cast(sums, layer.hidden_dtype)


def _add_manhattan_distances(graph, layer, X):
    """Add ``sum |x - c|``, for which ONNX has no operator: a `Scan` over blocks of rows.

    Its body is a `Scan` over blocks of units. Blocks are of equal size: rows and units are padded
    with zeros, and the padding is cut off at the end. For uint8 the sums in float32 are exact up to
    65,793 features.
    """
    n_features = layer.n_features
    max_units = max(1, _UNIT_DIFFERENCES // n_features)
    units = _unit_blocks(layer.units.astype(layer.hidden_dtype), max_units)
    n_blocks, block, _ = units.shape
    max_rows = max(1, _BLOCK_DIFFERENCES // units[0].size)
    rows, n_rows = _add_row_blocks(graph, X, n_features, max_rows)
    name = graph.unique_name("manhattan")
    D = graph.add("Scan", rows, body=_row_block_body(name, units), num_scan_inputs=1)
    D = graph.add("Reshape", D, int64(-1, n_blocks * block))
    shape = graph.add("Concat", n_rows, int64(layer.n_units), axis=0)
    return graph.add("Slice", D, int64(0, 0), shape)


_SUMS = {
    "product": _add_products,
    "sqeuclidean": _add_squared_distances,
    "manhattan": _add_manhattan_distances,
}


def _unit_blocks(units: npt.NDArray, max_units: int) -> npt.NDArray:
    """Return units as zero-padded blocks (n_blocks, units, features)."""
    n_blocks = -(-len(units) // max_units)
    block = -(-len(units) // n_blocks)
    blocks = np.zeros((n_blocks * block, units.shape[1]), units.dtype)
    blocks[: len(units)] = units
    return blocks.reshape(n_blocks, block, -1)


def _add_row_blocks(graph, X, n_features, max_rows):
    """Add the zero-padded blocks (n_blocks, rows, features) of X, and its number of rows."""
    one = int64(1)
    n_rows = graph.add("Gather", graph.add("Shape", X), int64(0))

    def add_ceil_div(n):
        """Add ``max(ceil(n_rows / n), 1)``: there may be no rows."""
        numerator = graph.add("Sub", graph.add("Add", n_rows, n), one)
        return graph.add("Max", graph.add("Div", numerator, n), one)

    n_blocks = add_ceil_div(int64(max_rows))
    block = add_ceil_div(n_blocks)
    padding = graph.add("Sub", graph.add("Mul", n_blocks, block), n_rows)
    pads = graph.add("Concat", int64(0, 0), padding, int64(0), axis=0)
    shape = graph.add("Concat", n_blocks, block, int64(n_features), axis=0)
    return graph.add("Reshape", graph.add("Pad", X, pads), shape), n_rows


def _row_block_body(name, units):
    """Return the body of the loop over blocks of rows: distances to the units of all blocks."""
    n_blocks, block, n_features = units.shape
    x, c, d = f"{name}_rows", f"{name}_units", f"{name}_distances"
    axis, shape = f"{name}_axis", f"{name}_shape"
    constants = {c: units, axis: int64(1), shape: int64(-1, n_blocks * block)}
    nodes = [
        helper.make_node("Unsqueeze", [x, axis], [f"{x}_expanded"]),
        helper.make_node(
            "Scan", [c], [f"{d}_by_block"], num_scan_inputs=1, scan_output_axes=[1],
            body=_unit_block_body(name, f"{x}_expanded", units),
        ),
        helper.make_node("Reshape", [f"{d}_by_block", shape], [d]),
    ]  # fmt: skip
    interface = {x: (None, n_features)}, {d: (None, None)}
    return make_subgraph(name, nodes, units.dtype, *interface, constants)


def _unit_block_body(name, x, units):
    """Return the body of the loop over blocks of units: distances (rows, units) to one block."""
    _, block, n_features = units.shape
    name = f"{name}_block"
    c, d, axis = f"{name}_units", f"{name}_distances", f"{name}_axis"
    nodes = [
        helper.make_node("Sub", [x, c], [f"{d}_signed"]),
        helper.make_node("Abs", [f"{d}_signed"], [f"{d}_terms"]),
        helper.make_node("ReduceSum", [f"{d}_terms", axis], [d], keepdims=0),
    ]
    interface = {c: (block, n_features)}, {d: (None, block)}
    return make_subgraph(name, nodes, units.dtype, *interface, {axis: int64(2)})


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
