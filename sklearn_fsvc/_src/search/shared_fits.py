"""A group on the splits: a pass for each split, or one for all of them."""

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, _num_samples

from ..data.job import Job
from ..data.sources import some_rows
from ..data.streaming import cast_layer, n_synapses
from ..data.validation import check_rows
from ..engines import get_engine
from ..estimators.network import with_rows
from ..parts import Parts, generator, parts_of
from ..readouts.cross_validation import FEW, CVStatistics, SearchHistory, parts_to_hold_out
from ..readouts.leave_one_out import SampledLOO
from ..readouts.ridge import gather
from ..readouts.sample import draw
from ..readouts.statistics import RidgeStatistics
from ..utils.callbacks import FitTask
from ..utils.parameters import is_word
from .networks import Common, Fitted, Group, key_of, layers_of, score, solve
from .wrappers import fit_wrappers, last_step, sample_weight_of, without_targets


@dataclass(frozen=True)
class SearchPlan:
    """What a search is to do: the arguments of its fit, and the splits."""

    X: object
    y: object
    fit_params: dict
    splits: list[tuple[np.ndarray, np.ndarray]]  # training and test rows
    return_train_score: bool
    verbose: int
    passes: FitTask  # of which each pass is a part
    part: range  # the candidates that are scored at once
    kept_bytes: int  # that decision values take which wait
    n_jobs: int = 1  # passes that run at the same time
    wants_probabilities: bool = False  # whether networks may be asked for them

    def job(self, network, engine):
        """What one of the passes that run at the same time has."""
        job = network._job(engine, "fit")
        limit = (job.memory_limit - self.kept_bytes) // self.n_jobs
        return replace(job, max_memory=max(1, limit))

    def training_set(self, split):
        """X, y and fit parameters of the training rows of a split."""
        train = self.splits[split][0]
        return (
            some_rows(self.X, train),
            _safe_indexing(self.y, train),
            _check_method_params(self.X, params=self.fit_params, indices=train),
        )

    def scored_rows(self, split):
        """The sets of rows whose scores are wanted, the test set first."""
        train, test = self.splits[split]
        return [test, train] if self.return_train_score else [test]

    def name(self, split):
        """Return the name of a split, for people to read."""
        return f"split {split + 1} of {len(self.splits)}"


@dataclass(frozen=True, eq=False)
class _Pass:
    """A group at work on its largest network."""

    group: Group
    task: SearchPlan
    network: object  # not fitted
    parts: Parts  # its own, with units and a task that know the rows
    layers: list  # one for each shape of the group
    history: SearchHistory  # what was tried for the layer
    job: Job
    device: str | None = None  # the engine of the job, once there is no job

    @classmethod
    def begin(cls, group, task, network, parts, job, samples, part):
        """Choose the layer; `part`, a `FitTask`, begins."""
        job, history = replace(job, task=part.begin()), SearchHistory(parts.units.first_alpha)
        units = with_rows(parts.units.fit(job, samples, history), parts.task, samples)
        layers = layers_of(group, cast_layer(units.layer, samples.X))
        return cls(group, task, network, replace(parts, units=units), layers, history, job)

    def sums(self, samples, what):
        """`CVStatistics` of each layer over the samples, one after the other."""
        if not self.group.has_auto:
            return map(CVStatistics, self.statistics(samples, what))
        parts = parts_to_hold_out(samples.present, generator(self.network.random_state))
        few = replace(self, layers=[layer.part(slice(FEW)) for layer in self.layers])
        # While one is gathered there are the others, and later the differences for one layer.
        # All reserve it, so that what is too large is refused before a row is met.
        n_bytes, n_bytes_of_few = (
            RidgeStatistics.nbytes(each.layers[0].n_units) for each in (self, few)
        )
        n_layers = len(self.layers)
        taken = (n_layers + 1) * n_bytes + (n_layers + 1) * (len(parts) - 1) * n_bytes_of_few
        job = self.job.reserving(taken)
        work, few = replace(self, job=job), replace(few, job=job)
        of_held = [
            each.statistics(samples, f"{what}, held out", rows)
            for each, rows in zip([work] + [few] * (len(parts) - 1), parts, strict=True)
        ]
        return map(CVStatistics, work.statistics(samples, what), zip(*of_held, strict=True))

    def statistics(self, samples, what, rows=None):
        """Return the statistics of each layer over some rows of the samples."""
        dtype = self._statistics_dtype(len(samples))
        return gather(self._named(self.job, what), self.layers, samples, rows, dtype)

    def _named(self, job, what):
        return replace(job, verbose=self.task.verbose, what=f"HiddenSizeSearchCV {what}")

    def _statistics_dtype(self, n_rows):
        """Return the dtype in which H is multiplied with itself: float64 if a penalty is so small.

        H'H of n rows in float32 is rounded by about n times its epsilon.
        """
        is_small = self.group.smallest_alpha < n_rows * np.finfo(np.float32).eps
        standard = self.job.engine.statistics_dtype(self.layers[0])
        return np.dtype(np.float64) if is_small else standard

    def solved(self, sums, start, samples, rows=None, pipeline=None, alone=None):
        """What the `CVStatistics` of the layers give, which took from `start` till now.

        They are of some rows of the samples, None for all. `alone` is the task as a fit to the
        training rows alone would know it.
        """
        engine, layers = self.job.engine, self.layers
        common = Common(self.network, self.parts, alone or self.parts.task, engine, self.history)
        loo_of = None
        if self.task.wants_probabilities and common.task.wants_scores:
            loo_of = partial(SampledLOO, self.job, sample=draw(self.job, samples, rows))
        networks, problems = solve(common, self.group, layers, sums, loo_of)
        fit_time = (perf_counter() - start) / len(self.group.members)
        return Fitted(pipeline, networks, problems, fit_time=fit_time)

    def scored(self, split, fitted, part):
        """Return the same with the decision values of a part of the candidates for the split."""
        start = perf_counter()
        test, *more = self.task.scored_rows(split)
        networks = {c: network for c, network in fitted.networks.items() if c in part}
        scores = self._scores(split, test, fitted, networks)
        # Of the test rows alone, as in GridSearchCV.
        score_time = fitted.score_time + (perf_counter() - start) / len(self.group.members)
        for rows in more:
            scores |= self._scores(split, rows, fitted, networks)
        work = replace(self, job=None, device=self.job.engine.name)
        return replace(fitted, scores=scores, score_time=score_time, work=work, split=split)

    def _scores(self, split, rows, fitted, networks):
        if not networks:
            return {}
        X = some_rows(self.task.X, rows)
        X = X if fitted.pipeline is None else without_targets(fitted.pipeline).predict(X)
        X = check_rows(self.network, self.job.engine, X, reset=False)
        job = self._named(self.job, f"{self.task.name(split)}, scores")
        found = score(job, self.group, self.layers, X, networks)
        return {(candidate, key_of(rows)): scores for candidate, scores in found.items()}


def fit_split(group, task, split, number) -> Fitted:
    """The networks of a group on one split, in a pass with a number."""
    start = perf_counter()
    X, y, params = task.training_set(split)
    pipeline, network, X, y, sample_weight = fit_wrappers(group.estimator, X, y, params)
    parts = parts_of(network)
    with get_engine(network.device, n_synapses(X, parts.units.n_activations)) as engine:
        parts, samples = network._validate_training_data(parts, engine, X, y, sample_weight)
        samples, job = samples.on_device(task.job(network, engine))
        part = task.passes.part(task.name(split), None, number)
        work = _Pass.begin(group, task, network, parts, job, samples, part)
        # The statistics are forgotten before the rows are scored.
        sums = work.sums(samples, f"{task.name(split)}, statistics")
        fitted = work.solved(sums, start, samples, pipeline=pipeline)
        del sums
        fitted = work.scored(split, fitted, task.part)
    part.end()
    return fitted


def score_again(fitted, part):
    """The networks with the decision values of another part of the candidates."""
    work, task = fitted.work, fitted.work.task
    with get_engine(work.device) as engine:
        job = replace(task, n_jobs=1).job(work.network, engine)
        return replace(work, job=job).scored(fitted.split, fitted, part)


def fit_splits(group, task, number):
    """Return the networks of a group on all splits, a `Fitted` for each, if they share a layer.

    The statistics of the training rows of a split are those of all rows less those of the
    rows that the split holds out. None where each split needs a pass of its own.
    """
    start = perf_counter()
    is_possible = _has_one_layer(group.estimator) and not group.has_auto
    held_out = _held_out_rows(task) if is_possible else None
    if held_out is None:
        return None
    network = clone(group.estimator)
    parts = parts_of(network)
    with get_engine(network.device, n_synapses(task.X, network.n_hidden)) as engine:
        weight = sample_weight_of(**task.fit_params)
        parts, samples = network._validate_training_data(parts, engine, task.X, task.y, weight)
        samples, job = samples.on_device(task.job(network, engine))
        kept_bytes = (len(held_out) + 3) * RidgeStatistics.nbytes(network.n_hidden)
        has_room = kept_bytes <= job.memory_limit // 2
        if not (has_room and _targets_hold(task, samples)):
            return None
        part = task.passes.part("all splits", None, number)
        work = _Pass.begin(group, task, network, parts, job, samples, part)
        work = replace(work, job=work.job.reserving(kept_bytes))
        folds, total = _statistics_of_folds(work, samples, held_out)
        shared_time = (perf_counter() - start) / len(folds)

        def of_split(split, fold):
            train = task.splits[split][0]
            alone = work.parts.task.restricted_to(samples, train)
            start = perf_counter() - shared_time
            fitted = work.solved(
                [CVStatistics(total - fold)], start, samples, np.sort(train), alone=alone
            )
            return work.scored(split, fitted, task.part)

        found = [of_split(split, fold) for split, fold in enumerate(folds)]
    part.end()
    return found


def _has_one_layer(estimator):
    """Whether the layer, and the weights of the rows, are the same for all training rows."""
    if last_step(estimator) is not estimator:
        return False
    is_balanced = is_word(getattr(estimator, "class_weight", None), "balanced")
    return not (parts_of(estimator).units.sharing.needs_rows or is_balanced)


def _statistics_of_folds(work, samples, held_out):
    """The statistics of the rows that each split holds out, and those of all rows."""

    def statistics_of(rows, what):
        return work.statistics(samples, what, rows)[0]

    folds = [
        statistics_of(rows, f"rows held out by split {split + 1} of {len(held_out)}")
        for split, rows in enumerate(held_out)
    ]
    return folds, _total(folds, held_out, len(samples), statistics_of)


def _held_out_rows(task):
    """The rows that each split holds out; None if to hold them out is no less work."""
    n_rows = _num_samples(task.y)
    held_out = []
    for train, _ in task.splits:
        rest = np.setdiff1d(np.arange(n_rows), train)
        if not len(rest) or len(rest) + len(train) != n_rows:  # or rows are repeated
            return None
        held_out.append(rest)
    return held_out if sum(map(len, held_out)) <= n_rows * len(held_out) / 2 else None


def _targets_hold(task, samples):
    """Whether the targets of all rows serve the training rows of each split."""
    weight = samples.weight
    if weight is None:
        return all(samples.targets.hold_for(train) for train, _ in task.splits)
    present = (train[weight[train] > 0] for train, _ in task.splits)
    return all(samples.targets.hold_for(rows, weight[rows]) for rows in present)


def _total(folds, held_out, n_rows, statistics_of):
    """The statistics of all rows, as a sum where each row is held out at most once."""
    times = np.bincount(np.concatenate(held_out), minlength=n_rows)
    if times.max() > 1:
        return statistics_of(None, "all rows")
    total = sum(folds[1:], folds[0])
    rest = np.flatnonzero(times == 0)
    return total + statistics_of(rest, "rows never held out") if len(rest) else total
