"""A hidden layer as ONNX operators: the same steps as in `layers`, in the same dtypes."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ...formulas import EXP, IDENTITY, TANH, finite
from ...layers import RBFLayer, TanhLayer

# A graph of ONNX operators, written node by node.

# The first opset in which all operators that are used here are what they are now.
LEAST_OPSET = 14


def whole(*numbers):
    """Whole numbers as ONNX takes sizes and axes."""
    return np.array(numbers, np.int64)


def tensor_type(dtype):
    """ONNX's number of a NumPy dtype."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class Graph:
    """What a converter of skl2onnx adds to a model: its scope and container."""

    def __init__(self, scope, container):
        if container.target_opset < LEAST_OPSET:
            raise ValueError(
                f"target_opset={container.target_opset!r} is too old for networks of this "
                f"package; give {LEAST_OPSET} or more."
            )
        self._scope, self._container, self._constants = scope, container, {}

    def name(self, stem):
        """A name that nothing else in the model has."""
        return self._scope.get_unique_variable_name(stem)

    def add(self, operator, *inputs, **attributes):
        """The name of what an operator makes of its inputs: names, or arrays as constants."""
        inputs = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        output = self.name(operator.lower())
        self._container.add_node(operator, inputs, output, **self._named(operator, attributes))
        return output

    def put(self, name, variable):
        """Let an output of the converted estimator be what has this name."""
        attributes = self._named("Identity", {})
        self._container.add_node("Identity", [name], variable.full_name, **attributes)

    def cast(self, name, dtype):
        return self.add("Cast", name, to=tensor_type(dtype))

    def _named(self, operator, attributes):
        # The version says which runtimes take the model: no newer one than it needs.
        name = self._scope.get_unique_operator_name(operator)
        return attributes | {"name": name, "op_version": LEAST_OPSET}

    def _constant(self, array):
        """The name of a constant; one for equal ones, for skl2onnx links them by new operators."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            self._constants[key] = self.name("constant")
            self._keep(self._constants[key], array)
        return self._constants[key]

    def _keep(self, name, array):
        if array.dtype.kind == "U":
            texts = [text.encode() for text in array.ravel()]
            self._container.add_initializer(name, TensorProto.STRING, array.shape, texts)
        else:
            tensor = numpy_helper.from_array(array)
            self._container.add_initializer(name, tensor.data_type, array.shape, tensor)


# Manhattan distances, for which ONNX has no operator: differences, a block at a time.
#
# A block is some rows with some units: the differences of all at once would take
# rows x units x features numbers. Both loops are ``Scan``, over blocks of equal size.

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
