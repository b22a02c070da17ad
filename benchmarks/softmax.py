"""The softmax readout beside the pipeline that scikit-learn users would write instead.

python benchmarks/softmax.py --data DIR [--units 4096] [--rows 60000] [--alpha 1] [--max-iter 2000]
    [--repeats 1] [--device cpu] [--json FILE]    DIR holds mnist/, as _data.py says

Both sides in one process, on the same layer: make_pipeline(TanhProjector(units),
LogisticRegression(C=1 / alpha)), which has H in memory, and TanhClassifier(units,
readout="softmax", alpha=alpha), which has not. The peer is given iterations until the objectives
differ by less than 1e-4 or so: its own default of 100 stops far before. What each allocates at
most is what NumPy reports, in fits of their own of a few iterations (--memory).

With --device cuda both sides are on the GPU: the peer takes arrays of CuPy by SciPy's array API.
"""

import os
import sys

if "cuda" in sys.argv:  # read by SciPy as it is imported
    os.environ.setdefault("SCIPY_ARRAY_API", "1")

import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline

from _report import arguments, report
from sklearn_fsvc import TanhClassifier, TanhProjector
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.estimators import readouts
from sklearn_fsvc._src.readouts.softmax import train_softmax

FEW = 3  # iterations of a fit whose memory is watched


def objective(p, y, coef, alpha):
    """Sum of the log-losses of the rows, and the penalty."""
    return log_loss(y, p, normalize=False) + alpha / 2 * float((coef.astype(float) ** 2).sum())


def seconds(model, X, y):
    """Of a fit, and of all its cores."""
    start = time.perf_counter(), time.process_time()
    model.fit(X, y)
    return time.perf_counter() - start[0], time.process_time() - start[1]


def peak(model, X, y):
    """GB that a fit allocates at most, beside its rows."""
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        return tracemalloc.get_traced_memory()[1] / 1e9
    finally:
        tracemalloc.stop()


def counted(passes):
    """Have the passes over the rows of each softmax fit added to a list."""

    def train(*args, **options):
        found = train_softmax(*args, **options)
        passes.append(found.n_passes)
        return found

    readouts.train_softmax = train


def _on_host(array):
    return array.get() if hasattr(array, "get") else array


def main(args):
    with sklearn.config_context(array_api_dispatch=args.device == "cuda"):
        compare(args)


def compare(args):
    X, y, X_test, y_test, _ = load_images(args.data / "mnist")
    X, y, X_test = X[: args.rows] / np.float32(255), y[: args.rows], X_test / np.float32(255)
    options = {"random_state": 0, "device": args.device}
    layer = TanhProjector(args.units, **options)
    peer = make_pipeline(
        layer, LogisticRegression(C=1 / args.alpha, tol=1e-6, max_iter=args.max_iter)
    )
    ours = TanhClassifier(
        args.units, readout="softmax", alpha=args.alpha, feature_weights=None, **options
    )
    models = {"TanhProjector + LogisticRegression": peer, "TanhClassifier, softmax": ours}
    TanhClassifier(50, readout="softmax", alpha=1.0, **options).fit(X[:2000], y[:2000])  # compile
    fits, passes = {name: [] for name in models}, []
    counted(passes)
    there = dict.fromkeys(models, (X, X_test))
    if args.device == "cuda":
        import cupy

        there[next(iter(models))] = cupy.asarray(X), cupy.asarray(X_test)
    for _ in range(args.repeats):
        for name, model in models.items():
            fits[name].append(seconds(model, there[name][0], y))
    rows = []
    for name, model in models.items():
        p, p_test = (_on_host(model.predict_proba(part)) for part in there[name])
        coef = _on_host(model.readout_coef_ if model is ours else model[-1].coef_)
        answers = model.classes_[p_test.argmax(axis=1)]
        rows += [
            (f"{name}: fit, s", float(np.median(fits[name], axis=0)[0])),
            (f"{name}: fit, CPU s", float(np.median(fits[name], axis=0)[1])),
            (f"{name}: iterations", float(np.max((ours if model is ours else model[-1]).n_iter_))),
            (f"{name}: objective", objective(p, y, coef, args.alpha)),
            (f"{name}: accuracy, %", 100 * accuracy_score(y_test, answers)),
            (f"{name}: log-loss", log_loss(y_test, p_test)),
        ]  # fmt: skip
        if args.memory:
            few = clone(model)
            few = few if model is ours else few.set_params(logisticregression__max_iter=FEW)
            rows.append((f"{name}: peak memory, GB", peak(few, X, y)))
    rows.append((f"{name}: passes over the rows", passes[0]))
    theirs, own = (fits[name] for name in models)
    wall, cpu = np.median(np.divide(theirs, own), axis=0)
    rows += [("time, theirs / ours", float(wall)), ("CPU time, theirs / ours", float(cpu))]
    report(args, f"Softmax readout, {len(X)} images, {args.units} units", rows)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True, "type": Path}, units={"type": int, "default": 4096},
            rows={"type": int, "default": 60_000}, alpha={"type": float, "default": 1.0},
            **{"max-iter": {"type": int, "default": 2000}},
            repeats={"type": int, "default": 1}, device={"default": "cpu"},
            memory={"action": "store_true"},
        )
    )  # fmt: skip
