"""Compare pipelines with LightGBM on classes that follow a rule over a few of the columns.

python benchmarks/rules.py [--seeds 3] [--only "a > b; two of five equal"] [--json FILE]

Synthetic datasets of 4,000 training and 4,000 test samples without noise; each rule depends on the
first columns, and the others are irrelevant. `make_tabular_pipeline` with a single RBF network and
with the default stacked ensemble; LightGBM with its defaults on the columns as they are, categories
as such. Mean accuracy over the seeds.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, make_tabular_pipeline

N_TRAIN, N_TEST = 4000, 4000


class Rule(NamedTuple):
    make: Callable  # make(rng, n_samples) -> columns
    classes: Callable  # classes(columns) -> labels


def uniform(n_columns, low=-1.0, high=1.0):
    return lambda rng, n: rng.uniform(low, high, size=(n, n_columns))


def normal(n_columns):
    return lambda rng, n: rng.normal(size=(n, n_columns))


def integers(n_columns, n_values):
    return lambda rng, n: rng.integers(n_values, size=(n, n_columns))


def categories(*sizes, share_equal=0.0):
    """Return a maker of categories "0", "1", ... and of two numbers, `x` and `y`.

    In this share of the samples, the second category is set equal to the first.
    """

    def make(rng, n):
        columns = {f"c{i}": rng.integers(size, size=n) for i, size in enumerate(sizes)}
        if share_equal:
            is_equal = rng.random(n) < share_equal
            columns["c1"] = np.where(is_equal, columns["c0"], columns["c1"])
        X = pd.DataFrame(columns).astype(str).astype("category")
        return X.assign(x=rng.normal(size=n), y=rng.normal(size=n))

    return make


def codes(column):
    return column.astype(int).to_numpy()


# Directions of weighted sums, and points.
WEIGHTS = np.random.default_rng(5).normal(size=(20, 5))
POINTS = np.random.default_rng(6).normal(size=(5, 6))


def nearest_point(X):
    return np.square(X[:, None] - POINTS).sum(axis=2).argmin(axis=1)


def random_tree(X, depth=5):
    """Return the classes of a decision tree whose columns and thresholds are random."""
    rng, node = np.random.default_rng(2), np.zeros(len(X), int)
    for level in range(depth):
        columns, thresholds = (
            rng.integers(X.shape[1], size=2**level),
            rng.uniform(-0.5, 0.5, 2**level),
        )
        node = 2 * node + (X[np.arange(len(X)), columns[node]] > thresholds[node])
    return rng.permutation(2**depth)[node] % 2


RULES = {
    "a > b": Rule(uniform(10), lambda X: X[:, 0] > X[:, 1]),
    "abs(a - b) < abs(c - d)": Rule(
        uniform(8), lambda X: abs(X[:, 0] - X[:, 1]) < abs(X[:, 2] - X[:, 3])
    ),
    "a b > c d": Rule(uniform(8, 1, 10), lambda X: X[:, 0] * X[:, 1] > X[:, 2] * X[:, 3]),
    "max(a, b) > c": Rule(uniform(6), lambda X: X[:, :2].max(axis=1) > X[:, 2]),
    "median(a, b, c) > d": Rule(uniform(8), lambda X: np.median(X[:, :3], axis=1) > X[:, 3]),
    "(a > b) xor (c > d)": Rule(uniform(6), lambda X: (X[:, 0] > X[:, 1]) ^ (X[:, 2] > X[:, 3])),
    "a^2 + b^2 + c^2 < 0.9": Rule(uniform(10), lambda X: (X[:, :3] ** 2).sum(axis=1) < 0.9),
    "sin 6a > 0": Rule(uniform(10), lambda X: np.sin(6 * X[:, 0]) > 0),
    "a + ... + f > 0": Rule(normal(12), lambda X: X[:, :6].sum(axis=1) > 0),
    "sum of 10 of 20 columns > 0": Rule(normal(20), lambda X: X[:, :10].sum(axis=1) > 0),
    "largest of 5 weighted sums": Rule(normal(20), lambda X: (X @ WEIGHTS).argmax(axis=1)),
    "nearest of 5 points": Rule(normal(6), nearest_point),
    "largest of five columns": Rule(uniform(9), lambda X: X[:, :5].argmax(axis=1)),
    "4 of 7 columns > 0": Rule(uniform(9), lambda X: (X[:, :7] > 0).sum(axis=1) >= 4),
    "decision tree of depth 5": Rule(uniform(8), random_tree),
    "abs(a), ..., abs(d) < 0.84": Rule(uniform(8), lambda X: abs(X[:, :4]).max(axis=1) < 0.84),
    "a b c > 0, of 10 columns": Rule(normal(10), lambda X: X[:, :3].prod(axis=1) > 0),
    "a b c > 0, of 20 columns": Rule(normal(20), lambda X: X[:, :3].prod(axis=1) > 0),
    "a b c > 0, of 30 columns": Rule(normal(30), lambda X: X[:, :3].prod(axis=1) > 0),
    "two of five equal": Rule(
        integers(5, 13), lambda X: (np.diff(np.sort(X, axis=1), axis=1) == 0).any(axis=1)
    ),
    "three of six equal": Rule(
        integers(6, 6), lambda X: (X[:, :, None] == X[:, None]).sum(axis=2).max(axis=1) >= 3
    ),
    "a + b even": Rule(integers(6, 20), lambda X: (X[:, 0] + X[:, 1]) % 2 == 0),
    "four bits even": Rule(integers(10, 2), lambda X: X[:, :4].sum(axis=1) % 2 == 0),
    "equal categories": Rule(categories(8, 8), lambda X: codes(X["c0"]) == codes(X["c1"])),
    "two of five categories equal": Rule(
        categories(9, 9, 9, 9, 9), lambda X: (X.filter(like="c").nunique(axis=1) < 5).to_numpy()
    ),
    "equal categories of 300": Rule(
        categories(300, 300, share_equal=0.5), lambda X: codes(X["c0"]) == codes(X["c1"])
    ),
    "x > offset of one of 400": Rule(
        categories(400), lambda X: X["x"].to_numpy() > np.sin(1.7 * codes(X["c0"]))
    ),
}


def models(seed):
    return {
        "RBFClassifier": make_tabular_pipeline(RBFClassifier(random_state=seed)),
        "StackedClassifier": make_tabular_pipeline("classifier", random_state=seed),
        "LightGBM": LGBMClassifier(verbose=-1, n_jobs=-1, random_state=seed),
    }


def measure(rule, seed):
    """Return {model: accuracy in %}."""
    X = rule.make(np.random.default_rng(seed), N_TRAIN + N_TEST)
    y = np.asarray(rule.classes(X)).astype(int)
    X, X_test = (X.iloc if hasattr(X, "iloc") else X)[:N_TRAIN], X[N_TRAIN:]
    return {
        name: 100 * model.fit(X, y[:N_TRAIN]).score(X_test, y[N_TRAIN:])
        for name, model in models(seed).items()
    }


def main(args):
    means = {}
    for name in args.only.split("; ") if args.only else RULES:
        results = [measure(RULES[name], seed) for seed in range(args.seeds)]
        means[name] = {model: np.mean([each[model] for each in results]) for model in results[0]}
        print(name, means[name], flush=True)
    of_rules = list(means.values())
    for name, summary in {"mean": np.mean, "minimum": np.min}.items():
        means[name] = {model: summary([of[model] for of in of_rules]) for model in of_rules[0]}
    rows = [
        (f"{name}: {model}, %", value)
        for name, of_models in means.items()
        for model, value in of_models.items()
    ]
    report(args, f"rules: {N_TRAIN} training samples", rows, seeds=args.seeds)


if __name__ == "__main__":
    main(arguments(seeds={"type": int, "default": 3}, only={"help": 'rules, separated by "; "'}))
