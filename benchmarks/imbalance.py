"""Compare readouts and class weights on rare classes: F1, ROC AUC, average precision, log-loss.

python benchmarks/imbalance.py [--ratio 200] [--samples 20000] [--datasets 4] [--json FILE]

Synthetic binary datasets with ten features, in which one sample of `ratio` + 1 is positive. The
log-odds are a linear function plus an interaction and a square. Scores are means over the datasets,
on 50,000 test samples. F1 is that of `predict`, and that of `TunedThresholdClassifierCV` with
scoring="f1", which chooses the threshold on a fifth of the training samples.
"""

import numpy as np
from lightgbm import LGBMClassifier
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit, TunedThresholdClassifierCV

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, StackedClassifier

N_TEST = 50_000
MODELS = {
    "ridge": RBFClassifier(random_state=0),
    'ridge, class_weight="balanced"': RBFClassifier(class_weight="balanced", random_state=0),
    "softmax": RBFClassifier(readout="softmax", random_state=0),
    'softmax, class_weight="balanced"': RBFClassifier(
        readout="softmax", class_weight="balanced", random_state=0
    ),
    "StackedClassifier": StackedClassifier(random_state=0),
    "LightGBM": LGBMClassifier(verbose=-1, random_state=0),
    'LightGBM, class_weight="balanced"': LGBMClassifier(
        class_weight="balanced", verbose=-1, random_state=0
    ),
    "logistic regression": LogisticRegression(),
}


def make_samples(n, ratio, seed):
    """Return `n` training samples, the test samples, and their classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + N_TEST, 10))
    odds = X[:, 0] + X[:, 1] + 1.5 * X[:, 2] * X[:, 3] + np.square(X[:, 4])
    offset = brentq(lambda shift: expit(odds + shift).mean() * (ratio + 1) - 1, -30, 10)
    y = (rng.random(len(X)) < expit(odds + offset)).astype(int)
    return X[:n], X[n:], y[:n], y[n:]


def scores_of(model, X, X_test, y, y_test):
    held_out = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    tuned = TunedThresholdClassifierCV(model, scoring="f1", cv=held_out).fit(X, y)
    fitted = tuned.estimator_  # fitted to all samples
    likely = fitted.predict_proba(X_test)[:, 1].astype(float)
    return {
        "F1": f1_score(y_test, fitted.predict(X_test)),
        "F1, tuned threshold": f1_score(y_test, tuned.predict(X_test)),
        "ROC AUC": roc_auc_score(y_test, likely),
        "average precision": average_precision_score(y_test, likely),
        "log-loss": log_loss(y_test, likely),
    }


def main(args):
    results = {}
    for seed in range(args.datasets):
        samples = make_samples(args.samples, args.ratio, seed)
        print(f"dataset {seed}", flush=True)
        for name, model in MODELS.items():
            for score, value in scores_of(model, *samples).items():
                results.setdefault(f"{name}: {score}", []).append(value)
    table = [(name, np.mean(values)) for name, values in results.items()]
    title = f"imbalance: one positive sample in {args.ratio + 1}"
    report(args, title, table, samples=args.samples, datasets=args.datasets)


if __name__ == "__main__":
    main(
        arguments(
            ratio={"type": int, "default": 200},
            samples={"type": int, "default": 20_000},
            datasets={"type": int, "default": 4},
        )
    )
