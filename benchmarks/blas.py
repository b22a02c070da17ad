"""From which work on a second thread gains, by routine: the table `WORTH` of `engines/algebra.py`.

python benchmarks/blas.py [--json FILE]

Each routine on matrices of many orders: one call in one thread, and parts that two threads share.
A second thread is worth it where it saves a tenth.
"""

import statistics
import time

import numpy as np
from threadpoolctl import threadpool_limits

from _report import arguments, report
from sklearn_fsvc.engines import algebra
from sklearn_fsvc.engines.algebra import HOST, _gemm, _syrk, _trsm

ORDERS = (50, 100, 200, 400, 600, 1000, 2000)
REPEATS = 9


def cases(order, dtype):
    """routine -> (multiplications, in parts, in one call)."""
    rng = np.random.default_rng(0)
    H = rng.standard_normal((4 * order, order)).astype(dtype)
    C, L = np.zeros((order, order), dtype, order="F"), np.eye(order, dtype=dtype, order="F")
    B = np.asfortranarray(H.T)
    return {
        "gemm": (
            H.size * order,
            lambda: HOST.gemm(C, H.T, H, keep=0.0),
            lambda: _gemm(C, H.T, H, 1.0, 0.0),
        ),
        "syrk": (
            H.size * order // 2,
            lambda: HOST.syrk(C, H.T, keep=0.0, has_room=True),
            lambda: _syrk(C, H.T, 1.0, 0.0),
        ),
        "trsm": (
            H.size * order // 2,
            lambda: HOST.solve_lower(L, B),
            lambda: _trsm(L, B, False, False),
        ),
    }


def in_turn(*functions):
    """Median seconds of each."""
    times = [[] for _ in functions]
    for _ in range(REPEATS):
        for function, found in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def with_threads(n, function):
    def run():
        algebra.n_threads = lambda: n
        function()

    return run


def main(args):
    rows, worth = [], algebra.WORTH
    for dtype in (np.float32, np.float64):
        for order in ORDERS:
            for name, (work, ours, whole) in cases(order, dtype).items():
                algebra.WORTH = dict.fromkeys(worth, 1)
                alone, shared = in_turn(whole, with_threads(2, ours))
                what = f"{name} {np.dtype(dtype).name} {order} (2^{np.log2(work):.1f})"
                rows.append((f"{what}: one thread, ms", 1e3 * alone))
                rows.append((f"{what}: one over two", alone / shared))
    algebra.WORTH = worth
    report(args, "what is worth a second thread", rows)


if __name__ == "__main__":
    with threadpool_limits(2, "blas"):
        main(arguments())
