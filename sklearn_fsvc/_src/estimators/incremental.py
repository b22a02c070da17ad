"""Rows that come and go: what is learnt of them, and the methods by which they do.

`IncrementalState` is what a model has learnt in this way: sums of rows, rows that wait to be
summed, and the penalty that was found by them. It is never changed; what changes it gives another
one, which takes its place in one step (see `locking`).
"""

from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import joblib
import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..data.sources import some_rows
from ..data.streaming import cast_layer, n_synapses
from ..data.validation import to_host, validated
from ..engines import get_engine
from ..engines.algebra import HOST
from ..parts import Parts, parts_of
from ..readouts.cross_validation import (
    CVStatistics,
    SearchHistory,
    held_rows,
    n_parts,
    n_validation_units,
    search_penalty,
)
from ..readouts.leave_one_out import SampledLOO
from ..readouts.linear import warn_of
from ..readouts.ridge import gather
from ..readouts.running_statistics import ImpossibleSums, RunningStatistics
from ..readouts.sample import Sample, rows_for
from ..readouts.statistics import RidgeStatistics
from ..utils.parameters import is_word, parse_penalty
from ..utils.user_warnings import warn
from .network import with_rows
from .readouts import nearest_outputs
from .state import atomic_update, copy_of

# Rows that wait may take this part of the memory, and as many bytes as the sums, which come from
# a GPU each time; or so many where the sums take fewer.
_WAITING, _FEW_WAITING = 1 / 8, 2**26
# Products of H are made in float64, for rows may go again. In the dtype of H, as `fit` makes them,
# the rounding of what came and went adds up: 7e-3 of the coefficients for a tenth of MNIST.
_DTYPE = np.float64
# Rows that are worth a product: adding it to the sums takes as long for few rows as for many.
_ROWS_PER_UNIT, _LEAST_ROWS = 16, 1024
# Rows that came and went since a penalty was found, as a part of those that are there, after which
# it is found anew. It takes about as long as to solve the readout.
_GROWTH = 0.1


@dataclass(frozen=True, eq=False)
class IncrementalState:
    """What a model has learnt of rows that came and did not go."""

    stream: RunningStatistics  # sums of rows, and rows that wait
    given: Any  # the parameter `layer` as the first rows came
    formula: str  # of the layer: both tell whether the parameters still mean it
    tried: list[dict]  # what was tried for the layer, as of `SearchHistory`
    first_alpha: float  # the penalty that was best then: a search begins there
    alpha: float | None = None  # the penalty that was found for the rows
    found_at: int | None = None  # how many rows had come and gone by then
    # The penalty, or "auto", for which the readout is solved; None where it is not.
    solved_for: Any = None

    @classmethod
    def begin(cls, units, task, alpha, memory_limit, history):
        """Begin with no rows, in the layer of some units."""
        layer = units.layer
        max_rows = max(_LEAST_ROWS, _ROWS_PER_UNIT * layer.n_units)
        parts = n_parts(layer.n_units) if is_word(alpha, "auto") else 0
        # By which probabilities are calibrated.
        most = rows_for(memory_limit, layer.n_features)
        sample = Sample(most) if task.wants_scores else None
        few_bytes = max(_FEW_WAITING, RidgeStatistics.nbytes(layer.n_units))
        max_bytes = min(few_bytes, int(_WAITING * memory_limit))
        stream = RunningStatistics(max_rows, max_bytes, n_parts=parts, sample=sample)
        first_alpha = history.first_alpha(layer)
        return cls(stream, units.given, layer.formula, list(history.rows), first_alpha)

    def having(self, stream):
        """Other rows, whose readout is not solved."""
        return replace(self, stream=stream, solved_for=None)

    def learn(self, samples, factor, sums_of):
        """Return it with more rows, `Samples` of the host, all with a weight."""
        return self.having(self.stream.learn(samples, factor, sums_of))

    def forget(self, samples, sums_of):
        """Return it without rows that came before."""
        return self.having(self.stream.forget(samples, sums_of))

    def merge(self, others, sums_of):
        """Return it with the rows of others."""
        stream = self.stream
        for other in others:
            stream = stream.merge(other.stream, sums_of)
        is_judged = stream.n_parts or not self.stream.n_parts  # else by nothing any more
        return replace(self.having(stream), alpha=self.alpha if is_judged else None)

    def is_of(self, units):
        """Whether units are still those that the sums are of."""
        are_arrays = isinstance(self.given, np.ndarray) and isinstance(units.given, np.ndarray)
        is_same = self.given is units.given or (
            are_arrays and np.array_equal(self.given, units.given)
        )
        return is_same and self.formula == units.layer.formula

    def penalty(self, alpha, why_no_sums):
        """The ridge penalty that the parameter means for these rows, or "auto"."""
        penalty = parse_penalty(alpha)
        if isinstance(penalty, float):
            return penalty
        if penalty == "auto" and (self.stream.n_parts or self.alpha is not None):
            return "auto"
        raise ValueError(
            why_no_sums
            or 'alpha="auto" is judged by rows that are held out from the first call of '
            "partial_fit on, and then alpha was a number, or it was in a model that was merged; "
            "give a number."
        )

    def judged(self, layer, forgetting_factor):
        """Return it with the penalty of the least error on held-out rows, found now and then.

        And the table of `SearchHistory`; None where it was not found anew.
        """
        stream = self.stream
        n_moved, n_there = stream.n_added + stream.n_removed, stream.n_added - stream.n_removed
        if forgetting_factor < 1:
            n_there = min(n_there, 1 / (1 - forgetting_factor))
        is_old = self.found_at is None or n_moved - self.found_at >= _GROWTH * n_there
        folds = stream.sums.folds() if is_old else []
        if not folds:
            return self, None
        history = SearchHistory(self.first_alpha, list(self.tried))
        found = search_penalty(folds, self.first_alpha)
        history.add(layer, found)
        return replace(self, alpha=found.alpha, found_at=n_moved), history.table

    @property
    def best_alpha(self):
        """The penalty that was found; that of the first rows as long as there is none."""
        return self.first_alpha if self.alpha is None else self.alpha


@dataclass
class _Summing:
    """What makes `CVStatistics` of rows, on the host, for a model."""

    model: Any
    units: Any
    device: str | None = None  # the engine that was used last

    @contextmanager
    def _job(self, X, layer):
        """A job for these rows."""
        with get_engine(self.model.device, n_synapses(X, layer.n_units)) as engine:
            self.device = engine.name
            yield self.model._job(engine, "partial_fit")

    def __call__(self, samples, n_parts):
        layer = cast_layer(self.units.layer, samples.X)
        judges = layer.part(slice(n_validation_units(layer.n_units)))
        with self._job(samples.X, layer) as job:
            if job.engine.algebra is HOST:  # there are a total and rows that wait, and copies
                taken = (
                    RidgeStatistics.nbytes(layer.n_units)
                    + self.model._incremental_state.stream.n_bytes
                )
                taken += n_parts * RidgeStatistics.nbytes(judges.n_units)
                job = job.reserving(2 * taken)

            def gathered(layer, rows=None):
                (statistics,) = gather(job, [layer], samples, rows=rows, dtype=_DTYPE)
                return statistics.on(HOST)

            parts = held_rows(samples, n_parts)
            held = tuple(gathered(judges, rows) if len(rows) else None for rows in parts)
            return CVStatistics(gathered(layer), held)

    def solved(self, learning, parts, alpha):
        """The `Solution` of all rows that do not wait, and what else is found by it."""
        total, sample, found = learning.stream.total, learning.stream.sample, {"alpha_": alpha}
        if sample is None:
            return total.solve(alpha), found
        if sample.is_empty:
            return total.solve(alpha), found | parts.task.uncalibrated()
        layer = cast_layer(self.units.layer, sample.rows.X)
        with self._job(sample.rows.X, layer) as job:
            loo = SampledLOO(job, layer, sample, total)
            solution, scores = loo.solve(alpha)
            nearest = nearest_outputs(parts.units, parts.task, solution.b, alpha)
            found |= parts.task.calibrated(loo.fill_uncovered(scores, nearest), sample)
            return solution, found


class Solved:
    """A fitted attribute that a model has as soon as its readout is solved.

    Whoever reads it earlier is told. Nothing is solved for it: `hasattr`, a copy and what shows
    a model read attributes, too.
    """

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, model, owner=None):
        if model is None:
            return self
        why = f"{type(model).__name__!r} object has no attribute {self._name!r}"
        if "_incremental_state" in vars(model):
            why += (
                " until its readout is solved, for rows have come or gone: call solve(), or predict"
            )
        raise AttributeError(why)


class Online:
    """A mixin: a `Network` with a readout, whose rows may come and go."""

    readout_coef_, readout_intercept_, alpha_ = Solved(), Solved(), Solved()

    def _may_stream(self):
        why = self._parts().why_no_sums()
        if why:
            raise AttributeError(why)
        return True

    def _partial_fit(self, X, y, sample_weight, classes=None):
        atomic_update(self, lambda model: model._learn(X, y, sample_weight, classes))
        return self

    def _learn(self, X, y, sample_weight, classes):
        parts = self._checked_parts()
        if "_incremental_state" in vars(self):
            self._check_learning(parts)
            _, samples = self._validate_batch(parts, X, y, sample_weight, classes)
        else:
            parts, samples = self._begin(parts, X, y, sample_weight, classes)
        sums_of = _Summing(self, parts.units)
        learning = self._incremental_state.learn(
            _with_weight(samples), self.forgetting_factor, sums_of
        )
        self._store_state(parts, learning, sums_of)

    def _begin(self, parts, X, y, sample_weight, classes):
        """The parts that the first rows choose, and their `Samples`."""
        is_new = "readout_coef_" not in vars(self)
        if not is_new:
            warn(
                f"This {type(self).__name__} was trained by fit, which keeps no sums of its rows: "
                "it forgets them, and learns anew in the same hidden layer. To have their sums, "
                "call partial_fit for the first rows as well."
            )
        units, history = parts.units, SearchHistory(parts.units.first_alpha)
        with get_engine(self.device, n_synapses(X, units.width)) as engine:
            task, samples = self._validate_batch(parts, X, y, sample_weight, classes, is_new)
            job = self._job(engine, "partial_fit")
            if is_new or units.pretrained is not None:
                there, job = units.present(samples).on_device(job)
                units = with_rows(units.fit(job, there, history), task, there)
                self._warn_of_one_class(units, samples)
            learning = IncrementalState.begin(units, task, self.alpha, job.memory_limit, history)
            parts = Parts(units, task, parts.readout.with_fitted())
            more = {"device_": engine.name, "search_results_": history.table}
            self._keep(parts, _incremental_state=learning, **more)
        return parts, samples

    def _validate_batch(self, parts, X, y, sample_weight, classes=None, is_first=False):
        """The task that knows what y is made of, by these rows if they are the first; `Samples`."""
        if callable(X):
            raise TypeError(
                f"X={X!r} returns chunks of rows; give partial_fit and forget one chunk at a time."
            )
        X, y = validated(self, to_host(X), to_host(y), multi_output=True, reset=is_first)
        task = parts.task
        if is_first:
            pretrained = parts_of(parts.units.pretrained)
            task = task.begin(X, y, sample_weight, classes, pretrained and pretrained.task)
        else:
            task.check_classes(y, classes)
        return task, task.samples(X, y, sample_weight)

    def _warn_of_one_class(self, units, samples):
        """Warn where centres are rows of one class."""
        codes = getattr(samples.targets, "codes", None)
        if codes is not None and units.rows is not None and (codes == codes[0]).all():
            warn(
                "The rows of the first call of partial_fit are of one class, and so are the "
                "centres of the hidden layer, which stays. Begin with rows of all classes, or give "
                "a layer, as layer=FrozenEstimator(fitted)."
            )

    def _check_learning(self, parts, name=None):
        """Raise if there are no sums, or not those of the layer that the parameters mean."""
        name = name or f"This {type(self).__name__}"
        if "_incremental_state" not in vars(self):
            check_is_fitted(self)
            raise ValueError(
                f"{name} was trained by fit, which keeps no sums of its rows; use partial_fit in "
                "its place."
            )
        if not self._incremental_state.is_of(parts.units):
            raise ValueError(
                f"{name} had its layer fixed in the first call of partial_fit, and its parameters "
                "layer or metric were changed since; set them back, or learn anew in a clone."
            )

    def _store_state(self, parts, learning, sums_of, history=None):
        """Have learnt this; the readout is that of the parts, where it has one."""
        if learning.solved_for is None:
            parts = Parts(parts.units, parts.task, parts.readout.with_fitted())
        more = {"device_": sums_of.device or self.device_}
        more["search_results_"] = vars(self).get("search_results_") if history is None else history
        self._keep(parts, _incremental_state=learning, **more)

    def forget(self, X, y, sample_weight=None):
        """Remove rows that were learnt by `partial_fit`.

        The readout becomes what it would be without them, to rounding. The hidden layer stays as
        it is, also where it was chosen by these rows: a centre keeps its unit. Probabilities of a
        classifier are calibrated by a sample of the rows, 512 of them. Those of the sample that go
        are replaced only by rows that come later: where few are left, the temperature is drawn to
        1 over the number of classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            As they were learnt. With less, that much of a row's weight goes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For rows that cannot have been learnt, such as more of a class than there are.
            Rows that were never learnt are not always noticed: keep a record of what was
            learnt. The estimator is left as it was.

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
        atomic_update(self, lambda model: model._forget(X, y, sample_weight))
        return self

    def _forget(self, X, y, sample_weight):
        parts = self._parts()
        self._check_learning(parts)
        learning, sums_of = self._incremental_state, _Summing(self, parts.units)
        if self.forgetting_factor < 1 or learning.stream.log_decay < 0:
            raise ValueError(
                f"forgetting_factor={self.forgetting_factor!r}: rows fade, and what is left of "
                "them depends on when they came; forget takes them out only with "
                "forgetting_factor=1."
            )
        _, samples = self._validate_batch(parts, X, y, sample_weight)
        try:
            learning = learning.forget(_with_weight(samples), sums_of)
        except ImpossibleSums as error:
            which = "" if error.output is None else f" of {parts.task.name_of(error.output)}"
            raise ValueError(
                f"Not all of these rows{which} can have been learnt: {error}. Give rows, y and "
                "sample_weight as partial_fit had them."
            ) from None
        self._store_state(parts, learning, sums_of)

    def merge(self, models):
        """Add what other models with the same hidden layer have learnt.

        Parameters
        ----------
        models : sequence of estimators
            Of this class, taught by `partial_fit` in the same layer and of the same classes; the
            first of them may have chosen the layer, and the others had it as
            ``layer=FrozenEstimator(first)``. They are left as they are.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a model of another layer, of other classes, or of a y in other units; the
            estimator is left as it was.

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
        atomic_update(self, lambda model: model._merge(models))
        return self

    def _merge(self, models):
        parts = self._parts()
        self._check_learning(parts)
        sums_of = _Summing(self, parts.units)
        others = (self._mergeable(parts, each, f"models[{i}]") for i, each in enumerate(models))
        self._store_state(parts, self._incremental_state.merge(others, sums_of), sums_of)

    def _mergeable(self, parts, model, name):
        """What another model has learnt, if it may be merged with this one."""
        other = copy_of(model)  # whatever it learns meanwhile
        if type(other) is not type(self):
            raise TypeError(f"{name}={other!r} must be a {type(self).__name__}, as this is.")
        their = other._parts()
        other._check_learning(their, name)
        if _digest(their.units.layer) != _digest(parts.units.layer):
            raise ValueError(
                f"{name} has another hidden layer. Give all models the same one: "
                "layer=FrozenEstimator(fitted), of sklearn.frozen."
            )
        learning, is_judged = other._incremental_state, bool(self._incremental_state.stream.n_parts)
        if is_word(self.alpha, "auto") and is_judged != bool(learning.stream.n_parts):
            raise ValueError(
                f'alpha="auto" is judged by rows that are held out, and {name} or this model held '
                'out none, for it began with a number. Begin with alpha="auto" in all models, or '
                "give this one a number by set_params(alpha=...)."
            )
        parts.task.check_same(their.task, name)
        return learning

    def solve(self):
        """Solve the readout for the rows that came and went.

        `predict` and other methods that need it do so by themselves. Fitted attributes of the
        readout, such as `readout_coef_` and `alpha_`, are there afterwards, until rows come or
        go, and no row waits: a model that is saved then holds sums, and of a classifier the 512
        rows by which its probabilities are calibrated. After `fit` there is nothing to solve.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If nothing was learnt, or all of it was forgotten.

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
        """A copy whose readout is solved, as this model's is then, too."""
        model = copy_of(self)
        if "_incremental_state" in vars(model) and not model._is_solved:
            del model  # in two steps, and nobody holds the sums that were before
            atomic_update(self, Online._flush)
            model = atomic_update(self, Online._solve_if_stale)
        return model

    @property
    def _is_solved(self):
        return self._incremental_state.solved_for == self._penalty(self._parts())

    def _penalty(self, parts):
        return self._incremental_state.penalty(self.alpha, parts.why_no_sums())

    def _flush(self):
        """Sum the rows that wait."""
        parts, learning = self._parts(), self._incremental_state
        sums_of = _Summing(self, parts.units)
        self._store_state(parts, replace(learning, stream=learning.stream.flush(sums_of)), sums_of)

    def _solve_if_stale(self):
        """Solve the readout, if rows have come or gone, or the penalty is another one."""
        if self._is_solved:
            return
        if self._incremental_state.stream.is_empty:
            raise NotFittedError(
                f"This {type(self).__name__} has forgotten all rows; give it others by partial_fit."
            )
        self._flush()
        parts, learning, table = self._parts(), self._incremental_state, None
        alpha, layer = self._penalty(parts), parts.units.layer
        learning = replace(learning, solved_for=alpha)
        if alpha == "auto":
            learning, table = learning.judged(layer, self.forgetting_factor)
            alpha = learning.best_alpha
        sums_of = _Summing(self, parts.units)
        solution, found = sums_of.solved(learning, parts, alpha)
        readout = parts.readout.solved(HOST, solution, parts.task, layer.hidden_dtype, **found)
        self._store_state(replace(parts, readout=readout), learning, sums_of, table)
        warn_of(solution.problem)


def _digest(layer):
    """What tells layers apart."""
    return joblib.hash([getattr(layer, field.name) for field in fields(layer)])


def _with_weight(samples):
    rows = samples.present
    if len(rows) == len(samples):
        return samples
    return samples.with_rows(some_rows(samples.X, rows), rows)
