"""MNIST: our classifiers and the pipeline that scikit-learn users would write instead.

python benchmarks/mnist.py --data DIR [--json FILE]         DIR holds the four IDX files
"""

import time

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc.demo import load_images

UNITS = 4096


def main(args):
    X, y, X_test, y_test, _ = load_images(args.data)
    floats = (X / np.float32(255)), (X_test / np.float32(255))
    peer = make_pipeline(
        RBFSampler(n_components=UNITS, gamma=0.02, random_state=0), RidgeClassifier()
    )
    options = {"random_state": 0, "device": "cpu"}
    models = {
        "RBFSampler + RidgeClassifier, float32": (peer, floats),
        "RBFClassifier, uint8": (RBFClassifier(UNITS, **options), (X, X_test)),
        "RBFClassifier, random centres, uint8": (
            RBFClassifier(UNITS, selection="random", **options), (X, X_test),
        ),
        "RBFClassifier, float32": (RBFClassifier(UNITS, **options), floats),
        "TanhClassifier, uint8": (TanhClassifier(UNITS, **options), (X, X_test)),
    }  # fmt: skip
    RBFClassifier(100, **options).fit(X[:2000], y[:2000])  # compile
    fits = {name: [] for name in models}
    for _ in range(args.repeats):
        for name, (model, (rows, _)) in models.items():
            start = time.perf_counter()
            model.fit(rows, y)
            fits[name].append(time.perf_counter() - start)
    rows = []
    for name, (model, (_, test)) in models.items():
        rows.append((f"{name}: fit, s", float(np.median(fits[name]))))
        start = time.perf_counter()
        answers = model.predict(test)
        rows.append((f"{name}: predict, s", time.perf_counter() - start))
        rows.append((f"{name}: accuracy, %", 100 * float(np.mean(answers == y_test))))
    first, *others = fits
    for name in others:
        ratio = np.median(np.divide(fits[name], fits[first]))
        rows.append((f"{name}: fit / that of {first}", float(ratio)))
    report(args, f"MNIST, {len(X)} + {len(X_test)} images, {UNITS} units", rows)


if __name__ == "__main__":
    main(arguments(data={"required": True}, repeats={"type": int, "default": 3}))
