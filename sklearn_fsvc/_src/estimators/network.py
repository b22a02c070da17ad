"""What an estimator of this package does: how it is fitted, and how it answers. Each once."""

from abc import ABCMeta, abstractmethod
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_y, check_is_fitted

from ..data.dask_blocks import is_dask, open_all
from ..data.job import Job
from ..data.map_reduce import part_of, run_parallel, shares_of
from ..data.samples import Samples
from ..data.sources import Source
from ..data.sources.base import as_taken
from ..data.streaming import Consumer, cast_layer, n_synapses, stream, write
from ..data.validation import check_rows, is_elsewhere, to_host, validated
from ..engines import get_engine
from ..parts import Parts, ReadoutTraining
from ..readouts.cross_validation import SearchHistory
from ..readouts.linear import score_uncovered
from ..targets.validation import class_targets
from ..utils.callbacks import Observable, on_compile, with_callbacks
from ..utils.parameters import check_level
from .state import Documented, Versioned, atomic_update, copy_of

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
        work = n_synapses(rows[0], parts.units.n_activations)
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
        keep(
            self, parts.fitted | {name: value for name, value in more.items() if value is not None}
        )

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


# Rows that are answered: tiles of H to scores, and scores to what a method says.

_NOTHING = Consumer(None)


@dataclass(frozen=True, eq=False)
class PredictionRun:
    """Clean rows that are to be answered, and what answers them."""

    parts: Parts  # of a fitted estimator
    job: Job | None
    layer: Any  # as it meets the rows
    X: Any = None

    def empty_output(self, method):
        """What a method says of no rows: the dtypes and shapes of its answers."""
        readout = self.parts.readout
        dtype = np.result_type(readout.readout_intercept_.dtype, self.layer.hidden_dtype)
        return self.parts.task.format_output(
            method, np.empty((0, len(readout.readout_coef_)), dtype), readout
        )

    def answers(self, method, out=None, also=None):
        """What a method says, in new arrays or in `out`; for `also` see `scores`."""
        task, readout, answers = self.parts.task, self.parts.readout, Answers(len(self.X), out)
        if out is not None:
            task.check_out(out, (len(self.X), *self.empty_output(method).shape[1:]))
        self.scores(
            lambda part, own: answers.take(part, task.format_output(method, own, readout)), also
        )
        return answers.all

    def scores(self, consume, also=None):
        """``consume(rows, scores)`` until all rows have their scores (rows, n_scores).

        `also` makes a `Consumer` for a job, which meets each tile of H in the end.
        """
        lock, X = Lock(), self.X

        def answer(job, share):
            return share.start + self._share(job, part_of(X, share), share, lock, consume, also)

        found = run_parallel(self.job, shares_of(self.job.engine.team, len(X)), answer)
        uncovered = np.concatenate(found)
        if len(uncovered):
            nearest = self.parts.nearest_scores
            score_uncovered(self.job, self.layer, X, uncovered, nearest, consume)

    def _share(self, job, X, share, lock, consume, also):
        """`scores` of a share of the rows; those of them that no unit covers, if they matter."""
        finds_uncovered = self.parts.uses_nearest_unit
        readout = self.parts.readout.make_predictor(
            job.engine, self.layer.hidden_dtype, finds_uncovered
        )
        others = _NOTHING if also is None else also(job)

        def take(part, H):
            scores = readout.scores(part, H)
            rows = slice(share.start + part.start, share.start + part.stop)
            with lock:  # a file takes from one thread at a time
                consume(rows, scores)
            if also is not None:
                others.take(rows, H)

        row_bytes = readout.row_bytes + others.row_bytes
        stream(job, self.layer, X, Consumer(take, others.fixed_bytes, row_bytes))
        return readout.uncovered


class Answers:
    """Answers to all rows, as those to some of them come: in `out`, or in new arrays."""

    def __init__(self, n_rows, out=None):
        self._n_rows, self._places, self._is_list = n_rows, None if out is None else [out], False

    def take(self, part, answers):
        """Write the answers to a slice of the rows; the first say what arrays there are to be."""
        found, self._is_list = as_list(answers), isinstance(answers, list)
        if self._places is None:
            self._places = [np.empty((self._n_rows, *own.shape[1:]), own.dtype) for own in found]
        for place, own in zip(self._places, found, strict=True):
            write(place, part, own)

    @property
    def all(self):
        """An array, or of several outputs a list of them."""
        return self._places if self._is_list else self._places[0]


def as_list(answers):
    """Return a list of the answers; of several outputs there is one already."""
    return answers if isinstance(answers, list) else [answers]
