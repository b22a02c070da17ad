"""Measure the cost of automatic hyperparameters, and whether more units reduce accuracy.

python benchmarks/automatic.py [--device cpu|cuda] [--rows 4000 20000] [--json FILE]
    [--data DIR] [--picture FILE]

Times: fits with automatic hyperparameters and fits with the selected values given, alternately.
With DIR, which contains tabular/*.npz, also the accuracy of RBFClassifier and TanhClassifier with
250 units up to 0.95 of the samples, on up to 4,000 samples of each dataset: for each size, its
loss relative to the best smaller one.
"""

from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier, make_tabular_pipeline
from sklearn_fsvc._src.tuning import medians

FEATURES = 30
PARTS = 0.95


def fits(device, X, y):
    """Return {name: (automatic estimator, one with the selected values)}."""
    plain = {"feature_weights": None, "random_state": 0, "device": device}
    for kernel in ("laplacian", "triangular"):
        fitted = RBFClassifier(kernel=kernel, **plain).fit(X, y)
        given = {"radius": fitted.radius_, "alpha": fitted.alpha_}
        n_hidden = len(fitted.centers_)
        yield (
            f"radius and alpha, {kernel}",
            RBFClassifier(n_hidden, kernel=kernel, **plain),
            RBFClassifier(n_hidden, kernel=kernel, **given, **plain),
        )
    learned = plain | {"feature_weights": "learned", "kernel": "laplacian", "alpha": 1.0}
    fitted = RBFClassifier(n_hidden, **learned).fit(X, y)
    weights = np.ones(X.shape[1]) if fitted.feature_weights_ is None else fitted.feature_weights_
    yield (
        "feature weights",
        RBFClassifier(n_hidden, **learned | {"radius": fitted.radius_}),
        RBFClassifier(n_hidden, **learned | {"radius": fitted.radius_, "feature_weights": weights}),
    )
    yield (
        "alpha, TanhClassifier",
        TanhClassifier(4000, feature_weights=None, random_state=0, device=device),
        TanhClassifier(4000, feature_weights=None, alpha=1.0, random_state=0, device=device),
    )


def times(args):
    rows = []
    for n in args.rows:
        X, y = make_classification(n, FEATURES, n_informative=10, n_classes=4, random_state=0)
        X = X.astype(np.float32)
        for name, automatic, given in fits(args.device, X, y):
            both = {"automatic": partial(automatic.fit, X, y), "given": partial(given.fit, X, y)}
            durations = medians(both, args.repeats, seconds=600)
            ratio = durations["automatic"] / durations["given"]
            rows.append((f"{n} rows, {name}: automatic, s", durations["automatic"]))
            rows.append((f"{n} rows, {name}: automatic / given", ratio))
    report(args, f"Automatic and given, {args.device}", rows)


def sizes(n_rows):
    return [n for n in (250, 500, 1000, 2000) if n < PARTS * n_rows] + [int(PARTS * n_rows)]


def sweep(args):
    """Return {dataset: (sizes, accuracies)}, and the report of losses."""
    from _tabular_data import find_tables, read_table, splits

    curves, rows = {}, []
    for cls in (RBFClassifier, TanhClassifier):
        for path in find_tables(args.data):
            table = read_table(path)
            if table.task != "classification":
                continue
            train, test = splits(table, "small")[0]
            results = []
            for size in sizes(len(train)):
                model = make_tabular_pipeline(cls(size, random_state=0, device=args.device))
                model.fit(table.X.iloc[train], table.y[train])
                results.append(100 * model.score(table.X.iloc[test], table.y[test]))
            curves[cls.__name__, path.stem] = sizes(len(train)), results
            losses = np.maximum.accumulate(results) - results
            rows.append((f"{cls.__name__}, {path.stem}: largest fall, points", max(losses)))
            print(cls.__name__, path.stem, np.round(results, 2), flush=True)
    report(args, f"More units, {args.device}", rows)
    return curves


def draw(curves, path):
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    names = sorted({cls for cls, _ in curves})
    figure, axes = plt.subplots(1, len(names), figsize=(11, 5), sharey=True, layout="constrained")
    for axis, name in zip(axes, names, strict=True):
        for (cls, table), (units, accuracy) in curves.items():
            if cls != name:
                continue
            losses = accuracy - np.maximum.accumulate(accuracy)
            is_far = min(losses) < -0.7
            axis.plot(units, losses, ".-", color="tab:red" if is_far else "0.5", lw=1)
            if is_far:
                axis.annotate(f"{table} ", (units[-1], losses[-1]), ha="right", color="tab:red")
        axis.axhline(-0.7, color="tab:red", ls=":", lw=1)
        axis.set(title=name, xscale="log", xlabel="hidden units, up to 0.95 of the rows")
        axis.set_xticks([250, 500, 1000, 2000, 4000], ["250", "500", "1000", "2000", "4000"])
        axis.xaxis.set_minor_locator(NullLocator())
    axes[0].set_ylabel("points of accuracy below the best of fewer units")
    figure.savefig(path, dpi=120)


def main(args):
    if args.rows:
        times(args)
    if args.data:
        curves = sweep(args)
        if args.picture:
            draw(curves, args.picture)


if __name__ == "__main__":
    main(
        arguments(
            data={"type": Path},
            rows={"type": int, "nargs": "*", "default": [4000, 20_000]},
            device={"default": "cpu"},
            repeats={"type": int, "default": 3},
            picture={"type": Path},
        )
    )
