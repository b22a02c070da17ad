"""What probabilities cost a fit, and how good they are beside five fits more.

python benchmarks/calibration.py [--rows 4000,10000] [--rounds 3] [--device cpu] [--json FILE]

Fits by default (RBFClassifier(), TanhClassifier()) with and without their calibration, in turn, in
one process; and the log-loss on new rows beside scikit-learn's CalibratedClassifierCV, which fits
five networks to calibrate the sixth by temperature.
"""

import time

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.estimators.classes import Classes

NEW = 5000


def seconds(model, X, y, is_calibrated=True):
    Classes.wants_scores = is_calibrated
    try:
        start = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - start
    finally:
        Classes.wants_scores = True


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
    name = f"{make.__name__}(), {n:,} rows"
    rows = [
        (f"{name}: fit, s", float(np.median(times[:, 1]))),
        (
            f"{name}: calibration, % of a fit",
            100 * (float(np.median(times[:, 1] / times[:, 0])) - 1),
        ),
        (f"{name}: log-loss", log_loss(y_new, model.predict_proba(X_new))),
    ]
    if n <= args.largest:
        peer = CalibratedClassifierCV(model, method="temperature", cv=5, ensemble=False).fit(X, y)
        rows.append(
            (f"{name}: log-loss, five fits more", log_loss(y_new, peer.predict_proba(X_new)))
        )
    return rows


def main(args):
    sizes = [int(size) for size in args.rows.split(",")]
    kinds = (RBFClassifier, TanhClassifier)
    rows = [row for n in sizes for make in kinds for row in compare(make, n, args)]
    report(args, "Calibration", rows)


if __name__ == "__main__":
    main(
        arguments(
            rows={"default": "4000,10000"}, rounds={"type": int, "default": 3},
            device={"default": "cpu"},
            largest={"type": int, "default": 60_000, "help": "rows up to which five are fitted"},
        )
    )  # fmt: skip
