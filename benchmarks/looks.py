"""The share of a fit and of a prediction that the looks for numbers out of range take, in percent.

python benchmarks/looks.py [--rows 20000] [--rounds 15] [--json FILE]

Two versions of a program differ by more from one run to the next than these looks cost, so the time
is taken inside: of each function that looks whether a sum or an answer is a number. In one thread,
medians over the rounds.
"""

import os
import time
from statistics import median

os.environ["OMP_NUM_THREADS"] = "1"  # before anything counts threads

import numpy as np

from _report import arguments, report
from sklearn_fsvc import RBFRegressor, TanhClassifier, TanhProjector
from sklearn_fsvc._src.data import streaming
from sklearn_fsvc._src.engines import blas, jit
from sklearn_fsvc._src.readouts import dual, linear, ridge

LOOKS = (
    (jit, "may_overflow"), (jit, "repair_overflow"),
    (blas, "may_overflow"), (blas, "repair_overflow"),
    (streaming, "check_hidden"), (linear, "check_numbers"), (ridge, "check_numbers"),
    (dual, "check_numbers"),
)  # fmt: skip
GIVEN = {"alpha": 1.0, "feature_weights": None, "random_state": 0, "device": "jit"}


class Watch:
    """How long the looks have taken."""

    def __init__(self):
        self.seconds = 0.0
        for module, name in LOOKS:
            setattr(module, name, self._timed(getattr(module, name)))

    def _timed(self, function):
        def timed(*args, **kwargs):
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

        return timed

    def share(self, work, rounds):
        work()  # compiled, and warm
        shares = []
        for _ in range(rounds):
            start, self.seconds = time.perf_counter(), 0.0
            work()
            shares.append(100 * self.seconds / (time.perf_counter() - start))
        return median(shares)


def works(n_rows):
    """(name, what does the work) of each."""
    rng = np.random.default_rng(0)
    rbf = {"kernel": "gaussian", "radius": 20.0, "selection": "random"}
    for n in (10, 100, 784):
        X = rng.normal(size=(n_rows, n)).astype(np.float32)
        y = (X[:, 0] > X[:, 1]).astype(int)
        for model in (TanhClassifier(1000, **GIVEN), RBFRegressor(1000, **GIVEN, **rbf)):
            name = f"{type(model).__name__}, {n} features"
            yield f"{name}, fit", lambda m=model, X=X, y=y: m.fit(X, y)
            yield f"{name}, predict", lambda m=model, X=X: m.predict(X)
        projector = TanhProjector(100, random_state=0, device="jit").fit(X)
        yield (
            f"TanhProjector(100), {n} features, transform",
            lambda p=projector, X=X: p.transform(X),
        )


def main(args):
    watch = Watch()
    rows = [(f"{name}, %", watch.share(work, args.rounds)) for name, work in works(args.rows)]
    report(args, f"Share of the looks for numbers out of range, {args.rows} rows", rows)


if __name__ == "__main__":
    main(
        arguments(rows={"type": int, "default": 20_000}, rounds={"type": int, "default": 15}),
    )
