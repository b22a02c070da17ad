"""Targets with a heavy tail: a few rows decide a readout that minimises squares."""

import numpy as np
from scipy.special import ndtri
from scipy.stats import kurtosis, rankdata

from ..user_warnings import warn

# Kurtosis beyond that of a normal distribution, of targets that are warned of. An exponential
# distribution has 6, and what has logarithms of a normal distribution of deviation 1 has 111.
_HEAVY = 30.0
# A transform is worth a word if it leaves less than this part of it.
_LIGHTER = 0.25

# Numbers whose powers are in memory at a time.
_AT_A_TIME = 2**15
_REMEDIES = {
    "log": "func=np.log, inverse_func=np.exp",
    "log1p": "func=np.log1p, inverse_func=np.expm1",
    "quantiles": 'transformer=QuantileTransformer(output_distribution="normal")',
}


def warn_heavy_tail(name, targets, weight=None):
    """Warn of outputs whose tail is heavy and that a transform makes light, and say which.

    `name` is the class of the regressor.
    """
    # The values have mean 0 and variance 1. Most y pay for no more than this.
    for k in np.flatnonzero(_fourth_moments(targets.values, weight) - 3 > _HEAVY):
        y = targets.column(k)
        remedy = _remedy(y if weight is None else y[weight > 0])
        if remedy:
            which = "y" if targets.n_outputs == 1 else f"Column {k} of y"
            warn(
                f"{which} has a heavy tail: few large values decide a fit of squared errors, and "
                "most rows are predicted badly. Fit it transformed: TransformedTargetRegressor("
                f"{name}(...), {_REMEDIES[remedy]}), of sklearn.compose."
            )


def _fourth_moments(values, weight):
    """Weighted means of the fourth powers of each column, few rows at a time."""
    step, total = max(1, _AT_A_TIME // values.shape[1]), 0.0
    weight = np.ones(len(values)) if weight is None else weight
    for start in range(0, len(values), step):
        part = slice(start, start + step)
        # Two products are far faster than a power.
        total = total + weight[part] @ np.square(np.square(values[part]))
    return total / weight.sum()


def _remedy(y):
    """The first transform that leaves no heavy tail, None where all do."""
    most = _LIGHTER * kurtosis(y)
    if y.min() > 0 and kurtosis(np.log(y)) < most:
        return "log"
    if y.min() >= 0 and kurtosis(np.log1p(y)) < most:
        return "log1p"
    # Ranks are even where values are; of rows that share one value most are where they were.
    return "quantiles" if kurtosis(ndtri((rankdata(y) - 0.5) / len(y))) < most else None
