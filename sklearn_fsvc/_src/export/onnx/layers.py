"""Hidden layers as ONNX operators: the steps of `layers`, in the same dtypes.

Distances between samples and centres take bounded memory.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...engines.base import SQUARE_CANCELLATION
from ...formulas import EXP, IDENTITY, TANH, as_finite
from ...layers import RBFLayer, TanhLayer
from .graph import GraphBuilder, SubgraphBuilder, int64

# Limits of differences x - c, all of which would take rows x units x features numbers: for one row
# with a block of units (cache), and for a block of rows with a block of units, or a block of pairs
# (overhead of the loop); measured on two cores of Zen 4.
_UNIT_DIFFERENCES, _BLOCK_DIFFERENCES = 2**15, 2**18
# Limit of the distances, and of the features, of a block of rows whose distances are corrected.
_BLOCK_DISTANCES = 2**18
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


# Inner products and distances.


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


def _add_squared_distances(graph: GraphBuilder, layer: Any, X: str) -> str:
    """Add ``|x|^2 + |c|^2 - 2 x.c``, in float64.

    Distances that have cancelled are computed again from differences, as by the engines.

    Parameters
    ----------
    graph : GraphBuilder
    layer : RBFLayer
    X : str
        Name of the samples (rows, features), multiplied by the feature weights.

    Returns
    -------
    str
        Name of the distances (rows, units), in ``layer.hidden_dtype``.
    """
    axis, X = int64(1), graph.cast(X, np.float64)
    # Operators shift the centres, once per session: the model contains a single copy of them. The
    # shift is the median, because an outlier moves the mean, relative to which all other distances
    # would cancel.
    units = graph.cast(layer.units, np.float64)
    median = np.median(layer.units.astype(np.float64), axis=0)
    C, Z = (graph.add("Sub", each, median) for each in (units, X))
    unit_squares = graph.add("ReduceSum", graph.add("Mul", C, C), axis, keepdims=0)
    row_squares = graph.add("ReduceSum", graph.add("Mul", Z, Z), axis, keepdims=1)
    # Keep the distance of infinite rows infinite: the product would add NaN to it.
    X = graph.add("Where", graph.add("IsInf", row_squares), np.zeros(1), X)
    Z = graph.add("Sub", X, median)
    D = graph.add("MatMul", Z, graph.add("Transpose", graph.add("Mul", C, np.full(1, -2.0))))
    D = graph.add("Add", graph.add("Add", D, unit_squares), row_squares)
    # If the difference is small, |x|^2 + |c|^2 is about 2 |x|^2: one limit per row is enough.
    share = np.full(1, 2 * SQUARE_CANCELLATION[np.dtype(np.float64)])
    is_cancelled = graph.add("Less", D, graph.add("Mul", row_squares, share))
    counts = graph.add("ReduceSum", graph.cast(is_cancelled, np.float32), axis, keepdims=0)
    # Rarely are there any, so the search for them is a branch.
    name = graph.unique_name("exact")
    rows, exact = graph.add_if(
        graph.add("Greater", graph.add("ReduceSum", counts, keepdims=0), np.zeros((), np.float32)),
        _exact_rows_branch(name, layer, X, units, D, is_cancelled, counts),
        _no_rows_branch(name, layer.n_units),
    )
    return graph.cast(graph.add("ScatterND", D, rows, exact), layer.hidden_dtype)


def _add_manhattan_distances(graph: GraphBuilder, layer: Any, X: str) -> str:
    """Add ``sum |x - c|``, for which ONNX has no operator: a `Scan` over blocks of rows.

    Its body is a `Scan` over blocks of units. Blocks are of equal size: rows and units are padded
    with zeros, and the padding is cut off at the end. For uint8 the sums in float32 are exact up to
    65,793 features. Parameters and return value are those of `_add_squared_distances`.
    """
    n_features = layer.n_features
    max_units = max(1, _UNIT_DIFFERENCES // n_features)
    units = _unit_blocks(layer.units.astype(layer.hidden_dtype), max_units)
    n_blocks, block, _ = units.shape
    max_rows = max(1, _BLOCK_DIFFERENCES // units[0].size)
    rows, n_rows = _add_row_blocks(graph, X, n_features, max_rows)
    body = _manhattan_body(graph.unique_name("manhattan"), units)
    D = graph.add("Scan", rows, body=body, num_scan_inputs=1)
    D = graph.add("Reshape", D, int64(-1, n_blocks * block))
    shape = graph.add("Concat", n_rows, int64(layer.n_units), axis=0)
    return graph.add("Slice", D, int64(0, 0), shape)


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


def _exact_rows_branch(name, layer, X, units, D, is_cancelled, counts):
    """Return the branch that corrects distances: row numbers (n, 1), distances (n, units)."""
    branch, n_units = SubgraphBuilder(f"{name}_found"), layer.n_units
    rows = branch.add("Transpose", branch.add("NonZero", counts))
    max_rows = max(1, _BLOCK_DISTANCES // max(n_units, layer.n_features))
    blocks, n_rows = _add_row_blocks(branch, rows, 1, max_rows)
    body = _exact_rows_body(f"{name}_rows", layer, X, units, D, is_cancelled)
    exact = branch.add("Scan", blocks, body=body, num_scan_inputs=1)
    exact = branch.add("Reshape", exact, int64(-1, n_units))
    exact = branch.add("Slice", exact, int64(0), n_rows)
    return branch.build((rows, np.int64, (None, 1)), (exact, np.float64, (None, n_units)))


def _no_rows_branch(name, n_units):
    """Return the branch that finds no row to correct."""
    branch = SubgraphBuilder(f"{name}_none")
    rows = branch.add("Identity", np.zeros((0, 1), np.int64))
    exact = branch.add("Identity", np.zeros((0, n_units)))
    return branch.build((rows, np.int64, (None, 1)), (exact, np.float64, (None, n_units)))


def _exact_rows_body(name, layer, X, units, D, is_cancelled):
    """Return the body of the loop over blocks of row numbers: distances (rows, units)."""
    body = SubgraphBuilder(name)
    rows = body.add("Squeeze", body.add_input(np.int64, (None, 1)), int64(1))
    pairs = body.add("Transpose", body.add("NonZero", body.add("Gather", is_cancelled, rows)))
    max_pairs = max(1, _BLOCK_DIFFERENCES // layer.n_features)
    blocks, n_pairs = _add_row_blocks(body, pairs, 2, max_pairs)
    pairs_body = _pairs_body(f"{name}_pairs", body.add("Gather", X, rows), units)
    squares = body.add("Scan", blocks, body=pairs_body, num_scan_inputs=1)
    squares = body.add("Slice", body.add("Reshape", squares, int64(-1)), int64(0), n_pairs)
    exact = body.add("ScatterND", body.add("Gather", D, rows), pairs, squares)
    return body.build((exact, np.float64, (None, layer.n_units)))


def _pairs_body(name, X, units):
    """Return the body of the loop over blocks of pairs (row, unit): ``|x - c|^2``."""
    body = SubgraphBuilder(name)
    pairs = body.add_input(np.int64, (None, 2))
    row, unit = (body.add("Gather", pairs, np.array(k), axis=1) for k in range(2))
    diff = body.add("Sub", body.add("Gather", X, row), body.add("Gather", units, unit))
    squares = body.add("ReduceSum", body.add("Mul", diff, diff), int64(1), keepdims=0)
    return body.build((squares, np.float64, (None,)))


def _unit_blocks(units: npt.NDArray, max_units: int) -> npt.NDArray:
    """Return units as zero-padded blocks (n_blocks, units, features)."""
    n_blocks = -(-len(units) // max_units)
    block = -(-len(units) // n_blocks)
    blocks = np.zeros((n_blocks * block, units.shape[1]), units.dtype)
    blocks[: len(units)] = units
    return blocks.reshape(n_blocks, block, -1)


def _manhattan_body(name, units):
    """Return the body of the loop over blocks of rows: distances to the units of all blocks."""
    (n_blocks, block, n_features), dtype = units.shape, units.dtype
    body = SubgraphBuilder(name)
    rows = body.add("Unsqueeze", body.add_input(dtype, (None, n_features)), int64(1))
    D = body.add(
        "Scan", units, num_scan_inputs=1, scan_output_axes=[1],
        body=_unit_block_body(body.unique_name("block"), rows, units),
    )  # fmt: skip
    D = body.add("Reshape", D, int64(-1, n_blocks * block))
    return body.build((D, dtype, (None, None)))


def _unit_block_body(name, rows, units):
    """Return the body of the loop over blocks of units: distances (rows, units) to one block."""
    (_, block, n_features), dtype = units.shape, units.dtype
    body = SubgraphBuilder(name)
    diff = body.add("Sub", rows, body.add_input(dtype, (block, n_features)))
    D = body.add("ReduceSum", body.add("Abs", diff), int64(2), keepdims=0)
    return body.build((D, dtype, (None, block)))


# By `reduction` of a layer.
_SUMS = {
    "product": _add_products,
    "sqeuclidean": _add_squared_distances,
    "manhattan": _add_manhattan_distances,
}
