"""A graph of ONNX operators, written node by node."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

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
