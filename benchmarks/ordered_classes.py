"""Compare classifiers on ordered classes: regression targets that are cut at their quantiles.

python benchmarks/ordered_classes.py --data FOLDER [--samples 2000] [--seeds 3] [--json FILE]

`FOLDER` contains datasets as of tabular.py. Each regression target becomes five classes, about
equally frequent. Networks are measured with their defaults, with the plain ridge readout, whose
scores are not mapped where classes are masked, and with the softmax readout. Accuracy and log-loss
on up to 5,000 test samples, and seconds of a fit; means over datasets and seeds.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.metrics import log_loss

from _report import arguments, report, timed
from _tabular_data import find_tables, read_table
from sklearn_fsvc import RBFClassifier, StackedClassifier, TanhClassifier, make_tabular_pipeline
from sklearn_fsvc._src.targets import labels

N_CLASSES, N_TEST = 5, 5000


class Method(NamedTuple):
    make: Callable  # make(seed) -> estimator
    is_mapped: bool = True  # whether scores of masked classes may be mapped


METHODS = {
    "StackedClassifier": Method(lambda s: make_tabular_pipeline(StackedClassifier(random_state=s))),
    "LightGBM": Method(lambda s: LGBMClassifier(verbose=-1, random_state=s)),
}
for network in (RBFClassifier, TanhClassifier):

    def make(seed, network=network, **options):
        return make_tabular_pipeline(network(random_state=seed, **options))

    METHODS |= {
        network.__name__: Method(make),
        f"{network.__name__}, ridge without a map": Method(make, False),
        f'{network.__name__}, readout="softmax"': Method(
            lambda seed, make=make: make(seed, readout="softmax")
        ),
    }


def cut(y):
    """Return classes of about equal frequency, in the order of y; ties are in one class."""
    limits = np.quantile(y, np.arange(1, N_CLASSES) / N_CLASSES)
    return np.unique(np.searchsorted(limits, y), return_inverse=True)[1]


def measure(method, table, n_samples, seed):
    """Return accuracy in %, log-loss and seconds."""
    order = np.random.default_rng(seed).permutation(len(table.y))
    n_train = min(n_samples, 2 * len(order) // 3)
    train, test = order[:n_train], order[n_train : n_train + N_TEST]
    y, model = cut(table.y), method.make(seed)
    without_map = mock.patch.object(labels, "fit_matrix_scaling", return_value=None)
    with nullcontext() if method.is_mapped else without_map:
        _, seconds = timed(model.fit, table.X.iloc[train], y[train])
    p = model.predict_proba(table.X.iloc[test])
    accuracy = np.mean(model.classes_[p.argmax(axis=1)] == y[test])
    return 100 * accuracy, log_loss(y[test], p, labels=model.classes_), seconds


def main(args):
    tables = [read_table(path) for path in find_tables(args.data)]
    tables = [table for table in tables if table.task == "regression"]
    rows = []
    for name, method in METHODS.items():
        results = [
            measure(method, table, args.samples, seed)
            for table in tables
            for seed in range(args.seeds)
        ]
        means = np.mean(results, axis=0)
        print(name, means, flush=True)
        pairs = zip(("accuracy, %", "log-loss", "fit, s"), means, strict=True)
        rows += [(f"{name}: {what}", value) for what, value in pairs]
    report(args, f"ordered classes: {args.samples} samples", rows)


if __name__ == "__main__":
    main(
        arguments(
            data={"type": Path, "required": True},
            samples={"type": int, "default": 2000},
            seeds={"type": int, "default": 3},
        )
    )
