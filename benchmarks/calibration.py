"""Measure the cost of probabilities, and their log-loss against CalibratedClassifierCV.

python benchmarks/calibration.py [--rows 4000,60000] [--rounds 3] [--largest 10000] [--device cpu]
    [--json FILE]

Fits with default parameters (RBFClassifier(), TanhClassifier()), with and without calibration,
alternately in one process: wall and CPU time. For few samples also the test log-loss, and that of
scikit-learn's CalibratedClassifierCV with temperature scaling, which fits six networks. A million
samples take minutes: --rows 1000000 --rounds 1.
"""

import time
from itertools import product

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.targets.classes import ClassTarget

NEW = 5000


def seconds(model, X, y, is_calibrated=True):
    """Return the wall and CPU seconds of a fit."""
    ClassTarget.needs_loo_scores = is_calibrated
    try:
        start = time.perf_counter(), time.process_time()
        model.fit(X, y)
        return time.perf_counter() - start[0], time.process_time() - start[1]
    finally:
        ClassTarget.needs_loo_scores = True


def compare(make, n, args):
    X, y = make_classification(
        n + NEW, 20, n_informative=12, n_classes=5, flip_y=0.1, random_state=0
    )
    X, (y, y_new) = X.astype(np.float32), np.split(y, [n])
    X, X_new = np.split(X, [n])
    model = make(random_state=0, device=args.device)
    seconds(model, X[:2000], y[:2000])  # compile
    times = np.array(
        [[seconds(model, X, y, on) for on in (False, True)] for _ in range(args.rounds)]
    )
    fit, more = np.median(times[:, 1], axis=0), np.median(times[:, 1] / times[:, 0], axis=0) - 1
    rows = [
        ("fit, s", fit[0]),
        ("fit, CPU s", fit[1]),
        ("calibration, % of a fit", 100 * more[0]),
        ("calibration, % of the CPU time of a fit", 100 * more[1]),
        ("log-loss", log_loss(y_new, model.predict_proba(X_new))),
    ]
    if n <= args.largest:
        peer = CalibratedClassifierCV(model, method="temperature", cv=5, ensemble=False).fit(X, y)
        p = peer.predict_proba(X_new)
        # scikit-learn computes them from float32 decision values, and its log_loss warns.
        p /= p.sum(axis=1, keepdims=True)
        rows.append(("log-loss, five fits more", log_loss(y_new, p)))
    return rows


def main(args):
    sizes = [int(size) for size in args.rows.split(",")]
    kinds = (RBFClassifier, TanhClassifier)
    for n, make in product(sizes, kinds):
        report(args, f"Calibration, {make.__name__}(), {n} rows", compare(make, n, args))


if __name__ == "__main__":
    main(
        arguments(
            rows={"default": "4000,60000"}, rounds={"type": int, "default": 3},
            device={"default": "cpu"},
            largest={"type": int, "default": 10_000, "help": "rows up to which five are fitted"},
        )
    )  # fmt: skip
