"""Fits beside other work: processes that multiply matrices, or plain loops of Python.

python benchmarks/beside.py [--rows 500,4000,20000] [--beside 0,2,4] [--loops] [--repeats 3]
    [--names ours,lightgbm,svc] [--json FILE]

Each busy process multiplies by NumPy with the threads that its BLAS takes by itself; with
`--loops` it counts. A fit beside p of them on c cores is to take at most (1 + p / c) times what it
takes alone, times 1.3. Every estimator is as its users make it. Peers: pip install lightgbm.
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
MOST = 1.3


def lightgbm():
    from lightgbm import LGBMClassifier

    return LGBMClassifier(verbose=-1)


ESTIMATORS = {"ours": lambda: RBFClassifier(random_state=0), "lightgbm": lightgbm, "svc": SVC}


@contextmanager
def busy_process(code):
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()  # it is at work
        yield
    finally:
        process.kill()
        process.wait()


def seconds(make, X, y):
    """Seconds of a fit, and of all processors together."""
    start, cpu_start = time.perf_counter(), time.process_time()
    make().fit(X, y)
    return time.perf_counter() - start, time.process_time() - cpu_start


def measure(names, sizes, numbers, repeats, code):
    """(name, rows, busy processes) -> median seconds, and those of all processors; in turn."""
    found = {}
    tables = {n: make_classification(n, 10, n_informative=6, random_state=0) for n in sizes}
    for name in names:  # what compiles or starts threads
        ESTIMATORS[name]().fit(*tables[sizes[0]])
    for number in numbers:
        with ExitStack() as busy:
            for _ in range(number):
                busy.enter_context(busy_process(code))
            for n, (X, y) in tables.items():
                times = {name: [] for name in names}
                for _ in range(repeats):
                    for name in names:
                        times[name].append(seconds(ESTIMATORS[name], X, y))
                for name, values in times.items():
                    found[name, n, number] = tuple(
                        map(statistics.median, zip(*values, strict=True))
                    )
                    print(f"{name} {n} rows beside {number}: {values}", flush=True)
    return found


def main(args):
    sizes, numbers = ([int(n) for n in text.split(",")] for text in (args.rows, args.beside))
    names, cores = args.names.split(","), n_cores()
    found = measure(names, sizes, numbers, args.repeats, COUNT if args.loops else MULTIPLY)
    rows = []
    for (name, n, number), (median, cpu_time) in found.items():
        rows.append((f"{name}, {n} rows, beside {number}, s", median))
        rows.append((f"{name}, {n} rows, beside {number}, s of all processors", cpu_time))
        if number and (name, n, 0) in found:
            most = MOST * (1 + number / cores) * found[name, n, 0][0]
            rows.append((f"{name}, {n} rows, beside {number}, of what it may take", median / most))
    report(args, f"beside {'loops' if args.loops else 'products'}", rows, cores=cores)


if __name__ == "__main__":
    if "OPENBLAS_CORETYPE" in os.environ:
        print("OPENBLAS_CORETYPE is set: products are slower than they need be")
    main(
        arguments(
            rows={"default": "500,4000,20000"},
            beside={"default": "0,2,4"},
            loops={"action": "store_true"},
            repeats={"type": int, "default": 3},
            names={"default": ",".join(ESTIMATORS)},
        )
    )
