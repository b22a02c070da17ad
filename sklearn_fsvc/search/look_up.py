"""What GridSearchCV is given in the place of an estimator: one whose answers are there.

GridSearchCV then does all that it does: splits, scorers, errors, ranks, refit, routing of
metadata, printing. It knows the rows by their numbers, and each candidate by one more
parameter, its number.
"""

from time import perf_counter

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import accuracy_score, check_scoring, make_scorer
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if

from .networks import key_of

# scikit-learn's scorers hand rows on to an estimator and look at nothing but its answers.
_SCORER = type(make_scorer(accuracy_score))


class Findings:
    """What is known of the candidates, and what it cost.

    Parameters
    ----------
    X : array-like
        The rows themselves.
    estimator : estimator
        The user's.
    candidates : list of dict

    Attributes
    ----------
    splits : list of (ndarray of int, ndarray of int)
        Training and test rows, once they are known.
    rows : ndarray of int
        The numbers of all rows: this array stands for X, copies of it for parts.
    fitted : dict
        (candidate, key of the training rows) -> Fitted.
    times : dict
        (candidate, key of the training rows) -> [fit time, score time], in seconds.
    alone : set
        The (candidate, key of the training rows) that had a fit of their own.
    """

    def __init__(self, X, n_rows, estimator, candidates):
        self.X, self.estimator, self.candidates = X, estimator, candidates
        self.rows = np.arange(n_rows)
        self.fitted, self.times, self.alone = {}, {}, set()

    def add(self, split, fitted):
        """Take in the networks of a split (training rows, test rows)."""
        key = key_of(split[0])
        for candidate in fitted.networks:
            self.fitted[candidate, key] = fitted
            self.times[candidate, key] = [fitted.fit_time, fitted.score_time]

    def problems(self):
        """The parameters of candidates whose equations were ill-conditioned on some split."""
        numbers = {number for fitted in self.fitted.values() for number in fitted.problems}
        return [self.candidates[number] for number in sorted(numbers)]

    def results(self, results):
        """``cv_results_`` with the candidates' own parameters and times."""
        results = {k: v for k, v in results.items() if k != "param_candidate"}
        results["params"] = self.candidates
        keys = [key_of(train) for train, _ in self.splits]
        times = np.array(
            [[self.times[number, key] for key in keys] for number in range(len(self.candidates))]
        )
        for i, name in enumerate(("fit_time", "score_time")):
            results[f"mean_{name}"] = times[:, :, i].mean(axis=1)
            results[f"std_{name}"] = times[:, :, i].std(axis=1)
        return results

    def charge(self, key, rows, seconds):
        """Add to a candidate's score time, of the test rows alone, as in GridSearchCV."""
        if key_of(rows) != key[1]:
            self.times[key][1] += seconds

    def fit_alone(self, candidate, rows, y, fit_params):
        """The candidate's own fit."""
        parameters = clone(self.candidates[candidate], safe=False)
        estimator = clone(self.estimator).set_params(**parameters)
        X = self.X if rows is self.rows else _safe_indexing(self.X, rows)
        return estimator.fit(X, y, **fit_params)


def _has(method):
    return available_if(lambda stand_in: hasattr(stand_in.estimator, method))


def stand_in(findings):
    """A `StandIn` by the name of the user's estimator, which scikit-learn's messages tell."""
    name = type(findings.estimator).__name__
    return type(name, (StandIn,), {})(findings)


class StandIn(BaseEstimator):
    """Answers for the candidate whose number it is given; rows are row numbers."""

    def __init__(self, findings):
        self.findings = findings

    def __sklearn_clone__(self):
        return type(self)(self.findings)

    def __repr__(self):
        return repr(self.findings.estimator)

    def __sklearn_tags__(self):
        return get_tags(self.findings.estimator)

    def get_metadata_routing(self):
        return self.findings.estimator.get_metadata_routing()

    def set_params(self, *, candidate, **params):
        self.candidate = candidate
        return self

    def fit(self, rows, y, **fit_params):
        found, start = self.findings, perf_counter()
        self.key = self.candidate, key_of(rows)
        self.fitted, self._estimator = found.fitted.get(self.key), None
        if rows is found.rows:  # not a copy of it: the best candidate is fitted to all rows
            self.fitted = None
            self._estimator = found.fit_alone(self.candidate, rows, y, fit_params)
        elif self.fitted is None:
            try:
                self._estimator = found.fit_alone(self.candidate, rows, y, fit_params)
                found.alone.add(self.key)
            finally:
                found.times[self.key] = [perf_counter() - start, 0.0]
        return self

    @property
    def estimator(self):
        """The fitted estimator that this one stands for."""
        if self._estimator is None:
            self._estimator = self.fitted.estimator(self.candidate)
        return self._estimator

    @property
    def classes_(self):
        if self.fitted is not None:
            return self.fitted.networks[self.candidate].classes_
        return self.estimator.classes_

    def _ask(self, method, rows, *args, **params):
        """The estimator's own answer, on the rows themselves."""
        start = perf_counter()
        X = _safe_indexing(self.findings.X, rows)
        answer = getattr(self.estimator, method)(X, *args, **params)
        self.findings.charge(self.key, rows, perf_counter() - start)
        return answer

    def _known_scores(self, rows):
        return self.fitted and self.fitted.scores.get((self.candidate, key_of(rows)))

    @_has("decision_function")
    def decision_function(self, rows):
        scores = self._known_scores(rows)
        if scores is None:
            return self._ask("decision_function", rows)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, rows):
        scores = self._known_scores(rows)
        if scores is None:
            return self._ask("predict", rows)
        codes = (scores[:, 0] > 0) * 1 if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    @_has("predict_proba")
    def predict_proba(self, rows):
        return self._ask("predict_proba", rows)

    def score(self, rows, y, sample_weight=None, **params):
        if self._known_scores(rows) is None or params:
            weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
            return self._ask("score", rows, y, **weighted, **params)
        return accuracy_score(y, self.predict(rows), sample_weight=sample_weight)


class _Delegate:
    """Something with all that another object has."""

    def __init__(self, original, findings):
        self.original, self.findings = original, findings

    def __getattr__(self, name):
        return getattr(self.original, name)

    def __repr__(self):
        return repr(self.original)


class KnownRows(_Delegate):
    """A scorer of the user's own: meets the fitted estimator and the rows themselves."""

    def __init__(self, original, findings):
        super().__init__(original, findings)
        # scikit-learn looks at both.
        self.__module__ = getattr(original, "__module__", None)
        self.__wrapped__ = original

    def __call__(self, stand_in, rows, *args, **params):
        start = perf_counter()
        X = _safe_indexing(self.findings.X, rows)
        score = self.original(stand_in.estimator, X, *args, **params)
        self.findings.charge(stand_in.key, rows, perf_counter() - start)
        return score


class KnownSplitter(_Delegate):
    """A splitter that meets the rows themselves.

    Parameters
    ----------
    on_split : callable
        Called with the list of splits, as row numbers.
    """

    def __init__(self, original, findings, on_split):
        super().__init__(original, findings)
        self._on_split = on_split

    def get_n_splits(self, rows=None, y=None, **params):
        return self.original.get_n_splits(self.findings.X, y, **params)

    def split(self, rows, y=None, **params):
        splits = [
            (rows[train], rows[test])
            for train, test in self.original.split(self.findings.X, y, **params)
        ]
        self._on_split(splits)
        return splits


def scoring_of(scoring, findings):
    """`scoring` as GridSearchCV takes it, with the user's own scorers in `KnownRows`."""
    if isinstance(scoring, dict):
        return {name: scoring_of(each, findings) for name, each in scoring.items()}
    is_own = callable(scoring) and not isinstance(scoring, _SCORER)
    return KnownRows(scoring, findings) if is_own else scoring


def scorer_for(scorer, estimator):
    """The scorer that GridSearchCV found, as it is for the user's estimator."""
    if isinstance(scorer, dict):
        return {name: scorer_for(each, estimator) for name, each in scorer.items()}
    if isinstance(scorer, KnownRows):
        return scorer.original
    return scorer if isinstance(scorer, _SCORER) else check_scoring(estimator)
