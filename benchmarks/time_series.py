"""Compare classifiers of MiniRocket features: RidgeClassifierCV, and the networks of this package.

python benchmarks/time_series.py [--seeds 3] [--json FILE]

The features are those of `aeon.transformations.collection.convolution_based.MiniRocket` (about
10,000 per series), standardised. The datasets are the small ones that aeon's wheel contains, each
with the training and test series of its source. Accuracy in %, averaged over the seeds, and the
median seconds of a fit of the classifier. Needs aeon: pip install aeon
"""

from time import perf_counter

import numpy as np
from aeon.datasets import load_classification
from aeon.transformations.collection.convolution_based import MiniRocket
from sklearn.linear_model import RidgeClassifierCV
from sklearn.preprocessing import StandardScaler

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, StackedClassifier, TanhClassifier

DATASETS = ("ACSF1", "ArrowHead", "BasicMotions", "GunPoint", "ItalyPowerDemand", "OSULeaf")
CLASSIFIERS = {
    "RidgeClassifierCV": lambda seed: RidgeClassifierCV(np.logspace(-3, 3, 10)),
    "TanhClassifier": lambda seed: TanhClassifier(random_state=seed),
    "RBFClassifier": lambda seed: RBFClassifier(random_state=seed),
    "StackedClassifier": lambda seed: StackedClassifier(random_state=seed),
}


def features_of(name, seed):
    """Return the MiniRocket features and classes of the training and test series."""
    (series, y), (new, y_new) = (
        load_classification(name, split=part) for part in ("train", "test")
    )
    rocket, scaler = MiniRocket(random_state=seed), StandardScaler()
    X = scaler.fit_transform(rocket.fit_transform(series.astype(np.float32), y))
    return X, y, scaler.transform(rocket.transform(new.astype(np.float32))), y_new


def main(args):
    accuracies, seconds = {}, {}
    for name in DATASETS:
        for seed in range(args.seeds):
            X, y, X_test, y_test = features_of(name, seed)
            for kind, make in CLASSIFIERS.items():
                start = perf_counter()
                model = make(seed).fit(X, y)
                seconds.setdefault(f"{kind}: fit, s", []).append(perf_counter() - start)
                accuracies.setdefault((kind, name), []).append(100 * model.score(X_test, y_test))
    means = {f"{kind}: {name}": np.mean(values) for (kind, name), values in accuracies.items()}
    for kind in CLASSIFIERS:
        means[f"{kind}: mean"] = np.mean([means[f"{kind}: {name}"] for name in DATASETS])
    table = [*means.items(), *((name, np.median(values)) for name, values in seconds.items())]
    report(args, "time series: MiniRocket features, accuracy in %", table, seeds=args.seeds)


if __name__ == "__main__":
    main(arguments(seeds={"type": int, "default": 3}))
