"""The parts of a stacked ensemble, and how they are fitted."""

from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Real
from threading import Event
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn import config_context, get_config  # type: ignore[attr-defined]

from ..data.copies import merge_copies
from ..data.rows import take_rows
from ..data.samples import Samples
from ..data.streaming import count_operations
from ..data.validation import to_host
from ..engines import get_engine
from ..engines.host import HostEngine
from ..engines.threads import limit_threads, n_threads
from ..estimators.fit_report import FitReport
from ..estimators.validation_set import ValidationSet
from ..parts.base import UNSET
from ..parts.composition import parts_of
from ..parts.target import TargetSpec
from ..readouts.draw_sample import sample_by_hash
from ..readouts.leave_one_out import HeldOutScores
from ..readouts.row_sample import RowSample
from ..targets.encoding import encode_groups
from ..utils.callbacks import FitTask
from ..utils.user_warnings import context_for_thread, without_warnings
from .base_estimators import BaseEstimators, TrainingSet, is_dense, overrides_fit
from .weights import EnsembleWeighting, assign_folds, decision_scores, sample_groups

# More samples keep all threads busy with one network, and the memory for a second one is large.
MAX_CONCURRENT_SAMPLES = 10_000


@dataclass(frozen=True, eq=False)
class StackedParts:
    """What a stacked ensemble is composed of."""

    target: TargetSpec
    base: BaseEstimators
    weighting: EnsembleWeighting

    def check(self) -> None:
        """Raise for invalid parameters."""
        self.base.check(self.target)
        self.target.check()

    @property
    def fitted(self) -> dict[str, Any]:
        """Return all fitted attributes."""
        return self.target.fitted | self.base.fitted | self.weighting.fitted

    @cached_property
    def score_map(self) -> tuple[npt.NDArray, npt.NDArray] | None:
        """The map of the sums of the weighted scores, as of `Labels.score_map`; None without."""
        matrices, target = self.weighting.matrix_scaling_, cast(Any, self.target)
        return None if matrices is UNSET else target.labels.score_map(matrices)

    def map_scores(self, scores: npt.NDArray) -> npt.NDArray:
        """Return what scores (..., n_scores) add to the mapped ones."""
        return scores if self.score_map is None else scores @ self.score_map[0].T

    @property
    def constant_term(self) -> npt.NDArray:
        """The constant term of the scores of the ensemble, (n_scores,)."""
        weighting = self.weighting
        constant = (1 - weighting.final_weight_) * weighting.intercept_ - weighting.score_offset
        return self.map_scores(constant) + (0 if self.score_map is None else self.score_map[1])

    def mapped(self, network: Any) -> Any:
        """Return a copy of a base estimator whose scores are mapped, apart from the constants."""
        if self.score_map is None:
            return network
        mapped, coef = copy(network), self.score_map[0]
        mapped.readout_coef_ = coef @ network.readout_coef_
        mapped.readout_intercept_ = coef @ network.readout_intercept_
        labels = cast(Any, self.target).labels
        mapped.matrix_scaling_ = labels.without_constants(self.weighting.matrix_scaling_)
        return mapped

    def fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: ValidationSet | None,
        fit_task: FitTask,
    ) -> "StackedParts":  # fmt: skip
        """Return the parts with fitted networks and their weights, for validated samples.

        `fit_task` is the task as which the fit is reported to callbacks.
        """
        target, samples, y, validation = self._encode(X, y, sample_weight, groups, validation)
        pairs, final = self.base.clone_for(samples)
        training_set = self._draw_training_set(
            samples, y, validation, len(pairs), final is not None
        )
        self.base.reserve_memory(pairs, final, training_set.sample)
        report = FitReport(f"{self.base.owner} fit", self.base.verbose)
        left_out = fit_base_estimators(pairs, training_set, fit_task, report)
        for (name, network), scores in zip(pairs, left_out, strict=True):
            _check_interpolation(name, network, scores)
            _restore_row_numbers(network, samples.rows)
        is_by_fold = samples.groups is not None and validation is None
        weighting = self.weighting
        ensemble = weighting.combine(target, left_out, training_set.scored_sample, is_by_fold)
        # A final estimator trained on a sample that lacks a class could not predict it.
        if final is not None and training_set.has_all_classes:
            report.print_start("fitting the final network")
            self.base.set_final_penalty(final, pairs)
            weighting, ensemble = self._add_final(
                target, ensemble, final, training_set, fit_task.subtask("final")
            )
            report.time_stage("final network")
        base = self.base.with_fitted(
            named_estimators_=dict(pairs[k] for k in ensemble.used),
            final_estimator_=ensemble.final_estimator,
        )
        scored = training_set.scored_sample.rows.X
        names, networks = zip(*pairs, strict=True)
        weighting = weighting.with_ensemble(target, ensemble, scored, networks)
        kind = "out-of-fold" if is_by_fold else "leave-one-out"
        report.print_ensemble(
            names, ensemble.weights, "validation" if validation else kind, ensemble.errors,
            ensemble.final_weight,
        )  # fmt: skip
        return StackedParts(target, base, weighting)

    def _encode(self, X, y, sample_weight, groups, validation):
        """Return the fitted target specification and the `Samples`, without copies.

        Also y and the `ValidationSet` for the base estimators.
        """
        target, samples = self.target.fit_encode(X, y, sample_weight)
        samples = replace(samples, groups=encode_groups(X, groups))
        if validation is None:
            samples = merge_copies(samples)
        target, samples = target.weigh_rare_class(samples)
        encoded = None if validation is None else validation.encode(target)
        samples = replace(samples, validation=encoded)
        y = target.base_target(y if samples.rows is None else y[samples.rows], samples)
        if validation is not None and encoded is not None:
            y_val = target.base_target(validation.y, encoded)
            validation = ValidationSet(encoded.X, y_val, encoded.weight)
        return target, samples, y, validation

    def feature_importances(self, n_features: int) -> npt.NDArray[np.float64]:
        """Return the importances of the features, the mean over all networks by their weights.

        The features of a final estimator are those of X and the scores of the base estimators; the
        importance of these scores is distributed to the features by the importances of the base
        estimators.

        Raises
        ------
        AttributeError
            If a network has no importances.
        """
        weights, final = self.weighting.weights_, self.base.final_estimator_
        each = [_importances_of(*pair) for pair in self.base.named_estimators_.items()]
        mean = np.average(each, axis=0, weights=weights)
        if final is None:
            return mean
        of_final = _importances_of("final_estimator", final)
        of_X, of_scores = of_final[:n_features], of_final[n_features:].sum()
        weight = self.weighting.final_weight_
        return (1 - weight) * mean + weight * (of_X + of_scores * mean)

    def _draw_training_set(self, samples, y, validation, n_estimators, has_final):
        n_rows = self.weighting.n_samples(n_estimators, samples.targets.n_outputs, has_final)
        with self.base.open_job(samples.X) as job:
            sample = sample_by_hash(job, samples, n_rows, sample_groups(samples, n_rows))
            validation_sample = samples.validation and sample_by_hash(
                job, samples.validation, n_rows
            )
        folds = None
        if has_final or (samples.groups is not None and validation is None):
            folds = assign_folds(sample, samples.groups_of(sample.numbers))
        return TrainingSet(samples, y, sample, folds, validation, validation_sample)

    def _add_final(self, target, ensemble, final, training_set, fit_task):
        """Return the weighting, and the ensemble with a final estimator if that gains.

        It is fitted to the sample. The features are those of X, and out-of-fold scores.
        Leave-one-out scores would leak the target: they equal the scores of the fit to all samples
        minus the influence of the sample itself, which a network can infer from the other features.
        """
        rows = training_set.sample.rows
        weighting = self.weighting.with_scale_of(rows.X, rows.weight)
        extend = partial(ExtendedSamples.of, self.base, weighting, target)
        samples, validation = training_set.samples, training_set.validation
        ensemble_scores = ensemble.oof_scores if validation is None else ensemble.scores
        trained = extend(samples, training_set.sample, ensemble.oof_scores)
        scored, validation_sample = trained, None
        if validation is not None:
            scored = extend(samples.validation, training_set.scored_sample, ensemble_scores)
            y_val, validation_sample = validation.y[scored.rows], scored.sample
            validation = ValidationSet(scored.samples.X, y_val, scored.samples.weight)
        y, folds = training_set.y[trained.rows], training_set.folds[trained.positions]
        final_set = TrainingSet(
            trained.samples, y, trained.sample, folds, validation, validation_sample
        )
        # The penalty of the default final estimator is not the user's, and the weight of the final
        # estimator is validated: a warning of an ill-conditioned layer would have no remedy.
        with without_warnings() if self.base.has_default_final else nullcontext():
            left_out = final_set.fit(final, fit_task, {})
        if not self.base.has_default_final:
            _check_interpolation("final_estimator", final, left_out)
        scores = left_out.oof_scores if validation is None else left_out.scores
        assert scores is not None
        positions = scored.positions
        return weighting, ensemble.with_final(
            final, positions, ensemble_scores[positions], scores, weighting.min_gain
        )


def _check_interpolation(name, network, left_out):
    """Raise if a network has no out-of-fold scores because of the penalty that was given."""
    if left_out.interpolates and isinstance(network.alpha, Real):
        raise ValueError(
            f"alpha={network.alpha!r} of {name} is so small that the network interpolates its "
            "training samples, and an ensemble cannot compute its out-of-fold scores; pass a "
            'larger alpha, or alpha="auto".'
        )


def _restore_row_numbers(network, rows):
    """Replace row numbers of samples without copies, in `support_`, by those in X, if any."""
    if rows is not None and hasattr(network, "support_"):
        network.support_ = rows[network.support_]


def _importances_of(name, network):
    importances = getattr(network, "feature_importances_", None)
    if importances is None:
        raise AttributeError(
            "An ensemble has feature_importances_ if all its networks have them, and "
            f"{name}={type(network).__name__} has none: its features are not weighted. Use "
            'feature_weights="learned" there, or permutation_importance of sklearn.inspection.'
        )
    return importances


@dataclass(frozen=True, eq=False)
class ExtendedSamples:
    """The samples of a final estimator: scores of the ensemble are appended to the features.

    They are the rows of a `RowSample`; `sample` is a `RowSample` of the extended rows.
    """

    samples: Samples
    rows: npt.NDArray  # (n_rows,): their numbers before
    sample: RowSample
    positions: npt.NDArray  # (n_rows,): the index of each row of `sample` in the sample before

    @classmethod
    def of(
        cls,
        base: BaseEstimators,
        weighting: EnsembleWeighting,
        target: TargetSpec,
        samples: Samples,
        sample: RowSample,
        scores: Any,
    ) -> "ExtendedSamples":
        """Return the rows of a sample with their scores, (n_rows, n_outputs), as features."""
        order = np.argsort(sample.numbers)
        rows = sample.numbers[order]
        X = np.asarray(to_host(take_rows(samples.X, rows)))
        X = weighting.append_scores(target, X, decision_scores(target, scores)[order])
        extended = samples.with_rows(X, rows)
        with base.open_job(X) as job:
            extended_sample = sample_by_hash(job, extended, len(rows))
        return cls(extended, rows, extended_sample, order[extended_sample.numbers])


def fit_base_estimators(
    pairs: list[tuple[str, Any]], training_set: TrainingSet, fit_task: FitTask, report: FitReport
) -> list[HeldOutScores]:
    """Fit the (name, network) pairs in place; return the scores of `TrainingSet.fit` of each.

    A fit to some thousand samples is a sequence of hundreds of short loops, in which threads wait
    for each other. With several networks at a time, each with a share of the threads, fewer of
    them wait. The results do not depend on how many are fitted at a time.
    """
    predecessors = _predecessors(pairs)
    n_jobs = min(n_threads(), predecessors.count(None))
    if n_jobs > 1 and _may_be_concurrent(pairs, training_set, fit_task):
        return _fit_concurrently(pairs, predecessors, training_set, fit_task, n_jobs)
    learned_weights: dict[Any, Any] = {}
    left_out = []
    for number, (name, network) in enumerate(pairs, 1):
        report.print_start(f"fitting {name}, network {number} of {len(pairs)}")
        with _named_errors(name):
            left_out.append(training_set.fit(network, fit_task.subtask(name), learned_weights))
        report.time_stage(name)
    return left_out


@contextmanager
def _named_errors(name):
    """Context in which errors have a note with the name of the base estimator."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"This is an error of the base estimator {name!r}. Its parameters are those of the "
            "estimator in `estimators`; the defaults are default_estimators() of the ensemble."
        )
        raise


def _predecessors(pairs):
    """Return for each network the number of the previous one that shares feature weights with it.

    None where there is none. The first of such networks learns the weights for the others.
    """
    last: dict[Any, int] = {}
    predecessors = []
    for number, (_, network) in enumerate(pairs):
        metric = parts_of(network).units.shared_metric
        predecessors.append(last.get(metric))
        if metric is not None:
            last[metric] = number
    return predecessors


def _may_be_concurrent(pairs, training_set, fit_task):
    """Return whether networks may be fitted at the same time, and gain by it.

    Progress and callbacks report one network after another, a memory limit is meant for one, and
    devices other than the host have queues of their own.
    """
    X = training_set.samples.X
    if fit_task.context is not None or not is_dense(X) or len(X) > MAX_CONCURRENT_SAMPLES:
        return False
    work = count_operations(X, None)
    return all(_is_plain(network, work) for _, network in pairs)


def _is_plain(network, work):
    """Return whether nothing but time depends on when a network is fitted."""
    if overrides_fit(network) or network.verbose or network.max_memory is not None:
        return False
    return isinstance(get_engine(network.device, work), HostEngine)


def _fit_concurrently(pairs, predecessors, training_set, fit_task, n_jobs):
    left_out: dict[int, HeldOutScores] = {}
    learned_weights: dict[Any, Any] = {}
    is_fitted = [Event() for _ in pairs]
    threads, config = n_threads() // n_jobs, get_config()

    # `sklearn.utils.parallel.delayed` would propagate the configuration, too, but also the filters
    # of warnings, which it resets in all threads.
    def fit(number):
        name, network = pairs[number]
        try:
            if predecessors[number] is not None:
                is_fitted[predecessors[number]].wait()
            with _named_errors(name), limit_threads(threads), config_context(**config):
                subtask = fit_task.subtask(name)
                left_out[number] = training_set.fit(network, subtask, learned_weights)
        finally:
            is_fitted[number].set()

    # Networks without a predecessor are the first ones, so that few threads wait for another.
    order = sorted(range(len(pairs)), key=lambda number: predecessors[number] is not None)
    contexts = [context_for_thread() for _ in order]
    Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(context.run)(fit, number) for context, number in zip(contexts, order, strict=True)
    )
    return [left_out[number] for number in range(len(pairs))]
