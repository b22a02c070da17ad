"""Measure the effect of mean targets of repeated values on datasets.

python benchmarks/repeated_values.py --data DIR [--device cpu] [--sets NAME ...] [--json FILE]

DIR contains tabular/*.npz. RBF and tanh networks in `make_tabular_pipeline`, with and without
"repeated_values", on up to 4,000 training samples of those datasets of which columns are encoded:
mean accuracy or R2 over the splits, in %. And a target that depends on two of eight columns, one of
them a code of 50 regions with a random effect each.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from _report import arguments, report
from _tabular_data import Table, find_tables, read_table, splits
from _tabular_methods import NETWORKS
from sklearn_fsvc import make_tabular_pipeline

WAYS = {"without": {"preprocessing__repeated_values": "drop"}, "with": {}}


def codes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 8))
    X[:, 0] = rng.integers(50, size=len(X))
    effect = rng.normal(size=50)[X[:, 0].astype(int)]
    y = effect + X[:, 1] + 0.5 * rng.normal(size=len(X)) > 0
    X = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    return Table("codes of regions", "classification", X, y)


def n_encoded(preprocessing):
    return sum(name.startswith("repeated_") for name in preprocessing.get_feature_names_out())


def mean_scores(table, device):
    """Yield names and values of a dataset; none if no column is encoded in any split."""
    rows = [(table.X.iloc[train], table.y[train], test) for train, test in splits(table, "small")]
    preprocessing = make_tabular_pipeline(NETWORKS[table.task][0]())[:-1]
    numbers = [n_encoded(preprocessing.fit(X, y)) for X, y, _ in rows]
    if not any(numbers):
        return
    yield "features", np.mean(numbers)
    for cls in NETWORKS[table.task]:
        for way, params in WAYS.items():
            model = make_tabular_pipeline(cls(random_state=0, device=device)).set_params(**params)
            scores = [
                model.fit(X, y).score(table.X.iloc[test], table.y[test]) for X, y, test in rows
            ]
            yield f"{cls.__name__[:3]}, {way}, %", 100 * np.mean(scores)


def main(args):
    rows = []
    tables = [codes(), *map(read_table, find_tables(args.data, args.sets))]
    for table in tables:
        for name, score in mean_scores(table, args.device):
            rows.append((f"{table.name}: {name}", score))
    report(args, "mean targets of repeated values", rows)


if __name__ == "__main__":
    main(
        arguments(
            data={"type": Path, "required": True},
            device={"default": "cpu"},
            sets={"nargs": "+"},
        )
    )
