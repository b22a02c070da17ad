"""Converters of skl2onnx: types and shapes of outputs, and their operators."""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper
from skl2onnx import get_model_alias
from skl2onnx.common.data_types import (
    FloatTensorType,
    Int64TensorType,
    SequenceType,
    StringTensorType,
    guess_data_type,
    guess_proto_type,
    guess_tensor_type,
)
from sklearn.utils.validation import check_is_fitted

from ...layers import DTYPES
from ...tabular.categories import CategoryEncoder
from ...tabular.table_transformer import TableTransformer
from ..unwrap import steps_of
from .graph import GraphBuilder
from .layers import add_layer
from .outputs import (
    add_decisions,
    add_inverse_mean,
    add_labels,
    add_probabilities,
    add_scores,
    label_tables,
    layer_for,
    target_of,
)
from .tables import TableInputs, add_table

# zipmap has no effect: probabilities are arrays. But skl2onnx sets it where the user did not.
CLASSIFIER_OPTIONS = {"zipmap": [False, True], "raw_scores": [False, True]}

_NUMERIC_DTYPES = ("float32", "float64", "uint8", "int8", "int32", "int64")


def check_dtype(name: str, dtype: npt.DTypeLike) -> None:
    """Raise TypeError for numbers of a dtype without a type in skl2onnx: `name` has it."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iufc" and dtype.name not in _NUMERIC_DTYPES:
        raise TypeError(
            f"{name} has the dtype {dtype}, which skl2onnx does not support; convert it to one of "
            f"{', '.join(_NUMERIC_DTYPES)}."
        )


def check_categories(model: Any, table: Any) -> None:
    """Raise TypeError for dates or durations that are categories: onnxruntime takes no such arrays.

    If they are numerical features, the converter of their transformer raises.
    """
    parts = [
        part
        for step in steps_of(model)
        if isinstance(step, TableTransformer)
        for part in step.transformers_
    ]
    positions = {
        j for _, step, columns in parts if isinstance(step, CategoryEncoder) for j in columns
    }
    for j, name in enumerate(table.columns):
        dtype = np.asarray(table[name]).dtype
        if j in positions and dtype.kind in "mM":
            raise TypeError(
                f"Column {name!r} of X ({dtype}) holds dates or durations as categories, which "
                "onnxruntime does not accept; convert the column to text, astype(str), before fit."
            )


def column_types(table: Any) -> list[tuple[str, Any]]:
    """Return the name and the type of the input of each column of a DataFrame.

    skl2onnx supports no dtypes but NumPy's. What is neither a number nor a bool becomes a string.
    """
    types = []
    for name in table.columns:
        dtype = np.asarray(table[name]).dtype
        check_dtype(f"Column {name!r} of X", dtype)
        example = np.empty((1, 1), dtype if dtype.kind in "biuf" else object)
        [(_, tensor)] = guess_data_type(example)
        tensor.shape = [None, 1]
        types.append((str(name), tensor))
    return types


def shape_transformer(operator: Any) -> None:
    """Set the type and shape of ``variable``."""
    model, dtype = _model_and_dtype(operator)
    operator.outputs[0].type = _float_type(operator, layer_for(model, dtype).n_units)


def convert_transformer(scope: Any, operator: Any, container: Any) -> None:
    """Add the operators of `transform`."""
    model, dtype = _model_and_dtype(operator)
    graph, output = GraphBuilder(scope, container), operator.outputs[0]
    H, _ = add_layer(graph, layer_for(model, dtype), operator.inputs[0].full_name)
    graph.assign(graph.cast(H, _dtype_of(output.type)), output)


def shape_regressor(operator: Any) -> None:
    """Set the type and shape of ``variable``."""
    model, _ = _model_and_dtype(operator)
    operator.outputs[0].type = _float_type(operator, np.size(model._snapshot().target_mean_))


def convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    """Add the operators of `predict`."""
    model, dtype = _model_and_dtype(operator)
    graph, output = GraphBuilder(scope, container), operator.outputs[0]
    _check_range(model, _dtype_of(output.type))
    y = add_scores(graph, model, operator.inputs[0].full_name, dtype)
    transformer = getattr(model, "target_transformer_", None)
    if transformer is not None:
        y = add_inverse_mean(graph, transformer, model.smearing_, y)
    graph.assign(graph.cast(y, _dtype_of(output.type)), output)


def parse_classifier(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare ``label`` and ``probabilities``, or ``scores`` without `predict_proba`."""
    operator = scope.declare_local_operator(get_model_alias(type(model)), model)
    operator.inputs = inputs
    name = "probabilities" if _outputs_probabilities(scope, model) else "scores"
    # `shape_classifier` corrects these types.
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable(name, guess_tensor_type(inputs[0].type)))
    return operator.outputs


def shape_classifier(operator: Any) -> None:
    """Set the types and shapes of both outputs of a classifier."""
    model, _ = _model_and_dtype(operator)
    labels = target_of(model).labels
    is_text = label_tables(labels)[0].dtype.kind == "U"
    shape = [operator.inputs[0].get_first_dimension()]
    shape += [] if labels.is_single else [len(labels.classes_per_output)]
    operator.outputs[0].type = (StringTensorType if is_text else Int64TensorType)(shape)
    is_sequence = not (labels.is_single or labels.is_multilabel)
    array = _float_type(operator, None)
    operator.outputs[1].type = SequenceType(array) if is_sequence else array


def convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Add the operators of `predict`, and of `predict_proba` or `decision_function`."""
    model, dtype = _model_and_dtype(operator)
    graph, labels = GraphBuilder(scope, container), target_of(model).labels
    label, values = operator.outputs
    scores = add_scores(graph, model, operator.inputs[0].full_name, dtype)
    graph.assign(add_labels(graph, labels, scores), label)
    values_dtype = _dtype_of(_float_type(operator, None))
    if _outputs_probabilities(scope, model):
        name = add_probabilities(graph, model, labels, scores, values_dtype)
    else:
        name = add_decisions(graph, labels, scores, values_dtype)
    graph.assign(name, values)


def refuse_patches(operator: Any) -> None:
    """Raise TypeError: units on patches of images are not supported."""
    name = type(operator.raw_operator).__name__
    raise TypeError(
        f"{name} cannot be exported to ONNX, alone or in a pipeline: units on patches are not "
        "supported. Use an RBF or tanh estimator, or save the model with joblib or skops."
    )


def parse_table(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare ``variable``, of float32 whatever the inputs are."""
    operator = scope.declare_local_operator(get_model_alias(type(model)), model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("variable", FloatTensorType()))
    return operator.outputs


def shape_table(operator: Any) -> None:
    """Set the shape of ``variable``."""
    table, first = operator.raw_operator, operator.inputs[0]
    width = max(indices.stop for indices in table.output_indices_.values())
    operator.outputs[0].type = FloatTensorType([first.get_first_dimension(), width])


def convert_table(scope: Any, operator: Any, container: Any) -> None:
    """Add the operators of the preprocessing of `make_tabular_pipeline`."""
    table, graph = operator.raw_operator, GraphBuilder(scope, container)
    inputs = [(x.full_name, _dtype_of(x.type), x.type.shape[1]) for x in operator.inputs]
    n_columns = sum(width for _, _, width in inputs)
    if n_columns != table.n_features_in_:
        raise ValueError(
            f"X has {n_columns} columns, and the preprocessing was fitted with "
            f"{table.n_features_in_}; convert with the columns of fit."
        )
    graph.assign(add_table(graph, table, TableInputs(graph, inputs)), operator.outputs[0])


def _model_and_dtype(operator):
    """Return the fitted model of an operator, and the dtype in which it receives its input."""
    model = operator.raw_operator
    check_is_fitted(model)
    if len(operator.inputs) > 1:
        raise ValueError(
            f"{type(model).__name__} takes one array X, and there are {len(operator.inputs)} "
            "inputs, one per column; convert with X.to_numpy(), or put a "
            "sklearn.compose.ColumnTransformer first."
        )
    dtype = _dtype_of(operator.inputs[0].type)
    if dtype.kind not in "biuf":
        raise TypeError(f"X has type {operator.inputs[0].type!r}; it must be numeric.")
    shape = operator.inputs[0].type.shape
    if len(shape) == 2 and shape[1] not in (None, model.n_features_in_):
        raise ValueError(
            f"X has {shape[1]} features, and {type(model).__name__} was fitted with "
            f"{model.n_features_in_}; convert with the features of fit."
        )
    return model, dtype if dtype in DTYPES else np.dtype(np.float64)


def _float_type(operator, width):
    """Return the type of an output: that of the input if it is a float, else float32."""
    tensor = guess_tensor_type(operator.inputs[0].type)
    tensor.shape = [operator.inputs[0].get_first_dimension(), width]
    return tensor


def _dtype_of(tensor: Any) -> np.dtype:
    return helper.tensor_dtype_to_np_dtype(guess_proto_type(tensor))


def _check_range(model: Any, dtype: npt.DTypeLike) -> None:
    """Raise ValueError if predictions of a regressor are beyond the range of a dtype."""
    limits, scale = np.finfo(dtype), model.target_scale_
    largest = np.maximum(np.abs(model.target_mean_), scale)
    if (largest > limits.max / 1e6).any() or (scale < limits.tiny * 1e6).any():
        raise ValueError(
            f"y has the mean {model.target_mean_!r} and the standard deviation {scale!r}, beyond "
            f"the range of {dtype}; convert with float64 rows, or fit with y in other units."
        )


def _outputs_probabilities(scope, model):
    returns_scores = scope.get_options(model, {"raw_scores": False})["raw_scores"]
    # After `partial_fit` only the solved model has a temperature.
    return not returns_scores and hasattr(model._snapshot(), "temperature_")
