"""Score networks by their number of units: parts of few training samples, or fixed numbers.

python benchmarks/hidden_sizes.py --data DIR [--samples 100,300,1000,4000] [--json FILE]

Which number of units is right by default: for RBF networks 1/2, 3/4 or all of the samples, for tanh
networks 1000, 2000 or 3000. Mean accuracy and R2 in %, over the datasets in DIR (see `tabular.py`)
and three random subsets of their training samples.
"""

import os
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from _report import arguments, report
from _tabular_data import SEEDS, find_tables, read_table, splits
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    TanhClassifier,
    TanhRegressor,
    make_tabular_pipeline,
)

ESTIMATORS = {
    "RBF": {"classification": RBFClassifier, "regression": RBFRegressor},
    "tanh": {"classification": TanhClassifier, "regression": TanhRegressor},
}
SIZES = {"RBF": ["50%", "75%", "100%"], "tanh": ["1000", "2000", "3000"]}


def fit_and_score(path, seed, n_samples, kind, size):
    """Return the task and the score in %."""
    warnings.filterwarnings("ignore", message="n_hidden=.*samples differ")
    table = read_table(path)
    pairs = splits(table, "small")
    train, test = pairs[min(seed, len(pairs) - 1)]
    train = np.random.default_rng(seed).permutation(train)[:n_samples]
    n_units = int(size.rstrip("%")) * (len(train) / 100 if size.endswith("%") else 1)
    network = ESTIMATORS[kind][table.task](int(n_units), random_state=seed)
    model = make_tabular_pipeline(network).fit(table.X.iloc[train], table.y[train])
    return table.task, 100 * model.score(table.X.iloc[test], table.y[test])


def main():
    args = arguments(
        data={"required": True, "type": Path, "help": "folder with .npz files"},
        samples={"default": "100,300,1000,4000"},
    )
    numbers = [int(n) for n in args.samples.split(",")]
    paths, rows = find_tables(args.data), []
    networks = [(kind, size) for kind, sizes in SIZES.items() for size in sizes]
    # Each process has one core, also for the threads of the networks.
    with Parallel(os.cpu_count(), inner_max_num_threads=1) as parallel:
        for n, (kind, size) in product(numbers, networks):
            results = parallel(
                delayed(fit_and_score)(path, seed, n, kind, size)
                for path, seed in product(paths, SEEDS)
            )
            for task, name in (("classification", "accuracy, %"), ("regression", "R2, %")):
                mean = np.mean([score for of_task, score in results if of_task == task])
                rows.append((f"{n} samples, {size} {kind} units: {name}", mean))
            print(*rows[-2:], flush=True)
    report(args, "hidden sizes: networks of few samples", rows)


if __name__ == "__main__":
    main()
