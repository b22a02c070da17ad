"""The base estimators of a stacked ensemble: parameters, fits, and leave-one-out scores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import get_tags

from ..data.job import Job
from ..data.memory_plan import host_memory_limit
from ..data.samples import Samples
from ..data.sources import ArraySource, Source
from ..data.streaming import cast_layer, count_operations
from ..engines import get_engine
from ..estimators.linear_readout import Linear, center_outputs, score_validation
from ..estimators.validation_set import ValidationSet
from ..hidden_layers.parameters import MAX_MAP_FEATURES
from ..hidden_layers.tanh import MAX_LEARNED_FEATURES, MIN_LEARNING_SAMPLES
from ..parts.base import UNSET, Part
from ..parts.composition import Parts, parts_of
from ..parts.target import TargetSpec
from ..readouts.gather_statistics import gather_with_fallback
from ..readouts.leave_one_out import HeldOutScores, SampledLOO
from ..readouts.row_sample import RowSample
from ..utils.callbacks import FitTask, propagate_callbacks
from ..utils.parameters import check_random_state, check_verbose, is_option

# Parameters that base estimators inherit from the ensemble where theirs is the default.
_INHERITED = ("device", "max_memory", "verbose")
# With fewer samples per feature, classifiers learn no linear map by default. It has a coefficient
# for each pair of features, and its leave-one-out errors on the samples that it is learned from are
# too small: its weight would be too large. Regressors do not gain without it.
_MIN_MAP_SAMPLES_PER_FEATURE = 6


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseEstimators(Part):
    """Which networks are combined, and which one corrects their sum."""

    # Parameters of `StackedClassifier`.
    estimators: Any
    final_estimator: Any
    random_state: Any
    device: Any
    max_memory: Any
    verbose: Any
    # Factories of the networks where no `estimators` are given.
    default_estimators: Callable
    default_final_estimator: Callable
    named_estimators_: Any = UNSET
    final_estimator_: Any = UNSET

    @classmethod
    def from_estimator(cls, estimator: Any, **values: Any) -> Self:
        return super().from_estimator(
            estimator, default_estimators=estimator.default_estimators,
            default_final_estimator=estimator.default_final_estimator, **values,
        )  # fmt: skip

    @property
    def templates(self) -> list[tuple[str, Any]]:
        """Return (name, unfitted estimator) of all base estimators that are not "drop"."""
        pairs = self.default_estimators() if self.estimators is None else self.estimators
        return [(name, estimator) for name, estimator in pairs if not is_option(estimator, "drop")]

    @property
    def final_template(self) -> Any:
        """Return the unfitted final estimator, or None."""
        if not self.has_default_final:
            return self.final_estimator
        return self.default_final_estimator() if self.estimators is None else None

    @property
    def has_default_final(self) -> bool:
        """Return whether `final_estimator` is "auto"."""
        return is_option(self.final_estimator, "auto")

    @property
    def takes_sparse(self) -> bool:
        """Return whether X may be a sparse matrix."""
        try:
            tags = [get_tags(estimator) for _, estimator in self.templates]
        except (TypeError, ValueError):  # invalid `estimators`: `check` raises the error
            return False
        return self.final_template is None and all(each.input_tags.sparse for each in tags)

    @property
    def memory_limit(self) -> int | None:
        """Return `max_memory` in bytes, None without a limit."""
        if self.max_memory is None:
            return None
        return host_memory_limit(self.max_memory)

    def check(self, target: TargetSpec) -> None:
        """Raise for parameters that are invalid, and for estimators that cannot be combined."""
        check_verbose(self.verbose)
        try:
            templates = self.templates
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"estimators={self.estimators!r} must be None, or a list of (name, estimator)."
            ) from error
        if not templates:
            raise ValueError(
                f"estimators={self.estimators!r} contains no estimator; pass at least one."
            )
        for name, estimator in templates:
            if not isinstance(name, str):
                raise TypeError(
                    f"estimators contains the name {name!r}, which must be a string, such as "
                    f"{str(name)!r}."
                )
            self._check_estimator(f"estimators contains {name}={estimator!r}", estimator, target)
        final = self.final_template
        if final is not None:
            self._check_estimator(f"final_estimator={final!r} was passed", final, target)

    def _check_estimator(self, what, network, target):
        if isinstance(network, type):
            name = network.__name__
            raise TypeError(f"{what}, which is a class; pass an estimator: {name}().")
        parts = parts_of(network)
        if parts is None or not isinstance(parts.target, type(target)):
            raise TypeError(
                f"{what}, but a {self.owner} combines networks of this package for the same task; "
                "use StackingClassifier or StackingRegressor of scikit-learn for other estimators."
            )
        if getattr(network, "class_weight", None) is not None:
            raise ValueError(
                f"{what}; pass class_weight to the ensemble instead, for all base estimators."
            )
        if parts.target.target_transform is not None:
            raise ValueError(
                f"{what}; pass target_transform to the ensemble instead, for all base estimators."
            )
        if not parts.readout.is_ridge:
            raise ValueError(
                f'{what}, whose readout has no leave-one-out scores; use readout="ridge".'
            )

    # Unfitted clones for given samples.

    def clone_for(self, samples: Samples) -> tuple[list[tuple[str, Any]], Any]:
        """Return (name, clone) of the base estimators, and the clone of the final one, or None."""
        seeds, final = check_random_state(self.random_state), self.final_template
        pairs = [(name, self._clone(template, seeds)) for name, template in self.templates]
        final = None if final is None else self._clone(final, seeds)
        if self.estimators is None:
            pairs = _adapted(pairs, samples)
        if final is not None and not self._uses_final(samples):
            final = None
        return pairs, final

    def _clone(self, network, seeds):
        """Return a clone that inherits parameters of the ensemble where its own are defaults."""
        network = clone(network)
        defaults, inherited = signature(type(network)).parameters, {}
        for name in _INHERITED:
            if getattr(network, name) == defaults[name].default:
                inherited[name] = getattr(self, name)
        if network.random_state is None:  # a seed, so that the order of fits does not matter
            inherited["random_state"] = int(seeds.randint(np.iinfo(np.int32).max))
        return network.set_params(**inherited)

    def _uses_final(self, samples):
        """Return whether the final estimator is used for these samples."""
        if self.has_default_final:
            return _suits_default_final(samples)
        if not is_dense(samples.X):
            raise TypeError(
                f"final_estimator={self.final_estimator!r} needs scores as further features, and "
                "so X as a dense array; pass one, or final_estimator=None."
            )
        return True

    def reserve_memory(self, pairs: list[tuple[str, Any]], final: Any, sample: RowSample) -> None:
        """Lower `max_memory` of the clones by what the ensemble holds while they are fitted.

        That is the leave-one-out and fold scores of all base estimators, 8 bytes each, and a 16th
        of the limit for everything else.
        """
        limit = self.memory_limit
        if limit is None:
            return
        score_bytes = 16 * sample.targets.size * len(pairs)
        for _, network in [*pairs, ("final", final)]:
            if network is not None and network.max_memory == self.max_memory:
                network.max_memory = max(1, limit - limit // 16 - score_bytes)

    def set_final_penalty(self, final: Any, pairs: list[tuple[str, Any]]) -> None:
        """Give the default final estimator the penalty of the first base estimator of its kind.

        Its own search would choose too small a penalty. The scores among its features leave out
        the sample itself, but depend on the targets of its neighbours, which the final estimator
        would learn to read.
        """
        kind = type(parts_of(final).units)
        similar = [network for _, network in pairs if type(parts_of(network).units) is kind]
        if self.has_default_final and similar:
            final.set_params(alpha=float(similar[0].alpha_))

    @contextmanager
    def open_job(self, X: Any) -> Iterator[Job]:
        """Enter a `Job` for passes over X in which no hidden layer is evaluated."""
        with get_engine(self.device, count_operations(X, 1)) as engine:
            yield Job(engine, self.max_memory)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The samples to which networks are fitted, and those by which they are weighted.

    Attributes
    ----------
    samples : Samples
    y : ndarray
        The target of the samples as `fit` of an estimator takes it.
    sample : RowSample
        Some of the samples: leave-one-out scores of these are computed.
    folds : ndarray of int of shape (n_rows,) or None
        The fold of each row of `sample`, where out-of-fold scores are needed.
    validation : ValidationSet or None
        Validation samples in the form of `samples` and `y`, if given.
    validation_sample : RowSample or None
        Some of them, whose scores replace leave-one-out scores.
    """

    samples: Samples
    y: Any
    sample: RowSample
    folds: npt.NDArray | None = None
    validation: ValidationSet | None = None
    validation_sample: RowSample | None = None

    @property
    def scored_sample(self) -> RowSample:
        """Return the sample of which `fit` returns scores."""
        return self.validation_sample or self.sample

    @property
    def has_all_classes(self) -> bool:
        """Return whether no output is constant in the sample alone, as of a class it lacks."""
        is_complete = len(self.sample.targets) == len(self.samples)
        return is_complete or bool(np.ptp(self.sample.targets, axis=0).all())

    def fit(
        self, network: Any, fit_task: FitTask, learned_weights: dict[Any, Any]
    ) -> HeldOutScores:
        """Fit a network in place; return its leave-one-out scores, or those on `validation_sample`.

        With out-of-fold scores, if `folds` is set.

        Parameters
        ----------
        network : estimator
            Unfitted.
        fit_task : FitTask
            The task as which the fit is reported to callbacks.
        learned_weights : dict
            Feature weights that earlier networks have learned, which this one uses if they suit
            it: `shared` of `select_units`. It adds those that it learns.
        """

        def set_stacking_inputs(parts: Parts) -> Parts:
            units, readout = replace(parts.units, shared=learned_weights), parts.readout
            if isinstance(readout, Linear):
                readout = replace(
                    readout, sample=self.sample, folds=self.folds,
                    validation_sample=self.validation_sample,
                )  # fmt: skip
            return Parts(units, parts.target, readout)

        network.is_base_estimator = True  # as of `TargetSpec`
        data = self.samples.X, self.y, self.samples.weight
        groups, validation = self.samples.groups, self.validation
        with propagate_callbacks(fit_task.context, network):
            if overrides_fit(network):
                given = {} if validation is None else validation.arguments
                network.fit(*data, **({} if groups is None else {"groups": groups}), **given)
            else:
                network._fit(*data, groups, validation, set_stacking_inputs)
        # Rows of a source have feature names, but the arrays that are scored have none.
        vars(network).pop("feature_names_in_", None)
        vars(network).pop("is_base_estimator", None)
        left_out = getattr(network, "left_out_", None)
        if left_out is None:
            return self._compute_left_out(network)
        del network.left_out_  # not part of the model
        return left_out

    def _compute_left_out(self, network):
        """Return the same in one more pass, for networks whose fit does not return them.

        That is so if `alpha` is chosen from a list: then no Gram matrix is kept. And if `fit` is
        that of a user's subclass.
        """
        parts, X = parts_of(network), self.samples.X
        samples, scale = parts.target.encode(X, self.y, self.samples.weight).with_unit_weights()
        sample, alpha = self.sample.divided(scale), network.alpha_ / scale
        layer = cast_layer(parts.units.layer, X)
        with get_engine(network.device, count_operations(X, layer.n_units)) as engine:
            what = f"{type(network).__name__} leave-one-out"
            job = Job(engine, network.max_memory, network.verbose, what)
            samples, job = samples.on_device(job)
            statistics = gather_with_fallback(job, layer, samples)
            outputs = center_outputs(parts.units, parts.target)
            loo = SampledLOO(
                job, layer, sample, statistics, folds=self.folds, units=parts.units,
                center_outputs=outputs,
            )  # fmt: skip
            solution, scores = loo.solve(alpha, is_last=True)
            if (drawn := self.validation_sample) is None:
                return scores
            return score_validation(job, layer, drawn, solution, alpha, outputs, scores.oof_scores)


def overrides_fit(network: Any) -> bool:
    """Return whether `fit` is a method from outside the package, which has to be called."""
    return type(network).fit.__module__.partition(".")[0] != __name__.partition(".")[0]


def _adapted(pairs, samples):
    """Return the default base estimators that suit the samples.

    Linear maps are not learned for very many features, or from few samples per feature for classes,
    and integers have no feature weights.
    """
    X, n_samples = samples.X, len(samples.rows_with_weight)
    has_few_samples = n_samples < _MIN_MAP_SAMPLES_PER_FEATURE * X.shape[1]
    if X.shape[1] > MAX_MAP_FEATURES or (has_few_samples and samples.targets.is_binary):
        pairs = [(name, est) for name, est in pairs if not is_option(est.feature_weights, "map")]
    if X.dtype.kind != "f":
        for _, estimator in pairs:
            if is_option(estimator.feature_weights, "refined"):
                estimator.set_params(feature_weights="auto")
    return pairs


def _suits_default_final(samples):
    """Return whether the default final estimator is likely to gain: few, numeric features."""
    X = samples.X
    return (
        is_dense(X)
        and X.dtype != np.uint8
        and X.shape[1] <= MAX_LEARNED_FEATURES
        and len(samples.rows_with_weight) >= MIN_LEARNING_SAMPLES
    )


def is_dense(X: Any) -> bool:
    """Return whether the samples are a dense array in memory."""
    return not isinstance(X, Source) or isinstance(X, ArraySource)
