"""Passes over the samples that fit and score a group of candidates on the splits of a search.

`fit_splits` makes one pass for all splits: the statistics of the training samples of a split are
those of all samples minus those that the split holds out. It applies if every split has the same
hidden layer. Otherwise `fit_split` makes a pass for each split.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, _num_samples

from ..data.copies import merge_copies
from ..data.job import Job
from ..data.samples import Samples
from ..data.sources import select_rows
from ..data.streaming import cast_layer, work_of_fit
from ..data.validation import validate_samples
from ..engines import Engine, get_engine
from ..estimators.linear_readout import center_outputs
from ..estimators.network import with_center_targets
from ..parts.composition import Parts, parts_of
from ..readouts.cross_validation import (
    MAX_CV_UNITS,
    CVStatistics,
    draw_parts,
    find_fold_units,
)
from ..readouts.draw_sample import mark_repeated_rows
from ..readouts.gather_statistics import gather
from ..readouts.leave_one_out import SampledLOO
from ..readouts.loo_penalty import LOOCriterion, draw_penalty_sample, search_loo, suits_loo
from ..readouts.penalty_search import SearchHistory
from ..readouts.statistics import RidgeStatistics
from ..utils.callbacks import FitTask
from ..utils.parameters import is_option, make_generator
from .networks import CandidateGroup, GroupFit, NetworkBuilder, hash_rows, score_group, solve_group
from .wrappers import fit_wrappers, get_metadata, last_step, without_target_transform

# Multiple of the rounding error of H'H above which penalties are solved from sums in float32.
_SAFE_ALPHA = 30

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SearchPlan:
    """The arguments of a search's fit, its splits, and its shares of memory."""

    X: Any
    y: Any
    fit_params: dict[str, Any]
    splits: list[tuple[Rows, Rows]]  # training and test rows
    return_train_score: bool
    verbose: int
    passes: FitTask  # the parent of the callback task of each pass
    part: range  # the candidates that are scored in the first pass
    cached_bytes: int  # of decision values that are cached
    n_jobs: int = 1  # passes that run at the same time
    needs_probabilities: bool = False  # whether a scorer may call predict_proba

    def job(self, network: Any, engine: Engine) -> Job:
        """Return the job of one of the passes that run at the same time."""
        job = network._job(engine, "fit")
        limit = (job.memory_limit - self.cached_bytes) // self.n_jobs
        return replace(job, max_memory=max(1, limit))

    def training_set(self, split: int) -> tuple[Any, Any, dict[str, Any]]:
        """Return X, y and the fit parameters of the training samples of a split."""
        train = self.splits[split][0]
        return (
            select_rows(self.X, train),
            _safe_indexing(self.y, train),
            _check_method_params(self.X, params=self.fit_params, indices=train),
        )

    def scored_rows(self, split: int) -> list[Rows]:
        """Return the sets of rows that are scored, the test set first."""
        train, test = self.splits[split]
        return [test, train] if self.return_train_score else [test]

    def name(self, split: int) -> str:
        """Return the name of a split in messages."""
        return f"split {split + 1} of {len(self.splits)}"


def fit_split(group: CandidateGroup, plan: SearchPlan, split: int, number: int) -> GroupFit:
    """Return the networks of a group on one split; `number` is that of the pass."""
    start = perf_counter()
    X, y, params = plan.training_set(split)
    pipeline, network, *data = fit_wrappers(group.estimator, X, y, params)
    X = data[0]
    parts = parts_of(network)
    with get_engine(network.device, *work_of_fit(X, parts.units.n_activations)) as engine:
        parts, samples = network._encode_training_data(parts, engine, *data)
        samples, scale = merge_copies(samples).with_unit_weights()
        samples = parts.units.order_samples(samples)
        samples, job = samples.on_device(plan.job(network, engine))
        callback_task = plan.passes.subtask(plan.name(split), None, number)
        shared = SharedPass.begin(group, plan, network, parts, job, samples, scale, callback_task)
        # A temporary: the statistics are freed before the samples are scored.
        fitted = shared.solve(
            shared.cv_statistics(samples, f"{plan.name(split)}, statistics"),
            start, samples, pipeline=pipeline,
        )  # fmt: skip
        fitted = shared.score(split, fitted, plan.part)
    callback_task.end()
    return fitted


def fit_splits(group: CandidateGroup, plan: SearchPlan, number: int) -> list[GroupFit] | None:
    """Return the networks of a group on all splits, from one pass; None if that is impossible.

    It needs one hidden layer for all splits, splits that hold out few samples, memory for the
    statistics of each split, targets that are encoded alike in each split, and no copies that a fit
    merges.
    """
    start = perf_counter()
    is_possible = _has_one_layer(group.estimator) and not group.has_auto
    held_out = _held_out_rows(plan) if is_possible else None
    if held_out is None:
        return None
    network = clone(group.estimator)
    parts = parts_of(network)
    with get_engine(network.device, *work_of_fit(plan.X, network.n_hidden)) as engine:
        metadata = get_metadata(**plan.fit_params)
        parts, samples = network._encode_training_data(parts, engine, plan.X, plan.y, *metadata)
        if _merges_copies(plan, samples):
            return None
        samples, scale = parts.units.order_samples(samples).with_unit_weights()
        samples, job = samples.on_device(plan.job(network, engine))
        # Those of each fold, of all samples, their difference and its factor.
        statistics_bytes = (len(held_out) + 3) * RidgeStatistics.nbytes(network.n_hidden)
        if statistics_bytes > job.memory_limit // 2 or not _have_same_targets(plan, samples):
            return None
        callback_task = plan.passes.subtask("all splits", None, number)
        shared = SharedPass.begin(group, plan, network, parts, job, samples, scale, callback_task)
        shared = replace(shared, job=shared.job.reserve(statistics_bytes))
        folds, total = _fold_statistics(shared, samples, held_out)
        shared_time = (perf_counter() - start) / len(folds)

        def finish_split(split: int, fold: RidgeStatistics) -> GroupFit:
            train = plan.splits[split][0]
            target = shared.parts.target.refit_on(samples, train)
            start = perf_counter() - shared_time
            statistics = [CVStatistics(total - fold)]
            fitted = shared.solve(statistics, start, samples, rows=np.sort(train), target=target)
            return shared.score(split, fitted, plan.part)

        fits = [finish_split(split, fold) for split, fold in enumerate(folds)]
    callback_task.end()
    return fits


def score_again(fitted: GroupFit, part: range) -> GroupFit:
    """Return the same networks with the decision values of another range of candidates."""
    shared = fitted.shared_pass
    with get_engine(shared.job.engine.name) as engine:
        job = replace(shared.plan, n_jobs=1).job(shared.network, engine)
        return replace(shared, job=job).score(fitted.split, fitted, part)


@dataclass(frozen=True, eq=False)
class SharedPass:
    """The layers of a group, after the largest network has selected its units."""

    group: CandidateGroup
    plan: SearchPlan
    network: Any  # not fitted
    parts: Parts  # with fitted units, and a target that has read y
    layers: list[Any]  # one for each kernel of the group
    history: SearchHistory  # of the layer
    job: Job  # of the pass: its engine is left afterwards, and entered again by `score_again`

    @classmethod
    def begin(
        cls,
        group: CandidateGroup,
        plan: SearchPlan,
        network: Any,
        parts: Parts,
        job: Job,
        samples: Samples,
        scale: float,
        callback_task: FitTask,
    ) -> "SharedPass":
        """Select the units, and begin the callback task.

        `samples` and `scale` are as of `Samples.with_unit_weights`.
        """
        job = replace(job, task=callback_task.begin())
        history = SearchHistory(parts.units.start_alpha, alpha_scale=scale)
        units = parts.units.of_all_samples().fit(job, samples, history)
        units = with_center_targets(units, parts.target, samples)
        layers = group.layers(cast_layer(units.layer, samples.X))
        return cls(group, plan, network, replace(parts, units=units), layers, history, job)

    def cv_statistics(self, samples: Samples, what: str) -> Iterable[CVStatistics]:
        """Return the `CVStatistics` of each layer, one after the other.

        If penalties are searched, some samples are held out, in one part or in several. The
        statistics of the first part serve networks of any size. Those of the other parts serve
        small networks only, and have the leading `MAX_CV_UNITS` units.
        """
        if not self.group.has_auto or self._leaves_out(samples):
            return map(CVStatistics, self.statistics(samples, what))
        random = make_generator(self.network.random_state)
        parts = draw_parts(samples.rows_with_weight, random, samples.groups)
        leading = [layer.part(slice(MAX_CV_UNITS)) for layer in self.layers]
        n_others = len(parts) - 1
        job = self.job.reserve(self._cv_bytes(leading, n_others))
        all_units, leading_units = replace(self, job=job), replace(self, job=job, layers=leading)
        held_out = [
            shared.statistics(samples, f"{what}, held out", rows)
            for shared, rows in zip([all_units] + [leading_units] * n_others, parts, strict=True)
        ]
        total = all_units.statistics(samples, what)
        centers = mark_repeated_rows(self.job, samples, self.parts.units.support)
        fold_units = find_fold_units(parts, centers)
        return map(partial(CVStatistics, fold_units=fold_units), total, zip(*held_out, strict=True))

    def _mean_weight(self, samples, rows):
        """Return the mean of the given weights of the training samples, without those of 0."""
        scale = self.history.alpha_scale
        if rows is None or scale == 1:
            return scale
        weight = samples.weight_or_ones(rows)
        return scale * float(weight.sum() / np.count_nonzero(weight))

    def _leaves_out(self, samples: Samples) -> bool:
        """Return whether penalties are searched by leave-one-out, without held-out samples."""
        is_searched, units = self.group.has_auto, self.parts.units
        return is_searched and suits_loo(samples, units, False)

    def _cv_bytes(self, leading: list[Any], n_others: int) -> int:
        """Return the bytes of statistics that exist while those of another layer are gathered.

        These are the total, or the differences of one layer afterwards, and those of each
        held-out part. They are reserved for every pass, to raise before any data is read.
        """
        n_bytes = RidgeStatistics.nbytes(self.layers[0].n_units)
        n_leading_bytes = RidgeStatistics.nbytes(leading[0].n_units)
        return (len(self.layers) + 1) * (n_bytes + n_others * n_leading_bytes)

    def statistics(
        self, samples: Samples, what: str, rows: Rows | None = None
    ) -> list[RidgeStatistics]:
        """Return the statistics of each layer for some of the samples, None for all."""
        dtype = self._statistics_dtype(len(samples))
        return gather(self._described(what), self.layers, samples, rows, dtype)

    def _statistics_dtype(self, n_samples: int) -> np.dtype:
        """Return the dtype of the product H'H: float64 if a penalty is small.

        H'H of n samples in float32 is rounded by about n times its epsilon. Statistics of folds are
        differences, so that they cannot be summed again if they turn out to be ill-conditioned.
        """
        rounding = n_samples * np.finfo(np.float32).eps
        smallest = self.group.smallest_alpha / self.history.alpha_scale
        is_small = smallest < _SAFE_ALPHA * rounding
        standard = self.job.engine.statistics_dtype(self.layers[0])
        return np.dtype(np.float64) if is_small else standard

    def solve(
        self,
        statistics: Iterable[CVStatistics],
        start: float,
        samples: Samples,
        *,
        rows: Rows | None = None,
        pipeline: Any = None,
        target: Any = None,
    ) -> GroupFit:
        """Return the networks from the statistics of each layer.

        Parameters
        ----------
        statistics : iterable of CVStatistics
            Of the training samples.
        start : float
            When their computation started, for `GroupFit.fit_time`.
        samples : Samples
        rows : ndarray of int, optional
            The training samples; by default all samples.
        pipeline : Pipeline or TransformedTargetRegressor, optional
            The fitted steps around the network.
        target : TargetSpec, optional
            As from a fit to the training samples only; by default that of all samples.
        """
        job, layers, units = self.job, self.layers, self.parts.units
        parts = replace(self.parts, units=units.of_rows(samples.rows))
        builder = NetworkBuilder(
            self.network, parts, target or parts.target, job.engine, self.history,
            self._mean_weight(samples, rows),
        )  # fmt: skip
        loo_of = search_of = None
        outputs = center_outputs(units, self.parts.target)
        needs_loo = self.plan.needs_probabilities and builder.target.needs_loo_scores
        n_samples = len(samples) if rows is None else len(rows)
        # Each network decides by itself whether its classes are masked, as in a fit of its own.
        may_map_scores = builder.target.may_map_scores
        if needs_loo or may_map_scores(n_samples):
            sample = builder.target.draw_sample(job, samples, rows)
            # Of unequal weights there are more rows than of equal ones.
            if needs_loo or may_map_scores(sample.n_rows, sample):
                loo_of = partial(
                    SampledLOO, job, sample=sample, units=units, center_outputs=outputs
                )
        if self._leaves_out(samples):
            search_of = self._search_by_loo(samples, outputs)
        networks, problems = solve_group(builder, self.group, layers, statistics, loo_of, search_of)
        fit_time = (perf_counter() - start) / len(self.group.members)
        return GroupFit(pipeline, networks, problems, fit_time=fit_time)

    def _search_by_loo(self, samples, center_outputs):
        """Return the `search_of` of `solve_group` by leave-one-out errors of a sample."""
        job, sample = self.job, draw_penalty_sample(self.job, samples)
        criterion = LOOCriterion(
            sample, self.parts.units, center_outputs, prefers_large=samples.targets.is_binary
        )

        def search_of(layer, statistics, start, size):
            leading, total = layer.part(slice(size)), statistics.total.leading(size)
            return search_loo(job, leading, total, criterion, start)

        return search_of

    def score(self, split: int, fitted: GroupFit, part: range) -> GroupFit:
        """Return the same networks with the decision values of a range of the candidates."""
        start = perf_counter()
        test, *others = self.plan.scored_rows(split)
        networks = {c: network for c, network in fitted.networks.items() if c in part}
        scores = self._scores(split, test, fitted, networks)
        # Without the time of the training samples, as in GridSearchCV.
        score_time = fitted.score_time + (perf_counter() - start) / len(self.group.members)
        for rows in others:
            scores |= self._scores(split, rows, fitted, networks)
        return replace(fitted, scores=scores, score_time=score_time, shared_pass=self, split=split)

    def _scores(
        self, split: int, rows: Rows, fitted: GroupFit, networks: dict[int, Any]
    ) -> dict[tuple[int, bytes], npt.NDArray[Any]]:
        if not networks:
            return {}
        X = select_rows(self.plan.X, rows)
        X = X if fitted.pipeline is None else without_target_transform(fitted.pipeline).predict(X)
        X = validate_samples(self.network, self.job.engine, X, reset=False)
        job = self._described(f"{self.plan.name(split)}, scores")
        scores = score_group(job, self.group, self.layers, X, networks)
        return {(candidate, hash_rows(rows)): values for candidate, values in scores.items()}

    def _described(self, what: str) -> Job:
        return replace(
            self.job, verbose=self.plan.verbose, description=f"HiddenSizeSearchCV {what}"
        )


def _has_one_layer(estimator: Any) -> bool:
    """Return whether layer and sample weights are the same for all training sets."""
    if last_step(estimator) is not estimator:
        return False
    is_balanced = is_option(getattr(estimator, "class_weight", None), "balanced")
    return not (parts_of(estimator).units.sharing.depends_on_samples or is_balanced)


def _held_out_rows(plan: SearchPlan) -> list[Rows] | None:
    """Return the rows that each split holds out.

    None if training rows are repeated, or if the splits hold out more than half of the samples
    on average: then subtraction is not less work than a pass for each split.
    """
    n_samples = _num_samples(plan.y)
    held_out = []
    for train, _ in plan.splits:
        rest = np.setdiff1d(np.arange(n_samples), train)
        if not len(rest) or len(rest) + len(train) != n_samples:
            return None
        held_out.append(rest)
    n_held_out = sum(map(len, held_out))
    return held_out if n_held_out <= n_samples * len(held_out) / 2 else None


def _merges_copies(plan: SearchPlan, samples: Samples) -> bool:
    """Return whether a fit to some training set merges copies, which it leaves out together."""
    each = (np.sort(train) for train, _ in plan.splits)  # sources are read in their own order
    parts = (samples.with_rows(select_rows(samples.X, rows), rows) for rows in each)
    return any(merge_copies(part) is not part for part in parts)


def _have_same_targets(plan: SearchPlan, samples: Samples) -> bool:
    """Return whether the targets of all samples serve each training set: it has all classes."""
    weight = samples.weight
    if weight is None:
        return all(samples.targets.is_valid_for(train) for train, _ in plan.splits)
    present = (train[weight[train] > 0] for train, _ in plan.splits)
    return all(samples.targets.is_valid_for(rows, weight[rows]) for rows in present)


def _fold_statistics(
    shared: SharedPass, samples: Samples, held_out: list[Rows]
) -> tuple[list[RidgeStatistics], RidgeStatistics]:
    """Return the statistics that each split holds out, and those of all samples."""

    def statistics_of(rows: Rows | None, what: str) -> RidgeStatistics:
        return shared.statistics(samples, what, rows)[0]

    folds = [
        statistics_of(rows, f"rows held out by split {split + 1} of {len(held_out)}")
        for split, rows in enumerate(held_out)
    ]
    return folds, _total(folds, held_out, len(samples), statistics_of)


def _total(
    folds: list[RidgeStatistics],
    held_out: list[Rows],
    n_samples: int,
    statistics_of: Callable[[Rows | None, str], RidgeStatistics],
) -> RidgeStatistics:
    """Return the statistics of all samples: the sum of the folds, if these are disjoint."""
    times = np.bincount(np.concatenate(held_out), minlength=n_samples)
    if times.max() > 1:
        return statistics_of(None, "all rows")
    total = sum(folds[1:], folds[0])
    rest = np.flatnonzero(times == 0)
    return total + statistics_of(rest, "rows never held out") if len(rest) else total
