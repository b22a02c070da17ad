"""What an estimator of this package does: how it is fitted, and how it answers. Each once."""

from abc import ABCMeta, abstractmethod
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_y, check_is_fitted

from ..callbacks import Observable, with_callbacks
from ..documentation import Documented
from ..engines import get_engine
from ..engines.compile_notice import on_compile
from ..parameters import check_level
from ..readouts.held_out import SearchHistory
from ..rows.blocks import is_dask, open_all
from ..rows.job import Job
from ..rows.samples import Samples
from ..rows.sources import Source
from ..rows.sources.base import as_taken
from ..rows.streaming import cast_layer, n_synapses
from ..rows.validation import check_rows, is_elsewhere, to_host, validated
from .locking import atomic_update, copy_of
from .parts import Parts, ReadoutTraining
from .prediction import PredictionRun
from .state import Versioned
from .targets import class_targets

# Set by scikit-learn as it looks at X.
_OF_INPUT = {"n_features_in_", "feature_names_in_"}


class Network(Documented, Versioned, Observable, BaseEstimator, metaclass=ABCMeta):
    """One hidden layer that is not trained, and, but for transformers, a readout of it."""

    @abstractmethod
    def _parts(self):
        """The `Parts` that its parameters name, with what they have found."""

    def _fit(self, X, y=None, sample_weight=None):
        atomic_update(self, lambda model: model._fit_with_callbacks(X, y, sample_weight))
        return self

    @with_callbacks  # `atomic_update` would drop the callback context
    def _fit_with_callbacks(self, X, y, sample_weight):
        parts = self._checked_parts()
        task = self._begin_fit(X, y, sample_weight)
        rows = open_all(X, self.device, self.max_memory, y, sample_weight)
        work = n_synapses(rows[0], parts.units.width)
        with _saying(self), get_engine(self.device, work) as engine:
            self._train(parts, replace(self._job(engine, "fit"), task=task), *rows)
        self._end_fit(task, X, y, sample_weight)

    def _train(self, parts, job, X, y, sample_weight):
        """Choose units for the rows, and train a readout of them."""
        parts, samples = self._read(parts, job.engine, X, y, sample_weight)
        task = parts.task
        if task is not None or parts.units.needs_multiple_passes:
            samples, job = samples.on_device(job)
        job = job.reserve_host(samples.target_bytes)
        history = SearchHistory(parts.units.first_alpha)
        units, readout = parts.units.fit(job, samples, history), None
        if task is not None:
            units = with_rows(units, task, samples)
            readout = parts.readout.train(ReadoutTraining(job, samples, units, task, history))
        self._keep(
            Parts(units, task, readout), search_results_=history.table, device_=job.engine.name
        )

    def _keep(self, parts, **more):
        """Have what parts have found, and more that is not None; nobody else sets attributes."""
        keep(self, parts.found | {name: value for name, value in more.items() if value is not None})

    def _checked_parts(self):
        """The parts, of parameters that can be used."""
        parts = self._parts()
        parts.check()
        check_level("verbose", self.verbose)
        return parts

    def _read(self, parts, engine, X, y, sample_weight):
        """The parts, whose task knows y, and clean `Samples` as they are presented."""
        if parts.task is None:
            X, y = check_rows(self, engine, X, reset=True), to_host(y)
            why = parts.units.labels_required_by()
            samples = Samples(X, class_targets(y, len(X), *why) if why else None)
        else:
            X, y = clean(self, engine, X, y)
            task, samples = parts.task.read(X, y, sample_weight)
            parts = replace(parts, task=task)
            parts.readout.check_samples(samples)
        return parts, parts.units.present(samples)

    def _snapshot(self):
        """Return this estimator at this moment, whatever other threads make of it."""
        return copy_of(self)

    @contextmanager
    def _open_prediction(self, X, phase):
        """The `PredictionRun` that rows are, with its engine entered."""
        if "device_" not in vars(self):
            check_is_fitted(self)  # which takes long
        parts, (X, *_) = self._parts(), open_all(X, self.device, self.max_memory)
        layer = parts.units.layer
        with get_engine(self.device, n_synapses(X, layer.n_units)) as engine:
            X = check_rows(self, engine, X, reset=False)
            yield PredictionRun(parts, self._job(engine, phase), cast_layer(layer, X), X)

    def _answer(self, X, method, out=None):
        """What a method says of rows."""
        with self._open_prediction(X, "predict") as question:
            return question.answers(method, out)

    def _empty_output(self, method, dtype, **options):
        """What a method says of no rows of a dtype, for Dask."""
        parts = self._parts()
        layer = cast_layer(parts.units.layer, np.empty((0, 0), as_taken(dtype, "X")))
        return PredictionRun(parts, None, layer).empty_output(method)

    def _score(self, X, y, sample_weight):
        return score_of(self, self._parts().task, X, y, sample_weight)

    def _job(self, engine, phase):
        what = f"{type(self).__name__} {phase}"
        return Job(engine, self.max_memory, self.verbose, what)


def clean(model, engine, X, y):
    """X and y as scikit-learn leaves them, X on the engine's device if it is there."""
    if not (is_elsewhere(X) or isinstance(X, Source)):
        return validated(model, to_host(X), to_host(y), multi_output=True)
    X = check_rows(model, engine, X, reset=True)
    if y is None:
        raise ValueError(
            f"This {type(model).__name__} estimator requires y to be passed, but the target y "
            "is None; pass y of all rows, or give chunks (X, y)."
        )
    y = _check_y(to_host(y), multi_output=True, estimator=model)
    check_consistent_length(range(len(X)), y)
    return X, y


def score_of(model, task, X, y, sample_weight):
    """`score` of rows, which may be a source, and may hold their own y."""
    if is_dask(X):
        answers = model.predict(X).compute()
        _, y, sample_weight = open_all(None, model.device, model.max_memory, y, sample_weight)
    else:
        X, y, sample_weight = open_all(X, model.device, model.max_memory, y, sample_weight)
        answers = model.predict(X)
    return task.score(answers, to_host(y), to_host(sample_weight))


def _saying(model):
    """Context in which a fit prints that loops are compiled, if `verbose` asks for it."""
    what = "compiling loops for this processor, once: it takes seconds"
    say = partial(print, f"[{type(model).__name__} fit] {what}")
    return on_compile(say) if model.verbose else nullcontext()


def with_rows(units, task, samples):
    """The units with the y of the rows that they stand on, where they do."""
    return units if units.rows is None else units.update_fitted(**task.of_rows(samples, units.rows))


def keep(model, found):
    """Have fitted attributes; what an earlier fit has left, and this one has not found, goes."""
    for name in fitted_attributes(model) - found.keys() - _OF_INPUT:
        delattr(model, name)
    vars(model).update(found)


def fitted_attributes(model):
    """The names of what an estimator has found, sums of rows among it."""
    is_found = {name for name in vars(model) if name.endswith("_") and name[0] != "_"}
    return is_found | ({"_incremental_state"} & vars(model).keys())
