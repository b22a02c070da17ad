"""Construction of ONNX graphs, one operator at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

# The first opset that has all operators of this package in their present form.
MIN_OPSET = 14
# The domain of operators of classical machine learning; version 2 is the first with `LabelEncoder`.
ML_DOMAIN = "ai.onnx.ml"
_ML_OPSET = 2
# The first opset that compares strings.
_TEXT_EQUALITY_OPSET = 19


class GraphBuilder:
    """Adds operators and constants to the model that a converter of skl2onnx writes.

    Parameters
    ----------
    scope : skl2onnx.common._topology.Scope
        Makes unique names.
    container : skl2onnx.common._container.ModelComponentContainer
        Receives nodes and initializers.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        if container.target_opset < MIN_OPSET:
            raise ValueError(
                f"target_opset={container.target_opset!r} is too old for networks of this "
                f"package; use {MIN_OPSET} or more."
            )
        self._scope, self._container = scope, container
        self._constants: dict[tuple, str] = {}

    def unique_name(self, stem: str) -> str:
        """Return a name that is not in the model yet."""
        return self._scope.get_unique_variable_name(stem)

    def add(
        self, operator: str, *inputs: str | npt.NDArray, domain: str = "", **attributes: Any
    ) -> str:
        """Add an operator, and return the name of its output.

        Inputs are names, or arrays, which become constants.
        """
        output = self.unique_name(operator.lower())
        self._add_node(operator, inputs, [output], domain, attributes)
        return output

    def add_if(self, condition: str, then: Any, otherwise: Any) -> list[str]:
        """Add an `If`, and return the names of its outputs, as many as its branches have."""
        outputs = [self.unique_name("if") for _ in then.output]
        branches = {"then_branch": then, "else_branch": otherwise}
        self._add_node("If", [condition], outputs, "", branches)
        return outputs

    def add_text_equality(self, first: str, second: str) -> str:
        """Add the comparison of two tensors of strings; return the name of the bools."""
        if self._container.target_opset < _TEXT_EQUALITY_OPSET:
            raise ValueError(
                f"target_opset={self._container.target_opset!r} has no comparison of strings, as "
                "of two categorical features that are encoded by whether they are equal; use "
                f"{_TEXT_EQUALITY_OPSET} or more."
            )
        output = self.unique_name("equal")
        options = self._node_options("Equal") | {"op_version": _TEXT_EQUALITY_OPSET}
        self._container.add_node("Equal", [first, second], [output], **options)
        return output

    def assign(self, name: str, variable: Any) -> None:
        """Make the tensor of this name an output of the converted estimator."""
        self._container.add_node(
            "Identity", [name], variable.full_name, **self._node_options("Identity")
        )

    def cast(self, name: str, dtype: npt.DTypeLike) -> str:
        """Add a cast to a NumPy dtype, and return the name of its output."""
        return self.add("Cast", name, to=tensor_type(dtype))

    def _add_node(self, operator, inputs, outputs, domain, attributes):
        names = [x if isinstance(x, str) else self._add_constant(x) for x in inputs]
        options = self._node_options(operator, domain)
        self._container.add_node(operator, names, outputs, **options, **attributes)

    def _node_options(self, operator, domain=""):
        # The model gets the largest version of its nodes: the lowest one suits most runtimes.
        name = self._scope.get_unique_operator_name(operator)
        version = _ML_OPSET if domain == ML_DOMAIN else MIN_OPSET
        return {"name": name, "op_domain": domain, "op_version": version}

    def _add_constant(self, array):
        """Return the name of a constant; equal arrays share one, which skl2onnx would merge."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            self._constants[key] = self.unique_name("constant")
            self._add_initializer(self._constants[key], array)
        return self._constants[key]

    def _add_initializer(self, name, array):
        if array.dtype.kind == "U":
            texts = [text.encode() for text in array.ravel()]
            self._container.add_initializer(name, TensorProto.STRING, array.shape, texts)
        else:
            tensor = numpy_helper.from_array(array)
            self._container.add_initializer(name, tensor.data_type, array.shape, tensor)


def int64(*values: int) -> npt.NDArray[np.int64]:
    """Return integers as the int64 array that ONNX expects for shapes and axes."""
    return np.array(values, np.int64)


def tensor_type(dtype: npt.DTypeLike) -> int:
    """Return the ONNX element type of a NumPy dtype."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def add_rational(graph: GraphBuilder, coefficients: Sequence[Sequence[float]], x: str) -> str:
    """Add a rational function of x: coefficients of numerator and denominator, highest first."""
    return graph.add("Div", *(_add_polynomial(graph, each, x) for each in coefficients))


def _add_polynomial(graph, coefficients, x):
    value, *rest = map(np.float64, coefficients)
    for coefficient in rest:
        value = graph.add("Add", graph.add("Mul", value, x), coefficient)
    return value


def flatten_sorted(table: npt.NDArray) -> npt.NDArray:
    """Return the columns of a table one after another, each padded for `add_search`."""
    padding = _padded_size(table) - len(table)
    return np.pad(table, ((0, padding), (0, 0)), mode="edge").T.ravel()


def add_search(graph: GraphBuilder, table: npt.NDArray, X: str) -> str | npt.NDArray:
    """Add a binary search in the sorted columns of a table, for which ONNX has no operator.

    Parameters
    ----------
    graph : GraphBuilder
    table : ndarray of shape (n_values, n_columns)
    X : str
        Name of a tensor (rows, n_columns), or (rows,) for one column.

    Returns
    -------
    str or ndarray
        For each element of X the position, in ``flatten_sorted(table)``, of the last value that is
        not larger; of the first one if there is none. It can be broadcast to the shape of X.
    """
    values, step = flatten_sorted(table), _padded_size(table)
    position: str | npt.NDArray = np.arange(0, len(values), step)
    while step := step // 2:
        candidate = graph.add("Add", position, int64(step))
        is_reached = graph.add("LessOrEqual", graph.add("Gather", values, candidate), X)
        position = graph.add("Where", is_reached, candidate, position)
    return position


def _padded_size(table):
    return 1 << (len(table) - 1).bit_length()


class SubgraphBuilder:
    """Adds operators and constants to a subgraph: the body of a `Scan`, or a branch of an `If`.

    It may refer to outputs of operators outside of it. Exceptions are inputs and constants of the
    model and outputs of `Identity`, which skl2onnx may rename, and outputs of the second of two
    casts, which onnxruntime may remove. Its own names begin with its name.
    """

    def __init__(self, name: str) -> None:
        self._name, self._n_names = name, 0
        self._nodes: list = []
        self._inputs: list = []
        self._initializers: list = []

    def unique_name(self, stem: str) -> str:
        """Return a name that is not in the model yet."""
        self._n_names += 1
        return f"{self._name}_{stem}{self._n_names}"

    def add_input(self, dtype: npt.DTypeLike, shape: tuple) -> str:
        """Add an input, and return its name."""
        name = self.unique_name("input")
        self._inputs.append(helper.make_tensor_value_info(name, tensor_type(dtype), shape))
        return name

    def add(self, operator: str, *inputs: str | npt.NDArray, **attributes: Any) -> str:
        """Add an operator, as `GraphBuilder.add`."""
        names = [x if isinstance(x, str) else self._add_constant(x) for x in inputs]
        output = self.unique_name(operator.lower())
        self._nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def cast(self, name: str, dtype: npt.DTypeLike) -> str:
        """Add a cast, as `GraphBuilder.cast`."""
        return self.add("Cast", name, to=tensor_type(dtype))

    def build(self, *outputs: tuple) -> Any:
        """Return the subgraph with these outputs, each (name, dtype, shape)."""
        declared = [
            helper.make_tensor_value_info(name, tensor_type(dtype), shape)
            for name, dtype, shape in outputs
        ]
        return helper.make_graph(
            self._nodes, self._name, self._inputs, declared, self._initializers
        )

    def _add_constant(self, array):
        name = self.unique_name("constant")
        self._initializers.append(numpy_helper.from_array(array, name))
        return name
