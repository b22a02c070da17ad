"""Score RBF networks with a part of few training samples as units, or all of them.

python benchmarks/hidden_sizes.py --data DIR [--samples 100,300,1000,2000] [--json FILE]

Which number of units is right by default: 1/2, 3/4 or all of the samples. Mean accuracy and R2 in
%, over the datasets in DIR (see `tabular.py`) and three random subsets of their training samples.
"""

import os
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from _report import arguments, report
from _tabular_data import SEEDS, find_tables, read_table, splits
from sklearn_fsvc import RBFClassifier, RBFRegressor, make_tabular_pipeline

PARTS = 0.5, 0.75, 1.0
ESTIMATORS = {"classification": RBFClassifier, "regression": RBFRegressor}


def fit_and_score(path, seed, n_samples, part):
    """Return the task and the score in %."""
    warnings.filterwarnings("ignore", message="n_hidden=.*samples differ")
    table = read_table(path)
    pairs = splits(table, "small")
    train, test = pairs[min(seed, len(pairs) - 1)]
    train = np.random.default_rng(seed).permutation(train)[:n_samples]
    network = ESTIMATORS[table.task](int(part * len(train)), random_state=seed)
    model = make_tabular_pipeline(network).fit(table.X.iloc[train], table.y[train])
    return table.task, 100 * model.score(table.X.iloc[test], table.y[test])


def main():
    args = arguments(
        data={"required": True, "type": Path, "help": "folder with .npz files"},
        samples={"default": "100,300,1000,2000"},
    )
    sizes = [int(n) for n in args.samples.split(",")]
    paths, rows = find_tables(args.data), []
    # Each process has one core, also for the threads of the networks.
    with Parallel(os.cpu_count(), inner_max_num_threads=1) as parallel:
        for n, part in product(sizes, PARTS):
            results = parallel(
                delayed(fit_and_score)(path, seed, n, part) for path, seed in product(paths, SEEDS)
            )
            for task, name in (("classification", "accuracy, %"), ("regression", "R2, %")):
                mean = np.mean([score for kind, score in results if kind == task])
                rows.append((f"{n} samples, {part:.0%} as units: {name}", mean))
            print(*rows[-2:], flush=True)
    report(args, "hidden sizes: RBF networks of few samples", rows)


if __name__ == "__main__":
    main()
