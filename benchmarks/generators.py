"""Compare networks with other estimators on the generators and small datasets of scikit-learn.

python benchmarks/generators.py [--seeds 3] [--only "moons; circles"] [--json FILE]

What people try first: linear targets of few and of many features, spectra, informative features
among others, circles, and the datasets that scikit-learn contains. Ours with their defaults after a
StandardScaler, and others as their users call them: RidgeCV and LogisticRegression, SVR and SVC,
HistGradientBoosting. 1,000 test samples, or 30 % of a dataset. Mean accuracy or R2 over the seeds,
in %.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from _report import arguments, report
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)

N_TEST = 1000


class Problem(NamedTuple):
    load: Callable  # load(seed) -> X, y
    n_train: float  # number of training samples, or their part of a dataset
    is_regression: bool = False


def generated(make, n_train, is_regression=False, **parameters):
    make = partial(make, n_samples=n_train + N_TEST, **parameters)
    return Problem(lambda seed: make(random_state=seed), n_train, is_regression)


def linear(n_train, n_features, n_informative=None):
    return generated(
        datasets.make_regression, n_train, True, n_features=n_features, noise=10.0,
        n_informative=n_informative or n_features,
    )  # fmt: skip


def linear_classes(n_train, n_features):
    def load(seed):
        X, y = datasets.make_regression(
            n_train + N_TEST, n_features, n_informative=n_features, noise=1.0, random_state=seed
        )
        return X, (y > 0).astype(int)

    return Problem(load, n_train)


def spectra(n_train):
    """Mixtures of four peaks with a random baseline; the target is the share of one of them."""

    def load(seed):
        rng, n = np.random.default_rng(seed), n_train + N_TEST
        x, places = np.linspace(0, 1, 200), rng.uniform(0.1, 0.9, 4)
        shares = rng.dirichlet(np.ones(4), n)
        peaks = shares @ np.exp(-(((x - places[:, None]) / 0.08) ** 2) / 2)
        baseline = 3 * rng.normal(size=(n, 1)) + rng.normal(size=(n, 1)) * x
        return peaks + baseline + 0.005 * rng.normal(size=(n, 200)), shares[:, 0]

    return Problem(load, n_train, True)


def toy(load, is_regression=False):
    return Problem(lambda seed: load(return_X_y=True), 0.7, is_regression)


PROBLEMS = {
    "linear, 20 features, 100 samples": linear(100, 20),
    "linear, 100 features, 100 samples": linear(100, 100),
    "linear, 100 features, 500 samples": linear(500, 100),
    "linear, 300 features, 2000 samples": linear(2000, 300),
    "linear, 500 features, 200 samples": linear(200, 500),
    "linear, 10 of 100 features, 500 samples": linear(500, 100, 10),
    "spectra, 200 channels, 60 samples": spectra(60),
    "spectra, 200 channels, 400 samples": spectra(400),
    "friedman1, 500 samples": generated(datasets.make_friedman1, 500, True, noise=1.0),
    "friedman2, 500 samples": generated(datasets.make_friedman2, 500, True, noise=1.0),
    "friedman3, 500 samples": generated(datasets.make_friedman3, 500, True, noise=0.1),
    "diabetes": toy(datasets.load_diabetes, True),
    "linear classes, 20 features, 500 samples": linear_classes(500, 20),
    "linear classes, 100 features, 500 samples": linear_classes(500, 100),
    "linear classes, 300 features, 2000 samples": linear_classes(2000, 300),
    "classification, 20 features, 500 samples": generated(
        datasets.make_classification, 500, n_features=20, n_informative=10
    ),
    "classification, 300 features, 2000 samples": generated(
        datasets.make_classification, 2000, n_features=300, n_informative=10
    ),
    "moons, 500 samples": generated(datasets.make_moons, 500, noise=0.2),
    "circles, 500 samples": generated(datasets.make_circles, 500, noise=0.1, factor=0.7),
    "gaussian quantiles, 1000 samples": generated(
        datasets.make_gaussian_quantiles, 1000, n_features=10
    ),
    "hastie, 2000 samples": generated(datasets.make_hastie_10_2, 2000),
    "iris": toy(datasets.load_iris),
    "wine": toy(datasets.load_wine),
    "breast cancer": toy(datasets.load_breast_cancer),
    "digits": toy(datasets.load_digits),
}


def models(is_regression, seed):
    ours = (
        (RBFRegressor, TanhRegressor, StackedRegressor)
        if is_regression
        else (RBFClassifier, TanhClassifier, StackedClassifier)
    )
    networks = {kind.__name__: kind(random_state=seed) for kind in ours}
    if is_regression:
        others = {"RidgeCV": RidgeCV(np.logspace(-3, 4, 15)), "SVR": SVR()}
        trees = HistGradientBoostingRegressor(random_state=seed)
    else:
        others = {"LogisticRegression": LogisticRegression(max_iter=2000), "SVC": SVC()}
        trees = HistGradientBoostingClassifier(random_state=seed)
    scaled = {
        name: make_pipeline(StandardScaler(), model) for name, model in (networks | others).items()
    }
    return scaled | {"HistGradientBoosting": trees}


def measure(problem, seed):
    """Return {kind of model: accuracy or R2 in %}."""
    X, y = problem.load(seed)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=problem.n_train, random_state=seed,
        stratify=None if problem.is_regression else y,
    )  # fmt: skip
    return {
        name: 100 * model.fit(X_train, y_train).score(X_test, y_test)
        for name, model in models(problem.is_regression, seed).items()
    }


def main(args):
    rows = []
    for name in args.only.split("; ") if args.only else PROBLEMS:
        scores = [measure(PROBLEMS[name], seed) for seed in range(args.seeds)]
        means = {model: np.mean([each[model] for each in scores]) for model in scores[0]}
        print(name, {model: round(mean, 1) for model, mean in means.items()}, flush=True)
        rows += [(f"{name}: {model}, %", mean) for model, mean in means.items()]
    report(args, "generators", rows, seeds=args.seeds)


if __name__ == "__main__":
    main(arguments(seeds={"type": int, "default": 3}, only={"help": 'problems, separated by "; "'}))
