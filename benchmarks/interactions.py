"""How far the leave-one-out error of networks behind crosses is from that of new rows.

python benchmarks/crosses.py [--tables 8] [--json FILE]

Synthetic tables: two columns of categories, whose pairs of levels each have an effect of their own
on y, drawn at random, and a number. Behind `make_tabular_pipeline`: the ensemble as it is, and
one whose networks learn no weights of the features, each with crosses and without. The error
that `loo_error_` claims, that of five-fold cross-validation of the whole pipeline, and that of
5,000 new rows: mean squared errors, their means over tables; and new rows : claimed.
"""

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_predict

from _report import arguments, report
from sklearn_fsvc import RBFRegressor, StackedRegressor, TanhRegressor, make_tabular_pipeline

# Levels of a column, and rows: 1, 8 and 80 rows a cell.
SIZES = ((30, 800), (10, 800), (5, 2000))
NETWORKS = [(cls.__name__, cls(feature_weights=None)) for cls in (RBFRegressor, TanhRegressor)]
ENSEMBLES = {
    "as it is": StackedRegressor(random_state=0),
    "no feature weights": StackedRegressor(NETWORKS, random_state=0),
}


def rows(n, effects, rng):
    a, b = rng.integers(len(effects), size=(2, n))
    number = rng.normal(size=n)
    y = effects[a, b] + 0.5 * number + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"a": a.astype(str), "b": b.astype(str), "number": number}), y


def errors(ensemble, crosses, n_levels, n_rows, seed):
    """What is claimed, by cross-validation, and of new rows."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(size=(n_levels, n_levels))
    (X, y), (X_new, y_new) = rows(n_rows, effects, rng), rows(5000, effects, rng)
    model = make_tabular_pipeline(ensemble)
    if not crosses:
        model.set_params(preprocessing__crosses="drop")
    validated = np.square(cross_val_predict(model, X, y, cv=5) - y).mean()
    model.fit(X, y)
    new = np.square(model.predict(X_new) - y_new).mean()
    return model[-1].loo_error_ * y.var(), validated, new


def main(args):
    for n_levels, n_rows in SIZES:
        table = []
        for name, ensemble in ENSEMBLES.items():
            for crosses in (True, False):
                found = [errors(ensemble, crosses, n_levels, n_rows, i) for i in range(args.tables)]
                claimed, validated, new = np.transpose(found)
                who = f"{name}, {'crosses' if crosses else 'none'}"
                table += [
                    (f"{who}: claimed", claimed.mean()),
                    (f"{who}: cross-validation", validated.mean()),
                    (f"{who}: new rows", new.mean()),
                    (f"{who}: new rows : claimed, median", np.median(new / claimed)),
                    (f"{who}: new rows : claimed, most", (new / claimed).max()),
                ]
        report(args, f"crosses: {n_levels} levels, {n_rows} rows", table, tables=args.tables)


if __name__ == "__main__":
    main(arguments(tables={"type": int, "default": 8}))
