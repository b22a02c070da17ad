"""Measure the share of fit and predict that checks for overflow take, in percent.

python benchmarks/validation_cost.py [--rows 20000] [--rounds 15] [--json FILE]

Run-to-run variation is larger than the cost of these checks, so that versions with and without
them cannot be compared. Instead the functions that check sums and outputs for non-finite values
are timed within the calls. One thread, medians over the rounds.
"""

import os
import time
from statistics import median

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy starts its threads

import numpy as np

from _report import arguments, report
from sklearn_fsvc import RBFRegressor, TanhClassifier, TanhProjector
from sklearn_fsvc._src.data import streaming
from sklearn_fsvc._src.engines import blas, jit
from sklearn_fsvc._src.readouts import dual, gather_statistics, linear

CHECKS = (
    (jit, "may_overflow"), (jit, "repair_overflow"),
    (blas, "may_overflow"), (blas, "repair_overflow"),
    (streaming, "check_hidden"), (linear, "check_no_nan"), (gather_statistics, "check_no_nan"),
    (dual, "check_no_nan"),
)  # fmt: skip
FIXED = {"alpha": 1.0, "feature_weights": None, "random_state": 0, "device": "jit"}


class CheckTimer:
    """Replaces the checks by timed ones, and adds up their seconds."""

    def __init__(self):
        self.seconds = 0.0
        for module, name in CHECKS:
            setattr(module, name, self._timed(getattr(module, name)))

    def _timed(self, function):
        def timed(*args, **kwargs):
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

        return timed

    def share(self, call, rounds):
        """Return the percentage of a call that the checks take."""
        call()  # compile, and warm up
        shares = []
        for _ in range(rounds):
            start, self.seconds = time.perf_counter(), 0.0
            call()
            shares.append(100 * self.seconds / (time.perf_counter() - start))
        return median(shares)


def calls(n_rows):
    """Yield (name, function without arguments)."""
    rng = np.random.default_rng(0)
    rbf = {"kernel": "gaussian", "radius": 20.0, "selection": "random"}
    for n in (10, 100, 784):
        X = rng.normal(size=(n_rows, n)).astype(np.float32)
        y = (X[:, 0] > X[:, 1]).astype(int)
        for model in (TanhClassifier(1000, **FIXED), RBFRegressor(1000, **FIXED, **rbf)):
            name = f"{type(model).__name__}, {n} features"
            yield f"{name}, fit", lambda m=model, X=X, y=y: m.fit(X, y)
            yield f"{name}, predict", lambda m=model, X=X: m.predict(X)
        projector = TanhProjector(100, random_state=0, device="jit").fit(X)
        yield (
            f"TanhProjector(100), {n} features, transform",
            lambda p=projector, X=X: p.transform(X),
        )


def main(args):
    timer = CheckTimer()
    rows = [(f"{name}, %", timer.share(call, args.rounds)) for name, call in calls(args.rows)]
    report(args, f"Share of overflow checks, {args.rows} samples", rows)


if __name__ == "__main__":
    main(
        arguments(rows={"type": int, "default": 20_000}, rounds={"type": int, "default": 15}),
    )
