"""What GridSearchCV meets in a search: an estimator that looks its fits up.

GridSearchCV still does all that it does: splits, scorers, errors, ranks, refit, routing of
metadata, printing. It knows the rows by their numbers, and each candidate by one more
parameter, its number.
"""

from functools import update_wrapper
from itertools import product

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.metrics._scorer import _Scorer
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import available_if

from ..data.sources import InMemory, Source, some_rows
from ..data.tiling import parse_memory
from ..engines.memory import host_memory
from ..layers import hidden_dtype
from ..parts import parts_of
from ..utils.callbacks import Observable, propagate_callbacks, with_callbacks
from ..utils.user_warnings import warn
from .networks import Fitted, is_changed, key_of
from .shared_fits import score_again
from .wrappers import last_step, untransform_predictions

# Ill-conditioned candidates that a warning names.
_NAMED = 5


class SharedFits:
    """What is known of the candidates: the arguments of the search's `fit`, and what was found."""

    def __init__(self, X, estimator, candidates, y=None, params=None):
        self.X, self.estimator, self.candidates = X, estimator, candidates
        self.y, self.params = y, params
        self.splits = []  # training and test rows, once they are known
        self.fitted = {}  # (candidate, key of the training rows) -> Fitted
        self.errors = {}  # candidate -> why it could not share its work
        self.alone = set()  # the candidates that had a fit of their own
        self.streamed = _streamed(X, estimator)  # the rows as networks meet them
        self.n_jobs = 1  # threads that work at the same time

    def __deepcopy__(self, memo):
        # scikit-learn copies the estimator for each fit, and scikit-learn 1.8 the whole
        # search for its routing. All of them share one set of findings, and of rows.
        return self

    def add(self, fitted):
        """Take in the networks of a split."""
        key = key_of(self.splits[fitted.split][0])
        self.fitted.update(((candidate, key), fitted) for candidate in fitted.networks)

    def replace_scores(self, part):
        """Forget all decision values, and make those of some candidates."""
        found = {id(fitted): fitted for fitted in self.fitted.values()}
        for fitted in found.values():
            fitted.scores.clear()
        for fitted in found.values():
            self.add(score_again(fitted, part))

    def rows(self, numbers):
        """The rows with these numbers, for a network."""
        return some_rows(self.streamed, numbers)

    def copied_rows(self, numbers):
        """The rows with these numbers, for the user."""
        return some_rows(self.X, numbers)

    def summary(self, groups, n_passes):
        """The plan of the search, for people to read."""
        n_candidates, n_shared = len(self.candidates), sum(len(group.members) for group in groups)
        return (
            f"[HiddenSizeSearchCV] {n_candidates} candidates on {len(self.splits)} splits: "
            f"{n_shared} of them in {n_passes} passes, {n_candidates - n_shared} fitted one by one"
        )

    def warn(self):
        """Say what was ill-conditioned, and what had to be fitted one by one after all."""
        numbers = {number for fitted in self.fitted.values() for number in fitted.problems}
        problems = [str(self.candidates[number]) for number in sorted(numbers)]
        if problems:
            named = "; ".join(problems[:_NAMED])
            more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
            warn(
                f"{len(problems)} of {len(self.candidates)} candidates are ill-conditioned, and "
                f"directions were left out of their ridge readouts: {named}{more}. Raise alpha, or "
                "use fewer or narrower units.",
                ConvergenceWarning,
            )
        not_shared = [error for name, error in self.errors.items() if name in self.alone]
        if not_shared:
            warn(
                f"{len(self.errors)} candidates could not share their work and were fitted one by "
                f"one, for {type(not_shared[0]).__name__}: {not_shared[0]}"
            )

    def with_shared_times(self, results):
        """Results of the first candidates on each split, with a share of the time of passes."""
        fits = product(range(len(results) // len(self.splits)), self.splits)
        timed = []
        for result, (candidate, (train, _)) in zip(results, fits, strict=True):
            share = self.fitted.get((candidate, key_of(train)), Fitted())
            fit_time = result["fit_time"] + share.fit_time
            score_time = result["score_time"] + share.score_time
            timed.append({**result, "fit_time": fit_time, "score_time": score_time})
        return timed


def _streamed(X, estimator):
    """Rows of an array or a table that are not copied for each split.

    X as it is where others than networks of ours meet it, and where it is not of numbers alone.
    """
    if last_step(estimator) is not estimator or is_changed(type(estimator)):
        return X
    array, names = X, None
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):
        array, names = np.asarray(X), X.iloc[:0]
    is_array = isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind in "biuf"
    return InMemory(array, names=names) if is_array else X


def _has(method):
    return available_if(lambda candidate: hasattr(candidate.estimator_, method))


class CachedEstimator(Observable, BaseEstimator):
    """A candidate that looks its fit and its answers up; rows are row numbers.

    Where nothing was found it has a fit of its own. A candidate without a number is the
    best one, which is fitted to all rows. `estimator_` is what `fit` of the user's own estimator
    would have left.
    """

    def __init__(self, findings):
        self.findings = findings

    def __repr__(self):
        return repr(self.findings.estimator)

    def __sklearn_tags__(self):
        return get_tags(self.findings.estimator)

    def get_metadata_routing(self):
        return get_routing_for_object(self.findings.estimator)

    def set_params(self, *, candidate=None, **parameters):
        self.number, self.parameters = candidate, parameters
        return self

    @with_callbacks
    def fit(self, rows, y, **fit_params):
        self.found_ = self.findings.fitted.get((self.number, key_of(rows)))
        if self.found_ is None:
            X = self.findings.X if self.number is None else self.findings.rows(rows)
            estimator = clone(self.findings.estimator).set_params(**self.parameters)
            if self.number is not None:
                share_memory(last_step(estimator), self.findings.n_jobs)
            with propagate_callbacks(getattr(self, "_parent_callback_ctx", None), estimator):
                self.estimator_ = estimator.fit(X, y, **fit_params)
            self.findings.alone.add(self.number)
        else:
            task = self._begin_fit(rows, y, None)
            self.estimator_ = self.found_.estimator(self.number)
            task.end()
        return self

    def _init_callback_context(self, **context):
        """People know the estimator, and not who looks its fit up."""
        context = super()._init_callback_context(**context, task_name="look-up")
        context.estimator_name = type(self.findings.estimator).__name__
        return context

    @property
    def _network(self):
        return last_step(self.estimator_)

    @property
    def classes_(self):
        return self.estimator_.classes_

    @property
    def feature_names_in_(self):
        return self.estimator_.feature_names_in_

    def _known_scores(self, rows):
        return self.found_ and self.found_.scores.get((self.number, key_of(rows)))

    def _answer(self, method, rows):
        scores = self._known_scores(rows)
        if scores is None:
            return getattr(self.estimator_, method)(self.findings.rows(rows))
        parts = parts_of(self._network)
        return untransform_predictions(
            self.estimator_, parts.task.format_output(method, scores, parts.readout)
        )

    @_has("decision_function")
    def decision_function(self, rows):
        return self._answer("decision_function", rows)

    def predict(self, rows):
        return self._answer("predict", rows)

    @_has("predict_proba")
    def predict_proba(self, rows):
        return self._answer("predict_proba", rows)

    def score(self, rows, y, sample_weight=None, **params):
        if self._known_scores(rows) is None or params:
            weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
            return self.estimator_.score(self.findings.rows(rows), y, **weighted, **params)
        # By the answers of the candidate, which looks them up.
        return parts_of(self._network).task.score(self.predict(rows), y, sample_weight)


class _OfUser:
    """Something of the user's, which meets the rows themselves and not their numbers."""

    def __init__(self, original):
        self.original = original

    def __repr__(self):
        return repr(self.original)

    def get_metadata_routing(self):
        return get_routing_for_object(self.original)


class UserScorer(_OfUser):
    """A scorer of the user's own: it meets the fitted estimator, too."""

    def __init__(self, original):
        super().__init__(original)
        update_wrapper(self, original, updated=())  # scikit-learn looks at its signature

    def __call__(self, candidate, rows, *args, **params):
        X = candidate.findings.copied_rows(rows)
        return self.original(candidate.estimator_, X, *args, **params)


class UserSplitter(_OfUser):
    """The user's splitter, which is asked once: GridSearchCV asks for each part."""

    def __init__(self, original, findings):
        super().__init__(original)
        self.findings = findings

    def _rows(self, numbers):
        """What the splitter meets; of a source, the numbers of the rows are enough."""
        return numbers if isinstance(self.findings.X, Source) else self.findings.X

    def get_n_splits(self, rows=None, y=None, **params):
        return len(self.split(rows, y, **params))

    def split(self, rows, y=None, **params):
        if not self.findings.splits:
            splits = self.original.split(self._rows(rows), y, **params)
            self.findings.splits = [(rows[train], rows[test]) for train, test in splits]
        return self.findings.splits


def scoring_of(scoring):
    """`scoring` as the search of row numbers takes it.

    scikit-learn's scorers hand rows on to an estimator and look at nothing but its answers.
    """
    if isinstance(scoring, dict):
        return {name: scoring_of(each) for name, each in scoring.items()}
    is_own = callable(scoring) and not isinstance(scoring, _Scorer)
    return UserScorer(scoring) if is_own else scoring


def scorer_for(scorer, estimator):
    """The scorer that GridSearchCV found, as it is for the user's estimator."""
    if isinstance(scorer, dict):
        return {name: scorer_for(each, estimator) for name, each in scorer.items()}
    if isinstance(scorer, UserScorer):
        return scorer.original
    return scorer if isinstance(scorer, _Scorer) else check_scoring(estimator)


# What there is room for: decision values of candidates at one time, and work side by side.
#
# Decision values wait until GridSearchCV looks them up. There is one for each test row, output
# and candidate: so candidates are looked up in parts, whose decision values are made when it is
# their turn.

# The part of the memory that decision values may take which wait.
_WAITING = 1 / 4


def in_parts(findings, y, with_train):
    """Return ranges of the candidates, and the bytes that decision values of a range take.

    `findings` know the splits; `with_train` says whether training rows are scored, too.
    """
    estimator, total = findings.estimator, len(findings.candidates)
    n_rows = sum(len(test) + with_train * len(train) for train, test in findings.splits)
    of_one = max(1, n_rows * _row_bytes(estimator, findings.streamed, y))
    limit = parse_memory(last_step(estimator).max_memory, host_memory()[0])
    n = max(1, min(total, int(_WAITING * limit) // of_one))
    parts = [range(i, min(i + n, total)) for i in range(0, total, n)]
    return parts or [range(0)], n * of_one


def _row_bytes(estimator, X, y):
    """Return the bytes of the decision values of a row, at most."""
    y = y if issparse(y) else np.asarray(y)
    n_columns = 1 if y.ndim < 2 else y.shape[1]
    if is_regressor(estimator) or issparse(y):
        return 8 * n_columns
    columns = y.reshape(len(y), n_columns).T
    n_scores = sum(len(set(column.tolist())) for column in columns)
    return n_scores * (hidden_dtype(X.dtype).itemsize if hasattr(X, "dtype") else 8)


def share_memory(network, n):
    """Let `n` networks that work at the same time have the `max_memory` of one."""
    if n > 1 and network.max_memory is not None:
        network.max_memory = max(1, parse_memory(network.max_memory, 0) // n)
