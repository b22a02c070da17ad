"""The task of a regressor: numbers of one or several outputs, in units of their own."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import kurtosis, rankdata
from sklearn.metrics import r2_score

from ..data.samples import Samples
from ..data.streaming import check_out
from ..parts import UNSET, TargetSpec
from ..utils.parameters import check_flag
from ..utils.user_warnings import warn
from .validation import NumberTargets, as_numbers, row_weights

# Targets with a heavy tail: a few rows decide a readout that minimises squares.

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


# Standard deviations; squares of what is farther away are not finite.
_FARTHEST = 1e100


@dataclass(frozen=True, eq=False, kw_only=True)
class NumericTarget(TargetSpec):
    """Numbers.

    Attributes
    ----------
    uncertainty
        A parameter of `RBFRegressor`.
    """

    uncertainty: Any
    target_mean_: Any = UNSET
    target_scale_: Any = UNSET

    @property
    def mean(self):
        return self.target_mean_

    @property
    def scale(self):
        return self.target_scale_

    @property
    def wants_posterior(self):
        return self.uncertainty

    def check(self):
        check_flag("uncertainty", self.uncertainty)

    def _of(self, targets, shape):
        """What y was divided by, in the shape of one answer."""
        mean, scale = targets.mean.reshape(shape), targets.scale.reshape(shape)
        return self.with_fitted(target_mean_=mean, target_scale_=scale)

    def read(self, X, y, sample_weight):
        y, weight = as_numbers(y), row_weights(X, sample_weight)
        targets = NumberTargets.of(y.reshape(len(y), -1), weight)
        warn_heavy_tail(self.owner, targets, weight)
        return self._of(targets, y.shape[1:]), Samples(X, targets, weight)

    def begin(self, X, y, sample_weight, classes, pretrained):
        y = as_numbers(y)
        if isinstance(pretrained, NumericTarget) and pretrained.mean.shape == y.shape[1:]:
            return self.with_fitted(**pretrained.fitted)
        targets = NumberTargets.of(y.reshape(len(y), -1), row_weights(X, sample_weight))
        return self._of(targets, y.shape[1:])

    def samples(self, X, y, sample_weight):
        y = as_numbers(y)
        if y.shape[1:] != self.mean.shape:
            raise ValueError(
                f"y has shape {y.shape}, and in the first call to partial_fit a row of it had "
                f"{self.mean.shape}."
            )
        weight = row_weights(X, sample_weight)
        y -= self.mean  # a copy: of many outputs it is larger than all else
        y /= self.scale
        values = y.reshape(len(y), -1)
        if not -_FARTHEST < values.min() <= values.max() < _FARTHEST:
            raise ValueError(
                f"y holds numbers more than {_FARTHEST:g} standard deviations from the first rows."
            )
        return Samples(X, NumberTargets(values, self.mean, self.scale), weight)

    def check_same(self, other, name):
        for moment in ("target_mean_", "target_scale_"):
            there, here = getattr(other, moment), getattr(self, moment)
            if not np.array_equal(there, here):
                raise ValueError(
                    f"{name} has {moment}={there!r}, and this model {here!r}: sums of y in other "
                    "units do not add up. Lend all models layer=FrozenEstimator(regressor), whose "
                    "units they take."
                )

    def restricted_to(self, samples, rows):
        targets = NumberTargets.of(samples.targets.numbers(rows), samples.weight_of(rows))
        return self._of(targets, self.mean.shape)

    def outputs(self, W, b, dtype):
        """Return W and b in float64, for y may be of any size."""
        scale, mean = np.atleast_1d(self.scale), np.atleast_1d(self.mean)
        return W * scale[:, None], b * scale + mean

    def format_output(self, method, scores, readout):
        return scores.reshape(len(scores), *self.mean.shape)

    def check_out(self, out, shape):
        check_out(out, shape, np.float64)

    def score(self, answers, y, sample_weight):
        return r2_score(y, answers, sample_weight=sample_weight)

    def name_of(self, k):
        return f"column {k} of y"

    @property
    def n_columns(self):
        return np.size(self.mean)

    def decided(self, scores, output):
        columns = np.full(len(scores), output)
        return scores[:, output], columns, np.ones(len(scores))

    def of_rows(self, samples, rows):
        numbers = samples.targets.numbers(rows)
        return {"center_targets_": numbers.reshape(len(numbers), *self.mean.shape)}

    def center_targets(self, units):
        return units.center_targets_

    def left_out(self, training, chosen, rows):
        """The posterior on the host, with noise in the unit of y."""
        if not self.wants_posterior:
            return {}
        known, to_host = chosen.posterior, training.job.engine.to_host
        root, mean, noise = map(to_host, (known.root, known.mean, known.noise))
        noise = noise * training.samples.targets.scale
        return {"posterior_": known._replace(root=root, mean=mean, noise=noise)}

    def why_no_sums(self):
        if self.uncertainty is True:
            return "uncertainty=True meets all rows again; with partial_fit set uncertainty=False."
        return None
