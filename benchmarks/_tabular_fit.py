"""Measurement of one fit of one method on one split: time and score."""

import time

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import ParameterSampler

from _tabular_data import sample, subsample

CONFIGURATIONS = 20
# Maximal number of samples for the comparison of configurations.
TUNING_ROWS = 20_000
WARM_UP_ROWS = 1000


def measure(method, variant, table, split, pair, device, options):
    """Return the record of a fit on the rows of `pair`, (training, test).

    An error of the method is stored in the record. A missing library raises ImportError.
    """
    train, test = pair
    train = subsample(train, table.strata, method.max_rows, split)
    factory = method.factory(table.task)
    factory(device, **options)  # raises ImportError
    record = {"n_train": len(train), "n_test": len(test), "n_features": table.X.shape[1]}
    try:
        params = dict(options)
        if variant == "tuned":
            start = time.perf_counter()
            params |= _tuned(method, table, train, split, device)
            record["tuning_s"] = time.perf_counter() - start
            record["params"] = params
        return record | fit_and_score(factory(device, **params), table, train, test)
    except Exception as problem:
        return record | {"failure": f"{type(problem).__name__}: {problem}"}


def warm_up(method, table, train, device, options):
    """Run a small fit that imports and compiles; an error is reported by the timed fit."""
    few = subsample(train, table.strata, WARM_UP_ROWS, 0)
    measure(method, "default", table, 0, (few, few), device, options)


def _tuned(method, table, train, seed, device):
    """Return the best random configuration on a held-out fifth."""
    train = subsample(train, table.strata, TUNING_ROWS, seed)
    inner = sample(table.strata[train], round(0.8 * len(train)), seed)
    fitted, held_out = train[inner], np.delete(train, inner)
    factory = method.factory(table.task)
    drawn = ParameterSampler(method.space, CONFIGURATIONS, random_state=seed)
    candidates = [
        {name: getattr(value, "item", lambda v=value: v)() for name, value in params.items()}
        for params in drawn
    ]
    losses = [
        fit_and_score(factory(device, **params), table, fitted, held_out)["error"]
        for params in candidates
    ]
    return candidates[int(np.argmin(losses))]


def fit_and_score(model, table, train, test):
    """Return times and scores; the error is one minus the accuracy or R^2."""
    X, y, X_test, y_test = table.X.iloc[train], table.y[train], table.X.iloc[test], table.y[test]
    is_classifier = table.task == "classification"
    if is_classifier:
        # Some libraries require the training classes to be 0, 1, ... without gaps.
        classes, y = np.unique(y, return_inverse=True)
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    predictions = np.asarray(model.predict(X_test))
    scores = {"fit_s": fitted - start, "predict_s": time.perf_counter() - fitted}
    if not is_classifier:
        error = np.square(y_test - predictions).sum() / np.square(y_test - y_test.mean()).sum()
        return scores | {"error": float(error), "r2": float(1 - error)}
    scores["error"] = float(np.mean(classes[predictions] != y_test))
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(X_test)
        scores["log_loss"] = _log_loss(y_test, probabilities, classes)
        if len(classes) == 2 and np.array_equal(classes, np.unique(y_test)):
            scores["auc"] = float(roc_auc_score(y_test, probabilities[:, 1]))
    return scores


def _log_loss(y, probabilities, classes):
    """Return the log-loss; classes that are not in the training set have probability 0.

    In float32 for all methods, since the smallest probability depends on the dtype.
    """
    every = np.union1d(classes, y)
    full = np.zeros((len(y), len(every)), np.float32)
    full[:, np.searchsorted(every, classes)] = probabilities
    return float(log_loss(y, full, labels=every))
