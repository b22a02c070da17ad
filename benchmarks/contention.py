"""Measure fits while other processes use the cores: matrix products, or Python loops.

python benchmarks/contention.py [--rows 500,4000,20000] [--busy 0,2,4] [--loops] [--repeats 3]
    [--names ours,lightgbm,svc] [--json FILE]

Each busy process multiplies matrices with NumPy, on the default threads of its BLAS; with `--loops`
it runs a Python loop. With p of them on c cores a fit should take at most 1.3 (1 + p / c) times as
long as on an idle machine. All estimators have default parameters. Peers: pip install lightgbm.
"""

import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

from sklearn.datasets import make_classification
from sklearn.svm import SVC

from _report import arguments, report
from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.engines.threads import n_cores

MULTIPLY = (
    "import numpy as np\nA = np.random.rand(1000, 1000)\nprint(flush=True)\nwhile True: A @ A"
)
COUNT = "print(flush=True)\nwhile True: pass"
TOLERANCE = 1.3


def lightgbm():
    from lightgbm import LGBMClassifier

    return LGBMClassifier(verbose=-1)


ESTIMATORS = {"ours": lambda: RBFClassifier(random_state=0), "lightgbm": lightgbm, "svc": SVC}


@contextmanager
def busy_process(code):
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()  # it is running
        yield
    finally:
        process.kill()
        process.wait()


def seconds(make, X, y):
    """Return the wall and CPU seconds of a fit."""
    start, cpu_start = time.perf_counter(), time.process_time()
    make().fit(X, y)
    return time.perf_counter() - start, time.process_time() - cpu_start


def measure(names, sizes, counts, repeats, code):
    """Return {(name, rows, busy processes): (median wall, median CPU seconds)}, alternating."""
    results = {}
    tables = {n: make_classification(n, 10, n_informative=6, random_state=0) for n in sizes}
    for name in names:  # compiles, and starts threads
        ESTIMATORS[name]().fit(*tables[sizes[0]])
    for n_busy in counts:
        with ExitStack() as busy:
            for _ in range(n_busy):
                busy.enter_context(busy_process(code))
            for n, (X, y) in tables.items():
                times = {name: [] for name in names}
                for _ in range(repeats):
                    for name in names:
                        times[name].append(seconds(ESTIMATORS[name], X, y))
                for name, values in times.items():
                    results[name, n, n_busy] = tuple(
                        map(statistics.median, zip(*values, strict=True))
                    )
                    print(f"{name} {n} rows, {n_busy} busy processes: {values}", flush=True)
    return results


def main(args):
    sizes, counts = ([int(n) for n in text.split(",")] for text in (args.rows, args.busy))
    names, cores = args.names.split(","), n_cores()
    results = measure(names, sizes, counts, args.repeats, COUNT if args.loops else MULTIPLY)
    rows = []
    for (name, n, n_busy), (median, cpu_time) in results.items():
        rows.append((f"{name}, {n} rows, {n_busy} busy, s", median))
        rows.append((f"{name}, {n} rows, {n_busy} busy, CPU s", cpu_time))
        if n_busy and (name, n, 0) in results:
            limit = TOLERANCE * (1 + n_busy / cores) * results[name, n, 0][0]
            rows.append((f"{name}, {n} rows, {n_busy} busy, share of the limit", median / limit))
    report(args, f"contention with {'loops' if args.loops else 'products'}", rows, cores=cores)


if __name__ == "__main__":
    if "OPENBLAS_CORETYPE" in os.environ:
        print("OPENBLAS_CORETYPE is set: products use the kernels of an older CPU")
    main(
        arguments(
            rows={"default": "500,4000,20000"},
            busy={"default": "0,2,4"},
            loops={"action": "store_true"},
            repeats={"type": int, "default": 3},
            names={"default": ",".join(ESTIMATORS)},
        )
    )
