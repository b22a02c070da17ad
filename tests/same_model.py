"""Digests of models that every machine makes alike: ``python tests/same_model.py [DEVICE ...]``."""

import hashlib
import sys

import numpy as np

from sklearn_fsvc import RBFClassifier

GIVEN = {
    "kernel": "triangular", "radius": 900.0, "feature_weights": None, "precision": 8,
    "random_state": 0,
}  # fmt: skip
FITTED = (
    "support_", "centers_", "readout_coef_", "readout_intercept_", "temperature_", "score_scale_",
)  # fmt: skip


def bytes_of(n_rows=600, n_classes=4):
    """Return samples of bytes, and classes."""
    rng = np.random.default_rng(0)
    means = 128 + 40 * rng.normal(size=(3 * n_classes, 20))
    y = rng.integers(0, len(means), n_rows)
    X = means[y] + 40 * rng.normal(size=(n_rows, 20))
    return np.clip(X, 0, 255).astype(np.uint8), y % n_classes


def digests(device):
    """Return hashes of the fitted attributes of some models."""
    X, y = bytes_of()
    of_models = [
        ({}, y), ({"kernel": "laplacian"}, y), ({"precision": 15}, y),
        ({"n_hidden": 100}, np.column_stack([y, y % 2])),
    ]  # fmt: skip
    found = []
    for changes, target in of_models:
        how = {"n_hidden": 400, "alpha": 1e-3, "device": device} | GIVEN | changes
        model = RBFClassifier(**how).fit(X, target)
        content = b"".join(np.asarray(getattr(model, name)).tobytes() for name in FITTED)
        found.append(hashlib.sha256(content).hexdigest()[:16])
    return found


if __name__ == "__main__":
    for name in sys.argv[1:] or ("jit", "blas"):
        print(*digests(name))
