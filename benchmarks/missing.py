"""Measure the effect of missing-value indicators on datasets.

python benchmarks/missing.py --data DIR [--device cpu] [--sets NAME ...] [--json FILE]

DIR contains tabular/*.npz: up to 2,000 training samples of each, the first split, and 10,000 test
samples. A fifth of the values of every second feature is removed: at random, or the largest ones,
where missingness is informative. Then both networks in `make_tabular_pipeline`, with and without
missing-value indicators.
"""

from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

from _report import arguments, report
from _tabular_data import find_tables, read_table, splits, subsample
from _tabular_methods import NETWORKS
from sklearn_fsvc import make_tabular_pipeline

WAYS = {"indicator": {}, "median alone": {"preprocessing__missing": "drop"}}
PART = 0.2


def at_random(column, rng):
    return rng.random(len(column)) < PART


def the_largest(column, rng):
    """Return a mask of the largest values, with random ties, of the given size."""
    order = np.lexsort((rng.random(len(column)), column))
    return np.isin(np.arange(len(column)), order[int((1 - PART) * len(column)) :])


def with_missing(X, which):
    """Return the dataset with missing values in every second numerical feature."""
    X, rng = X.copy(), np.random.default_rng(0)
    for name in [name for name in X if name.startswith("x")][::2]:
        X[name] = X[name].where(~which(X[name].to_numpy(), rng))
    return X


def gains(args, which):
    """Return {(network, preprocessing): scores in %} of all datasets with numerical features."""
    results = {}
    for path in find_tables(args.data, args.sets):
        table = read_table(path)
        if not any(name.startswith("x") for name in table.X):
            continue
        train, test = splits(table, "small")[0]
        train, test = (
            subsample(rows, table.strata, n, 0) for rows, n in ((train, 2000), (test, 10_000))
        )
        X = with_missing(table.X, which)
        for cls in NETWORKS[table.task]:
            for way, params in WAYS.items():
                model = make_tabular_pipeline(cls(random_state=0, device=args.device))
                model.set_params(**params).fit(X.iloc[train], table.y[train])
                score = model.score(X.iloc[test], table.y[test])
                results.setdefault((cls.__name__[:3], way), []).append(100 * score)
        print(path.stem, {key: round(each[-1], 1) for key, each in results.items()}, flush=True)
    return results


def main(args):
    for which in (at_random, the_largest):
        results, rows = gains(args, which), []
        for network in dict.fromkeys(network for network, _ in results):
            ours, others = (np.array(results[network, way]) for way in WAYS)
            gain = ours - others
            rows += [
                (f"{network}, {way}: mean score, %", np.mean(results[network, way])) for way in WAYS
            ]
            rows += [
                (f"{network}, gain: median, points", np.median(gain)),
                (f"{network}, gain: least", gain.min()),
                (f"{network}, gain: most", gain.max()),
                (f"{network}, tables better", (gain > 0).sum()),
                (f"{network}, tables worse", (gain < 0).sum()),
                (f"{network}, p of Wilcoxon's test", wilcoxon(gain).pvalue),
            ]
        title = which.__name__.replace("_", " ")
        report(args, f"missing: {title}", rows, tables=len(gain))


if __name__ == "__main__":
    main(
        arguments(
            data={"type": Path, "required": True},
            device={"default": "cpu"},
            sets={"nargs": "+"},
        )
    )
