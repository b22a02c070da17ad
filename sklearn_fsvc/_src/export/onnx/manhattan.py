"""Manhattan distances, for which ONNX has no operator: differences, a block at a time.

A block is some rows with some units: the differences of all at once would take
rows x units x features numbers. Both loops are ``Scan``, over blocks of equal size.
"""

import numpy as np
from onnx import helper, numpy_helper

from .graph import tensor_type, whole

# Differences of one row with the units of a block, and of all rows of a block: for the
# cache, and for few rounds of the loops (measured on two cores of Zen 4).
_UNIT_DIFFERENCES, _DIFFERENCES = 2**15, 2**18


def add_manhattan(graph, layer, X):
    """Return the name of ``sum |x - c|`` (rows, units) of rows X and the units of a layer.

    X is in ``layer.hidden_dtype``, and so are the sums. Of bytes they are exact in float32 up to
    65,793 features.
    """
    n_features = layer.n_features
    most = max(1, _UNIT_DIFFERENCES // n_features)
    units = _blocks(layer.units.astype(layer.hidden_dtype), most)
    n_blocks, block, _ = units.shape
    rows, n_rows = _row_blocks(graph, X, n_features, max(1, _DIFFERENCES // units[0].size))
    name = graph.name("manhattan")
    D = graph.add("Scan", rows, body=_of_rows(name, units), num_scan_inputs=1)
    D = graph.add("Reshape", D, whole(-1, n_blocks * block))
    shape = graph.add("Concat", n_rows, whole(layer.n_units), axis=0)
    return graph.add("Slice", D, whole(0, 0), shape)


def _blocks(units, most):
    """Units as blocks (n_blocks, units, features) of `most` or less, with zeros in the end."""
    n_blocks = -(-len(units) // most)
    block = -(-len(units) // n_blocks)
    blocks = np.zeros((n_blocks * block, units.shape[1]), units.dtype)
    blocks[: len(units)] = units
    return blocks.reshape(n_blocks, block, -1)


def _row_blocks(graph, X, n_features, most):
    """Rows as blocks (n_blocks, rows, features), as `_blocks`, and how many rows there are."""
    one = whole(1)
    n_rows = graph.add("Gather", graph.add("Shape", X), whole(0))

    def divide_up(n):
        """``ceil(n_rows / n)``, 1 or more: there may be no rows."""
        above = graph.add("Sub", graph.add("Add", n_rows, n), one)
        return graph.add("Max", graph.add("Div", above, n), one)

    n_blocks = divide_up(whole(most))
    block = divide_up(n_blocks)
    missing = graph.add("Sub", graph.add("Mul", n_blocks, block), n_rows)
    pads = graph.add("Concat", whole(0, 0), missing, whole(0), axis=0)
    shape = graph.add("Concat", n_blocks, block, whole(n_features), axis=0)
    return graph.add("Reshape", graph.add("Pad", X, pads), shape), n_rows


def _of_rows(name, units):
    """The body of the loop over blocks of rows: their distances to the units of all blocks."""
    n_blocks, block, n_features = units.shape
    x, c, d = f"{name}_rows", f"{name}_units", f"{name}_distances"
    axis, shape = f"{name}_axis", f"{name}_shape"
    constants = {c: units, axis: whole(1), shape: whole(-1, n_blocks * block)}
    nodes = [
        helper.make_node("Unsqueeze", [x, axis], [f"{x}_apart"]),
        helper.make_node(
            "Scan", [c], [f"{d}_by_block"], num_scan_inputs=1, scan_output_axes=[1],
            body=_of_units(name, f"{x}_apart", units),
        ),
        helper.make_node("Reshape", [f"{d}_by_block", shape], [d]),
    ]  # fmt: skip
    return _body(name, nodes, units.dtype, {x: (None, n_features)}, {d: (None, None)}, constants)


def _of_units(name, x, units):
    """The body of the loop over blocks of units: distances (rows, units) to one of them."""
    _, block, n_features = units.shape
    name = f"{name}_block"
    c, d, axis = f"{name}_units", f"{name}_distances", f"{name}_axis"
    nodes = [
        helper.make_node("Sub", [x, c], [f"{d}_signed"]),
        helper.make_node("Abs", [f"{d}_signed"], [f"{d}_terms"]),
        helper.make_node("ReduceSum", [f"{d}_terms", axis], [d], keepdims=0),
    ]
    ends = {c: (block, n_features)}, {d: (None, block)}
    return _body(name, nodes, units.dtype, *ends, {axis: whole(2)})


def _body(name, nodes, dtype, inputs, outputs, constants):
    """A graph that `Scan` calls; it takes nothing by name that skl2onnx might rename."""
    ends = (
        [helper.make_tensor_value_info(end, tensor_type(dtype), shape) for end, shape in of.items()]
        for of in (inputs, outputs)
    )
    tensors = [numpy_helper.from_array(array, key) for key, array in constants.items()]
    return helper.make_graph(nodes, name, *ends, tensors)
