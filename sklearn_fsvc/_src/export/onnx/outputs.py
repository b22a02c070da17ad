"""Outputs of networks and ensembles as ONNX operators: scores, labels, probabilities, targets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...data.streaming import compute_dtype
from ...layers import hidden_dtype
from ...parts.composition import layer_of, parts_of
from ...readouts.uncovered import least_activity
from ...stacking.ensemble import StackedEnsemble
from ...targets.classes import calibrations_of
from ...targets.transforms import ShiftedLog, TargetTransformer
from .graph import GraphBuilder, add_rational, int64
from .layers import add_layer

# Numerator and denominator of cdf(-x) / exp(-x^2 / 2) of the normal distribution for x from 0 to
# 7.07, highest powers first; the relative error is at most 3e-9. From G. West (2005), "Better
# approximations to cumulative normal functions". onnxruntime has Erf for float32 alone.
_LOWER_TAIL = (
    (
        3.52624965998911e-02, 0.700383064443688, 6.37396220353165, 33.912866078383,
        112.079291497871, 221.213596169931, 220.206867912376,
    ),
    (
        8.83883476483184e-02, 1.75566716318264, 16.064177579207, 86.7807322029461,
        296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752,
    ),
)  # fmt: skip


def layer_for(model: Any, dtype: np.dtype) -> Any:
    """Return the layer of a fitted estimator, in the dtype in which it computes such inputs."""
    layer = layer_of(model)
    return layer.astype(compute_dtype(layer.units.dtype, dtype))


def target_of(model: Any) -> Any:
    """Return the target of a fitted network or ensemble."""
    parts = model._stacked_parts() if isinstance(model, StackedEnsemble) else parts_of(model)
    return parts.target


def label_tables(labels: Any) -> list[npt.NDArray]:
    """Return the classes of each output as int64, or as strings in all of them.

    Raises ValueError for other classes. The outputs are columns of one tensor, of one dtype.
    """
    classes = np.concatenate(labels.classes_per_output)
    tables = classes.astype(str if classes.dtype.kind in "OUT" else np.int64)
    if not (tables == classes).all():
        raise ValueError(
            f"classes_={labels.classes!r}: a label in ONNX is a string or an int64; fit with codes "
            "instead of labels (sklearn.preprocessing.LabelEncoder)."
        )
    return np.split(tables, np.cumsum([len(each) for each in labels.classes_per_output])[:-1])


def add_scores(graph: GraphBuilder, model: Any, X: str, dtype: npt.DTypeLike) -> str:
    """Add the scores of a fitted network or ensemble.

    Parameters
    ----------
    graph : GraphBuilder
    model : Network or StackedEnsemble
    X : str
        Name of the input.
    dtype : dtype
        In which the model is to receive it.

    Returns
    -------
    str
        Name of the scores (rows, n_scores), float64, as of the estimators.
    """
    model = model._snapshot()
    if isinstance(model, StackedEnsemble):
        scores = _add_ensemble_scores(graph, model, X, dtype)
        parts = model._stacked_parts()
        if parts.score_map is not None:
            coef, constants = parts.score_map
            return graph.add("Add", graph.add("MatMul", scores, coef.T), constants)
        offset = parts.weighting.score_offset
        return graph.add("Sub", scores, np.array([offset])) if offset else scores
    parts = parts_of(model)
    layer = layer_for(model, np.dtype(dtype))
    H, sums = add_layer(graph, layer, X)
    scores = _add_readout(
        graph, parts.readout.readout_coef_, parts.readout.readout_intercept_, H, layer.hidden_dtype
    )
    if parts.nearest_scores is None:
        return scores
    # Samples outside all units get the scores of the nearest centre.
    center_scores = parts.nearest_scores.astype(np.float64)
    nearest = graph.add("Gather", center_scores, graph.add("ArgMin", sums, axis=1, keepdims=0))
    activity = graph.add("ReduceSum", H, int64(1), keepdims=1)
    least = np.full(1, least_activity(layer.hidden_dtype), layer.hidden_dtype)
    is_uncovered = graph.add("LessOrEqual", activity, least)
    return graph.add("Where", is_uncovered, nearest, scores)


def _add_ensemble_scores(graph, ensemble, X, dtype):
    """Add the weighted sum of the scores of all networks, corrected by the final estimator."""
    total = ensemble.intercept_
    for weight, member in zip(ensemble.weights_, ensemble.estimators_, strict=True):
        scores = add_scores(graph, member, X, dtype)
        total = graph.add("Add", total, _add_product(graph, scores, weight))
    final, share = ensemble.final_estimator_, ensemble.final_weight_
    if final is None:
        return total
    # The final estimator receives the features of X and those of the stacked scores, which are an
    # affine function of the scores: its values at 0 and 1 define it.
    parts, dtype = ensemble._stacked_parts(), hidden_dtype(dtype)
    shape = 1, len(ensemble.intercept_)
    offset = parts.weighting.as_features(parts.target, np.zeros(shape))
    slope = parts.weighting.as_features(parts.target, np.ones(shape)) - offset
    features = graph.add("Add", graph.add("Mul", total, slope), offset)
    both = graph.add("Concat", graph.cast(X, dtype), graph.cast(features, dtype), axis=1)
    final_scores = add_scores(graph, final, both, dtype)
    return graph.add(
        "Add",
        _add_product(graph, total, 1 - share),
        _add_product(graph, final_scores, share),
    )


def _add_product(graph, scores, weight):
    return graph.add("Mul", scores, np.array([weight]))


def _add_readout(graph, W, b, H, dtype):
    """Add ``H W' + b``, each output relative to a unit of its own, as `LinearPredictor` does.

    Targets may be of any magnitude, and onnxruntime drops a b that float32 rounds to 0. Units are
    powers of two, and hence exact.
    """
    largest = np.maximum(np.abs(W).max(axis=1), np.abs(b)).astype(np.float64)
    unit = np.ldexp(1.0, np.frexp(largest)[1])
    columns = np.ascontiguousarray((W / unit[:, None]).T, dtype)
    scores = graph.cast(graph.add("MatMul", H, columns), np.float64)
    return graph.add("Mul", graph.add("Add", scores, b / unit), unit)


def add_labels(graph: GraphBuilder, labels: Any, scores: str) -> str:
    """Add the output of `predict`: the name of (rows,), or of (rows, n_outputs)."""
    columns = []
    for part, table in zip(_add_split(graph, labels, scores), label_tables(labels), strict=True):
        if len(table) == 2:
            score = graph.add("Squeeze", part, int64(1))
            code = graph.cast(graph.add("Greater", score, np.zeros(1)), np.int64)
        else:
            code = graph.add("ArgMax", part, axis=1, keepdims=0)
        columns.append(graph.add("Gather", table, code))
    if labels.is_single:
        return columns[0]
    axis = int64(1)
    return graph.add("Concat", *[graph.add("Unsqueeze", c, axis) for c in columns], axis=1)


def add_probabilities(
    graph: GraphBuilder, model: Any, labels: Any, scores: str, dtype: npt.DTypeLike
) -> str:
    """Add the output of `predict_proba`: an array, or a sequence of one per output."""
    class_scores = _add_class_scores(graph, labels, scores, [-0.5, 0.5])
    triples = zip(class_scores, labels.classes_per_output, calibrations_of(model), strict=True)
    parts = [_add_softmax(graph, part, len(classes), *c) for part, classes, c in triples]
    if labels.is_multilabel:
        present = [graph.add("Gather", part, int64(1), axis=1) for part in parts]
        return graph.cast(graph.add("Concat", *present, axis=1), dtype)
    return _add_sequence(graph, labels, [graph.cast(part, dtype) for part in parts])


def _add_softmax(graph, scores, n_classes, temperature, score_scale, offset):
    """Add the probabilities of scores (n_rows, n_classes), as `calibration.probabilities`."""
    if score_scale is not None:
        of_zero = 0.5 + np.array([-0.5, 0.5]) * offset
        if n_classes == 2:
            scores = graph.add("Add", scores, of_zero)
        scores = _add_arcsinh(graph, graph.add("Div", scores, np.array([score_scale])))
        if offset:  # logits are relative to those of the score 0
            scores = graph.add("Sub", scores, np.arcsinh(of_zero / score_scale))
    return graph.add("Softmax", graph.add("Div", scores, np.array([temperature])), axis=1)


def _add_arcsinh(graph, x):
    """Add ``sign(x) * log(|x| + sqrt(x^2 + 1))``: onnxruntime has Asinh of float32 only."""
    root = graph.add("Sqrt", graph.add("Add", graph.add("Mul", x, x), np.ones(1)))
    size = graph.add("Log", graph.add("Add", graph.add("Abs", x), root))
    return graph.add("Mul", graph.add("Sign", x), size)


def add_decisions(graph: GraphBuilder, labels: Any, scores: str, dtype: npt.DTypeLike) -> str:
    """Add decision values: an array, or a sequence of one per output.

    There is a column per label or class. Of two classes the first one has minus the decision
    value, as in skl2onnx's converters of scikit-learn's classifiers.
    """
    scores = graph.cast(scores, dtype)
    if labels.is_multilabel:
        return scores
    signs = np.array([-1, 1], dtype)
    return _add_sequence(graph, labels, _add_class_scores(graph, labels, scores, signs))


def _add_class_scores(graph, labels, scores, binary_factors):
    """Add the scores of each output with a column per class; for two, times `binary_factors`.

    The operator is Mul, since onnxruntime 1.26 to 1.31 fuses a MatMul with a division by a
    scalar, which it then rounds to float32.
    """
    parts = _add_split(graph, labels, scores)
    factors = np.asarray(binary_factors)[None]
    return [
        graph.add("Mul", part, factors) if len(classes) == 2 else part
        for part, classes in zip(parts, labels.classes_per_output, strict=True)
    ]


def _add_sequence(graph: GraphBuilder, labels: Any, parts: Sequence[str]) -> str:
    """Add scikit-learn's form: an array for one output, a sequence for several."""
    return parts[0] if labels.is_single else graph.add("SequenceConstruct", *parts)


def _add_split(graph, labels, scores):
    """Add `Labels.split_scores`: the scores of each output."""
    if labels.is_single:
        return [scores]
    n_scores = len(labels.scores_of(np.zeros(sum(map(len, labels.classes_per_output))), axis=0))
    parts = labels.split_scores(np.arange(n_scores)[None])
    return [graph.add("Gather", scores, part[0], axis=1) for part in parts]


def add_inverse_mean(
    graph: GraphBuilder, transformer: TargetTransformer, residuals: npt.NDArray, z: str
) -> str:
    """Add `TargetTransformer.inverse_mean`.

    Parameters
    ----------
    graph : GraphBuilder
    transformer : TargetTransformer
    residuals : ndarray of shape (n_quantiles, n_columns)
    z : str
        Name of the predictions (rows, n_columns) of the transformed y, float64.

    Returns
    -------
    str
        Name of the predictions of y, of the same shape.
    """
    columns, mean = [], np.full((len(residuals), 1), 1 / len(residuals))
    for k, each in enumerate(transformer.transformers_):
        column = graph.add("Gather", z, int64(k), axis=1)
        if each is not None:
            low, high = transformer.range_[:, k]
            shifted = graph.add("Add", column, residuals[:, k])
            shifted = graph.add("Max", graph.add("Min", shifted, high), low)
            column = graph.add("MatMul", _add_inverse(graph, each, shifted), mean)
        columns.append(column)
    return graph.add("Concat", *columns, axis=1)


def _add_inverse(graph, transformer, z):
    """Add the inverse of the transform of one column of y."""
    if isinstance(transformer, ShiftedLog):
        return graph.add("Sub", graph.add("Exp", z), transformer.shift_)
    scaler, quantiles = (step for _, step in transformer.steps)
    table = quantiles.quantiles_[:, 0] * scaler.scale_ + scaler.center_
    position = graph.add("Mul", _add_normal_cdf(graph, z), np.float64(len(table) - 1))
    below = graph.add("Min", graph.add("Floor", position), np.float64(len(table) - 2))
    index = graph.cast(below, np.int64)
    gap = graph.add("Gather", np.diff(table), index)
    beyond = graph.add("Mul", graph.add("Sub", position, below), gap)
    return graph.add("Add", graph.add("Gather", table, index), beyond)


def _add_normal_cdf(graph, z):
    density = graph.add("Exp", graph.add("Mul", graph.add("Mul", z, z), np.float64(-0.5)))
    tail = graph.add("Mul", density, add_rational(graph, _LOWER_TAIL, graph.add("Abs", z)))
    is_positive = graph.add("Greater", z, np.float64(0))
    return graph.add("Where", is_positive, graph.add("Sub", np.float64(1), tail), tail)
