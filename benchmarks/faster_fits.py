"""Measure accuracy and time of RBF networks with fewer automatic choices, or fewer units.

python benchmarks/faster_fits.py --data DIR [--sets NAME ...] [--json FILE]

DIR contains tabular/*.npz. The first split of the small track of each dataset, of `tabular.py`:
mean accuracy or R2 in %, and median seconds of a fit, with the preprocessing.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np

from _report import arguments, report, timed
from _tabular_data import LEAKY, find_tables, read_table, splits
from _tabular_methods import NETWORKS
from sklearn_fsvc import make_tabular_pipeline

LEARNED, LAPLACIAN = {"feature_weights": "learned"}, {"kernel": "laplacian"}
VARIANTS = {
    "defaults": {},
    'feature_weights="learned"': LEARNED,
    'kernel="laplacian"': LAPLACIAN,
    "both": LEARNED | LAPLACIAN,
    "both, 1000 units": LEARNED | LAPLACIAN | {"n_hidden": 1000},
}


def measure(table, params):
    """Return the accuracy or R2 in %, and the seconds of the fit."""
    train, test = next(iter(splits(table, "small")))
    network = NETWORKS[table.task][0](random_state=0, **params)
    X, y, model = table.X.iloc[train], table.y[train], make_tabular_pipeline(network)
    _, seconds = timed(model.fit, X, y)
    return 100 * model.score(table.X.iloc[test], table.y[test]), seconds


def main(args):
    measured = defaultdict(lambda: defaultdict(list))
    for table in map(read_table, find_tables(args.data, args.sets)):
        if table.name in LEAKY:
            continue
        for name, params in VARIANTS.items():
            measured[table.task][name].append(measure(table, params))
    for task, by_variant in measured.items():
        rows = []
        for name, pairs in by_variant.items():
            scores, seconds = np.transpose(pairs)
            rows.append((f"{name}: score, %", np.mean(scores)))
            rows.append((f"{name}: fit, s", np.median(seconds)))
        report(args, f"RBF networks with fewer automatic choices, {task}", rows)


if __name__ == "__main__":
    main(
        arguments(
            data={"type": Path, "required": True},
            sets={"nargs": "+"},
        )
    )
