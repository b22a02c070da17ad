"""Measure the peak resident memory of 2,000,000 memory-mapped samples and 2048 units.

python benchmarks/memory.py [--json FILE]         writes a 512 MB file to a temporary folder

H would take 16 GB.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier

N, FEATURES, UNITS = 2_000_000, 64, 2048


def write(folder):
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (N, FEATURES))
    y = np.empty(N, np.uint8)
    means = rng.normal(size=(10, FEATURES))
    for start in range(0, N, 100_000):
        part = slice(start, start + 100_000)
        y[part] = rng.integers(0, 10, 100_000)
        X[part] = means[y[part]] + 2 * rng.normal(size=(100_000, FEATURES))
    X.flush()
    np.save(folder / "y.npy", y)


def measure(folder, name):
    """Run in a process of its own, whose peak is that of this job."""
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    classes = {"RBFClassifier": RBFClassifier, "TanhClassifier": TanhClassifier}
    model = classes[name](UNITS, random_state=0)
    start = time.perf_counter()
    model.fit(X, y)
    fit = time.perf_counter() - start
    accuracy = np.mean(model.predict(X) == y)
    predict = time.perf_counter() - start - fit
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(fit, predict, peak / 2**30, 100 * accuracy)


def main(args):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        rows = []
        for model in ("RBFClassifier", "TanhClassifier"):
            command = [sys.executable, __file__, "--folder", name, "--model", model]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            labels = ("fit, s", "predict, s", "peak resident memory, GiB", "accuracy, %")
            values = map(float, done.stdout.split())
            rows += [(f"{model}: {label}", v) for label, v in zip(labels, values, strict=True)]
        report(args, f"memmap of {N} x {FEATURES} float32, {UNITS} units", rows)


if __name__ == "__main__":
    args = arguments(folder={"type": Path}, model={})
    if args.model:
        measure(args.folder, args.model)
    else:
        main(args)
