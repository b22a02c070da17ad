"""Compare ensembles of a network and boosted trees with each alone.

python benchmarks/with_trees.py --data DIR [--sets a,b] [--splits 1] [--json FILE]

The small track of `tabular.py`: up to 4,000 training samples, all parameters at their defaults.
Compared are a tabular pipeline of an RBF network, `HistGradientBoostingClassifier` on the same
columns (`categorical_features="from_dtype"`), the mean of their predictions (`VotingClassifier`
with soft voting, `VotingRegressor`), scikit-learn's `StackingClassifier` and `StackingRegressor` of
both with five folds, the stacked ensemble of networks, and the mean of this and the trees. Accuracy
or R^2 in % and log-loss, as means over the datasets; "best on" is on how many datasets a model is
the best (ties go to the first).
"""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.metrics import log_loss

from _report import arguments, report
from _tabular_data import LEAKY, find_tables, read_table, splits
from sklearn_fsvc import RBFClassifier, RBFRegressor, make_tabular_pipeline


def make_models(task):
    if task == "classification":
        network, trees = (
            RBFClassifier(random_state=0),
            HistGradientBoostingClassifier(random_state=0),
        )
        mean, stack, options = VotingClassifier, StackingClassifier, {"voting": "soft"}
        ours = "classifier"
    else:
        network, trees = RBFRegressor(random_state=0), HistGradientBoostingRegressor(random_state=0)
        mean, stack, options = VotingRegressor, StackingRegressor, {}
        ours = "regressor"
    network, ensemble = make_tabular_pipeline(network), make_tabular_pipeline(ours, random_state=0)
    both = [("network", network), ("trees", trees)]
    return {
        "RBF network": network,
        "HistGradientBoosting": trees,
        "mean of both": mean(both, **options),
        "stacking of both": stack(both, cv=5),
        "make_tabular_pipeline()": ensemble,
        "mean of make_tabular_pipeline() and trees": mean(
            [("ensemble", ensemble), ("trees", trees)], **options
        ),
    }


def scores_of(model, table, train, test):
    """Return the score in %, and the log-loss (NaN in regression)."""
    X, y, X_test, y_test = table.X.iloc[train], table.y[train], table.X.iloc[test], table.y[test]
    model.fit(X, y)
    loss = np.nan
    if table.task == "classification":
        known = np.isin(y_test, model.classes_)
        loss = log_loss(y_test[known], model.predict_proba(X_test[known]), labels=model.classes_)
    return 100 * model.score(X_test, y_test), loss


def main(args):
    records = []
    for path in find_tables(args.data, args.sets and args.sets.split(",")):
        table = read_table(path)
        if table.name in LEAKY:
            continue
        for split, (train, test) in enumerate(splits(table, "small")[: args.splits]):
            for name, model in make_models(table.task).items():
                values = scores_of(model, table, train, test)
                records.append((table.task, table.name, split, name, *values))
                print(*records[-1][1:], flush=True)
    columns = ["task", "set", "split", "model", "score", "log-loss"]
    records = pd.DataFrame(records, columns=columns)
    for task, of in records.groupby("task"):
        of_sets = of.groupby(["set", "model"])[["score", "log-loss"]].mean().unstack()
        best = of_sets["score"].idxmax(axis=1).value_counts()
        rows = []
        for name in make_models(task):
            means = of_sets.xs(name, axis=1, level="model").mean()
            rows += [(f"{name}: {score}", value) for score, value in means.dropna().items()]
            rows.append((f"{name}: best on", best.get(name, 0)))
        report(args, f"with trees: {task}", rows, datasets=len(of_sets), splits=args.splits)


if __name__ == "__main__":
    main(arguments(
        data={"type": Path, "required": True}, sets={}, splits={"type": int, "default": 1}
    ))  # fmt: skip
