"""HiddenSizeSearchCV: GridSearchCV for networks that share most of their work.

The modules of this folder, in the order in which a search uses them:

- `networks` groups the candidates that can share passes.
- `shared_fits` makes the passes over the samples, one for each split or one for all of them;
  `networks` makes the networks and scores of a group from their statistics.
- `wrappers` fits the steps of pipelines and transformed targets around the network.
- `cached_estimator` caches the fits and scores, and is the estimator that GridSearchCV searches.

GridSearchCV does all the rest, on row numbers instead of samples.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from itertools import count
from time import perf_counter
from typing import Any

import numpy as np
from joblib import effective_n_jobs, parallel_config
from sklearn import get_config  # type: ignore[attr-defined]
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer
from sklearn.metrics._scorer import _Scorer
from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv
from sklearn.utils import indexable
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from ..data.columns import as_data_frame, explain_unsupported_container
from ..data.dask_blocks import open_input
from ..data.job import print_line
from ..data.sources import Source
from ..data.validation import to_host
from ..estimators.network import Network
from ..estimators.state import EstimatorMixin, atomic_update
from ..parts.composition import parts_of
from ..stacking.ensemble import StackedEnsemble
from ..utils.callbacks import NO_CALLBACKS, CallbackMixin, FitTask
from ..utils.user_warnings import warn
from .cached_estimator import (
    CachedEstimator,
    FitCache,
    UserSplitter,
    plan_score_ranges,
    unwrap_scorer,
    wrap_scoring,
)
from .networks import CandidateGroup, group_candidates, is_network
from .shared_fits import SearchPlan, fit_split, fit_splits
from .wrappers import last_step, parameter_prefix

# The values of `n_hidden` if no grid is given.
DEFAULT_SIZES = (25, 50, 100, 200, 500, 1000, 2000)


class HiddenSizeSearchCV(EstimatorMixin, CallbackMixin, GridSearchCV):
    """GridSearchCV for the networks of this package, whose candidates share work.

    Its results are those of `GridSearchCV`, up to rounding, without repeated work: the statistics
    of the largest network contain those of every smaller one, those of the training samples are
    those of all samples minus those of the test samples, every penalty uses the same normal
    equations, and every kernel and radius the same distances to the centres.
    Scores, ranks and the rest of `cv_results_` come from scikit-learn itself.

    Parameters
    ----------
    estimator : classifier or regressor of this package, Pipeline or TransformedTargetRegressor
        A Pipeline or TransformedTargetRegressor must end in one of them. All of them can be
        searched; work is shared if the readout is "ridge", `alpha` a number or "auto", and neither
        `uncertainty` nor `layer` is used.
    param_grid : dict, list of dict or None, default=None
        Lists of values by the name of the parameter, as for `GridSearchCV`. Values of
        `alpha` share a pass, and those of `n_hidden`, `radius` and `kernel` may (see Notes); each
        combination of other parameters needs separate passes. None searches `n_hidden` among
        25, 50, 100, 200, 500, 1000 and 2000; for RBF units, whose centres are training
        samples, up to half the number of samples, the size of a training set with ``cv=2``, and
        None, their default.
    scoring : str, callable, list, tuple or dict, default=None
        How test samples are scored: a name or a scorer of scikit-learn, or several of them.
        None is `score` of the estimator. A custom function is called with the fitted estimator
        and the test samples, and computes its own predictions; scorers of
        scikit-learn use predictions that were computed in the passes.
    n_jobs : int, default=None
        Passes that run at the same time, in threads. A single pass uses all cores already.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate to all samples; with several scores, the name of the one
        that decides, or a function of `cv_results_` that returns the index of the best.
    cv : int, splitter or iterable, default=None
        How samples are split: a number of folds, a splitter of scikit-learn, or pairs of arrays
        of training and test indices. None is 5 folds.
    verbose : int, default=0
        1 prints the plan, the progress of long passes and the best candidate; more prints each
        candidate.
    pre_dispatch : int or str, default="2*n_jobs"
        Has no effect on the passes over the samples.
    error_score : "raise" or number, default=nan
        The score of a candidate whose fit fails; "raise" raises its error.
    return_train_score : bool, default=False
        Whether `cv_results_` has the scores of the training samples, too.

    Attributes
    ----------
    cv_results_ : dict
        As in `GridSearchCV`. The time of a pass is divided equally between its candidates: fit
        and score times add up to the time of the search.
    best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, refit_time_
        These and all others as in `GridSearchCV`.

    Raises
    ------
    TypeError
        If the estimator is not a single classifier or regressor of this package: an ensemble, a
        transformer or another estimator. The message describes how to search it with
        `GridSearchCV`.

    Warns
    -----
    ConvergenceWarning
        Lists the candidates whose readouts were ill-conditioned.

    See Also
    --------
    sklearn.model_selection.GridSearchCV : The same for any estimator, with a fit per candidate.
    sklearn_fsvc.inspection.HiddenSizeDisplay : Plots the scores.

    Notes
    -----
    One pass over all samples is sufficient for all splits if the hidden layer is the same on each
    of them: tanh units with a number for `scale` and only numbers for `alpha`, without a pipeline
    or a transformed target, without ``class_weight="balanced"``, and with a splitter that holds out
    each sample about once, such as `KFold`. Each training set must contain all classes, or a target
    that varies, and no copies of samples, which `fit` merges. Otherwise each split needs a separate
    pass; steps before the network are fitted once per split.

    Smaller networks are prefixes of larger ones for tanh units, for random centres, for random
    patches except with ``kernel="below_mean"``, and with a number for `selection_radius`. If the
    selection radius is searched for each size, each size has different centres and separate
    passes.

    Radii share a pass if they are numbers, `kernel` is not "auto", and the radius does not
    select the centres; kernels do if, in addition, ``selection="random"``, since novelty depends
    on the kernel. "auto" for `kernel` or `radius` is searched once for all penalties and all sizes
    from 800 on, and in a separate pass for each smaller size and each other combination. Learned
    `feature_weights` are learned once per pass.

    With ``alpha="auto"`` the pass of a split also accumulates separate statistics of held-out
    samples, which doubles the memory. Numbers in the same grid use the statistics of all samples.

    Networks with ``random_state=None`` use the same random numbers for all candidates.

    Callbacks of scikit-learn 1.9 are notified of the tasks of `GridSearchCV`, where "search" has
    two parts: "passes", with each pass over the samples and its tiles, and "candidates", which are
    looked up afterwards. They are not notified of the steps of a pipeline within a pass.

    `max_memory` limits the whole search: concurrent passes share it, training sets are not
    copied (except by a pipeline), and a quarter of it is reserved for decision values, of at
    most 8 bytes for each test sample, class or output, and candidate. If those of all candidates
    exceed it, candidates are scored in several parts, with one pass over the test samples for each.
    The readouts of all candidates and scikit-learn's row indices are not counted.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> grid = {"n_hidden": range(50, 201, 50), "alpha": [0.1, 1.0, 10.0]}
    >>> network = TanhClassifier(feature_weights=None, random_state=0)
    >>> search = HiddenSizeSearchCV(network, grid, cv=3).fit(X[:400], y[:400])
    >>> bool(search.best_score_ > 0.9)
    True
    >>> search.cv_results_["mean_test_score"].shape
    (12,)
    >>> search = HiddenSizeSearchCV(network.set_params(alpha=1.0), cv=2).fit(X[:200], y[:200])
    >>> [int(n) for n in search.cv_results_["param_n_hidden"]]  # default sizes
    [25, 50, 100, 200, 500, 1000, 2000]
    """

    __module__ = "sklearn_fsvc"  # pickles do not depend on the file

    def __init__(
        self, estimator, param_grid=None, *, scoring=None, n_jobs=None, refit=True, cv=None,
        verbose=0, pre_dispatch="2*n_jobs", error_score=np.nan, return_train_score=False,
    ):  # fmt: skip
        super().__init__(
            estimator, param_grid, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv,
            verbose=verbose, pre_dispatch=pre_dispatch, error_score=error_score,
            return_train_score=return_train_score,
        )  # fmt: skip

    def fit(self, X: Any, y: Any = None, **params: Any) -> "HiddenSizeSearchCV":
        """Score all candidates, and fit the best of them to all samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            A source is read in order: use a splitter that keeps the order, such as KFold. Sparse
            matrices are supported by tanh units.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
            As in `RBFClassifier.fit`.
        **params : dict
            `sample_weight`, `groups` and other metadata, as for `GridSearchCV`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For invalid input or parameters. The search is unchanged after an error or an
            interrupt.
        """
        atomic_update(self, lambda search: search._fit(X, y, params))
        return self

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> None:
        start = perf_counter()
        check_network(self.estimator)
        X, y, params = self._open(X, y, params)
        grid = self.param_grid
        if grid is None:
            grid = default_grid(self.estimator, _num_samples(X))
        candidates = list(ParameterGrid(grid))
        check_scorers(self.scoring, self.estimator, candidates, y)
        cache = FitCache(X, self.estimator, candidates, y, params)
        for name in _fitted_attributes(self):  # an earlier fit may have set more of them
            delattr(self, name)
        inner = copy(self)
        inner.param_grid = grid
        inner._cache, cache.n_jobs = cache, effective_n_jobs(self.n_jobs)
        inner.estimator = CachedEstimator(cache)
        inner.cv = UserSplitter(
            check_cv(self.cv, y, classifier=is_classifier(self.estimator)), cache
        )
        inner.scoring = wrap_scoring(self.scoring)
        with parallel_config("threading"):
            GridSearchCV.fit(inner, np.arange(_num_samples(X)), y, **params)
        self._adopt(inner)
        cache.warn()
        if self.verbose and hasattr(self, "best_params_"):
            best = ", ".join(f"{name}={value!r}" for name, value in self.best_params_.items())
            print_line(
                "HiddenSizeSearchCV",
                f"best: {best}, with score {self.best_score_:.4g}; {perf_counter() - start:.2g} s",
            )

    def _open(self, X: Any, y: Any, params: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """Return X, as a `Source` if it is one, y, and the parameters of fit."""
        network, X = last_step(self.estimator), as_data_frame(X)
        if (explanation := explain_unsupported_container(X)) is not None:
            raise TypeError(explanation)
        weight = params.get("sample_weight")
        X, y, weight = open_input(X, network.device, network.max_memory, y, weight)
        if y is None:
            raise ValueError(f"y=None, and {type(network).__name__} requires y; call fit(X, y).")
        if not isinstance(X, Source):
            return *indexable(X, y), params
        if network is not self.estimator:
            raise ValueError(
                "X is a source, and the steps around the network need all samples in memory; "
                "search the network alone, or pass X as an array."
            )
        return X, y, params if weight is None else params | {"sample_weight": weight}

    # GridSearchCV.fit calls `_run_search` and `_format_results` of the copy that `_fit` makes.

    def _run_search(
        self, evaluate_candidates: Callable[..., Any], *, callback_ctx: Any = None
    ) -> None:
        """Fit and score all candidates, and have them looked up with their numbers."""
        cache, n_splits = self._cache, len(self._cache.splits)
        _warn_of_separate_fits(cache)
        parts, cached_bytes = plan_score_ranges(cache, cache.y, self.return_train_score)
        search = FitTask(self, callback_ctx) if hasattr(self, "_skl_callbacks") else NO_CALLBACKS
        search = search.subtask("search", 1 + len(parts), in_order=False).begin()
        self._fit_groups(search, parts[0], cached_bytes)
        for number, part in enumerate(parts, 1):
            if number > 1:
                cache.replace_scores(part)
            look_up = search.subtask("candidates", len(part) * n_splits, number, in_order=False)
            fit_task = {} if look_up.context is None else {"callback_ctx": look_up.context}
            look_up.begin()
            candidates = [{**cache.candidates[i], "candidate": i} for i in part]
            evaluate_candidates(candidates, **fit_task)
            look_up.end()
        search.end()

    def _format_results(
        self, candidate_params: Any, n_splits: int, out: Any, more_results: Any = None
    ) -> Any:
        """Return `cv_results_` with the user's parameters and the time of the passes."""
        candidates = self._cache.candidates[: len(candidate_params)]  # of all parts so far
        out = self._cache.with_shared_times(out)
        return super()._format_results(candidates, n_splits, out, more_results)

    def _fit_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of fit that are passed to the estimator."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", **params).estimator.fit
        return {name: value for name, value in params.items() if name != "groups"}

    def _fit_groups(self, search: FitTask, part: range, cached_bytes: int) -> None:
        """Fit all groups, each on all splits in one pass, or else in a pass for each split.

        The candidates of `part` are scored. An error of a pass is kept: its candidates are
        fitted one by one later.
        """
        cache = self._cache
        groups = group_candidates(cache.estimator, cache.candidates)
        n_splits = len(cache.splits)
        passes = search.subtask("passes", len(groups) * n_splits, number=0, in_order=False).begin()
        plan = SearchPlan(
            X=cache.source, y=cache.y, fit_params=self._fit_params(cache.params),
            splits=cache.splits, return_train_score=self.return_train_score,
            verbose=self.verbose, passes=passes, part=part, cached_bytes=cached_bytes,
            needs_probabilities=may_call_predict_proba(self.scoring),
        )  # fmt: skip
        separate, n_passes = [], 0
        for first, group in zip(count(step=n_splits), groups, strict=False):
            fits, _ = _attempt(fit_splits, group, plan, first)
            if fits is None:
                separate += [(group, split, first + split) for split in range(n_splits)]
            else:
                n_passes += 1
                for fitted in fits:
                    cache.add(fitted)
        if self.verbose:
            print(cache.summary(groups, n_passes + len(separate)))
        self._fit_passes(plan, separate)
        passes.end()

    def _fit_passes(
        self, plan: SearchPlan, separate: list[tuple[CandidateGroup, int, int]]
    ) -> None:
        """Fit groups on one split each: (group, split, number of the pass)."""
        cache = self._cache
        plan = replace(plan, n_jobs=min(cache.n_jobs, max(1, len(separate))))
        results = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(_attempt)(fit_split, group, plan, split, number)
            for group, split, number in separate
        )
        for (group, *_), (fitted, error) in zip(separate, results, strict=True):
            if error is None:
                cache.add(fitted)
            else:
                cache.errors.update(dict.fromkeys(group.members, error))

    def _adopt(self, inner: Any) -> None:
        """Copy the fitted attributes of the inner search, with the user's scorers and estimator."""
        for name in _fitted_attributes(inner):
            setattr(self, name, getattr(inner, name))
        self.scorer_ = unwrap_scorer(inner.scorer_, self.estimator)
        if self.refit:
            self.best_estimator_ = inner.best_estimator_.estimator_


def _warn_of_separate_fits(cache: FitCache) -> None:
    """Warn, before the search begins, of the time of softmax readouts, which share no work."""
    base, n_splits = cache.estimator, len(cache.splits)
    estimators = (clone(base).set_params(**clone(p, safe=False)) for p in cache.candidates)
    n = sum(getattr(last_step(e), "readout", None) == "softmax" for e in estimators)
    if n:
        warn(
            f'readout="softmax" shares no work: {n} candidates on {n_splits} splits are '
            f"{n * n_splits} fits, of 10 passes or more over the samples each. To save time, "
            'search with readout="ridge", and fit the best candidate with "softmax".'
        )


def _fitted_attributes(search: Any) -> list[str]:
    return [name for name in vars(search) if name.endswith("_") and name[0] != "_"]


def _attempt(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Exception | None]:
    """Return (the result, None), or (None, the error)."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error.with_traceback(None)  # its frames hold all arrays of the pass


# The estimator and its default grid.


def check_network(estimator: Any) -> None:
    """Raise TypeError, with the remedy, unless the estimator ends in one network of the package."""
    last = last_step(estimator)
    if is_network(last):
        return
    what = f"estimator={last!r}" if last is estimator else f"estimator ends in {last!r}, which"
    if isinstance(last, type):
        raise TypeError(f"{what} is a class; pass an estimator: {last.__name__}().")
    if isinstance(last, StackedEnsemble):
        base = last.default_estimators()[0][1]
        raise TypeError(
            f"{what} is an ensemble, and the work that is shared is that of a single network. "
            f"Search one of its networks, such as {type(base).__name__}(), and pass the best one "
            "in `estimators`; or search the ensemble with scikit-learn's GridSearchCV, where "
            f"'{parameter_prefix(estimator)}NAME__n_hidden' is the size of the network NAME of "
            "given `estimators`."
        )
    if isinstance(last, Network):
        name = type(last).__name__
        raise TypeError(
            f"{what} is a transformer, and predicts nothing to be scored. Put it before a "
            "classifier or regressor, and search both with scikit-learn's GridSearchCV: "
            f"make_pipeline({name}(), ...) with '{name.lower()}__n_components'."
        )
    raise TypeError(
        f"{what} is not a classifier or regressor of this package, nor a Pipeline or "
        "TransformedTargetRegressor that ends in one; use scikit-learn's GridSearchCV."
    )


def default_grid(estimator: Any, n_samples: int) -> dict[str, list[int | None]]:
    """Return the grid of hidden sizes that is searched without a `param_grid`."""
    network, prefix = last_step(estimator), parameter_prefix(estimator)
    if getattr(network, "layer", None) is not None:
        raise ValueError(
            "param_grid=None searches n_hidden, and layer is given: a "
            f"{type(network.layer).__name__} with its own units. Give a grid of other parameters, "
            "such as "
            f'{{"{prefix}alpha": [0.1, 1, 10]}}.'
        )
    sizes: list[int | None] = list(DEFAULT_SIZES)
    if parts_of(network).units.has_sample_centers:
        limit = n_samples // 2
        # The default of n_hidden is more than half of the samples, up to 1000 all of them.
        sizes = [*([size for size in DEFAULT_SIZES if size <= limit] or [max(1, limit)]), None]
    return {f"{prefix}n_hidden": sizes}


# Scorers: whether any candidate has the methods that they call.


def check_scorers(scoring: Any, estimator: Any, candidates: list[dict[str, Any]], y: Any) -> None:
    """Raise ValueError if no candidate has the method that a scorer calls, or for a wrong y.

    Otherwise every fit would succeed, print the traceback of its scorer, and have the score NaN.
    """
    scorers = _scorers_in(scoring)
    if "roc_auc" in [scorer for scorer in scorers if isinstance(scorer, str)]:
        _check_two_classes(y)
    required = [(scorer, methods) for scorer in scorers if (methods := _methods_of(scorer))]
    if not required:
        return
    fits = [clone(estimator).set_params(**clone(p, safe=False)) for p in candidates]
    for scorer, methods in required:
        if fits and not any(hasattr(fit, method) for fit in fits for method in methods):
            reason = _reason_for_missing(last_step(fits[0]), methods[-1])
            raise ValueError(f"scoring={scorer!r} needs {' or '.join(methods)}, and {reason}")


def may_call_predict_proba(scoring: Any) -> bool:
    """Return whether some scorer calls predict_proba, or is a function that may call it."""
    for scorer in _scorers_in(scoring):
        is_users = callable(scorer) and not isinstance(scorer, _Scorer)
        if is_users or {"predict_proba", "predict_log_proba"} & set(_methods_of(scorer)):
            return True
    return False


def _check_two_classes(y: Any) -> None:
    is_array = y is not None and not isinstance(y, str)
    if is_array and type_of_target(to_host(y)) == "multiclass":
        raise ValueError("scoring='roc_auc' is for two classes, and y has more; use 'roc_auc_ovr'.")


def _scorers_in(scoring: Any) -> list[Any]:
    if isinstance(scoring, dict):
        return list(scoring.values())
    return list(scoring) if isinstance(scoring, (list, tuple, set)) else [scoring]


def _methods_of(scorer: Any) -> tuple[str, ...]:
    """Return the methods of which the scorer calls one; () if unknown."""
    try:
        scorer = get_scorer(scorer) if isinstance(scorer, str) else scorer
    except ValueError:
        return ()  # not a name of scikit-learn, which raises the error later
    methods = scorer._response_method if isinstance(scorer, _Scorer) else ()
    return (methods,) if isinstance(methods, str) else tuple(methods)


def _reason_for_missing(network: Any, method: str) -> str | None:
    try:
        getattr(network, method)
    except AttributeError as error:
        return str(error)
    return None  # the network has it, but not the estimator around it
