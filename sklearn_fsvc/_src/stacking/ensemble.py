"""A stacked ensemble of networks: each is fitted once, and their scores are added up with weights.

The weights, of 0 or more, are found by the scores that each network gives to rows without
themselves: of stacking (D. H. Wolpert 1992, "Stacked generalization"; L. Breiman 1996,
"Stacked regressions") without folds, since a ridge readout knows these scores in closed form.

One more network may see rows with such scores beside their features, as a final estimator of
scikit-learn's stacking with ``passthrough=True``. It corrects what the sum gets wrong. Its scores
come from folds, as they do there: also in closed form, from blocks of the hat matrix.

`StackedEnsemble` is the base of the public classes; `StackedParts` fits, and `StackedPrediction`
predicts.
"""

from abc import ABCMeta, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_is_fitted

from ..data.dask_blocks import open_all
from ..data.map_reduce import part_of
from ..data.samples import exact_hashes
from ..data.sources import Source
from ..data.streaming import n_synapses, row_blocks, take_rows
from ..data.validation import check_rows, to_host
from ..engines import get_engine
from ..estimators.network import Answers, as_list, clean, keep, score_of
from ..estimators.state import Documented, Versioned, atomic_update, copy_of, on_snapshot
from ..parts import TargetSpec
from ..readouts.sample import draw, rows_in
from ..utils.callbacks import Observable, with_callbacks
from .members import Members, TrainingSet
from .weights import EnsembleWeighting, decision_scores, folds_of


class StackedEnsemble(Documented, Versioned, Observable, _BaseComposition, metaclass=ABCMeta):
    """Networks whose scores are added up, with weights of 0 or more."""

    _kinds = None  # classes of the RBF and the tanh networks that there are by default

    @abstractmethod
    def _stacked_parts(self):
        """The `StackedParts` that its parameters name, with what they have found."""

    @classmethod
    def default_estimators(cls):
        """Make the members that there are by default, to change them and give them.

        Returns
        -------
        estimators : list of (str, estimator)
        """
        rbf, tanh = cls._kinds
        return [
            ("manhattan", rbf()),
            ("euclidean", rbf(metric="euclidean")),
            ("tanh", tanh(2000)),
            ("map", tanh(2000, feature_weights="map")),
        ]

    @classmethod
    def default_final_estimator(cls):
        """Make the final network that there is by default, to change it and give it.

        Returns
        -------
        estimator : estimator
        """
        _, tanh = cls._kinds
        return tanh(2000)

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

    def fit(self, X, y=None, sample_weight=None):
        """Fit each member, and find their weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            As of `fit` of a single network, such as `RBFClassifier`. Sparse where all members
            take it.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
        sample_weight : array-like of shape (n_samples,) or str, optional

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            For members that are no networks of this package for the same task, or have no ridge
            readout, and for input that cannot be used; the ensemble is left as it was.
        """
        atomic_update(self, lambda model: model._fit(X, y, sample_weight))
        return self

    @with_callbacks  # `atomic_update` would drop the callback context
    def _fit(self, X, y, sample_weight):
        parts = self._stacked_parts()
        parts.check()
        self._validate_names([name for name, _ in parts.members.given])
        fit_task = self._begin_fit(X, y, sample_weight)
        rows = open_all(X, self.device, self.max_memory, y, sample_weight)
        with get_engine(self.device, n_synapses(rows[0], None)) as engine:
            clean_X, clean_y = clean(self, engine, *rows[:2])
        keep(self, parts.fit(clean_X, clean_y, rows[2], fit_task).found)
        self._end_fit(fit_task, X, y, sample_weight)

    def _snapshot(self):
        return copy_of(self)

    def _open_prediction(self, X):
        """The `StackedPrediction` that rows are."""
        if "weights_" not in vars(self):
            check_is_fitted(self)  # which takes long
        X, *_ = open_all(X, self.device, self.max_memory)
        with get_engine(self.device, n_synapses(X, None)) as engine:
            X = check_rows(self, engine, X, reset=False)
        return StackedPrediction(self._stacked_parts(), X)

    def _answer(self, X, method, out=None):
        """What a method says of rows."""
        return self._open_prediction(X).answers(method, out)

    def _empty_output(self, method, dtype, **options):
        """What a method says of no rows, for Dask."""
        return StackedPrediction(self._stacked_parts()).empty_output(method)

    @on_snapshot
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
        return self._open_prediction(X).contributions(output)

    def _score(self, X, y, sample_weight):
        return score_of(self, self._stacked_parts().task, X, y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = Members.of(self).takes_sparse
        return tags


@dataclass(frozen=True, eq=False)
class StackedParts:
    """What a stacked ensemble is composed of."""

    task: TargetSpec
    members: Members
    weighting: EnsembleWeighting

    def check(self):
        """Raise for a parameter that cannot be used."""
        self.members.check(self.task)
        self.task.check()

    @property
    def found(self):
        """All fitted attributes."""
        return self.task.found | self.members.found | self.weighting.found

    def fit(self, X, y, sample_weight, fit_task):
        """Return the parts with networks that are fitted to clean rows, and weights.

        `fit_task` is the task of the fit that callbacks hear of.
        """
        task, samples = self.task.read(X, y, sample_weight)
        pairs, final = self.members.made(samples)
        rows = self._training_set(samples, y, len(pairs), final is not None)
        self.members.leave_memory(pairs, final, rows)
        shared = {}
        left_out = [rows.fit(member, fit_task.part(name), shared) for name, member in pairs]
        ensemble = self.weighting.weigh(task, left_out, rows.sample)
        if final is not None and ensemble.has_all_outputs:
            self.members.give_penalty(final, pairs)
            ensemble = self._with_final_network(task, ensemble, final, rows, fit_task.part("final"))
        used = dict(pairs[k] for k in ensemble.used)
        members = self.members.with_fitted(named_estimators_=used, final_estimator_=ensemble.final)
        return StackedParts(task, members, self.weighting.with_ensemble(task, ensemble))

    def _training_set(self, samples, y, n_members, has_final):
        n_rows = self.weighting.n_rows(n_members, samples.targets.n_outputs, has_final)
        with self.members.job(samples.X) as job:
            sample = draw(job, samples, n_rows=n_rows)
        return TrainingSet(samples, y, sample, folds_of(sample) if has_final else None)

    def _with_final_network(self, task, ensemble, final, rows, fit_task):
        """The ensemble with a final network, which is fitted to the rows of the sample.

        Beside the features it gets the scores of readouts that were trained without a row's fold.
        Scores without the row alone would tell its target: they are those of all rows less what the
        row itself added, which the network can find out from the others.
        """
        with self.members.job(rows.samples.X) as job:
            numbers, at = rows_in(job, rows.samples, rows.sample)
            X = np.asarray(to_host(take_rows(rows.samples.X, numbers)))
            scores = decision_scores(task, ensemble.fold_scores)
            X = self.weighting.append_scores(task, X, scores[at])
            samples = rows.samples.with_rows(X, numbers)
            sample = draw(job, samples, n_rows=len(numbers))
        # Rows are equal if they were before, and are now in another order.
        judged, first = np.unique(at, return_index=True)
        there, places = sample.match(exact_hashes(X[first]))
        folds = np.empty(len(places), int)
        folds[places] = rows.folds[judged[there]]
        left_out = TrainingSet(samples, rows.y[numbers], sample, folds).fit(final, fit_task, {})
        scores = left_out.fold_scores[places]
        return ensemble.with_final(final, judged[there], scores, self.weighting.min_gain)


@dataclass(frozen=True, eq=False)
class StackedPrediction:
    """Clean rows that are to be answered, and the parts of a fitted ensemble that answer them."""

    parts: StackedParts
    X: Any = None
    at_a_time: int = 2**21  # numbers of X and scores

    def empty_output(self, method):
        """What a method says of no rows: the dtypes and shapes of its answers."""
        return self._says(method, np.empty((0, len(self._start))))

    def answers(self, method, out=None):
        """What a method says, in new arrays or in `out`; a few rows at a time."""
        answers = Answers(len(self.X), out)
        if out is not None:
            self.parts.task.check_out(out, (len(self.X), *self.empty_output(method).shape[1:]))
        for part, X in self._blocks():
            scores = sum(self._each(X), np.zeros((len(X), len(self._start))) + self._start)
            answers.take(part, self._says(method, scores))
        return answers.all

    def contributions(self, output):
        """What each network adds to each prediction, (n_rows, n_networks)."""
        task, n_networks = self.parts.task, len(self._found["weights_"])
        n_networks += self._found["final_estimator_"] is not None
        if not 0 <= output < task.n_columns:
            raise ValueError(
                f"output={output!r}: y has {task.n_columns} column(s); give one of their numbers, "
                "from 0."
            )
        found = np.empty((len(self.X), n_networks))
        for part, X in self._blocks():
            each = np.stack(list(self._each(X)))
            _, columns, signs = task.decided(each.sum(axis=0) + self._start, output)
            found[part] = (signs * each[:, np.arange(len(columns)), columns]).T
        return found

    @cached_property
    def _found(self):
        return self.parts.found

    @cached_property
    def _start(self):
        """What scores begin with, (n_scores,)."""
        return (1 - self._found["final_weight_"]) * self._found["intercept_"]

    def _says(self, method, scores):
        return self.parts.task.format_output(method, scores, self.parts.weighting)

    def _blocks(self):
        """(slice, rows) of all rows. A file is read once, for all members."""
        X, limit = self.X, self.parts.members.memory_limit
        n_numbers = X.shape[1] + len(self._start)
        most = self.at_a_time if limit is None else min(self.at_a_time, limit // 64)
        step = max(1, most // n_numbers)
        parts = [slice(start, min(start + step, len(X))) for start in range(0, len(X), step)]
        is_read = isinstance(X, Source) and not X.is_in_memory
        blocks = row_blocks(X, None, parts) if is_read else (part_of(X, part) for part in parts)
        return zip(parts, blocks, strict=True)

    def _each(self, X):
        """What each network adds to the scores (rows, n_scores), the final one at last."""
        found, total = self._found, np.zeros((len(X), len(self._start)))
        share, members = found["final_weight_"], found["named_estimators_"].values()
        for weight, member in zip(found["weights_"], members, strict=True):
            own = weight * _said(member, X)
            total += own
            yield (1 - share) * own
        if found["final_estimator_"] is not None:
            X = np.asarray(to_host(take_rows(X, slice(None))))
            X = self.parts.weighting.append_scores(self.parts.task, X, total + found["intercept_"])
            yield share * _said(found["final_estimator_"], X)


def _said(network, X):
    """The scores (n_rows, n_scores) of a fitted network."""
    answer = getattr(network, "decision_function", network.predict)
    return np.hstack([np.reshape(each, (len(X), -1)) for each in as_list(answer(X))])
