"""Digits, and what onnxruntime answers to them with converted models."""

import numpy as np
import onnxruntime
from sklearn.datasets import load_digits

from sklearn_fsvc.export.onnx import to_onnx

IMAGES, DIGITS = load_digits(return_X_y=True)
X, Y, X_NEW = IMAGES[:600], DIGITS[:600], IMAGES[600:]
WORDS = np.array(["even", "odd"])[DIGITS % 2]
DTYPES = (np.float32, np.float64, np.uint8)
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-11, np.uint8: 2e-5}
# Triangles so narrow that many images are outside all of them.
NARROW = {"kernel": "triangular", "radius": 45.0, "feature_weights": None, "alpha": 0.1}


def answers(model, rows, **options):
    """name -> what onnxruntime answers to rows with the converted model."""
    return run(to_onnx(model, rows, **options), rows)


def run(converted, rows):
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": rows}), strict=True))
