"""The target of a regressor: standardised y of one or several outputs; heavy-tail warnings."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from scipy.stats import kurtosis, rankdata
from sklearn.metrics import r2_score

from ..data.samples import Samples
from ..data.validation import check_out
from ..parts import UNSET, ReadoutTraining, TargetSpec, Units
from ..utils.parameters import check_bool
from ..utils.user_warnings import warn
from .encoding import StandardisedTargets, as_float64, validate_weights

# `partial_fit` refuses y farther from the first batch, in standard deviations: their squares would
# overflow.
_MAX_STANDARDISED = 1e100


@dataclass(frozen=True, eq=False, kw_only=True)
class NumericTarget(TargetSpec):
    """Numeric targets of one or several outputs, standardised for the readout.

    Attributes
    ----------
    uncertainty
        Parameter of `RBFRegressor`.
    """

    uncertainty: Any
    target_mean_: Any = UNSET
    target_scale_: Any = UNSET

    @property
    def mean(self) -> npt.NDArray:
        """Return the mean of y, of shape () or (n_outputs,)."""
        return self.target_mean_

    @property
    def scale(self) -> npt.NDArray:
        """Return the standard deviation of y, of shape () or (n_outputs,)."""
        return self.target_scale_

    @property
    def needs_posterior(self) -> bool:
        return self.uncertainty

    def check(self) -> None:
        check_bool("uncertainty", self.uncertainty)

    # From y to samples with targets and weights.

    def fit_encode(self, X: Any, y: Any, sample_weight: Any) -> tuple[Self, Samples]:
        y, weight = as_float64(y), validate_weights(X, sample_weight)
        targets = StandardisedTargets.standardise(y.reshape(len(y), -1), weight)
        warn_heavy_tail(self.owner, targets, weight)
        return self._with_moments(targets, y.shape[1:]), Samples(X, targets, weight)

    def fit_first_batch(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, pretrained: TargetSpec | None
    ) -> Self:
        y = as_float64(y)
        # Models on a common layer can be merged only if they standardise y alike.
        if isinstance(pretrained, NumericTarget) and pretrained.mean.shape == y.shape[1:]:
            return self.with_fitted(**pretrained.fitted)
        targets = StandardisedTargets.standardise(
            y.reshape(len(y), -1), validate_weights(X, sample_weight)
        )
        return self._with_moments(targets, y.shape[1:])

    def validate_targets(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[npt.NDArray, npt.NDArray | None]:
        return as_float64(y, copy=False), validate_weights(X, sample_weight)

    def fit_buffered(
        self, X: Any, y: Any, sample_weight: Any, pretrained: TargetSpec | None
    ) -> Self:
        return self.fit_first_batch(X, y, sample_weight, None, pretrained)

    def encode(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        y = as_float64(y)
        if y.shape[1:] != self.mean.shape:
            raise ValueError(
                f"y has shape {y.shape}, but in the first call to partial_fit a sample of y had "
                f"the shape {self.mean.shape}."
            )
        weight = validate_weights(X, sample_weight)
        # In place: `as_float64` has copied y, which with many outputs is the largest array here.
        y -= self.mean
        y /= self.scale
        values = y.reshape(len(y), -1)
        if not -_MAX_STANDARDISED < values.min() <= values.max() < _MAX_STANDARDISED:
            raise ValueError(
                f"y contains values more than {_MAX_STANDARDISED:g} standard deviations from the "
                "mean of the first batch."
            )
        return Samples(X, StandardisedTargets(values, self.mean, self.scale), weight)

    def _with_moments(self, targets, shape):
        """Return the target with the mean and scale of y, of the shape of one prediction."""
        mean, scale = targets.mean.reshape(shape), targets.scale.reshape(shape)
        return self.with_fitted(target_mean_=mean, target_scale_=scale)

    def check_compatible(self, other: Self, name: str) -> None:
        for attribute in ("target_mean_", "target_scale_"):
            theirs, mine = getattr(other, attribute), getattr(self, attribute)
            if not np.array_equal(theirs, mine):
                raise ValueError(
                    f"{name} has {attribute}={theirs!r}, but this model has {mine!r}: sums of "
                    "differently standardised y cannot be added. Pass "
                    "layer=FrozenEstimator(regressor) to all models, which then use the "
                    "standardisation of that regressor."
                )

    def refit_on(self, samples: Samples, rows: Any) -> Self:
        y = samples.targets.numbers(rows)
        targets = StandardisedTargets.standardise(y, samples.weight_of(rows))
        return self._with_moments(targets, self.mean.shape)

    # From outputs of the readout to predictions.

    def score_coefficients(self, W: Any, b: Any, dtype: Any) -> tuple[Any, Any]:
        """Return coefficients and intercepts in the units of y.

        They are float64 whatever the dtype of the layer: y may exceed the range of float32.
        """
        scale, mean = np.atleast_1d(self.scale), np.atleast_1d(self.mean)
        return W * scale[:, None], b * scale + mean

    def format_output(self, method: str, scores: Any, readout: Any) -> npt.NDArray:
        return scores.reshape(len(scores), *self.mean.shape)

    def check_out(self, out: Any, shape: tuple[int, ...]) -> None:
        check_out(out, shape, np.float64)

    def score(self, predictions: Any, y: Any, sample_weight: Any) -> float:
        """Return the coefficient of determination, averaged over the outputs."""
        return r2_score(y, predictions, sample_weight=sample_weight)

    def output_name(self, k: int) -> str:
        return f"column {k} of y"

    @property
    def n_columns(self) -> int:
        return np.size(self.mean)

    def select_decision(
        self, scores: Any, output: int
    ) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
        columns = np.full(len(scores), output)
        return scores[:, output], columns, np.ones(len(scores))

    # Targets of the centres of RBF units.

    def center_attributes(self, samples: Samples, rows: Any) -> dict[str, Any]:
        y = samples.targets.numbers(rows)
        return {"center_targets_": y.reshape(len(y), *self.mean.shape)}

    def center_targets(self, units: Units) -> Any:
        return units.center_targets_

    # Uncertainty: the posterior of the readout.

    def loo_attributes(self, training: ReadoutTraining, chosen: Any, rows: Any) -> dict[str, Any]:
        """Return the posterior on the host, its noise in the units of y."""
        if not self.needs_posterior:
            return {}
        posterior, to_host = chosen.posterior, training.job.engine.to_host
        root, mean, noise = map(to_host, (posterior.root, posterior.mean, posterior.noise))
        noise = noise * training.samples.targets.scale
        return {"posterior_": posterior._replace(root=root, mean=mean, noise=noise)}

    def why_not_incremental(self) -> str | None:
        if self.uncertainty is True:
            return (
                "uncertainty=True needs a second pass over all samples; for partial_fit set "
                "uncertainty=False."
            )
        return None


# Heavy-tailed targets: a few samples dominate a readout that minimises squared errors.

# Excess kurtosis above which targets are checked: an exponential distribution has 6, a log-normal
# one (standard deviation 1 of the logarithm) 111.
_MAX_EXCESS_KURTOSIS = 30.0
# A transform is recommended if the kurtosis after it is below this fraction of that before.
_MAX_KURTOSIS_RATIO = 0.25
# Values whose powers are in memory at a time.
_BLOCK_VALUES = 2**15
# The arguments of `TransformedTargetRegressor`, by transform, in the order in which they are tried.
_REMEDIES = {
    "log": "func=np.log, inverse_func=np.exp",
    "log1p": "func=np.log1p, inverse_func=np.expm1",
    "quantiles": 'transformer=QuantileTransformer(output_distribution="normal")',
}


def warn_heavy_tail(
    estimator_name: str, targets: StandardisedTargets, weight: npt.NDArray | None = None
) -> None:
    """Warn of each output with a heavy tail that a transform of y would remove, and name it."""
    # The values have mean 0 and variance 1, so their fourth moment is the kurtosis. Most targets
    # pass this test and cost no more.
    excess = _fourth_moments(targets.values, weight) - 3
    for k in np.flatnonzero(excess > _MAX_EXCESS_KURTOSIS):
        y = targets.column(int(k))
        remedy = _find_remedy(y if weight is None else y[weight > 0])
        if remedy:
            which = "y" if targets.n_outputs == 1 else f"Column {k} of y"
            warn(
                f"{which} has a heavy tail: a few large values dominate the squared error, at the "
                "expense of most samples. Transform the target: TransformedTargetRegressor("
                f"{estimator_name}(...), {_REMEDIES[remedy]}), from sklearn.compose."
            )


def _fourth_moments(values, weight):
    """Return the weighted mean of the fourth powers of each column, computed in blocks."""
    step, total = max(1, _BLOCK_VALUES // values.shape[1]), 0.0
    weight = np.ones(len(values)) if weight is None else weight
    for start in range(0, len(values), step):
        block = slice(start, start + step)
        # Squaring twice is far faster than a power of 4.
        total = total + weight[block] @ np.square(np.square(values[block]))
    return total / weight.sum()


def _find_remedy(y):
    """Return the first transform after which y has no heavy tail, None if none has this effect."""
    limit = _MAX_KURTOSIS_RATIO * kurtosis(y)
    if y.min() > 0 and kurtosis(np.log(y)) < limit:
        return "log"
    if y.min() >= 0 and kurtosis(np.log1p(y)) < limit:
        return "log1p"
    # Normal scores of the ranks have no heavy tail, unless many samples share one value: tied ranks
    # stay together.
    normal_scores = ndtri((rankdata(y) - 0.5) / len(y))
    return "quantiles" if kurtosis(normal_scores) < limit else None
