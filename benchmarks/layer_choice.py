"""Compare the layer that partial_fit chooses from small batches with that of fit.

python benchmarks/layer_choice.py [--json FILE] [--seeds 3] [--units 300]

5,000 samples of 8 features, of which two matter: y is sign(x0 x1), and for regressors
x0 x1 with noise. They arrive in batches of several sizes, or the first 300 are of one class (for
regressors, have the smallest y), or all are sorted by class. Accuracy or R^2 on 2,000 further
samples, in percent. Then 2,000 samples are predicted and added one at a time, by the wrapper of
River if that is installed. The last part has other data, and so many samples that the layer is
fixed before the last one: differences to fit in points, the mean and the lowest of several seeds.
"""

import warnings
from importlib.util import find_spec
from time import process_time

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_friedman1

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor

N_TRAIN, N_LONG, N_TEST, N_ONE_BY_ONE, N_FIRST = 5000, 12_000, 2000, 2000, 300
BATCHES = (1, 10, 50, 300)
CLASSIFIERS, REGRESSORS = (RBFClassifier, TanhClassifier), (RBFRegressor, TanhRegressor)


def signs(rng, n):
    X = rng.normal(size=(n, 8))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def noisy_signs(rng, n):
    X, y = signs(rng, n)
    return X, np.where(rng.random(n) < 0.1, 1 - y, y)


def rings(rng, n):
    """Return eight classes: four rings, in two halves."""
    X = rng.normal(size=(n, 8))
    radius = np.hypot(X[:, 0], X[:, 1])
    return X, np.digitize(radius, [0.75, 1.2, 1.7]) + 4 * (X[:, 2] > 0)


def rare(rng, n):
    """Return two classes, of which one has 3 % of the samples."""
    X = rng.normal(size=(n, 8))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] ** 2 / 2 > 2.5).astype(int)


def product(rng, n):
    X = rng.normal(size=(n, 8))
    return X, X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n)


def friedman(rng, n):
    return make_friedman1(n, noise=1.0, random_state=int(rng.integers(2**31)))


def split(make_data, seed, n_train):
    """Return training samples and test samples."""
    X, y = make_data(np.random.default_rng(seed), n_train + N_TEST)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def learn(model, X, y, stops, **classes):
    """Return a new model after one call of partial_fit for each part of the samples."""
    model = clone(model)
    for rows in np.split(np.arange(len(X)), stops):
        model.partial_fit(X[rows], y[rows], **classes)
    return model


def one_by_one(model, X, y, **classes):
    """Return the accuracy before each sample is added, and CPU seconds per sample."""
    start, correct = process_time(), 0
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
    return correct / len(X), (process_time() - start) / len(X)


def orders(X, y, has_classes):
    """Yield names of streams, the order of their samples, and where their batches end."""
    n, in_order = len(X), np.argsort(y, kind="stable")
    for size in BATCHES:
        yield f"batches of {size}", np.arange(n), np.arange(size, n, size)
    first = in_order[:N_FIRST]
    order = np.concatenate([first, np.setdiff1d(np.arange(n), first)])
    yield "first batch of one class", order, np.arange(N_FIRST, n, N_FIRST)
    if has_classes:
        yield "sorted by class", in_order, np.arange(N_FIRST, n, N_FIRST)


def scores(model, X, y, new, new_y):
    """Yield the name of each way to train, and its score on new samples in percent."""
    yield "fit", 100 * clone(model).fit(X, y).score(new, new_y)
    classes = {"classes": np.unique(y)} if is_classifier(model) else {}
    for name, order, stops in orders(X, y, is_classifier(model)):
        yield name, 100 * learn(model, X[order], y[order], stops, **classes).score(new, new_y)


def on_table_data(args):
    for cls in CLASSIFIERS + REGRESSORS:
        model = cls(args.units, random_state=0)
        X, y, *new = split(signs if is_classifier(model) else product, 0, N_TRAIN)
        for name, score in scores(model, X, y, *new):
            yield f"{cls.__name__}: {name}", score
        if is_classifier(model):
            X, y = X[:N_ONE_BY_ONE], y[:N_ONE_BY_ONE]
            accuracy, seconds = one_by_one(clone(model), X, y, classes=[0, 1])
            yield f"{cls.__name__}: one at a time, accuracy before added", 100 * accuracy
            yield f"{cls.__name__}: one at a time, CPU microseconds", 1e6 * seconds


def on_other_data(args):
    """Yield the differences between `partial_fit` and `fit`."""
    data = {signs: CLASSIFIERS, noisy_signs: CLASSIFIERS, rings: CLASSIFIERS, rare: CLASSIFIERS}
    for make_data, models in (data | {product: REGRESSORS, friedman: REGRESSORS}).items():
        for cls in models:
            results: dict[str, list[float]] = {}
            for seed in range(args.seeds):
                model = cls(args.units, random_state=seed)
                fit, *others = scores(model, *split(make_data, seed, N_LONG))
                for name, score in others:
                    results.setdefault(name, []).append(score - fit[1])
            for name, differences in results.items():
                of = f"{make_data.__name__}, {cls.__name__}: {name}"
                yield f"{of}, mean", np.mean(differences)
                yield f"{of}, lowest", min(differences)


def main(args):
    warnings.simplefilter("ignore")
    report(args, f"layer_choice: {N_TRAIN} samples, {args.units} units", [*on_table_data(args)])
    title = f"layer_choice: partial_fit - fit, {N_LONG} samples, {args.units} units"
    report(args, title, [*on_other_data(args)])


if __name__ == "__main__":
    main(arguments(seeds={"type": int, "default": 3}, units={"type": int, "default": 300}))
