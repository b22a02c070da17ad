"""The state of incremental learning: sums over samples, and the penalty found for them.

A ridge readout depends on its training data through sums over the samples only (the normal
equations). `IncrementalState` has these sums: adding, removing and merging samples is arithmetic on
them, and the equations are solved when the readout is used. It is immutable; methods of the
estimator (`partial_fit.IncrementalNetwork`) replace it as a whole, see `state.atomic_update`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.job import Job
from ..data.samples import Samples
from ..data.streaming import cast_layer, count_operations
from ..engines import get_engine
from ..engines.algebra import HOST
from ..parts.composition import Parts
from ..parts.target import TargetSpec
from ..parts.units import Units
from ..readouts.cross_validation import (
    CVStatistics,
    count_parts,
    hash_validation_rows,
    n_validation_units,
)
from ..readouts.drift import ErrorMonitor
from ..readouts.gather_statistics import gather
from ..readouts.leave_one_out import SampledLOO
from ..readouts.linear import Solution
from ..readouts.penalty_search import SearchHistory, search_penalty, squared_error
from ..readouts.row_sample import RowSample, sample_capacity
from ..readouts.running_statistics import BufferedSamples, RunningStatistics
from ..readouts.statistics import RidgeStatistics
from ..utils.parameters import is_option, parse_penalty
from ..utils.user_warnings import without_warnings
from .buffer import RawSamples, SampleBuffer
from .linear_readout import center_outputs

# Limits of the buffer of samples that are not yet summed. In bytes: this fraction of the memory
# limit, and no more than the sums themselves have, since these are transferred from a GPU for each
# batch; but small sums do not make the buffer smaller than the second number.
_BUFFER_FRACTION, _SMALL_BUFFER_BYTES = 1 / 8, 2**26
# In samples: adding the product H'H to the sums takes as long for few samples as for many, and is
# bound by memory below this number of samples for each unit.
_BUFFER_ROWS_PER_UNIT, _MIN_BUFFER_ROWS = 16, 1024
# Products of H are computed in float64, although `fit` uses the dtype of H, because samples may be
# removed again. In float32 the rounding errors of added and removed samples accumulate: they
# changed the coefficients by 7e-3 when a tenth of MNIST was removed.
_PRODUCT_DTYPE = np.float64
# The penalty is searched again after this fraction of the present samples was added or removed. A
# search takes about as long as solving the readout.
_SEARCH_AFTER = 0.1
_NO_ERRORS = ErrorMonitor()


@dataclass(frozen=True, eq=False)
class IncrementalState:
    """The samples that were added and not removed, as sums, and the penalty found for them."""

    statistics: RunningStatistics  # sums over samples, and buffered samples
    # The parameter `layer` in the first call, and the formula of the layer: they show whether a
    # parameter was changed since, so that the sums are of another layer.
    layer_parameter: Any
    formula: str
    search_rows: list[dict[str, Any]]  # `SearchHistory.rows` of the choice of the layer
    # The penalty that was best for the layer, for weights of unit 1: each search begins there.
    start_alpha: float
    class_weight: Any = None  # the parameter in the first call: the sums are weighted by it
    alpha: float | None = None  # the penalty of the last search
    searched_at: int | None = None  # number of samples added and removed before that search
    # The penalty, or "auto", for which the present readout was solved; None if it is out of date.
    solved_for: Any = None
    # Weights and intercepts of the readout that was solved last, and its errors on later samples.
    solution: tuple[Any, Any] | None = None
    errors: ErrorMonitor = _NO_ERRORS

    @classmethod
    def start(
        cls,
        units: Units,
        target: TargetSpec,
        alpha: Any,
        memory_limit: int,
        history: SearchHistory,
    ) -> "IncrementalState":
        """Return the state without samples, for the layer of fitted units."""
        layer = units.layer
        sums_bytes = max(_SMALL_BUFFER_BYTES, RidgeStatistics.nbytes(layer.n_units))
        # Probabilities and prediction intervals are calibrated on a random sample of the data.
        sample = None
        if target.needs_loo_scores or target.estimates_residuals:
            sample = RowSample(sample_capacity(memory_limit, layer.n_features))
        statistics = RunningStatistics(
            max_rows=max(_MIN_BUFFER_ROWS, _BUFFER_ROWS_PER_UNIT * layer.n_units),
            max_bytes=min(sums_bytes, int(_BUFFER_FRACTION * memory_limit)),
            n_parts=count_parts(layer.n_units) if is_option(alpha, "auto") else 0,
            sample=sample,
        )
        # The sums have the given weights.
        rows = [row | {"alpha": history.alpha_scale * row["alpha"]} for row in history.rows]
        start_alpha = history.start_for(layer)
        class_weight = deepcopy(target.class_weight)  # a dict may be changed in place
        return cls(
            statistics, units.given_layer, layer.formula, rows, start_alpha, class_weight
        )  # fmt: skip

    @property
    def emptied(self) -> "IncrementalState":
        """The state without samples, for the same layer."""
        return self.with_statistics(self.statistics.emptied)

    def with_statistics(self, statistics: RunningStatistics) -> "IncrementalState":
        """Return the state with other samples, for which the readout is not solved."""
        return replace(self, statistics=statistics, solved_for=None)

    def update(self, samples: Samples, factor: float, evaluate: Callable) -> "IncrementalState":
        """Return the state with further samples, all of positive weight.

        The weights of all earlier samples are multiplied by `factor` for each new one.
        """
        measured = _PrequentialError(self, evaluate)
        return measured.result(self.statistics.update(samples, factor, measured))

    def flush(self, evaluate: Callable) -> "IncrementalState":
        """Return the state with an empty buffer."""
        measured = _PrequentialError(self, evaluate)
        return measured.result(self.statistics.flush(measured))

    def update_buffered(
        self, buffer: SampleBuffer, target: TargetSpec, evaluate: Callable
    ) -> "IncrementalState":
        """Return the state with the samples of a buffer that are not summed yet."""
        # Where samples were removed, all that are left of a batch may be of classes of weight 0.
        parts = (raw for raw in buffer.unsummed() if not target.has_no_weight(raw.y, raw.weight))
        encoded = [_encode(target, raw) for raw in parts]
        measured = _PrequentialError(self, evaluate)
        return measured.result(self.statistics.update_buffered(encoded, buffer.log_decay, measured))

    def remove(self, samples: Samples, evaluate: Callable) -> "IncrementalState":
        """Return the state without samples that were added before."""
        state = self.flush(evaluate)
        return state.with_statistics(state.statistics.remove(samples, evaluate))

    def merge(self, other: "IncrementalState", evaluate: Callable) -> "IncrementalState":
        """Return the state with the samples of both states."""
        statistics = self.statistics.merge(other.statistics, evaluate)
        # Merging with a state that held out no samples leaves none: the penalty that was found
        # with held-out samples is not valid then.
        has_lost_held_out = self.statistics.n_parts and not statistics.n_parts
        alpha = None if has_lost_held_out else self.alpha
        return replace(self.with_statistics(statistics), alpha=alpha)

    def matches(self, units: Units) -> bool:
        """Return whether the sums are of the layer that the hyperparameters describe now."""
        before, now = self.layer_parameter, units.given_layer
        are_arrays = isinstance(before, np.ndarray) and isinstance(now, np.ndarray)
        is_same = before is now or (are_arrays and np.array_equal(before, now))
        return is_same and units.allows_fitted_layer and self.formula == units.layer.formula

    def resolve_penalty(self, alpha: Any, why_not_incremental: str | None) -> Any:
        """Return the penalty of the parameter `alpha`, a number or "auto"; raise if it has none."""
        penalty = parse_penalty(alpha)
        if isinstance(penalty, float):
            return penalty
        if penalty == "auto" and (self.statistics.n_parts or self.alpha is not None):
            return "auto"
        raise ValueError(
            why_not_incremental
            or 'alpha="auto" minimises the error on samples that are held out from the first call '
            "of partial_fit on, and then alpha was a number, or it was in a model that was merged; "
            "use a number."
        )

    def update_penalty(
        self, parts: Parts, evaluate: "Evaluator"
    ) -> tuple["IncrementalState", dict[str, Any] | None]:
        """Return the state with the penalty of the least held-out error, and the search results.

        There is a search only if enough samples were added or removed since the last one; the
        results are None otherwise.
        """
        statistics = self.statistics
        sums, n_changes = statistics.sums, statistics.n_added + statistics.n_removed
        if sums is None:
            return self, None
        # Weights may have decayed, or fractions of them have been removed.
        n_present = sums.total.n / statistics.weights.mean
        is_due = (
            self.searched_at is None or n_changes - self.searched_at >= _SEARCH_AFTER * n_present
        )
        folds = sums.folds(parts.units.sample_centers) if is_due else []
        if not folds:
            return self, None
        unit = statistics.weights.unit
        history = SearchHistory(self.start_alpha, list(self.search_rows))
        result = search_penalty(
            folds, unit * self.start_alpha, unit=unit,
            uncovered_loss=evaluate.uncovered_loss(self, parts),
        )  # fmt: skip
        history.add(parts.units.layer, result)
        return replace(self, alpha=result.alpha, searched_at=n_changes), history.table

    @property
    def best_alpha(self) -> float:
        """The penalty of the last search; before the first one, that of the layer."""
        unit = self.statistics.weights.unit
        return unit * self.start_alpha if self.alpha is None else self.alpha


@dataclass
class _PrequentialError:
    """The `evaluate` of `RunningStatistics` that measures the error of the last readout, too.

    It is a quadratic form in the statistics of the new samples.
    """

    state: IncrementalState
    evaluate: Callable

    def __post_init__(self) -> None:
        self.errors = self.state.errors

    def __call__(self, samples: Samples, n_parts: int) -> CVStatistics:
        sums = self.evaluate(samples, n_parts)
        if self.state.solution is not None:
            error = squared_error(sums.total, Solution(*self.state.solution))
            self.errors = self.errors.add(error, len(samples))
        return sums

    def result(self, statistics: RunningStatistics) -> IncrementalState:
        """Return the state with new statistics, and the errors measured meanwhile."""
        return replace(self.state.with_statistics(statistics), errors=self.errors)


@dataclass
class Evaluator:
    """Evaluates the layer of a model on samples: the `evaluate` of `RunningStatistics`."""

    model: Any  # the estimator, with its state
    units: Units
    device: str | None = None  # name of the engine that was used last

    @contextmanager
    def _job(self, X: Any, layer: Any) -> Iterator[Job]:
        with get_engine(self.model.device, count_operations(X, layer.n_units)) as engine:
            self.device = engine.name
            yield self.model._job(engine, "partial_fit")

    def __call__(self, samples: Samples, n_parts: int) -> CVStatistics:
        """Return the statistics of samples on the host, `n_parts` of which are held out."""
        layer = cast_layer(self.units.layer, samples.X)
        # Held-out errors are estimated with the first units of the layer only.
        first_units = layer.part(slice(n_validation_units(layer.n_units)))
        with self._job(samples.X, layer) as job:
            if job.engine.algebra is HOST:
                # The total and the buffer are in the same memory; updates copy both.
                n_bytes = RidgeStatistics.nbytes(layer.n_units)
                n_bytes += n_parts * RidgeStatistics.nbytes(first_units.n_units)
                n_bytes += self.model._incremental_state.statistics.n_bytes
                job = job.reserve(2 * n_bytes)

            def statistics_of(layer, rows=None):
                (statistics,) = gather(job, [layer], samples, rows=rows, dtype=_PRODUCT_DTYPE)
                return statistics.on(HOST)

            held_out = tuple(
                statistics_of(first_units, rows) if len(rows) else None
                for rows in hash_validation_rows(samples.X, n_parts)
            )
            return CVStatistics(statistics_of(layer), held_out)

    @contextmanager
    def _leave_one_out(self, state: IncrementalState, parts: Parts) -> Iterator[SampledLOO]:
        statistics: Any = state.statistics
        layer = cast_layer(self.units.layer, statistics.sample.rows.X)
        with self._job(statistics.sample.rows.X, layer) as job:
            yield SampledLOO(
                job, layer, statistics.sample, statistics.total, units=self.units,
                center_outputs=center_outputs(parts.units, parts.target),
                mean_weight=statistics.weights.unit,
            )  # fmt: skip

    def uncovered_loss(self, state: IncrementalState, parts: Parts) -> Any:
        """Return `SampledLOO.uncovered_loss` of the calibration sample, None without one."""
        if state.statistics.sample is None or state.statistics.sample.is_empty:
            return None
        with self._leave_one_out(state, parts) as loo:
            return loo.uncovered_loss()

    def solve(
        self, state: IncrementalState, parts: Parts, alpha: float
    ) -> tuple[Solution, dict[str, Any]]:
        """Return the `Solution` for all summed samples, and further fitted attributes."""
        sample = state.statistics.sample
        total: Any = state.statistics.total  # not None, as the buffer was flushed
        fitted: dict[str, Any] = {"alpha_": alpha}
        unit = state.statistics.weights.unit
        if unit != 1:
            fitted["mean_weight_"] = unit
        if sample is None:
            return total.solve(alpha), fitted
        if sample.is_empty:
            return total.solve(alpha), fitted | parts.target.prior_calibration()
        with self._leave_one_out(state, parts) as loo:
            # Leave-one-out scores need the Cholesky factor of the solve.
            solve = loo.solve if parts.target.needs_loo_scores else loo.solve_plain
            solution, scores = solve(alpha)
            if scores is not None:
                with without_warnings():  # of few samples: more may follow
                    fitted |= parts.target.calibrate(scores, sample, loo.job, loo.layer)
            return solution, fitted


def _encode(target: TargetSpec, raw: RawSamples) -> BufferedSamples:
    """Return raw samples with encoded targets, without those that class weights make 0."""
    samples, decay = target.encode(raw.X, raw.y, raw.weight), raw.log_decay
    decay = decay if decay is None else decay[samples.rows_with_weight]
    return BufferedSamples(samples.without_zero_weights(), decay)
