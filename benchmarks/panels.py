"""Measure factorisation in panels: speed, fits, and delays of other threads.

python benchmarks/panels.py [--device cuda] [--json FILE] [--order N ...] [--units N ...]
    [--data DIR]

Factorisation in panels against one call for the full matrix (LAPACK of SciPy, or cuSOLVER), at
each order. Fits of TanhClassifier with each number of units on synthetic samples, or on MNIST with
`--data`, with their peak memory; each in a process of its own. During a fit a second thread
sleeps for a millisecond repeatedly: its longest sleep is the time for which it was blocked.
"""

import resource
import subprocess
import sys
import threading
import time

import numpy as np

from _report import arguments, report
from sklearn_fsvc import TanhClassifier
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.readouts.packed_symmetric import PackedSymmetric
from sklearn_fsvc._src.tuning import medians

FEATURES = 64
CLASSES = 10


def factorisations(args, engine, order):
    """Return the seconds in panels, and of one call."""
    algebra, xp = engine.algebra, engine.xp
    panels = PackedSymmetric(order, algebra)
    panels.add_gram(xp.asarray(np.random.default_rng(0).normal(size=(64, order))))
    panels.add_to_diagonal(float(order))
    full = panels.full()

    def by_panels():
        assert panels.copy().factorise()

    def by_one_call():
        assert algebra.factorise(full.copy(order="F"))

    copies = {"panels": panels.copy, "full": lambda: full.copy(order="F")}
    work = {"by panels": by_panels, "by one call": by_one_call}
    times = medians(copies | work, args.repeats, 300, engine.stopwatch)
    return times["by panels"] - times["panels"], times["by one call"] - times["full"]


def rows(n, folder=None):
    if folder:
        return [part[:n] for part in load_images(folder)[:2]]
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n)
    means = rng.normal(size=(CLASSES, FEATURES)).astype(np.float32)
    return means[y] + 2 * rng.standard_normal((n, FEATURES), np.float32), y


class Ticker(threading.Thread):
    """A thread that sleeps for a millisecond repeatedly, and records its longest sleep."""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest, self._done = 0.0, threading.Event()

    def run(self):
        last = time.perf_counter()
        while not self._done.is_set():
            time.sleep(1e-3)
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last), now

    def stop(self):
        self._done.set()
        self.join()
        return self.longest


def fit(args, units):
    """Return (seconds, peak bytes, longest sleep of another thread) of a fit."""
    X, y = rows(args.rows, args.data)
    model = TanhClassifier(units, alpha=10.0, random_state=0, device=args.device)
    model.set_params(n_hidden=64).fit(X[:1000], y[:1000])  # compiles
    model.set_params(n_hidden=units)
    ticker = Ticker()
    with get_engine(args.device) as engine:
        if engine.xp is not np:
            pool = engine.xp.get_default_memory_pool()
            pool.free_all_blocks()
        ticker.start()
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        longest = ticker.stop()
        if engine.xp is not np:
            return seconds, pool.total_bytes(), longest
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, longest


def fit_alone(args, units):
    """Run `fit` in a process of its own."""
    command = [sys.executable, __file__, "--device", args.device, "--rows", str(args.rows)]
    command += ["--fit", str(units), *(["--data", args.data] if args.data else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return map(float, done.stdout.split())


def main(args):
    results = []
    with get_engine(args.device) as engine:
        for order in args.order:
            panels, one = factorisations(args, engine, order)
            rate = order**3 / 3e12
            results += [
                (f"order {order}: by panels, TFLOP/s", rate / panels),
                (f"order {order}: by one call, TFLOP/s", rate / one),
                (f"order {order}: one call / panels", one / panels),
            ]
    for units in args.units:
        seconds, peak, longest = fit_alone(args, units)
        results += [
            (f"{units} units, {args.rows} rows: fit, s", seconds),
            (f"{units} units: peak memory, GB", peak / 1e9),
            (f"{units} units: peak memory / 4 m^2 bytes", peak / (4 * units**2)),
            (f"{units} units: longest wait of another thread, ms", 1e3 * longest),
        ]
    report(args, "panels", results, device=args.device)


if __name__ == "__main__":
    args = arguments(
        device={"default": "cpu"},
        order={"type": int, "nargs": "*", "default": [8192]},
        units={"type": int, "nargs": "*", "default": [8192]},
        rows={"type": int, "default": 60_000},
        repeats={"type": int, "default": 7},
        data={},
        fit={"type": int},
    )
    if args.fit:
        print(*fit(args, args.fit))
    else:
        main(args)
