"""Compare our classifiers on MNIST with the equivalent pipeline of scikit-learn.

python benchmarks/mnist.py --data DIR [--repeats 3] [--json FILE]    DIR contains four IDX files

Names contain the given parameters: ``RBFClassifier()`` has defaults only.
"""

import time

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.demo import load_images


def main(args):
    X, y, X_test, y_test, _ = load_images(args.data)
    bytes_, floats = (X, X_test), (X / np.float32(255), X_test / np.float32(255))
    sampler = RBFSampler(n_components=4096, gamma=0.02, random_state=0)
    options = {"random_state": 0, "device": "cpu"}
    images = {"weights": "class_informed", "image_shape": (28, 28)}
    models = {
        "RBFSampler(4096) + RidgeClassifier, float32": (
            make_pipeline(sampler, RidgeClassifier()), floats,
        ),
        "RBFClassifier(), uint8": (RBFClassifier(**options), bytes_),
        "RBFClassifier(), float32": (RBFClassifier(**options), floats),
        'RBFClassifier(selection="random"), uint8': (
            RBFClassifier(selection="random", **options), bytes_,
        ),
        "TanhClassifier(1000), float32": (TanhClassifier(1000, **options), floats),
        "TanhClassifier(4096), float32": (TanhClassifier(4096, **options), floats),
        'TanhClassifier(8192, weights="class_informed", image_shape=(28, 28)), uint8': (
            TanhClassifier(8192, **images, **options), bytes_,
        ),
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
        predictions = model.predict(test)
        rows.append((f"{name}: predict, s", time.perf_counter() - start))
        rows.append((f"{name}: accuracy, %", 100 * float(np.mean(predictions == y_test))))
    first, *others = fits
    for name in others:
        ratio = np.median(np.divide(fits[name], fits[first]))
        rows.append((f"{name}: fit / that of {first}", float(ratio)))
    report(args, f"MNIST, {len(X)} + {len(X_test)} images, beside RBFSampler", rows)


if __name__ == "__main__":
    main(arguments(data={"required": True}, repeats={"type": int, "default": 3}))
