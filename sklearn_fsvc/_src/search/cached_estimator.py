"""An estimator for GridSearchCV that looks up fits and scores which were computed together.

GridSearchCV still does all of its work: splits, scorers, errors, ranks, refit, routing of
metadata, printing. But its X are row numbers, and its parameters are those of a candidate and
the number of the candidate. `CachedEstimator` looks up the network of a candidate and a training
set in a `FitCache`, and the decision values of a set of rows.
"""

from collections.abc import Iterable
from functools import update_wrapper
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.metrics._scorer import _Scorer
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import available_if

from ..data.memory_plan import count_fitting, host_memory_limit, parse_memory
from ..data.sources import ArraySource, Source, select_rows
from ..layers import hidden_dtype
from ..parts.composition import parts_of
from ..utils.callbacks import CallbackMixin, propagate_callbacks, with_callbacks
from ..utils.user_warnings import warn
from .networks import CandidateGroup, GroupFit, hash_rows, is_network, overrides_methods
from .shared_fits import score_again
from .wrappers import last_step, untransform_predictions

Rows = npt.NDArray[np.intp]

# Ill-conditioned candidates that a warning lists.
_LISTED = 5
# The share of the memory limit for decision values that GridSearchCV has not looked up yet.
_SCORES_SHARE = 1 / 4


class FitCache:
    """The arguments of a search's `fit`, and the fits and scores of its candidates.

    Attributes
    ----------
    splits : list of (ndarray, ndarray)
        Training and test rows; empty until GridSearchCV calls the splitter.
    fits : dict
        (candidate, hash of the training rows) -> GroupFit.
    errors : dict
        Candidate -> the error of the shared pass that should have fitted it.
    fitted_alone : set
        The candidates that were fitted alone.
    source : array-like or Source
        X for networks: its subsets are not copied if possible.
    n_jobs : int
        Passes that run at the same time.
    """

    def __init__(
        self,
        X: Any,
        estimator: Any,
        candidates: list[dict[str, Any]],
        y: Any = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.X, self.estimator, self.candidates = X, estimator, candidates
        self.y, self.params = y, params
        self.splits: list[tuple[Rows, Rows]] = []
        self.fits: dict[tuple[int | None, bytes], GroupFit] = {}
        self.errors: dict[int, Exception] = {}
        self.fitted_alone: set[int | None] = set()
        self.source = _lazy_source(X, estimator)
        self.n_jobs = 1

    def __deepcopy__(self, memo: Any) -> "FitCache":
        # scikit-learn copies the estimator for each fit, and scikit-learn 1.8 the whole search
        # for its routing. All copies share one cache, and one X.
        return self

    def add(self, fitted: GroupFit) -> None:
        """Add the networks of a group on one split."""
        key = hash_rows(self.splits[fitted.split][0])
        self.fits.update(((candidate, key), fitted) for candidate in fitted.networks)

    def replace_scores(self, part: range) -> None:
        """Replace all decision values by those of a range of the candidates."""
        distinct = {id(fitted): fitted for fitted in self.fits.values()}
        for fitted in distinct.values():
            fitted.scores.clear()  # all are freed before the first new ones are computed
        for fitted in distinct.values():
            self.add(score_again(fitted, part))

    def rows(self, numbers: Rows) -> Any:
        """Return rows for a network."""
        return select_rows(self.source, numbers)

    def copied_rows(self, numbers: Rows) -> Any:
        """Return rows for a scorer of the user, of the type of X."""
        return select_rows(self.X, numbers)

    def summary(self, groups: list[CandidateGroup], n_passes: int) -> str:
        """Return the plan of the search as a line of text."""
        n_candidates, n_shared = len(self.candidates), sum(len(group.members) for group in groups)
        return (
            f"[HiddenSizeSearchCV] {n_candidates} candidates on {len(self.splits)} splits: "
            f"{n_shared} of them in {n_passes} passes, {n_candidates - n_shared} fitted one by one"
        )

    def warn(self) -> None:
        """Warn of ill-conditioned candidates, and of candidates that could not share a pass."""
        numbers = {number for fitted in self.fits.values() for number in fitted.problems}
        problems = [str(self.candidates[number]) for number in sorted(numbers)]
        if problems:
            listed = "; ".join(problems[:_LISTED])
            more = f"; and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
            warn(
                f"{len(problems)} of {len(self.candidates)} candidates are ill-conditioned, and "
                f"directions were left out of their ridge readouts: {listed}{more}. Raise alpha, "
                "or use fewer or narrower units.",
                ConvergenceWarning,
            )
        errors = [error for number, error in self.errors.items() if number in self.fitted_alone]
        if errors:
            warn(
                f"{len(self.errors)} candidates could not share their work and were fitted one by "
                f"one, because of {type(errors[0]).__name__}: {errors[0]}"
            )

    def with_shared_times(self, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the results of the first candidates with their share of the time of passes."""
        fits = product(range(len(results) // len(self.splits)), self.splits)
        timed = []
        for result, (candidate, (train, _)) in zip(results, fits, strict=True):
            share = self.fits.get((candidate, hash_rows(train)), GroupFit())
            fit_time = result["fit_time"] + share.fit_time
            score_time = result["score_time"] + share.score_time
            timed.append({**result, "fit_time": fit_time, "score_time": score_time})
        return timed


def _lazy_source(X: Any, estimator: Any) -> Any:
    """Return X as a source whose subsets are not copied, if it is an array or a numerical table.

    X itself if other estimators receive it, such as the steps of a pipeline or a subclass.
    """
    is_alone = last_step(estimator) is estimator
    if not (is_alone and is_network(estimator)) or overrides_methods(estimator):
        return X
    array, names = X, None
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):
        array, names = np.asarray(X), X.iloc[:0]
    is_array = isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind in "biuf"
    return ArraySource(array, names=names) if is_array else X


def _has(method: str) -> Any:
    return available_if(lambda candidate: hasattr(candidate.estimator_, method))


class CachedEstimator(CallbackMixin, BaseEstimator):
    """A candidate whose fit and predictions are looked up; its X are row numbers.

    It is fitted by itself if it is not in the cache. Without a number it is the best candidate,
    which is fitted to all samples.

    Attributes
    ----------
    estimator_ : estimator
        As `fit` of the user's estimator would have left it.
    """

    def __init__(self, cache: FitCache) -> None:
        self.cache = cache

    def __repr__(self) -> str:
        return repr(self.cache.estimator)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.cache.estimator)

    def get_metadata_routing(self) -> Any:
        return get_routing_for_object(self.cache.estimator)

    def set_params(self, *, candidate: int | None = None, **parameters: Any) -> "CachedEstimator":
        self.number: Any = candidate
        self.parameters = parameters
        return self

    @with_callbacks
    def fit(self, rows: Rows, y: Any, **fit_params: Any) -> "CachedEstimator":
        self.fit_ = self.cache.fits.get((self.number, hash_rows(rows)))
        if self.fit_ is None:
            self.estimator_ = self._fit_alone(rows, y, fit_params)
        else:
            task = self._begin_fit(rows, y, None)
            self.estimator_ = self.fit_.estimator(self.number)
            task.end()
        return self

    def _fit_alone(self, rows: Rows, y: Any, fit_params: dict[str, Any]) -> Any:
        is_best = self.number is None
        X = self.cache.X if is_best else self.cache.rows(rows)
        estimator = clone(self.cache.estimator).set_params(**self.parameters)
        if not is_best:
            divide_memory(last_step(estimator), self.cache.n_jobs)
        with propagate_callbacks(getattr(self, "_parent_callback_ctx", None), estimator):
            estimator = estimator.fit(X, y, **fit_params)
        self.cache.fitted_alone.add(self.number)
        return estimator

    def _init_callback_context(self, **options: Any) -> Any:
        """Return the context with the name of the user's estimator."""
        context = super()._init_callback_context(**options, task_name="look-up")
        context.estimator_name = type(self.cache.estimator).__name__
        return context

    @property
    def classes_(self) -> Any:
        return self.estimator_.classes_

    @property
    def feature_names_in_(self) -> Any:
        return self.estimator_.feature_names_in_

    @_has("decision_function")
    def decision_function(self, rows: Rows) -> Any:
        return self._predict("decision_function", rows)

    def predict(self, rows: Rows) -> Any:
        return self._predict("predict", rows)

    @_has("predict_proba")
    def predict_proba(self, rows: Rows) -> Any:
        return self._predict("predict_proba", rows)

    @_has("predict_log_proba")
    def predict_log_proba(self, rows: Rows) -> Any:
        return self._predict("predict_log_proba", rows)

    def score(self, rows: Rows, y: Any, sample_weight: Any = None, **params: Any) -> float:
        if self._cached_scores(rows) is None or params:
            weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
            return self.estimator_.score(self.cache.rows(rows), y, **weighted, **params)
        return parts_of(last_step(self.estimator_)).target.score(
            self.predict(rows), y, sample_weight
        )

    def _cached_scores(self, rows: Rows) -> npt.NDArray[Any] | None:
        """Return the decision values of the network for some rows, None if not in the cache."""
        if self.fit_ is None:
            return None
        return self.fit_.scores.get((self.number, hash_rows(rows)))

    def _predict(self, method: str, rows: Rows) -> Any:
        scores = self._cached_scores(rows)
        if scores is None:
            return getattr(self.estimator_, method)(self.cache.rows(rows))
        parts = parts_of(last_step(self.estimator_))
        return untransform_predictions(
            self.estimator_, parts.target.format_output(method, scores, parts.readout)
        )


class _UserObject:
    """A scorer or splitter of the user, which receives samples instead of row numbers."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def __repr__(self) -> str:
        return repr(self.original)

    def get_metadata_routing(self) -> Any:
        return get_routing_for_object(self.original)


class UserScorer(_UserObject):
    """A scorer that the user has written: it receives the fitted estimator, too."""

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        update_wrapper(self, original, updated=())  # scikit-learn inspects its signature

    def __call__(self, candidate: CachedEstimator, rows: Rows, *args: Any, **params: Any) -> Any:
        X = candidate.cache.copied_rows(rows)
        return self.original(candidate.estimator_, X, *args, **params)


class UserSplitter(_UserObject):
    """The splitter of the user, which is called once: GridSearchCV calls it for each part."""

    def __init__(self, original: Any, cache: FitCache) -> None:
        super().__init__(original)
        self.cache = cache

    def get_n_splits(self, rows: Any = None, y: Any = None, **params: Any) -> int:
        return len(self.split(rows, y, **params))

    def split(self, rows: Any, y: Any = None, **params: Any) -> list[tuple[Rows, Rows]]:
        if not self.cache.splits:
            X = self.cache.X
            # Splitters of a source depend on the number of samples only.
            X = rows if isinstance(X, Source) else X
            splits = self.original.split(X, y, **params)
            self.cache.splits = [(rows[train], rows[test]) for train, test in splits]
        return self.cache.splits


def wrap_scoring(scoring: Any) -> Any:
    """Return `scoring` for a search whose X are row numbers.

    Scorers of scikit-learn pass X to an estimator and use only its predictions; functions of the
    user are wrapped.
    """
    if isinstance(scoring, dict):
        return {name: wrap_scoring(scorer) for name, scorer in scoring.items()}
    is_users = callable(scoring) and not isinstance(scoring, _Scorer)
    return UserScorer(scoring) if is_users else scoring


def unwrap_scorer(scorer: Any, estimator: Any) -> Any:
    """Return a scorer of the search with row numbers as one for the user's estimator."""
    if isinstance(scorer, dict):
        return {name: unwrap_scorer(s, estimator) for name, s in scorer.items()}
    if isinstance(scorer, UserScorer):
        return scorer.original
    return scorer if isinstance(scorer, _Scorer) else check_scoring(estimator)


def plan_score_ranges(cache: FitCache, y: Any, with_train: bool) -> tuple[list[range], int]:
    """Return ranges of the candidates, and the bytes of the decision values of a range.

    Decision values stay in memory until GridSearchCV looks them up: one for each scored
    sample, output and candidate. If those of all candidates exceed a quarter of the limit,
    the candidates are scored and looked up range by range.
    """
    estimator, n_candidates = cache.estimator, len(cache.candidates)
    n_samples = sum(len(test) + with_train * len(train) for train, test in cache.splits)
    candidate_bytes = max(1, n_samples * _score_bytes(estimator, cache.source, y))
    limit = _SCORES_SHARE * host_memory_limit(last_step(estimator).max_memory)
    n = max(1, count_fitting(limit, candidate_bytes, maximum=n_candidates))
    parts = [range(i, min(i + n, n_candidates)) for i in range(0, n_candidates, n)]
    return parts or [range(0)], n * candidate_bytes


def _score_bytes(estimator: Any, X: Any, y: Any) -> int:
    """Return an upper bound of the bytes of the decision values of a sample."""
    y = y if issparse(y) else np.asarray(y)
    n_outputs = 1 if y.ndim < 2 else y.shape[1]
    if is_regressor(estimator) or issparse(y):
        return 8 * n_outputs
    outputs: Iterable[Any] = y.reshape(len(y), n_outputs).T
    n_scores = sum(len(set(output.tolist())) for output in outputs)
    return n_scores * (hidden_dtype(X.dtype).itemsize if hasattr(X, "dtype") else 8)


def divide_memory(network: Any, n: int) -> None:
    """Divide the `max_memory` of a network by the number of those that work at the same time."""
    if n > 1 and network.max_memory is not None:
        network.max_memory = max(1, parse_memory(network.max_memory, 0) // n)
