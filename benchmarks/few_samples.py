"""Score regressors on 10 to 160 samples with ranks and values, and with values only.

python benchmarks/few_samples.py --data DIR [--samples 10,15,20,30,50,80] [--seeds 3] [--json FILE]

Below which number of samples `make_tabular_pipeline` of a regressor leaves out ranks. Mean R2 in %,
at least -100 each, over the regression datasets in DIR (see `tabular.py`) and random subsets of
their samples, on 500 test samples.
"""

import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

from _report import arguments, report
from _tabular_data import find_tables, read_table, sample, subsample
from sklearn_fsvc import RBFRegressor, TanhRegressor, make_tabular_pipeline
from sklearn_fsvc._src.tabular.column_selector import ColumnSelector
from sklearn_fsvc._src.tabular.scalers import MedianImputer, RankScaler, ValueScaler

N_TEST = 500


def step(scaler):
    return make_pipeline(MedianImputer(), scaler)


def make_models(estimator):
    """Yield (name, pipeline) with each scaling of the numerical features."""
    features = {"ranks and values": [RankScaler, ValueScaler], "values": [ValueScaler]}
    for name, scalers in features.items():
        model = make_tabular_pipeline(estimator(target_transform="auto", random_state=0))
        steps = {step[0]: step for step in model[0].transformers}
        for part, scaler in zip(("numerical", "values"), [*scalers, None], strict=False):
            selector = ColumnSelector("numerical")
            steps[part] = (part, "drop" if scaler is None else step(scaler()), selector)
        model[0].transformers = list(steps.values())
        yield name, model


def scores(table, n_samples, seed, estimator):
    """Return {name: R2 in %} of the models."""
    test = sample(table.strata, N_TEST, 99)
    rest = np.setdiff1d(np.arange(len(table.y)), test)
    train = subsample(rest, table.strata, n_samples, seed)
    return {
        name: 100 * max(-1.0, model.fit(*rows(table, train)).score(*rows(table, test)))
        for name, model in make_models(estimator)
    }


def rows(table, numbers):
    return table.X.iloc[numbers], table.y[numbers]


def main():
    warnings.simplefilter("ignore")
    args = arguments(
        data={"required": True, "type": Path, "help": "folder with .npz files"},
        samples={"default": "10,15,20,30,50,80"},
        seeds={"type": int, "default": 3},
    )
    tables = [read_table(path) for path in find_tables(args.data)]
    tables = [table for table in tables if table.task == "regression"]
    results = []
    for n, estimator in product(map(int, args.samples.split(",")), (RBFRegressor, TanhRegressor)):
        pairs = product(tables, range(args.seeds))
        each = [scores(table, n, seed, estimator) for table, seed in pairs]
        for name in each[0]:
            mean = np.mean([one[name] for one in each])
            results.append((f"{estimator.__name__}, {n} samples, {name}", mean))
            print(*results[-1], flush=True)
    report(args, "few samples: R2, %", results)


if __name__ == "__main__":
    main()
