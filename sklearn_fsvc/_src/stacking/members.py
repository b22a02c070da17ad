"""The networks of a stacked ensemble: which they are, and how each is fitted and judged."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags

from ..data.job import Job
from ..data.samples import Samples
from ..data.sources import InMemory, Source
from ..data.streaming import cast_layer, n_synapses
from ..data.tiling import parse_memory
from ..engines import get_engine
from ..engines.memory import host_memory
from ..estimators.readouts import nearest_outputs
from ..hidden_layers.defaults import FEWEST_ROWS, MOST_LEARNED, MOST_MAPPED
from ..parts import Part, parts_of
from ..readouts.leave_one_out import SampledLOO
from ..readouts.ridge import gather
from ..readouts.sample import Sample
from ..utils.callbacks import propagate_callbacks
from ..utils.parameters import check_level, is_word

# What all members have, and the ensemble sets where a member leaves it as it is by default.
_SHARED = ("device", "max_memory", "verbose")


@dataclass(frozen=True, eq=False, kw_only=True)
class Members(Part):
    """Which networks are combined."""

    # Parameters of `StackedClassifier`.
    estimators: Any
    final_estimator: Any
    random_state: Any
    device: Any
    max_memory: Any
    verbose: Any
    # What makes the networks where none are given.
    default_estimators: Callable
    default_final_estimator: Callable
    attributes = ("named_estimators_", "final_estimator_")

    @classmethod
    def of(cls, model):
        return super().of(
            model, default_estimators=model.default_estimators,
            default_final_estimator=model.default_final_estimator,
        )  # fmt: skip

    @property
    def given(self):
        """(name, estimator) of all that are not left out."""
        given = self.default_estimators() if self.estimators is None else self.estimators
        return [(name, each) for name, each in given if not is_word(each, "drop")]

    @property
    def given_final(self):
        """The final network, or None."""
        if not self.has_default_final:
            return self.final_estimator
        return self.default_final_estimator() if self.estimators is None else None

    @property
    def has_default_final(self):
        return is_word(self.final_estimator, "auto")

    @property
    def takes_sparse(self):
        """Whether rows may be a sparse matrix."""
        try:
            tags = [get_tags(each) for _, each in self.given]
        except (TypeError, ValueError):  # `check` says what is wrong with them
            return False
        return self.given_final is None and all(each.input_tags.sparse for each in tags)

    def check(self, task):
        """Raise for networks that cannot be combined for a task."""
        check_level("verbose", self.verbose)
        try:
            pairs = self.given
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"estimators={self.estimators!r} must be None, or a list of (name, estimator)."
            ) from error
        if not pairs:
            raise ValueError(f"estimators={self.estimators!r} leaves nobody; give one or more.")
        for name, each in pairs:
            self._check(f"estimators has {name}={each!r}", each, task)
        final = self.given_final
        if final is not None:
            self._check(f"the ensemble has final_estimator={final!r}", final, task)

    def _check(self, what, network, task):
        parts = parts_of(network)
        if parts is None or not isinstance(parts.task, type(task)):
            raise TypeError(
                f"{what}, and a {self.owner} is made of networks of this package for the same "
                "task; for others use StackingClassifier or StackingRegressor of scikit-learn."
            )
        if getattr(network, "class_weight", None) is not None:
            raise ValueError(f"{what}; give class_weight to the ensemble, for all members.")
        if not parts.readout.is_ridge:
            raise ValueError(
                f'{what}, whose readout has no leave-one-out scores; use readout="ridge".'
            )

    def made(self, samples):
        """Return (name, clone) of the members for such rows, and of the final network, or None."""
        seeds, final = check_random_state(self.random_state), self.given_final
        pairs = [(name, self._own(each, seeds)) for name, each in self.given]
        final = None if final is None else self._own(final, seeds)
        if self.estimators is None and samples.X.shape[1] > MOST_MAPPED:
            pairs = [(name, own) for name, own in pairs if not is_word(own.feature_weights, "map")]
        if final is not None and not self._has_final(samples):
            final = None
        return pairs, final

    def _own(self, network, seeds):
        """A clone of a network, with what is shared where that is as it is by default."""
        network = clone(network)
        defaults, own = signature(type(network)).parameters, {}
        for name in _SHARED:
            if getattr(network, name) == defaults[name].default:
                own[name] = getattr(self, name)
        if self.random_state is not None and network.random_state is None:
            own["random_state"] = int(seeds.randint(np.iinfo(np.int32).max))
        return network.set_params(**own)

    def _has_final(self, samples):
        """Whether a final network, if one is given, is for rows such as these."""
        if self.has_default_final:
            return _are_a_table(samples)
        if not _is_array(samples.X):
            raise TypeError(
                f"final_estimator={self.final_estimator!r} sees scores beside the features, and "
                "takes dense rows of an array; give X as one, or final_estimator=None."
            )
        return True

    @property
    def memory_limit(self):
        """`max_memory` in bytes, if there is a limit."""
        if self.max_memory is None:
            return None
        return parse_memory(self.max_memory, host_memory()[0])

    def leave_memory(self, pairs, final, rows):
        """Have networks leave so much of a limit as the judging of `rows` takes."""
        limit = self.memory_limit
        for _, network in [*pairs, ("final", final)]:
            if limit is not None and network is not None and network.max_memory == self.max_memory:
                of_scores = 16 * rows.sample.mean.size * len(pairs)
                network.max_memory = max(1, limit - limit // 16 - of_scores)

    def give_penalty(self, final, pairs):
        """Have the default final network take the penalty of the first member with such units.

        Its own search would trust the scores too much: that of a row is left out, and those of its
        neighbours still tell what it was.
        """
        kind = type(parts_of(final).units)
        likes = [network for _, network in pairs if type(parts_of(network).units) is kind]
        if self.has_default_final and likes:
            final.set_params(alpha=float(likes[0].alpha_))

    @contextmanager
    def job(self, X):
        """The `Job` of passes over rows in which no layer is evaluated."""
        with get_engine(self.device, n_synapses(X, 1)) as engine:
            yield Job(engine, self.max_memory)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """What networks are fitted to, and judged by."""

    samples: Samples
    y: Any  # of the same rows, as an estimator takes it
    sample: Sample  # some of the rows
    folds: Any = None  # of the rows of the sample; None for none

    def fit(self, network, fit_task, shared):
        """Fit a network; return its leave-one-out scores of the sample, a `LeftOut`.

        What networks have `shared` is not found again, and what this one finds is added. Callbacks
        hear of it as of the task `fit_task`.
        """
        given = {"sample": self.sample, "shared": shared, "folds": self.folds}
        vars(network).update(given)
        with propagate_callbacks(fit_task.context, network):
            network.fit(self.samples.X, self.y, self.samples.weight)
        for name in given:
            delattr(network, name)
        found = vars(network).pop("left_out_", None)
        return self._left_out(network) if found is None else found

    def _left_out(self, network):
        """The same of a network that is fitted, and keeps no sums: one more pass over the rows."""
        parts, X = parts_of(network), self.samples.X
        samples = parts.task.samples(X, self.y, self.samples.weight)
        layer = cast_layer(parts.units.layer, X)
        with get_engine(network.device, n_synapses(X, layer.n_units)) as engine:
            what = f"{type(network).__name__} left out"
            job = Job(engine, network.max_memory, network.verbose, what)
            samples, job = samples.on_device(job)
            (statistics,) = gather(job, [layer], samples)
            loo = SampledLOO(job, layer, self.sample, statistics, self.folds)
            solution = statistics.solve(network.alpha_, is_last=True, also=loo.take)
            b = job.engine.to_host(solution.b)
            return loo.left_out(nearest_outputs(parts.units, parts.task, b, network.alpha_))


def _are_a_table(samples):
    """Whether a final network is worth its time: on few features that are numbers, not bytes."""
    X = samples.X
    return (
        _is_array(X) and X.dtype != np.uint8 and X.shape[1] <= MOST_LEARNED
        and len(samples.present) >= FEWEST_ROWS
    )  # fmt: skip


def _is_array(X):
    return not isinstance(X, Source) or isinstance(X, InMemory)
