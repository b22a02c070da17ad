"""A mixture of networks: each is fitted once, and their scores are added up with weights.

The weights, of 0 or more, are found by the scores that each network gives to rows without
themselves: of stacking (D. H. Wolpert 1992, "Stacked generalization"; L. Breiman 1996,
"Stacked regressions") without folds, since a ridge readout knows these scores in closed form.
"""

from abc import abstractmethod
from contextlib import nullcontext
from inspect import signature

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from ..callbacks import Observable, with_callbacks
from ..documentation import Documented
from ..engines import get_engine
from ..engines.host import host_memory
from ..parameters import check_level
from ..readouts.mixing import squared_errors
from ..readouts.ridge import gather
from ..readouts.sample import draw
from ..readouts.unseen import Unseen
from ..rows.blocks import open_all
from ..rows.fold import part_of
from ..rows.job import Job
from ..rows.out import write
from ..rows.sources import Source
from ..rows.streaming import n_synapses, row_blocks, suited
from ..rows.tiling import parse_memory
from ..rows.validation import check_rows
from .answering import as_list
from .network import OF_INPUT, clean, score_of
from .parts import Part, parts_of
from .state import Versioned
from .turns import changed, copy_of, of_one_state

# Rows by which weights are found, at most: a few numbers need no more. Scores of all members, too.
_JUDGES, _SCORES = 2**10, 2**19
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

    @abstractmethod
    def _task(self):
        """The `Task`, with what it has found."""

    @abstractmethod
    def _weighed(self, task, scores, Y, weight):
        """The weights of members, by their scores (n_members, n_rows, n_outputs)."""

    def _calibrated(self, task, scores, sums):
        """Fitted attributes made of scores (n_rows, n_outputs) of the mixture.

        `sums` are the targets times the weights of the rows.
        """
        return {}

    @property
    def _given(self):
        return self.default_estimators() if self.estimators is None else self.estimators

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
        members, task = self._ready(), self._task()
        task.check()
        heard = self._begin_fit(X, y, sample_weight)
        rows = open_all(X, self.device, self.max_memory, y, sample_weight)
        with get_engine(self.device, n_synapses(rows[0], None)) as engine:
            clean_X, clean_y = clean(self, engine, *rows[:2])
        task, samples = task.read(clean_X, clean_y, rows[2])
        sample = self._drawn(samples, members)
        Y, weight, scores, shared = sample.mean, sample.rows.weight, [], {}
        for name, member in members:
            self._share_memory(member, 16 * Y.size * len(members))
            with _told(heard.part(name), member):
                scores.append(_fitted(member, clean_X, clean_y, samples.weight, sample, shared))
        self._keep(members, task, np.stack(scores), Y, weight)
        self._end_fit(heard, X, y, sample_weight)

    def _ready(self):
        """(name, clone) of the members."""
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
            self._check_member(name, each)
        seeds = check_random_state(self.random_state)
        return [(name, self._own(clone(each), seeds)) for name, each in pairs]

    def _check_member(self, name, estimator):
        parts, task = parts_of(estimator), self._task()
        if parts is None or not isinstance(parts.task, type(task)):
            raise TypeError(
                f"estimators has {name}={estimator!r}, and a {type(self).__name__} is made of "
                "networks of this package for the same task; for others use StackingClassifier or "
                "StackingRegressor of scikit-learn."
            )
        if getattr(estimator, "class_weight", None) is not None:
            raise ValueError(
                f"estimators has {name}={estimator!r}; give class_weight to the mixture, for all "
                "members."
            )
        if not parts.readout.is_ridge:
            raise ValueError(
                f"estimators has {name}={estimator!r}, whose readout has no leave-one-out scores; "
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

    def _drawn(self, samples, members):
        """The `Sample` of rows by whose scores weights are found."""
        most = min(_JUDGES, max(1, _SCORES // (len(members) * samples.targets.n_outputs)))
        with get_engine(self.device, n_synapses(samples.X, 1)) as engine:
            return draw(Job(engine, self.max_memory), samples, n_rows=most)

    def _keep(self, members, task, scores, Y, weight):
        """Have fitted attributes, in the place of those of an earlier fit.

        They are found by scores (n_members, n_rows, n_outputs) of rows that members have not seen.
        """
        weights = self._weighed(task, scores, Y, weight)
        used = [k for k in range(len(members)) if weights[k] > 0]
        mixed = np.tensordot(weights, scores, 1)
        # What scores of 0 stand for: the mean of y, which a sum has once.
        _, origin = task.outputs(np.zeros((Y.shape[1], 0)), np.zeros(Y.shape[1]), np.float64)
        errors = squared_errors([*scores, mixed], Y, weight)
        found = task.found | self._calibrated(task, mixed, Y * weight[:, None])
        found["named_estimators_"] = dict(members[k] for k in used)
        found |= {"weights_": weights[used], "intercept_": (1 - weights.sum()) * origin}
        found |= {"loo_errors_": errors[:-1], "loo_error_": float(errors[-1])}
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
        return sum(self._each(X), np.zeros((len(X), len(self.intercept_))) + self.intercept_)

    def _each(self, X):
        """What each member adds to the scores (rows, n_scores)."""
        for weight, member in zip(self.weights_, self.estimators_, strict=True):
            answer = getattr(member, "decision_function", member.predict)
            own = [np.reshape(each, (len(X), -1)) for each in as_list(answer(X))]
            yield weight * np.hstack(own)

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
        contributions : ndarray of shape (n_samples, n_used), float64
            For each of `estimators_`. With `intercept_` they add up to what is predicted, or to
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
        found = np.empty((len(X), len(self.weights_)))
        for part, block in self._blocks(X):
            each = np.stack(list(self._each(block)))
            _, columns, signs = task.decided(each.sum(axis=0) + self.intercept_, output)
            found[part] = (signs * each[:, np.arange(len(columns)), columns]).T
        return found

    def _score(self, X, y, sample_weight):
        return score_of(self, self._task(), X, y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            each = [get_tags(member) for _, member in self._given if not _is_dropped(member)]
            tags.input_tags.sparse = all(own.input_tags.sparse for own in each)
        except (TypeError, ValueError):  # fit says what is wrong with them
            pass
        return tags


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
