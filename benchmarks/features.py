"""Measure the effect of feature weights on datasets, raw and preprocessed, and their cost.

python benchmarks/features.py --data DIR [--device cpu] [--units 1000] [--json FILE]

DIR contains tabular/*.npz: up to 4,000 training samples of each, the first split. "as they come"
are the raw numerical features; "prepared" is `make_tabular_pipeline`.
"""

import time
from pathlib import Path

import numpy as np

from _report import arguments, report
from _tabular_data import find_tables, read_table, splits
from _tabular_methods import NETWORKS
from sklearn_fsvc import TanhRegressor, make_tabular_pipeline

WAYS = (None, "auto")
MIN_FEATURES = 3  # numerical features


def as_they_come(table, train, test):
    """Return raw X and X_test, or None if there are few numerical features."""
    names = [name for name in table.X if name.startswith("x")]
    if len(names) < MIN_FEATURES:
        return None
    X = table.X[names].to_numpy(np.float64)
    X = np.where(np.isnan(X), np.nanmedian(X[train], axis=0), X)
    return X[train], X[test]


def prepared(table, train, test):
    columns = make_tabular_pipeline(TanhRegressor())[:-1]
    X = columns.fit_transform(table.X.iloc[train])
    return X, columns.transform(table.X.iloc[test])


def scores(args, prepare):
    """Return {(network, preprocessing): (scores in %, seconds of fits)} of all datasets."""
    results, seconds = {}, {}
    for path in find_tables(args.data):
        table = read_table(path)
        train, test = splits(table, "small")[0]
        parts = prepare(table, train, test)
        if parts is None:
            continue
        for cls in NETWORKS[table.task]:
            size = {} if cls.__name__.startswith("RBF") else {"n_hidden": args.units}
            for way in WAYS:
                model = cls(feature_weights=way, random_state=0, device=args.device, **size)
                start = time.perf_counter()
                model.fit(parts[0], table.y[train])
                key = ("RBF" if not size else "tanh"), way
                seconds.setdefault(key, []).append(time.perf_counter() - start)
                results.setdefault(key, []).append(100 * model.score(parts[1], table.y[test]))
        print(path.stem, {key: round(each[-1], 1) for key, each in results.items()}, flush=True)
    return results, seconds


def main(args):
    for name, prepare in {"as they come": as_they_come, "prepared": prepared}.items():
        results, seconds = scores(args, prepare)
        rows = []
        for (network, way), each in results.items():
            what, median = f"{network}, feature_weights={way}", np.median(seconds[network, way])
            rows += [(f"{what}: mean score, %", np.mean(each)), (f"{what}: fit, median s", median)]
        rows.append(("tables", len(each)))
        report(args, f"features: tables {name}", rows, device=args.device)


if __name__ == "__main__":
    main(
        arguments(
            data={"type": Path, "required": True},
            device={"default": "cpu"},
            units={"type": int, "default": 1000},
        )
    )
