"""Compare the layer that partial_fit chooses from small batches with that of fit.

python benchmarks/layer_choice.py [--json FILE] [--seed 0] [--units 300]

5,000 samples of 8 features, of which two matter: y is sign(x0 x1), and for regressors
x0 x1 with noise. They arrive in batches of several sizes, or the first 300 are of one class (for
regressors, have the smallest y). Accuracy or R^2 on 2,000 further samples, in percent. Then 2,000
samples are predicted and added one at a time, by the wrapper of River if that is installed.
"""

import warnings
from importlib.util import find_spec
from time import perf_counter

import numpy as np
from sklearn.base import clone

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor

N_TRAIN, N_TEST, N_FEATURES, N_ONE_BY_ONE, N_FIRST = 5000, 2000, 8, 2000, 300
BATCHES = (1, 10, 50, 300)


def make_data(seed, is_classifier):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_TRAIN + N_TEST, N_FEATURES))
    product = X[:, 0] * X[:, 1]
    y = (product > 0).astype(int) if is_classifier else product + 0.1 * rng.normal(size=len(X))
    return X, y


def learn(model, X, y, stops, **classes):
    """Return a new model after one call of partial_fit for each part of the samples."""
    model = clone(model)
    for rows in np.split(np.arange(len(X)), stops):
        model.partial_fit(X[rows], y[rows], **classes)
    return model


def one_by_one(model, X, y, **classes):
    """Return the accuracy of predictions before each sample is added, and seconds per sample."""
    start, correct = perf_counter(), 0
    if find_spec("river"):
        from river.compat import SKL2RiverClassifier

        stream = SKL2RiverClassifier(model, classes=[0, 1])
        for x, target in zip(X, y, strict=True):
            named = dict(enumerate(x))
            correct += stream.predict_one(named) == target
            stream.learn_one(named, target)
    else:
        for x, target in zip(X, y, strict=True):
            if hasattr(model, "classes_"):
                correct += model.predict(x[None])[0] == target
            model.partial_fit(x[None], [target], **classes)
    return correct / len(X), (perf_counter() - start) / len(X)


def main(args):
    warnings.simplefilter("ignore")
    rows = []
    for cls in (RBFClassifier, TanhClassifier, RBFRegressor, TanhRegressor):
        is_classifier = issubclass(cls, (RBFClassifier, TanhClassifier))
        X, y = make_data(args.seed, is_classifier)
        new, X, new_y, y = X[N_TRAIN:], X[:N_TRAIN], y[N_TRAIN:], y[:N_TRAIN]
        classes = {"classes": [0, 1]} if is_classifier else {}
        model = cls(args.units, random_state=0)

        def score(fitted, new=new, new_y=new_y):
            return 100 * fitted.score(new, new_y)

        fit = score(clone(model).fit(X, y))
        rows.append((f"{cls.__name__}: fit", fit))
        for size in BATCHES:
            stops = np.arange(size, N_TRAIN, size)
            found = score(learn(model, X, y, stops, **classes))
            rows.append((f"{cls.__name__}: batches of {size}", found))
        first = np.argsort(y, kind="stable")[:N_FIRST]
        order = np.concatenate([first, np.setdiff1d(np.arange(N_TRAIN), first)])
        stops = np.arange(N_FIRST, N_TRAIN, N_FIRST)
        found = score(learn(model, X[order], y[order], stops, **classes))
        rows.append((f"{cls.__name__}: first batch of one class", found))
        if is_classifier:
            found, seconds = one_by_one(clone(model), X[:N_ONE_BY_ONE], y[:N_ONE_BY_ONE], **classes)
            rows.append((f"{cls.__name__}: one at a time, accuracy before added", 100 * found))
            rows.append((f"{cls.__name__}: one at a time, microseconds", 1e6 * seconds))
    report(args, f"layer_choice: {N_TRAIN} samples, {args.units} units", rows)


if __name__ == "__main__":
    main(arguments(seed={"type": int, "default": 0}, units={"type": int, "default": 300}))
