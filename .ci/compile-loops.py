"""Compile most CPU loops once, and cache them: each process of the tests would compile them."""

import numpy as np

from sklearn_fsvc import PatchClassifier, RBFClassifier, TanhClassifier
from sklearn_fsvc.inspection import shapley_values

rng = np.random.default_rng(0)
y = rng.integers(2, size=300)
classifiers = [
    RBFClassifier(),
    RBFClassifier(metric="euclidean", kernel="gaussian"),
    TanhClassifier(),
    TanhClassifier(precision=8),
    TanhClassifier(precision=15),
    PatchClassifier(50, image_shape=(4, 4)),
]
for dtype in ("float32", "float64", "uint8"):
    X = (255 * rng.random((300, 16))).astype(dtype)
    for classifier in classifiers:
        classifier.set_params(device="jit").fit(X, y).predict(X[:1])
shapley_values(RBFClassifier(kernel="laplacian", device="jit").fit(X, y), X[:2], X[:20])
