"""Small stacked ensembles, their data, and naive leave-one-out scores."""

import numpy as np
from sklearn.base import clone

import naive
from readouts.brute_force import unit_at_sample
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts.draw_sample import sample_by_hash
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

# Fixed hyperparameters: nothing is searched.
GIVEN = {"random_state": 0, "alpha": 0.5, "feature_weights": None}
RBF = {"kernel": "laplacian", "radius": 2.0, "selection": "random", **GIVEN}


def pair(rbf, tanh, n=25):
    """Return two small base estimators without any search."""
    return [("rbf", rbf(n, **RBF)), ("tanh", tanh(n, scale=0.5, **GIVEN))]


def classifier(**params):
    return StackedClassifier(pair(RBFClassifier, TanhClassifier), random_state=0, **params)


def regressor(**params):
    return StackedRegressor(pair(RBFRegressor, TanhRegressor), random_state=0, **params)


def tanh_classifier(**params):
    estimators = [(f"tanh{n}", TanhClassifier(n, scale=0.5, **GIVEN)) for n in (20, 30)]
    return StackedClassifier(estimators, **params)


def small_ensemble(ensemble):
    """Return an ensemble too small for its data, so that a final estimator gains."""
    kinds = (
        (RBFRegressor, TanhRegressor)
        if ensemble is StackedRegressor
        else (RBFClassifier, TanhClassifier)
    )
    return ensemble(pair(*kinds, 8), random_state=0)


def with_final(model, n=40, **params):
    """Return an ensemble with a small final estimator, which is kept if it gains enough."""
    kind = TanhRegressor if isinstance(model, StackedRegressor) else TanhClassifier
    return model.set_params(final_estimator=kind(n, scale=0.5, **GIVEN | params))


def make_data(n):
    """Return X, classes and numbers; every third sample is duplicated."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    X = np.concatenate([X, X[::3]])
    numbers = np.abs(X[:, 0]) + np.tanh(X @ [0, 1, 1, -1]) + rng.normal(size=len(X)) / 5 + 10
    return X, np.digitize(numbers, [10.5, 11]), numbers


def target_of_kind(kind, X, y):
    """Return a target of a kind, made of three classes."""
    return {
        "one": np.array(["a", "b", "c"])[y], "two": y > 0,
        "several": np.column_stack([y, y > 1]),
        "labels": np.column_stack([y > 0, y > 1, X[:, 2] > 0]).astype(int),
    }[kind]  # fmt: skip


def naive_left_out(network, X, y, Y, weight, folds=None):
    """Return the scores of readouts trained without the sample itself, or without its fold.

    Units that are centred at samples that are left out are left out, too, unless these have copies.
    """
    layer = layer_of(network.fit(X, y, weight))
    folds, own = np.arange(len(X)) if folds is None else folds, unit_at_sample(network, len(X))
    _, row, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    own[counts[row] > 1] = -1
    H, scores = naive.hidden(layer, X), np.empty(Y.shape)
    for fold in np.unique(folds):
        left, others = folds == fold, folds != fold
        kept = np.setdiff1d(np.arange(H.shape[1]), own[left])
        W, b = naive.ridge(H[np.ix_(others, kept)], Y[others], network.alpha, weight[others])
        scores[left] = H[np.ix_(left, kept)] @ W.T + b
    return scores


def naive_left_out_of_all(ensemble, X, y, Y, weight):
    return np.stack([naive_left_out(clone(m), X, y, Y, weight) for _, m in ensemble.estimators])


def two_folds(X):
    """Return the folds of an ensemble: halves of its random order of the samples."""
    sample = sample_by_hash(
        Job(get_engine("jit")),
        Samples(X, OneHotTargets.of_column(np.zeros(len(X), int), 1)),
        len(X),
    )
    folds = np.empty(len(X), int)
    folds[sample.numbers] = 2 * np.arange(len(X)) // len(X)
    return folds
