"""Small stacked ensembles, their data, and naive leave-one-out scores."""

import numpy as np
from sklearn.base import clone

import naive
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.samples import exact_hashes
from sklearn_fsvc._src.parts import layer_of

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
    """Return the scores of readouts trained without all duplicates of a sample, or its fold."""
    layer = layer_of(network.fit(X, y, weight))
    H, scores = naive.hidden(layer, X), np.empty(Y.shape)
    for i, row in enumerate(X):
        others = (row != X).any(axis=1) if folds is None else folds != folds[i]
        W, b = naive.ridge(H[others], Y[others], network.alpha, weight[others])
        scores[i] = H[i] @ W.T + b
    return scores


def naive_left_out_of_all(ensemble, X, y, Y, weight):
    return np.stack([naive_left_out(clone(m), X, y, Y, weight) for _, m in ensemble.estimators])


def two_folds(X):
    """Return folds by hash rank, as in the ensemble: duplicates are in the same fold."""
    hashes = exact_hashes(X)
    ranks = np.searchsorted(np.unique(hashes), hashes)
    return (2 * ranks >= len(np.unique(hashes))).astype(int)
