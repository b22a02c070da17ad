"""Compare prediction sets with those of MAPIE around the same classifiers.

python benchmarks/prediction_sets.py --data DIR [--sets a,b] [--methods "RBFClassifier; ..."]
    [--json FILE]

DIR is that of `tabular.py`, with all splits of its small track: up to 4000 samples to fit and 4000
to test. For each classification dataset, method and confidence level, the means over the splits:
the coverage, the number of classes in a set, the empty sets, and the CPU seconds of the fit.
Sets of `predict_set` are never empty, so their coverage is at least the accuracy. MAPIE is skipped
if it is not installed; its sets are least ambiguous, too ("lac"), calibrated on a fifth of the
samples, which is held out, or by five folds.
"""

from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.model_selection import train_test_split

from _report import arguments, available, report_datasets, timed
from _tabular_data import LEAKY, find_tables, read_table, splits
from sklearn_fsvc import RBFClassifier, StackedClassifier, TanhClassifier, make_tabular_pipeline

LEVELS, MAX_TEST = (0.9, 0.95, 0.99), 4000
MEASURED = [
    f"{what} at {100 * level:g} %"
    for level in LEVELS
    for what in ("coverage, %", "classes per set", "empty sets, %")
]
MEASURED += ["accuracy, %", "fit, CPU s"]


# Each method returns classes, predictions for X_test, sets (n_samples, n_classes, n_levels), and
# the CPU seconds of its fit.


def ours(network, X, y, X_test):
    model, seconds = timed(
        make_tabular_pipeline(network(random_state=0)).fit, X, y, clock=process_time
    )
    X_test = model[:-1].transform(X_test)
    sets = [model[-1].predict_set(X_test, level) for level in LEVELS]
    return model.classes_, model[-1].predict(X_test), np.stack(sets, axis=2), seconds


def split_conformal(network, X, y, X_test):
    from mapie.classification import SplitConformalClassifier

    def fit():
        X_fit, X_held, y_fit, y_held = train_test_split(X, y, test_size=0.2, random_state=0)
        model = make_tabular_pipeline(network(random_state=0)).fit(X_fit, y_fit)
        is_known = np.isin(y_held, model.classes_)
        mapie = SplitConformalClassifier(model, confidence_level=LEVELS)
        return model, mapie.conformalize(X_held[is_known], y_held[is_known])

    (model, mapie), seconds = timed(fit, clock=process_time)
    return model.classes_, *mapie.predict_set(X_test), seconds


def cross_conformal(network, X, y, X_test):
    from mapie.classification import CrossConformalClassifier

    # Each fold needs all classes.
    classes, counts = np.unique(y, return_counts=True)
    frequent = np.isin(y, classes[counts >= 10])
    model = make_tabular_pipeline(network(random_state=0))
    mapie = CrossConformalClassifier(model, confidence_level=LEVELS, cv=5)
    _, seconds = timed(mapie.fit_conformalize, X[frequent], y[frequent], clock=process_time)
    return classes[counts >= 10], *mapie.predict_set(X_test), seconds


MAPIE = {"split": split_conformal, "5 folds": cross_conformal}
NETWORKS = RBFClassifier, TanhClassifier, StackedClassifier
# Name -> (packages, function of X, y and X_test).
METHODS = {
    **{network.__name__: ((), partial(ours, network)) for network in NETWORKS},
    **{
        f"MAPIE, {kind}, {network.__name__}": (("mapie",), partial(method, network))
        for network in NETWORKS[:2]
        for kind, method in MAPIE.items()
    },
}


def measure(method, X, y, X_test, y_test):
    """Return the values of `MEASURED`."""
    classes, predicted, sets, seconds = method(X, y, X_test)
    is_class = y_test[:, None] == classes  # all False if the class is missing in the fit
    sizes, results = sets.sum(axis=1), []
    for k in range(len(LEVELS)):
        covered = (sets[:, :, k] & is_class).any(axis=1)
        results += [100 * covered.mean(), sizes[:, k].mean(), 100 * np.mean(sizes[:, k] == 0)]
    return [*results, 100 * np.mean(predicted == y_test), seconds]


def main(args):
    names = available(METHODS, args.methods)
    results = {name: {} for name in names}
    for path in find_tables(args.data, args.sets and args.sets.split(",")):
        table = read_table(path)
        if table.task != "classification" or table.name in LEAKY:
            continue
        values = {name: [] for name in names}
        for train, test in splits(table, "small"):
            test = np.random.default_rng(0).permutation(test)[:MAX_TEST]
            X, X_test = table.X.iloc[train], table.X.iloc[test]
            for name in names:
                method = METHODS[name][1]
                values[name].append(measure(method, X, table.y[train], X_test, table.y[test]))
        print(f"\n{table.name}")
        for name in names:
            results[name][table.name] = means = np.mean(values[name], axis=0)
            print(f"{name:32}" + "".join(f"{value:8.4g}" for value in means), flush=True)
    report_datasets(args, "prediction sets", MEASURED, results)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True, "type": Path}, sets={"default": None},
            methods={"default": None},
        )
    )  # fmt: skip
