"""Digits, and predictions of converted models in onnxruntime."""

import subprocess
import sys

import numpy as np
import onnxruntime
from sklearn.datasets import load_digits

from sklearn_fsvc.export.onnx import to_onnx

IMAGES, DIGITS = load_digits(return_X_y=True)
X, Y, X_NEW = IMAGES[:600], DIGITS[:600], IMAGES[600:]
TEXT_LABELS = np.array(["even", "odd"])[DIGITS % 2]
DTYPES = (np.float32, np.float64, np.uint8)
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-11, np.uint8: 2e-5}
# With triangles so narrow that many images are uncovered.
NARROW = {"kernel": "triangular", "radius": 45.0, "feature_weights": None, "alpha": 0.1}


def onnx_outputs(model, rows, **options):
    """Convert a model, and return its outputs in onnxruntime by name."""
    return run(to_onnx(model, rows, **options), rows)


def run(converted, rows):
    """Return the outputs of an ONNX model by name; a DataFrame is passed column by column."""
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    inputs = {"X": rows}
    if hasattr(rows, "columns"):
        columns = zip(session.get_inputs(), rows.columns, strict=True)
        inputs = {x.name: np.asarray(rows[name])[:, None] for x, name in columns}
    return dict(zip(names, session.run(names, inputs), strict=True))


def run_with_peak(setup, checks):
    """Run a converted model in a process of its own, which measures its memory.

    The code `setup` defines X and `model`; `checks` may use ``before`` and ``peak()``, the largest
    KiB before all samples and after, and H.
    """
    code = (
        "import resource, numpy as np, onnxruntime\n"
        "from sklearn_fsvc import RBFProjector\n"
        "from sklearn_fsvc._src.export.onnx import to_onnx\n"
        f"{setup}"
        "session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "session.run(None, {'X': X[:1]})\n"
        "before = peak()\n"
        "H = session.run(None, {'X': X})[0]\n"
    )
    subprocess.run([sys.executable, "-c", code + checks], check=True)
