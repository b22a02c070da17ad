"""Hashes of models that are equal on all machines: ``python tests/same_model.py [DEVICE ...]``."""

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


def make_byte_data(n_samples=600, n_classes=4):
    """Return uint8 samples and their classes."""
    rng = np.random.default_rng(0)
    means = 128 + 40 * rng.normal(size=(3 * n_classes, 20))
    y = rng.integers(0, len(means), n_samples)
    X = means[y] + 40 * rng.normal(size=(n_samples, 20))
    return np.clip(X, 0, 255).astype(np.uint8), y % n_classes


def digests(device):
    """Return hashes of the fitted attributes of several models."""
    X, y = make_byte_data()
    variants = [
        ({}, y), ({"kernel": "laplacian"}, y), ({"precision": 15}, y),
        ({"n_hidden": 100}, np.column_stack([y, y % 2])),
    ]  # fmt: skip
    hashes = []
    for changes, target in variants:
        params = {"n_hidden": 400, "alpha": 1e-3, "device": device} | GIVEN | changes
        model = RBFClassifier(**params).fit(X, target)
        content = b"".join(np.asarray(getattr(model, name)).tobytes() for name in FITTED)
        hashes.append(hashlib.sha256(content).hexdigest()[:16])
    return hashes


if __name__ == "__main__":
    for name in sys.argv[1:] or ("jit", "blas"):
        print(*digests(name))
