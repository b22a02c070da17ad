"""Distil a slow classifier into a small network: accuracy, and time to predict.

python benchmarks/distillation.py --data DIR [--sets a,b] [--labelled 2000] [--units 1000]
    [--json FILE]

Classification datasets of numerical features. A teacher is fitted to the labelled samples. The
student, `StandardScaler` and a regressor of `units` hidden units, is fitted to log(p + 0.01) of the
teacher's class probabilities p for these and for up to 20,000 further samples, whose labels are not
used; it predicts the class with the largest output. "labels only" is the classifier with the same
units, fitted to the labelled samples. Accuracy is on up to 5,000 test samples, a mean over the
datasets. Times are those of 1,000 samples in a batch, and of a single sample, for the teacher
relative to the student, measured alternately; medians.
"""

from pathlib import Path
from time import perf_counter

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _report import arguments, report
from _tabular_data import find_tables, read_table, subsample
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    TanhClassifier,
    TanhRegressor,
    make_tabular_pipeline,
)

SETS = "electrical_grid,higgs_7500,letter,optdigits,page_blocks,skin"
N_TEST, N_UNLABELLED = 5000, 20_000
FLOOR = 0.01  # differences between small probabilities are noise
TEACHERS = {
    "make_tabular_pipeline()": make_tabular_pipeline(random_state=0),
    "ExtraTrees, 500 trees": ExtraTreesClassifier(500, n_jobs=-1, random_state=0),
    "LightGBM, 500 trees": LGBMClassifier(
        n_estimators=500, learning_rate=0.05, verbose=-1, random_state=0
    ),
}
STUDENTS = {"tanh": (TanhClassifier, TanhRegressor), "RBF": (RBFClassifier, RBFRegressor)}


def split_of(table, n_labelled):
    """Return the rows of labelled, unlabelled and test samples."""
    rows = np.random.default_rng(0).permutation(len(table.y))
    n_test = min(N_TEST, len(rows) // 4)
    test, rest = rows[:n_test], np.sort(rows[n_test:])
    labelled = subsample(rest, table.strata, n_labelled, 0)
    unlabelled = np.random.default_rng(0).permutation(np.setdiff1d(rest, labelled))
    return labelled, unlabelled[:N_UNLABELLED], test


def times_as_fast(student, teacher, X, n=7):
    """Return the ratio of median times of `predict`."""
    times = {student: [], teacher: []}
    for _ in range(n):
        for model, values in times.items():
            start = perf_counter()
            model.predict(X)
            values.append(perf_counter() - start)
    return np.median(times[teacher]) / np.median(times[student])


def scores_of(table, args):
    """Yield (name, value) of all models on a dataset."""
    labelled, unlabelled, test = split_of(table, args.labelled)
    X_all = table.X.to_numpy(np.float32)
    X, y, X_test, y_test = X_all[labelled], table.y[labelled], X_all[test], table.y[test]
    everything = X_all[np.concatenate([labelled, unlabelled])]

    def pipeline(network):
        return make_pipeline(StandardScaler(), network(args.units, random_state=0))

    for kind, (classifier, _) in STUDENTS.items():
        model = pipeline(classifier).fit(X, y)
        yield f"{kind}, labels only: accuracy, %", 100 * model.score(X_test, y_test)
    for name, teacher in TEACHERS.items():
        slow = teacher.fit(X, y)
        yield f"{name}: accuracy, %", 100 * slow.score(X_test, y_test)
        soft = np.log(slow.predict_proba(everything) + FLOOR)
        for kind, (_, regressor) in STUDENTS.items():
            fast = pipeline(regressor).fit(everything, soft)
            predicted = slow.classes_[fast.predict(X_test).argmax(axis=1)]
            key = f"{kind}, distilled from {name}"
            yield f"{key}: accuracy, %", 100 * np.mean(predicted == y_test)
            yield f"{key}: times as fast, batch", times_as_fast(fast, slow, X_test[:1000])
            yield f"{key}: times as fast, one sample", times_as_fast(fast, slow, X_test[:1])


def main(args):
    results = {}
    for path in find_tables(args.data, args.sets.split(",")):
        for name, value in scores_of(read_table(path), args):
            results.setdefault(name, []).append(value)
        print(path.stem, "done", flush=True)
    table = [
        (name, np.median(values) if "times" in name else np.mean(values))
        for name, values in results.items()
    ]
    report(
        args, f"distillation: students of {args.units} units", table,
        labelled=args.labelled, datasets=len(args.sets.split(",")),
    )  # fmt: skip


if __name__ == "__main__":
    main(
        arguments(
            data={"type": Path, "required": True},
            sets={"default": SETS},
            labelled={"type": int, "default": 2000},
            units={"type": int, "default": 1000},
        )
    )
