"""Measure prediction intervals of the regressors: coverage, width and cost.

python benchmarks/uncertainty.py --data DIR [--json FILE] [--device cuda] [--sets a,b]

DIR is that of `tabular.py`, with the samples of its small track. An interval is the prediction
plus and minus 1.645 standard deviations: its nominal coverage is 90 % for normal residuals.
Coverage and width are means over the splits; the cost is the ratio of the medians of fits with
``uncertainty=True`` and without, alternately.
"""

import time
from pathlib import Path

import numpy as np
from scipy.stats import norm

from _report import arguments, report
from _tabular_data import find_tables, read_table, splits
from sklearn_fsvc import RBFRegressor, TanhRegressor, make_tabular_pipeline

NOMINAL = 0.9
WARM_UP_ROWS = 1000


def seconds(model, X, y):
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def band(model, X, y):
    """Return the coverage, and the mean width in standard deviations of y."""
    mean, std = model.predict(X, return_std=True)
    half = norm.ppf((1 + NOMINAL) / 2) * std
    return np.mean(np.abs(y - mean) <= half), np.mean(2 * half) / y.std()


def measure(kind, table, device):
    """Return coverage in %, relative width, R^2 and cost for one dataset."""
    without, with_bands = (
        make_tabular_pipeline(kind(uncertainty=flag, random_state=0, device=device))
        for flag in (False, True)
    )
    pairs = splits(table, "small")
    few = pairs[0][0][:WARM_UP_ROWS]
    with_bands.fit(table.X.iloc[few], table.y[few])
    fits, bands, scores = [], [], []
    for train, test in pairs:
        X, y, X_test, y_test = (
            table.X.iloc[train],
            table.y[train],
            table.X.iloc[test],
            table.y[test],
        )
        fits.append([seconds(model, X, y) for model in (without, with_bands)])
        bands.append(band(with_bands, X_test, y_test))
        scores.append(with_bands.score(X_test, y_test))
    (coverage, width), (plain, priced) = np.mean(bands, axis=0), np.median(fits, axis=0)
    return 100 * coverage, width, 100 * np.mean(scores), priced / plain


def main(args):
    measured = (f"coverage of {NOMINAL:.0%}, %", "width / std of y", "R^2, %", "fit with / without")
    for kind in (RBFRegressor, TanhRegressor):
        rows, results = [], []
        for path in find_tables(args.data, args.sets and args.sets.split(",")):
            table = read_table(path)
            if table.task == "regression":
                results.append(measure(kind, table, args.device))
                rows += [
                    (f"{table.name}: {name}", float(value))
                    for name, value in zip(measured, results[-1], strict=True)
                ]
        means = zip(measured, np.mean(results, axis=0), strict=True)
        rows += [(f"mean: {name}", float(value)) for name, value in means]
        report(args, f"uncertainty: {kind.__name__}", rows, device=args.device)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True, "type": Path}, device={"default": "cpu"}, sets={"default": None}
        )
    )
