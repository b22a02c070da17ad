"""Incremental learning: `partial_fit`, `forget`, `merge` and `solve` of a network with a readout.

A ridge readout depends on its training data through sums over the samples only (the normal
equations). `IncrementalState` has these sums: adding, removing and merging samples is arithmetic on
them, and the equations are solved when the readout is used. It is immutable; methods of the
estimator replace it as a whole, see `state.atomic_update`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import joblib
import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..data.job import Job
from ..data.samples import Samples
from ..data.sources import select_rows
from ..data.streaming import cast_layer, n_synapses
from ..data.validation import to_host, validated
from ..engines import get_engine
from ..engines.algebra import HOST
from ..parts import Parts, TargetSpec, Units, parts_of
from ..readouts.cross_validation import (
    CVStatistics,
    SearchHistory,
    hash_held_rows,
    n_parts,
    n_validation_units,
    search_penalty,
)
from ..readouts.leave_one_out import SampledLOO
from ..readouts.linear import Solution, warn_of
from ..readouts.ridge import gather
from ..readouts.running_statistics import InvalidRemoval, RunningStatistics
from ..readouts.sample import Sample, sample_capacity
from ..readouts.statistics import RidgeStatistics
from ..utils.parameters import is_option, parse_penalty
from ..utils.user_warnings import warn
from .fit_report import FitReport
from .network import Network, with_center_targets
from .readouts import nearest_outputs
from .state import atomic_update

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


@dataclass(frozen=True, eq=False)
class IncrementalState:
    """The samples that were added and not removed, as sums, and the penalty found for them."""

    statistics: RunningStatistics  # sums over samples, and buffered samples
    # The parameter `layer` in the first call, and the formula of the layer: they show whether a
    # parameter was changed since, so that the sums are of another layer.
    layer_parameter: Any
    formula: str
    search_rows: list[dict[str, Any]]  # `SearchHistory.rows` of the choice of the layer
    first_alpha: float  # the penalty that was best for the layer: each search begins there
    alpha: float | None = None  # the penalty of the last search
    searched_at: int | None = None  # number of samples added and removed before that search
    # The penalty, or "auto", for which the present readout was solved; None if it is out of date.
    solved_for: Any = None

    @classmethod
    def start(
        cls,
        units: Units,
        task: TargetSpec,
        alpha: Any,
        memory_limit: int,
        history: SearchHistory,
    ) -> "IncrementalState":
        """Return the state without samples, for the layer of fitted units."""
        layer = units.layer
        sums_bytes = max(_SMALL_BUFFER_BYTES, RidgeStatistics.nbytes(layer.n_units))
        # A classifier calibrates its probabilities on a random sample of the data.
        sample = (
            Sample(sample_capacity(memory_limit, layer.n_features))
            if task.needs_loo_scores
            else None
        )
        statistics = RunningStatistics(
            max_rows=max(_MIN_BUFFER_ROWS, _BUFFER_ROWS_PER_UNIT * layer.n_units),
            max_bytes=min(sums_bytes, int(_BUFFER_FRACTION * memory_limit)),
            n_parts=n_parts(layer.n_units) if is_option(alpha, "auto") else 0,
            sample=sample,
        )
        first_alpha = history.first_alpha(layer)
        return cls(statistics, units.given, layer.formula, list(history.rows), first_alpha)

    def with_statistics(self, statistics: RunningStatistics) -> "IncrementalState":
        """Return the state with other samples, for which the readout is not solved."""
        return replace(self, statistics=statistics, solved_for=None)

    def add(self, samples: Samples, factor: float, evaluate: Callable) -> "IncrementalState":
        """Return the state with further samples, all of positive weight.

        The weights of all earlier samples are multiplied by `factor` for each new one.
        """
        return self.with_statistics(self.statistics.learn(samples, factor, evaluate))

    def remove(self, samples: Samples, evaluate: Callable) -> "IncrementalState":
        """Return the state without samples that were added before."""
        return self.with_statistics(self.statistics.forget(samples, evaluate))

    def merge(self, others: Iterable["IncrementalState"], evaluate: Callable) -> "IncrementalState":
        """Return the state with the samples of several states."""
        statistics = self.statistics
        for other in others:
            statistics = statistics.merge(other.statistics, evaluate)
        # Merging with a state that held out no samples leaves none: the penalty that was found
        # with held-out samples is not valid then.
        has_lost_held_out = self.statistics.n_parts and not statistics.n_parts
        alpha = None if has_lost_held_out else self.alpha
        return replace(self.with_statistics(statistics), alpha=alpha)

    def matches(self, units: Units) -> bool:
        """Return whether the sums are of the layer that the hyperparameters describe now."""
        before, now = self.layer_parameter, units.given
        are_arrays = isinstance(before, np.ndarray) and isinstance(now, np.ndarray)
        is_same = before is now or (are_arrays and np.array_equal(before, now))
        return is_same and self.formula == units.layer.formula

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
            "give a number."
        )

    def search_penalty(
        self, layer: Any, forgetting_factor: float
    ) -> tuple["IncrementalState", dict[str, Any] | None]:
        """Return the state with the penalty of the least held-out error, and the search results.

        There is a search only if enough samples were added or removed since the last one; the
        results are None otherwise.
        """
        statistics = self.statistics
        n_changes = statistics.n_added + statistics.n_removed
        n_present: float = statistics.n_added - statistics.n_removed
        if forgetting_factor < 1:  # the sum of all weights, a geometric series
            n_present = min(n_present, 1 / (1 - forgetting_factor))
        is_due = (
            self.searched_at is None or n_changes - self.searched_at >= _SEARCH_AFTER * n_present
        )
        sums = statistics.sums  # None if there are no samples
        folds = sums.folds() if is_due and sums is not None else []
        if not folds:
            return self, None
        history = SearchHistory(self.first_alpha, list(self.search_rows))
        result = search_penalty(folds, self.first_alpha)
        history.add(layer, result)
        return replace(self, alpha=result.alpha, searched_at=n_changes), history.table

    @property
    def best_alpha(self) -> float:
        """The penalty of the last search; before the first one, that of the layer."""
        return self.first_alpha if self.alpha is None else self.alpha


@dataclass
class _Evaluator:
    """Evaluates the layer of a model on samples: the `evaluate` of `RunningStatistics`."""

    model: "IncrementalNetwork"
    units: Units
    device: str | None = None  # name of the engine that was used last

    @contextmanager
    def _job(self, X: Any, layer: Any) -> Iterator[Job]:
        with get_engine(self.model.device, n_synapses(X, layer.n_units)) as engine:
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
                for rows in hash_held_rows(samples, n_parts)
            )
            return CVStatistics(statistics_of(layer), held_out)

    def solve(
        self, state: IncrementalState, parts: Parts, alpha: float
    ) -> tuple[Solution, dict[str, Any]]:
        """Return the `Solution` for all summed samples, and further fitted attributes."""
        sample = state.statistics.sample
        total: Any = state.statistics.total  # not None, as the buffer was flushed
        fitted: dict[str, Any] = {"alpha_": alpha}
        if sample is None:
            return total.solve(alpha), fitted
        if sample.is_empty:
            return total.solve(alpha), fitted | parts.task.prior_calibration()
        layer = cast_layer(self.units.layer, sample.rows.X)
        with self._job(sample.rows.X, layer) as job:
            # Leave-one-out scores need the Cholesky factor of the solve.
            loo = SampledLOO(job, layer, sample, total)
            solution, scores = loo.solve(alpha)
            nearest = nearest_outputs(parts.units, parts.task, solution.b, alpha)
            fitted |= parts.task.calibrate(loo.fill_uncovered(scores, nearest), sample)
            return solution, fitted


class SolvedAttribute:
    """Descriptor of a fitted attribute that exists only while the readout is solved.

    Otherwise the AttributeError has the remedy. The attribute is not solved on access, because
    `hasattr`, copies and the display of an estimator read attributes, too.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        message = f"{type(model).__name__!r} object has no attribute {self._name!r}"
        if "_incremental_state" in vars(model):
            message += (
                " until its readout is solved, because samples were added or removed: call "
                "solve(), or predict"
            )
        raise AttributeError(message)


class IncrementalNetwork(Network):
    """A network with a readout, to which samples can be added, and from which they can be removed.

    In each public method, `atomic_update` calls the private one on a copy of the estimator.
    """

    # Routed without a request of the user: splitters such as GroupKFold have `groups` anyway.
    __metadata_request__fit: ClassVar = {"groups": True}

    alpha: Any
    forgetting_factor: float
    _incremental_state: IncrementalState  # absent after `fit`
    # Descriptors, which the values in the dictionary of an estimator take precedence over.
    readout_coef_, readout_intercept_, alpha_ = (
        SolvedAttribute(),
        SolvedAttribute(),
        SolvedAttribute(),
    )

    def _supports_partial_fit(self) -> bool:
        """Return True, or raise AttributeError with the hyperparameter that prevents it."""
        why = self._parts().why_not_incremental()
        if why:
            raise AttributeError(why)
        return True

    def _partial_fit(self, X, y, sample_weight, classes=None):
        atomic_update(self, lambda copied: copied._add_samples(X, y, sample_weight, classes))
        return self

    def _add_samples(self, X, y, sample_weight, classes):
        parts = self._checked_parts()
        if "_incremental_state" in vars(self):
            self._check_incremental_state(parts)
            _, samples = self._validate_batch(parts, X, y, sample_weight, classes)
        else:
            parts, samples = self._start(parts, X, y, sample_weight, classes)
        evaluate = _Evaluator(self, parts.units)
        state = self._incremental_state.add(
            _without_zero_weights(samples), self.forgetting_factor, evaluate
        )
        self._store_state(parts, state, evaluate)

    def _start(self, parts, X, y, sample_weight, classes):
        """Choose the layer for the first batch; return the fitted parts and its `Samples`."""
        is_new = "readout_coef_" not in vars(self)
        if not is_new:
            warn(
                f"This {type(self).__name__} was trained by fit, which keeps no sums of its "
                "samples: they are forgotten, and training starts again in the same hidden layer. "
                "To have their sums, call partial_fit for the first samples as well."
            )
        units, history = parts.units, SearchHistory(parts.units.first_alpha)
        with get_engine(self.device, n_synapses(X, units.n_activations)) as engine:
            task, samples = self._validate_batch(parts, X, y, sample_weight, classes, is_new)
            job = self._job(engine, "partial_fit")
            if is_new or units.pretrained is not None:
                on_device, job = units.present(samples).on_device(job)
                report = FitReport(job.what, self.verbose)
                units = with_center_targets(units.fit(job, on_device, history), task, on_device)
                report.hidden_layer(units, history)
                self._warn_of_one_class(units, samples)
            state = IncrementalState.start(units, task, self.alpha, job.memory_limit, history)
            parts = Parts(units, task, parts.readout.with_fitted())
            self._set_fitted(parts, engine.name, history.table, state)
        return parts, samples

    def _validate_batch(self, parts, X, y, sample_weight, classes=None, is_first=False):
        """Return the target specification, fitted if this is the first batch, and `Samples`."""
        if callable(X):
            raise TypeError(
                f"X={X!r} returns chunks of samples; give partial_fit and forget one chunk at a "
                "time."
            )
        X, y = validated(self, to_host(X), to_host(y), multi_output=True, reset=is_first)
        task = parts.task
        if is_first:
            pretrained = parts_of(parts.units.pretrained)
            task = task.fit_first_batch(
                X, y, sample_weight, classes, pretrained and pretrained.task
            )
        else:
            task.check_classes(y, classes)
        return task, task.encode(X, y, sample_weight)

    def _warn_of_one_class(self, units: Units, samples: Samples) -> None:
        """Warn if all centres are samples of one class."""
        codes = getattr(samples.targets, "codes", None)
        if codes is not None and units.rows is not None and (codes == codes[0]).all():
            warn(
                "The samples of the first call of partial_fit are of one class, and so are the "
                "centres of the hidden layer, which stays. Begin with samples of all classes, or "
                "give a layer, as layer=FrozenEstimator(fitted)."
            )

    def _check_incremental_state(self, parts: Parts, name: str | None = None) -> None:
        """Raise if there are no sums, or if they are of another layer than the parameters'."""
        name = name or f"This {type(self).__name__}"
        if "_incremental_state" not in vars(self):
            check_is_fitted(self)
            raise ValueError(
                f"{name} was trained by fit, which keeps no sums of its samples; use partial_fit "
                "instead."
            )
        if not self._incremental_state.matches(parts.units):
            raise ValueError(
                f"{name} had its layer fixed in the first call of partial_fit, and its parameters "
                "layer or metric were changed since; set them back, or train a clone."
            )

    def _store_state(self, parts, state, evaluate, search_results=None):
        """Set the fitted attributes; those of the readout only if it is solved."""
        if state.solved_for is None:
            parts = replace(parts, readout=parts.readout.with_fitted())
        if search_results is None:
            search_results = vars(self).get("search_results_")
        self._set_fitted(parts, evaluate.device or self.device_, search_results, state)

    def forget(self, X, y, sample_weight=None):
        """Remove samples that were added by `partial_fit`.

        The readout becomes that of a fit without them, up to rounding. The hidden layer does not
        change, even if it was chosen for these samples: a removed sample stays a centre. The
        probabilities of a classifier are calibrated on a random sample of 512 training samples.
        If some of them are removed, only samples that are added later replace them; the fewer
        there are, the closer the probabilities are to 1 / n_classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            As in `partial_fit`. Smaller weights reduce the weights of the samples by these amounts.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For samples that cannot have been added, such as more of a class than there are.
            Samples that were never added are not always detected: keep a record of the data.
            The estimator is not changed.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.frozen import FrozenEstimator
        >>> from sklearn_fsvc import TanhRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = TanhRegressor(50, random_state=0).partial_fit(X, y)
        >>> model = model.forget(X[:100], y[:100]).solve()
        >>> refit = TanhRegressor(layer=FrozenEstimator(model), alpha=model.alpha_)
        >>> refit = refit.fit(X[100:], y[100:])
        >>> bool(abs(model.predict(X) - refit.predict(X)).max() < 1e-6)
        True
        """
        atomic_update(self, lambda copied: copied._remove_samples(X, y, sample_weight))
        return self

    def _remove_samples(self, X, y, sample_weight):
        parts = self._parts()
        self._check_incremental_state(parts)
        state, evaluate = self._incremental_state, _Evaluator(self, parts.units)
        if self.forgetting_factor < 1 or state.statistics.log_decay < 0:
            raise ValueError(
                f"forgetting_factor={self.forgetting_factor!r}: the weights of samples decay, and "
                "depend on when they were added; forget removes samples only with "
                "forgetting_factor=1."
            )
        _, samples = self._validate_batch(parts, X, y, sample_weight)
        try:
            state = state.remove(_without_zero_weights(samples), evaluate)
        except InvalidRemoval as error:
            which = "" if error.output is None else f" of {parts.task.output_name(error.output)}"
            raise ValueError(
                f"Not all of these samples{which} can have been added: {error}. Give X, y and "
                "sample_weight as partial_fit had them."
            ) from None
        self._store_state(parts, state, evaluate)

    def merge(self, models):
        """Add the samples of other models with the same hidden layer.

        Parameters
        ----------
        models : sequence of estimators
            Estimators of this class, trained by `partial_fit` with the same layer and the same
            classes. The first of them may have chosen the layer, which the others use as
            ``layer=FrozenEstimator(first)``. They are not changed.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a model with another layer, other classes, or another scaling of y; the estimator
            is not changed.

        Examples
        --------
        >>> from sklearn.base import clone
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.frozen import FrozenEstimator
        >>> from sklearn_fsvc import TanhClassifier, TanhProjector
        >>> X, y = load_digits(return_X_y=True)
        >>> layer = FrozenEstimator(TanhProjector(200, random_state=0).fit(X))
        >>> model = TanhClassifier(layer=layer, alpha=1.0)
        >>> parts = [
        ...     clone(model).partial_fit(X[i::3], y[i::3], classes=range(10)) for i in range(3)
        ... ]
        >>> merged = parts[0].merge(parts[1:])
        >>> bool(merged.score(X, y) == model.fit(X, y).score(X, y))
        True
        """
        atomic_update(self, lambda copied: copied._merge(models))
        return self

    def _merge(self, models):
        parts = self._parts()
        self._check_incremental_state(parts)
        evaluate = _Evaluator(self, parts.units)
        # A generator: only one of the models is copied at a time.
        others = (
            self._state_to_merge(parts, model, f"models[{i}]") for i, model in enumerate(models)
        )
        self._store_state(parts, self._incremental_state.merge(others, evaluate), evaluate)

    def _state_to_merge(self, parts: Parts, model: Any, name: str) -> IncrementalState:
        """Return the state of another model; raise if it cannot be merged with this one."""
        other = copy(model)  # another thread may change the model meanwhile
        if type(other) is not type(self):
            raise TypeError(f"{name}={other!r} must be a {type(self).__name__}, as this is.")
        other_parts = other._parts()
        other._check_incremental_state(other_parts, name)
        if _layer_hash(other_parts.units.layer) != _layer_hash(parts.units.layer):
            raise ValueError(
                f"{name} has another hidden layer. Give all models the same one: "
                "layer=FrozenEstimator(fitted), of sklearn.frozen."
            )
        state = other._incremental_state
        holds_out = bool(self._incremental_state.statistics.n_parts)
        if is_option(self.alpha, "auto") and holds_out != bool(state.statistics.n_parts):
            raise ValueError(
                f'alpha="auto" minimises the error on held-out samples, and {name} or this model '
                'held out none, because it began with a number. Begin with alpha="auto" in all '
                "models, or give this one a number by set_params(alpha=...)."
            )
        parts.task.check_compatible(other_parts.task, name)
        return state

    def solve(self):
        """Solve the readout for the samples that were added and removed.

        `predict` and the other methods that need the readout call it. Afterwards there are the
        fitted attributes of the readout, such as `readout_coef_` and `alpha_`, until samples are
        added or removed, and the buffer is empty: a saved model contains sums, and for a classifier
        the 512 samples on which its probabilities are calibrated. After `fit` it does nothing.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If no sample was added, or all of them were removed.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn_fsvc import TanhRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = TanhRegressor(50, alpha=1.0, random_state=0).partial_fit(X, y)
        >>> hasattr(model, "readout_coef_")
        False
        >>> model.solve().readout_coef_.shape
        (1, 50)
        """
        check_is_fitted(self)
        self._snapshot()
        return self

    def _snapshot(self):
        """Return a copy with its readout solved; then that of this estimator is solved, too.

        Samples that other threads add meanwhile are not lost: each update below blocks these
        threads, and starts from the state that they have left.
        """
        snapshot = copy(self)
        if "_incremental_state" in vars(snapshot) and not snapshot._is_solved:
            # Two updates, so that the sums before the flush are freed before the solve allocates
            # its copy: both are as large as H'H. This is also why the copy is deleted.
            del snapshot
            atomic_update(self, IncrementalNetwork._flush_buffer)
            snapshot = atomic_update(self, IncrementalNetwork._solve_if_outdated)
        return snapshot

    @property
    def _is_solved(self) -> bool:
        return self._incremental_state.solved_for == self._penalty(self._parts())

    def _penalty(self, parts: Parts) -> Any:
        return self._incremental_state.resolve_penalty(self.alpha, parts.why_not_incremental())

    def _flush_buffer(self):
        """Add the buffered samples to the sums."""
        parts, state = self._parts(), self._incremental_state
        evaluate = _Evaluator(self, parts.units)
        state = replace(state, statistics=state.statistics.flush(evaluate))
        self._store_state(parts, state, evaluate)

    def _solve_if_outdated(self):
        """Solve the readout if samples were added or removed, or the penalty was changed."""
        if self._is_solved:  # by another thread, since `_snapshot` looked
            return
        if self._incremental_state.statistics.is_empty:
            raise NotFittedError(
                f"All samples of this {type(self).__name__} were removed; add others by "
                "partial_fit."
            )
        self._flush_buffer()  # another thread may have added samples since the first flush
        parts, state = self._parts(), self._incremental_state
        penalty, layer, search_results = self._penalty(parts), parts.units.layer, None
        alpha = penalty
        report = FitReport(f"{type(self).__name__} solve", self.verbose)
        if penalty == "auto":
            state, search_results = state.search_penalty(layer, self.forgetting_factor)
            alpha = state.best_alpha
        evaluate = _Evaluator(self, parts.units)
        solution, fitted = evaluate.solve(state, parts, alpha)
        readout = parts.readout.solved(HOST, solution, parts.task, layer.hidden_dtype, **fitted)
        if search_results is not None:
            n_before, columns = len(state.search_rows), ("alpha", "error")
            pairs = zip(*(search_results[name][n_before:] for name in columns), strict=True)
            report.readout(readout, dict(pairs))
        parts, state = replace(parts, readout=readout), replace(state, solved_for=penalty)
        self._store_state(parts, state, evaluate, search_results)
        warn_of(solution.problem)


def _layer_hash(layer: Any) -> str:
    """Return a hash of the formula and all arrays of a layer."""
    return joblib.hash([getattr(layer, field.name) for field in fields(layer)])


def _without_zero_weights(samples: Samples) -> Samples:
    rows = samples.present
    if len(rows) == len(samples):
        return samples
    return samples.with_rows(select_rows(samples.X, rows), rows)
