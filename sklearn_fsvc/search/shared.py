"""A group on the splits: a pass for each split, or one for all of them."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params

from ..engines import get_engine
from ..readouts.ridge import gather
from ..readouts.statistics import RidgeStatistics
from ..rows.streaming import budget, keep_rows, n_synapses
from ..rows.validation import check_rows
from .networks import Fitted, key_of, layers_of, score, solve, with_last_step


@dataclass(frozen=True)
class Task:
    """What a search is to do: the arguments of its fit, and the splits.

    Attributes
    ----------
    splits : list of (ndarray of int, ndarray of int)
        Training and test rows.
    """

    X: object
    y: object
    fit_params: dict
    splits: list
    return_train_score: bool
    verbose: int

    def training_set(self, split):
        """X, y and fit parameters of the training rows of a split."""
        train = self.splits[split][0]
        return (
            _safe_indexing(self.X, train),
            _safe_indexing(self.y, train),
            _check_method_params(self.X, params=self.fit_params, indices=train),
        )

    def scored_rows(self, split):
        """The sets of rows whose scores are wanted, the test set first."""
        train, test = self.splits[split]
        return [test, train] if self.return_train_score else [test]


def fit_split(group, task, split):
    """The networks of a group on one split.

    Returns
    -------
    Fitted
    """
    start = perf_counter()
    X, y, params = task.training_set(split)
    pipeline, network, X, y, sample_weight = _arrive(group.estimator, X, y, params)
    fitted = Fitted(pipeline)
    with get_engine(network.device, n_synapses(X, network.n_hidden)) as engine:
        X, codes, weight = network._prepare(engine, X, y, sample_weight)
        X, max_memory = keep_rows(engine, X, network.max_memory)
        layer, _ = network._choose_layer(engine, X, codes, weight, max_memory)
        layers = layers_of(group, network, layer)
        dtype = _statistics_dtype(engine, group, layer, len(X))
        statistics = gather(
            engine, layers, X, codes, len(network.classes_), weight, dtype=dtype,
            max_memory=max_memory, what=_what(task, split, "statistics"), verbose=task.verbose,
        )  # fmt: skip
        solve(engine, group, network, layers, statistics, fitted)
        fitted.fit_time = (perf_counter() - start) / len(group.members)
        _score_split(engine, group, task, split, network, layers, fitted)
    return fitted


def _score_split(engine, group, task, split, network, layers, fitted):
    for rows in task.scored_rows(split):
        start = perf_counter()
        X = _safe_indexing(task.X, rows)
        X = X if fitted.pipeline is None else fitted.pipeline.predict(X)
        score(
            engine, group, layers, check_rows(network, engine, X, reset=False), key_of(rows),
            fitted, max_memory=network.max_memory, what=_what(task, split, "scores"),
            verbose=task.verbose,
        )  # fmt: skip
        if not fitted.score_time:  # the test rows alone, as in GridSearchCV
            fitted.score_time = (perf_counter() - start) / len(group.members)


def _what(task, split, phase):
    return f"HiddenSizeSearchCV split {split + 1} of {len(task.splits)}, {phase}"


def fit_splits(group, task):
    """The networks of a group on all splits, if its layer is the same on all of them.

    The statistics of the training rows of a split are those of all rows less those of the
    rows that the split leaves out.

    Returns
    -------
    list of Fitted, or None
        None where each split needs a pass of its own.
    """
    start = perf_counter()
    if isinstance(group.estimator, Pipeline):
        return None
    network = clone(group.estimator)
    left_out = _left_out(task)
    if network._layer_needs_rows or network.class_weight == "balanced" or left_out is None:
        return None
    with get_engine(network.device, n_synapses(task.X, network.n_hidden)) as engine:
        sample_weight = _sample_weight(**task.fit_params)
        X, codes, weight = network._prepare(engine, task.X, task.y, sample_weight)
        X, max_memory = keep_rows(engine, X, network.max_memory)
        kept_bytes = (len(left_out) + 3) * RidgeStatistics.nbytes(network.n_hidden)
        if not _all_classes_everywhere(task, codes, weight) or (
            kept_bytes > budget(engine, max_memory) // 2
        ):
            return None
        layer, _ = network._choose_layer(engine, X, codes, weight, max_memory)
        dtype = _statistics_dtype(engine, group, layer, len(X))

        def statistics_of(rows, phase):
            return gather(
                engine, [layer], X, codes, len(network.classes_), weight, rows=rows, dtype=dtype,
                kept_bytes=kept_bytes, max_memory=max_memory, verbose=task.verbose,
                what=f"HiddenSizeSearchCV {phase}",
            )[0]  # fmt: skip

        folds = [
            statistics_of(rows, f"rows left out by split {split + 1} of {len(left_out)}")
            for split, rows in enumerate(left_out)
        ]
        total = _total(folds, left_out, len(X), statistics_of)
        shared_time = (perf_counter() - start) / len(folds)
        all_fitted = []
        for split, fold in enumerate(folds):
            start, fitted = perf_counter(), Fitted()
            solve(engine, group, network, [layer], [total - fold], fitted)
            fitted.fit_time = (shared_time + perf_counter() - start) / len(group.members)
            _score_split(engine, group, task, split, network, [layer], fitted)
            all_fitted.append(fitted)
    return all_fitted


def _statistics_dtype(engine, group, layer, n_rows):
    """In which H is multiplied with itself: float64 if rounding would rival a penalty.

    H'H of n rows in float32 is rounded by about n times its epsilon.
    """
    smallest = min(float(p["alpha"]) for p in group.members.values())
    is_small = smallest < n_rows * np.finfo(np.float32).eps
    return np.dtype(np.float64) if is_small else engine.statistics_dtype(layer)


def _left_out(task):
    """The rows that each split leaves out; None if to leave out is no less work."""
    n_rows = len(task.y)
    left_out = []
    for train, _ in task.splits:
        rest = np.setdiff1d(np.arange(n_rows), train)
        if not len(rest) or len(rest) + len(train) != n_rows:  # or rows are repeated
            return None
        left_out.append(rest)
    return left_out if sum(map(len, left_out)) <= n_rows * len(left_out) / 2 else None


def _all_classes_everywhere(task, codes, weight):
    """Whether the training rows of each split are of all classes, as all rows are."""
    n_classes = codes.max() + 1
    for train, _ in task.splits:
        rows = train if weight is None else train[weight[train] > 0]
        if len(np.unique(codes[rows])) < n_classes:
            return False
    return True


def _total(folds, left_out, n_rows, statistics_of):
    """The statistics of all rows, as a sum where each row is left out at most once."""
    times = np.bincount(np.concatenate(left_out), minlength=n_rows)
    if times.max() > 1:
        return statistics_of(None, "all rows")
    total = sum(folds[1:], folds[0])
    rest = np.flatnonzero(times == 0)
    return total + statistics_of(rest, "rows never left out") if len(rest) else total


def _arrive(estimator, X, y, params):
    """Fit the steps before the network.

    Returns
    -------
    pipeline : Pipeline or None
        With its steps fitted; what it predicts of rows is the rows that reach the network.
    network : classifier, not fitted
    X, y, sample_weight
        What reaches it.
    """
    if not isinstance(estimator, Pipeline):
        return None, clone(estimator), X, y, _sample_weight(**params)
    network = estimator.steps[-1][1]
    pipeline = clone(with_last_step(estimator, _Arrival(network))).fit(X, y, **params)
    X, y, sample_weight = pipeline[-1].hand_over()
    return pipeline, clone(network), X, y, sample_weight


def _sample_weight(sample_weight=None):
    """The fit parameters of a network, and no others."""
    return sample_weight


class _Arrival(ClassifierMixin, BaseEstimator):
    """In the place of a network at the end of its pipeline: keeps what arrives there."""

    def __init__(self, network):
        self.network = network

    def get_metadata_routing(self):
        return self.network.get_metadata_routing()

    def fit(self, X, y, sample_weight=None):
        self.arrived_ = X, y, sample_weight
        return self

    def hand_over(self):
        """What arrived, which is not kept any longer."""
        arrived, self.arrived_ = self.arrived_, None
        return arrived

    def predict(self, X):
        """The rows themselves."""
        return X
