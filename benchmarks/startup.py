"""What a user waits for: the import, the first fit on a new machine, the first in a process.

python benchmarks/startup.py [--json FILE]
"""

import os
import statistics
import subprocess
import sys
import tempfile

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
IMPORT = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"


def seconds(code, **env):
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=os.environ | env, capture_output=True, text=True, check=True
    )  # fmt: skip
    return float(done.stdout)


def median(code, repeats=7, **env):
    return statistics.median(seconds(code, **env) for _ in range(repeats))


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
    main(arguments())
