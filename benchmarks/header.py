"""Measure classifiers exported to C: bytes, and CPU time per sample against `predict`.

python benchmarks/header.py [--data DIR] [--units N] [--json FILE]

Bundled digits, and with `--data` optd64 of the FSVC authors. One thread. Needs a C compiler.
"""

import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from _data import read_fsvc
from _report import arguments, report
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.export.c import header_of

PROGRAM = """
#include "m.h"
void answer(const {row} *x, int n, int32_t *y)
{{
    for (int i = 0; i < n; i++)
        y[i] = m_predict(x + (long)i * M_N_FEATURES);
}}
"""
ROW = {"uint8": "uint8_t", "float32": "float"}
REPEATS = 7


def compiled(text, dtype, options, folder):
    """Return a compiled batch function of a header, and the bytes of its code and constants."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit("there is no C compiler; install gcc or clang")
    (folder / "m.h").write_text(text)
    (folder / "m.c").write_text(PROGRAM.format(row=ROW[dtype]))
    command = [compiler, "-std=c99", *options, "-shared", "-fPIC", "-o", "m.so", "m.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "m.so")).answer


def seconds(function):
    """Return the median CPU time of a few calls, after a warm-up."""
    durations = []
    for _ in range(REPEATS + 1):
        start = time.process_time()
        function()
        durations.append(time.process_time() - start)
    return float(np.median(durations[1:]))


def measure(name, model, X, y, X_test, y_test):
    model.fit(X, y)
    header = header_of(model, "m")
    expected, predictions = model.predict(X_test), np.empty(len(X_test), np.int32)
    X_test = np.ascontiguousarray(X_test)
    yield f"{name}: units", len(model.readout_coef_[0])
    yield f"{name}: accuracy, %", 100 * np.mean(expected == y_test)
    yield f"{name}: bytes of constants", header.n_bytes
    X_pointer, classes_pointer = (a.ctypes.data_as(ctypes.c_void_p) for a in (X_test, predictions))
    for options in (["-Os"], ["-O3"]):
        with tempfile.TemporaryDirectory() as folder:
            predict = compiled(header.text, X.dtype.name, options, Path(folder))
            duration = seconds(lambda call=predict: call(X_pointer, len(X_test), classes_pointer))
        yield f"{name}: C {' '.join(options)}, a row, us", 1e6 * duration / len(X_test)
        yield f"{name}: C {' '.join(options)}, other answers", np.sum(predictions != expected)
    with threadpool_limits(1):
        duration = seconds(lambda: model.predict(X_test))
        yield f"{name}: predict of all rows, a row, us", 1e6 * duration / len(X_test)
        duration = seconds(lambda: model.predict(X_test[:1]))
        yield f"{name}: predict of one row, us", 1e6 * duration


def main(args):
    X, y = load_digits(return_X_y=True)
    data = {"digits": train_test_split(X, y, random_state=0)}
    data["digits"] = [data["digits"][i] for i in (0, 2, 1, 3)]
    if args.data:
        X, y, X_test, y_test = read_fsvc(Path(args.data), "optd64")
        data["optd64"] = 8 * X + 8, y, 8 * X_test + 8, y_test  # to counts, 0 to 16
    fixed = {"random_state": 0, "device": "cpu"}
    rows = []
    for title, (X, y, X_test, y_test) in data.items():
        for kind, dtype in ((RBFClassifier, np.uint8), (RBFClassifier, np.float32),
                            (TanhClassifier, np.float32)):  # fmt: skip
            name = f"{title}, {kind.__name__}, {np.dtype(dtype).name}"
            some = X.astype(dtype), y.astype(int), X_test.astype(dtype), y_test.astype(int)
            rows += measure(name, kind(args.units, **fixed), *some)
    report(args, f"C headers of {args.units} units", rows)


if __name__ == "__main__":
    main(arguments(data={}, units={"type": int, "default": 300}))
