"""Measure how often models depend on the machine, and what it costs that they do not.

python benchmarks/same_model.py [--device cuda] [--problems N] [--units N ...] [--json FILE]

Random problems of bytes are fitted by code for this processor and for two older ones, each in a
process of its own: models whose centres differ; and of the others, those whose coefficients,
temperatures or penalties differ in any bit, with exact solutions (`readouts/exact_solution.py`) and
with solutions in floats; with a given penalty, and with ``alpha="auto"``. On x86-64 with AVX2. The
oldest one has no fused multiply-add, as the engine "blas".

Cost: fits with everything given and random centres, which are the fastest, with exact solutions
against solutions in floats, in CPU time.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from _report import arguments, report
from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.readouts import statistics
from sklearn_fsvc._src.targets import labels

MACHINES = [
    {},
    {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
    {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
]
BLAS = None, "Haswell", "Prescott"
FITTED = (
    "support_", "readout_coef_", "readout_intercept_", "temperature_", "score_scale_", "alpha_",
)  # fmt: skip


def bytes_of(rng, n_rows, n_features=64, n_classes=10, noise=40.0):
    """Return samples of bytes, three clusters for each class, and a radius."""
    means = 128 + 40 * rng.normal(size=(3 * n_classes, n_features))
    y = rng.integers(0, len(means), n_rows)
    X = np.clip(means[y] + noise * rng.normal(size=(n_rows, n_features)), 0, 255).astype(np.uint8)
    distances = np.abs(X[:100, None].astype(float) - X[100:200]).sum(axis=2)
    return X, y % n_classes, float(np.median(distances))


@contextmanager
def in_floats():
    """Keep solutions and temperatures as floats were rounded."""
    with (
        patch.object(statistics, "solve_exactly", lambda *_: None),
        patch.object(labels, "round_calibrated", lambda values: values),
    ):
        yield


def print_models(args):
    """Print the fitted attributes of all problems as hexadecimal numbers."""
    rng = np.random.default_rng(0)
    for _ in range(args.problems):
        n_rows, n_classes = int(10 ** rng.uniform(2.4, 3.6)), int(rng.integers(2, 8))
        X, y, radius = bytes_of(rng, n_rows, int(rng.integers(5, 60)), n_classes)
        options = {
            "n_hidden": int(min(0.7 * n_rows, 10 ** rng.uniform(1.7, 2.8))), "precision": 8,
            "kernel": "triangular", "radius": radius * rng.uniform(0.5, 2), "random_state": 0,
            "feature_weights": None, "device": args.device,
        }  # fmt: skip
        alpha = float(10 ** rng.uniform(-3, 1.5))
        for penalty in (alpha, "auto"):
            models = [RBFClassifier(alpha=penalty, **options).fit(X, y)]
            with in_floats():
                models.append(RBFClassifier(alpha=penalty, **options).fit(X, y))
            arrays = (np.asarray(getattr(m, name)) for m in models for name in FITTED)
            print(*(array.tobytes().hex() for array in arrays))


def differences(args):
    """Yield percentages of the models of which one attribute is not the same on each machine."""
    lines = []
    for variables, blas in zip(MACHINES, BLAS, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            env = os.environ | variables
            if blas is not None:
                env |= {"NUMBA_CACHE_DIR": folder, "OPENBLAS_CORETYPE": blas}
            command = [sys.executable, "-W", "ignore", __file__, "--print", "yes"]
            command += ["--problems", str(args.problems), "--device", args.device]
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
        lines.append([line.split() for line in done.stdout.splitlines()])
    values = np.array(lines, dtype=object)
    differs = (values != values[0]).any(axis=0)
    for i, penalty in enumerate(("given", "auto")):
        for j, arithmetic in enumerate(("exact", "in floats")):
            is_different = differs[i::2, len(FITTED) * j :][:, : len(FITTED)]
            if not i and not j:
                yield "centres differ, %", 100 * is_different[:, 0].mean()
            shares = is_different[~is_different[:, 0]].mean(axis=0)
            for name, share in zip(FITTED[1:], shares[1:], strict=True):
                yield f"alpha {penalty}, {arithmetic}: {name} differs, %", 100 * share


def costs(args):
    """Yield ratios of the CPU time of fits with exact solutions to that of fits in floats."""
    rng = np.random.default_rng(0)
    for n_units in args.units:
        for rows_per_unit in (4, 15):
            X, y, radius = bytes_of(rng, rows_per_unit * n_units)
            for alpha in (0.1, 10.0):
                model = RBFClassifier(
                    n_units, kernel="triangular", radius=radius, precision=8, alpha=alpha,
                    selection="random", feature_weights=None, random_state=0, device=args.device,
                )  # fmt: skip
                exact, floats = [], []
                for _ in range(args.repeats + 1):
                    exact.append(seconds(model, X, y))
                    with in_floats():
                        floats.append(seconds(model, X, y))
                ours, plain = np.median(exact[1:]), np.median(floats[1:])
                what = f"{n_units} units, {len(X)} rows, alpha={alpha}"
                yield f"{what}: exact / in floats", ours / plain
                yield f"{what}: exact, s", ours


def seconds(model, X, y):
    clock = time.perf_counter if model.device == "cuda" else time.process_time
    start = clock()
    model.fit(X, y)
    return clock() - start


def main(args):
    results = list(differences(args))
    report(args, "Models that depend on the machine", results, problems=args.problems)
    if args.units:
        report(args, "Cost of exact solutions", list(costs(args)), device=args.device)


if __name__ == "__main__":
    args = arguments(
        device={"choices": ["jit", "blas", "mkl", "cuda"], "default": "jit"},
        problems={"type": int, "default": 300},
        units={"type": int, "nargs": "*", "default": [300, 1000, 4000]},
        repeats={"type": int, "default": 5},
        print={"help": "(a process that is started by this script)"},
    )
    if args.print:
        print_models(args)
    else:
        main(args)
