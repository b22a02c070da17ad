"""Imputation and scaling of numerical features as ONNX operators, in float64."""

from collections.abc import Callable
from math import sqrt

import numpy as np

from ...tabular.numerical_interactions import NumericalInteractionEncoder
from ...tabular.scalers import MedianImputer, RankOrValueScaler, RankScaler, ValueScaler
from .graph import add_rational, add_search, flatten_sorted

# M. J. Wichura (1988), "Algorithm AS 241: The percentage points of the normal distribution",
# PPND7, of relative error 1e-7: coefficients of numerators and denominators, highest powers first.
# z / q for q = p - 1/2 is a function of 0.425^2 - q^2 up to |q| = 0.425; beyond, |z| is a function
# of sqrt(-log(min(p, 1 - p))) - 1.6.
_MIDDLE = (
    (59.109374720, 159.29113202, 50.434271938, 3.3871327179),
    (67.187563600, 78.757757664, 17.895169469, 1.0),
)
_TAIL = (
    (0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777),
    (0.12021132975, 0.73700164250, 1.0),
)


def _add_imputation(graph, imputer, X, dtype):
    """Add `MedianImputer.transform`: medians are rounded to the dtype of X."""
    return graph.add("Where", graph.add("IsNaN", X), imputer.statistics_.astype(dtype), X)


def _add_rank_scores(graph, scaler, X, dtype):
    """Add `RankScaler.transform`."""
    X, quantiles = graph.cast(X, np.float64), scaler.quantiles_.astype(np.float64)
    X = graph.add("Max", graph.add("Min", X, quantiles[-1]), quantiles[0])
    position = add_search(graph, quantiles, X)

    def lookup(table):
        return graph.add("Gather", flatten_sorted(table), position)

    # Between two quantiles ranks are interpolated.
    references = np.broadcast_to(scaler.references_[:, None], quantiles.shape)
    step = 1 / max(len(quantiles) - 1, 1)
    gaps = np.diff(quantiles, axis=0, append=quantiles[-1:])
    low = lookup(quantiles)
    share = graph.add("Div", graph.add("Sub", X, low), lookup(np.where(gaps > 0, gaps, 1)))
    between = graph.add("Add", lookup(references), graph.add("Mul", share, np.float64(step)))
    ranks = graph.add("Where", graph.add("Equal", X, low), lookup(_midranks(quantiles)), between)
    ranks = graph.add("Min", graph.add("Max", ranks, scaler.ends_[0]), scaler.ends_[1])
    return _add_combined_scores(graph, graph.cast(ranks, np.float32))


def _midranks(quantiles):
    """Return the ranks of the quantiles themselves: equal ones have the middle of their ranks.

    But the smallest value has rank 0, and the largest rank 1.
    """
    sums = [np.searchsorted(q, q) + np.searchsorted(q, q, "right") for q in quantiles.T]
    ranks = (np.transpose(sums) - 1) / 2 / max(len(quantiles) - 1, 1)
    ranks[quantiles == quantiles[-1]] = 1
    ranks[quantiles == quantiles[0]] = 0
    return ranks


def _add_combined_scores(graph, ranks):
    """Add `combine_scores`."""
    p = graph.cast(ranks, np.float64)
    q = graph.add("Sub", p, np.float64(0.5))
    r = graph.add("Sub", np.float64(0.425**2), graph.add("Mul", q, q))
    middle = graph.add("Mul", q, add_rational(graph, _MIDDLE, r))
    outside = graph.add("Min", p, graph.add("Sub", np.float64(1), p))
    r = graph.add("Sqrt", graph.add("Neg", graph.add("Log", outside)))
    tail = add_rational(graph, _TAIL, graph.add("Sub", r, np.float64(1.6)))
    is_middle = graph.add("LessOrEqual", graph.add("Abs", q), np.float64(0.425))
    z = graph.add("Where", is_middle, middle, graph.add("Mul", graph.add("Sign", q), tail))
    return graph.add(
        "Add", graph.add("Mul", z, np.float64(0.5)), graph.add("Mul", q, np.float64(sqrt(3)))
    )


def _add_values(graph, scaler, X, dtype):
    """Add `ValueScaler.transform`."""
    X, standard = graph.cast(X, np.float64), scaler.scaler_
    # Only the factor of a column of denormal numbers would be infinite.
    X = graph.add("Mul", X, np.ldexp(1.0, np.minimum(-scaler.exponents_, 1023)))
    lower, upper = scaler.limits_
    X = graph.add("Max", graph.add("Min", X, upper), lower)
    return graph.add("Div", graph.add("Sub", X, standard.mean_), standard.scale_)


def _add_ranks_or_values(graph, scaler, X, dtype):
    """Add `RankOrValueScaler.transform`."""
    if scaler.value_scaler_ is None:
        return _add_rank_scores(graph, scaler, X, dtype)
    return _add_values(graph, scaler.value_scaler_, X, dtype)


def _add_pairs(graph, encoder, X, dtype):
    """Add `NumericalInteractionEncoder.transform`, with at least one interaction."""
    X, largest = graph.cast(X, np.float64), np.finfo(np.float64).max
    features = []
    for operator, i, j, *centres in encoder.interactions_:
        a, b = (graph.add("Gather", X, np.array([column]), axis=1) for column in (i, j))
        if operator == "*":
            a, b = (graph.add("Sub", *pair) for pair in zip((a, b), centres, strict=True))
        feature = graph.add({"==": "Equal", "-": "Sub", "/": "Div", "*": "Mul"}[operator], a, b)
        feature = graph.cast(feature, np.float64)
        if operator == "/":
            is_zero = graph.add("Equal", b, np.float64(0))
            feature = graph.add("Where", is_zero, np.float64(0), feature)
        features.append(feature)
    H = graph.add("Concat", *features, axis=1)
    H = graph.add("Max", graph.add("Min", H, largest), -largest)
    return _add_rank_scores(graph, encoder.scaler_, H, np.dtype(np.float64))


# Type of a step -> function of the graph, the fitted step, the name of X and its dtype, which
# returns the name of the output.
NUMERICAL_STEPS: dict[type, Callable[..., str]] = {
    MedianImputer: _add_imputation,
    NumericalInteractionEncoder: _add_pairs,
    RankOrValueScaler: _add_ranks_or_values,
    RankScaler: _add_rank_scores,
    ValueScaler: _add_values,
}
