"""The target of a regressor: y of one or several outputs, transformed and standardised."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.metrics import r2_score

from ..data.copies import merge_copies
from ..data.job import Job
from ..data.rows import take_rows
from ..data.samples import Samples
from ..data.validation import TARGETS_OVERFLOW, check_out, to_host
from ..parts.base import UNSET
from ..parts.target import TargetSpec
from ..parts.units import Units
from ..readouts.draw_sample import random_indices, sample_at_random
from ..readouts.residuals import (
    N_RESIDUALS,
    FrequentMode,
    fit_residual_distribution,
    max_residuals,
)
from ..readouts.row_sample import RowSample
from ..utils.parameters import check_bool, check_choice
from .encoding import StandardisedTargets, as_float64, replace_unweighted, validate_weights
from .transforms import (
    KINDS,
    TargetTransformer,
    choose_kind,
    find_heavy_tails,
    residual_quantiles,
    validation_rows,
    warn_heavy_tail,
)

# `partial_fit` refuses y farther from the first batch, in standard deviations: their squares would
# overflow.
_MAX_STANDARDISED = 1e100
# Upper bound of the standard deviation of y: predictions are sums of several times as large terms.
_MAX_SCALE = 2e307
# Upper bound of |y| that is transformed: differences and sums of two y are finite.
_MAX_TRANSFORMED = 4e307
# Leave-one-out scores that are kept of all samples, for residuals; else those of some samples are
# computed in another pass over these.
_MAX_LOO_SCORES = 2**19


class TargetShapeError(ValueError):
    """y has another number of outputs or of dimensions than the y that was fitted.

    Attributes
    ----------
    shape : tuple of int
        That of y.
    outputs : tuple of int
        The shape of a sample of the y that was fitted: () or (n_outputs,).
    """

    def __init__(self, shape: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        super().__init__(
            f"y has shape {shape}, but a sample of y that was fitted first has the shape {outputs}."
        )
        self.shape, self.outputs = shape, outputs


@dataclass(frozen=True, eq=False, kw_only=True)
class NumericTarget(TargetSpec):
    """Numeric targets of one or several outputs, transformed and standardised for the readout.

    Attributes
    ----------
    uncertainty, target_transform
        Parameters of `RBFRegressor`.
    target_mean_, target_scale_ : ndarray of shape () or (n_outputs,)
        Mean and standard deviation of transformed y.
    """

    uncertainty: Any
    target_transformer_: Any = UNSET
    target_mean_: npt.NDArray = UNSET
    target_scale_: npt.NDArray = UNSET

    @property
    def needs_posterior(self) -> bool:
        return self.uncertainty

    @property
    def transformer(self) -> TargetTransformer | None:
        """Return the fitted transformer of y; None if y is not transformed."""
        return None if self.target_transformer_ is UNSET else self.target_transformer_

    @property
    def needs_loo_scores(self) -> bool:
        return self.transformer is not None

    @property
    def estimates_residuals(self) -> bool:
        return True

    def draw_sample(
        self, job: Job, samples: Samples, rows: npt.NDArray[np.intp] | None = None
    ) -> RowSample:
        # Predictions are averaged over residuals of single samples: the mean y of equal ones varies
        # less.
        if self.transformer is not None:
            return super().draw_sample(job, samples, rows)
        n_max = max_residuals(samples.targets.n_outputs)
        return sample_at_random(job, samples, min(N_RESIDUALS, n_max), rows)

    def calibration_rows(self, samples: Samples, random_state: Any) -> npt.NDArray | None:
        n_outputs = samples.targets.n_outputs
        if self.transformer is not None or len(samples) * n_outputs <= _MAX_LOO_SCORES:
            return None
        return random_indices(samples, max_residuals(n_outputs))

    def check(self) -> None:
        check_bool("uncertainty", self.uncertainty)
        if self.target_transform is None:
            return
        check_choice("target_transform", self.target_transform, ("auto", *KINDS), "None")
        if self.uncertainty:
            raise ValueError(
                f"target_transform={self.target_transform!r} and uncertainty=True do not go "
                "together: a transformed target has no standard deviation in the unit of y. Use "
                "TransformedTargetRegressor, and transform the ends of intervals."
            )

    # From y to samples with targets and weights.

    def fit_encode(self, X: Any, y: Any, sample_weight: Any) -> tuple[Self, Samples]:
        weight = validate_weights(X, sample_weight)
        targets, shape = _standardise(y, weight)
        kinds, transformer = self._choose_kinds(X, y, targets, weight), None
        if any(kinds):
            transformer = TargetTransformer(kinds)
            targets, shape = _standardise(y, weight, transformer)
        return self._with_moments(targets, shape, transformer), Samples(X, targets, weight)

    def _choose_kinds(self, X, y, targets, weight):
        """Return the transform of each column of y, None for those that are not transformed."""
        kinds: list[str | None] = [None] * targets.n_outputs
        if self.target_transform == "auto":
            heavy = find_heavy_tails(targets, weight)
            if heavy:
                rows = validation_rows(_distinct_rows(X, targets, weight), X.shape[1])
                X_rows = np.asarray(to_host(take_rows(X, rows)))
                Y = as_float64(y).reshape(len(y), -1)[rows]
                for k in heavy:
                    kinds[k] = choose_kind(X_rows, Y[:, k])
        elif self.target_transform is not None:
            kinds = [self.target_transform] * targets.n_outputs
        elif not self.is_base_estimator:
            for k in find_heavy_tails(targets, weight):
                warn_heavy_tail(self.owner, k, targets.n_outputs)
        return kinds

    def fit_first_batch(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, pretrained: TargetSpec | None
    ) -> Self:
        y = as_float64(y)
        # Models on a common layer can be merged only if they standardise y alike.
        if (
            isinstance(pretrained, NumericTarget)
            and pretrained.transformer is None
            and pretrained.target_mean_.shape == y.shape[1:]
        ):
            return self.with_fitted(**pretrained.fitted)
        targets, shape = _standardise(y, validate_weights(X, sample_weight))
        return self._with_moments(targets, shape, None)

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
        if y.shape[1:] != self.target_mean_.shape:
            raise TargetShapeError(y.shape, self.target_mean_.shape)
        weight = validate_weights(X, sample_weight)
        values = y.reshape(len(y), -1)
        if self.transformer is not None:
            replace_unweighted(values, weight)
            values = self.transformer.transform(values)
        # In place: `as_float64` has copied y, which with many outputs is the largest array here.
        values -= self.target_mean_
        values /= self.target_scale_
        if not -_MAX_STANDARDISED < values.min() <= values.max() < _MAX_STANDARDISED:
            raise ValueError(
                f"y contains values more than {_MAX_STANDARDISED:g} standard deviations from the "
                "mean of the first batch."
            )
        return Samples(
            X, StandardisedTargets(values, self.target_mean_, self.target_scale_), weight
        )

    def _with_moments(self, targets, shape, transformer):
        """Return the target with the mean and scale of y, of the shape of one prediction."""
        if targets.scale.max() > _MAX_SCALE:
            largest = f"y has a standard deviation of {targets.scale.max():.3g}"
            raise ValueError(f"{largest}. {TARGETS_OVERFLOW}")
        mean, scale = targets.mean.reshape(shape), targets.scale.reshape(shape)
        return self.with_fitted(
            target_mean_=mean, target_scale_=scale, target_transformer_=transformer
        )

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
        return self._with_moments(targets, self.target_mean_.shape, self.transformer)

    def base_target(self, y: Any, samples: Samples) -> Any:
        return y if self.transformer is None else self._reshaped(samples.targets.numbers())

    def invert_base_target(self, y: npt.NDArray) -> npt.NDArray:
        return y if self.transformer is None else self.transformer.inverse_transform(y)

    # From outputs of the readout to predictions.

    def score_coefficients(
        self, W: Any, b: Any, dtype: Any, matrices: Any = None
    ) -> tuple[Any, Any]:
        """Return coefficients and intercepts in the units of transformed y.

        They are float64 whatever the dtype of the layer: y may exceed the range of float32.
        """
        scale, mean = np.atleast_1d(self.target_scale_), np.atleast_1d(self.target_mean_)
        return W * scale[:, None], b * scale + mean

    def format_output(self, method: str, scores: Any, readout: Any, **options: Any) -> npt.NDArray:
        if self.transformer is not None:
            scores = self.transformer.inverse_mean(scores, readout.smearing_)
        return self._reshaped(scores)

    def standardise(self, scores: npt.NDArray) -> npt.NDArray:
        """Return scores (n_samples, n_outputs) in standard deviations of transformed y."""
        return (scores - self.target_mean_) / self.target_scale_

    def format_quantiles(
        self,
        scores: npt.NDArray,
        scale: npt.NDArray,
        quantiles: npt.NDArray,
        mode: FrequentMode | None,
    ) -> npt.NDArray:
        """Return quantiles of y, (n_samples, n_quantiles) or (n_samples, n_outputs, n_quantiles).

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_outputs)
            Predictions of transformed y.
        scale : ndarray of shape (n_samples, n_outputs)
            Scale of the residuals of standardised y.
        quantiles : ndarray of shape (n_outputs, n_quantiles)
            Of residuals over their scale.
        mode : FrequentMode or None
            For two quantiles, the ends of an interval, which are extended to it.
        """
        unit = np.atleast_1d(self.target_scale_)
        values = scores[..., None] + (scale * unit)[..., None] * quantiles
        if mode is not None:
            origin = np.atleast_1d(self.target_mean_)
            offset = unit * mode.value
            rounding = 8 * np.finfo(float).eps * (np.abs(origin) + np.abs(offset))
            _extend_to_mode(values, scores, mode._replace(value=origin + offset), rounding)
        if self.transformer is not None:
            for k in range(quantiles.shape[1]):
                values[..., k] = self.transformer.inverse_quantile(values[..., k])
        return values.reshape(len(values), *self.target_mean_.shape, quantiles.shape[1])

    def _reshaped(self, values):
        """Return values (n_samples, n_outputs) in the shape of y."""
        return values.reshape(len(values), *self.target_mean_.shape)

    def check_out(self, out: Any, shape: tuple[int, ...]) -> None:
        check_out(out, shape, np.float64)

    def score(self, predictions: Any, y: Any, sample_weight: Any) -> float:
        """Return the coefficient of determination, averaged over the outputs."""
        return r2_score(y, predictions, sample_weight=sample_weight)

    def output_name(self, k: int) -> str:
        return f"column {k} of y"

    @property
    def n_columns(self) -> int:
        return np.size(self.target_mean_)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return np.shape(self.target_mean_)

    def select_decision(
        self, scores: Any, output: int, readout: Any
    ) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray]:
        predictions = self.format_output("predict", scores, readout).reshape(scores.shape)
        return predictions[:, output], np.full(len(scores), output), np.ones(len(scores))

    # Targets of the centres of RBF units.

    def center_attributes(self, samples: Samples, rows: Any) -> dict[str, Any]:
        y = self.invert_base_target(samples.targets.numbers(rows))
        return {"center_targets_": self._reshaped(y)}

    def center_targets(self, units: Units) -> Any:
        return units.center_targets_

    # Residuals of transformed y, by which predictions are averaged.

    def calibrate(self, left_out: Any, sample: Any, job: Job, layer: Any) -> dict[str, Any]:
        # The score of a single sample is unknown because no other is left, whatever the penalty.
        known = np.flatnonzero(left_out.is_known | (len(left_out.is_known) == 1))
        scores, Y, weight = left_out.scores[known], sample.targets[known], sample.rows.weight[known]
        fitted = fit_residual_distribution(
            job, layer.part(slice(left_out.n_units)), sample.rows.X, scores, Y, weight, known
        )
        return fitted | self.smearing(Y - scores, weight)

    def smearing(self, residuals: npt.NDArray, weight: npt.NDArray) -> dict[str, Any]:
        """Return the fitted attribute for residuals of the encoded y; none without a transform."""
        if self.transformer is None:
            return {}
        return {
            "smearing_": residual_quantiles(residuals, weight) * np.atleast_1d(self.target_scale_)
        }

    # Uncertainty: the posterior of the readout.

    def loo_attributes(
        self, job: Job, layer: Any, samples: Samples, chosen: Any, rows: Any
    ) -> dict[str, Any]:
        """Return the posterior on the host, its noise in the units of y."""
        fitted = {}
        if chosen.scores is not None:
            fitted = self._residual_attributes(job, layer, samples, chosen.scores, rows)
        if not self.needs_posterior:
            return fitted
        posterior, to_host = chosen.posterior, job.engine.to_host
        root, mean, noise = map(to_host, (posterior.root, posterior.mean, posterior.noise))
        noise = noise * samples.targets.scale
        return fitted | {"posterior_": posterior._replace(root=root, mean=mean, noise=noise)}

    def _residual_attributes(self, job, layer, samples, scores, rows):
        """Return what `calibrate` does, for the leave-one-out scores of all samples or of rows."""
        weight = samples.weight_or_ones()
        fitted = {}
        if self.transformer is not None:  # all samples were left out
            fitted = self.smearing(samples.targets.matrix() - scores, weight)
        if rows is None:
            rows = random_indices(samples, max_residuals(samples.targets.n_outputs))
            scores = scores[rows]
        return fitted | fit_residual_distribution(
            job, layer, samples.X, scores.astype(np.float64),
            samples.targets.matrix(rows), weight[rows], rows,
        )  # fmt: skip

    def why_not_incremental(self) -> str | None:
        if self.target_transform is not None:
            return (
                f"target_transform={self.target_transform!r} is fitted to all y, and its "
                "predictions to the residuals of all samples; for partial_fit use None, and "
                "transform y yourself, as in partial_fit(X, np.log(y))."
            )
        if self.uncertainty is True:
            return (
                "uncertainty=True needs a second pass over all samples; for partial_fit set "
                "uncertainty=False."
            )
        return None


def _distinct_rows(X, targets, weight):
    """Return the rows of the samples of positive weight, without copies of others.

    A sample that is left out would be predicted from its copies.
    """
    samples = merge_copies(Samples(X, targets, weight))
    present = samples.rows_with_weight
    return present if samples.rows is None else samples.rows[present]


def _extend_to_mode(intervals, predictions, mode, rounding):
    """Extend intervals (n_samples, n_outputs, 2) that end just before the mode of y.

    A sample that is left out does not draw the prediction to its y, which changes the mean of n
    samples by a part 1 / n of the deviation of y. So an interval that misses the mode by less than
    this part of its deviation from the prediction contains it. Farther ends are left, because the
    prediction may be accurate enough to exclude the mode.

    If nearly all y are equal and predictions are nearly constant, nearly all residuals are equal,
    too. They exceed the distance of y from the prediction, so that the interval is narrow and just
    beyond y. It is extended to the mode unless the prediction is nearer.
    """
    low, high = intervals[..., 0], intervals[..., 1]
    distances = (np.maximum(low - y, y - high) for y in (mode.value, predictions))
    mode_distance, distance = (np.maximum(d, 0) for d in distances)
    is_near = mode_distance <= np.abs(mode.value - predictions) / mode.n_residuals
    is_near |= mode.is_most & (mode_distance < distance)
    low[is_near] = np.minimum(low, mode.value - rounding)[is_near]
    high[is_near] = np.maximum(high, mode.value + rounding)[is_near]


def _standardise(y, weight, transformer=None):
    """Return the `StandardisedTargets` of y, and the shape of one sample of y."""
    y = as_float64(y)
    values = y.reshape(len(y), -1)
    if transformer is not None:
        present = slice(None) if weight is None else weight > 0
        replace_unweighted(values, weight)
        if (largest := np.abs(values).max()) > _MAX_TRANSFORMED:
            raise ValueError(f"y contains values of size {largest:.3g}. {TARGETS_OVERFLOW}")
        positive = None if weight is None else weight[present]
        values = transformer.fit(values[present], positive).transform(values)
    return StandardisedTargets.standardise(values, weight), y.shape[1:]
