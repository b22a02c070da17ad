"""Compare ONNX models in onnxruntime with `predict`: one sample, and a batch.

python benchmarks/serving.py [--units 2048] [--json FILE]      (needs the extra onnx)

Samples are random, since only their dtype and number of features affect the time, and whether
Euclidean distances cancel, as in clusters that are far apart. One sample uses one thread, a batch
all; threads of onnxruntime do not spin, which would delay ours.
"""

import numpy as np
import onnxruntime

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.tuning import medians
from sklearn_fsvc.export.onnx import to_onnx

ROWS, CLASSES = 4096, 10
# Samples -> (calls measured as one, threads): one sample is too little for two threads.
BATCHES = {1: (50, 1), 256: (1, n_threads())}
# Metric, dtype, number of features, and distance in each feature of two clusters.
KINDS = {
    "Manhattan, uint8 x 784": ("manhattan", np.uint8, 784, 0),
    "Manhattan, float32 x 784": ("manhattan", np.float32, 784, 0),
    "Manhattan, float32 x 16": ("manhattan", np.float32, 16, 0),
    "Euclidean, float32 x 784": ("euclidean", np.float32, 784, 0),
    "Euclidean, clusters, float32 x 784": ("euclidean", np.float32, 784, 100_000),
    "Euclidean, clusters, float64 x 784": ("euclidean", np.float64, 784, 100_000),
    "Euclidean, clusters, float64 x 16": ("euclidean", np.float64, 16, 100_000),
    "tanh, float32 x 784": (None, np.float32, 784, 0),
}


def fitted(metric, X, y, n_units):
    """Return a network with random units and given hyperparameters."""
    plain = {"alpha": 1.0, "random_state": 0, "device": "jit"}
    if metric is None:
        return TanhClassifier(n_units, scale=0.05, **plain).fit(X, y)
    units = {"selection": "random", "feature_weights": None, "kernel": "laplacian"}
    far = np.abs(X[:64, None].astype(float) - X[None, :64])
    far = far.sum(axis=2) if metric == "manhattan" else np.sqrt((far**2).sum(axis=2))
    return RBFClassifier(n_units, metric=metric, radius=far.mean(), **units, **plain).fit(X, y)


def session_of(converted, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(converted.SerializeToString(), options)


def compare(model, X, n_rows):
    """Yield (name, value) of calls with this number of samples."""
    calls, threads = BATCHES[n_rows]
    session, part = session_of(to_onnx(model, X), threads), X[:n_rows]
    both = {
        "onnxruntime": lambda: session.run(["label"], {"X": part}),
        "predict": lambda: model.predict(part),
    }
    times = medians(both, repeats=15, calls=calls)
    yield from ((f"{side}, ms", 1e3 * seconds) for side, seconds in times.items())
    yield "onnxruntime / predict", times["onnxruntime"] / times["predict"]
    (label,) = session.run(["label"], {"X": X})
    yield "labels that are ours", np.mean(label == model.predict(X))


def main(args):
    rng, rows = np.random.default_rng(0), []
    for name, (metric, dtype, n_features, distance) in KINDS.items():
        X = (rng.random((ROWS, n_features)) * 255).astype(dtype)
        X[::2] += dtype(distance)
        model = fitted(metric, X, rng.integers(CLASSES, size=ROWS), args.units)
        for n_rows in BATCHES:
            results = compare(model, X[:1024], n_rows)
            rows += [(f"{name}, {n_rows} row(s): {what}", value) for what, value in results]
    report(args, f"serving, {args.units} units", rows, threads=n_threads())


if __name__ == "__main__":
    main(arguments(units={"type": int, "default": 2048}))
