"""What a network answers, as ONNX operators: scores, labels, probabilities."""

import numpy as np

from ...data.streaming import compute_dtype
from ...layers import hidden_dtype
from ...parts import layer_of, parts_of
from ...readouts.linear import least_activity
from ...stacking.ensemble import StackedEnsemble
from .hidden import add_layer, whole


def layer_for(model, dtype):
    """The layer of a fitted estimator, as it meets rows of a dtype."""
    layer = layer_of(model)
    return layer.astype(compute_dtype(layer.units.dtype, dtype))


def add_scores(graph, model, X, dtype):
    """Return the name of the scores (rows, n_scores), float64, of rows X, as of a `PredictionRun`.

    The model, a `Network` or `StackedEnsemble`, is fitted; `dtype` is that of X as it takes them.
    """
    model = model._snapshot()
    if isinstance(model, StackedEnsemble):
        return _mixed(graph, model, X, dtype)
    parts = parts_of(model)
    layer = layer_for(model, dtype)
    H, sums = add_layer(graph, layer, X)
    W, b = parts.readout.readout_coef_, parts.readout.readout_intercept_
    scores = _readout(graph, W, b, H, layer.hidden_dtype)
    if parts.nearest_scores is None:
        return scores
    # Rows that no unit covers have the scores of the nearest unit.
    of_units = parts.nearest_scores.astype(np.float64)
    nearest = graph.add("Gather", of_units, graph.add("ArgMin", sums, axis=1, keepdims=0))
    activity = graph.add("ReduceSum", H, whole(1), keepdims=1)
    least = np.full(1, least_activity(layer.hidden_dtype), layer.hidden_dtype)
    is_uncovered = graph.add("LessOrEqual", activity, least)
    return graph.add("Where", is_uncovered, nearest, scores)


def _mixed(graph, ensemble, X, dtype):
    """The sum of the scores of all networks, with their weights."""
    total = ensemble.intercept_
    for weight, member in zip(ensemble.weights_, ensemble.estimators_, strict=True):
        total = graph.add("Add", total, _times(graph, weight, add_scores(graph, member, X, dtype)))
    final, share = ensemble.final_estimator_, ensemble.final_weight_
    if final is None:
        return total
    parts, seen = ensemble._stacked_parts(), hidden_dtype(dtype)
    origin = parts.weighting.as_features(parts.task, np.zeros((1, len(ensemble.intercept_))))
    unit = parts.weighting.as_features(parts.task, np.ones((1, len(ensemble.intercept_)))) - origin
    beside = graph.add("Add", graph.add("Mul", total, unit), origin)
    wide = graph.add("Concat", graph.cast(X, seen), graph.cast(beside, seen), axis=1)
    corrected = _times(graph, share, add_scores(graph, final, wide, seen))
    return graph.add("Add", _times(graph, 1 - share, total), corrected)


def _times(graph, weight, scores):
    return graph.add("Mul", scores, np.array([weight]))


def task_of(model):
    """The task of a fitted network or ensemble."""
    parts = model._stacked_parts() if isinstance(model, StackedEnsemble) else parts_of(model)
    return parts.task


def _readout(graph, W, b, H, dtype):
    """``H W' + b``, in a unit of its own for each output, as in `LinearReadout`.

    For y may be of any size, and onnxruntime leaves out a b that float32 takes for 0. Units are
    powers of two, so that they round nothing.
    """
    largest = np.maximum(np.abs(W).max(axis=1), np.abs(b)).astype(np.float64)
    unit = np.ldexp(1.0, np.frexp(largest)[1])
    columns = np.ascontiguousarray((W / unit[:, None]).T, dtype)
    scores = graph.cast(graph.add("MatMul", H, columns), np.float64)
    return graph.add("Mul", graph.add("Add", scores, b / unit), unit)


def tables(labels):
    """Return the classes of each output in the types of ONNX: int64, or strings in all of them.

    ValueError for numbers that are no int64.
    """
    # Of several outputs the answers stand side by side, in one dtype.
    classes = np.concatenate(labels.classes_per_output)
    known = classes.astype(str if classes.dtype.kind in "OUT" else np.int64)
    if not (known == classes).all():
        raise ValueError(
            f"classes_={labels.classes!r}: a label in ONNX is a string or an int64; fit with codes "
            "in the place of labels (sklearn.preprocessing.LabelEncoder makes them)."
        )
    return np.split(known, np.cumsum([len(each) for each in labels.classes_per_output])[:-1])


def add_labels(graph, labels, scores):
    """What `predict` says to scores: the name of (rows,), or of (rows, n_outputs)."""
    columns = []
    for part, table in zip(_split(graph, labels, scores), tables(labels), strict=True):
        if len(table) == 2:
            score = graph.add("Squeeze", part, whole(1))
            code = graph.cast(graph.add("Greater", score, np.zeros(1)), np.int64)
        else:
            code = graph.add("ArgMax", part, axis=1, keepdims=0)
        columns.append(graph.add("Gather", table, code))
    if labels.is_single:
        return columns[0]
    between = whole(1)
    return graph.add("Concat", *[graph.add("Unsqueeze", c, between) for c in columns], axis=1)


def add_probabilities(graph, labels, temperatures, scores, dtype):
    """What `predict_proba` says: an array, or of several outputs a sequence of them."""
    if labels.is_multilabel:
        p = graph.add("Sigmoid", graph.add("Div", scores, np.asarray(temperatures)))
        return graph.cast(p, dtype)
    logits = _by_class(graph, labels, scores, [-0.5, 0.5])
    pairs = zip(logits, np.atleast_1d(temperatures), strict=True)
    cooled = [graph.add("Div", part, np.array([t])) for part, t in pairs]
    parts = [graph.cast(graph.add("Softmax", part, axis=1), dtype) for part in cooled]
    return _told(graph, labels, parts)


def add_decisions(graph, labels, scores, dtype):
    """Decision values: an array, or of several outputs a sequence of them.

    With a column for each label, or for each class: of two classes, too, minus the decision
    value is that of the first one. So scikit-learn's classifiers are converted.
    """
    scores = graph.cast(scores, dtype)
    if labels.is_multilabel:
        return scores
    of_two = np.array([-1, 1], dtype)
    return _told(graph, labels, _by_class(graph, labels, scores, of_two))


def _by_class(graph, labels, scores, of_two):
    """Scores of each output with a column for each class; two have one times `of_two`.

    By Mul: onnxruntime 1.26 to 1.31 makes one operator of a MatMul and a division by a number
    beside it, and has that number in float32.
    """
    parts = _split(graph, labels, scores)
    pairs = zip(parts, labels.classes_per_output, strict=True)
    both = np.asarray(of_two)[None]
    return [graph.add("Mul", part, both) if len(k) == 2 else part for part, k in pairs]


def _told(graph, labels, parts):
    """Return scikit-learn's shapes: of one output an array, of several a list."""
    return parts[0] if labels.is_single else graph.add("SequenceConstruct", *parts)


def _split(graph, labels, scores):
    """Do what `Labels.split` does."""
    if labels.is_single:
        return [scores]
    numbers = labels.scores_of(np.zeros(sum(map(len, labels.classes_per_output))), axis=0)
    parts = labels.split_scores(np.arange(len(numbers))[None])
    return [graph.add("Gather", scores, part[0], axis=1) for part in parts]
