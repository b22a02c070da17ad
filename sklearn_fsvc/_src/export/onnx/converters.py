"""What skl2onnx asks of a converter: outputs, their types and shapes, their operators."""

import numpy as np
from onnx import helper
from skl2onnx import get_model_alias
from skl2onnx.common.data_types import (
    Int64TensorType,
    SequenceType,
    StringTensorType,
    guess_proto_type,
    guess_tensor_type,
)
from sklearn.utils.validation import check_is_fitted

from ...layers import DTYPES
from .hidden import Graph, add_layer
from .outputs import (
    add_decisions,
    add_labels,
    add_probabilities,
    add_scores,
    layer_for,
    tables,
    task_of,
)

# Probabilities are arrays whatever zipmap says: skl2onnx sets it where the user did not.
CLASSIFIER_OPTIONS = {"zipmap": [False, True], "raw_scores": [False, True]}


def _taken(operator):
    """A fitted model, and the dtype in which it takes the rows."""
    model = operator.raw_operator
    check_is_fitted(model)
    if len(operator.inputs) > 1:
        raise ValueError(
            f"{type(model).__name__} takes one array X, and the columns come as "
            f"{len(operator.inputs)} inputs; convert with X.to_numpy(), or put a "
            "sklearn.compose.ColumnTransformer first."
        )
    dtype = _dtype_of(operator.inputs[0].type)
    if dtype.kind not in "biuf":
        raise TypeError(f"X is of {operator.inputs[0].type!r}; it must be of numbers.")
    shape = operator.inputs[0].type.shape
    if len(shape) == 2 and shape[1] not in (None, model.n_features_in_):
        raise ValueError(
            f"X has {shape[1]} features, and {type(model).__name__} was fitted with "
            f"{model.n_features_in_}; convert with rows like those of fit."
        )
    return model, dtype if dtype in DTYPES else np.dtype(np.float64)


def _float_type(operator, width):
    """An array of the input's own type if that is of floats, else of float32."""
    found = guess_tensor_type(operator.inputs[0].type)
    found.shape = [operator.inputs[0].get_first_dimension(), width]
    return found


def _dtype_of(type_):
    return helper.tensor_dtype_to_np_dtype(guess_proto_type(type_))


def refuse_patches(operator):
    """Raise: there are no operators here for units on patches."""
    name = type(operator.raw_operator).__name__
    raise TypeError(
        f"{name} cannot be written as an ONNX model, nor can a pipeline with it: units on patches "
        "are not translated. Give an RBF or tanh estimator, or save the model with joblib or skops."
    )


def refuse_tables(operator):
    """Raise: what stands before a network in `make_tabular_pipeline` has no operators here."""
    raise TypeError(
        "What make_tabular_pipeline puts before a network, such as ranks and normal scores, cannot "
        "be written as an ONNX model. Convert the network alone, to_onnx(pipeline[-1], "
        "pipeline[:-1].transform(X)), and give it rows from pipeline[:-1].transform; or save the "
        "pipeline with joblib or skops."
    )


def shape_transformer(operator):
    model, dtype = _taken(operator)
    operator.outputs[0].type = _float_type(operator, layer_for(model, dtype).n_units)


def convert_transformer(scope, operator, container):
    model, dtype = _taken(operator)
    graph, out = Graph(scope, container), operator.outputs[0]
    H, _ = add_layer(graph, layer_for(model, dtype), operator.inputs[0].full_name)
    graph.put(graph.cast(H, _dtype_of(out.type)), out)


def shape_regressor(operator):
    model, _ = _taken(operator)
    operator.outputs[0].type = _float_type(operator, np.size(model._snapshot().target_mean_))


def convert_regressor(scope, operator, container):
    model, dtype = _taken(operator)
    graph, out = Graph(scope, container), operator.outputs[0]
    _check_range(model, _dtype_of(out.type))
    y = add_scores(graph, model, operator.inputs[0].full_name, dtype)
    graph.put(graph.cast(y, _dtype_of(out.type)), out)


def _check_range(model, dtype):
    """Raise where the numbers that a regressor answers are too large or too small for a dtype."""
    limits, scale = np.finfo(dtype), model.target_scale_
    largest = np.maximum(np.abs(model.target_mean_), scale)
    if (largest > limits.max / 1e6).any() or (scale < limits.tiny * 1e6).any():
        raise ValueError(
            f"y has the mean {model.target_mean_!r} and the standard deviation {scale!r}, beyond "
            f"the range of {dtype}; convert with float64 rows."
        )


def parse_classifier(scope, model, inputs, custom_parsers=None):
    """Declare ``label`` and ``probabilities``; ``scores`` of a model that has no such."""
    operator = scope.declare_local_operator(get_model_alias(type(model)), model)
    operator.inputs = inputs
    name = "probabilities" if _wants_probabilities(scope, model) else "scores"
    # The types are made right by `shape_classifier`.
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    operator.outputs.append(scope.declare_local_variable(name, guess_tensor_type(inputs[0].type)))
    return operator.outputs


def _wants_probabilities(scope, model):
    wants_scores = scope.get_options(model, {"raw_scores": False})["raw_scores"]
    return hasattr(model, "temperature_") and not wants_scores


def shape_classifier(operator):
    model, _ = _taken(operator)
    labels = task_of(model).labels
    are_words = tables(labels)[0].dtype.kind == "U"
    shape = [operator.inputs[0].get_first_dimension()]
    shape += [] if labels.is_single else [len(labels.classes_per_output)]
    operator.outputs[0].type = (StringTensorType if are_words else Int64TensorType)(shape)
    several = not (labels.is_single or labels.is_multilabel)
    numbers = _float_type(operator, None)
    operator.outputs[1].type = SequenceType(numbers) if several else numbers


def convert_classifier(scope, operator, container):
    model, dtype = _taken(operator)
    graph, labels = Graph(scope, container), task_of(model).labels
    label, numbers = operator.outputs
    scores = add_scores(graph, model, operator.inputs[0].full_name, dtype)
    graph.put(add_labels(graph, labels, scores), label)
    as_dtype = _dtype_of(_float_type(operator, None))
    if _wants_probabilities(scope, model):
        found = add_probabilities(graph, labels, model.temperature_, scores, as_dtype)
    else:
        found = add_decisions(graph, labels, scores, as_dtype)
    graph.put(found, numbers)
