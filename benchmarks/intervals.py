"""Compare 90 % prediction intervals with those of boosted trees and of MAPIE.

python benchmarks/intervals.py --data DIR [--sets a,b] [--methods "LightGBM; ..."] [--json FILE]

DIR is that of `tabular.py`, with the first split of its small track: up to 4000 samples to fit and
4000 to test. For each regression dataset and method: the coverage, the mean width and the pinball
loss of the 5 % and the 95 % quantile (its mean), both over the standard deviation of y, and the
seconds of the fit. The best possible loss is that of the true quantiles; a width is comparable at
the same coverage only. MAPIE, CatBoost and ChimeraBoost are left out where they are not installed.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import train_test_split

from _report import arguments, available, report_datasets, timed
from _tabular_data import find_tables, read_table, splits
from sklearn_fsvc import RBFRegressor, StackedRegressor, TanhRegressor, make_tabular_pipeline

NOMINAL, MAX_TEST = 0.9, 4000
ENDS = (1 - NOMINAL) / 2, (1 + NOMINAL) / 2
MEASURED = "coverage, %", "width / std of y", "pinball loss / std of y, %", "fit, s"


# Each method returns the ends of intervals for X_test, and the seconds of its fit.


def ours(network, X, y, X_test):
    model, seconds = timed(make_tabular_pipeline(network(random_state=0)).fit, X, y)
    return model[-1].predict_interval(model[:-1].transform(X_test), NOMINAL), seconds


def quantile_regressors(make, X, y, X_test):
    """Fit one quantile regressor for each end."""
    models, seconds = timed(lambda: [make(q).fit(X, y) for q in ENDS])
    return np.column_stack([model.predict(X_test) for model in models]), seconds


def conformalised(make, X, y, X_test):
    """Do the same, and shift the ends by the errors on a quarter of the samples.

    Y. Romano, E. Patterson and E. Candes 2019, "Conformalized quantile regression".
    """
    X, X_held, y, y_held = train_test_split(X, y, test_size=0.25, random_state=0)
    ends, seconds = quantile_regressors(make, X, y, pd.concat([X_held, X_test]))
    (low, high), tested = ends[: len(y_held)].T, ends[len(y_held) :]
    errors = np.maximum(low - y_held, y_held - high)
    shift = np.quantile(errors, NOMINAL, method="higher")
    return tested + [-shift, shift], seconds


def cv_plus(network, X, y, X_test):
    from mapie.regression import CrossConformalRegressor

    model = make_tabular_pipeline(network(random_state=0))
    mapie = CrossConformalRegressor(model, confidence_level=NOMINAL, method="plus", cv=5)
    _, seconds = timed(mapie.fit_conformalize, X, y)
    return mapie.predict_interval(X_test)[1][:, :, 0], seconds


def lightgbm(q):
    from lightgbm import LGBMRegressor

    return LGBMRegressor(objective="quantile", alpha=q, random_state=0, verbose=-1)


def hist_gradient_boosting(q):
    return HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0)


def catboost(X, y, X_test):
    from catboost import CatBoostRegressor

    loss = f"MultiQuantile:alpha={ENDS[0]:g},{ENDS[1]:g}"
    model = CatBoostRegressor(
        loss_function=loss, random_state=0, verbose=False, allow_writing_files=False
    )
    X, X_test = with_codes(X), with_codes(X_test)
    _, seconds = timed(model.fit, X, y, cat_features=categorical(X))
    return model.predict(X_test), seconds


def chimeraboost(X, y, X_test):
    from chimeraboost import ChimeraBoostQuantileRegressor

    model = ChimeraBoostQuantileRegressor(ENDS, random_state=0)
    X, X_test = with_codes(X), with_codes(X_test)
    _, seconds = timed(model.fit, X, y, cat_features=categorical(X))
    return model.predict(X_test), seconds


def categorical(X):
    return [j for j, name in enumerate(X) if name.startswith("c")]


def with_codes(X):
    """Return the table with categories as integers."""
    return X.assign(**{name: X[name].cat.codes.astype(int) for name in X if name[0] == "c"})


NETWORKS = RBFRegressor, TanhRegressor, StackedRegressor
# Name -> (packages, function of X, y and X_test).
METHODS = {
    **{network.__name__: ((), partial(ours, network)) for network in NETWORKS},
    **{
        f"MAPIE CV+, {network.__name__}": (("mapie",), partial(cv_plus, network))
        for network in NETWORKS[:2]
    },
    "LightGBM": (("lightgbm",), partial(quantile_regressors, lightgbm)),
    "LightGBM, conformalised": (("lightgbm",), partial(conformalised, lightgbm)),
    "HistGradientBoosting": ((), partial(quantile_regressors, hist_gradient_boosting)),
    "CatBoost": (("catboost",), catboost),
    "ChimeraBoost": (("chimeraboost",), chimeraboost),
}


def measure(method, X, y, X_test, y_test):
    """Return the values of `MEASURED`."""
    ends, seconds = method(X, y, X_test)
    low, high = np.sort(ends, axis=1).T
    loss = np.mean(
        [mean_pinball_loss(y_test, end, alpha=q) for end, q in zip((low, high), ENDS, strict=True)]
    )
    covered = np.mean((low <= y_test) & (y_test <= high))
    return 100 * covered, np.mean(high - low) / y.std(), 100 * loss / y.std(), seconds


def main(args):
    names = available(METHODS, args.methods)
    results = {name: {} for name in names}
    for path in find_tables(args.data, args.sets and args.sets.split(",")):
        table = read_table(path)
        if table.task != "regression":
            continue
        train, test = splits(table, "small")[0]
        test = np.random.default_rng(0).permutation(test)[:MAX_TEST]
        X, X_test = table.X.iloc[train], table.X.iloc[test]
        print(f"\n{table.name:26}" + "".join(f"{what:>28}" for what in MEASURED))
        for name in names:
            values = measure(METHODS[name][1], X, table.y[train], X_test, table.y[test])
            results[name][table.name] = values
            print(f"{name:26}" + "".join(f"{value:28.4g}" for value in values), flush=True)
    report_datasets(args, "intervals", MEASURED, results)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True, "type": Path}, sets={"default": None},
            methods={"default": None},
        )
    )  # fmt: skip
