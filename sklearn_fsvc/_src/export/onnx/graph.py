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
                f"package; give {MIN_OPSET} or more."
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
        names = [x if isinstance(x, str) else self._add_constant(x) for x in inputs]
        output = self.unique_name(operator.lower())
        options = self._node_options(operator, domain)
        self._container.add_node(operator, names, output, **options, **attributes)
        return output

    def assign(self, name: str, variable: Any) -> None:
        """Make the tensor of this name an output of the converted estimator."""
        self._container.add_node(
            "Identity", [name], variable.full_name, **self._node_options("Identity")
        )

    def cast(self, name: str, dtype: npt.DTypeLike) -> str:
        """Add a cast to a NumPy dtype, and return the name of its output."""
        return self.add("Cast", name, to=tensor_type(dtype))

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


def make_subgraph(
    name: str,
    nodes: list,
    dtype: npt.DTypeLike,
    inputs: dict[str, tuple],
    outputs: dict[str, tuple],
    constants: dict[str, npt.NDArray],
) -> Any:
    """Return the body of a `Scan`.

    Inputs and outputs are {name: shape}. The body refers to no name outside of it, since skl2onnx
    may rename those.
    """

    def declare(tensors: dict[str, tuple]) -> list:
        element = tensor_type(dtype)
        return [helper.make_tensor_value_info(key, element, tensors[key]) for key in tensors]

    initializers = [numpy_helper.from_array(array, key) for key, array in constants.items()]
    return helper.make_graph(nodes, name, declare(inputs), declare(outputs), initializers)
