"""Compare one GPU with its hardware limits and with other libraries, in one process.

python benchmarks/gpu.py --data DIR [--json FILE] [--only layers,transform,...]

DIR contains the four IDX files of MNIST. torch is compared if it is installed.
"""

import os

# Read by SciPy as it is imported: with it, LogisticRegression takes arrays of the GPU.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier, TanhProjector
from sklearn_fsvc._src.data.memory_plan import tile_shape_for
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc._src.tuning import medians

N, M, FEATURES = 16_384, 8192, 784
MNIST_UNITS = 4096


# Calls that follow one another, as tiles do: one is launched while another runs.
CALLS = 4


def gpu_seconds(engine, functions, repeats=7):
    """Return {name: median time of a call by the GPU's clock}."""
    return medians(functions, repeats, stopwatch=engine.stopwatch, calls=CALLS)


def layers(args, engine, cupy):
    """Time layers in femtoseconds per sample, unit and feature, with data on the GPU."""
    rng = np.random.default_rng(0)
    floats = [(rng.random((n, FEATURES)) * 255) for n in (N, M)]
    functions = {}
    for dtype in (np.float32, np.float64, np.uint8):
        X, C = (a.astype(dtype) for a in floats)
        functions |= _layer(engine, RBFLayer(C, 20_000.0), X, f"Manhattan {np.dtype(dtype)}")
    X, C = (a.astype(np.float32) for a in floats)
    functions |= _layer(engine, RBFLayer(C, 500.0, "euclidean"), X, "Euclidean float32")
    W = rng.standard_normal((M, FEATURES)).astype(np.float32) / FEATURES
    tanh = TanhLayer(W, rng.random(M).astype(np.float32))
    functions |= _layer(engine, tanh, X, "tanh float32")
    X, W, H = cupy.asarray(X), cupy.asarray(W), cupy.empty((N, M), np.float32)
    functions["cuBLAS product float32"] = lambda: cupy.matmul(X, W.T, out=H)
    times = gpu_seconds(engine, functions)
    n_operations = N * M * FEATURES
    rows = [(f"{name}, fs", t / n_operations * 1e15) for name, t in times.items()]
    ours = times["Manhattan float32"]
    rows += [
        ("Manhattan float64 / float32", times["Manhattan float64"] / ours),
        ("tanh / cuBLAS product", times["tanh float32"] / times["cuBLAS product float32"]),
    ]
    rows += _torch_cdist(cupy, engine, C)
    return f"Layers on the GPU, {N} x {M} x {FEATURES}", rows


def _layer(engine, layer, X, name):
    prepared, X = engine.prepare(layer), engine.to_device(X)
    out = engine.xp.empty((N, M), layer.hidden_dtype)
    return {name: partial(engine.hidden, prepared, X, out)}


def _torch_cdist(cupy, engine, C):
    try:
        import torch
    except ImportError:
        print("torch is not installed: no row for it")
        return []
    n = 2048  # it takes 2 s for all
    prepared, X = engine.prepare(RBFLayer(C, kernel="distance")), engine.to_device(C[:n])
    X_torch, units = torch.as_tensor(C[:n], device="cuda"), torch.as_tensor(C, device="cuda")

    def peer():
        torch.cdist(X_torch, units, p=1)
        torch.cuda.synchronize()

    def ours():
        engine.hidden(prepared, X)
        cupy.cuda.get_current_stream().synchronize()

    times = medians({"torch": peer, "ours": ours})
    return [
        (f"torch.cdist(p=1) float32, {n} rows, fs", times["torch"] / (n * M * FEATURES) * 1e15),
        ("torch.cdist / ours", times["torch"] / times["ours"]),
    ]


def mnist(args, engine, cupy):
    """Time fits and predictions on MNIST, from NumPy arrays to NumPy arrays."""
    X, y, X_test, y_test, _ = load_images(args.data)
    options = {"random_state": 0, "device": "cuda"}
    models = {
        "RBFClassifier, random centres": RBFClassifier(MNIST_UNITS, selection="random", **options),
        "RBFClassifier, novelty": RBFClassifier(MNIST_UNITS, **options),
        "TanhClassifier": TanhClassifier(MNIST_UNITS, **options),
    }
    rows = []
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X, y)
        rows.append((f"{name}: first fit in this process, s", time.perf_counter() - start))
        fit = medians({"fit": lambda model=model: model.fit(X, y)})["fit"]
        predict = medians({"predict": lambda model=model: model.predict(X_test)})["predict"]
        rows += [
            (f"{name}: fit, s", fit),
            (f"{name}: predict {len(X_test)}, s", predict),
            (f"{name}: accuracy, %", 100 * model.score(X_test, y_test)),
        ]
    return f"MNIST on the GPU, {len(X)} + {len(X_test)} images, {MNIST_UNITS} units", rows


def transform(args, engine, cupy):
    """Time transforms of a million uint8 samples, to the host and the GPU, and their bounds."""
    n, m = args.rows, 4096
    X = np.random.default_rng(0).integers(0, 256, (n, FEATURES), dtype=np.uint8)
    projector = TanhProjector(m, random_state=0, device="cuda").fit(X[:10_000])
    layer = TanhLayer(projector.components_, projector.hidden_intercept_)
    bounds = {
        "kernels": _kernel_seconds(engine, cupy, layer, n),
        "link in": X.nbytes / _link_rate(engine, cupy, is_upload=True),
        "link out": 4 * n * m / _link_rate(engine, cupy, is_upload=False),
        "filling a fresh array": _fill_seconds(4 * n * m),
    }
    download = _download_seconds(engine, layer, n)
    rows = [(f"bound by {name}, s", seconds) for name, seconds in bounds.items()]
    host = _median(lambda: projector.transform(X), 3)
    X_gpu = cupy.asarray(X)

    def on_gpu():
        projector.transform(X_gpu)
        cupy.cuda.get_current_stream().synchronize()

    gpu = _median(on_gpu, 3)
    slowest = max(bounds["kernels"], bounds["link in"])
    rows += [
        ("host to host, s", host),
        ("host to host: bound / time", max(bounds.values()) / host),
        ("link out and filling at the same time, s", download),
        ("host to host: that / time", download / host),
        ("GPU to GPU, s", gpu),
        ("GPU to GPU: kernels / time", bounds["kernels"] / gpu),
    ]
    copied = _median(lambda: projector.transform(engine.upload_if_fits(X, 2**60)).sum(), 3)
    rows += [
        ("host to GPU, s", copied),
        ("host to GPU: slower of kernels and link / time", slowest / copied),
    ]
    return f"TanhProjector({m}).transform, {n} x {FEATURES} bytes", rows


def _median(function, repeats):
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _kernel_seconds(engine, cupy, layer, n):
    rows = 16_384
    prepared, X = engine.prepare(layer), cupy.ones((rows, FEATURES), np.float32)
    out = cupy.empty((rows, layer.n_units), np.float32)
    functions = {"layer": lambda: engine.hidden(prepared, X, out)}
    return gpu_seconds(engine, functions)["layer"] * n / rows


def _link_rate(engine, cupy, is_upload):
    """Return bytes per second between pinned memory and the GPU."""
    import cupyx

    pinned, on_gpu = cupyx.empty_pinned(2**27, np.uint8), cupy.zeros(2**27, np.uint8)
    copy = partial(on_gpu.set, pinned) if is_upload else partial(on_gpu.get, out=pinned)
    return 2**27 / gpu_seconds(engine, {"copy": copy})["copy"]


def _fill_seconds(n_bytes):
    """Return the seconds to write a new host array with all cores, the best of three."""
    parts, best = 64, np.inf
    with ThreadPoolExecutor(n_threads()) as pool:
        for _ in range(3):
            start = time.perf_counter()
            array = np.empty(n_bytes, np.uint8)
            step = n_bytes // parts
            fills = [pool.submit(array[i : i + step].fill, 1) for i in range(0, n_bytes, step)]
            for fill in fills:
                fill.result()
            best = min(best, time.perf_counter() - start)
            del array
    return best


def _download_seconds(engine, layer, n):
    """Return the seconds of a transform without its kernels.

    Tiles are transferred to pinned memory, and all cores copy them to a new array."""
    best, basic, m = np.inf, tile_shape_for(engine, layer), layer.n_units
    for _ in range(3):
        start = time.perf_counter()
        sink = engine.sink(np.empty((n, m), np.float32))
        step = basic.rows // sink.n_buffers
        for i in range(0, n, step):
            part = slice(i, min(i + step, n))
            sink.buffer(part)
            sink.put(part)
        sink.close()
        best = min(best, time.perf_counter() - start)
        del sink
    return best


def pipeline(args, engine, cupy):
    """Time TanhProjector and LogisticRegression on the GPU and on the CPU."""
    X, y, X_test, y_test, _ = load_images(args.data)
    rows, seconds = [], {}
    for device in ("cuda", "cpu"):
        pipe = make_pipeline(
            TanhProjector(2048, random_state=0, device=device), LogisticRegression(max_iter=100)
        )
        is_gpu = device == "cuda"
        train, test = (cupy.asarray(a) if is_gpu else a for a in (X, X_test))
        with sklearn.config_context(array_api_dispatch=is_gpu):
            pipe.fit(train[:2000], y[:2000])  # compile
            start = time.perf_counter()
            pipe.fit(train, y)
            seconds[device] = time.perf_counter() - start
            rows += [
                (f"{device}: whole fit, s", seconds[device]),
                (f"{device}: accuracy, %", 100 * float(pipe.score(test, y_test))),
                (f"{device}: iterations of lbfgs", float(pipe[-1].n_iter_[0])),
            ]
    rows += [("cpu / cuda", seconds["cpu"] / seconds["cuda"]), ("cores", n_threads())]
    return "TanhProjector(2048) + LogisticRegression, MNIST", rows


def limits(args, engine, cupy):
    """Check many features, many units in little memory, and a GPU filled by another process."""
    rng = np.random.default_rng(0)
    rows = [_wide(cupy, engine, rng, dtype) for dtype in (np.float32, np.uint8)]
    X = rng.random((100, 784), np.float32)
    for n in (64, 784):
        projector = TanhProjector(100_000, device="cuda", max_memory="256MiB").fit(X[:, :n])
        name = f"100,000 units, 100 x {n}, max_memory=256MiB"
        rows.append(_seconds_or_reason(name, partial(projector.transform, X[:, :n])))
    X, y, *_ = load_images(args.data)
    clf = RBFClassifier(2048, random_state=0, device="cuda")
    cupy.get_default_memory_pool().free_all_blocks()
    for left in (2**31, 2**28):
        with _other_process(left):
            free = engine.memory()[0] // 2**20
            name = f"RBFClassifier(2048), MNIST, {free} MiB left by another process"
            rows.append(_seconds_or_reason(name, partial(clf.fit, X, y)))
            cupy.get_default_memory_pool().free_all_blocks()
    return "Limits", rows


def _wide(cupy, engine, rng, dtype, n=65_536):
    X = rng.integers(0, 256, (2048, n)).astype(dtype)
    prepared, on_gpu = engine.prepare(RBFLayer(X, kernel="distance")), engine.to_device(X)
    layer = partial(engine.hidden, prepared, on_gpu)
    took = gpu_seconds(engine, {"layer": layer}, 3)["layer"]
    return f"{n} features, Manhattan {np.dtype(dtype)}, fs", took / (len(X) ** 2 * n) * 1e15


def _seconds_or_reason(name, function):
    start = time.perf_counter()
    try:
        function()
    except (ValueError, MemoryError) as error:
        print(f"{name} is refused: {error}")
        return f"{name}: refused", 1.0
    return f"{name}, s", time.perf_counter() - start


@contextmanager
def _other_process(left):
    """Start a process that leaves no more than `left` bytes of the GPU free."""
    code = (
        "import cupy, sys\n"
        "free, _ = cupy.cuda.Device().mem_info\n"
        "held = cupy.cuda.alloc(free - int(sys.argv[1]))\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(left)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"held\n"
        yield
    finally:
        process.communicate()


def main(args):
    chosen = args.only.split(",")
    with get_engine("cuda") as engine:
        gpu = engine.identity()["device"]
        for benchmark in (layers, mnist, transform, pipeline, limits):
            if benchmark.__name__ in chosen:
                title, rows = benchmark(args, engine, engine.xp)
                report(args, title, rows, gpu=gpu)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True},
            rows={"type": int, "default": 1_000_000, "help": "rows of the transform"},
            only={"default": "layers,mnist,transform,pipeline,limits"},
        )
    )
