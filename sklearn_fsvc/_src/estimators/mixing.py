"""A mixture of networks: each is fitted once, and their scores are added up with weights.

The weights, of 0 or more, are found by the scores that each network gives to rows without
themselves: of stacking (D. H. Wolpert 1992, "Stacked generalization"; L. Breiman 1996,
"Stacked regressions") without folds, since a ridge readout knows these scores in closed form.

One more network may see rows with these scores beside their features, as a final estimator of
scikit-learn's stacking with ``passthrough=True``. It corrects what the sum gets wrong.
"""

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from ..callbacks import Observable, with_callbacks
from ..documentation import Documented
from ..engines import get_engine
from ..engines.host import host_memory
from ..layers import hidden_dtype
from ..parameters import check_level, is_word
from ..readouts.mixing import by_squared_error, squared_errors
from ..readouts.ridge import gather
from ..readouts.sample import draw, rows_in
from ..readouts.unseen import Unseen
from ..rows.blocks import open_all
from ..rows.fold import part_of
from ..rows.hashes import exact_hashes
from ..rows.job import Job
from ..rows.out import write
from ..rows.sources import InMemory, Source
from ..rows.streaming import n_synapses, row_blocks, suited, take_rows
from ..rows.tiling import parse_memory
from ..rows.validation import check_rows, to_host
from ..units.automatic import FEWEST_ROWS, MOST_LEARNED, MOST_MAPPED
from .answering import as_list
from .network import OF_INPUT, clean, score_of
from .parts import Part, parts_of
from .state import Versioned
from .turns import changed, copy_of, of_one_state

# Rows by which weights are found, at most: a few numbers need no more. Those that a final network
# is trained on, which are judges, too; and scores of all members.
_JUDGES, _TRAINED_ON, _SCORES = 2**10, 2**13, 2**19
# Numbers of X and scores that are answered at a time.
_AT_A_TIME = 2**21
# What all members have, and the mixture sets where a member leaves it as it is by default.
_SHARED = ("device", "max_memory", "verbose")


class Mixture(Documented, Versioned, Observable, _BaseComposition):
    """Networks whose scores are added up, with weights of 0 or more."""

    @staticmethod
    @abstractmethod
    def default_estimators():
        """(name, estimator) of the members where none are given."""

    @staticmethod
    @abstractmethod
    def default_final_estimator():
        """The final network where none is given, nor estimators."""

    @abstractmethod
    def _task(self):
        """The `Task`, with what it has found."""

    @abstractmethod
    def _weighed(self, task, scores, Y, weight):
        """The weights of members, by their scores (n_members, n_rows, n_outputs)."""

    @abstractmethod
    def _as_features(self, task, scores):
        """Scores (n_rows, n_scores), as answers have them, as features of the final network."""

    def _calibrated(self, task, scores, sums):
        """Fitted attributes made of scores (n_rows, n_outputs) of the mixture.

        `sums` are the targets times the weights of the rows.
        """
        return {}

    @property
    def _given(self):
        return self.default_estimators() if self.estimators is None else self.estimators

    @property
    def _given_final(self):
        if not is_word(self.final_estimator, "auto"):
            return self.final_estimator
        return self.default_final_estimator() if self.estimators is None else None

    @property
    def estimators_(self):
        return list(self.named_estimators_.values())

    def get_params(self, deep=True):
        """Get the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of `estimators` are among them, as ``name__parameter``.

        Returns
        -------
        params : dict
        """
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params):
        """Set parameters.

        Parameters
        ----------
        **params : dict
            Also ``name=estimator`` and ``name__parameter=value`` of `estimators` that are given.

        Returns
        -------
        self
        """
        return self._set_params("estimators", **params)

    def _fit(self, X, y, sample_weight):
        changed(self, lambda model: model._fit_told(X, y, sample_weight))
        return self

    @with_callbacks
    def _fit_told(self, X, y, sample_weight):
        (members, final), task = self._ready(), self._task()
        task.check()
        heard = self._begin_fit(X, y, sample_weight)
        rows = open_all(X, self.device, self.max_memory, y, sample_weight)
        with get_engine(self.device, n_synapses(rows[0], None)) as engine:
            clean_X, clean_y = clean(self, engine, *rows[:2])
        task, samples = task.read(clean_X, clean_y, rows[2])
        members, final = self._suited_members(members, samples), self._suited(final, samples)
        sample = self._drawn(samples, members, _JUDGES if final is None else _TRAINED_ON)
        n_bytes, scores, shared = 16 * sample.mean.size * len(members), [], {}
        for name, member in members:
            self._share_memory(member, n_bytes)
            with _told(heard.part(name), member):
                scores.append(_fitted(member, clean_X, clean_y, samples.weight, sample, shared))
        mixed = _Mixed.of(np.stack(scores), sample, partial(self._weighed, task))
        # A class without a row in the sample would be unknown to the final network.
        if final is not None and np.ptp(mixed.Y, axis=0).all():
            self._share_memory(final, n_bytes)
            if is_word(self.final_estimator, "auto"):
                # Its own search would trust the scores too much: that of a row is left out, and
                # those of its neighbours still tell what it was.
                final.set_params(alpha=float(dict(members)["tanh"].alpha_))
            with _told(heard.part("final"), final):
                mixed = self._corrected(mixed, task, final, samples, clean_y, sample)
        self._keep(members, task, mixed)
        self._end_fit(heard, X, y, sample_weight)

    def _ready(self):
        """(name, clone) of the members, and the clone of the final network, or None."""
        check_level("verbose", self.verbose)
        given = self._given
        try:
            pairs = [(name, each) for name, each in given if not _is_dropped(each)]
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"estimators={self.estimators!r} must be None, or a list of (name, estimator)."
            ) from error
        if not pairs:
            raise ValueError(f"estimators={self.estimators!r} leaves nobody; give one or more.")
        self._validate_names([name for name, _ in pairs])
        for name, each in pairs:
            self._check_member("estimators", name, each)
        final = self._given_final
        if final is not None:
            self._check_member("the mixture", "final_estimator", final)
        seeds = check_random_state(self.random_state)
        members = [(name, self._own(clone(each), seeds)) for name, each in pairs]
        return members, None if final is None else self._own(clone(final), seeds)

    def _check_member(self, where, name, estimator):
        parts, task = parts_of(estimator), self._task()
        if parts is None or not isinstance(parts.task, type(task)):
            raise TypeError(
                f"{where} has {name}={estimator!r}, and a {type(self).__name__} is made of "
                "networks of this package for the same task; for others use StackingClassifier or "
                "StackingRegressor of scikit-learn."
            )
        if getattr(estimator, "class_weight", None) is not None:
            raise ValueError(
                f"{where} has {name}={estimator!r}; give class_weight to the mixture, for all "
                "members."
            )
        if not parts.readout.is_ridge:
            raise ValueError(
                f"{where} has {name}={estimator!r}, whose readout has no leave-one-out scores; "
                'use readout="ridge".'
            )

    def _own(self, member, seeds):
        """The clone of a member, with what is shared where it leaves that as it is by default."""
        defaults, own = signature(type(member)).parameters, {}
        for name in _SHARED:
            if getattr(member, name) == defaults[name].default:
                own[name] = getattr(self, name)
        if self.random_state is not None and member.random_state is None:
            own["random_state"] = int(seeds.randint(np.iinfo(np.int32).max))
        return member.set_params(**own)

    def _share_memory(self, member, n_bytes):
        """Leave so many bytes of a limit that there is, and those that a sample may take."""
        if self.max_memory is not None and member.max_memory == self.max_memory:
            limit = parse_memory(self.max_memory, host_memory()[0])
            member.max_memory = max(1, limit - limit // 16 - n_bytes)

    def _drawn(self, samples, members, n_rows):
        """The `Sample` of rows, so many at most, by whose scores weights are found."""
        most = min(n_rows, max(1, _SCORES // (len(members) * samples.targets.n_outputs)))
        with get_engine(self.device, n_synapses(samples.X, 1)) as engine:
            return draw(Job(engine, self.max_memory), samples, n_rows=most)

    def _suited_members(self, members, samples):
        """The members; of the default ones those that take so many features."""
        if self.estimators is not None or samples.X.shape[1] <= MOST_MAPPED:
            return members
        return [(name, each) for name, each in members if not is_word(each.feature_weights, "map")]

    def _suited(self, final, samples):
        """The final network, or None where it is not for rows such as these."""
        X, is_auto = samples.X, is_word(self.final_estimator, "auto")
        if final is None or (is_auto and not _are_a_table(samples)):
            return None
        if not _is_array(X):
            raise TypeError(
                f"final_estimator={self.final_estimator!r} sees scores beside the features, and "
                "takes dense rows of an array; give X as one, or final_estimator=None."
            )
        return final

    def _corrected(self, mixed, task, final, samples, y, sample):
        """What is mixed with a final network, which is fitted to the rows of the sample.

        It sees scores of rows without themselves, as it will see those of new rows.
        """
        with get_engine(self.device, n_synapses(samples.X, 1)) as engine:
            job = Job(engine, self.max_memory)
            rows, at = rows_in(job, samples, sample)
            X = np.asarray(to_host(take_rows(samples.X, rows)))
            X = self._widened(task, X, _answers_of(task, mixed.scores)[at])
            seen = samples.with_rows(X, rows)
            wide = draw(job, seen, n_rows=len(rows))
        unseen = _fitted(final, X, y[rows], seen.weight, wide, {})
        # Rows are equal if they were before, and are now in another order.
        numbers, first = np.unique(at, return_index=True)
        there, places = wide.find(exact_hashes(X[first]))
        return mixed.with_final(final, numbers[there], unseen[places])

    def _widened(self, task, X, scores):
        """Rows with the scores of the mixture beside their features."""
        dtype = hidden_dtype(X.dtype)
        return np.hstack(
            [X.astype(dtype, copy=False), self._as_features(task, scores)], dtype=dtype
        )

    def _keep(self, members, task, mixed):
        """Have fitted attributes, in the place of those of an earlier fit."""
        weights, Y, weight = mixed.weights, mixed.Y, mixed.weight
        used = [k for k in range(len(members)) if weights[k] > 0]
        # What scores of 0 stand for: the mean of y, which a sum has once.
        origin = _answers_of(task, np.zeros((1, Y.shape[1])))[0]
        (error,) = squared_errors([mixed.scores], Y, weight)
        found = task.found | self._calibrated(task, mixed.scores, Y * weight[:, None])
        found |= {"final_estimator_": mixed.final, "final_weight_": mixed.share}
        found["named_estimators_"] = dict(members[k] for k in used)
        found |= {"weights_": weights[used], "intercept_": (1 - weights.sum()) * origin}
        found |= {"loo_errors_": mixed.errors, "loo_error_": float(error)}
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            if name not in OF_INPUT:
                delattr(self, name)
        vars(self).update(found)

    def _as_it_stands(self):
        return copy_of(self)

    def _nothing(self, method, dtype=None, **options):
        """What a method says of no rows."""
        return self._says(method, np.empty((0, len(self.intercept_))))

    def _says(self, method, scores):
        temperature = {"temperature_": vars(self).get("temperature_")}
        return self._task().says(method, scores, Part(found=temperature))

    def _answer(self, X, method, out=None):
        """What a method says of rows, a few of them at a time."""
        X = self._taken(X)
        empty, n_rows = self._nothing(method), len(X)
        if out is not None:
            self._task().check_out(out, (n_rows, *empty.shape[1:]))
        places = [out] if out is not None else [
            np.empty((n_rows, *each.shape[1:]), each.dtype) for each in as_list(empty)
        ]  # fmt: skip
        for part, block in self._blocks(X):
            answers = as_list(self._says(method, self._scores(block)))
            for place, own in zip(places, answers, strict=True):
                write(place, part, own)
        return places if isinstance(empty, list) else places[0]

    def _taken(self, X):
        """Rows that were looked at."""
        check_is_fitted(self)
        X, *_ = open_all(X, self.device, self.max_memory)
        with get_engine(self.device, n_synapses(X, None)) as engine:
            return check_rows(self, engine, X, reset=False)

    def _blocks(self, X):
        """(slice, rows) of all rows. A file is read once, for all members."""
        step = max(1, _AT_A_TIME // (X.shape[1] + len(self.intercept_)))
        if self.max_memory is not None:
            limit = parse_memory(self.max_memory, host_memory()[0])
            step = min(step, max(1, limit // (64 * (X.shape[1] + len(self.intercept_)))))
        parts = [slice(start, min(start + step, len(X))) for start in range(0, len(X), step)]
        is_read = isinstance(X, Source) and not X.is_in_memory
        blocks = row_blocks(X, None, parts) if is_read else (part_of(X, part) for part in parts)
        return zip(parts, blocks, strict=True)

    def _scores(self, X):
        """(rows, n_scores) in float64."""
        start = (1 - self.final_weight_) * self.intercept_
        return sum(self._each(X), np.zeros((len(X), len(start))) + start)

    def _each(self, X):
        """What each network adds to the scores (rows, n_scores), the final one at last."""
        share, total = self.final_weight_, np.zeros((len(X), len(self.intercept_)))
        for weight, member in zip(self.weights_, self.estimators_, strict=True):
            own = weight * _said(member, X)
            total += own
            yield (1 - share) * own
        if self.final_estimator_ is not None:
            X = np.asarray(to_host(take_rows(X, slice(None))))
            X = self._widened(self._task(), X, total + self.intercept_)
            yield share * _said(self.final_estimator_, X)

    @of_one_state
    def contributions(self, X, output=0):
        """Say what each member adds to each prediction.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
        output : int, default=0
            Which column of y is explained, if there are several.

        Returns
        -------
        contributions : ndarray of shape (n_samples, n_used) or (n_samples, n_used + 1), float64
            For each of `estimators_`, and in a column more for `final_estimator_`, if there is
            one. With ``(1 - final_weight_) * intercept_`` they add up to what is predicted, or to
            the score of the class that is predicted. Of two classes, the score of the first is
            that of the second, times -1. `explain` of an RBF member names rows.

        Raises
        ------
        ValueError
            For an `output` that y does not have.
        """
        X, task = self._taken(X), self._task()
        if not 0 <= output < task.n_columns:
            raise ValueError(
                f"output={output!r}: y has {task.n_columns} column(s); give one of their numbers, "
                "from 0."
            )
        n_networks = len(self.weights_) + (self.final_estimator_ is not None)
        found, start = np.empty((len(X), n_networks)), (1 - self.final_weight_) * self.intercept_
        for part, block in self._blocks(X):
            each = np.stack(list(self._each(block)))
            _, columns, signs = task.decided(each.sum(axis=0) + start, output)
            found[part] = (signs * each[:, np.arange(len(columns)), columns]).T
        return found

    def _score(self, X, y, sample_weight):
        return score_of(self, self._task(), X, y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            each = [get_tags(member) for _, member in self._given if not _is_dropped(member)]
            takes_sparse = all(own.input_tags.sparse for own in each)
            tags.input_tags.sparse = takes_sparse and self._given_final is None
        except (TypeError, ValueError):  # fit says what is wrong with them
            pass
        return tags


@dataclass(frozen=True, eq=False)
class _Mixed:
    """Networks, mixed by their scores of rows that they have not seen."""

    weights: np.ndarray  # (n_members,)
    errors: np.ndarray  # (n_members,): mean squared errors of the members
    Y: np.ndarray  # (n_rows, n_outputs)
    weight: np.ndarray  # (n_rows,): of the rows
    scores: np.ndarray  # (n_rows, n_outputs): of all networks together
    final: Any = None  # the final network
    share: float = 0.0  # its weight, where the members' has the rest of 1

    @classmethod
    def of(cls, each, sample, weigh):
        """Of scores (n_members, n_rows, n_outputs) of a sample."""
        Y, weight = sample.mean, sample.rows.weight
        weights = weigh(each, Y, weight)
        errors = squared_errors(each, Y, weight)
        return cls(weights, errors, Y, weight, np.tensordot(weights, each, 1))

    def with_final(self, final, rows, scores):
        """Mixed with a final network, by its scores of some of the rows, if it has a weight.

        By squared errors, of classes, too: the score that one row has without itself is a feature
        of another in which the first had a part, so that the final network errs on each row a bit
        more than on new ones. Log-loss counts that for too much.
        """
        Y, weight, each = self.Y[rows], self.weight[rows], np.stack([self.scores[rows], scores])
        before, beside = by_squared_error(each, Y, weight)
        share = float(beside / (before + beside))
        if not share:
            return self
        scores = (1 - share) * each[0] + share * each[1]
        return replace(self, Y=Y, weight=weight, scores=scores, final=final, share=share)


def _are_a_table(samples):
    """Whether a final network is worth its time: on few features that are numbers, not bytes."""
    X = samples.X
    return (
        _is_array(X) and X.dtype != np.uint8 and X.shape[1] <= MOST_LEARNED
        and len(samples.present) >= FEWEST_ROWS
    )  # fmt: skip


def _is_array(X):
    return not isinstance(X, Source) or isinstance(X, InMemory)


def _answers_of(task, scores):
    """Scores (n_rows, n_outputs) that were learned, as answers have them."""
    found, origin = task.outputs(scores.T, np.zeros(scores.shape[1]), np.float64)
    return found.T + origin


def _said(network, X):
    """The scores (n_rows, n_scores) of a fitted network."""
    answer = getattr(network, "decision_function", network.predict)
    return np.hstack([np.reshape(each, (len(X), -1)) for each in as_list(answer(X))])


def _is_dropped(estimator):
    return isinstance(estimator, str) and estimator == "drop"


def _told(task, member):
    """Context in which callbacks hear of the fit of a member."""
    return task.context.propagate_callback_context(member) if task.context else nullcontext()


def _fitted(member, X, y, weight, sample, shared):
    """Scores (n_rows, n_outputs) of a sample by a member, as it is fitted, that has not seen it.

    What members have `shared` is not found again, and what this one finds is added.
    """
    member.sample, member.shared = sample, shared
    member.fit(X, y, weight)
    del member.sample, member.shared
    found = vars(member).pop("unseen_", None)
    return _left_out(member, X, y, weight, sample) if found is None else found


def _left_out(member, X, y, weight, sample):
    """The same of a member that is fitted, and keeps no sums: one more pass over the rows."""
    parts = parts_of(member)
    samples, layer = parts.task.samples(X, y, weight), suited(parts.units.layer, X)
    with get_engine(member.device, n_synapses(X, layer.n_units)) as engine:
        job = Job(engine, member.max_memory, member.verbose, f"{type(member).__name__} left out")
        samples, job = samples.on_device(job)
        (statistics,) = gather(job, [layer], samples)
        unseen = Unseen(job, layer, sample, statistics)
        statistics.solve(member.alpha_, is_last=True, also=unseen.take)
    return unseen.found[layer.n_units][0]
