"""Compare regressors with and without target_transform="auto" on heavy-tailed targets.

python benchmarks/heavy_tails.py [--datasets 5] [--samples 2000] [--stacked] [--json FILE]

Synthetic targets of five features. For each: the transforms that were chosen, the median R^2 on
10,000 test samples without and with "auto", the median and the least difference over the datasets,
and the median ratio of mean absolute errors.
"""

import warnings
from collections import Counter
from functools import partial

import numpy as np
from scipy.special import ndtr
from sklearn.metrics import mean_absolute_error, r2_score

from _report import arguments, report
from sklearn_fsvc import RBFRegressor, StackedRegressor, TanhRegressor

# Name -> y of a signal f (standard deviation 1.3) and noise e of standard deviation 1.
TARGETS = {
    "log-normal, little noise": lambda f, e, rng: np.exp(10 + f + 0.3 * e),
    "log-normal": lambda f, e, rng: np.exp(3 + f + e),
    "log-normal, large range": lambda f, e, rng: np.exp(3 + 1.5 * f + 0.7 * e),
    "Pareto": lambda f, e, rng: (1 - 0.99999 * ndtr((f + 0.5 * e) / 1.5)) ** (-1 / 1.5),
    "Pareto noise": lambda f, e, rng: np.exp(0.7 * f) * (1 + rng.pareto(1.5, len(f))),
    "Poisson counts": lambda f, e, rng: rng.poisson(np.exp(0.5 + f)),
    "overdispersed counts": lambda f, e, rng: rng.poisson(
        np.exp(1 + f) * rng.gamma(0.7, 1 / 0.7, len(f))
    ),
    "zero-inflated": lambda f, e, rng: np.where(
        f + e > 0.8, np.exp(5 + f + 0.7 * rng.normal(size=len(f))), 0
    ),
    "both signs": lambda f, e, rng: np.sinh(2 * f + 0.3 * e),
    "additive Student noise": lambda f, e, rng: 2 * f + rng.standard_t(2, len(f)),
    "outliers": lambda f, e, rng: 2 * f + e + 500 * e * (rng.random(len(f)) < 0.002),
}
NETWORKS = {
    "RBF": partial(RBFRegressor, random_state=0),
    "tanh": partial(TanhRegressor, random_state=0),
}


def make_samples(make_target, n, rng):
    X = rng.normal(size=(n, 5))
    f = X[:, 0] + np.abs(X[:, 1]) - 0.8 + 0.5 * X[:, 2] * X[:, 3]
    return X, make_target(f, rng.normal(size=n), rng)


def compare(network, make_target, n_samples, seed):
    """Return the chosen transform, and (R^2, mean absolute error) without and with it."""
    rng = np.random.default_rng(seed)
    (X, y), (X_test, y_test) = (make_samples(make_target, n, rng) for n in (n_samples, 10_000))
    scores = []
    for transform in (None, "auto"):
        model = network(target_transform=transform).fit(X, y)
        y_predicted = model.predict(X_test)
        scores.append((r2_score(y_test, y_predicted), mean_absolute_error(y_test, y_predicted)))
    transformer = model.target_transformer_
    return "none" if transformer is None else transformer.kinds[0], scores


def main(args):
    warnings.filterwarnings("ignore", "y has a heavy tail")
    networks = {"stacked": partial(StackedRegressor, random_state=0)} if args.stacked else NETWORKS
    for name, network in networks.items():
        table = []
        for target, make_target in TARGETS.items():
            results = [
                compare(network, make_target, args.samples, seed) for seed in range(args.datasets)
            ]
            chosen = Counter(kind for kind, _ in results)
            r2, error = np.moveaxis([scores for _, scores in results], -1, 0)
            gain = r2[:, 1] - r2[:, 0]
            table += [
                *((f"{target}: {kind} chosen, fits", n) for kind, n in chosen.items()),
                (f"{target}: R^2 without, median", np.median(r2[:, 0])),
                (f"{target}: R^2 with auto, median", np.median(r2[:, 1])),
                (f"{target}: gain, median", np.median(gain)),
                (f"{target}: gain, least", gain.min()),
                (f"{target}: ratio of mean absolute errors, median",
                 np.median(error[:, 1] / error[:, 0])),
            ]  # fmt: skip
        title = f"heavy tails, {name}: {args.samples} samples"
        report(args, title, table, datasets=args.datasets)


if __name__ == "__main__":
    main(
        arguments(
            datasets={"type": int, "default": 5},
            samples={"type": int, "default": 2000},
            stacked={"action": "store_true", "help": "the stacked ensemble, not the networks"},
        )
    )
