"""Measure startup times: the import, the first fit on a new machine, the first in a process.

python benchmarks/startup.py [--json FILE]
python benchmarks/startup.py --device cuda --data DIR     the import and a fit of MNIST on a GPU

On a GPU the title contains whether the compiler of its kernels is installed, which is not needed.
On a machine that has just booted, --cold measures a process before any has read the libraries.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from _report import arguments, report

FIT = """
import time
from sklearn.datasets import load_iris
from sklearn_fsvc import {0}
X, y = load_iris(return_X_y=True)
start = time.perf_counter()
{0}({1}).fit(X, y).predict(X)
print(time.perf_counter() - start)
"""
# Reading the images is excluded.
ON_GPU = """
import time
start = time.perf_counter()
from sklearn_fsvc import {name}
from sklearn_fsvc._src.demo import load_images
reading = time.perf_counter()
X, y = load_images({data!r})[:2]
start += time.perf_counter() - reading
{name}({units}, device={device!r}, random_state=0{more}).fit(X, y)
print(time.perf_counter() - start)
"""
# Caches of compiled code: of CuPy, of the driver, and of our kernels.
CACHES = "CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "SKLEARN_FSVC_CACHE"
# Defaults first; in the last one no hyperparameter is selected.
FITS = (
    ("RBFClassifier", ""),
    ("TanhClassifier", ""),
    ("RBFClassifier", ', kernel="triangular", feature_weights=None, alpha=1.0'),
)
IMPORT = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"


def seconds(code, **env):
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=os.environ | env, capture_output=True, text=True, check=True
    )  # fmt: skip
    return float(done.stdout)


def median(code, repeats=7, **env):
    return statistics.median(seconds(code, **env) for _ in range(repeats))


def on_gpu(args):
    """Measure the first process, which compiles, and later ones."""
    rows, compiler = [], find_spec("numba_cuda_mlir")
    for name, more in FITS:
        code = ON_GPU.format(
            name=name, data=args.data, units=args.units, device=args.device, more=more
        )
        with tempfile.TemporaryDirectory() as folder:
            caches = {cache: f"{folder}/{cache}" for cache in CACHES}
            what = f"import, {name}({args.units}{more}).fit"
            rows.append((f"{what}: first process, s", seconds(code, **caches)))
            kept = Path(caches["CUPY_CACHE_DIR"]).glob("*.cubin")
            rows.append((f"{what}: kernels that CuPy compiled", len(list(kept))))
            if not args.cold:
                rows.append((f"{what}: next process, s", median(code, repeats=5, **caches)))
        if args.cold:
            break
    title = f"startup on a GPU, {'with' if compiler else 'without'} the compiler"
    report(args, title + (", nothing read before" if args.cold else ""), rows, device=args.device)


def main(args):
    seconds(IMPORT.format("sklearn_fsvc"))
    ours, base = (median(IMPORT.format(name)) for name in ("sklearn_fsvc", "sklearn"))
    rows = [
        ("import sklearn, s", base),
        ("import sklearn_fsvc, s", ours),
        ("difference, s", ours - base),
    ]
    for name, size in (("RBFClassifier", ""), ("TanhClassifier", "50")):
        code = FIT.format(name, size)
        with tempfile.TemporaryDirectory() as cache:
            rows.append(
                (
                    f"{name}: first fit and predict, compiled, s",
                    seconds(code, NUMBA_CACHE_DIR=cache),
                )
            )
            again = median(code, NUMBA_CACHE_DIR=cache)
            rows.append((f"{name}: in the next process, s", again))
    report(args, "startup", rows)


if __name__ == "__main__":
    args = arguments(
        device={}, data={}, units={"type": int, "default": 4096}, cold={"action": "store_true"}
    )
    on_gpu(args) if args.device else main(args)
