"""Find the size from which a second thread pays off, by routine.

These are `MIN_PARALLEL_WORK` of `engines/algebra.py`.

python benchmarks/blas.py [--json FILE]

Each routine on matrices of many orders: one call in one thread, and parts on two threads. A second
thread pays off if it saves 10 % at this size and at all larger ones; the last lines have these
sizes, as binary logarithms of the number of multiplications. Times are minima of many repetitions,
to exclude other processes. On a machine that is never idle two threads cannot be timed; then the
table has the size that takes one thread a third of a millisecond.
"""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from _report import arguments, report
from sklearn_fsvc._src.engines import lapack
from sklearn_fsvc._src.engines.algebra import MIN_PARALLEL_WORK, Blocking, HostAlgebra

ORDERS = (64, 100, 150, 200, 300, 400, 600, 1000)
# Rows per column of a tall matrix.
TALL = 8
# Minimal repetitions of both, and limit of their seconds.
MIN_REPEATS, SECONDS = 9, 0.5
# Required saving by a second thread.
SAVED = 0.1


class TwoThreads(HostAlgebra):
    """Cuts every operation into parts, and computes them on two threads."""

    blocking = Blocking(min_work={routine: {4: 1, 8: 1} for routine in MIN_PARALLEL_WORK})

    @staticmethod
    def n_threads():
        return 2


PARTS = TwoThreads()


def cases(order, dtype):
    """Return {routine: (multiplications, function in parts, function in one call)}."""
    rng = np.random.default_rng(0)
    H = rng.standard_normal((TALL * order, order)).astype(dtype)
    S, C = H[:order], np.zeros((order, order), dtype, order="F")
    L, B = np.eye(order, dtype=dtype, order="F"), np.asfortranarray(S)
    return {
        "gemm": (
            order**3,
            lambda: PARTS.gemm(C, S.T, S, beta=0.0),
            lambda: lapack.gemm(C, S.T, S, 1.0, 0.0),
        ),
        "syrk": (
            order**3 // 2,
            lambda: PARTS.syrk(C, S.T, beta=0.0),
            lambda: lapack.syrk(C, S.T, 1.0, 0.0),
        ),
        "sums": (
            TALL * order**3 // 2,
            lambda: PARTS.syrk(C, H.T, beta=0.0, allow_workspace=True),
            lambda: lapack.syrk(C, H.T, 1.0, 0.0),
        ),
        "trsm": (
            order**3 // 2,
            lambda: PARTS.solve_lower(L, B),
            lambda: lapack.trsm(L, B, False, False),
        ),
    }


def in_turn(*functions):
    """Return the minimal seconds of each."""
    times, begin = [[] for _ in functions], time.perf_counter()
    while len(times[0]) < MIN_REPEATS or time.perf_counter() - begin < SECONDS:
        for function, results in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            results.append(time.perf_counter() - start)
    return [min(results) for results in times]


def parallel_threshold(measured):
    """Return log2 of the work from which on all ratios save enough, None if the last does not."""
    worth = None
    for work, ratio in sorted(measured, reverse=True):
        if ratio < 1 / (1 - SAVED):
            break
        worth = np.log2(work)
    return worth


def main(args):
    rows, results = [], {}
    for dtype in map(np.dtype, (np.float32, np.float64)):
        for order in ORDERS:
            for name, (work, ours, whole) in cases(order, dtype).items():
                alone, shared = in_turn(whole, ours)
                what = f"{name} {dtype.name} {order} (2^{np.log2(work):.1f})"
                rows.append((f"{what}: one thread, ms", 1e3 * alone))
                rows.append((f"{what}: one over two", alone / shared))
                results.setdefault((name, dtype.name), []).append((work, alone / shared))
    for (name, dtype), measured in results.items():
        least = parallel_threshold(measured)
        rows.append((f"{name} {dtype}: worth from 2^", np.inf if least is None else least))
    report(args, "what is worth a second thread", rows)


if __name__ == "__main__":
    with threadpool_limits(2, "blas"):
        main(arguments())
