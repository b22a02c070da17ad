"""Score networks of few samples whose hyperparameters several splits select, or a single one.

python benchmarks/splits.py --data DIR [--samples 60,150,500] [--json FILE]

Over the datasets in DIR (see `tabular.py`), two random subsets of the samples each, and two
seeds of the networks: mean accuracy or R2 in % on 1000 test samples, standard deviation between
seeds, and median seconds of a fit, beside other methods of `tabular.py`, with the same
preprocessing. R2 is at least -100.
"""

import warnings
from collections import defaultdict
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np

from _report import arguments, report, timed
from _tabular_data import find_tables, read_table, sample, subsample
from _tabular_methods import METHODS
from sklearn_fsvc._src.hidden_layers import proxy_networks

N_TEST = 1000
NETWORKS, PEERS, SEEDS = ("rbf", "tanh", "stacked"), ("forest", "svc", "linear"), range(2)


@contextmanager
def at_most(n_splits):
    before = proxy_networks._MAX_SPLITS
    proxy_networks._MAX_SPLITS = n_splits
    yield
    proxy_networks._MAX_SPLITS = before


def variants():
    """Yield (name, method, number of splits, seeds)."""
    for method in NETWORKS:
        for name, n_splits in (("one split", 1), ("several splits", proxy_networks._MAX_SPLITS)):
            yield f"{METHODS[method].label}, {name}", method, n_splits, SEEDS
    for method in PEERS:
        yield METHODS[method].label, method, 1, SEEDS[:1]


def build(method, task, seed):
    model = METHODS[method].factory(task)("cpu")
    if method in NETWORKS:
        model[-1].set_params(random_state=seed)
    return model


def score(table, model, train, test):
    """Return the accuracy or R2, in %, and the seconds of the fit."""
    _, seconds = timed(model.fit, table.X.iloc[train], table.y[train])
    return 100 * max(-1.0, model.score(table.X.iloc[test], table.y[test])), seconds


def scores_of(table, n_samples, subset):
    """Return {name: (mean score, standard deviation between seeds, median seconds)}."""
    test = sample(table.strata, N_TEST, 99)
    rest = np.setdiff1d(np.arange(len(table.y)), test)
    train, found = subsample(rest, table.strata, n_samples, subset), {}
    for name, method, n_splits, seeds in variants():
        with at_most(n_splits):
            pairs = [score(table, build(method, table.task, seed), train, test) for seed in seeds]
        scores, seconds = np.transpose(pairs)
        found[name] = np.mean(scores), np.std(scores), np.median(seconds)
    return found


def main():
    warnings.simplefilter("ignore")
    args = arguments(
        data={"type": Path, "required": True},
        samples={"default": "60,150,500"},
    )
    tables = [read_table(path) for path in find_tables(args.data)]
    for n_samples in map(int, args.samples.split(",")):
        results = defaultdict(lambda: defaultdict(list))
        for table, subset in product(tables, range(2)):
            for name, values in scores_of(table, n_samples, subset).items():
                results[table.task][name].append(values)
        for task, by_method in results.items():
            rows = []
            for name, values in by_method.items():
                means, deviations, seconds = np.transpose(values)
                rows += [
                    (f"{name}: score, %", np.mean(means)),
                    (f"{name}: between seeds, %", np.mean(deviations)),
                    (f"{name}: fit, s", np.median(seconds)),
                ]
            report(args, f"splits: {n_samples} samples, {task}", rows)


if __name__ == "__main__":
    main()
