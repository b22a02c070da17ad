"""Check allocations against `max_memory` in difficult cases: "peak / limit" is 1 at most.

python benchmarks/limits.py [--json FILE]

The result of a call is excluded. Labels, sample weights and row numbers take up to 64 bytes per
sample in addition.
"""

import tempfile
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

from _report import arguments, report
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchProjector,
    RBFClassifier,
    TanhClassifier,
    TanhRegressor,
)

MIB = 2**20
FEW = 3000


def rows_of(n_rows, n_features, n_classes=4, dtype=np.float32):
    rng, y = np.random.default_rng(0), np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X += rng.normal(size=(n_classes, n_features)).astype(np.float32)[y]
    return (X if dtype == np.float32 else 10 * X).astype(dtype), y


def measure(name, limit, call, *args):
    """Return (name, peak allocation without the result, relative to the limit)."""
    tracemalloc.start()
    result = call(*args)
    peak = tracemalloc.get_traced_memory()[1] - getattr(result, "nbytes", 0)
    tracemalloc.stop()
    return f"{name}: peak of {limit} MiB", peak / MIB / limit


def tanh(limit, **parameters):
    parameters = {"alpha": 1.0, "random_state": 0} | parameters
    return TanhClassifier(100, max_memory=limit * MIB, **parameters)


def probabilities():
    X, y = rows_of(300_000, 10, 100)
    clf = tanh(32).fit(X[:FEW], y[:FEW])
    yield measure("predict_proba, 300,000 rows, 100 classes", 32, clf.predict_proba, X)
    for n_classes in (2, 10, 100):
        X, y = rows_of(200_000, 10, n_classes)
        name = f"fit and calibrate, 200,000 rows, {n_classes} classes"
        yield measure(name, 64, tanh(64).fit, X, y)


def layers_larger_than_the_limit():
    X, y = rows_of(50, 100_000, 2)
    clf = TanhClassifier(1000, max_memory=100 * MIB, random_state=0)

    def fit():
        try:
            clf.fit(X, y)
        except ValueError as error:
            print(error)

    yield measure("1000 units, 50 x 100,000, refused", 100, fit)


def integers():
    X, y = rows_of(200_000, 40, dtype=np.int64)
    rbf = RBFClassifier(
        100, radius=200.0, kernel="laplacian", feature_weights=None, alpha=1.0, random_state=0,
        max_memory=32 * MIB,
    )  # fmt: skip
    for clf in (tanh(32), rbf):
        name = f"{type(clf).__name__}, int64, 200,000 x 40"
        yield measure(f"{name}, fit", 32, clf.fit, X, y)
        yield measure(f"{name}, predict", 32, clf.predict, X)


def searches():
    X, y = rows_of(100_000, 100)
    grid = {"n_hidden": [50, 100]}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        on_disk = np.load(Path(folder) / "X.npy", mmap_mode="r")
        for name, some in (("array", X), ("memmap", on_disk)):
            search = HiddenSizeSearchCV(tanh(64), grid, n_jobs=2, cv=3, refit=False)
            name = f"search, n_jobs=2, {name} of 100,000 x 100"
            yield measure(name, 64, search.fit, some, y)
    X, y = rows_of(60_000, 10, 10)
    grid = {"n_hidden": [10, 20, 30, 40, 50, 60], "alpha": np.logspace(-2, 2, 20)}
    search = HiddenSizeSearchCV(tanh(64), grid, cv=3, refit=False)
    yield measure("search, 120 candidates, 60,000 x 10", 64, search.fit, X, y)


def wide():
    X, y = rows_of(50, 200_000, 2)
    for model in (RBFClassifier(20), TanhClassifier(50)):
        model.set_params(random_state=0, max_memory=400 * MIB, device="jit")
        name = f"{type(model).__name__}, 50 x 200,000"
        yield measure(f"{name}, fit", 400, model.fit, X, y)
        yield measure(f"{name}, predict", 400, model.predict, X)


def outputs():
    X, _ = rows_of(60_000, 10)
    Y = np.random.default_rng(0).normal(size=(60_000, 50))
    for given in ({"uncertainty": True}, {"alpha": "loo"}):
        model = TanhRegressor(100, max_memory=60 * MIB, random_state=0, **given)
        yield measure(f"fit, 60,000 rows, 50 outputs, {given}", 60, model.fit, X, Y)


def images():
    X, y = rows_of(60, 128 * 128 * 3, 2)
    for stride in (1, 4):
        model = PatchProjector(
            100, image_shape=(128, 128, 3), stride=stride, max_memory=50 * MIB, random_state=0
        )
        name = f"100 units on 60 images of 128 x 128 x 3, stride {stride}"
        yield measure(f"{name}, fit", 50, model.fit, X, y)
        yield measure(f"{name}, transform", 50, model.transform, X)


def main(args):
    warnings.simplefilter("ignore")
    X, y = rows_of(FEW, 10)
    for clf in (tanh(64), RBFClassifier(20, random_state=0)):
        clf.fit(X, y).predict(X)  # compiled and imported before it is measured
    parts = (probabilities, layers_larger_than_the_limit, integers, searches, wide, outputs, images)
    rows = [row for part in parts for row in part()]
    report(args, "memory against max_memory", rows)


if __name__ == "__main__":
    main(arguments())
