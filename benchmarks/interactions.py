"""Compare the leave-one-out error of networks on interaction features with the test error.

python benchmarks/interactions.py [--datasets 8] [--json FILE]

Synthetic regression datasets: two categorical features, each pair of whose categories has a random
effect on the target, and a numerical feature. Behind `make_tabular_pipeline` with and without
interaction features: the default stacked ensemble, and one without learned feature weights. Mean
squared errors, averaged over the datasets: `loo_error_`, five-fold cross-validation of the whole
pipeline, and 5,000 test samples; and the ratios of test error and `loo_error_`.
"""

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_predict

from _report import arguments, report
from sklearn_fsvc import RBFRegressor, StackedRegressor, TanhRegressor, make_tabular_pipeline

# (Categories per feature, samples): 1, 8 and 80 samples per cell.
SIZES = ((30, 800), (10, 800), (5, 2000))
NETWORKS = [(cls.__name__, cls(feature_weights=None)) for cls in (RBFRegressor, TanhRegressor)]
ENSEMBLES = {
    "default": StackedRegressor(random_state=0),
    "no feature weights": StackedRegressor(NETWORKS, random_state=0),
}


def make_samples(n, effects, rng):
    a, b = rng.integers(len(effects), size=(2, n))
    number = rng.normal(size=n)
    y = effects[a, b] + 0.5 * number + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"a": a.astype(str), "b": b.astype(str), "number": number}), y


def errors(ensemble, with_interactions, n_categories, n_samples, seed):
    """Return the leave-one-out, cross-validation and test error of one dataset."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(size=(n_categories, n_categories))
    (X, y), (X_test, y_test) = (make_samples(n, effects, rng) for n in (n_samples, 5000))
    model = make_tabular_pipeline(ensemble)
    if not with_interactions:
        model.set_params(preprocessing__interactions="drop")
    validated = np.square(cross_val_predict(model, X, y, cv=5) - y).mean()
    model.fit(X, y)
    test = np.square(model.predict(X_test) - y_test).mean()
    return model[-1].loo_error_ * y.var(), validated, test


def main(args):
    for n_categories, n_samples in SIZES:
        table = []
        for name, ensemble in ENSEMBLES.items():
            for with_interactions in (True, False):
                results = [
                    errors(ensemble, with_interactions, n_categories, n_samples, seed)
                    for seed in range(args.datasets)
                ]
                loo, validated, test = np.transpose(results)
                case = f"{name}, {'with' if with_interactions else 'without'} interactions"
                table += [
                    (f"{case}: leave-one-out", loo.mean()),
                    (f"{case}: cross-validation", validated.mean()),
                    (f"{case}: test", test.mean()),
                    (f"{case}: test / leave-one-out, median", np.median(test / loo)),
                    (f"{case}: test / leave-one-out, largest", (test / loo).max()),
                ]
        title = f"interactions: {n_categories} categories, {n_samples} samples"
        report(args, title, table, datasets=args.datasets)


if __name__ == "__main__":
    main(arguments(datasets={"type": int, "default": 8}))
