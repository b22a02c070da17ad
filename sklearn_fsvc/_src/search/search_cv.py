"""HiddenSizeSearchCV: GridSearchCV over networks that share most of their work.

`groups` finds candidates that differ only in what one pass over the rows can serve;
`shared` makes the passes, for each split or for all of them; `networks` turns their
statistics into networks and scores, behind what stands `around` them; `look_up` gives those
to GridSearchCV, in parts for which there is `room` in memory, and it does the rest.
"""

from copy import copy
from dataclasses import replace
from itertools import count

import numpy as np
from joblib import effective_n_jobs, parallel_config
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer
from sklearn.metrics._scorer import _Scorer
from sklearn.model_selection import GridSearchCV, ParameterGrid, check_cv
from sklearn.utils import indexable
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from ..data.dask_blocks import open_all
from ..data.sources import Source
from ..data.validation import to_host
from ..estimators.state import Documented, Versioned, atomic_update
from ..utils.callbacks import NO_CALLBACKS, FitTask, Observable
from ..utils.user_warnings import warn
from .cached_estimator import (
    CachedEstimator,
    SharedFits,
    UserSplitter,
    in_parts,
    scorer_for,
    scoring_of,
)
from .networks import group_candidates, is_network
from .shared_fits import SearchPlan, fit_split, fit_splits
from .wrappers import last_step


class HiddenSizeSearchCV(Documented, Versioned, Observable, GridSearchCV):
    """GridSearchCV for the networks of this package, at the cost of a few fits.

    It finds what `GridSearchCV` finds, to rounding, and does not repeat work: the statistics
    of the largest network contain those of every smaller one, those of the training rows are
    those of all rows less those of the test rows, every penalty solves the same equations, and
    the distances between rows and centres serve every kernel and radius.
    Scores, ranks and the rest of `cv_results_` come from scikit-learn itself.

    Parameters
    ----------
    estimator : classifier or regressor of this package, Pipeline or TransformedTargetRegressor
        A Pipeline or TransformedTargetRegressor ends in one of them. All of them can be
        searched; work is shared with the ridge readout, with a number or "auto" for `alpha`, and
        without `uncertainty` and `layer`.
    param_grid : dict or list of dict
        Lists of values by the name of the parameter, as for `GridSearchCV`. Values of
        `alpha` share a pass, and so may those of `n_hidden`, `radius` and `kernel` (see
        Notes); each combination of the others takes passes of its own.
    scoring : str, callable, list, tuple or dict, default=None
        How test rows are scored: a name of scikit-learn's, a scorer, or several of them.
        None is `score` of the estimator. A scorer of your own is called with the test rows and
        the fitted estimator, and each of its predictions takes time; scorers of scikit-learn
        use predictions that have been made already.
    n_jobs : int, default=None
        Passes that run at the same time, in threads. Each single pass uses all cores already.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate to all rows; of several scores, by which of them it
        is the best, or a function of `cv_results_` that gives its index.
    cv : int, splitter or iterable, default=None
        How rows are split: a number of folds, a splitter of scikit-learn, or pairs of
        training and test rows. None is 5 folds.
    verbose : int, default=0
        1 prints the plan and the progress of each pass, more prints each candidate.
    pre_dispatch : int or str, default="2*n_jobs"
        Has no effect on what is shared.
    error_score : "raise" or number, default=nan
        The score of a candidate whose fit fails; "raise" raises its error.
    return_train_score : bool, default=False
        Whether `cv_results_` has the scores of the training rows, too.

    Attributes
    ----------
    cv_results_ : dict
        As of `GridSearchCV`. The fit and score times are equal shares of the time that
        candidates took together: they add up to the time of the search.
    best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, refit_time_
        And all others, as of `GridSearchCV`.

    Raises
    ------
    TypeError
        For another estimator, which `GridSearchCV` can search.

    Warns
    -----
    ConvergenceWarning
        Names the candidates whose readouts were ill-conditioned.

    See Also
    --------
    sklearn.model_selection.GridSearchCV : The same for any estimator, a fit for each candidate.
    sklearn_fsvc.inspection.HiddenSizeDisplay : Draws the scores.

    Notes
    -----
    One pass over all rows serves all splits where the hidden layer is the same on each of
    them: tanh units with a number for `scale` and numbers alone for `alpha`, with nothing around
    them (no pipeline, no transformed target), with a splitter that leaves out each row about
    once, such as K folds, and without ``class_weight="balanced"``. Nor may a class be missing
    in some training rows, or y hardly vary there. Otherwise each split has a pass of its own;
    steps before the network are fitted once in each.

    Smaller networks are prefixes of larger ones for tanh units, for random centres, for random
    patches but with ``kernel="below_mean"``, and with a number for `selection_radius`. Where
    the selection radius is searched for each size, each size has centres, and passes, of its
    own.

    Radii share a pass where they are numbers, `kernel` is not "auto", and the radius does not
    select the centres, too; kernels do where, besides, ``selection="random"``, since novelty
    depends on the kernel. "auto" for `kernel` or `radius` is searched once for all penalties
    and all sizes from 800 on, in a pass of its own for each smaller size and for each other
    combination. ``feature_weights`` that are learned are learned once in each pass.

    With ``alpha="auto"`` the pass of a split sums up the rows that are held out once more, by
    themselves: twice the memory. Numbers beside it use the sums of all rows.

    Networks that are drawn with ``random_state=None`` are drawn once for all candidates.

    Callbacks of scikit-learn 1.9 are told of the tasks of `GridSearchCV`, where "search" has
    two parts: "passes", with each pass over the rows and its tiles, and "candidates", which are
    looked up then. They are not told of steps of a pipeline within a pass.

    `max_memory` holds for the search: passes at the same time share it, training rows are not
    copied (but by a pipeline), and a quarter of it is for decision values, of
    8 bytes at most for each test row, class or output, and candidate. Where that does not hold
    those of all candidates, these are looked up in parts, and the test rows are met once for
    each part. Not counted are the readouts of all candidates, and scikit-learn's row numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> grid = {"n_hidden": range(50, 401, 50), "alpha": [0.1, 1.0, 10.0]}
    >>> search = HiddenSizeSearchCV(TanhClassifier(random_state=0), grid).fit(X, y)
    >>> bool(search.best_score_ > 0.94)
    True
    >>> search.cv_results_["mean_test_score"].shape
    (24,)
    """

    __module__ = "sklearn_fsvc"  # for pickles, whatever file it is in

    def fit(self, X, y=None, **params):
        """Score all candidates, and fit the best of them to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or source of rows
            A source is read in its own order: with splitters that keep it, such as KFold. Sparse
            for tanh units.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), or str
            As of `RBFClassifier.fit`.
        **params : dict
            `sample_weight`, `groups` and other metadata, as for `GridSearchCV`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For what cannot be searched; the search is left as it was, also when it is
            interrupted.
        """
        atomic_update(self, lambda search: search._fit(X, y, params))
        return self

    def _fit(self, X, y, params):
        if not is_network(last_step(self.estimator)):
            raise TypeError(
                f"estimator={self.estimator!r} is no classifier or regressor of this package, nor "
                "one in a Pipeline or TransformedTargetRegressor; use scikit-learn's GridSearchCV."
            )
        candidates = list(ParameterGrid(self.param_grid))
        check_scoring(self.scoring, self.estimator, candidates, y)
        X, y, params = self._open(X, y, params)
        findings = SharedFits(X, self.estimator, candidates, y, params)
        for name in _fitted_attributes(self):  # an earlier fit may have left more of them
            delattr(self, name)
        inner = copy(self)
        inner._findings, findings.n_jobs = findings, effective_n_jobs(self.n_jobs)
        inner.estimator = CachedEstimator(findings)
        inner.cv = UserSplitter(
            check_cv(self.cv, y, classifier=is_classifier(self.estimator)), findings
        )
        inner.scoring = scoring_of(self.scoring)
        with parallel_config("threading"):
            GridSearchCV.fit(inner, np.arange(_num_samples(X)), y, **params)
        self._adopt(inner)
        findings.warn()

    def _open(self, X, y, params):
        """X as a `Source` if it is one, y, and the parameters of fit."""
        network = last_step(self.estimator)
        weight = params.get("sample_weight")
        X, y, weight = open_all(X, network.device, network.max_memory, y, weight)
        if not isinstance(X, Source):
            return *indexable(X, y), params
        if network is not self.estimator:
            raise ValueError(
                "X is a source of rows, and what stands around the network would need all of them "
                "in memory; search the network alone, or give X as an array."
            )
        return X, y, params if weight is None else params | {"sample_weight": weight}

    # scikit-learn calls these two, of the copy that `_fit` makes: candidates go in with
    # their numbers, and come out without them, but with their share of the time.

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        findings, n_splits = self._findings, len(self._findings.splits)
        _warn_of_fits(findings)
        parts, kept_bytes = in_parts(findings, findings.y, self.return_train_score)
        search = FitTask(self, callback_ctx) if hasattr(self, "_skl_callbacks") else NO_CALLBACKS
        search = search.part("search", 1 + len(parts), in_order=False).begin()
        self._share(search, parts[0], kept_bytes)
        for number, part in enumerate(parts, 1):
            if number > 1:
                findings.replace_scores(part)
            look_up = search.part("candidates", len(part) * n_splits, number, in_order=False)
            fit_task = {} if look_up.context is None else {"callback_ctx": look_up.context}
            look_up.begin()
            candidates = [{**findings.candidates[i], "candidate": i} for i in part]
            evaluate_candidates(candidates, **fit_task)
            look_up.end()
        search.end()

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        candidates = self._findings.candidates[: len(candidate_params)]  # of all parts so far
        out = self._findings.with_shared_times(out)
        return super()._format_results(candidates, n_splits, out, more_results)

    def _fit_params(self, params):
        """The parameters of fit that go to the estimator."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", **params).estimator.fit
        return {name: value for name, value in params.items() if name != "groups"}

    def _share(self, search, part, kept_bytes):
        """Fit all groups: each on all splits at once, or else on one after the other.

        Some of the candidates are scored at once.
        """
        findings = self._findings
        groups = group_candidates(findings.estimator, findings.candidates)
        n_splits = len(findings.splits)
        passes = search.part("passes", len(groups) * n_splits, number=0, in_order=False).begin()
        task = SearchPlan(
            X=findings.streamed, y=findings.y, fit_params=self._fit_params(findings.params),
            splits=findings.splits, return_train_score=self.return_train_score,
            verbose=self.verbose, passes=passes, part=part, kept_bytes=kept_bytes,
            wants_probabilities=may_want_probabilities(self.scoring),
        )  # fmt: skip
        jobs, n_passes = [], 0
        for first, group in zip(count(step=n_splits), groups, strict=False):
            on_all_splits, _ = _attempt(fit_splits, group, task, first)
            if on_all_splits is None:
                jobs += [(group, split, first + split) for split in range(n_splits)]
            else:
                n_passes += 1
                for fitted in on_all_splits:
                    findings.add(fitted)
        if self.verbose:
            print(findings.summary(groups, n_passes + len(jobs)))
        task = replace(task, n_jobs=min(findings.n_jobs, max(1, len(jobs))))
        found = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(_attempt)(fit_split, group, task, *which) for group, *which in jobs
        )
        for (group, *_), (fitted, error) in zip(jobs, found, strict=True):
            if error is None:
                findings.add(fitted)
            else:
                findings.errors.update(dict.fromkeys(group.members, error))
        passes.end()

    def _adopt(self, inner):
        """The fitted attributes of the copy, with the user's own scorers and estimator."""
        for name in _fitted_attributes(inner):
            setattr(self, name, getattr(inner, name))
        self.scorer_ = scorer_for(inner.scorer_, self.estimator)
        if self.refit:
            self.best_estimator_ = inner.best_estimator_.estimator_


def _warn_of_fits(findings):
    """Say what a search costs whose networks share nothing, before it begins."""
    base, n_splits = findings.estimator, len(findings.splits)
    each = (clone(base).set_params(**clone(p, safe=False)) for p in findings.candidates)
    n = sum(getattr(last_step(one), "readout", None) == "softmax" for one in each)
    if n:
        warn(
            f'readout="softmax" shares no work: {n} candidates on {n_splits} splits are '
            f"{n * n_splits} fits, of about 15 passes over the rows each. To be quick, search with "
            'readout="ridge", and fit the best candidate with "softmax".'
        )


def _fitted_attributes(search):
    return [name for name in vars(search) if name.endswith("_") and name[0] != "_"]


def _attempt(function, *arguments):
    """(what it returns, None), or (None, its error)."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error.with_traceback(None)  # its frames hold all that there was


# Whether candidates have what their scorers ask for, before anything is fitted.


def check_scoring(scoring, estimator, candidates, y):
    """Raise if a scorer of scikit-learn's asks for what no candidate has, or is not for this y.

    No fit could be scored: there would be a traceback for each, and NaN.
    """
    if "roc_auc" in (name for name in _each(scoring) if isinstance(name, str)):
        _check_two_classes(y)
    asked = [(name, _methods_of(name)) for name in _each(scoring)]
    asked = [(name, methods) for name, methods in asked if methods]
    if not asked:
        return
    fits = [clone(estimator).set_params(**clone(each, safe=False)) for each in candidates]
    for name, methods in asked:
        if fits and not any(hasattr(fit, method) for fit in fits for method in methods):
            why = _why_not(last_step(fits[0]), methods[-1])
            raise ValueError(f"scoring={name!r} needs {' or '.join(methods)}, and {why}")


def may_want_probabilities(scoring):
    """Whether some scorer asks for them, or is of the user's own, so that nobody knows."""
    for each in _each(scoring):
        is_own = callable(each) and not isinstance(each, _Scorer)
        if is_own or {"predict_proba", "predict_log_proba"} & set(_methods_of(each)):
            return True
    return False


def _check_two_classes(y):
    is_array = y is not None and not isinstance(y, str)
    if is_array and type_of_target(to_host(y)) == "multiclass":
        raise ValueError("scoring='roc_auc' is for two classes, and y has more; use 'roc_auc_ovr'.")


def _each(scoring):
    if isinstance(scoring, dict):
        return list(scoring.values())
    return list(scoring) if isinstance(scoring, (list, tuple, set)) else [scoring]


def _methods_of(scorer):
    """Names of the methods one of which the scorer asks for, () where that is not known."""
    try:
        scorer = get_scorer(scorer) if isinstance(scorer, str) else scorer
    except ValueError:
        return ()  # scikit-learn says that there is none of this name
    methods = scorer._response_method if isinstance(scorer, _Scorer) else ()
    return (methods,) if isinstance(methods, str) else tuple(methods)


def _why_not(network, method):
    try:
        getattr(network, method)
    except AttributeError as error:  # what stands around a network has what it has
        return str(error)
