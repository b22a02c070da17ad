"""Compare layers with other libraries: t_syn, picoseconds per sample, unit and feature.

python benchmarks/layers.py [--json FILE] [--device cuda]
One comparison needs faiss-cpu. With a device only the kernels of RBF units are timed on it.
"""

import tracemalloc
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from _report import arguments, report
from sklearn_fsvc import TanhProjector
from sklearn_fsvc._src.engines import ENGINES, get_engine
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.kernels import KERNELS
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc._src.tuning import medians

N = M = 2048
FEATURES = 784


def manhattan(args):
    """Time the distance layer by `jit` in each dtype, SciPy and faiss."""
    rng = np.random.default_rng(0)
    engine = get_engine("jit")
    functions = {}
    for dtype in (np.float32, np.float64, np.uint8):
        X = (rng.random((N, FEATURES)) * 255).astype(dtype)
        C = (rng.random((M, FEATURES)) * 255).astype(dtype)
        layer = RBFLayer(C, kernel="distance")
        out = np.empty((N, M), layer.hidden_dtype)
        prepared = engine.prepare(layer)
        name = f"jit {np.dtype(dtype)}"
        functions[name] = partial(engine.hidden, prepared, X, out)
        if dtype == np.float32:
            functions |= _peers(X, C)
    times = medians(functions, repeats=9)
    rows = [(f"{name}, ps", t / (N * M * FEATURES) * 1e12) for name, t in times.items()]
    ours = times["jit float32"]
    rows += [
        (f"{name} / jit float32", times[name] / ours) for name in functions if "jit" not in name
    ]
    rows += [
        ("jit float32 / jit uint8", ours / times["jit uint8"]),
        ("jit float32 / jit float64", ours / times["jit float64"]),
        ("threads", n_threads()),
    ]
    report(args, f"Manhattan layer, {N} x {M} x {FEATURES}", rows)


def _peers(X, C):
    peers = {"scipy cdist": lambda: cdist(X, C, "cityblock")}
    try:
        import faiss

        faiss.omp_set_num_threads(n_threads())
        peers["faiss"] = lambda: faiss.pairwise_distances(X, C, faiss.METRIC_L1)
    except ImportError:
        print("faiss-cpu is not installed: no row for it")
    return peers


def engines(args):
    """Time each engine on each kind of layer, float32."""
    rng = np.random.default_rng(0)
    X, C = rng.random((2, N, FEATURES), np.float32)
    layers = {
        "euclidean": RBFLayer(C, 10.0, "euclidean"),
        "tanh": TanhLayer(C / 28, np.zeros(M, np.float32)),
    }
    for kind, layer in layers.items():
        functions = {}
        for name in ENGINES:
            engine = ENGINES[name]()
            if engine.why_unavailable() is None:
                out, prepared = np.empty((N, M), np.float32), engine.prepare(layer)
                functions[name] = partial(engine.hidden, prepared, X, out)
        times = medians(functions, repeats=9)
        rows = [(f"{name}, ps", t / (N * M * FEATURES) * 1e12) for name, t in times.items()]
        report(args, f"{kind} layer, {N} x {M} x {FEATURES}", rows)


def kernels(args):
    """Time other kernels relative to the triangular one, Manhattan distance, on one engine."""
    rng = np.random.default_rng(0)
    with get_engine(args.device or "jit") as engine:
        rows = []
        for dtype in (np.float32, np.float64, np.uint8):
            for n in (16, 64, FEATURES):
                X, C = ((rng.random((k, n)) * 255).astype(dtype) for k in (N, M))
                X, functions = engine.to_device(X), {}
                for kernel in KERNELS:
                    prepared = engine.prepare(RBFLayer(C, 85.0 * n, kernel=kernel))
                    out = engine.xp.empty((N, M), prepared.layer.hidden_dtype)
                    functions[kernel] = partial(engine.hidden, prepared, X, out)
                times = medians(functions, 15, stopwatch=engine.stopwatch, calls=4)
                for kernel in set(KERNELS) - {"triangular"}:
                    ratio = times[kernel] / times["triangular"]
                    rows.append((f"{kernel} / triangular, {np.dtype(dtype)}, n = {n}", ratio))
        report(args, f"Kernels by {engine.name}, {N} x {M}", sorted(rows))


def tanh_transform(args):
    """Time TanhProjector.transform against the equivalent line of NumPy."""
    rng = np.random.default_rng(0)
    X = rng.random((60_000, FEATURES), np.float32)
    projector = TanhProjector(M, random_state=0).fit(X)
    W, b = projector.components_, projector.hidden_intercept_
    functions = {
        "numpy": lambda: np.tanh(X @ W.T + b),
        "transform": lambda: projector.transform(X),
    }
    times = medians(functions, repeats=5)
    extra = {name: _extra_bytes(f) for name, f in functions.items()}
    report(
        args,
        f"TanhProjector.transform, 60000 x {FEATURES} float32, m = {M}",
        [
            *((f"{name}, s", t) for name, t in times.items()),
            ("transform / numpy, time", times["transform"] / times["numpy"]),
            *((f"{name}, MB beside the result", b / 1e6) for name, b in extra.items()),
            ("transform / numpy, extra memory", extra["transform"] / extra["numpy"]),
        ],
    )


def _extra_bytes(function):
    """Return the peak allocation of NumPy during a call, without its result."""
    tracemalloc.start()
    result = function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak - result.nbytes)


if __name__ == "__main__":
    args = arguments(device={"help": "time the kernels of RBF units there, and nothing else"})
    if not args.device:
        manhattan(args)
        engines(args)
        tanh_transform(args)
    kernels(args)
